"""The thesis bundle: one folder with figures, tables, methods, references and a document for LaTeX, or for Word."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

from toolkit.errors import InputError
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.report.blocks import Block, Bullets, Heading, Part, Picture, block_latex
from toolkit.report.escape import escape_breaking, label_of, latex_templates, readable
from toolkit.report.manifest import DOCUMENT, claim_folder, write_manifest
from toolkit.report.show import Files, plain_text
from toolkit.report.style import COLUMN_MM, PAGE_MM
from toolkit.thesis.contents import Contents, Numbered
from toolkit.thesis.findings import findings_lines
from toolkit.thesis.methods import bibliography, known_references, methods_latex, methods_text, templates
from toolkit.words import choices

NOTES = "Notes to figures and tables"


def bundle_place(folder: Path, study: str, done: int) -> Path:
    """Return the folder of a bundle where it may be written, and there is something to write."""
    if not done:
        raise InputError(
            f"study {study}: no run has succeeded yet, so there is nothing to bundle; run it first"
        )
    claim_folder(study, folder)
    return folder


def write_bundle(
    folder: Path, drawn: Files, contents: Contents, manifest: Mapping[str, Any], *, format: str = "latex"
) -> Files:
    """Write figures and tables as a bundle of LaTeX, and of Word, the manifest last: the same bytes each time."""
    study, kind = str(manifest["study"]), str(manifest.get("kind", "Study"))
    written = [
        write_atomically(folder / "figures" / f"{shown.name}.tex", shown.block.latex(study).encode())
        for shown in drawn.shown
        if isinstance(shown.block, Picture)
    ]
    results, section, parts, further = contents.results, contents.methods, contents.parts, contents.further
    texts = {
        "preamble.tex": (files("toolkit.thesis") / "preamble.tex").read_text(encoding="utf-8"),
        "figures.tex": _inputs(parts),
        "methods.tex": methods_latex(section),
        "methods.txt": methods_text(section),
        "findings.tex": methods_latex(results),
        "findings.txt": readable("\n".join(findings_lines(results))) + "\n",
        "appendix.tex": "\n".join(map(block_latex, contents.appendix)),
        "references.bib": bibliography(contents.cited),
        "all_references.bib": bibliography(known_references()),
        f"{DOCUMENT}.tex": templates()
        .get_template("thesis/bundle.jinja")
        .render(kind=kind, study=escape_breaking(study), contents=contents),
    }
    absent = [contents.absent] if contents.absent else []
    if further or contents.supplement:
        lead = [methods_latex(contents.supplement), *map(block_latex, absent)]
        texts["supplement.tex"] = "\n".join([*lead, _inputs(further)])
        texts["supplement.txt"] = methods_text(contents.supplement)
    encoded = dict(contents.files) | {name: text.encode() for name, text in texts.items()}
    written += [write_atomically(folder / name, content) for name, content in encoded.items()]
    written.append(write_atomically(folder / "findings.csv", csv_bytes(contents.findings.frame())))
    if format != "latex":
        blocks: list[Block] = [Heading("Methods"), *section, Heading("Results"), *results]
        blocks += [Heading("Figures and tables"), *_blocks(parts)]
        blocks += [Heading("Appendix"), *contents.appendix] if contents.appendix else []
        if "supplement.tex" in texts:
            rest = [part for part in further if part[0].folder != "statistics"]
            blocks += [Heading("Supplement"), *contents.supplement, *absent, *_blocks(rest)]
        written.append(write_document(folder, f"{kind} {study}", blocks, study))
    paths = [*drawn, *written]
    return Files([*paths, write_manifest(folder, manifest, paths)], drawn.shown, drawn.left_out)


def _blocks(numbered: Sequence[tuple[Part, Numbered]]) -> Iterator[Block]:
    """Yield figures and tables for a document, then their notes."""
    yield from (shown.block for shown, _ in numbered)
    yield Bullets(NOTES, tuple(f"{number}. {shown.notes}" for shown, (number, _) in numbered if shown.notes))


def _inputs(numbered: Sequence[tuple[Part, Numbered]]) -> str:
    r"""Return what takes up each file, then the notes; tables that float come out before one that goes over pages."""
    page = latex_templates().get_template("thesis/inputs.jinja")
    return page.render(numbered=numbered, notes=[pair for pair in numbered if pair[0].notes], title=NOTES)


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
