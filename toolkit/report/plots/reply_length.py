"""Length and score of the reply: every answer, lines within bases, and the slope with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.prompt_length.reply_length import TOKENS
from toolkit.stats.result import Estimate
from toolkit.words import counted, scale_words

_COLUMNS = ("kind", "model", "base", "run_id", "length_bin", "output_tokens", "score", "low", "high")


def length_slope(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the score of every answer against its length, and the slope adjusted for base, model and prompt length.

    The line of the slope runs through the mean of the answers of its panel; its band is the interval of the slope,
    not that of a prediction.
    """
    judged = captions.judged_runs(of.runs)
    answers = judged[judged["output_tokens"].notna()]
    if answers.empty:
        raise NothingToDraw("no judged run has a known length")
    slope = of.length_bias().slope
    if slope.estimate is None:
        note = (slope.remarks or "there is no reason given").removeprefix("not estimable: ")
        raise NothingToDraw(f"the slope is not estimable: {note}")
    data = _marks(answers.rename(columns={of.score: "score"}), slope)
    n = captions.counts(answers, about.repeats)
    caption = captions.join(
        f"Length of the reply and score ({captions.n_words(n)}).",
        "Marks: answers; thin grey lines join those of one base and model in the order of their length.",
        f"Thick line: {slope.sentence()}",
        "It is adjusted for the base and for each combination of model and prompt length (fixed effects), the same in "
        "every panel, and drawn through the mean of the panel's answers; the band is the interval of the slope. It is "
        "one test, so nothing is corrected, and no proof of bias, because longer replies may be better.",
        captions.cut_words(data["low"], data["high"]),
        captions.missing_words(of.runs, answers),
        about.whole,
    )
    alt_text = (
        f"Scatter of the composite score from {scale_words()} of {counted(len(answers), 'answers')} against length in "
        "tokens: "
        f"{slope.sentence()}"
    )
    return FigureWithCaption("length_slope", _draw(data, slope, about), caption, alt_text, data, n)


def _marks(answers: pd.DataFrame, slope: Estimate) -> pd.DataFrame:
    """Return one row an answer, then the ends and the middle of the line of each model."""
    columns = ["model", "base", "run_id", "length_bin", "output_tokens", "score"]
    points = answers[columns].assign(kind="answer").astype({"length_bin": "string"})
    points = points.sort_values(["model", "base", "output_tokens", "run_id"], kind="stable")
    rise, *ends = (np.nan if one is None else one for one in (slope.estimate, slope.low, slope.high))
    lines = []
    for model, own in points.groupby("model"):
        tokens, score = own["output_tokens"].astype(float), float(own["score"].astype(float).mean())
        # Through the mean, where the band has no width; without that point its edges would be drawn apart.
        for at in (float(tokens.min()), float(tokens.mean()), float(tokens.max())):
            away = (at - float(tokens.mean())) / TOKENS
            low, high = sorted(score + away * end for end in ends)
            line = {"kind": "slope", "model": model, "output_tokens": at, "score": score + away * rise}
            lines.append({**line, "low": low, "high": high})
    both = pd.concat([points.astype(object), pd.DataFrame(lines, dtype=object)], ignore_index=True)
    numbers = dict.fromkeys(("output_tokens", "score", "low", "high"), "float64")
    return both.reindex(columns=list(_COLUMNS)).astype(numbers)


def _draw(data: pd.DataFrame, slope: Estimate, about: About) -> Figure:
    styles = about.styles(data["model"])
    figure, panels, across = style.grid(len(styles), head=16, tall=52, lone=58, sharex=True, sharey=True)
    names = style.shortened(styles, 44 if across == 1 else 76 // across)
    for place, (axes, (name, look)) in enumerate(zip(panels, styles.items(), strict=True)):
        _panel(axes, data[data["model"] == name], look)
        axes.set_title(names[name])
        style.score_axis(axes, "Composite score" if place % across == 0 else "")
    panels[0].set_xlim(0, float(data["output_tokens"].max()) * 1.05 or 1.0)
    figure.supxlabel("Length of the reply (tokens)")
    told = f"slope {_signed(slope.estimate)} points per {TOKENS:g} tokens"
    told += f" [{_signed(slope.low)}, {_signed(slope.high)}]" if slope.low is not None else ", no interval"
    handles = [
        Line2D([], [], color=style.GREY, linewidth=0.6, label="one base"),
        Line2D([], [], color=style.INK, linewidth=1.6, label=told),
    ]
    style.legend(figure, handles, columns=1 if across == 1 else 2)
    return style.settle(figure)


def _panel(axes: Axes, data: pd.DataFrame, look: style.ModelStyle) -> None:
    answers, line = data[data["kind"] == "answer"], data[data["kind"] == "slope"]
    for _, own in answers.groupby("base"):
        axes.plot(own["output_tokens"], own["score"], color=style.GREY, linewidth=0.5, alpha=0.6, zorder=1)
    size = 3.4 if len(answers) <= 150 else 2.2  # hundreds of answers would be one blot
    axes.plot(
        answers["output_tokens"], answers["score"], linestyle="none", color=look.color, marker=look.marker,
        markersize=size, markeredgewidth=0, alpha=0.75, zorder=2, clip_on=False,
    )  # fmt: skip
    if line["low"].notna().all():
        band: dict[str, Any] = {"color": style.INK, "alpha": 0.15, "linewidth": 0, "zorder": 3}
        axes.fill_between(line["output_tokens"], line["low"], line["high"], **band)
    axes.plot(line["output_tokens"], line["score"], color=style.INK, linewidth=1.6, zorder=4)


def _signed(value: float | None) -> str:
    return "" if value is None else style.decimals(value, 3, sign=True)
