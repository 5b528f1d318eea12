"""Quality by prompt length: the mean of each bin with its interval over the paired lines of the bases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.about import About, about_study
from toolkit.report.labels import shorten, shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    COLUMN_MM,
    CROWD,
    GREY,
    INK,
    PAGE_MM,
    ModelStyle,
    new_figure,
    score_axis,
    settle,
    thesis_style,
)
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_BINS, counted

if TYPE_CHECKING:
    from toolkit.stats.prompt_length.contrasts import LengthComparison

NAME: Final = "quality_by_length"
TITLE: Final = "Quality by prompt length"
_BINS: Final = tuple(LENGTH_BINS)


def quality_by_length(
    runs: pd.DataFrame,
    comparison: LengthComparison | None,
    *,
    by_model: Mapping[str, LengthComparison] | None = None,
    about: About | None = None,
) -> FigureWithCaption:
    """Draw the mean quality of each length bin with its interval, and one thin line for each base.

    The design is paired: S, M and L of one base ask for the same work, so the slope of the thin lines is the
    finding and their height is the difficulty of the base.
    """
    about = about or about_study(runs)
    judged = captions.judged_runs(runs)
    estimates = comparison.per_bin if comparison is not None else ()
    own = {name: one.per_bin for name, one in (by_model or {}).items()}
    n = captions.counts(judged, about.repeats)
    data = _marks(judged, estimates, own)
    if data.empty:
        return about.nothing(NAME, TITLE, "no judged runs")
    with thesis_style():
        figure = _draw(data, about)
    absent = [b for b in _BINS if b not in set(data["length_bin"])]
    several = n["models"] > 1
    drawn = {str(kind) for kind in data["kind"]}
    caption = captions.join(
        f"{TITLE} ({captions.n_words(n)}).",
        "Thin grey lines: one base each, the mean of its answers (repeats first, then models).",
        _mixed_words(judged),
        (f"{'Black points: mean over bases, of all models' if several else 'Points: mean over bases'}.")
        if "mean" in drawn
        else "",
        f"Coloured points: mean of each model, with{'' if own else 'out'} interval." if several else "",
        captions.interval_words([*estimates, *(e for bins in own.values() for e in bins)]),
        "They describe single means: they are not corrected for their number and test no difference, because "
        "lengths are compared within bases."
        if data["low"].notna().any()
        else "",
        captions.cut_words(data["low"], data["high"]),
        captions.no_interval_words(
            [
                *((e.name, e) for e in estimates),
                *((f"{e.name} of {m}", e) for m, bins in own.items() for e in bins),
            ]
        ),
        f"No judged run in bin {', '.join(absent)}." if absent else "",
        captions.not_estimable_words(replace(e, missing=0) for e in estimates if not e.estimable),
        captions.missing_words(runs, judged),
        captions.zeros_words(judged),
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data, n), data, n)


def _marks(
    judged: pd.DataFrame, estimates: Iterable[Estimate], by_model: Mapping[str, Iterable[Estimate]]
) -> pd.DataFrame:
    """Return one row for each mark: lines of bases, means of models, means of bins with their interval."""
    rows = [] if judged.empty else _base_means(judged)
    if by_model:
        rows += [_row("model", name, e) for name, bins in by_model.items() for e in bins if e.estimable]
    elif not judged.empty:
        rows += _group_means(judged, "model")
    rows += [_row("mean", "all", e) for e in estimates if e.estimable]
    return pd.DataFrame(rows, columns=["kind", "name", "length_bin", "composite", "low", "high", "answers"])


def _base_means(judged: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the points of the thin lines, averaged as the means over them are: repeats first, then models."""
    keys = ["base", "length_bin"]
    cells = judged.groupby([*keys, "model"], observed=True)["composite"].agg(["mean", "size"])
    means = cells.groupby(level=keys, observed=True).agg({"mean": "mean", "size": "sum"}).reset_index()
    return _mean_rows("base", means)


def _mixed_words(judged: pd.DataFrame) -> str:
    """Say how many lines do not rest on the same models at all their points: their slope is not that of length."""
    of_base = judged.groupby("base", observed=True)["length_bin"].nunique()
    of_model = judged.groupby(["base", "model"], observed=True)["length_bin"].nunique()
    mixed = int((of_model.groupby(level="base").min() < of_base).sum())
    return (
        f"Lines that do not rest on the same models at every length, because scores are missing: {mixed}."
        if mixed
        else ""
    )


def _group_means(judged: pd.DataFrame, key: str) -> list[dict[str, Any]]:
    means = (
        judged.groupby([key, "length_bin"], observed=True)["composite"].agg(["mean", "size"]).reset_index()
    )
    return _mean_rows(key, means)


