"""The columns of a LaTeX table: how each cell is written, how it is aligned, and how wide it may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from toolkit.report.escape import MISSING, escape, escape_breaking, number, p_value

MOST_DECIMALS: Final = 6
"""A number that is smaller than this shows is noise of the arithmetic."""
_NARROWEST: Final = 14
"""Characters that a column of text keeps at least: no piece of a broken word is longer."""
_BETWEEN: Final = 3
"""Characters that the space between two columns takes."""


@dataclass(frozen=True)
class Column:
    r"""One column of a table."""

    spec: str
    head: str
    cells: tuple[str, ...]
    widths: tuple[int, ...]
    spans: int = 1

    @property
    def is_text(self) -> bool:
        """Whether its lines may be broken."""
        return self.spec == "l"

    @property
    def width(self) -> int:
        """Characters of its widest cell."""
        return max(self.widths)


def column_of(values: Sequence[Any], head: str, decimals: Sequence[int], *, is_p: bool = False) -> Column:
    """Return the column of some values: text, numbers with their points aligned, or intervals."""
    told = [value for value in values if not is_missing(value) and value != ""]
    if told and all(isinstance(value, tuple) for value in told):
        return _intervals(values, head, decimals)
    numeric = bool(told) and all(_is_number(value) for value in told)
    pairs = list(zip(values, decimals, strict=True))
    places = 3 if is_p else _places([one for one in pairs if isinstance(one[0], float)])
    plain = [_plain(value, own, is_p) for value, own in pairs]
    cells = [_cell(value, own, places, is_p) for value, own in pairs]
    widths = (len(head), *map(len, plain))
    return Column("r" if numeric else "l", escape_breaking(head), tuple(cells), widths)


def fitted(columns: Sequence[Column], characters: int) -> list[Column]:
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


def narrowest(columns: Sequence[Column]) -> int:
    """Return how many characters the columns take at least."""
    return sum((min(c.width, _NARROWEST) if c.is_text else c.width) + _BETWEEN for c in columns)


def lines_of(columns: Sequence[Column], shares: Sequence[Column]) -> int:
    """Return how many lines the rows take."""
    rows = zip(*(column.widths[1:] for column in columns), strict=True)
    return sum(
        max(
            math.ceil(width / max(column.width, 1)) if width else 1
            for width, column in zip(row, shares, strict=True)
        )
        for row in rows
    )


def is_missing(value: Any) -> bool:
    """Return whether a cell has no value; an empty text is one."""
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))
    )


def _lines(column: Column, share: int) -> int:
    return sum(math.ceil(width / share) for width in column.widths)


def _paragraph(column: Column, share: int, characters: int) -> Column:
    spec = rf">{{\raggedright\arraybackslash}}p{{{share / characters:.3f}\linewidth}}"
    return replace(column, spec=spec, widths=(share,))


def _intervals(values: Sequence[Any], head: str, decimals: Sequence[int]) -> Column:
    """Return low and high right-aligned each, so that their points align whatever the signs are."""
    ends = [
        (end, own)
        for value, own in zip(values, decimals, strict=True)
        if isinstance(value, tuple)
        for end in value
    ]
    # Each end is a column of its own: where a low end needs more digits, the high ones need no place for them.
    below, above = (_places([end for end in one if _is_number(end[0])]) for one in (ends[::2], ends[1::2]))
    cells, widths = [], [len(head)]
    for value, own in zip(values, decimals, strict=True):
        low, high = value if isinstance(value, tuple) else (None, None)
        if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
            said = "" if isinstance(value, str) else MISSING
            cells.append(rf"\multicolumn{{2}}{{c}}{{{said}}}")
            widths.append(len(said))
            continue
        cells.append(f"{{[}}{_shown(low, own, below)} & {_shown(high, own, above)}{{]}}")
        widths.append(4 + len(f"{low:.{below}f}") + len(f"{high:.{above}f}"))
    heading = rf"\multicolumn{{2}}{{c}}{{{escape(head)}}}"
    return Column("r@{, }r", heading, tuple(cells), tuple(widths), spans=2)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _decimals(value: float, decimals: int) -> int:
    """Return the decimals of a number: more where it would print as a zero that it is not."""
    size = abs(value)
    if not math.isfinite(size) or size >= 0.5 * 10**-decimals or size < 0.5 * 10**-MOST_DECIMALS:
        return decimals
    return min(MOST_DECIMALS, 1 - math.floor(math.log10(size)))  # two digits that count


def _places(values: Sequence[tuple[float, int]]) -> int:
    return max((_decimals(value, own) for value, own in values), default=0)


def _shown(value: float, decimals: int, places: int) -> str:
    own = _decimals(value, decimals)
    return number(value, own) + (rf"\phantom{{{'0' * (places - own)}}}" if places > own else "")


def _plain(value: Any, decimals: int, is_p: bool) -> str:
    if is_missing(value):
        return MISSING
    if isinstance(value, float):
        return f"{value:.{3 if is_p else _decimals(value, decimals)}f}"
    return str(value)


def _cell(value: Any, decimals: int, places: int, is_p: bool) -> str:
    if is_missing(value):
        return MISSING
    if isinstance(value, float):
        return p_value(value) if is_p else _finite(value, decimals, places)
    return escape_breaking(value)


def _finite(value: float, decimals: int, places: int) -> str:
    return _shown(value, decimals, places) if math.isfinite(value) else MISSING
