"""The report as one HTML file that loads nothing: text of models is text, and figures have their data beside them."""

from base64 import b64encode
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
from markupsafe import Markup

from toolkit.files.tables import csv_bytes
from toolkit.report.escape import readable
from toolkit.report.figure import FigureWithCaption, render
from toolkit.report.manifest import write_own
from toolkit.report.show import Link
from toolkit.report.visible import visible
from toolkit.thesis.contents import Contents
from toolkit.thesis.methods import data_file, short_reference
from toolkit.words import pages


def write_page(path: Path, title: str, note: str, contents: Contents) -> Link:
    """Write the page in the place of nothing but an earlier one of the same study, and return its path."""
    mark = f"llm-security-toolkit, report of {contents.study}"
    filters = {
        "csv": _csv, "inline": _inline, "told": lambda text: visible(readable(str(text))), "verbatim": visible,
        "short": short_reference,
    }  # fmt: skip
    words = {"title": title, "note": note, "contents": contents, "mark": mark}
    page = pages("thesis", filters, autoescape=True).get_template("report.jinja")
    text = page.render(words, reference=data_file("references.toml").get)
    return Link(write_own(path, text.encode(), mark.encode()))


def _inline(figure: FigureWithCaption) -> Markup:
    """Return the figure as SVG for a page, without fonts and without names of namespaces, which look like addresses."""
    root = ElementTree.fromstring(render(figure, "svg", outlines=True))
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # our own drawing, its text escaped


def _local(name: str) -> str:
    return name.rpartition("}")[2]  # text of others: a name as ElementTree writes it


def _csv(data: pd.DataFrame) -> str:
    return f"data:text/csv;base64,{b64encode(csv_bytes(data)).decode()}"