def _mean_rows(key: str, means: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"kind": key, "name": str(n), "length_bin": str(b), "composite": float(mean), "answers": int(size)}
        for n, b, mean, size in means.itertuples(index=False)
    ]


def _row(kind: str, name: str, one: Estimate) -> dict[str, Any]:
    row = {"kind": kind, "name": name, "length_bin": one.name, "composite": one.estimate}
    return {**row, "low": one.low, "high": one.high, "answers": one.n.get("answers")}


def _draw(data: pd.DataFrame, about: About) -> Figure:
    placed = data.assign(x=data["length_bin"].map({name: float(i) for i, name in enumerate(_BINS)}))
    models, bases = placed[placed["kind"] == "model"], placed[placed["kind"] == "base"]
    styles = about.styles(models["name"])
    several = len(styles) > 1
    # A long name takes a line of the legend for itself.
    stacked = several or any(len(name) > 14 for name in styles)
    columns = 2 if not stacked or len(styles) > CROWD else 1
    lines = -(-len(styles) // columns) if stacked else 0
    figure = new_figure(COLUMN_MM if len(styles) <= CROWD else PAGE_MM, 70 + 4 * lines)
    axes = figure.subplots()
    handles, labels = [], shortened(styles)

    if not bases.empty:
        thin = {"color": GREY, "alpha": 0.55, "linewidth": 0.6, "marker": ".", "markersize": 3}
        sns.lineplot(
            data=bases, x="x", y="composite", units="name", estimator=None, legend=False, ax=axes,
            markeredgewidth=0, zorder=1, **thin,
        )  # fmt: skip
        handles.append(Line2D([], [], color=GREY, linewidth=0.6, marker=".", markersize=3, label="one base"))
    means = _draw_means(axes, placed[placed["kind"] == "mean"], styles)
    handles += means
    for place, (name, style) in enumerate(styles.items() if several else ()):
        own = models[models["name"] == name]
        # Beside the mean of the bin, so that no model hides another one or the interval.
        apart = min(0.09, 0.66 / (len(styles) + 1))  # of 1 between two bins: marks stay with their bin
        shift = apart * (place - (len(styles) - 1) / 2)
        shift += apart if shift >= 0 else -apart
        bars = axes.errorbar(
            own["x"] + shift, own["composite"], yerr=_bars(own), color=style.color, marker=style.marker,
            linestyle=style.line, linewidth=0.8, elinewidth=0.8, markersize=4, zorder=3,
        )  # fmt: skip
        bars.lines[0].set_clip_on(False)  # a mark at 0 or 5 is drawn whole; intervals end with the scale
        look = Line2D([], [], color=style.color, marker=style.marker, linestyle=style.line, linewidth=0.8)
        look.set_label(labels[name])
        handles.append(look)

    ticks = [f"{name}\n{low}–{high}" for name, (low, high) in LENGTH_BINS.items()]
    axes.set_xticks(range(len(_BINS)), ticks)
    axes.set_xlim(-0.5, len(_BINS) - 0.5)
    axes.set_xlabel("Length of the prompt (tokens)")
    score_axis(axes)
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, borderaxespad=0.2)
    return settle(figure)


def _draw_means(axes: Axes, means: pd.DataFrame, styles: dict[str, ModelStyle]) -> list[Line2D]:
    """Draw the estimates of the bins and return their entry in the legend; several models share black."""
    if means.empty:
        return []
    only = next(iter(styles.values())) if len(styles) == 1 else None
    color, marker = (only.color, only.marker) if only else (INK, "o")
    means = means.sort_values("x")
    bars = axes.errorbar(
        means["x"], means["composite"], yerr=_bars(means), color=color, marker=marker, markersize=5.5,
        linewidth=1.4, elinewidth=1.2, capsize=3, zorder=4,
    )  # fmt: skip
    bars.lines[0].set_clip_on(False)
    whose = shorten(next(iter(styles)), 24) + ", " if only else "all models, "
    look = Line2D([], [], color=color, marker=marker, markersize=5.5, linewidth=1.4)
    look.set_label(f"{whose}mean and interval")
    return [look]


def _bars(marks: pd.DataFrame) -> list[pd.Series]:
    """Return how far each interval reaches below and above; without an interval there is no bar."""
    below = marks["composite"] - marks["low"].astype(float)
    above = marks["high"].astype(float) - marks["composite"]
    return [below.fillna(0.0), above.fillna(0.0)]


def _alt_text(data: pd.DataFrame, n: dict[str, int]) -> str:
    means = data[data["kind"] == "mean"]
    said = "; ".join(f"{row.length_bin} {row.composite:.2f}" for row in means.itertuples()) or "not estimated"
    return (
        "Line chart of the composite score from 0 to 5 against prompt length S, M and L, one line for each "
        f"of {counted(n['bases'], 'bases')}. Means: {said}."
    )
