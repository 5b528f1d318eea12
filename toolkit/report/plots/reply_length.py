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


def length_slope(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the score of every answer against its length, and the slope adjusted for base, model and prompt length.

    The line of the slope runs through the mean of the answers of its panel; its band is the interval of the slope,
    not that of a prediction.
    """
    judged = captions.judged_runs(analyses.runs)
    answers = judged[judged["output_tokens"].notna()]
    if answers.empty:
        raise NothingToDraw("no judged run has a known length")
    slope = analyses.length_bias().slope
    if slope.estimate is None:
        raise NothingToDraw(f"the slope is not estimable: {slope.reason or 'there is no reason given'}")
    data = _marks(answers.rename(columns={analyses.score: "score"}), slope)
    n = captions.counts(answers, context.repeats)
    caption = captions.join(
        f"Length of the reply and score ({captions.n_words(n)}).",
        "Marks: answers; thin grey lines join those of one base and model in the order of their length.",
        f"Thick line: {slope.sentence()}",
        "It is adjusted for the base and for each combination of model and prompt length (fixed effects), the same in "
        "every panel, and drawn through the mean of the panel's answers; the band is the interval of the slope. It is "
        "one test, so nothing is corrected, and no proof of bias, because longer replies may be better.",
        captions.cut_words(data["low"], data["high"], context.scale),
        captions.missing_words(analyses.runs, answers),
        context.whole,
    )
    alt_text = (
        f"Scatter of the composite score from {scale_words(context.scale)} of {counted(len(answers), 'answers')} "
        "against length in tokens: "
        f"{slope.sentence()}"
    )
    figure = _draw(data, slope, context)
    return FigureWithCaption("length_slope", figure, caption, alt_text, data, n, estimates=(slope,))


def _marks(answers: pd.DataFrame, slope: Estimate) -> pd.DataFrame:
    """Return one row an answer, then the ends and the middle of the line of each model."""
    columns = ["model", "base", "run_id", "length_bin", "output_tokens", "score"]
    points = answers[columns].assign(kind="answer").astype({"length_bin": "string"})
    points = points.sort_values(["model", "base", "output_tokens", "run_id"], kind="stable")
    rise, *ends = (np.nan if one is None else one for one in (slope.estimate, slope.low, slope.high))
    lines = []
    for model, replies in points.groupby("model"):
        tokens, score = replies["output_tokens"].astype(float), float(replies["score"].astype(float).mean())
        # Through the mean, where the band has no width; without that point its edges would be drawn apart.
        for x in (float(tokens.min()), float(tokens.mean()), float(tokens.max())):
            distance = (x - float(tokens.mean())) / TOKENS
            low, high = sorted(score + distance * end for end in ends)
            line = {"kind": "slope", "model": model, "output_tokens": x, "score": score + distance * rise}
            lines.append({**line, "low": low, "high": high})
    rows = pd.concat([points.astype(object), pd.DataFrame(lines, dtype=object)], ignore_index=True)
    numbers = dict.fromkeys(("output_tokens", "score", "low", "high"), "float64")
    return rows.reindex(columns=list(_COLUMNS)).astype(numbers)


def _draw(data: pd.DataFrame, slope: Estimate, context: About) -> Figure:
    styles = context.styles(data["model"])
    figure, panels, across = style.grid(len(styles), head=16, tall=52, lone=58, sharex=True, sharey=True)
    names = style.shortened(styles, 44 if across == 1 else 76 // across)
    for number, (axes, (name, look)) in enumerate(zip(panels, styles.items(), strict=True)):
        _panel(axes, data[data["model"] == name], look)
        axes.set_title(names[name])
        style.score_axis(axes, context.scale, "Composite score" if number % across == 0 else "")
    panels[0].set_xlim(0, float(data["output_tokens"].max()) * 1.05 or 1.0)
    figure.supxlabel("Length of the reply (tokens)")
    label = f"slope {_signed(slope.estimate)} points per {TOKENS:g} tokens"
    label += f" [{_signed(slope.low)}, {_signed(slope.high)}]" if slope.low is not None else ", no interval"
    handles = [
        Line2D([], [], color=style.GREY, linewidth=0.6, label="one base"),
        Line2D([], [], color=style.INK, linewidth=1.6, label=label),
    ]
    style.legend(figure, handles, columns=1 if across == 1 else 2)
    return style.settle(figure)


def _panel(axes: Axes, data: pd.DataFrame, look: style.ModelStyle) -> None:
    answers, line = data[data["kind"] == "answer"], data[data["kind"] == "slope"]
    for _, replies in answers.groupby("base"):
        axes.plot(
            replies["output_tokens"], replies["score"], color=style.GREY, linewidth=0.5, alpha=0.6, zorder=1
        )
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
