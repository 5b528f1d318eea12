"""Equivalence of prompt lengths: differences with 90 % intervals against the band of the margin, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import decimals, shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    GREY,
    INK,
    PAGE_HIGH_MM,
    PAGE_MM,
    ModelStyle,
    new_figure,
    settle,
    thesis_style,
)
from toolkit.stats.prompt_length.contrasts import LengthComparison
from toolkit.stats.result import Estimate
from toolkit.words import SCALE

NAME: Final = "equivalence"
TITLE: Final = "Equivalence of prompt lengths"
ALL: Final = "all models"
_ROW_MM: Final = 5.2
_LEAST_ROW_MM: Final = 3.4
_HEAD_MM: Final = 5.5
_COLUMNS: Final = ("of", "contrast", "difference", "low", "high", "p_value", "margin", "verdict", "bases")


def equivalence_figure(
    comparison: LengthComparison | None,
    by_model: Mapping[str, LengthComparison] | None,
    margin: float | None,
    about: About,
) -> FigureWithCaption:
    """Draw the two one-sided tests of each pair of prompt lengths, of all models and of each."""
    if margin is None:
        return about.nothing(NAME, TITLE, "the study file sets no analysis.equivalence_margin")
    tests = list(_tests(comparison, by_model))
    data = _rows(tests, margin)
    if data.empty:
        return about.nothing(NAME, TITLE, "no two prompt lengths have scores of two bases")
    with thesis_style():
        figure, reach = _draw(data, margin, about)
    found = [one for _, one in tests]
    corrections = sorted({one.correction for one in found if one.correction != "none"})
    paired = captions.estimates_n_words(one for one in found if one.estimable).removeprefix("n = ")
    caption = captions.join(
        f"{TITLE} ({captions.n_words(about.n)}; each pair of lengths: {paired}): differences of the composite score "
        f"within bases, and the margin of ±{margin:g} score points that the study file fixed before there was a score "
        "(grey band).",
        captions.interval_words(found),
        "Two lengths are equivalent where both one-sided tests reject at .05"
        + (f", P values corrected by {'; '.join(corrections)}" if corrections else "")
        + "; without the correction that is where the interval lies within the band. Equivalence that is not shown is "
        "no proof of a difference.",
        f"Tests of {ALL} and of each model are corrected apart." if data["of"].nunique() > 1 else "",
        f"The axis shows ±{reach:.2g} of the ±{SCALE[1] - SCALE[0]:g} points that are possible.",
        captions.unpaired_words(found),
        captions.not_estimable_words(
            replace(one, name=f"{one.name} of {of}", missing=0) for of, one in tests if not one.estimable
        ),
        captions.no_interval_words((f"{one.name} of {of}", one) for of, one in tests),
        about.missing,
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data, margin), data, dict(about.n))


def _tests(
    comparison: LengthComparison | None, by_model: Mapping[str, LengthComparison] | None
) -> Iterator[tuple[str, Estimate]]:
    several = len(by_model or {}) > 1
    only = next(iter(by_model)) if by_model and not several else ALL
    yield from ((only, one) for one in (comparison.equivalence if comparison else ()))
    if several and by_model:
        yield from ((model, one) for model, found in by_model.items() for one in found.equivalence)


def _rows(tests: list[tuple[str, Estimate]], margin: float) -> pd.DataFrame:
    rows = [
        (of, one.name, one.estimate, one.low, one.high, one.p_value, margin, _verdict(one), one.n["bases"])
        for of, one in tests
        if one.estimable
    ]
    numbers = dict.fromkeys(("difference", "low", "high", "p_value"), "float64")
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(numbers)


def _verdict(test: Estimate) -> str:
    return test.note.partition(":")[0] if test.p_value is not None else "not tested"


def _draw(data: pd.DataFrame, margin: float, about: About) -> tuple[Figure, float]:
    groups = list(dict.fromkeys(data["of"]))
    styles = about.styles(name for name in groups if name in about.models)
    counts = [int((data["of"] == name).sum()) for name in groups]
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    room = (PAGE_HIGH_MM - 12 - _HEAD_MM * len(groups)) / sum(counts)
    row = min(_ROW_MM, max(room, _LEAST_ROW_MM))
    figure = new_figure(PAGE_MM, row * sum(counts) + (8 if row == _ROW_MM else _HEAD_MM) * len(groups) + 12)
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=True, height_ratios=counts)[:, 0]
    ends = data[["difference", "low", "high"]].abs().max().max()
    reach = 1.12 * max(1.3 * margin, float(ends))
    heads = shortened(groups, 60)
    for axes, name in zip(panels, groups, strict=True):
        _panel(axes, data[data["of"] == name], margin, styles.get(name))
        axes.set_title(heads[name], loc="left", fontweight="bold")
        axes.set_xlim(-reach, reach)
    panels[-1].set_xlabel("Difference of the mean composite score (points)")
    return settle(figure), reach


def _panel(axes: Axes, data: pd.DataFrame, margin: float, style: ModelStyle | None) -> None:
    color, marker = (style.color, style.marker) if style else (INK, "o")
    axes.axvspan(-margin, margin, color=GREY, alpha=0.22, linewidth=0, zorder=0)
    for edge in (-margin, margin):
        axes.axvline(edge, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=1)
    for place, (_, row) in enumerate(data.iterrows()):
        up = len(data) - 1 - place
        axes.plot([row["low"], row["high"]], [up, up], color=color, linewidth=1.6, zorder=2)
        axes.plot([row["difference"]], [up], color=color, marker=marker, markersize=5, zorder=3)
        told = decimals(row["difference"])
        told += f" [{decimals(row['low'])}, {decimals(row['high'])}]" if pd.notna(row["low"]) else ""
        axes.text(
            1.015, up, f"{row['verdict']}: {told}", va="center", color=INK,
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
    names = [str(name).replace("-", "−") for name in data["contrast"]]
    axes.set_yticks(range(len(data)), names[::-1])
    axes.set_ylim(-0.6, len(data) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _alt_text(data: pd.DataFrame, margin: float) -> str:
    said = "; ".join(
        f"{of}, {contrast}: {decimals(difference)}, {verdict}"
        for of, contrast, difference, verdict in data[["of", "contrast", "difference", "verdict"]].itertuples(
            index=False
        )
    )
    return f"Differences with intervals against a band of ±{margin:g} score points: {said}."
