"""The thesis bundle: one folder with figures, tables, methods, references and a document that compiles as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.report.escape import caption_latex, escape, escape_breaking, label_of
from toolkit.report.manifest import DOCUMENT, check_is_of, write_manifest
from toolkit.report.plots.judge_card import CARD
from toolkit.report.registry import NAMES
from toolkit.report.show import LEFT_OUT, alt_text_of
from toolkit.report.style import COLUMN_MM
from toolkit.thesis.document import write_document
from toolkit.thesis.methods import Paragraph, methods_latex, methods_text, templates
from toolkit.thesis.references import bibliography, known_references

_POINTS_A_MM: Final = 72 / 25.4
_REASON: Final = re.compile(r"\w+: ")
"""Beginning of a line of ``left_out.txt`` that names a figure and its reason."""


def bundle_place(folder: Path, status: Mapping[str, Any]) -> Path:
    """Return the folder of a bundle where it may be written, and there is something to write."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; a bundle needs a folder")
    check_is_of(folder, status["study"])
    if not status["done"]:
        raise InputError(
            f"study {status['study']}: no run has succeeded yet, so there is nothing to bundle; run it first"
        )
    return folder


def write_bundle(
    folder: Path,
    drawn: Sequence[Path],
    section: Sequence[Paragraph],
    manifest: Mapping[str, Any],
    *,
    format: str = "latex",
) -> list[Path]:
    r"""Write what turns figures and tables into a bundle, the manifest last; the same study gives the same bytes.

    In another format than LaTeX there is a document of it besides.
    """
    figures, tables, statistics = (folder / name for name in ("figures", "tables", "statistics"))
    study = str(manifest["study"])
    names = (path.stem for path in drawn if path.parent == figures and path.suffix == ".pdf")
    written = [_figure(figures, name, study) for name in sorted(names, key=_place)]
    of_tables, of_statistics = (
        [f"{place.name}/{path.name}" for path in drawn if path.parent == place and path.suffix == ".tex"]
        for place in (tables, statistics)
    )
    shown = [*(f"figures/{path.name}" for path in written), *of_tables]
    # The cards of the judges are for an appendix, as all statistics are: the document itself stays short.
    cards = [path for path in shown if Path(path).name.startswith(CARD)]
    shown, of_statistics = [path for path in shown if path not in cards], [*of_statistics, *cards]
    said = figures / LEFT_OUT
    left = _left_out(said.read_text(encoding="utf-8")) if said in drawn else []
    kind = str(manifest.get("kind", "Study"))
    about = {
        "kind": kind,
        "study": escape_breaking(study),
        "has_statistics": bool(of_statistics),
        "left_out": left,
    }
    cited = {key for _, sentences in section for one in sentences for key in one.cite}
    texts = {
        "preamble.tex": (files("toolkit.thesis") / "preamble.tex").read_text(encoding="utf-8"),
        "figures.tex": _inputs(folder, shown),
        "methods.tex": methods_latex(section),
        "methods.txt": methods_text(section),
        "references.bib": bibliography(cited),
        "all_references.bib": bibliography(known_references()),
        f"{DOCUMENT}.tex": templates().get_template("bundle.jinja").render(about),
    }
    if of_statistics:
        texts["statistics.tex"] = _inputs(folder, of_statistics)
    written += [write_atomically(folder / name, text.encode()) for name, text in texts.items()]
    if format != "latex":
        written.append(write_document(folder, f"{kind} {study}", left, format))
    return [*drawn, *written, write_manifest(folder, manifest, [*drawn, *written])]


def _place(name: str) -> tuple[int, list[str | int]]:
    rank = NAMES.index(name) if name in NAMES else len(NAMES)
    # Words and numbers stand in turn, so that 9 comes before 10.
    return rank, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _figure(folder: Path, name: str, study: str) -> Path:
    """Write the figure environment of a figure; its SVG says how wide it is and what it shows."""
    caption = (folder / f"{name}.txt").read_text(encoding="utf-8")
    picture = folder / f"{name}.svg"
    svg = picture.read_text(encoding="utf-8") if picture.is_file() else ""
    width = re.search(r'width="([\d.]+)pt"', svg)
    is_wide = width is not None and float(width[1]) / _POINTS_A_MM > COLUMN_MM + 1
    environment = "figure*" if is_wide else "figure"
    lines = [
        rf"\begin{{{environment}}}[htbp]",
        r"  \centering",
        rf"  \bundlefigure{{{name}.pdf}}{{{escape(alt_text_of(picture))}}}",
        f"  {caption_latex(caption)}",
        rf"  \label{{fig:{label_of(name, study)}}}",
        rf"\end{{{environment}}}",
    ]
    return write_atomically(folder / f"{name}.tex", ("\n".join(lines) + "\n").encode())


def _inputs(folder: Path, paths: Iterable[str]) -> str:
    r"""Return what takes up each file; tables that float come out before one that goes over pages."""
    told: list[str] = []
    for path in paths:
        text = (folder / path).read_text(encoding="utf-8")
        if r"\begin{longtable}" in text:
            # A longtable stands where it is, and would overtake floats that have smaller numbers.
            told += [r"\clearpage"] * bool(told) + [rf"\bundlelong{{{path}}}"]
        elif r"\begin{tabular}" in text:
            told.append(rf"\bundletable{{{path}}}")
        else:
            told.append(rf"\input{{\bundlehome {path}}}")
    return "".join(f"{line}\n" for line in (r"\begingroup\bundlehere", *told, r"\endgroup"))


def _left_out(text: str) -> list[str]:
    """Return what a study cannot give as LaTeX: the heading, then a line a figure; nothing where there is none."""
    head, *lines = map(escape_breaking, text.splitlines())
    named = [line for line, plain in zip(lines, text.splitlines()[1:], strict=True) if _REASON.match(plain)]
    return [head, *named] if named else []
