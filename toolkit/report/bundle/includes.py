r"""The LaTeX around figures and tables: what a thesis says ``\input`` to, and a document that compiles as it is."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from toolkit.report.escape import caption_latex, escape, escape_breaking, label_of
from toolkit.report.latex import PACKAGES
from toolkit.report.style import COLUMN_MM

FIRST: Final = (
    *("quality_by_length", "dimension_profile", "length_slope", "equivalence", "cost_quality"),
    *("judge_agreement", "icc_forest", "bland_altman", "variance_components", "decision_study"),
)
"""Figures that come first, in this order: quality, then cost, then the judges; all others follow by name."""
_POINTS_A_MM: Final = 72 / 25.4
_LEFT_OUT: Final = re.compile(r"\w+: ")
"""A line of ``left_out.txt`` that names a figure and its reason."""

PREAMBLE: Final = r"""% In the preamble of a thesis: \input{path/to/bundle/preamble.tex}. In its text, where figures and
% tables are wanted: \input{path/to/bundle/figures.tex}; one figure alone: \input{path/to/bundle/figures/NAME.tex}.
% Every file finds what lies beside it, so that bundles of several studies stand in one thesis: say \input to the
% preamble of one of them, and to the other files of each. A LaTeX from before October 2020 does not know
% where a file lies: say \newcommand{\bundlepath}{path/to/bundle/} first and \renewcommand it before the next.
% Labels hold the name of the study: \ref{fig:STUDY:cost-quality}, \ref{tab:STUDY:length} (names of files with
% hyphens for underscores). With several bundles take all_references.bib of the newest one alone:
% \bibliography{path/to/bundle/all_references}; BibTeX stops at an entry that stands in two files.
\usepackage{graphicx}
%PACKAGES%
\providecommand{\bundlepath}{}
\makeatletter
% Alt text is a key of graphicx since 2021; an older one ignores it.
\@ifundefined{KV@Gin@alt}{\define@key{Gin}{alt}{}}{}
\@ifundefined{bundlebox}{\newsavebox{\bundlebox}}{}
% Where the file lies that says so, for what it takes up; #1 is where it lies in its bundle.
\providecommand{\bundlehere}[1]{%
  \edef\bundlehome{\bundlepath #1}%
  \@ifundefined{CurrentFilePath}{}{\ifx\CurrentFilePath\@empty\else\edef\bundlehome{\CurrentFilePath/}\fi}}
% A figure has its own width (85 or 160 mm) and is made smaller only where the page is.
\providecommand{\bundlefigure}[2]{%
  \bundlehere{figures/}%
  \sbox{\bundlebox}{\includegraphics{\bundlehome #1}}%
  \ifdim\wd\bundlebox>\linewidth\def\bundlefit{1}\else
    \ifdim\ht\bundlebox>0.72\textheight\def\bundlefit{1}\else\def\bundlefit{0}\fi\fi
  \if1\bundlefit
    \includegraphics[width=\linewidth,height=0.72\textheight,keepaspectratio,alt={#2}]{\bundlehome #1}%
  \else
    \includegraphics[alt={#2}]{\bundlehome #1}%
  \fi}
% Tables fit a text of 160 mm; where it is narrower they are made smaller, and those over pages closer. In two
% columns a table goes over both, and one over pages has pages of one column.
\providecommand{\bundletable}[1]{%
  \begingroup
  \ifdim\belowcaptionskip<3pt\setlength{\belowcaptionskip}{4pt}\fi
  \if@twocolumn
    \expandafter\let\expandafter\table\csname table*\endcsname
    \expandafter\let\expandafter\endtable\csname endtable*\endcsname
  \fi
  \let\bundlestart\tabular\let\bundleend\endtabular
  \renewenvironment{tabular}[1]{\begin{lrbox}{\bundlebox}\bundlestart{##1}}{\bundleend\end{lrbox}%
    \ifdim\wd\bundlebox>\linewidth\resizebox{\linewidth}{!}{\usebox{\bundlebox}}\else\usebox{\bundlebox}\fi}%
  \input{\bundlehome #1}%
  \endgroup}
\providecommand{\bundlelong}[1]{%
  \if@twocolumn\onecolumn\let\bundleback\twocolumn\else\let\bundleback\relax\fi
  \begingroup
  \ifdim\linewidth<159mm\setlength{\tabcolsep}{0.4\tabcolsep}\fi
  \input{\bundlehome #1}%
  \endgroup
  \bundleback}
\makeatother
% A study of many methods has more figures and tables than LaTeX keeps waiting for their place.
\extrafloats{100}
""".replace("%PACKAGES%", "\n".join(rf"\usepackage{{{name}}}" for name in PACKAGES))


def ordered(names: Iterable[str]) -> list[str]:
    """Return names of figures as a thesis shows them."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[int, list[str | int]]:
    rank = FIRST.index(name) if name in FIRST else len(FIRST)
    # Words and numbers stand in turn, so that 9 comes before 10.
    return rank, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def figure_latex(name: str, caption: str, alt_text: str, study: str, *, wide: bool) -> str:
    r"""Return the figure environment of a figure."""
    environment = "figure*" if wide else "figure"
    lines = [
        rf"\begin{{{environment}}}[htbp]",
        r"  \centering",
        rf"  \bundlefigure{{{name}.pdf}}{{{escape(alt_text)}}}",
        f"  {caption_latex(caption)}",
        rf"  \label{{fig:{label_of(name, study)}}}",
        rf"\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def alt_text_of(svg: str) -> str:
    """Return the alt text that `toolkit.report.saving` wrote into an SVG, empty where there is none."""
    found = re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)
    return html.unescape(found.group(1)) if found else ""


def is_wide(svg: str) -> bool:
    """Return whether a figure is wider than a column of a thesis, by the first width in its SVG."""
    found = re.search(r'width="([\d.]+)pt"', svg)
    return found is not None and float(found.group(1)) / _POINTS_A_MM > COLUMN_MM + 1


def inputs(folder: Path, paths: Sequence[str]) -> str:
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
    return "".join(f"{line}\n" for line in (r"\begingroup\bundlehere{}", *told, r"\endgroup"))


def document(study: str, *, has_statistics: bool, left_out: str) -> str:
    """Return the document that shows the whole bundle."""
    appendix = [r"\section{All statistics}", r"\input{\bundlepath statistics.tex}"] if has_statistics else []
    lines = left_out.splitlines()
    items = [rf"  \item[--] {escape_breaking(line)}" for line in lines[1:] if _LEFT_OUT.match(line)]
    told = [escape_breaking(lines[0]), r"\begin{itemize}", *items, r"\end{itemize}"] if items else []
    page = [
        r"% Compiles as it is: pdflatex bundle; bibtex bundle; pdflatex bundle; pdflatex bundle",
        r"\documentclass[11pt,a4paper]{article}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[a4paper,textwidth=160mm,textheight=240mm]{geometry}",
        r"\usepackage[font=small]{caption}",
        r"\usepackage[numbers,sort&compress]{natbib}",
        r"\usepackage{url}",
        r"\input{preamble.tex}",
        r"\setlength{\emergencystretch}{3em}",
        rf"\title{{Study {escape_breaking(study)}}}",
        r"\author{}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        r"\section{Methods}",
        r"\input{\bundlepath methods.tex}",
        r"\section{Figures and tables}",
        *told,
        r"\input{\bundlepath figures.tex}",
        r"\clearpage",
        *appendix,
        r"\clearpage",
        r"\bibliographystyle{plainnat}",
        r"\bibliography{\bundlepath references}",
        r"\end{document}",
    ]
    return "\n".join(page) + "\n"


def stems(paths: Iterable[Path], suffix: str) -> list[str]:
    """Return the stems of the paths that end so."""
    return [path.stem for path in paths if path.suffix == suffix]
