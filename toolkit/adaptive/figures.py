"""Adaptive against static benchmarking: what each design costs, whether its intervals hold, how near it comes."""

from __future__ import annotations

from typing import Final

import pandas as pd

from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption
from toolkit.stats.adaptive.benchmark import Benchmark

NAME: Final = "adaptive_benchmark"
_PANELS: Final = {
    "cost over": ("(a) Cost to the width", "Share of the baseline's cost", 1.0),
    "coverage of the differences": ("(b) Coverage", "Share of intervals that hold", 0.95),
    "error of the means": ("(c) Error at equal cost", "Score points", None),
}
"""How the name of an estimate begins, its panel's title and axis, and the line to hold it against."""


def adaptive_benchmark(found: Benchmark, about: About) -> FigureWithCaption:
    """Draw what designs cost and find, one row a design, with the intervals over seeds."""
    designs = list(found.results)
    rows = [
        (name, begin, one.estimate, one.low, one.high, one.name)
        for name, estimates in found.results.items()
        for begin in _PANELS
        for one in estimates
        if one.name.startswith(begin)
    ]
    data = pd.DataFrame(rows, columns=["design", "panel", "estimate", "low", "high", "name"])
    with style.thesis_style():
        figure = style.new_figure(style.PAGE_MM, 22 + 6 * len(designs))
        panels = figure.subplots(1, len(_PANELS), sharey=True)
        for axes, (begin, (title, label, line)) in zip(panels, _PANELS.items(), strict=True):
            marks = data[data["panel"] == begin]
            up = [len(designs) - 1 - designs.index(name) for name in marks["design"]]
            style.forest(axes, marks, up, style.ModelStyle(style.INK, "o", "-"), clip=False)
            if line is not None:
                axes.axvline(line, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
            axes.set_title(title, loc="left")
            axes.set_xlabel(label)
            axes.margins(x=0.15)
        style.row_axis(panels[0], designs[::-1])
        style.settle(figure)
    seeds = int(found.trials["seed"].nunique())
    said = "; ".join(
        f"{row['design']} {row['estimate']:.3g}"
        for row in data[data["panel"] == "cost over"].to_dict("records")
    )
    caption = captions.join(
        f"Adaptive against static benchmarking, {seeds} seeds each: (a) cost until the widest interval of a difference "
        f"of two models is {found.target_width:g} score points wide, over that of {designs[0]} with the same seed "
        "(median); (b) share of the differences on the full bank that the intervals hold when asking stops (mean; "
        f"dashed 95 %); (c) root mean square error of the models' means at the cost that {designs[0]} has in the "
        "median. Lines are 95 % intervals over seeds.",
        f"Cost over {designs[0]}: {said}.",
        *(f"{note[:1].upper()}{note[1:]}." for note in found.notes),
        about.source,
        about.note,
    )
    alt_text = f"Three panels, one row a design. Cost over {designs[0]}: {said}."
    return FigureWithCaption(NAME, figure, caption, alt_text, data, {"seeds": seeds})
