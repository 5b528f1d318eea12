"""The means of the models on the whole scale, and their differences within items: scores without prompt lengths."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw

_COLUMNS: Final = ("part", "name", "estimate", "low", "high", "p_value", "bases")
_ROW_MM: Final = 6.0
_MOST: Final = 40
"""Differences that a page has room for; the table has all."""


def model_means(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each model with its interval, and below the differences of two within items."""
    result = analyses.compare_models()
    means = [mean for _, mean in result.models]
    parts = [("mean", e) for e in means] + [("difference", e) for e in result.differences]
    rows = [
        (part, e.name, e.estimate, e.low, e.high, e.p_value, e.n.get("bases"))
        for part, e in parts
        if e.estimable
    ]
    data = pd.DataFrame(rows, columns=list(_COLUMNS))
    if data.empty:
        raise NothingToDraw("no item has a score")
    data = data.astype(dict.fromkeys(("estimate", "low", "high", "p_value"), "float64"))
    differences = data[data["part"] == "difference"]
    widest = differences.reindex(differences["estimate"].abs().sort_values(ascending=False).index)
    largest = differences[differences.index.isin(widest.index[:_MOST])]
    figure = _draw(data[data["part"] == "mean"], largest, context)
    caption = captions.join(
        f"Means of the models ({captions.n_words(context.n)}).",
        captions.interval_words(means),
        f"Below: differences within the items that both have. {captions.interval_words(result.differences)}"
        if len(largest)
        else "",
        f"Drawn are the {_MOST} largest of {len(differences)} differences."
        if len(largest) < len(differences)
        else "",
        "All of them are exploratory; P values corrected by Holm stand in the table." if len(largest) else "",
        captions.not_estimable_words(estimate for _, estimate in parts if not estimate.estimable),
        captions.notes_words(result.notes),
        context.end,
    )
    values = "; ".join(f"{row.name}: {style.decimals(row.estimate)}" for row in style.rows_of(data))
    alt_text = f"Means and differences: {values}."
    estimates = [estimate for _, estimate in parts]
    return FigureWithCaption("model_means", figure, caption, alt_text, data, context.n, estimates=estimates)


def _draw(means: pd.DataFrame, differences: pd.DataFrame, context: About) -> Figure:
    heights = [len(part) for part in (means, differences) if len(part)]
    figure = style.new_figure(style.PAGE_MM, _ROW_MM * sum(heights) + 16 * len(heights))
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    styles = context.styles(means["name"])
    for axes, part in zip(panels, (means, differences), strict=False):
        rows = part.iloc[::-1]
        for up, (_, row) in enumerate(rows.iterrows()):
            look = styles.get(str(row["name"]), style.PLAIN)
            style.forest(axes, rows.iloc[up : up + 1], [up], look, width=1.6)
            style.beside(axes, up, style.interval(row["estimate"], row["low"], row["high"]), 1.015)
        names = style.shortened(rows["name"], 44)
        style.row_axis(axes, [names[name].replace(" - ", " − ") for name in rows["name"]])
    style.score_axis(panels[0], context.scale, "Mean score", which="x")
    if len(differences):
        panels[1].axvline(0, color=style.GREY, linewidth=0.8, zorder=0)
        panels[1].set_xlabel("Difference within items (points)")
    return style.settle(figure)
