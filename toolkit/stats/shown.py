"""What a result shows of itself as the last line of a cell: a few rows, their intervals drawn, and a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from toolkit.words import counted, one_line

if TYPE_CHECKING:
    from toolkit.stats.result import Estimate, Result

ROWS: Final = 12
"""Rows that are shown; the frame has all."""
_WIDTH, _HEIGHT, _EDGE = 150, 14, 5  # of a drawn interval, in pixels
_HEADS: Final = ("about", "result", "estimate", "95 % interval", "", "n", "method and notes")


def as_text(result: Result) -> str:
    """Return a result in at most 20 lines: a title, a row each, how many more there are, and the first in words."""
    rows = _first(result)
    if not rows:
        return "\n".join(
            [_title(result), result.frame().head(ROWS).to_string(index=False), *_ends(result, rows)]
        )
    cells = [[about, one.name, *_numbers(one), one.counts] for about, one in rows]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(row, width, strict=True) if size).rstrip()
        for row in cells
    ]
    return "\n".join([_title(result), *(f"  {line}" for line in lines), *_ends(result, rows)])


def as_html(result: Result) -> str:
    """Return the same as a table, each interval drawn on the axis of the rows of its kind and unit."""
    rows, left = _first(result), 'style="text-align:left"'
    if rows:
        axes: dict[tuple[str, str], list[Estimate]] = {}
        for about, one in rows:
            axes.setdefault((about, one.unit), []).append(one)
        body = [_cells(about, one, *_axis(axes[about, one.unit])) for about, one in rows]
        told = [column for column in (-2, -1) if len({row[column] for row in body}) == 1]
        once = "; ".join(filter(None, (body[0][column] for column in told))) if len(body) > 1 else ""
        kept = [column for column in range(len(_HEADS)) if not once or column - len(_HEADS) not in told]
        body = [[row[column] for column in kept] for row in body]
        head = "".join(f"<th {left}>{_HEADS[column]}</th>" for column in kept)
        lines = ("".join(f"<td {left}>{cell}</td>" for cell in row) for row in body)
        table = f"<table><tr>{head}</tr><tr>{'</tr><tr>'.join(lines)}</tr></table>"
        table += f"<p>all rows: {once}</p>" if once else ""
    else:
        table = result.frame().head(ROWS).to_html(index=False, border=0)
    ends = "".join(f"<p>{escape(line)}</p>" for line in _ends(result, rows))
    return f"<strong>{escape(_title(result))}</strong>{table}{ends}"


def _first(result: Result) -> list[tuple[str, Estimate]]:
    return list(islice(result.headline(), ROWS))


def _title(result: Result) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(result).__name__).capitalize()


def _ends(result: Result, rows: Sequence[tuple[str, Estimate]]) -> list[str]:
    more = len(result.frame()) - min(len(rows) or ROWS, len(result.frame()))
    left = [f"{counted(more, 'further rows')}: .frame()"] if more else []
    words = rows[0][1].sentence() if rows else result.sentence()
    return [*left, one_line(words, 600)]


def _cells(about: str, one: Estimate, low: float, high: float) -> list[str]:
    missing = f"; {one.missing} missing" if one.missing else ""
    words = "; ".join(filter(None, (one.method, one.note if one.estimable else "")))
    told = [*map(escape, (about, one.name, *_numbers(one))), _drawn(one, low, high)]
    return [*told, escape(one.counts + missing), f"<small>{escape(words)}</small>"]


def _numbers(one: Estimate) -> tuple[str, str]:
    """Return estimate and interval in print, or why there is no number."""
    from toolkit.stats.result import rounded_apart

    if one.estimate is None:
        return "not estimable", one.note.removeprefix("not estimable: ")
    estimate, low, high = rounded_apart((one.estimate, one.low, one.high))
    unit = "" if one.unit in ("", "none") else f" {one.unit}"
    return estimate + unit, f"[{low}, {high}]" if low and high else ""


def _axis(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """Return the ends of an axis that has all estimates and intervals on it."""
    ends = [x for one in estimates for x in (one.estimate, one.low, one.high) if x is not None]
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _drawn(one: Estimate, low: float, high: float) -> str:
    """Return an estimate with its interval as a picture, and zero as a thin line where it is on the axis."""
    if one.estimate is None or not high > low:
        return ""

    def at(x: float) -> str:
        return f"{_EDGE + (_WIDTH - 2 * _EDGE) * (x - low) / (high - low):.1f}"

    middle = _HEIGHT / 2
    zero = f'<path d="M{at(0)} 0V{_HEIGHT}" stroke="currentColor" opacity=".35"/>' if low < 0 < high else ""
    ends = (one.low, one.high)
    line = (
        f'<path d="M{at(ends[0])} {middle}H{at(ends[1])}" stroke="currentColor" stroke-width="1.5"/>'
        if ends[0] is not None and ends[1] is not None
        else ""
    )
    told = escape(" ".join(_numbers(one)))
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{told}">{zero}{line}'
        f'<circle cx="{at(one.estimate)}" cy="{middle}" r="3" fill="currentColor"/></svg>'
    )
