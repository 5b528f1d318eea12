"""Forest of the intraclass correlations: all six forms of every dimension, absolute agreement first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import decimals
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import GREY, INK, PAGE_MM, new_figure, settle, thesis_style

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability

NAME: Final = "icc_forest"
TITLE: Final = "Intraclass correlations of the judges"
_PANELS: Final = {
    "One judge": ("ICC(A,1)", "ICC(1,1)", "ICC(C,1)"),
    "Mean of the judges": ("ICC(A,k)", "ICC(1,k)", "ICC(C,k)"),
}
# Not the colours of models: ink leads, because a judge's leniency is error (DESIGN, section 7).
_LOOKS: Final = {
    "A": (INK, "o", 1.6, "(A): absolute agreement"),
    "1": (GREY, "s", 0.9, "(1): judges not told apart"),
    "C": (GREY, "^", 0.9, "(C): consistency, leniency left out"),
}
_ROW_MM: Final = 9.0
_LOWEST: Final = -1.0
_GUIDES: Final = (0.5, 0.75, 0.9)
_COLUMNS: Final = ("dimension", "form", "estimate", "low", "high", "answers", "judges", "note")


def icc_forest(reliability: Reliability | None, about: About) -> FigureWithCaption:
    """Draw the six intraclass correlations of each dimension and of the composite with their intervals."""
    data = _rows(reliability)
    drawn = data[data["estimate"].notna()]
    if reliability is None or drawn.empty:
        why = "no run was scored by two judges" if reliability is None else _first_reason(data)
        return about.nothing(NAME, TITLE, why)
    found = [one for forms in reliability.icc.values() for one in forms]
    with thesis_style():
        figure, cut = _draw(data)
    caption = captions.join(
        f"{TITLE} ({captions.n_words(about.n)}; rated by every judge: "
        f"{captions.estimates_n_words(found).removeprefix('n = ')}).",
        "Left: of the score of one judge; right: of the mean of all judges. ICC(A,1) and ICC(A,k), absolute agreement, "
        "are black and printed: leniency of a judge is error there. The one-way form (1) does not tell the judges "
        "apart; consistency (C) leaves their leniency out.",
        "Dotted lines at .5, .75 and .9 part poor, moderate, good and excellent reliability (Koo & Li 2016); where the "
        "whole interval lies says which it is.",
        captions.icc_interval_words(found),
        "The forms are not corrected for their number and test nothing.",
        "An interval that ends in an arrow goes on beyond the axis; the data have its end." if cut else "",
        captions.not_estimable_words(one for one in found if not one.estimable),
        about.missing,
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(drawn), data, dict(about.n))


def _rows(reliability: Reliability | None) -> pd.DataFrame:
    order = [form for forms in _PANELS.values() for form in forms]
    rows = [
        (key, one.name, one.estimate, one.low, one.high, one.n.get("answers"), one.n.get("judges"), one.note)
        for key, forms in (reliability.icc.items() if reliability else ())
        for one in sorted(forms, key=lambda form: order.index(form.name))
    ]
    numbers = dict.fromkeys(("estimate", "low", "high"), "float64")
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(numbers)


def _first_reason(data: pd.DataFrame) -> str:
    """Say why nothing is estimable, in the words of the statistic."""
    notes = [str(note).removeprefix("not estimable: ") for note in data["note"] if note]
    return notes[0] if notes else "no run was scored by two judges"


def _draw(data: pd.DataFrame) -> tuple[Figure, bool]:
    keys = list(dict.fromkeys(data["dimension"]))
    figure = new_figure(PAGE_MM, _ROW_MM * len(keys) + 26)
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    lowest = float(data[["estimate", "low"]].min().min())
    low = max(_LOWEST, min(0.0, math.floor(lowest * 4) / 4))
    for axes, (title, forms) in zip(panels, _PANELS.items(), strict=True):
        _panel(axes, data, keys, forms, low)
        axes.set_title(title)
        axes.set_xlabel("Intraclass correlation")
    panels[0].set_yticks(range(len(keys)), [key.replace("_", " ") for key in keys])
    panels[0].set_ylim(len(keys) - 0.45, -0.55)
    handles = [
        Line2D([], [], color=color, marker=marker, linewidth=width, markersize=4, label=label)
        for color, marker, width, label in _LOOKS.values()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, borderaxespad=0.2, columnspacing=1.2)
    return settle(figure), lowest < low


def _panel(axes: Axes, data: pd.DataFrame, keys: list[str], forms: tuple[str, ...], low: float) -> None:
    for guide in _GUIDES:
        axes.axvline(guide, color=GREY, linewidth=0.7, linestyle=":", zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    for place, key in enumerate(keys):
        for number, form in enumerate(forms):
            color, marker, width, _ = _LOOKS[form[4]]
            row = data[(data["dimension"] == key) & (data["form"] == form)]
            up = place + (number - 1) * 0.24
            if row.empty or row["estimate"].isna().all():
                if number == 0:
                    axes.text(
                        1.03,
                        up,
                        "not estimable",
                        va="center",
                        color=GREY,
                        transform=axes.get_yaxis_transform(),
                    )
                continue
            one = row.iloc[0]
            axes.plot([max(low, one["low"]), one["high"]], [up, up], color=color, linewidth=width, zorder=2)
            if one["low"] < low:
                axes.plot([low], [up], color=color, marker="<", markersize=4, clip_on=False, zorder=3)
            if one["estimate"] >= low:
                axes.plot([one["estimate"]], [up], color=color, marker=marker, markersize=4.2, zorder=4)
            if number == 0:
                axes.text(
                    1.03, place, _told(one), va="center", color=INK, transform=axes.get_yaxis_transform()
                )
    axes.set_xlim(low - 0.03, 1.03)
    axes.tick_params(axis="y", length=0)


def _told(one: pd.Series) -> str:
    interval = f"\n[{decimals(one['low'])}, {decimals(one['high'])}]" if pd.notna(one["low"]) else ""
    return f"{decimals(one['estimate'])}{interval}"


def _alt_text(drawn: pd.DataFrame) -> str:
    leading = drawn[drawn["form"].isin(("ICC(A,1)", "ICC(A,k)"))]
    said = "; ".join(
        f"{dimension.replace('_', ' ')}, {form} {decimals(estimate)}"
        for dimension, form, estimate in leading[["dimension", "form", "estimate"]].itertuples(index=False)
    )
    return f"Forest of intraclass correlations with intervals in two panels, one judge and the mean of all: {said}."
