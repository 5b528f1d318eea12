"""LaTeX tables in the manner of booktabs: numbers aligned, no wider than the page, and over pages where long."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.escape import caption_latex
from toolkit.report.latex_columns import MOST_DECIMALS, Column, column_of, fitted, lines_of, narrowest
from toolkit.stats.result import digits_apart

PACKAGES: Final = ("array", "booktabs", "longtable")
"""Packages that the tables need; every LaTeX has them."""
_LONGEST: Final = 45
"""Lines of caption and rows that one page takes."""
_CAPTION_LINE: Final = 85
_LONG_HEAD: Final = r"\multicolumn{%d}{@{}l}{\tablename\ \thetable{}, continued} \\"
_LONG_FOOT: Final = r"\multicolumn{%d}{r@{}}{continued on the next page} \\"


@dataclass(frozen=True)
class _Size:
    font: str
    characters: int
    """Characters of a line of 160 mm."""


_SIZES: Final = (_Size(r"\footnotesize", 98), _Size(r"\scriptsize", 112), _Size(r"\tiny", 140))


def latex_table(
    frame: pd.DataFrame,
    caption: str,
    label: str,
    columns: Mapping[str, str] | None = None,
    *,
    decimals: int | Mapping[str, int] = 2,
    p_values: tuple[str, ...] = (),
) -> str:
    r"""Return a frame as a LaTeX table that needs the packages booktabs, array and longtable.

    A table that fits a page floats; a longer one is a ``longtable``. Text that is too wide for a line of 160 mm
    is broken inside of its column.
    """
    if not re.fullmatch(r"[A-Za-z0-9:.-]+", label):
        raise InputError(f"label {label!r} of a table: use letters, digits, ':', '-' and '.' only")
    heads = dict(columns) if columns is not None else {str(name): str(name) for name in frame.columns}
    unknown = [name for name in heads if name not in frame.columns]
    if unknown:
        raise InputError(
            f"column {unknown[0]!r} of table {label}: the frame has {', '.join(map(str, frame))}"
        )
    cells = {name: list(frame[name].astype(object)) for name in heads}
    places = {
        name: [decimals if isinstance(decimals, int) else decimals.get(name, 2)] * len(frame)
        for name in heads
    }
    for estimate, interval in pairwise(heads):  # an interval stands behind its estimate
        for row, (value, ends) in enumerate(zip(cells[estimate], cells[interval], strict=True)):
            if isinstance(ends, tuple) and isinstance(value, float):
                told = digits_apart((value, *ends), places[interval][row], MOST_DECIMALS)
                places[estimate][row] = max(places[estimate][row], told)
                places[interval][row] = told
    made = [column_of(cells[name], head, places[name], is_p=name in p_values) for name, head in heads.items()]
    needed = narrowest(made)
    size = next((size for size in _SIZES if needed <= size.characters), _SIZES[-1])
    shown = fitted(made, size.characters)
    lines = lines_of(made, shown) + math.ceil(len(caption) / _CAPTION_LINE)
    named = [caption_latex(caption), rf"\label{{{label}}}"]
    write = _long if lines > _LONGEST else _floating
    return "\n".join(write(shown, named, size.font)) + "\n"


def _floating(columns: Sequence[Column], named: Sequence[str], font: str) -> list[str]:
    return [
        r"\begin{table}[htbp]",
        r"  \centering",
        *(f"  {line}" for line in named),
        f"  {font}",
        rf"  \begin{{tabular}}{{{_spec(columns)}}}",
        r"    \toprule",
        f"    {_heads(columns)}",
        r"    \midrule",
        *_rows(columns),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def _long(columns: Sequence[Column], named: Sequence[str], font: str) -> list[str]:
    spans = sum(column.spans for column in columns)
    return [
        rf"\begingroup\setlength{{\LTcapwidth}}{{\linewidth}}{font}",
        rf"\begin{{longtable}}{{{_spec(columns)}}}",
        *(f"    {line}" for line in (named[0], named[1] + r" \\")),
        r"    \toprule",
        f"    {_heads(columns)}",
        r"    \midrule",
        r"    \endfirsthead",
        f"    {_LONG_HEAD % spans}",
        r"    \toprule",
        f"    {_heads(columns)}",
        r"    \midrule",
        r"    \endhead",
        r"    \midrule",
        f"    {_LONG_FOOT % spans}",
        r"    \endfoot",
        r"    \bottomrule",
        r"    \endlastfoot",
        *_rows(columns),
        r"\end{longtable}",
        r"\endgroup",
    ]


def _spec(columns: Sequence[Column]) -> str:
    return "".join(column.spec for column in columns)


def _heads(columns: Sequence[Column]) -> str:
    return " & ".join(column.head for column in columns) + r" \\"


def _rows(columns: Sequence[Column]) -> list[str]:
    rows = zip(*(column.cells for column in columns), strict=True)
    return [f"    {' & '.join(cells)} " + r"\\" for cells in rows]
