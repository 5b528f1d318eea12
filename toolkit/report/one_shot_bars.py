"""How the one-shot test is drawn: stacked bars of the outcomes, and the scores beside them."""

from __future__ import annotations

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from toolkit.report.labels import decimals, shortened
from toolkit.report.style import GREY, INK, PAGE_MM, PALETTE, new_figure, settle

ROW_MM: Final = 4.6
_MOST_TICKS: Final = 9
# Blue and vermilion are nearly one grey, so what is hallucinated is hatched as well; what is unexpected is pale.
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "expected": {"facecolor": PALETTE[0], "edgecolor": "white"},
    "unexpected": {"facecolor": "#DDDDDD", "edgecolor": "white"},
    "hallucinated": {"facecolor": PALETTE[3], "edgecolor": "white", "hatch": "/////"},
    "missing": {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"},
}
_WORDS: Final = {
    "expected": "expected (I1)",
    "unexpected": "unexpected (I0)",
    "hallucinated": "hallucinated (H)",
    "missing": "no verdict",
}


def draw_bars(data: pd.DataFrame) -> Figure:
    """Draw one bar a row and its score beside."""
    figure = new_figure(PAGE_MM, 22 + ROW_MM * len(data))
    figure.set_layout_engine("constrained", w_pad=0.06)  # the ends of the two axes are two numbers
    bars, scores = figure.subplots(1, 2, sharey=True, width_ratios=(1.15, 1))
    places, names = range(len(data)), shortened(data["label"], 44)
    left = pd.Series(0.0, index=data.index)
    shown = [part for part in _LOOKS if data[part].sum() > 0 or part != "missing"]
    for part in shown:
        share = (data[part] / data["experiments"]).fillna(0.0)
        bars.barh(places, share, left=left, height=0.72, linewidth=0.5, **_LOOKS[part])
        left += share
    bars.set_yticks(places, [names[label] for label in data["label"]])
    bars.set_ylim(len(data) - 0.4, -1.3)  # the first row is above, below the head of the scores
    bars.set_xlim(0, 1)
    bars.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    bars.set_xlabel("Share of experiments")
    bars.tick_params(axis="y", length=0)
    bars.spines["left"].set_visible(False)
    _draw_scores(scores, data)
    handles = [Patch(**_LOOKS[part], linewidth=0.5, label=_WORDS[part]) for part in shown]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), borderaxespad=0.2)
    return settle(figure)


def _draw_scores(axes: Axes, data: pd.DataFrame) -> None:
    numbers = data[["score", "raw", "low", "high"]].astype(float)
    axes.axvline(0, color=GREY, linewidth=0.6, linestyle=":")
    drawn = numbers[numbers["raw"].notna()]
    reach = [(drawn["raw"] - drawn["low"]).fillna(0.0), (drawn["high"] - drawn["raw"]).fillna(0.0)]
    axes.errorbar(
        drawn["raw"], drawn.index, xerr=reach, color=INK, fmt="o", markersize=3.5, elinewidth=0.9, capsize=2
    )
    ends = drawn[["raw", "low", "high"]]
    # The axis ends with a tick, so that a reader can tell how far below 0 it goes.
    low = min(0.0, math.floor(2 * float(ends.min().min())) / 2) if len(drawn) else 0.0
    high = max(1.0, float(ends.max().max())) if len(drawn) else 1.0
    span = high - low
    axes.set_xlim(low - 0.04 * span, high + 0.24 * span)
    for place, score in enumerate(numbers["score"]):
        text = "not scored" if pd.isna(score) else f"{score:.2f}"
        axes.text(high + 0.22 * span, place, text, ha="right", va="center")
    axes.text(high + 0.22 * span, -0.9, "score", ha="right", va="center")
    axes.set_xlabel("Raw score")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_bounds(low, high)
    steps = range(round(2 * low), math.floor(2 * high) + 1)
    if len(steps) <= _MOST_TICKS:  # weights are the user's: with large ones the axis finds its own
        axes.set_xticks([step / 2 for step in steps], [decimals(step / 2, 1) for step in steps])
