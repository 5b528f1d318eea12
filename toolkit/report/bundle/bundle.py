"""The thesis bundle: one folder with figures, tables, methods, references and a document that compiles as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.files import write_atomically
from toolkit.report.bundle.includes import (
    PREAMBLE,
    alt_text_of,
    document,
    figure_latex,
    inputs,
    is_wide,
    ordered,
    stems,
)
from toolkit.report.bundle.methods import Paragraph, cited, methods_latex, methods_text
from toolkit.report.bundle.references import bibliography, known_references
from toolkit.report.bundle.sums import write_manifest

LEFT_OUT = "left_out.txt"
"""Where ``study.figures()`` says which figures the study cannot give."""


def write_bundle(
    folder: Path,
    drawn: Sequence[Path],
    section: Sequence[Paragraph],
    manifest: Mapping[str, Any],
) -> list[Path]:
    r"""Write what turns figures and tables into a bundle; the same study gives the same bytes."""
    figures, tables, statistics = (folder / name for name in ("figures", "tables", "statistics"))
    of_figures = [path for path in drawn if path.parent == figures]
    study = str(manifest["study"])
    written = [_figure(figures, name, study) for name in ordered(stems(of_figures, ".pdf"))]
    of_tables = stems([path for path in drawn if path.parent == tables], ".tex")
    of_statistics = stems([path for path in drawn if path.parent == statistics], ".tex")
    said = figures / LEFT_OUT
    texts = {
        "preamble.tex": PREAMBLE,
        "figures.tex": inputs(
            folder,
            [f"figures/{path.name}" for path in written] + [f"tables/{name}.tex" for name in of_tables],
        ),
        "methods.tex": methods_latex(section),
        "methods.txt": methods_text(section),
        "references.bib": bibliography(cited(section)),
        "all_references.bib": bibliography(known_references()),
        "bundle.tex": document(
            study,
            has_statistics=bool(of_statistics),
            left_out=said.read_text(encoding="utf-8") if said in drawn else "",
        ),
    }
    if of_statistics:
        texts["statistics.tex"] = inputs(folder, [f"statistics/{name}.tex" for name in of_statistics])
    written += [write_atomically(folder / name, text.encode()) for name, text in texts.items()]
    files = [*drawn, *written]
    return [*files, write_manifest(folder, manifest, files)]


def _figure(folder: Path, name: str, study: str) -> Path:
    caption = (folder / f"{name}.txt").read_text(encoding="utf-8")
    picture = folder / f"{name}.svg"
    svg = picture.read_text(encoding="utf-8") if picture.is_file() else ""
    latex = figure_latex(name, caption, alt_text_of(svg), study, wide=is_wide(svg))
    return write_atomically(folder / f"{name}.tex", latex.encode())
