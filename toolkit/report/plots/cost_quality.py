"""Cost against quality: the mean of each model and length with intervals, and the front that no other point beats."""

from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.comparisons.cost_quality import Pareto, cost_column
from toolkit.stats.inference.run_table import WHOLE, at_length
from toolkit.words import LENGTH_BINS, scale_words

_LOG_FROM = 8.0
"""A ratio of largest to smallest cost above which a linear axis would press the cheap models together."""
_RING = 11.0
"""Diameter in points of the ring around a mark of the front."""
_NEAR = 8.0
"""Points within which two letters would run into one another."""
_ARROW = {"arrowstyle": "-|>", "linewidth": 0.9, "mutation_scale": 7, "shrinkA": 4, "shrinkB": 4}
_SHORT = 16
"""Letters of a name of which two stand side by side in the legend of one column."""
_CHEAP = 0.01
"""Below this many AUD a run, costs are shown per 1,000 runs."""
_ENDS = ["cost", "cost_low", "cost_high"]


def cost_quality(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw mean quality against mean cost (tokens where all runs are free) of each model and length, with the front."""
    judged = captions.judged_runs(analyses.runs)
    pareto = analyses.pareto(cost=cost_column(analyses.runs))
    costed = judged[judged[pareto.cost].notna()]
    data = pareto.frame()
    if data.empty:
        raise NothingToDraw("no run with a known cost")
    tokens = pareto.cost == "total_tokens"
    factor, label = 1.0, "Tokens per run" if tokens else "AUD per run"
    if not tokens and data["cost"].max() < _CHEAP:
        factor, label = 1000.0, "AUD per 1,000 runs"
    figure, logarithmic, cut = _draw(data, factor, label, context)
    text = captions.TEXTS["cost_quality"]
    free = sorted(str(name) for name, rows in data.groupby("model") if (rows["cost"] == 0).all())
    n = captions.counts(costed, context.repeats)
    estimates = [estimate for point in pareto.points for estimate in (point.quality, point.cost)]
    points = "; ".join(
        f"{at_length(row['model'], row['length_bin'])}: {row['cost'] * factor:.3g}, quality {row['quality']:.2f}"
        + (", on the front" if row["on_front"] else "")
        for _, row in data.iterrows()
    )
    several = data["length_bin"].nunique() > 1
    words = {"scale": scale_words(context.scale), "label": label, "points": points}
    words["what"] = "tokens" if tokens else "cost"
    words["lengths"] = text["lengths"].format(lengths=context.lengths) if several else ""
    return context.worded(
        "cost_quality", figure, data, words,
        [
            text["free" if tokens else "cost"],
            free and not tokens and text["some_free"].format(names=", ".join(free)),
            logarithmic and "the cost axis is logarithmic",
            cut,
        ],
        [
            _front_words(pareto),
            text["tokens"] if tokens else context.money,
            factor != 1 and text["factor"].format(factor=factor),
            (data["cost_low"] * factor < max(0.0, figure.axes[0].get_xlim()[0])).any() and text["cut"],
            tokens and costed["tokens_estimated"].fillna(False).any() and "Some token counts are estimates.",
        ],
        n=n, estimates=estimates, missing=captions.missing_words(analyses.runs, costed),
    )  # fmt: skip


def _front_words(pareto: Pareto) -> str:
    resampled = any(point.probability is not None for point in pareto.points)
    names = [
        at_length(point.model, point.length_bin)
        + (f" ({point.probability:.0%})" if point.probability is not None else "")
        for point in pareto.points
        if point.on_front
    ]
    text = captions.TEXTS["cost_quality"]
    shares = text["shares"].format(resamples=pareto.resamples) if resampled else ""
    return text["front"].format(shares=shares, names="; ".join(names))


def _draw(data: pd.DataFrame, factor: float, label: str, context: About) -> tuple[Figure, bool, str]:
    styles = context.styles(data["model"])
    marks = data.copy()
    marks[_ENDS] *= factor
    marks = _free_apart(marks)
    columns = 1 if len(styles) <= style.CROWD else 2
    across = 2 if max(map(len, styles)) <= _SHORT else columns
    width, height = (style.COLUMN_MM, 70) if columns == 1 else (style.PAGE_MM, 95)
    figure = style.new_figure(width, height + 4 * -(-(len(styles) + 2) // across))
    axes = figure.subplots()
    logarithmic = _cost_axis(axes, marks)
    front = marks[marks["on_front"]].sort_values(["cost", "quality"])
    axes.step(front["cost"], front["quality"], where="post", color=style.GREY, linewidth=1.2, zorder=1)
    axes.plot(
        front["cost"], front["quality"], linestyle="none", marker="o", markersize=_RING, markerfacecolor="none",
        markeredgecolor=style.INK, markeredgewidth=0.8, zorder=2, clip_on=False,
    )  # fmt: skip
    for name, look in styles.items():
        points = marks[marks["model"] == name].set_index("length_bin")
        thin: dict[str, Any] = {"color": look.color, "linewidth": 1.1, "zorder": 2}
        axes.vlines(points["cost"], points["quality_low"], points["quality_high"], **thin)
        axes.hlines(points["quality"], points["cost_low"], points["cost_high"], **thin)
        axes.plot(
            points["cost"], points["quality"], color=look.color, marker=look.marker, markeredgecolor="white",
            markeredgewidth=0.5, markersize=6.5, zorder=3, clip_on=False, linestyle="none",
        )  # fmt: skip
        for first, second in pairwise(name for name in LENGTH_BINS if name in points.index):
            tip, tail = (tuple(points.loc[name, ["cost", "quality"]]) for name in (second, first))
            axes.annotate("", tip, tail, arrowprops={**_ARROW, "color": look.color}, zorder=2)
    values = marks[["quality", "quality_low", "quality_high"]].to_numpy(dtype=float).ravel()
    cut = style.cut_axis(axes, context.scale, values)
    axes.set_ylabel(f"Composite score ({scale_words(context.scale, '–')})")
    axes.set_xlabel(label)
    handles = style.model_handles(styles)
    front_line = style.handle(
        "front", color=style.GREY, linewidth=1.2, marker="o", markersize=8, markerfacecolor="none",
        markeredgecolor=style.INK, markeredgewidth=0.8,
    )  # fmt: skip
    handles.append(front_line)
    if len(lengths := [name for name in LENGTH_BINS if name in set(marks["length_bin"])]) > 1:
        handles.append(
            style.handle(f"{', '.join(lengths)}: prompt length", color=style.INK, linewidth=0.9, marker=">")
        )
    style.legend(figure, handles, columns=across, handlelength=2.6)
    style.settle(figure)
    _name_lengths(axes, marks, figure.dpi)  # where the panel stands now, so that they can be told to be near
    return figure, logarithmic, cut


def _name_lengths(axes: Axes, marks: pd.DataFrame, dpi: float) -> None:
    """Write the prompt length above an interval or beside a free mark, but not over an earlier letter."""
    positions: list[Any] = []
    for row in style.rows_of(
        marks[marks["length_bin"] != WHOLE].sort_values(["length_bin", "cost"], ascending=False)
    ):
        free = row.cost < 0  # all of a free model's marks stand above each other: beside the mark
        top = row.quality if free or pd.isna(row.quality_high) else row.quality_high
        at = axes.transData.transform((row.cost, top)) * 72 / dpi
        if all(abs(at - other).max() > _NEAR for other in positions):
            positions.append(at)
            offset = (10, -3) if free else (0, 7 if pd.isna(row.quality_high) else 3)
            axes.annotate(
                row.length_bin, (row.cost, top), offset, textcoords="offset points", ha="center", fontsize="small",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},  # no line runs through it
            )  # fmt: skip


def _free_apart(marks: pd.DataFrame) -> pd.DataFrame:
    """Return marks of which those that cost nothing stand left of 0, each model in a column, and cover no other."""
    free = marks["cost"] == 0
    models = list(marks.loc[free, "model"].unique())[::-1]
    width = min(0.16, 0.8 / max(1, len(models))) * (float(marks[_ENDS].max().max()) or 1.0)
    left = marks.loc[free, "model"].map({model: (rank + 0.7) * -width for rank, model in enumerate(models)})
    return marks.assign(
        cost=marks["cost"].mask(free, left.astype(float)), cost_low=marks["cost_low"].clip(lower=0)
    )


def _cost_axis(axes: Axes, marks: pd.DataFrame) -> bool:
    """Scale the cost axis; return whether it is logarithmic, which the caption has to declare."""
    smallest, largest = float(marks["cost"].min()), float(marks[_ENDS].max().max())
    if smallest > 0 and float(marks["cost"].max()) / smallest > _LOG_FROM:
        style.log_axis(axes, smallest, largest)
        return True
    free = marks.loc[marks["cost"] < 0, "cost"]
    axes.set_xlim(free.min() + 0.6 * free.max() if len(free) else 0, largest * 1.08 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(style.PLAIN_NUMBERS)
    if len(free):
        axes.axvline(0, color=style.GREY, linewidth=0.8, zorder=0)
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= largest])
        axes.set_xticks([(free.min() + free.max()) / 2], ["free"], minor=True)
        axes.tick_params(axis="x", which="minor", length=0, pad=6)
    return False
