"""LaTeX tables in the manner of booktabs: numbers aligned, no wider than the page, and over pages where long."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.escape import MISSING, caption_latex, escape_breaking, number, p_value

_SIZES: Final = ((r"\footnotesize", 98), (r"\scriptsize", 112), (r"\tiny", 140))
"""Sizes of type, and how many characters a line of 160 mm takes in each."""
_LONGEST: Final = 45  # lines of caption and rows that one page takes
_CAPTION_LINE: Final = 85
_LONG_HEAD: Final = r"\multicolumn{%d}{@{}l}{\tablename\ \thetable{}, continued} \\"
_LONG_FOOT: Final = r"\multicolumn{%d}{r@{}}{continued on the next page} \\"

_MOST_DECIMALS: Final = 6  # a number that is smaller than this shows is noise of the arithmetic
_NARROWEST: Final = 14  # characters that a column of text keeps at least: no piece of a broken word is longer
_BETWEEN: Final = 3  # characters that the space between two columns takes


def latex_table(
    frame: pd.DataFrame,
    caption: str,
    label: str,
    columns: Mapping[str, str] | None = None,
    *,
    decimals: int = 2,
    p_values: tuple[str, ...] = (),
    panels: Collection[int] | None = None,
) -> str:
    r"""Return a frame as a LaTeX table that needs the packages booktabs, array and longtable.

    A table that fits a page floats; a longer one is a ``longtable``. Text that is too wide for a line of 160 mm
    is broken inside of its column. Rows whose numbers are in ``panels`` are the heads of what follows them.
    """
    if not re.fullmatch(r"[A-Za-z0-9:.-]+", label):
        raise InputError(f"label {label!r} of a table: use letters, digits, ':', '-' and '.' only")
    heads = dict(columns) if columns is not None else {str(name): str(name) for name in frame.columns}
    unknown = [name for name in heads if name not in frame.columns]
    if unknown:
        raise InputError(
            f"column {unknown[0]!r} of table {label}: the frame has {', '.join(map(str, frame))}"
        )
    made = [
        _column_of(list(frame[name].astype(object)), head, decimals, is_p=name in p_values)
        for name, head in heads.items()
    ]
    if panels is not None and sum(column.width + _BETWEEN for column in made) <= _SIZES[-1][1]:
        made = [made[0], *(replace(column, whole=True) for column in made[1:])]  # no interval is broken
    needed = _narrowest(made)
    font, characters = next((size for size in _SIZES if needed <= size[1]), _SIZES[-1])
    shown = _fitted(made, characters)
    lines = _lines_of(made, shown) + math.ceil(len(caption) / _CAPTION_LINE)
    named = [caption_latex(caption), rf"\label{{{label}}}"]
    spec = "".join(column.spec for column in shown)
    head = [r"    \toprule", f"    {_row(column.head for column in shown)}", r"    \midrule"]
    rows = [f"    {_row(cells)}" for cells in zip(*(column.cells for column in shown), strict=True)]
    for place in panels or ():
        rows[place] = f"    \\midrule\n{rows[place]}*\n    \\midrule"
    if lines <= _LONGEST:
        rows += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
        begin = [r"\begin{table}[htbp]", r"  \centering", f"  {named[0]}", f"  {named[1]}", f"  {font}"]
        return "\n".join([*begin, rf"  \begin{{tabular}}{{{spec}}}", *head, *rows, ""])
    begin = [rf"\begingroup\setlength{{\LTcapwidth}}{{\linewidth}}{font}", rf"\begin{{longtable}}{{{spec}}}"]
    first = [f"    {named[0]}", rf"    {named[1]} \\", *head, r"    \endfirsthead"]
    again = head if not panels else head[:1]  # the head of the first panel is not that of the others
    others = [f"    {_LONG_HEAD % len(shown)}", *again, r"    \endhead"]
    feet = [r"    \midrule", f"    {_LONG_FOOT % len(shown)}", r"    \endfoot", r"    \bottomrule"]
    end = [r"\end{longtable}", r"\endgroup", ""]
    return "\n".join([*begin, *first, *others, *feet, r"    \endlastfoot", *rows, *end])


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


@dataclass(frozen=True)
class _Column:
    r"""One column of a table."""

    spec: str
    head: str
    cells: tuple[str, ...]
    widths: tuple[int, ...]
    whole: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its lines may be broken."""
        return self.spec == "l" and not self.whole

    @property
    def width(self) -> int:
        """Characters of its widest cell."""
        return max(self.widths)


