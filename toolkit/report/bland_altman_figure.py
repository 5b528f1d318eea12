"""Bland-Altman plots: how far each pair of judges lies apart, with bias and limits of agreement and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import decimals, shorten
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import COLUMN_MM, GREY, INK, PAGE_MM, new_figure, score_axis, settle, thesis_style
from toolkit.stats.agreement.bland_altman import BlandAltman
from toolkit.stats.result import Estimate
from toolkit.words import SCALE

NAME: Final = "bland_altman"
TITLE: Final = "Bland-Altman plots of the judges"
_ACROSS: Final = 3
_POINT: Final = 7.0
"""Area of the mark of one answer in square points, where no mark is too large."""
_LARGEST: Final = 70.0
_COLUMNS: Final = ("first", "second", "kind", "mean", "difference", "low", "high", "answers")
_LINES: Final[Mapping[str, Literal["-", "--"]]] = {"bias": "-", "lower limit": "--", "upper limit": "--"}


def bland_altman_figure(
    pairs: Mapping[tuple[str, str], BlandAltman] | None, about: About
) -> FigureWithCaption:
    """Draw the difference of each pair of judges against their mean, a panel for each pair."""
    drawn = {names: one for names, one in (pairs or {}).items() if one.bias.estimable}
    if not drawn:
        return about.nothing(NAME, TITLE, "no two judges scored three answers")
    data = pd.concat([_marks(names, one) for names, one in drawn.items()], ignore_index=True)
    with thesis_style():
        figure, reach = _draw(drawn, data)
    cut = bool(data[["low", "high"]].abs().max().max() > reach)
    found = [estimate for one in drawn.values() for estimate in one.estimates()]
    paired = captions.estimates_n_words(one.bias for one in drawn.values()).removeprefix("n = ")
    caption = captions.join(
        f"{TITLE} ({captions.n_words(about.n)}; each pair: {paired}): composite score of the first judge less that of "
        "the second, against the mean of the two.",
        "A larger point is several answers in one place. Solid line: bias, the mean difference; dashed lines: limits "
        "within which 95% of the differences are expected; grey bands: their intervals.",
        captions.interval_words(one for one in found if "limit" in one.name or "bias (" in one.name),
        "Proportional bias, the change of the difference per point of the mean: "
        f"{'; '.join(_slope_words(names, one.slope) for names, one in drawn.items())}.",
        "Nothing is corrected for the number of pairs." if len(drawn) > 1 else "",
        f"The axis of differences shows ±{reach:g} of the ±{SCALE[1]:g} points that are possible.",
        "An interval that goes on beyond the axis is cut there; the data have its end." if cut else "",
        captions.not_estimable_words(one.bias for names, one in (pairs or {}).items() if names not in drawn),
        captions.no_interval_words((one.name, one) for one in found),
        about.missing,
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(drawn), data, dict(about.n))


def _marks(names: tuple[str, str], found: BlandAltman) -> pd.DataFrame:
    points = found.points.round(9).groupby(["mean", "difference"]).size().rename("answers").reset_index()
    lines = [
        {"kind": kind, "difference": one.estimate, "low": one.low, "high": one.high}
        for kind, one in zip(_LINES, (found.bias, found.lower, found.upper), strict=True)
    ]
    rows = pd.concat([points.assign(kind="point").astype(object), pd.DataFrame(lines, dtype=object)])
    numbers = dict.fromkeys(("mean", "difference", "low", "high"), "float64") | {"answers": "Int64"}
    return rows.assign(first=names[0], second=names[1]).reindex(columns=list(_COLUMNS)).astype(numbers)


def _draw(drawn: Mapping[tuple[str, str], BlandAltman], data: pd.DataFrame) -> tuple[Figure, float]:
    across = min(_ACROSS, len(drawn))
    down = -(-len(drawn) // across)
    figure = new_figure(COLUMN_MM if across == 1 else PAGE_MM, 14 + 62 * down)
    grid = figure.subplots(down, across, squeeze=False)
    ends = float(data[["difference", "low", "high"]].abs().max().max())
    reach = min(SCALE[1], max(1.0, math.ceil(2.1 * ends) / 2))
    for place, axes in enumerate(grid.flat):
        if place >= len(drawn):
            axes.set_axis_off()
            continue
        (first, second), found = list(drawn.items())[place]
        own = data[(data["first"] == first) & (data["second"] == second)]
        _panel(axes, own, reach)
        axes.set_title(
            f"{shorten(first, 16)} less {shorten(second, 16)}\n{_short('bias', found.bias)}\n"
            f"limits {_number(found.lower.estimate)} to {_number(found.upper.estimate)}"
        )
        score_axis(axes, "Mean of the two (0–5)", which="x")
        if place % across == 0:
            axes.set_ylabel("Difference (points)")
    handles = [
        Line2D([], [], color=INK, linewidth=1.4, linestyle="-", label="bias"),
        Line2D([], [], color=INK, linewidth=1.1, linestyle="--", label="95% limits of agreement"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, borderaxespad=0.2)
    return settle(figure), reach


def _panel(axes: Axes, data: pd.DataFrame, reach: float) -> None:
    points = data[data["kind"] == "point"]
    axes.axhline(0, color=GREY, linewidth=0.6, zorder=0)
    # Area says how many answers lie there, up to a size at which a point hides nothing but itself.
    answers = points["answers"].astype(float)
    sizes = _POINT * answers * min(1.0, _LARGEST / (_POINT * float(answers.max())))
    sizes = sizes.clip(lower=2.0)
    axes.scatter(
        points["mean"], points["difference"], s=sizes, color=INK, alpha=0.45, linewidth=0, zorder=2,
        clip_on=False,
    )  # fmt: skip
    for kind, line in _LINES.items():
        for _, row in data[data["kind"] == kind].iterrows():
            axes.axhline(
                row["difference"], color=INK, linestyle=line, linewidth=1.4 if kind == "bias" else 1.1
            )
            if pd.notna(row["low"]) and pd.notna(row["high"]):
                axes.axhspan(row["low"], row["high"], color=GREY, alpha=0.28, linewidth=0, zorder=1)
    axes.set_ylim(-reach, reach)


def _number(value: float | None) -> str:
    return "–" if value is None else decimals(value)


def _short(name: str, found: Estimate) -> str:
    told = f"{name} {_number(found.estimate)}"
    return told + (f" [{_number(found.low)}, {_number(found.high)}]" if found.low is not None else "")


def _slope_words(names: tuple[str, str], slope: Estimate) -> str:
    told = _short("", slope).strip() if slope.estimable else "not estimable"
    return f"{names[0]} less {names[1]} {told}"


def _alt_text(drawn: Mapping[tuple[str, str], BlandAltman]) -> str:
    said = "; ".join(
        f"{a} less {b}: bias {_number(one.bias.estimate)}, limits {_number(one.lower.estimate)} to "
        f"{_number(one.upper.estimate)}"
        for (a, b), one in drawn.items()
    )
    return f"Differences of pairs of judges against their mean on a scale from 0 to 5: {said}."
