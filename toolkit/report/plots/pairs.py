"""Votes on pairs of replies: strengths of models with their differences, and how judges prefer a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.result import Estimate

_COLUMNS: Final = ("part", "name", "estimate", "low", "high", "p_value")
_ROW_MM: Final = 6.0


def pair_strengths(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the strength of each model with its interval, and below the differences of each two."""
    result = analyses.compare_pairs()
    parts = [("strength", e) for e in sorted(result.models, key=lambda e: -(e.estimate or 0.0))]
    parts += [("difference", e) for e in result.differences]
    data = _data(parts)
    panels = [data[data["part"] == part] for part in ("strength", "difference")]
    labels = ("Strength (logits, mean 0)", "Difference of strengths (logits)")
    names = style.paired({_name(e): tuple(e.facets.values()) for _, e in parts})
    figure = _draw(panels, labels, names, 0.0, context)
    return _figure("pair_strengths", result.notes, parts, data, figure, context)


def position_bias(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how often each judge prefers the reply that it is shown first, beside one half."""
    parts = [("judge", e) for e in analyses.compare_pairs().judges]
    data = _data(parts)
    names = style.shortened(map(context.judge, data["name"]), 44)
    labels = {role: names[context.judge(role)] for role in data["name"]}
    figure = _draw([data], ("Share of decided votes for the reply shown first",), labels, 0.5, context)
    return _figure("position_bias", (), parts, data, figure, context)


def _data(parts: Iterable[tuple[str, Estimate]]) -> pd.DataFrame:
    rows = [(part, _name(e), e.estimate, e.low, e.high, e.p_value) for part, e in parts if e.estimable]
    data = pd.DataFrame(rows, columns=list(_COLUMNS))
    if data.empty:
        raise NothingToDraw("no vote tells the models apart")
    return data.astype(dict.fromkeys(("estimate", "low", "high", "p_value"), "float64"))


def _name(estimate: Estimate) -> str:
    return " − ".join(estimate.facets.values())


def _draw(
    parts: Sequence[pd.DataFrame], labels: Sequence[str], names: Mapping[str, str], at: float, context: About
) -> Figure:
    drawn = [(part.iloc[::-1], label) for part, label in zip(parts, labels, strict=True) if len(part)]
    figure, panels = style.stacked([len(part) for part, _ in drawn], _ROW_MM, 16 * len(drawn))
    styles = context.styles(context.models)
    for axes, (rows, label) in zip(panels, drawn, strict=True):
        for up, (_, row) in enumerate(rows.iterrows()):
            look = styles.get(str(row["name"]), style.PLAIN)
            style.forest(axes, rows.iloc[up : up + 1], [up], look, width=1.6)
            style.beside(axes, up, style.interval(row["estimate"], row["low"], row["high"]), 1.015)
        style.row_axis(axes, [names[name] for name in rows["name"]])
        axes.axvline(at, color=style.GREY, linewidth=0.8, zorder=0)
        axes.set_xlabel(label)
    return style.settle(figure)


def _figure(
    name: str,
    notes: Iterable[str],
    parts: Sequence[tuple[str, Estimate]],
    data: pd.DataFrame,
    figure: Figure,
    context: About,
) -> FigureWithCaption:
    estimates, text = [estimate for _, estimate in parts], captions.TEXTS[name]
    values = "; ".join(f"{row.name}: {style.decimals(row.estimate)}" for row in style.rows_of(data))
    return context.figure(
        name, figure, data, f"{text['alt']}: {values}.",
        text["seen"],
        [text["note"]],
        [captions.notes_words(notes)],
        estimates=estimates, counts=captions.estimates_n_words(estimates), missing="",
    )  # fmt: skip
