"""The thesis bundle: one folder with figures, tables, methods, references and a document for LaTeX, or for Word."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.report.blocks import Block, Bullets, Grid, Heading, Paragraph, Picture, Shown
from toolkit.report.escape import escape_breaking, label_of, readable
from toolkit.report.manifest import DOCUMENT, claim_folder, write_manifest
from toolkit.report.show import Files, plain_text
from toolkit.report.style import COLUMN_MM, PAGE_MM
from toolkit.stats import WORDS
from toolkit.thesis.findings import Findings, findings_lines
from toolkit.thesis.methods import bibliography, known_references, methods_latex, methods_text, templates
from toolkit.words import choices

NOTES = "Notes to figures and tables"
Numbered = tuple[str, str]
"""The number of a figure or table in a document, and what LaTeX refers to it by."""


def bundle_place(folder: Path, status: Mapping[str, Any]) -> Path:
    """Return the folder of a bundle where it may be written, and there is something to write."""
    if not status["done"]:
        raise InputError(
            f"study {status['study']}: no run has succeeded yet, so there is nothing to bundle; run it first"
        )
    claim_folder(status["study"], folder)
    return folder


def write_bundle(
    folder: Path,
    drawn: Files,
    section: Sequence[Paragraph],
    findings: Findings,
    manifest: Mapping[str, Any],
    *,
    format: str = "latex",
) -> Files:
    """Write figures and tables as a bundle of LaTeX, and of Word, the manifest last: the same bytes each time."""
    study, kind = str(manifest["study"]), str(manifest.get("kind", "Study"))
    written = [
        write_atomically(folder / "figures" / f"{shown.name}.tex", shown.block.latex(study).encode())
        for shown in drawn.shown
        if isinstance(shown.block, Picture)
    ]
    # All statistics are for an appendix: the document itself stays short.
    appendix = [shown for shown in drawn.shown if shown.folder == "statistics"]
    parts = [shown for shown in drawn.shown if shown not in appendix]
    reasons = tuple(f"{name}: {reason}" for name, reason in drawn.left_out.items())
    absent = Bullets("Figures that this study cannot give:", reasons) if reasons else None
    numbered = list(_numbered(parts, study))
    places = {f"{shown.folder}/{shown.name}": number for shown, number in numbered}
    # A paragraph of the results ends with the figures and tables of its question, as far as they are there.
    shown_with = {
        words.get("heading", words.get("title")): words.get("shown", ()) for words in WORDS.values()
    }
    results = [
        replace(part, shown=tuple(places[n] for n in shown_with.get(part.heading, ()) if n in places))
        for part in findings.section()
    ]
    cited = {key for paragraph in section for sentence in paragraph.sentences for key in sentence.cite}
    texts = {
        "preamble.tex": (files("toolkit.thesis") / "preamble.tex").read_text(encoding="utf-8"),
        "figures.tex": _inputs(numbered),
        "methods.tex": methods_latex(section),
        "methods.txt": methods_text(section),
        "findings.tex": methods_latex(results),
        "findings.txt": readable("\n".join(findings_lines(results))) + "\n",
        "references.bib": bibliography(cited),
        "all_references.bib": bibliography(known_references()),
        f"{DOCUMENT}.tex": templates()
        .get_template("thesis/bundle.jinja")
        .render(kind=kind, study=escape_breaking(study), has_statistics=bool(appendix), left_out=absent),
    }
    if appendix:
        texts["statistics.tex"] = _inputs(list(_numbered(appendix, study)))
    written += [write_atomically(folder / name, text.encode()) for name, text in texts.items()]
    written.append(write_atomically(folder / "findings.csv", csv_bytes(findings.frame())))
    if format != "latex":
        blocks: list[Block] = [Heading("Methods"), *section, Heading("Results"), *results]
        blocks.append(Heading("Figures and tables"))
        notes = tuple(f"{number}. {shown.notes}" for shown, (number, _) in numbered if shown.notes)
        blocks += [*filter(None, [absent]), *(shown.block for shown in parts), Bullets(NOTES, notes)]
        written.append(write_document(folder, f"{kind} {study}", blocks, study))
    paths = [*drawn, *written]
    return Files([*paths, write_manifest(folder, manifest, paths)], drawn.shown, drawn.left_out)


def _inputs(numbered: Sequence[tuple[Shown, Numbered]]) -> str:
    r"""Return what takes up each file, then the notes; tables that float come out before one that goes over pages."""
    lines: list[str] = []
    for shown, _ in numbered:
        path = f"{shown.folder}/{shown.name}.tex"
        if isinstance(shown.block, Picture):
            lines.append(rf"\input{{\bundlehome {path}}}")
        elif shown.block.is_long:
            # A longtable stands where it is, and would overtake floats that have smaller numbers.
            lines += [r"\clearpage"] * bool(lines) + [rf"\bundlelong{{{path}}}"]
        else:
            lines.append(rf"\bundletable{{{path}}}")
    lines = [r"\begingroup\bundlehere", *lines, r"\endgroup"]
    notes = [rf"\item[{ref}] {escape_breaking(shown.notes)}" for shown, (_, ref) in numbered if shown.notes]
    if notes:  # after figures that float
        head = rf"\clearpage\paragraph{{{NOTES}}}\mbox{{}}"
        lines += [head, r"\begin{description}\small", *notes, r"\end{description}"]
    return "".join(f"{line}\n" for line in lines)


def _numbered(parts: Iterable[Shown], study: str) -> Iterator[tuple[Shown, Numbered]]:
    """Yield figures and tables with their number in a document, and the reference of LaTeX to it."""
    numbers = {"Figure": count(1), "Table": count(1)}
    for shown in parts:
        kind, label, name = "Figure", "fig", shown.name
        if isinstance(shown.block, Grid):
            kind, label, name = "Table", "tab", shown.block.label
        yield shown, (f"{kind} {next(numbers[kind])}", rf"{kind}~\ref{{{label}:{label_of(name, study)}}}")


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
