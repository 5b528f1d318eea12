"""The results of any test: one row a result, one mark a model, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.report import captions, style
from toolkit.report.figure import FigureWithCaption, nothing_drawn, save_figure
from toolkit.report.show import Files
from toolkit.stats.result import Estimate

NAME: Final = "results"
_ROW_MM: Final = 5.0
_COLUMNS: Final = ("model", "result", "unit", "estimate", "low", "high")


def results_figure(results: Sequence[tuple[str, Estimate]], *, test: str, end: str = "") -> FigureWithCaption:
    """Draw every result of a test with its interval, a panel for each unit."""
    estimates = [result for _, result in results]
    data = pd.DataFrame(
        [(model, r.name, r.unit, r.estimate, r.low, r.high) for model, r in results], columns=list(_COLUMNS)
    )
    estimated = data[data["estimate"].notna()]
    n = {"results": len(estimated), "models": int(data["model"].nunique())}
    missing = captions.not_estimable_words(estimates)
    if estimated.empty:
        caption = captions.join(f"Results of {test}: none could be estimated.", missing, end)
        nothing = nothing_drawn(NAME, caption, "no result could be estimated", size=(style.PAGE_MM, 30))
        return replace(nothing, data=data, n=n)
    with style.thesis_style():
        figure, broken = _draw(estimated, data["model"])
    caption = captions.join(
        f"Results of {test} ({captions.estimates_n_words(estimates)}).",
        captions.interval_words(estimates),
        captions.UNCORRECTED if estimated["low"].notna().sum() > 1 else "",
        f"Without 0 on the axis: {', '.join(broken)}." if broken else "",
        captions.no_interval_words((f"{r.name} of {model}", r) for model, r in results),
        missing,
        end,
    )
    values = "; ".join(f"{row.model}, {row.result}: {row.estimate:.3g}" for row in style.rows_of(estimated))
    alt_text = f"Marks with intervals: {values}."
    return FigureWithCaption(NAME, figure, caption, alt_text, data, n, estimates=estimates)


def write_test_figures(
    results: Sequence[tuple[str, Estimate]], *, test: str, folder: Path, end: str = ""
) -> Files:
    """Write the figure of a test's results; the same results give the same bytes."""
    return save_figure(results_figure(results, test=test, end=end), folder / "figures")


def _draw(estimated: pd.DataFrame, models: pd.Series) -> tuple[Figure, list[str]]:
    """Draw a panel for each unit; return the results whose axis lacks 0, which the caption has to declare."""
    # A model without a result keeps its colour to itself.
    styles = style.model_styles(estimated["model"], among=models)
    units = list(dict.fromkeys(estimated["unit"]))
    heights = [estimated.loc[estimated["unit"] == unit, "result"].nunique() for unit in units]
    rows = sum(heights) * max(1.0, 0.6 * len(styles))
    figure = style.new_figure(style.PAGE_MM, 16 + 12 * len(units) + _ROW_MM * rows + 4 * len(styles))
    panels = figure.subplots(len(units), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, unit in zip(panels, units, strict=True):
        _panel(axes, estimated[estimated["unit"] == unit], styles)
        axes.set_xlabel("" if unit == "none" else unit[:1].upper() + unit[1:])
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles), columns=2)
    style.settle(figure)
    ends = {unit: axes.get_xlim() for axes, unit in zip(panels, units, strict=True)}
    broken = [unit for unit, (low, high) in ends.items() if not low <= 0 <= high]
    return figure, list(dict.fromkeys(estimated.loc[estimated["unit"].isin(broken), "result"]))


def _panel(axes: Axes, estimated: pd.DataFrame, styles: dict[str, style.ModelStyle]) -> None:
    names = list(dict.fromkeys(estimated["result"]))
    heights = {name: len(names) - 1 - number for number, name in enumerate(names)}
    step = 0.6 / max(1, len(styles))
    for number, (model, look) in enumerate(styles.items()):
        marks = estimated[estimated["model"] == model]
        up = [heights[name] - (number - (len(styles) - 1) / 2) * step for name in marks["result"]]
        style.forest(axes, marks, up, look)
    axes.set_yticks(list(heights.values()), list(style.shortened(heights, 48).values()))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(visible=True, axis="x", linewidth=0.4)
    ends = [end for column in ("estimate", "low", "high") for end in estimated[column].dropna()]
    if estimated["unit"].str.startswith("share").all() and all(0 <= end <= 1 for end in ends):
        axes.set_xlim(-0.02, 1.02)  # a share is seen against the whole it is a share of
