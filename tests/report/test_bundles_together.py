"""Bundles of two studies in one thesis: every label and every file is of the study that is meant; two columns too."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from whole_study import make_study

from toolkit.report.bundle.bundle import write_bundle
from toolkit.report.bundle.references import Sentence
from toolkit.report.figure import About, about_study
from toolkit.report.registry import write_figures, write_statistics
from toolkit.report.tables import length_table, save_table
from toolkit.stats.result import Estimate

STUDIES = ("rq1_length.v2", "rq1-length.v2")
"""Names that a label which knows only letters and hyphens would not tell apart."""
SECTION = [("Statistics", (Sentence("Holm's method was used", ("holm1979",)),))]
THESIS = r"""
\documentclass%OPTIONS%{article}
\input{%FIRST%/preamble.tex}
\usepackage{hyperref}
\begin{document}
One: \ref{fig:rq1_length.v2:quality-by-length}; \ref{tab:rq1_length.v2:length};
\ref{tab:rq1_length.v2:statistics-many}.
Two: \ref{fig:rq1-length.v2:quality-by-length}; \ref{tab:rq1-length.v2:length};
\ref{tab:rq1-length.v2:statistics-many}.
\section{One}
\input{%FIRST%/methods.tex}
\input{%FIRST%/figures.tex}
\input{%FIRST%/statistics.tex}
\section{Two}
\input{chapters/two}
\bibliographystyle{plain}
\bibliography{%FIRST%/all_references}
\end{document}
"""
CHAPTER = r"""
\input{a folder/other_bundle/methods.tex}
\input{a folder/other_bundle/figures}
\input{a folder/other_bundle/statistics.tex}
"""


def _bundle(folder: Path, name: str, seed: int) -> Path:
    """Write a bundle of one figure, one table, and one table over pages."""
    held, plan = make_study(bases=3, missing=0.0, seed=seed)
    plan.study = plan.study.model_copy(update={"name": name})
    about = about_study(held, plan)
    drawn = write_figures(held, about, folder, ["quality_by_length"])
    drawn += save_table(length_table(held.length(), end=about.source), folder / "tables", name)
    many = [Estimate(f"row {number}", 0.5, 0.25, 0.75, method="t", n={"bases": 3}) for number in range(70)]
    drawn += write_statistics({"many": ("Many", many)}, About(source=about.source, study=name), folder)
    write_bundle(folder, drawn, SECTION, {"study": name})
    return folder


@pytest.fixture(scope="module")
def thesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundles of two studies somewhere below it."""
    folder = tmp_path_factory.mktemp("thesis")
    for number, (place, name) in enumerate(
        zip(("one_bundle", "a folder/other_bundle"), STUDIES, strict=True)
    ):
        _bundle(folder / place, name, number)
    (folder / "chapters").mkdir()
    (folder / "chapters" / "two.tex").write_text(CHAPTER)
    return folder


def _compiled(folder: Path, options: str) -> tuple[str, str]:
    """Compile a document in the parent folder of both bundles; return the log of LaTeX and the text of all pages."""
    name = f"thesis{options.strip('[]')}"
    (folder / f"{name}.tex").write_text(
        THESIS.replace("%OPTIONS%", options).replace("%FIRST%", "one_bundle"), encoding="utf-8"
    )
    for command in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        how = ["-interaction=nonstopmode", "-halt-on-error"] if command == "pdflatex" else []
        done = subprocess.run([command, *how, name], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-1500:]
    text = subprocess.run(["pdftotext", f"{name}.pdf", "-"], cwd=folder, capture_output=True, check=True)
    return (folder / f"{name}.log").read_text(encoding="latin-1"), text.stdout.decode()


@pytest.mark.parametrize("options", ["", "[twocolumn]"])
def test_every_reference_and_every_file_is_of_the_study_that_is_meant(thesis: Path, options: str) -> None:
    """No label twice, no BibTeX entry twice; both pictures of one name are there; a table over pages in two columns."""
    log, text = _compiled(thesis, options)
    for bad in ("LaTeX Warning", "multiply", "undefined", "Missing character"):
        assert bad not in log
    assert [
        float(wide) for wide in re.findall(r"Overfull \\hbox \(([0-9.]+)pt", log) if float(wide) > 5
    ] == []
    flat = " ".join(text.split())
    told = re.findall(r"(?:One|Two): (\d+); (\d+); (\d+)\.", flat)
    assert told == [("1", "1", "2"), ("2", "3", "4")]
    for study, (figure, length, many) in zip(STUDIES, told, strict=True):
        for what, number in (("Figure", figure), ("Table", length), ("Table", many)):
            caption = flat.split(f"{what} {number}: ", 1)[1]
            found = re.search(r"Study (.+?), dataset", caption)
            # An underscore is a line that LaTeX draws, and a name may be on two lines.
            assert found
            assert found[1].replace(" ", "") == study.replace("_", "")
    for folder in ("one_bundle", "a folder/other_bundle"):
        assert f"<use {folder}/figures/quality_by_length.pdf>" in log.replace("\n", "")
    assert flat.count("row 69") == 2
    assert flat.count("Sture Holm") == 1


def test_one_figure_alone_is_that_of_its_own_bundle(thesis: Path) -> None:
    """Taken up by itself after the files of another study, a figure is not that study's with a strange caption."""
    (thesis / "alone.tex").write_text(
        "\\documentclass{article}\n\\input{one_bundle/preamble.tex}\n\\begin{document}\n"
        "\\input{one_bundle/figures.tex}\n\\input{a folder/other_bundle/figures/quality_by_length}\n\\end{document}\n"
    )
    subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "alone"], cwd=thesis, capture_output=True, check=True
    )
    log = (thesis / "alone.log").read_text(encoding="latin-1").replace("\n", "")
    used = re.findall(r"<use ([a-z_/ ]+)/figures/quality_by_length.pdf>", log)
    assert list(dict.fromkeys(used)) == ["one_bundle", "a folder/other_bundle"]
