"""Rows of a table made from results, the same columns for every statistic."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from toolkit.stats.result import Estimate
from toolkit.words import counted

COLUMNS = (
    "name",
    "estimate",
    "low",
    "high",
    "p_value",
    "method",
    "degrees",
    "n",
    "missing",
    "correction",
    "note",
)


def estimates_frame(keyed: Iterable[tuple[str, Estimate]], key: str) -> pd.DataFrame:
    """Return one row per result, with a leading column that says what the result is about.

    Parameters
    ----------
    keyed
        Pairs of key (a dimension, a comparison) and result.
    key
        Name of the leading column.

    Returns
    -------
    pandas.DataFrame
        The key, then name, estimate, low, high, p_value, method, degrees (of freedom; a float as before, NaN
        where there is none), n (text such as ``36 answers, 3 judges``), missing, correction (of the p value, with a
        word on the interval) and note.

    Examples
    --------
    >>> frame = estimates_frame([("clarity", Estimate("ICC(A,1)", 0.5, n={"answers": 36}))], "dimension")
    >>> frame.loc[0, "n"]
    '36 answers'
    """
    rows = [
        {
            key: about,
            "name": result.name,
            "estimate": result.estimate,
            "low": result.low,
            "high": result.high,
            "p_value": result.p_value,
            "method": result.method,
            "degrees": result.degrees,
            "n": ", ".join(counted(count, what) for what, count in result.n.items()),
            "missing": result.missing,
            "correction": result.adjusted,
            "note": result.note,
        }
        for about, result in keyed
    ]
    frame = pd.DataFrame(rows, columns=[key, *COLUMNS])
    numbers = ["estimate", "low", "high", "p_value", "degrees"]
    return frame.astype(dict.fromkeys(numbers, "float64"))
