"""The bundle as one document for those without LaTeX: its parts for Word, written by pandoc."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.report.blocks import Block, Bullets, Grid, Heading, Paragraph, Picture
from toolkit.report.escape import label_of, readable
from toolkit.report.show import plain_text
from toolkit.report.style import COLUMN_MM, PAGE_MM
from toolkit.words import choices

FORMATS = ("latex", "docx")
"""Formats of a bundle: a document for Word stands beside that of LaTeX."""
_VERSION = [1, 23]  # of pandoc's document types
_EPOCH = "315532800"  # 1980, the first year of a zip: the same document is the same bytes
_NO_ATTRIBUTES = ["", [], []]

Node = dict[str, Any]


def check_format(name: str) -> None:
    """Refuse a format that is not known, or for which pandoc is lacking, before anything is calculated."""
    if name not in FORMATS:
        raise InputError(f"format {name!r}: {choices(name, FORMATS)}")
    if name != "latex":
        try:
            import pypandoc  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            raise InputError(
                f"format {name}: needs pandoc; pip install 'llm-security-toolkit[word]' brings it"
            ) from None


def write_document(folder: Path, title: str, blocks: Sequence[Block], study: str) -> Path:
    """Write ``bundle.docx`` into the folder of a bundle; its pictures and references stand there."""
    import pypandoc

    references = _node("Header", [1, _NO_ATTRIBUTES, _inlines("References")])
    meta = {"title": _node("MetaInlines", _inlines(title))}
    parts = [*_nodes(blocks, study), references]
    text = json.dumps({"pandoc-api-version": _VERSION, "meta": meta, "blocks": parts})
    options = ["--citeproc", "--bibliography=references.bib", "--wrap=none"]
    path = folder / "bundle.docx"
    with _at_the_epoch():
        # In the folder, so that the document names no path of this machine.
        pypandoc.convert_text(
            text, "docx", format="json", outputfile=path.name, extra_args=options, cworkdir=str(folder)
        )
    return path


def _node(kind: str, content: Any) -> Node:
    return {"t": kind, "c": content}


def _inlines(text: str) -> list[Node]:
    """Return text as pandoc has it: names of models and study files come alive as nothing."""
    words = plain_text(readable(text)).replace("'", "’").split()  # text of others
    nodes = [node for word in words for node in (_node("Str", word), {"t": "Space"})]
    return nodes[:-1]


def _plain(text: str) -> list[Node]:
    return [_node("Plain", _inlines(text))]


def _nodes(blocks: Sequence[Block], study: str) -> Iterator[Node]:
    """Yield what pandoc makes of each block; figures and tables have their number in their caption."""
    figures = tables = 0
    for block in blocks:
        match block:
            case Heading(text):
                yield _node("Header", [1, _NO_ATTRIBUTES, _inlines(text)])
            case Paragraph(sentences, heading, shown):
                yield from [_node("Header", [4, _NO_ATTRIBUTES, _inlines(f"{heading}.")])] if heading else ()
                inlines = [node for sentence in sentences for node in _sentence(sentence.text, sentence.cite)]
                yield _node("Para", [*inlines, *_inlines(block.see)] if shown else inlines[:-1])
            case Bullets(lead, items):
                yield _node("Para", _inlines(lead))
                yield _node("BulletList", [_plain(item) for item in items])
            case Picture():
                figures += 1
                yield _picture(block, f"Figure {figures}. {block.caption}", study)
            case Grid():
                tables += 1
                yield _table(block, f"Table {tables}. {block.caption}")


def _sentence(text: str, keys: Sequence[str]) -> list[Node]:
    citation = {"citationPrefix": [], "citationSuffix": [], "citationNoteNum": 0, "citationHash": 0}
    citations = [{"citationId": key, "citationMode": {"t": "NormalCitation"}, **citation} for key in keys]
    cite = [{"t": "Space"}, _node("Cite", [citations, []])] if keys else []
    return [*_inlines(text), *cite, _node("Str", "."), {"t": "Space"}]


def _picture(picture: Picture, caption: str, study: str) -> Node:
    """Return a figure with its alt text."""
    width = "100%" if picture.wide else f"{COLUMN_MM / PAGE_MM:.0%}"
    attributes = ["", [], [["width", width]]]
    image = _node("Image", [attributes, _inlines(picture.alt_text), [f"figures/{picture.name}.png", ""]])
    label = [f"fig:{label_of(picture.name, study)}", [], []]
    return _node("Figure", [label, [None, _plain(caption)], [_node("Plain", [image])]])


def _table(grid: Grid, caption: str) -> Node:
    """Return a table; heads of panels are bold, or they would pass for rows."""
    cell, rows = [_NO_ATTRIBUTES, {"t": "AlignDefault"}, 1, 1], []
    for number, texts in enumerate(grid.rows(), start=-1):
        is_head = number in (grid.panels or ())
        inlines = (
            [_node("Strong", _inlines(text))] if is_head and text else _inlines(text) for text in texts
        )
        rows.append([_NO_ATTRIBUTES, [[*cell, [_node("Plain", inline)]] for inline in inlines]])
    head, *body = rows
    columns = [[{"t": "AlignDefault"}, {"t": "ColWidthDefault"}] for _ in grid.frame]
    bodies = [[_NO_ATTRIBUTES, 0, [], body]]
    parts = [[None, _plain(caption)], columns, [_NO_ATTRIBUTES, [head]], bodies, [_NO_ATTRIBUTES, []]]
    return _node("Table", [_NO_ATTRIBUTES, *parts])


@contextmanager
def _at_the_epoch() -> Iterator[None]:
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = _EPOCH
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before
