"""The profile of the dimensions: the mean of each, of every model at every prompt length, with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    CROWD,
    GREY,
    PAGE_HIGH_MM,
    PAGE_MM,
    ModelStyle,
    new_figure,
    score_axis,
    settle,
    thesis_style,
)
from toolkit.stats.prompt_length.dimension_profile import DimensionProfile
from toolkit.words import LENGTH_BINS

NAME: Final = "dimension_profile"
TITLE: Final = "Profile of the dimensions"
_MODEL_MM: Final = 2.6
"""Height that the mark of one model takes in a row."""
_LEAST_MODEL_MM: Final = 1.5
_BETWEEN_MM: Final = 2.2
_COLUMNS: Final = ("model", "length_bin", "dimension", "mean", "low", "high", "bases", "answers")


def dimension_profile_figure(found: DimensionProfile | None, about: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    data = _marks(found)
    if found is None or data.empty:
        return about.nothing(NAME, TITLE, "no judged runs")
    with thesis_style():
        figure = _draw(data, about)
    means = [replace(one.mean, name=one.mean.name.replace("_", " ")) for one in found.means]
    caption = captions.join(
        f"{TITLE} ({captions.n_words(about.n)}).",
        "Each mark is the mean of one model at one prompt length (S, M, L) over bases, repeats averaged first; bars "
        "are intervals.",
        captions.interval_words(means),
        "The intervals describe single means: they are not corrected for their number and test no difference.",
        captions.cut_words(data["low"], data["high"]),
        captions.no_interval_words((one.name, one) for one in means),
        captions.not_estimable_words(means),
        about.missing,
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data), data, dict(about.n))


def _marks(found: DimensionProfile | None) -> pd.DataFrame:
    rows = [
        (one.model, one.length_bin, one.dimension, one.mean.estimate, one.mean.low, one.mean.high,
         one.mean.n["bases"], one.mean.n["answers"])
        for one in (found.means if found else ())
        if one.mean.estimable
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"low": "float64", "high": "float64"})


def _draw(data: pd.DataFrame, about: About) -> Figure:
    styles = about.styles(data["model"])
    bins = [name for name in LENGTH_BINS if name in set(data["length_bin"])]
    dimensions = list(dict.fromkeys(data["dimension"]))
    columns = 1 if len(styles) <= CROWD else 2
    legend = 18 + 4.2 * -(-len(styles) // columns) * (len(styles) > 1)
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    room = ((PAGE_HIGH_MM - legend) / len(dimensions) - _BETWEEN_MM) / len(styles)
    each = min(_MODEL_MM, max(room, _LEAST_MODEL_MM))
    figure = new_figure(PAGE_MM, (each * len(styles) + _BETWEEN_MM) * len(dimensions) + legend)
    panels = figure.subplots(1, len(bins), squeeze=False, sharey=True)[0]
    places = {name: len(dimensions) - 1 - place for place, name in enumerate(dimensions)}
    for axes, name in zip(panels, bins, strict=True):
        _panel(axes, data[data["length_bin"] == name], places, styles, each)
        low, high = LENGTH_BINS[name]
        axes.set_title(f"{name}: {low}–{high} tokens")
        score_axis(axes, "Mean score (0–5)" if name == bins[len(bins) // 2] else "", which="x")
    panels[0].set_yticks(list(places.values()), [name.replace("_", " ") for name in places])
    panels[0].set_ylim(-0.5, len(dimensions) - 0.5)
    if len(styles) > 1:
        labels = shortened(styles, 60 // columns + 10)
        handles = [
            Line2D([], [], color=s.color, marker=s.marker, linestyle="none", label=labels[name])
            for name, s in styles.items()
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=columns, borderaxespad=0.2)
    return settle(figure)


def _panel(
    axes: Axes, data: pd.DataFrame, places: dict[str, int], styles: dict[str, ModelStyle], each: float
) -> None:
    apart = each / (each * len(styles) + _BETWEEN_MM)
    for number, (model, style) in enumerate(styles.items()):
        shift = ((len(styles) - 1) / 2 - number) * apart
        for _, mark in data[data["model"] == model].iterrows():
            up = places[mark["dimension"]] + shift
            axes.plot([mark["low"], mark["high"]], [up, up], color=style.color, linewidth=1.1)
            axes.plot(
                [mark["mean"]], [up], color=style.color, marker=style.marker, markersize=4.2, clip_on=False
            )
    for between in range(1, len(places)):
        axes.axhline(between - 0.5, color=GREY, linewidth=0.3, zorder=0)
    axes.grid(visible=True, axis="x", linewidth=0.4, color=GREY, alpha=0.4)
    axes.tick_params(axis="y", length=0)


def _alt_text(data: pd.DataFrame) -> str:
    said = "; ".join(
        f"{model} {length_bin} {str(dimension).replace('_', ' ')} {mean:.2f}"
        for model, length_bin, dimension, mean in data[list(_COLUMNS[:4])].itertuples(index=False)
    )
    return f"Marks with intervals on a scale from 0 to 5, one row for each dimension: {said}."