def _column_of(values: Sequence[Any], head: str, decimals: int, *, is_p: bool = False) -> _Column:
    """Return the column of some values: text, or numbers with their points aligned."""
    told = [value for value in values if not _is_missing(value) and value != ""]
    numeric = bool(told) and all(_is_number(value) for value in told)
    floats = [value for value in values if isinstance(value, float)]
    places = 3 if is_p else max((_decimals(value, decimals) for value in floats), default=0)
    written = [_cell(value, decimals, places, is_p) for value in values]
    cells, widths = tuple(cell for cell, _ in written), (len(head), *(width for _, width in written))
    return _Column("r" if numeric else "l", escape_breaking(head), cells, widths)


def _fitted(columns: Sequence[_Column], characters: int) -> list[_Column]:
    """Return columns that fit a line: those of long text become paragraphs that share what the others leave."""
    room = characters - sum(column.width + _BETWEEN for column in columns)
    if room >= 0:
        return list(columns)
    long = [column for column in columns if column.is_text and column.width > _NARROWEST]
    left = room + sum(column.width - _NARROWEST for column in long)
    shares = {id(column): _NARROWEST for column in long}
    while left > 0 and long:
        # The next character goes where most lines are broken; what is as wide as its text needs no more.
        widest = max(long, key=lambda one: (_lines(one, shares[id(one)]), -shares[id(one)]))
        shares[id(widest)] += 1
        left -= 1
        long = [column for column in long if shares[id(column)] < column.width]
    return [_paragraph(c, shares[id(c)], characters) if id(c) in shares else c for c in columns]


def _narrowest(columns: Sequence[_Column]) -> int:
    """Return how many characters the columns take at least."""
    return sum((min(c.width, _NARROWEST) if c.is_text else c.width) + _BETWEEN for c in columns)


def _lines_of(columns: Sequence[_Column], shares: Sequence[_Column]) -> int:
    """Return how many lines the rows take."""
    rows = zip(*(column.widths[1:] for column in columns), strict=True)
    return sum(
        max(
            math.ceil(width / max(column.width, 1)) if width else 1
            for width, column in zip(row, shares, strict=True)
        )
        for row in rows
    )


def _is_missing(value: Any) -> bool:
    return bool(pd.isna(value))


def _lines(column: _Column, share: int) -> int:
    return sum(math.ceil(width / share) for width in column.widths)


def _paragraph(column: _Column, share: int, characters: int) -> _Column:
    spec = rf">{{\raggedright\arraybackslash}}p{{{share / characters:.3f}\linewidth}}"
    return replace(column, spec=spec, widths=(share,))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _decimals(value: float, decimals: int) -> int:
    """Return the decimals of a number: more where it would print as a zero that it is not."""
    size = abs(value)
    if not math.isfinite(size) or size >= 0.5 * 10**-decimals or size < 0.5 * 10**-_MOST_DECIMALS:
        return decimals
    return min(_MOST_DECIMALS, 1 - math.floor(math.log10(size)))  # two digits that count


def _shown(value: float, decimals: int, places: int) -> str:
    own = _decimals(value, decimals)
    return number(value, own) + (rf"\phantom{{{'0' * (places - own)}}}" if places > own else "")


def _cell(value: Any, decimals: int, places: int, is_p: bool) -> tuple[str, int]:
    """Return a cell and how many characters wide it is."""
    if _is_missing(value) or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING, len(MISSING)
    if isinstance(value, float):
        cell = p_value(value) if is_p else _shown(value, decimals, places)
        return cell, len(f"{value:.{3 if is_p else _decimals(value, decimals)}f}")
    return escape_breaking(value), len(str(value))
