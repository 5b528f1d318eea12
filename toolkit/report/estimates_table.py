"""Any results as a table of the thesis: a row each, with interval, n, p value and what could not be estimated."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from toolkit.report import captions
from toolkit.report.latex import latex_table
from toolkit.report.tables import Table
from toolkit.stats.result import Estimate, estimates_frame


def estimates_table(
    name: str,
    title: str,
    keyed: Sequence[tuple[str, Estimate]],
    *,
    key: str = "",
    note: str = "",
    source: str = "",
    decimals: int = 3,
    label: str = "",
) -> Table:
    """Return results as a LaTeX table with their data, the same columns for every statistic."""
    results = [result for _, result in keyed]
    columns = ["about", "what", "estimate", "interval", "p", "test", "n"]
    rows = [
        {
            "about": about,
            "what": result.name,
            "estimate": result.estimate,
            "interval": None if result.low is None or result.high is None else (result.low, result.high),
            "p": result.p_value,
            "test": captions.role_words(result),
            "n": captions.n_words(result.n).removeprefix("n = ") if result.n else "",
        }
        for about, result in keyed
    ]
    if not any(about for about, _ in keyed):
        columns.remove("about")
    if all(result.p_value is None for result in results):
        columns.remove("p")
    if not any(row["test"] for row in rows):
        columns.remove("test")
    corrections = dict.fromkeys(result.correction for result in results if result.correction != "none")
    heads = {
        "about": key,
        "what": "",
        "estimate": "Estimate",
        "interval": captions.level_words(results),
        "p": "p",
        "test": "Test",
        "n": "n",
    }
    caption = captions.join(
        title,
        captions.interval_words(results),
        f"P values corrected for multiplicity: {'; '.join(corrections)}." if corrections else "",
        captions.not_estimable_words(results),
        source,
        note,
    )
    latex = latex_table(
        pd.DataFrame(rows, columns=columns),
        caption,
        label or f"tab:{name.replace('_', '-')}",
        {column: heads[column] for column in columns},
        decimals=decimals,
        p_values=("p",) if "p" in columns else (),
    )
    return Table(name, latex, estimates_frame(keyed, key or "of"), caption)
