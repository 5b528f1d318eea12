"""Cost against quality: the mean of each model and length with intervals, and the front that no other point beats."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats.comparisons.cost_quality import cost_column
from toolkit.stats.inference.run_table import WHOLE, at_length, levels_of
from toolkit.words import scale_words

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
    figure, logarithmic, cut = _draw(data, factor, label, levels_of(analyses.runs), context)
    text = captions.text_of("cost_quality")
    is_free = (data["cost"] == 0).groupby(data["model"]).all()
    places = data.assign(
        place=[at_length(row.model, row.level) for row in style.rows_of(data)],
        cost=data["cost"] * factor,
        front=data["on_front"].map({True: ", on the front", False: ""}),
    )
    first, *_ = figure.axes[0].get_xlim()
    words = {
        "label": label,
        "points": style.values_of(places, text["point"]),
        "what": "tokens" if tokens else "cost",
        "lengths": data["level"].nunique() > 1 and context.lengths,
        "free": tokens,
        "cost": not tokens,
        "some_free": not tokens and ", ".join(sorted(map(str, is_free.index[is_free]))),
        "logarithmic": logarithmic,
        "shares": any(point.probability is not None for point in pareto.points) and pareto.resamples,
        "front": "; ".join(map(_front_name, filter(lambda point: point.on_front, pareto.points))),
        "tokens": tokens,
        "factor": factor != 1 and factor,
        "cut": (places["cost_low"] * factor < max(0.0, first)).any(),
        "estimated": tokens and costed["tokens_estimated"].fillna(False).any(),
    }
    names = {
        name: name.replace("aud", "token").replace("cost", "tokens") for name in map(str, data) if tokens
    }
    return context.worded(
        "cost_quality", figure, data.rename(columns=names), words, ["free", "cost", "some_free", "logarithmic", cut],
        ["front", "tokens", "" if tokens else context.money, "factor", "cut", "estimated"],
        n=captions.counts(costed, context.repeats),
        estimates=[estimate for point in pareto.points for estimate in (point.quality, point.cost)],
        missing=captions.missing_words(analyses.runs, costed),
    )  # fmt: skip


def _front_name(point: Any) -> str:
    share = "" if point.probability is None else f" ({point.probability:.0%})"
    return at_length(point.model, point.level) + share


def _draw(
    data: pd.DataFrame, factor: float, label: str, levels: Sequence[str], context: About
) -> tuple[Figure, bool, str]:
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
    line: dict[str, Any] = {"color": style.GREY, "linewidth": 1.2}
    ring: dict[str, Any] = {
        "marker": "o",
        "markerfacecolor": "none",
        "markeredgecolor": style.INK,
        "markeredgewidth": 0.8,
    }
    axes.step(front["cost"], front["quality"], where="post", zorder=1, **line)
    axes.plot(
        front["cost"], front["quality"], linestyle="none", markersize=_RING, zorder=2, clip_on=False, **ring
    )
    for name, look in styles.items():
        points = marks[marks["model"] == name].set_index("level")
        x, y = points["cost"], points["quality"]
        thin: dict[str, Any] = {"color": look.color, "linewidth": 1.1, "zorder": 2}
        axes.vlines(x, points["quality_low"], points["quality_high"], **thin)
        axes.hlines(y, points["cost_low"], points["cost_high"], **thin)
        mark: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5, "markersize": 6.5}
        axes.plot(x, y, look.marker, color=look.color, zorder=3, clip_on=False, **mark)
        for first, second in pairwise(name for name in levels if name in points.index):
            tip, tail = ((x[name], y[name]) for name in (second, first))
            axes.annotate("", tip, tail, arrowprops={**_ARROW, "color": look.color}, zorder=2)
    cut = style.cut_axis(axes, context.scale, marks[["quality", "quality_low", "quality_high"]])
    axes.set(ylabel=f"Composite score ({scale_words(context.scale, '–')})", xlabel=label)
    handles = [*style.model_handles(styles), style.handle("front", markersize=8, **line, **ring)]
    if len(existing := [name for name in levels if name in set(marks["level"])]) > 1:
        label = f"{', '.join(existing)}: {context.factor}"
        handles.append(style.handle(label, color=style.INK, linewidth=0.9, marker=">"))
    style.legend(figure, handles, columns=across, handlelength=2.6)
    style.settle(figure)
    _name_lengths(axes, marks, figure.dpi)  # where the panel stands now, so that they can be told to be near
    return figure, logarithmic, cut


def _name_lengths(axes: Axes, marks: pd.DataFrame, dpi: float) -> None:
    """Write the level above an interval or beside a free mark, but not over an earlier letter."""
    positions: list[Any] = []
    for row in style.rows_of(marks[marks["level"] != WHOLE].sort_values(["level", "cost"], ascending=False)):
        free = row.cost < 0  # all of a free model's marks stand above each other: beside the mark
        top = row.quality if free or pd.isna(row.quality_high) else row.quality_high
        at = axes.transData.transform((row.cost, top)) * 72 / dpi
        if all(abs(at - other).max() > _NEAR for other in positions):
            positions.append(at)
            offset = (10, -3) if free else (0, 7 if pd.isna(row.quality_high) else 3)
            axes.annotate(
                row.level, (row.cost, top), offset, textcoords="offset points", ha="center", fontsize="small",
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
