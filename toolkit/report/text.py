"""Results as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from toolkit.stats.reliability import Reliability

DIGITS = 4


def reliability_text(result: Reliability) -> str:
    """Return every coefficient with its interval, what it rests on, and then what was done to the ratings.

    Parameters
    ----------
    result
        What `toolkit.stats.reliability` found.
    """
    frame = result.frame()
    lines = [
        line for about, rows in frame.groupby("dimension", sort=False) for line in _block(str(about), rows)
    ]
    notes = [f"note: {note}" for note in result.notes]
    return "\n".join([*lines, *notes])


def _block(about: str, rows: pd.DataFrame) -> Iterable[str]:
    yield about
    width = max(len(name) for name in rows["name"])
    for row in rows.to_dict("records"):
        name = f"  {row['name']:<{width}}"
        if pd.isna(row["estimate"]):
            yield f"{name}  {row['note'] or 'not estimable'}"
            continue
        interval = "no interval"
        if not pd.isna(row["low"]):
            interval = f"[{row['low']:.{DIGITS}f}, {row['high']:.{DIGITS}f}]"
        missing = f", {row['missing']} missing" if row["missing"] else ""
        note = f"; {row['note']}" if row["note"] else ""
        yield f"{name}  {row['estimate']:.{DIGITS}f}  {interval}  {row['method']}; {row['n']}{missing}{note}"
