"""Cost against quality: the mean of each model and length with intervals, and the front that no other point beats."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.comparisons.cost_quality import Pareto, cost_column
from toolkit.stats.inference.run_table import WHOLE, at_length
from toolkit.words import scale_words

_LOG_FROM: Final = 8.0
"""A ratio of largest to smallest cost above which a linear axis would press the cheap models together."""
_RING: Final = 12.0
"""Diameter in points of the ring around a mark of the front."""
_SIZES: Final = {"S": 4.0, "M": 6.0, "L": 8.5, WHOLE: 6.0}
"""Marks of the prompt lengths: letters beside marks that lie close would stand beside the wrong one."""
_SHORT: Final = 16
"""Letters of a name of which two stand side by side in the legend of one column."""
_CHEAP: Final = 0.01
"""Below this many AUD a run, costs are shown per 1,000 runs."""
_ENDS: Final = ["cost", "cost_low", "cost_high"]


def cost_quality(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw mean quality against the mean cost of a run, one point for each model and length bin, with the front.

    Where every run costs AUD 0 (a model on this machine) the axis shows tokens per run and the caption says so,
    because a column of points at zero would look like a result.
    """
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
    figure, logarithmic = _draw(data, factor, label, context)
    text = captions.TEXTS["cost_quality"]
    free = sorted(str(name) for name, rows in data.groupby("model") if (rows["cost"] == 0).all())
    n = captions.counts(costed, context.repeats)
    estimates = [estimate for point in pareto.points for estimate in (point.quality, point.cost)]
    points = "; ".join(
        f"{at_length(row['model'], row['length_bin'])}: {row['cost'] * factor:.3g}, quality {row['quality']:.2f}"
        + (", on the front" if row["on_front"] else "")
        for _, row in data.iterrows()
    )
    cost = "Tokens of prompt and reply" if tokens else "Cost of the call that answered"
    return context.figure(
        "cost_quality", figure, data,
        text["alt"].format(scale=scale_words(context.scale), label=label, points=points),
        text["title"].format(what="tokens" if tokens else "cost", n=captions.n_words(n)),
        text["cost"].format(what=cost),
        not tokens and context.money,
        factor != 1 and text["factor"].format(factor=factor),
        text["marks"],
        captions.interval_words(estimates),
        captions.cut_words(data["quality_low"], data["quality_high"], context.scale),
        (data["cost_low"] * factor < figure.axes[0].get_xlim()[0]).any() and text["cut"],
        _front_words(pareto),
        tokens and text["free"],
        free and text["some_free"].format(names=", ".join(free)),
        tokens and costed["tokens_estimated"].fillna(False).any() and "Some token counts are estimates.",
        logarithmic and "The cost axis is logarithmic.",
        captions.missing_words(analyses.runs, costed),
        f"{captions.zeros_words(costed)}.",
        context.origin,
        n=n,
        estimates=estimates,
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


def _draw(data: pd.DataFrame, factor: float, label: str, context: About) -> tuple[Figure, bool]:
    styles = context.styles(data["model"])
    marks = data.assign(**{name: data[name] * factor for name in _ENDS})
    columns = 1 if len(styles) <= style.CROWD else 2
    across = 2 if max(map(len, styles)) <= _SHORT else columns
    width, height = (style.COLUMN_MM, 70) if columns == 1 else (style.PAGE_MM, 95)
    figure = style.new_figure(width, height + 4 * -(-(len(styles) + 4) // across))
    axes = figure.subplots()
    logarithmic = _cost_axis(axes, marks)
    front = marks[marks["on_front"]].sort_values(["cost", "quality"])
    axes.step(front["cost"], front["quality"], where="post", color=style.GREY, linewidth=2.2, zorder=1)
    axes.plot(
        front["cost"], front["quality"], linestyle="none", marker="o", markersize=_RING, markerfacecolor="none",
        markeredgecolor=style.INK, markeredgewidth=0.8, zorder=2, clip_on=False,
    )  # fmt: skip
    for name, look in styles.items():
        for _, row in marks[marks["model"] == name].iterrows():
            thin: dict[str, Any] = {"color": look.color, "linewidth": 0.8, "alpha": 0.75, "zorder": 2}
            axes.plot([row["cost"]] * 2, [row["quality_low"], row["quality_high"]], **thin)
            axes.plot([row["cost_low"], row["cost_high"]], [row["quality"]] * 2, **thin)
            axes.plot(
                [row["cost"]], [row["quality"]], color=look.color, marker=look.marker, markeredgewidth=0,
                markersize=_SIZES[row["length_bin"]], zorder=3, clip_on=False,
            )  # fmt: skip
    style.score_axis(axes, context.scale)
    axes.set_xlabel(label)
    handles = style.model_handles(styles)
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": style.INK, "markeredgewidth": 0.8}
    handles.append(style.handle("front", color=style.GREY, linewidth=2.2, marker="o", markersize=8, **ring))
    present = set(marks["length_bin"]) - {WHOLE}
    disc: dict[str, Any] = {"color": style.GREY, "linestyle": "none", "marker": "o"}
    handles += [
        style.handle(f"prompt length {name}", markersize=size, **disc)
        for name, size in _SIZES.items()
        if name in present
    ]
    style.legend(figure, handles, columns=across, handlelength=2.6)
    return style.settle(figure), logarithmic


def _cost_axis(axes: Axes, marks: pd.DataFrame) -> bool:
    """Scale the cost axis; return whether it is logarithmic, which the caption has to declare."""
    smallest, largest = float(marks["cost"].min()), float(marks[_ENDS].max().max())
    if smallest > 0 and float(marks["cost"].max()) / smallest > _LOG_FROM:
        style.log_axis(axes, smallest, largest)
        return True
    axes.set_xlim(0, largest * 1.08 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(style.PLAIN_NUMBERS)
    return False
