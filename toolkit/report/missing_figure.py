"""What is missing: the share without a score by prompt length, model and judge with intervals, and the reasons."""

from __future__ import annotations

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import shorten, shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import GREY, INK, PAGE_MM, ModelStyle, new_figure, settle, thesis_style
from toolkit.stats.comparisons.missing_data import MissingData
from toolkit.stats.result import Estimate

NAME: Final = "missing_data"
TITLE: Final = "Missing scores"
_ROW_MM: Final = 4.8
_LEAST: Final = 0.1
_GROUPS: Final = {"length_bin": "prompt length", "model": "model", "judge": "judge"}
_COLUMNS: Final = ("part", "group", "name", "missing", "of", "share", "low", "high")
_NAMED: Final = 8
"""Most reasons that get a bar of their own."""


def missing_data_figure(found: MissingData | None, about: About) -> FigureWithCaption:
    """Draw the share of runs and judgements without a score, in all and by group, and the count of each reason."""
    if found is None:
        return about.nothing(NAME, TITLE, "there are no runs")
    data = _rows(found)
    with thesis_style():
        figure, end = _draw(data, about)
    shares = [*found.overall, *(one for group in found.shares.values() for one in group)]
    kept = data[data["part"] == "reason"]
    caption = captions.join(
        f"{TITLE}: share of runs without a score, by prompt length and model, and of judgements, by judge. "
        f"Scored: {captions.n_words(about.n)}.",
        captions.interval_words(shares),
        "A failure is missing and never a zero.",
        f"Other reasons: {int(kept['missing'].iloc[-1])} together."
        if len(kept) > _NAMED and kept["name"].iloc[-1] == "other reasons"
        else "",
        _imbalance_words(found.imbalance),
        found.bounds.sentence() if found.bounds.missing else "",
        f"The axis of shares ends at {end:.0%}." if end < 1 else "",
        captions.not_estimable_words(one for one in shares if not one.estimable),
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data), data, dict(about.n))


def _rows(found: MissingData) -> pd.DataFrame:
    shares = [("all", one.name.removeprefix("missing "), one) for one in found.overall]
    shares += [
        (group, one.name.removeprefix(f"missing, {group} "), one)
        for group, several in found.shares.items()
        for one in several
    ]
    rows: list[tuple[Any, ...]] = [
        ("share", group, name, _count(one), _cases(one), one.estimate, one.low, one.high)
        for group, name, one in shares
        if one.estimable
    ]
    reasons = list(found.reasons.items())
    rest = reasons[_NAMED - 1 :] if len(reasons) > _NAMED else []
    named = reasons[: len(reasons) - len(rest)] + (
        [("other reasons", sum(c for _, c in rest))] if rest else []
    )
    rows += [("reason", "", reason, count, None, None, None, None) for reason, count in named]
    numbers = dict.fromkeys(("share", "low", "high"), "float64") | dict.fromkeys(("missing", "of"), "Int64")
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(numbers)


def _cases(one: Estimate) -> int:
    return next(count for what, count in one.n.items() if what != "bases")


def _count(one: Estimate) -> int:
    return round((one.estimate or 0.0) * _cases(one))


def _imbalance_words(tests: tuple[Estimate, ...]) -> str:
    tested = [one for one in tests if one.p_value is not None]
    told = [f"{_group_of(one)} p = {one.p_value:.3g}" for one in tested]
    methods = list(dict.fromkeys(one.method for one in tested))
    corrections = sorted({one.adjusted for one in tested} - {"none"})
    how = "; ".join([*methods, *corrections])
    return f"Test whether scores are missing alike at every level ({how}): {', '.join(told)}." if told else ""


def _group_of(test: Estimate) -> str:
    column = test.name.rpartition(" ")[2]
    return _GROUPS.get(column, column)


def _draw(data: pd.DataFrame, about: About) -> tuple[Figure, float]:
    shares, reasons = data[data["part"] == "share"], data[data["part"] == "reason"]
    heights = [len(shares), *([len(reasons)] if len(reasons) else [])]
    figure = new_figure(PAGE_MM, _ROW_MM * sum(heights) + 18 * len(heights))
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    end = _draw_shares(panels[0], shares, about)
    if len(reasons):
        _draw_reasons(panels[1], reasons)
    return settle(figure), end


def _draw_shares(axes: Axes, shares: pd.DataFrame, about: About) -> float:
    styles = about.styles(shares.loc[shares["group"] == "model", "name"])
    reach = max(_LEAST, float(shares[["share", "high"]].max().max()))
    end = min(1.0, math.ceil(reach * 20) / 20)
    groups = list(shares["group"])
    for place, (_, row) in enumerate(shares.iterrows()):
        up = len(shares) - 1 - place
        plain = ModelStyle(INK, "o", "-")
        look = styles.get(str(row["name"]), plain) if row["group"] == "model" else plain
        axes.plot([row["low"], row["high"]], [up, up], color=look.color, linewidth=1.1, clip_on=False)
        axes.plot([row["share"]], [up], color=look.color, marker=look.marker, markersize=4.5, clip_on=False)
        axes.text(
            1.03,
            up,
            f"{row['missing']} of {row['of']}",
            va="center",
            color=INK,
            transform=axes.get_yaxis_transform(),
        )
        if place and row["group"] != groups[place - 1]:
            axes.axhline(up + 0.5, color=GREY, linewidth=0.4)
    names = shortened((_label(row) for _, row in shares.iterrows()), 48)
    axes.set_yticks(range(len(shares)), [names[_label(row)] for _, row in shares.iterrows()][::-1])
    axes.set_ylim(-0.6, len(shares) - 0.4)
    axes.set_xlim(0, end)
    # Steps of 2.5 % would be labelled as 2 %, 5 %, 8 %.
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("Share without a score")
    axes.tick_params(axis="y", length=0, pad=7)  # a mark at 0 is drawn whole
    return end


def _label(row: pd.Series) -> str:
    if row["group"] == "all":
        return f"all {row['name']}"
    return f"{_GROUPS.get(row['group'], row['group'])} {row['name']}"


def _draw_reasons(axes: Axes, reasons: pd.DataFrame) -> None:
    up = range(len(reasons) - 1, -1, -1)
    counts = reasons["missing"].astype(int).tolist()
    axes.barh(list(up), counts, height=0.6, color=GREY, edgecolor=INK, linewidth=0.6, hatch="////")
    for place, count in zip(up, counts, strict=True):
        axes.text(1.03, place, str(count), va="center", color=INK, transform=axes.get_yaxis_transform())
    axes.set_yticks(list(up), [shorten(name, 48) for name in reasons["name"]])
    axes.set_ylim(-0.6, len(reasons) - 0.4)
    axes.set_xlim(0, max(counts) * 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Missing scores with this reason (runs and judgements)")
    axes.tick_params(axis="y", length=0)


def _alt_text(data: pd.DataFrame) -> str:
    shares = data[data["part"] == "share"]
    said = "; ".join(f"{_label(row)} {row['missing']} of {row['of']}" for _, row in shares.iterrows())
    why = "; ".join(f"{row['name']} {row['missing']}" for _, row in data[data["part"] == "reason"].iterrows())
    return f"Shares without a score, with intervals: {said}." + (f" Reasons: {why}." if why else "")
