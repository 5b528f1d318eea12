"""Length and score of the reply: every answer, lines within bases, and the slope with its interval."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import decimals, shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    COLUMN_MM,
    GREY,
    INK,
    PAGE_MM,
    ModelStyle,
    new_figure,
    score_axis,
    settle,
    thesis_style,
)
from toolkit.stats.prompt_length.reply_length import TOKENS, LengthBias
from toolkit.stats.result import Estimate
from toolkit.words import counted

NAME: Final = "length_slope"
TITLE: Final = "Length of the reply and score"
_ACROSS: Final = 3
_COLUMNS: Final = (
    "kind",
    "model",
    "base",
    "run_id",
    "length_bin",
    "output_tokens",
    "composite",
    "low",
    "high",
)


def length_slope_figure(runs: pd.DataFrame, found: LengthBias | None, about: About) -> FigureWithCaption:
    """Draw the score of every answer against its length, and the slope adjusted for base, model and prompt length.

    The line of the slope runs through the mean of the answers of its panel; its band is the interval of the slope,
    not that of a prediction.
    """
    judged = captions.judged_runs(runs)
    answers = judged[judged["output_tokens"].notna()] if "output_tokens" in judged else judged.iloc[:0]
    if found is None or answers.empty:
        return about.nothing(NAME, TITLE, "no judged run has a known length")
    if found.slope.estimate is None:
        return about.nothing(NAME, TITLE, f"the slope is {_why(found.slope)}")
    data = _marks(answers, found.slope)
    with thesis_style():
        figure = _draw(data, found.slope, about)
    caption = captions.join(
        f"{TITLE} ({captions.n_words(captions.counts(answers, about.repeats))}).",
        "Marks: answers; thin grey lines join those of one base and model in the order of their length.",
        f"Thick line: {found.slope.sentence()}",
        "It is adjusted for the base and for each combination of model and prompt length (fixed effects), the same in "
        "every panel, and drawn through the mean of the panel's answers; the band is the interval of the slope. It is "
        "one test, so nothing is corrected, and no proof of bias, because longer replies may be better.",
        captions.cut_words(data["low"], data["high"]),
        captions.missing_words(runs, answers),
        about.source,
        about.note,
    )
    n = captions.counts(answers, about.repeats)
    return FigureWithCaption(NAME, figure, caption, _alt_text(found.slope, len(answers)), data, n)


def _why(slope: Estimate) -> str:
    note = slope.note or "there is no reason given"
    return note if note.startswith("not estimable") else f"not estimable: {note}"


def _marks(answers: pd.DataFrame, slope: Estimate) -> pd.DataFrame:
    """Return one row an answer, then the ends and the middle of the line of each model."""
    columns = ["model", "base", "run_id", "length_bin", "output_tokens", "composite"]
    points = answers[columns].assign(kind="answer").astype({"length_bin": "string"})
    points = points.sort_values(["model", "base", "output_tokens", "run_id"], kind="stable")
    lines = []
    for model, own in points.groupby("model"):
        tokens, scores = own["output_tokens"].astype(float), own["composite"].astype(float)
        # Through the mean, where the band has no width; without that point its edges would be drawn apart.
        for end in (float(tokens.min()), float(tokens.mean()), float(tokens.max())):
            away = (end - float(tokens.mean())) / TOKENS
            row = {"kind": "slope", "model": model, "output_tokens": end}
            row["composite"] = float(scores.mean()) + away * _number(slope.estimate)
            ends = sorted(float(scores.mean()) + away * _number(one) for one in (slope.low, slope.high))
            lines.append({**row, "low": ends[0], "high": ends[1]})
    both = pd.concat([points.astype(object), pd.DataFrame(lines, dtype=object)], ignore_index=True)
    numbers = dict.fromkeys(("output_tokens", "composite", "low", "high"), "float64")
    return both.reindex(columns=list(_COLUMNS)).astype(numbers)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _draw(data: pd.DataFrame, slope: Estimate, about: About) -> Figure:
    styles = about.styles(data["model"])
    across = min(_ACROSS, len(styles))
    down = -(-len(styles) // across)
    names = shortened(styles, 44 if across == 1 else 76 // across)
    width = COLUMN_MM if across == 1 else PAGE_MM
    figure = new_figure(width, 16 + down * (58 if across == 1 else 52))
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(styles):
            axes.set_axis_off()
            grid.flat[place - across].tick_params(labelbottom=True)
            continue
        name, style = list(styles.items())[place]
        _panel(axes, data[data["model"] == name], style)
        axes.set_title(names[name])
        score_axis(axes, "Composite score (0–5)" if place % across == 0 else "")
    longest = float(data["output_tokens"].max())
    grid.flat[0].set_xlim(0, longest * 1.05 or 1.0)
    figure.supxlabel("Length of the reply (tokens)", fontsize=8)
    told = f"slope {_signed(slope.estimate)} points per {TOKENS:g} tokens"
    told += f" [{_signed(slope.low)}, {_signed(slope.high)}]" if slope.low is not None else ", no interval"
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=GREY, linewidth=0.6, label="one base"),
        Line2D([], [], color=INK, linewidth=1.6, label=told),
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=1 if across == 1 else 2, borderaxespad=0.2
    )
    return settle(figure)


def _panel(axes: Axes, data: pd.DataFrame, style: ModelStyle) -> None:
    answers, line = data[data["kind"] == "answer"], data[data["kind"] == "slope"]
    for _, own in answers.groupby("base"):
        axes.plot(own["output_tokens"], own["composite"], color=GREY, linewidth=0.5, alpha=0.6, zorder=1)
    size = 3.4 if len(answers) <= 150 else 2.2  # hundreds of answers would be one blot
    axes.plot(
        answers["output_tokens"], answers["composite"], linestyle="none", color=style.color, marker=style.marker,
        markersize=size, markeredgewidth=0, alpha=0.75, zorder=2, clip_on=False,
    )  # fmt: skip
    if line["low"].notna().all():
        axes.fill_between(
            line["output_tokens"], line["low"], line["high"], color=INK, alpha=0.15, linewidth=0, zorder=3
        )
    axes.plot(line["output_tokens"], line["composite"], color=INK, linewidth=1.6, zorder=4)


def _signed(value: float | None) -> str:
    return "" if value is None else decimals(value, 3, sign=True)


def _alt_text(slope: Estimate, answers: int) -> str:
    return (
        f"Scatter of the composite score from 0 to 5 of {counted(answers, 'answers')} against length in tokens: "
        f"{slope.sentence()}"
    )
