"""How often hallucination judges are right: accuracy, sensitivity and specificity with intervals, beside baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.labels import shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    GREY,
    PAGE_MM,
    ModelStyle,
    message_figure,
    model_styles,
    new_figure,
    settle,
    thesis_style,
)
from toolkit.stats.detection.deciders import Decider
from toolkit.stats.result import Estimate

NAME: Final = "hallucination_judges"
RATES: Final = ("accuracy", "sensitivity", "specificity")
"""One panel each."""
_COLUMNS: Final = ("row", "judge", "model", "mode", "rate", "estimate", "low", "high", "items", "undecided")
_LINES: Final[tuple[Literal["--", ":"], ...]] = ("--", ":")
_ROW_MM: Final = 6.0
_NAMED: Final = 3
"""More judges and modes than this are not named one by one in a caption; the data have each."""


def hallucination_figure(
    deciders: Sequence[Decider],
    baselines: Sequence[Decider] = (),
    *,
    k: int,
    note: str = "",
    source: str = "",
) -> FigureWithCaption:
    """Draw a forest: one row per judge and mode, one panel per rate, baselines as vertical lines."""
    everyone = (*deciders, *baselines)
    data = pd.DataFrame([_row(one, rate) for one in everyone for rate in RATES], columns=list(_COLUMNS))
    n = {
        "items": max((one.found.counts.items for one in everyone), default=0),
        "judges": len({one.judge for one in deciders}),
        "modes": len({one.mode for one in deciders}),
    }
    drawn = data[data["estimate"].notna()]
    if drawn[drawn["mode"] != ""].empty:
        with thesis_style():
            figure = message_figure(PAGE_MM, 30, "no item was decided")
        caption = captions.join(
            "Hallucination judges: no item was decided.", undecided_words(deciders), source, note
        )
        return FigureWithCaption(NAME, figure, caption, "No decision, so nothing is drawn.", data, n)
    with thesis_style():
        figure = _draw(
            drawn,
            [one.label for one in deciders],
            [one.label for one in baselines],
            model_styles(one.model for one in deciders),
        )
    caption = captions.join(
        f"Hallucination judges on a labelled set ({captions.n_words(n)}, k = {k}): accuracy, share of hallucinations "
        "found (sensitivity) and share of true answers passed (specificity).",
        captions.interval_words([one.found.rate(rate) for one in deciders for rate in RATES]),
        captions.UNCORRECTED,
        _lines_words(baselines),
        undecided_words(deciders),
        captions.not_estimable_words([rate for one in deciders for rate in _silent(one)]),
        source,
        note,
    )
    said = "; ".join(f"{row.row}, {row.rate}: {row.estimate:.2f}" for row in drawn.itertuples())
    return FigureWithCaption(NAME, figure, caption, f"Marks with intervals in three panels: {said}.", data, n)


def undecided_words(deciders: Sequence[Decider]) -> str:
    """Say how many items have no decision and how many were not asked about, and what became of them."""
    left_out = [(one.found.counts.undecided, one.label) for one in deciders if one.found.counts.undecided]
    unasked = [(one.unasked, one.label) for one in deciders if one.unasked]
    return captions.join(
        f"Undecided items, left out and not counted as wrong: {_counted(left_out)}." if left_out else "",
        f"Items not asked about: {_counted(unasked)}." if unasked else "",
    )


def _counted(counts: Sequence[tuple[int, str]]) -> str:
    if len(counts) <= _NAMED:
        return "; ".join(f"{count} of {label}" for count, label in counts)
    numbers = sorted({count for count, _ in counts})
    most = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return f"{most} of each of {len(counts)} judges and modes"


def _row(one: Decider, rate: str) -> tuple[object, ...]:
    found, counts = one.found.rate(rate), one.found.counts
    who = (one.label, one.judge, one.model, one.mode, rate)
    return (*who, found.estimate, found.low, found.high, found.n.get("items", 0), counts.undecided)


def _silent(one: Decider) -> list[Estimate]:
    rates = (one.found.rate(rate) for rate in RATES)
    return [
        replace(rate, name=f"{rate.name} of {one.label}", missing=0) for rate in rates if not rate.estimable
    ]


def _lines_words(baselines: Sequence[Decider]) -> str:
    names = [f"{style} {one.judge}" for style, one in zip(("dashed", "dotted"), baselines, strict=False)]
    return f"Grey lines: {' and '.join(names)} on the same items." if names else ""


def _draw(
    drawn: pd.DataFrame, rows: Sequence[str], lines: Sequence[str], styles: dict[str, ModelStyle]
) -> Figure:
    figure = new_figure(PAGE_MM, 26 + _ROW_MM * len(rows))
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        own = drawn[drawn["rate"] == rate]
        _panel(axes, own[own["row"].isin(rows)], rows, styles)
        for label, line in zip(lines, _LINES, strict=False):
            for value in own.loc[own["row"] == label, "estimate"]:
                axes.axvline(value, color=GREY, linestyle=line, linewidth=1.0, zorder=0.5)
        axes.set_title(rate.capitalize())
    panels[0].set_yticks(range(len(rows)), list(shortened(rows, 46).values()))
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    panels[1].set_xlabel("Share of items")
    handles = [
        Line2D([], [], color=GREY, linestyle=line, label=label)
        for label, line in zip(lines, _LINES, strict=False)
    ]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=2, borderaxespad=0.2)
    return settle(figure)


def _panel(axes: Axes, drawn: pd.DataFrame, rows: Sequence[str], styles: dict[str, ModelStyle]) -> None:
    for place, label in enumerate(rows):
        own = drawn[drawn["row"] == label]
        for model, estimate, low, high in zip(
            own["model"], own["estimate"], own["low"], own["high"], strict=True
        ):
            look = styles[model]
            axes.plot(
                [estimate], [place], linestyle="none", color=look.color, marker=look.marker, markersize=5
            )
            if pd.notna(low) and pd.notna(high):
                axes.plot([low, high], [place, place], color=look.color, linewidth=1.1)
    axes.set_xlim(-0.03, 1.03)  # a share is seen against the whole it is a share of
    axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
