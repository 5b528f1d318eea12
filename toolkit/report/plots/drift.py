"""How far judges have moved on later days: the shift of each judge's composite over time, beside the tolerance."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw

NAME: Final = "judge_drift"
_COLUMNS: Final = ("anchor", "day", "judge", "estimate", "low", "high")


def judge_drift(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean shift of each judge's composite on every day on which it was asked anew."""
    days = analyses.judge_drift()
    parts = [(*key, drift) for key, measured in days.items() for drift in measured.composites.values()]
    data = style.data_of(((*key, drift.judge, drift.shift) for *key, drift in parts), _COLUMNS)
    if data.empty:
        raise NothingToDraw("no judge was asked anew on a later day")
    data["changed"] = [drift.changed.estimate for *_, drift in parts if drift.shift.estimable]
    estimates, tolerance = [drift.shift for *_, drift in parts], analyses.drift_tolerance
    text = captions.TEXTS[NAME]
    band = "" if tolerance is None else text["tolerance"].format(tolerance=f"{tolerance:g}")
    values = style.values_of(
        data,
        lambda row: (
            f"{row.judge} on {row.day}: {style.decimals(row.estimate, sign=True)}, "
            f"{row.changed:.0%} of scores changed"
        ),
    )
    return context.figure(
        NAME, _draw(data, tolerance, context), data, f"{text['alt']}: {values}.",
        text["seen"].format(tolerance=band),
        [text["note"]],
        [text["changed"].format(values=values)],
        estimates=estimates, counts=captions.estimates_n_words(estimates), missing="",
    )  # fmt: skip


def _draw(data: pd.DataFrame, tolerance: float | None, context: About) -> Figure:
    figure = style.new_figure(style.COLUMN_MM, 70)
    axes = figure.subplots()
    styles = style.model_styles(data["judge"])
    days = {day: place for place, day in enumerate(sorted(data["day"].unique()))}
    step = 0.5 / max(len(styles), 1)
    if tolerance is not None:
        axes.axhspan(-tolerance, tolerance, color=style.GREY, alpha=0.2, linewidth=0)
    axes.axhline(0, color=style.GREY, linewidth=0.8, zorder=0)
    for number, (judge, look) in enumerate(styles.items()):
        rows = data[data["judge"] == judge].sort_values("day")
        across = rows["day"].map(days) + (number - (len(styles) - 1) / 2) * step
        axes.vlines(across, rows["low"], rows["high"], color=look.color, linewidth=1.2)
        axes.plot(across, rows["estimate"], color=look.color, marker=look.marker, markersize=5, linewidth=0.8)
    axes.set_xticks(list(days.values()), list(days))
    axes.set_xlim(-0.6, len(days) - 0.4)
    axes.set_ylabel("Now less then (score points)")
    style.legend(figure, style.model_handles(styles), columns=min(len(styles), 2))
    return style.settle(figure)
