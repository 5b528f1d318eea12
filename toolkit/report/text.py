"""Results as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.stats.result import estimates_frame

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability

DIGITS = 4


def reliability_text(result: Reliability) -> str:
    """Return every coefficient with its interval, what it rests on, and then what was done to the ratings.

    Each judge and each pair of judges is told for the composite, or the only dimension; the other dimensions are in
    `Reliability.details`.
    """
    frame = result.frame()
    lines = [
        line for about, rows in frame.groupby("dimension", sort=False) for line in _block(str(about), rows)
    ]
    key = "composite" if "composite" in result.icc else next(iter(result.icc))
    details = result.details
    severity, pairs = details.severity[key], details.bland_altman[key].values()
    without = [
        one for family in severity.without.values() for one in family if one.name.startswith("ICC(A,1)")
    ]
    for about, family in (
        ("all judges", details.agreement(key)),
        ("each judge", [*severity.leniency.values(), *without]),
        (
            "each pair",
            [*details.weighted_kappa[key], *(one for two in pairs for one in two.estimates()[1:3])],
        ),
    ):
        rows = estimates_frame(((about, one) for one in family), "about")
        if len(rows):
            lines += _block(f"{key}, {about}", rows)
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
