"""The thesis bundle: one folder with figures, tables, methods, references and a document for LaTeX, or for Word."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from toolkit.errors import InputError
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.report.blocks import Block, Bullets, Grid, Heading, Paragraph, Picture, Shown
from toolkit.report.escape import escape_breaking, label_of, latex_templates, readable
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
    page = latex_templates().get_template("thesis/inputs.jinja")
    return page.render(numbered=numbered, notes=[pair for pair in numbered if pair[0].notes], title=NOTES)


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
_MARKDOWN = "markdown-auto_identifiers-smart"
_WIDE = ("--wrap=none", "--columns=1000000")  # no table is fitted to a line of the source
_EPOCH = "315532800"  # 1980, the first year of a zip: the same document is the same bytes
_SIGN = re.compile(r"[!-/:-@\[-`{-~]")  # text of others: each sign that Markdown may take for markup


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

    parts = [(type(block).__name__, block) for block in blocks]
    words = {"md": _markdown, "label": partial(label_of, study=study), "narrow": COLUMN_MM / PAGE_MM}
    text = latex_templates().get_template("thesis/document.jinja").render(words, parts=parts)
    options = [
        "--citeproc",
        "--bibliography=references.bib",
        f"--metadata=title:{plain_text(readable(title))}",
    ]
    path = folder / "bundle.docx"
    with patch.dict(os.environ, SOURCE_DATE_EPOCH=_EPOCH):
        # In the folder, so that the document names no path of this machine.
        pypandoc.convert_text(
            text,
            "docx",
            format=_MARKDOWN,
            outputfile=path.name,
            extra_args=[*options, *_WIDE],
            cworkdir=str(folder),
        )
    return path


def _markdown(text: str) -> str:
    """Return text as Markdown that prints it: names of models and study files come alive as nothing."""
    line = " ".join(plain_text(readable(text)).replace("'", "’").split())  # text of others
    return _SIGN.sub(r"\\\g<0>", line)
