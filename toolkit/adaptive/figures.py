"""Adaptive against static benchmarking: what each design costs, whether its intervals hold, how near it comes."""

from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.figure import FigureBase

from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption
from toolkit.stats.result import Result

NAME = "adaptive_benchmark"
_PANELS = {
    "cost over the baseline": ("(a) Cost to the width", "Share of the baseline's cost", 1.0),
    "coverage of the differences": ("(b) Coverage", "Share of intervals that hold", 0.95),
    "error of the means": ("(c) Error at equal cost", "Score points", None),
}
"""Statistic, title and axis of its panel, and the value to compare it with."""
_TOP = 4.0  # widths, in units of that at which asking stops, up to which the cost curve is shown


def adaptive_benchmark(benchmark: Result, about: About) -> FigureWithCaption:
    """Draw cost, coverage and error, one row a design, with the intervals over seeds.

    Examples
    --------
    >>> about = about_study(study.frames(), study.plan)  # doctest: +SKIP
    >>> figure = adaptive_benchmark(study.adaptive(0.4), about)  # doctest: +SKIP
    >>> save_figure(figure, "figures")[0].name  # doctest: +SKIP
    'adaptive_benchmark.pdf'
    """
    designs = list(benchmark.results)
    results = [
        (design, estimate.statistic, estimate)
        for design, estimates in benchmark.results.items()
        for estimate in estimates
        if estimate.statistic in _PANELS
    ]
    data = style.data_of(results, ("design", "panel"), ("name",), every=True)
    with style.thesis_style():
        figure = style.new_figure(style.PAGE_MM, 82 + 10 * len(designs))
        parts: Any = figure.subfigures(2, 1, height_ratios=[22 + 6 * len(designs), 60 + 4 * len(designs)])
        above, below = parts
        panels = above.subplots(1, len(_PANELS), sharey=True)
        for axes, (panel, (title, label, line)) in zip(panels, _PANELS.items(), strict=True):
            marks = data[data["panel"] == panel]
            up = [len(designs) - 1 - designs.index(name) for name in marks["design"]]
            style.forest(axes, marks, up, style.PLAIN, clip=False)
            if line is not None:
                axes.axvline(line, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
            axes.set_title(title, loc="left")
            axes.set_xlabel(label)
            axes.margins(x=0.15)
        style.row_axis(panels[0], designs[::-1])
        curves = _cost_curve(below, benchmark)
        style.settle(figure)
    costs = style.rows_of(data[data["panel"] == "cost over the baseline"])
    by_design = "; ".join(f"{row.design} {row.estimate:.3g}" for row in costs)
    words = {
        "first": designs[0],
        "width": benchmark.target_width,
        "top": _TOP,
        "ratios": by_design,
        "how": True,
    }
    data = pd.concat([data, curves], ignore_index=True)
    return about.worded(
        NAME, figure, data, words, (), ["how", "ratios", captions.notes_words(benchmark.notes)],
        n={"seeds": int(benchmark.trials["seed"].nunique())}, estimates=[number for *_, number in results],
    )  # fmt: skip


def _cost_curve(figure: FigureBase, benchmark: Result) -> pd.DataFrame:
    """Draw the width by the cost of each design, and return the points; a round that few seeds reached is left out."""
    axes, designs = figure.subplots(), list(benchmark.results)
    rounds = benchmark.curves.groupby(["design", "bases"], sort=False)
    quartiles = {"low": 0.25, "estimate": 0.5, "high": 0.75}
    points = pd.DataFrame({name: rounds["width"].quantile(share) for name, share in quartiles.items()})
    points = points.assign(cost=rounds["cost"].median(), seeds=rounds.size()).reset_index()
    points = points[points["seeds"] >= benchmark.trials["seed"].nunique() / 2].assign(panel="cost curve")
    looks = dict(zip(designs, zip(cycle(style.PALETTE), cycle(style.LINES), strict=False), strict=False))
    for design, (color, line) in looks.items():
        rows = points[points["design"] == design]
        axes.fill_between(rows["cost"], rows["low"], rows["high"], color=color, alpha=0.15, linewidth=0)
        axes.plot(rows["cost"], rows["estimate"], color=color, linestyle=line, linewidth=1.4)
    axes.axhline(benchmark.target_width, color=style.INK, linestyle=":", linewidth=0.8)
    axes.set_title("(d) Cost curve", loc="left")
    top = _TOP * benchmark.target_width
    axes.set(xlabel="Cost of the bases asked", ylabel="Widest interval (points)", ylim=(0, top))
    axes.legend(handles=[style.handle(name, color=c, linestyle=line) for name, (c, line) in looks.items()])
    return points
