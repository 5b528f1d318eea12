"""The one-shot test: expected answers, unexpected answers and hallucinations of each method, and its score beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from toolkit.report import captions
from toolkit.report.latex import latex_table
from toolkit.report.one_shot_bars import draw_bars
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import PAGE_MM, message_figure, thesis_style
from toolkit.report.tables import Table
from toolkit.stats.one_shot.compare import OneShotComparison
from toolkit.stats.one_shot.methods import VERDICTS, GroupScore, MethodScore, method_estimates
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import agreeing, counted, coverage

NAME: Final = "one_shot"
MOST_ROWS: Final = 45
"""Rows that fit on a page of a thesis with their caption."""
_COLUMNS: Final = ("label", *VERDICTS, "missing", "experiments", "score", "raw", "low", "high")

Scored = MethodScore | GroupScore


def one_shot_figure(
    rows: Sequence[Scored], *, name: str = NAME, note: str = "", source: str = ""
) -> FigureWithCaption:
    """Draw the three counts of each row as a bar of the whole, and its raw score with the interval beside."""
    data = pd.DataFrame([_row(one) for one in rows], columns=list(_COLUMNS))
    n = {what: int(data[what].sum()) for what in ("experiments", *VERDICTS, "missing")} | {"rows": len(data)}
    if data.empty or not n["experiments"]:
        with thesis_style():
            figure = message_figure(PAGE_MM, 40, "no experiments")
        caption = captions.join("One-shot test: no experiments.", source, note)
        return FigureWithCaption(name, figure, caption, "No experiments, so nothing is drawn.", data, n)
    with thesis_style():
        figure = draw_bars(data)
    uncorrected = captions.UNCORRECTED if data["low"].notna().sum() > 1 else ""
    caption = captions.join(_counted(rows, n), _explained(rows), _told(rows), uncorrected, source, note)
    alt_text = (
        f"Stacked bars of {counted(len(data), 'rows')}, each with its share of expected, unexpected and hallucinated "
        f"answers, and beside it the raw score with its interval. In all {n['expected']} expected, "
        f"{n['unexpected']} unexpected "
        f"and {n['hallucinated']} hallucinated of {counted(n['experiments'], 'experiments')}."
    )
    return FigureWithCaption(name, figure, caption, alt_text, data, n)


def one_shot_figures(
    methods: Sequence[MethodScore], groups: Sequence[GroupScore], *, note: str = "", source: str = ""
) -> tuple[FigureWithCaption, ...]:
    """Return one figure of the groups, then the methods of each variant and model, 45 a figure at most."""
    about: dict[tuple[str, str], list[MethodScore]] = {}
    for one in methods:
        about.setdefault((one.variant, one.model), []).append(one)
    figures = [one_shot_figure(groups, note=note, source=source)]
    for (variant, model), found in about.items():
        for start in range(0, len(found), MOST_ROWS):
            whose = captions.join(f"Methods with the prompt {variant} and the model {model}.", note)
            figures.append(
                one_shot_figure(
                    found[start : start + MOST_ROWS],
                    name=f"{NAME}_methods_{len(figures)}",
                    note=whose,
                    source=source,
                )
            )
    return tuple(figures)


def one_shot_table(rows: Sequence[Scored], *, name: str = NAME, note: str = "", source: str = "") -> Table:
    """Return the counts and the raw score of each row with its interval."""
    shown = pd.DataFrame([_row(one) for one in rows], columns=list(_COLUMNS))
    pairs = zip(shown["low"], shown["high"], strict=True)
    shown["interval"] = pd.Series(
        [None if pd.isna(low) else (low, high) for low, high in pairs], dtype="object"
    )
    levels = {_estimates(one)[1].confidence for one in rows}
    level = "".join(f"{coverage(one)} " for one in levels if len(levels) == 1) + "interval of raw"
    heads = {"label": _head(rows), "expected": "I1", "unexpected": "I0", "hallucinated": "H"}
    heads |= {"experiments": "N", "score": "Score", "raw": "Raw", "interval": level}
    n = {"experiments": sum(one.experiments for one in rows)}
    caption = captions.join(
        f"One-shot test ({captions.n_words(n)}): I1 expected answers, I0 unexpected answers, H hallucinations.",
        "Raw is the weighted mean of the shares; score is raw, but not below 0; both are means over the methods of a "
        "row."
        if rows and isinstance(rows[0], GroupScore)
        else "Raw is the weighted mean of the shares; score is raw, but not below 0.",
        _told(rows),
        source,
        note,
    )
    latex = latex_table(shown, caption, f"tab:{name.replace('_', '-')}", heads)
    keyed = [(_label(one), estimate) for one in rows for estimate in _estimates(one)]
    return Table(name, latex, estimates_frame(keyed, "row"), caption)


def one_shot_comparison_table(comparison: OneShotComparison, *, note: str = "", source: str = "") -> Table:
    """Return the paired differences between variants or models with their P values."""
    contrasts = comparison.contrasts
    shown = pd.DataFrame(
        [
            {
                "what": one.name,
                "n": one.n.get("questions"),
                "difference": one.estimate,
                "interval": None if one.low is None else (one.low, one.high),
                "p": one.p_value,
                "test": captions.role_words(one),
            }
            for one in contrasts
        ],
        columns=["what", "n", "difference", "interval", "p", "test"],
    )
    corrections = sorted({one.correction for one in contrasts if one.correction != "none"})
    level = f"{coverage(contrasts[0].confidence)} interval" if contrasts else "interval"
    heads = {
        "what": "",
        "n": "Questions",
        "difference": "Difference of raw scores",
        "interval": level,
        "p": "p",
        "test": "Test",
    }
    notes = (f"{said[:1].upper()}{said[1:]}." for said in comparison.notes)
    caption = captions.join(
        f"One-shot test: differences between {comparison.by}s, paired by question.",
        captions.interval_words(contrasts),
        f"P values corrected for multiplicity: {', '.join(corrections)}." if corrections else "",
        _left_out(contrasts),
        captions.no_interval_words((one.name, one) for one in contrasts),
        captions.not_estimable_words(replace(one, missing=0) for one in contrasts),
        *notes,
        source,
        note,
    )
    name = f"{NAME}_{comparison.by}s"
    latex = latex_table(shown, caption, f"tab:one-shot-{comparison.by}s", heads, p_values=("p",))
    return Table(name, latex, comparison.frame(), caption)


def _left_out(contrasts: Sequence[Estimate]) -> str:
    kept = [f"{one.name} ({one.missing})" for one in contrasts if one.missing]
    return f"Questions left out because a method of theirs is incomplete: {'; '.join(kept)}." if kept else ""


def _head(rows: Sequence[Scored]) -> str:
    return "Question" if rows and isinstance(rows[0], MethodScore) else "Methods"


def _label(one: Scored) -> str:
    """Return how a row is named."""
    return one.question if isinstance(one, MethodScore) else one.label


def _estimates(one: Scored) -> tuple[Estimate, Estimate]:
    """Return the score and the raw score of a row."""
    return method_estimates(one) if isinstance(one, MethodScore) else (one.score, one.raw)


def _row(one: Scored) -> dict[str, object]:
    """Return the numbers of a row, as they are drawn and tabulated."""
    score, raw = _estimates(one)
    return {
        "label": _label(one),
        **dict(zip(VERDICTS, (one.i1, one.i0, one.h), strict=True)),
        "missing": one.missing,
        "experiments": one.experiments,
        "score": score.estimate,
        "raw": raw.estimate,
        "low": raw.low,
        "high": raw.high,
    }


def _counted(rows: Sequence[Scored], n: dict[str, int]) -> str:
    sizes = sorted({one.experiments for one in rows})
    what = counted(len(rows), "methods" if isinstance(rows[0], MethodScore) else "groups of methods")
    if len(rows) == 1:
        return f"One-shot test ({what}, N = {counted(sizes[0], 'experiments')})."
    each = counted(sizes[0], "experiments") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} experiments"
    return f"One-shot test ({what}, N = {each} each, {n['experiments']} in all)."


def _explained(rows: Sequence[Scored]) -> str:
    bars = "Bars: shares of expected answers (I1), unexpected answers (I0) and hallucinations (H). "
    if isinstance(rows[0], MethodScore):
        points = "Points: raw score; the score, printed beside, is raw but not below 0."
        return captions.join(bars, points, _weights_words(rows))
    return bars + "Points: mean raw score over methods; printed beside: mean score over methods."


def _weights_words(rows: Sequence[Scored]) -> str:
    """Say what the raw score is made of; a group keeps no weights."""
    weights = [one.score.weights for one in rows if isinstance(one, MethodScore) and one.score is not None]
    return (
        "Weights of I1, I0 and H in the raw score: {:g}, {:g} and {:g}.".format(*weights[0])
        if weights
        else ""
    )


def _told(rows: Sequence[Scored]) -> str:
    """Say what the intervals are, and what is missing."""
    raws = [_estimates(one)[1] for one in rows]
    missing = sum(one.missing for one in rows)
    whys = [
        f"{_label(one)} ({raw.note})" for one, raw in zip(rows, raws, strict=True) if raw.estimate is None
    ]
    partly = [
        f"{_label(one)} ({raw.note})"
        for one, raw in zip(rows, raws, strict=True)
        if raw.estimate is not None and raw.missing
    ]
    return captions.join(
        captions.interval_words(raws),
        f"{counted(missing, 'experiments')} {agreeing(missing, 'have')} no verdict: missing, not zero."
        if missing
        else "",
        f"Not scored: {'; '.join(whys)}." if whys else "",
        f"Means without incomplete methods: {'; '.join(partly)}." if partly else "",
    )
