"""The report as one HTML file, with nothing to load: text of models is text, figures are SVG with their data beside them."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from toolkit.files.tables import csv_bytes
from toolkit.report.escape import readable
from toolkit.report.figure import FigureWithCaption, render
from toolkit.report.manifest import write_own
from toolkit.report.show import Link
from toolkit.report.visible import visible
from toolkit.thesis.contents import Contents
from toolkit.thesis.methods import data_file, short_reference


def write_page(
    path: Path, title: str, note: str, contents: Contents, figures: Sequence[FigureWithCaption]
) -> Link:
    """Write the page in the place of nothing but an earlier one of the same study, and return its path."""
    paragraphs = [*contents.methods, *contents.supplement]
    cited = sorted({key for part in paragraphs for sentence in part.sentences for key in sentence.cite})
    pictures = {figure.name: _inline(figure) for figure in figures if not figure.left_out}
    mark = f"llm-security-toolkit, report of {contents.study}"
    words = {"title": title, "note": note, "contents": contents, "mark": mark, "pictures": pictures}
    text = _pages().get_template("report.jinja").render(words, cited=cited)
    # Characters that are in no HTML must not keep the page from being written.
    content = text.encode("utf-8", "backslashreplace")
    return Link(write_own(path, content, mark.encode()))


def _inline(figure: FigureWithCaption) -> Markup:
    """Return the figure as SVG for a page, without fonts and without names of namespaces, which look like addresses."""
    root = ElementTree.fromstring(render(figure, "svg", outlines=True))
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(attributes)
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    root.attrib |= {"role": "img"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704  # our own drawing, its text escaped


def _local(name: str) -> str:
    return name.rpartition("}")[2]  # text of others: a name as ElementTree writes it


def _csv(data: pd.DataFrame) -> str:
    return f"data:text/csv;base64,{b64encode(csv_bytes(data)).decode()}"


@cache
def _pages() -> Environment:
    """Return the template of the page, in which every value is text."""
    pages = Environment(
        loader=PackageLoader("toolkit", "thesis"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    pages.filters |= {
        "csv": _csv, "told": lambda text: visible(readable(str(text))), "verbatim": visible, "short": short_reference,
    }  # fmt: skip
    pages.globals |= {"reference": data_file("references.toml").get, "kind": lambda part: type(part).__name__}
    return pages
