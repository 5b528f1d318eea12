"""LaTeX tables in the manner of booktabs: numbers aligned, no wider than the page, and over pages where long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.escape import caption_latex
from toolkit.report.latex_columns import MOST_DECIMALS, column_of, fitted, lines_of, narrowest
from toolkit.stats.result import digits_apart

_SIZES: Final = ((r"\footnotesize", 98), (r"\scriptsize", 112), (r"\tiny", 140))
"""Sizes of type, and how many characters a line of 160 mm takes in each."""
_LONGEST: Final = 45
"""Lines of caption and rows that one page takes."""
_CAPTION_LINE: Final = 85
_LONG_HEAD: Final = r"\multicolumn{%d}{@{}l}{\tablename\ \thetable{}, continued} \\"
_LONG_FOOT: Final = r"\multicolumn{%d}{r@{}}{continued on the next page} \\"


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
    font, characters = next((size for size in _SIZES if needed <= size[1]), _SIZES[-1])
    shown = fitted(made, characters)
    lines = lines_of(made, shown) + math.ceil(len(caption) / _CAPTION_LINE)
    named = [caption_latex(caption), rf"\label{{{label}}}"]
    spec = "".join(column.spec for column in shown)
    head = [r"    \toprule", f"    {_row(column.head for column in shown)}", r"    \midrule"]
    rows = [f"    {_row(cells)}" for cells in zip(*(column.cells for column in shown), strict=True)]
    if lines <= _LONGEST:
        rows += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
        begin = [r"\begin{table}[htbp]", r"  \centering", f"  {named[0]}", f"  {named[1]}", f"  {font}"]
        return "\n".join([*begin, rf"  \begin{{tabular}}{{{spec}}}", *head, *rows, ""])
    spans = sum(column.spans for column in shown)
    begin = [rf"\begingroup\setlength{{\LTcapwidth}}{{\linewidth}}{font}", rf"\begin{{longtable}}{{{spec}}}"]
    first = [f"    {named[0]}", rf"    {named[1]} \\", *head, r"    \endfirsthead"]
    others = [f"    {_LONG_HEAD % spans}", *head, r"    \endhead"]
    feet = [r"    \midrule", f"    {_LONG_FOOT % spans}", r"    \endfoot", r"    \bottomrule"]
    end = [r"\end{longtable}", r"\endgroup", ""]
    return "\n".join([*begin, *first, *others, *feet, r"    \endlastfoot", *rows, *end])


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
