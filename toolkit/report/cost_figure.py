"""Cost against quality: what an answer of each model and length costs, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from toolkit.report import captions
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    COLUMN_MM,
    INK,
    message_figure,
    model_styles,
    new_figure,
    score_axis,
    settle,
    thesis_style,
)

NAME: Final = "cost_quality"
_LOG_FROM: Final = 20.0
"""A ratio of largest to smallest cost above which a linear axis would press the cheap models together."""


@dataclass(frozen=True)
class _Measure:
    """Which cost is on the axis: its column, the factor it is shown with, and its words."""

    column: str
    factor: float
    label: str
    words: str


def cost_quality(
    runs: pd.DataFrame,
    *,
    note: str = "",
    study_name: str = "",
    dataset_version: str = "",
    repeats: int | None = None,
) -> FigureWithCaption:
    """Draw mean quality against the mean cost of a run, one point for each model and length bin.

    Where every run costs AUD 0 (a model on this machine) the axis shows tokens per run instead and the
    caption says so, because a column of points at zero would look like a result.

    Parameters
    ----------
    runs
        The ``runs`` frame; ``aud_cost`` is the run's own call in AUD, judges not included.
    note
        Appended to the caption.
    study_name, dataset_version
        For the caption; the name is read from the frame when not given.
    repeats
        Repeats the study asked for; counted from the frame when not given.

    Returns
    -------
    FigureWithCaption
        85 mm wide; its data has one row for each model and bin: mean cost, tokens, composite, answers.
    """
    judged = captions.judged_runs(runs)
    measure = _measure(judged)
    drawn = judged if judged.empty else judged[judged[measure.column].notna()]
    n = captions.counts(drawn, repeats)
    source = captions.source_words(runs, study_name, dataset_version)
    missing = captions.missing_words(runs, drawn)
    data = _points(drawn)
    if data.empty:
        text = "no judged runs" if judged.empty else "no run with a known cost"
        caption = captions.join(f"Cost against quality: {text}.", missing, source, note)
        with thesis_style():
            figure = message_figure(COLUMN_MM, 40, text)
        return FigureWithCaption(NAME, figure, caption, f"{text.capitalize()}, so nothing is drawn.", data, n)

    with thesis_style():
        figure, logarithmic = _draw(data, drawn, measure)
    free = sorted(str(name) for name, own in drawn.groupby("model") if (own[measure.column] == 0).all())
    tokens = measure.column == "total_tokens"
    estimated = tokens and bool(drawn["tokens_estimated"].fillna(False).any())
    counted = "Tokens of prompt and reply" if tokens else "Cost of the call that answered"
    local = (
        "Every run cost AUD 0 because its model has no price per token (it runs on this machine), so the "
        "axis shows tokens and not money."
    )
    caption = captions.join(
        f"Quality against {measure.words} ({captions.n_words(n)}).",
        f"{counted}, judges not included.",
        "Large marks: mean of one model at one prompt length (S, M, L), joined in that order; "
        "small dots: single answers. The means carry no interval.",
        local if tokens else "",
        f"AUD 0 because it has no price per token: {', '.join(free)}." if free else "",
        "Some token counts are estimates." if estimated else "",
        "The cost axis is logarithmic." if logarithmic else "",
        missing,
        captions.zeros_words(drawn),
        source,
        note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data, measure), data, n)


def _measure(judged: pd.DataFrame) -> _Measure:
    costs = judged["aud_cost"].dropna() if "aud_cost" in judged else pd.Series(dtype=float)
    if not costs.empty and (costs == 0).all():
        words = "tokens per run"
        return _Measure("total_tokens", 1.0, "Tokens per run", words)
    words = "cost per run"
    if not costs.empty and costs.max() < 0.01:
        return _Measure("aud_cost", 1000.0, "AUD per 1,000 runs", words)
    return _Measure("aud_cost", 1.0, "AUD per run", words)


def _points(drawn: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of every model and bin that has an answer."""
    columns = ["model", "length_bin", "mean_aud_cost", "mean_total_tokens", "mean_composite", "answers"]
    if drawn.empty:
        return pd.DataFrame(columns=columns)
    means = drawn.groupby(["model", "length_bin"], observed=True).agg(
        mean_aud_cost=("aud_cost", "mean"),
        mean_total_tokens=("total_tokens", "mean"),
        mean_composite=("composite", "mean"),
        answers=("composite", "size"),
    )
    return means.reset_index()[columns]


def _draw(data: pd.DataFrame, drawn: pd.DataFrame, measure: _Measure) -> tuple[Figure, bool]:
    styles = model_styles(data["model"])
    figure = new_figure(COLUMN_MM, 64 + 4 * len(styles))
    axes = figure.subplots()
    halo = [withStroke(linewidth=1.5, foreground="white")]
    for name, style in styles.items():
        answers = drawn[drawn["model"] == name]
        axes.plot(
            answers[measure.column] * measure.factor, answers["composite"], linestyle="none", marker=".",
            markersize=4, markeredgewidth=0, color=style.color, alpha=0.55, zorder=1,
        )  # fmt: skip
        own = data[data["model"] == name]
        x = own[f"mean_{measure.column}"] * measure.factor
        axes.plot(
            x, own["mean_composite"], color=style.color, marker=style.marker, linestyle=style.line,
            linewidth=0.9, markersize=6, markeredgewidth=0, zorder=3,
        )  # fmt: skip
        for across, up, length in zip(x, own["mean_composite"], own["length_bin"], strict=True):
            axes.annotate(
                str(length), (across, up), xytext=(0, 5), textcoords="offset points", ha="center",
                va="bottom", color=INK, zorder=4, path_effects=halo,
            )  # fmt: skip
    score_axis(axes)
    axes.set_xlabel(measure.label)
    logarithmic = _cost_axis(axes, drawn[measure.column].astype(float) * measure.factor)
    handles = [
        Line2D([], [], color=s.color, marker=s.marker, linestyle=s.line, label=captions.shorten(name))
        for name, s in styles.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=1, handlelength=2.6, borderaxespad=0.2)
    return settle(figure), logarithmic


def _cost_axis(axes: Axes, values: pd.Series) -> bool:
    """Scale the cost axis; return whether it is logarithmic, which the caption has to declare."""
    smallest, largest = float(values.min()), float(values.max())
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    if smallest > 0 and largest / smallest > _LOG_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(
            LogLocator(base=10, subs=(1.0,) if largest / smallest > 500 else (1.0, 3.0))
        )
        axes.xaxis.set_major_formatter(plain)
        axes.xaxis.set_minor_formatter(NullFormatter())
        return True
    axes.set_xlim(0, largest * 1.06 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(plain)
    return False


def _alt_text(data: pd.DataFrame, measure: _Measure) -> str:
    said = "; ".join(
        f"{row.model} {row.length_bin}: {getattr(row, f'mean_{measure.column}') * measure.factor:.3g}, "
        f"quality {row.mean_composite:.2f}"
        for row in data.itertuples()
    )
    return f"Scatter of the composite score from 0 to 5 against {measure.label}. {said}."
