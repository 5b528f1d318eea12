"""The thesis bundle: one folder with figures, tables, methods, references and a document that compiles as it is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.report.blocks import Block, Bullets, Grid, Heading, Paragraph, Picture, Shown
from toolkit.report.escape import escape_breaking, label_of, readable
from toolkit.report.manifest import DOCUMENT, claim_folder, write_manifest
from toolkit.report.show import Files
from toolkit.stats import WORDS
from toolkit.table_files import csv_bytes
from toolkit.thesis.document import write_document
from toolkit.thesis.findings import Findings, findings_lines
from toolkit.thesis.methods import methods_latex, methods_text, templates
from toolkit.thesis.references import bibliography, known_references

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
    r"""Write what turns figures and tables into a bundle, the manifest last; the same study gives the same bytes.

    In another format than LaTeX there is a document of it besides.
    """
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
        replace(
            paragraph,
            shown=tuple(places[name] for name in shown_with.get(paragraph.heading, ()) if name in places),
        )
        for paragraph in findings.section()
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
        .get_template("bundle.jinja")
        .render(kind=kind, study=escape_breaking(study), has_statistics=bool(appendix), left_out=absent),
    }
    if appendix:
        texts["statistics.tex"] = _inputs(list(_numbered(appendix, study)))
    written += [write_atomically(folder / name, text.encode()) for name, text in texts.items()]
    written.append(write_atomically(folder / "findings.csv", csv_bytes(findings.frame())))
    if format != "latex":
        blocks: list[Block] = [Heading("Methods"), *section, Heading("Results"), *results]
        blocks.append(Heading("Figures and tables"))
        notes = Bullets(
            NOTES, tuple(f"{number}. {shown.notes}" for shown, (number, _) in numbered if shown.notes)
        )
        blocks += [*([absent] if absent else []), *(shown.block for shown in parts), notes]
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
    if notes := [
        rf"\item[{reference}] {escape_breaking(shown.notes)}"
        for shown, (_, reference) in numbered
        if shown.notes
    ]:
        lines += [
            rf"\clearpage\paragraph{{{NOTES}}}\mbox{{}}",  # figures that float come out before
            r"\begin{description}\small",
            *notes,
            r"\end{description}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _numbered(parts: Iterable[Shown], study: str) -> Iterator[tuple[Shown, Numbered]]:
    """Yield figures and tables with their number in a document, and the reference of LaTeX to it."""
    numbers = {"Figure": count(1), "Table": count(1)}
    for shown in parts:
        kind, label, name = "Figure", "fig", shown.name
        if isinstance(shown.block, Grid):
            kind, label, name = "Table", "tab", shown.block.label
        yield shown, (f"{kind} {next(numbers[kind])}", rf"{kind}~\ref{{{label}:{label_of(name, study)}}}")
