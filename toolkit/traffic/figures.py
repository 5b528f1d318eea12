"""Draw and tabulate the one-shot test: expected, unexpected and hallucinated answers of each method, and its score."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.blocks import Grid, Part
from toolkit.report.figure import ALONE, About, FigureWithCaption
from toolkit.report.plots.conditions import conditions
from toolkit.report.tables import Table, estimates_table, with_interval
from toolkit.stats.one_shot.methods import (
    VERDICTS,
    GroupScore,
    MethodScore,
    document_words,
    method_estimates,
    score_groups,
)
from toolkit.stats.result import estimates_frame, placed
from toolkit.words import agreeing, counted

NAME = "one_shot"
MOST_ROWS = 45  # rows that fit on a page of a thesis with their caption
_COLUMNS = ("label", *VERDICTS, "missing", "experiments", "score", "raw", "low", "high")

Scored = MethodScore | GroupScore
_ROW_MM = 4.6
_MOST_TICKS = 9
# Blue and vermilion are nearly one grey, so what is hallucinated is hatched as well; what is unexpected is pale.
_LOOKS: dict[str, dict[str, Any]] = {
    "expected": {"label": "expected (I1)", "facecolor": style.PALETTE[0], "edgecolor": "white"},
    "unexpected": {"label": "unexpected (I0)", "facecolor": "#DDDDDD", "edgecolor": "white"},
    "hallucinated": {
        "label": "hallucinated (H)", "facecolor": style.PALETTE[3], "edgecolor": "white", "hatch": "/////",
    },
    "missing": {"label": "no verdict", "facecolor": "white", "edgecolor": style.GREY, "linestyle": ":"},
}  # fmt: skip


def one_shot_figure(
    rows: Sequence[Scored], *, name: str = NAME, title: str = "One-shot test", context: About = ALONE
) -> FigureWithCaption:
    """Draw the three shares of each row as a bar, and its raw score with the interval beside it."""
    groups = _as_groups(rows)
    data = pd.DataFrame(map(_row, groups), columns=list(_COLUMNS))
    n = {key: int(data[key].sum()) for key in ("experiments", *VERDICTS, "missing")} | {"rows": len(data)}
    context = replace(context, n=n)
    if data.empty or not n["experiments"]:
        return replace(context.nothing_drawn(name, "no experiments", title), data=data)
    with style.thesis_style():
        figure = _draw_bars(data)
    sizes = sorted({group.experiments for group in groups})
    size = counted(sizes[0], "experiments") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} experiments"
    per_row = "" if len(rows) == 1 else f" each, {n['experiments']} in all"
    of_methods = [row for row in rows if isinstance(row, MethodScore)]
    counted_rows = counted(len(rows), "methods" if of_methods else "groups of methods")
    scores = [row.score for row in of_methods if row.score is not None]
    weights = "weights of I1, I0 and H in the raw score: {:g}, {:g} and {:g}"
    estimates = [replace(group.raw, name=group.label) for group in groups]
    words = {
        **n,
        "title": title,
        "bars": counted(len(data), "rows"),
        "experiments": counted(n["experiments"], "experiments"),
        "of_methods": of_methods,
        "of_groups": not of_methods,
    }
    return context.worded(
        name, figure, data, words,
        [data["low"].notna().sum() > 1 and captions.UNCORRECTED, scores and weights.format(*scores[0].weights)],
        variant=NAME,
        estimates=estimates, counts=f"{counted_rows}, N = {size}{per_row}", missing=_missing_words(groups),
    )  # fmt: skip


def _as_groups(rows: Sequence[Scored]) -> list[GroupScore]:
    """Return each row with its estimates; a method is a group of one, labelled by its question."""
    groups = []
    for row in rows:
        if isinstance(row, MethodScore):
            score, raw = method_estimates(row)
            row = GroupScore(row.i1, row.i0, row.h, row.experiments, row.question, raw, score)
        groups.append(row)
    return groups


def _row(group: GroupScore) -> dict[str, object]:
    scored = group.raw.n.get("methods", 0)
    row = {
        "label": group.label, "missing": group.missing, "experiments": group.experiments,
        "scored": f"{scored} of {scored + group.raw.missing}", "score": group.score.estimate,
        "raw": group.raw.estimate, "low": group.raw.low, "high": group.raw.high,
    }  # fmt: skip
    return row | dict(zip(VERDICTS, (group.i1, group.i0, group.h), strict=True))


def _missing_words(groups: Sequence[GroupScore]) -> str:
    """Say how many experiments have no verdict, and what follows from it."""
    missing = sum(group.missing for group in groups)
    lost = f"{counted(missing, 'experiments')} {agreeing(missing, 'have')} no verdict: missing, not zero"
    return f"{lost}, so that their methods have no score and means leave them out" if missing else ""


def one_shot_figures(
    methods: Sequence[MethodScore], groups: Sequence[GroupScore], *, context: About = ALONE
) -> tuple[FigureWithCaption, ...]:
    """Return one figure of the groups, then the methods of each variant, document and model, 45 a figure at most."""
    panels = captions.by_key(((method.variant, method.document, method.model), method) for method in methods)
    several = len({method.document for method in methods}) > 1
    figures = [one_shot_figure(groups, context=context)]
    for (variant, document, model), panel in panels.items():
        prompt = f"{variant}, {document_words(document)}" if several else variant
        title = f"One-shot test, methods with the prompt {prompt} and the model {model}"
        for start in range(0, len(panel), MOST_ROWS):
            rows, name = panel[start : start + MOST_ROWS], f"{NAME}_methods_{len(figures)}"
            figures.append(one_shot_figure(rows, name=name, title=title, context=context))
    return tuple(figures)


def draw_one_shot(methods: Sequence[MethodScore], analyses: Analyses, context: About = ALONE) -> list[Part]:
    """Draw the figures of a one-shot test, and make its tables; the same experiments give the same bytes."""
    groups = score_groups(methods)
    parts: list[Part] = [*one_shot_figures(methods, groups, context=context)]
    context = replace(context, n={"methods": len(methods)}, scale=analyses.scale)
    with suppress(style.NothingToDraw), style.thesis_style():
        parts.append(conditions(analyses, context))
    parts.append(one_shot_table(groups, context=context))
    for factor in analyses.factors:
        compared = analyses.conditions(factor)
        name, title = f"conditions_{factor}", f"Comparison by {compared.title}"
        notes = [captions.notes_words(compared.notes)]
        parts.append(estimates_table(name, title, placed(compared), context=context, notes=notes))
    return parts


def one_shot_table(groups: Sequence[GroupScore], *, context: About = ALONE) -> Table:
    """Return the counts and the raw score of each group of methods with its interval."""
    table_rows = [_row(group) | {"raw": with_interval(group.raw) or None} for group in groups]
    heads = {
        "label": "Methods", "expected": "I1", "unexpected": "I0", "hallucinated": "H",
        "missing": "Missing", "experiments": "N", "scored": "Scored", "score": "Score", "raw": "Raw [interval]",
    }  # fmt: skip
    n = {"experiments": sum(group.experiments for group in groups)}
    caption, notes = context.compose(
        "One-shot test: I1 expected answers, I0 unexpected answers, H hallucinations.",
        [captions.n_words(n), captions.interval_words(group.raw for group in groups), _missing_words(groups)],
        [
            "Raw is the weighted mean of the shares; score is raw, but not below 0, both means over the methods of a "
            "row that are scored"
        ],
        estimates=[replace(group.raw, name=group.label) for group in groups],
    )
    keyed = [(group.label, estimate) for group in groups for estimate in (group.score, group.raw)]
    frame = pd.DataFrame(table_rows, columns=list(heads)).set_axis(list(heads.values()), axis=1)
    grid = Grid(frame, caption, NAME.replace("_", "-"))
    return Table(NAME, grid, estimates_frame(keyed, "row"), [estimate for _, estimate in keyed], notes)


def _draw_bars(data: pd.DataFrame) -> Figure:
    figure = style.new_figure(style.PAGE_MM, 22 + _ROW_MM * len(data))
    figure.set_layout_engine("constrained", w_pad=0.06)  # the ends of the two axes are two numbers
    bars, scores = figure.subplots(1, 2, sharey=True, width_ratios=(1.15, 1))
    positions, names = range(len(data)), style.shortened(data["label"], 44)
    offset = pd.Series(0.0, index=data.index)
    parts = [part for part in _LOOKS if data[part].sum() > 0 or part != "missing"]
    for part in parts:
        share = (data[part] / data["experiments"]).fillna(0.0)
        bars.barh(positions, share, left=offset, height=0.72, linewidth=0.5, **_LOOKS[part])
        offset += share
    bars.set_yticks(positions, [names[label] for label in data["label"]])
    bars.set_ylim(len(data) - 0.4, -1.3)  # the first row is above, below the head of the scores
    bars.set_xlim(0, 1)
    bars.set_xticks([0, 0.5, 1], ["0.0", "0.5", "1.0"])
    bars.set_xlabel("Share of experiments")
    _draw_scores(scores, data)
    for axes in (bars, scores):
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    handles = [Patch(**_LOOKS[part], linewidth=0.5) for part in parts]
    style.legend(figure, handles, columns=len(handles))
    return style.settle(figure)


def _draw_scores(axes: Axes, data: pd.DataFrame) -> None:
    marks = data[["raw", "low", "high"]].astype(float).rename(columns={"raw": "estimate"})
    axes.axvline(0, color=style.GREY, linewidth=0.6, linestyle=":")
    style.forest(axes, marks, range(len(marks)), style.PLAIN, size=3.5)
    points = marks.dropna(subset="estimate")
    # The axis ends with a tick, so that a reader can tell how far below 0 it goes.
    low = min(0.0, math.floor(2 * float(points.min().min())) / 2) if len(points) else 0.0
    high = max(1.0, float(points.max().max())) if len(points) else 1.0
    span = high - low
    axes.set_xlim(low - 0.04 * span, high + 0.24 * span)
    for position, score in enumerate(data["score"]):
        text = "not scored" if pd.isna(score) else f"{score:.2f}"
        axes.text(high + 0.22 * span, position, text, ha="right", va="center")
    axes.text(high + 0.22 * span, -0.9, "score", ha="right", va="center")
    axes.set_xlabel("Raw score")
    axes.spines["bottom"].set_bounds(low, high)
    steps = range(round(2 * low), math.floor(2 * high) + 1)
    if len(steps) <= _MOST_TICKS:  # weights are the user's: with large ones the axis finds its own
        axes.set_xticks([step / 2 for step in steps], [style.decimals(step / 2, 1) for step in steps])
