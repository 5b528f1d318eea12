"""How far the judges agree: scores of each pair, Bland-Altman plots, and the forest of intraclass correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.agreement.bland_altman import BlandAltman
from toolkit.stats.result import Estimate
from toolkit.words import JUDGE_ROLES, agreeing, counted, scale, scale_words

Pair = tuple[str, str]

_MANY: Final = 5_000
"""Points of a panel from which they are one picture in a PDF or SVG, which otherwise has 22 MB and takes minutes."""
_ACROSS: Final = 3
_JITTER: Final = 0.06
_NARROW: Final = 22
"""Letters of a name of which three stand side by side in a legend."""
_POINT: Final = 7.0
"""Area of the mark of one answer in square points, where no mark is too large."""
_LARGEST: Final = 70.0
_DIFFERENCES: Final = ("first", "second", "kind", "mean", "difference", "low", "high", "answers")
_LINES: Final[Mapping[str, Literal["-", "--"]]] = {"bias": "-", "lower limit": "--", "upper limit": "--"}
_FORMS: Final = ("ICC(A,1)", "ICC(A,k)")
"""Judges' leniency is error, so the absolute-agreement forms come first (DESIGN, section 7)."""
_PANELS: Final = {
    "One judge": ("ICC(A,1)", "ICC(1,1)", "ICC(C,1)"),
    "Mean of the judges": ("ICC(A,k)", "ICC(1,k)", "ICC(C,k)"),
}
# Not the colours of models: ink leads, because a judge's leniency is error (DESIGN, section 7).
_LOOKS: Final = {
    "A": (style.ModelStyle(style.INK, "o", "-"), 1.6, "(A): absolute agreement"),
    "1": (style.ModelStyle(style.GREY, "s", "-"), 0.9, "(1): judges not told apart"),
    "C": (style.ModelStyle(style.GREY, "^", "-"), 0.9, "(C): consistency, leniency left out"),
}
_LOWEST: Final = -1.0
_GUIDES: Final = (0.5, 0.75, 0.9)
_ICC: Final = ("dimension", "form", "estimate", "low", "high", "answers", "judges", "note")


def judge_agreement(of: Analyses, about: About) -> FigureWithCaption:
    """Draw what each pair of judges gave the same answers, against the line of equal scores."""
    judgements = of.judge_means
    good = ~judgements["failed"].astype(bool) & judgements[of.score].notna()
    valid = judgements[good].drop_duplicates(["run_id", "judge"]).sort_values("run_id", kind="stable")
    judges = sorted(
        valid["judge"].unique(), key=lambda j: (JUDGE_ROLES.index(j) if j in JUDGE_ROLES else 99, str(j))
    )
    pairs = list(combinations(judges, 2))
    data = _scores_of_pairs(valid.rename(columns={of.score: "score"}), pairs)
    if data.empty:
        raise NothingToDraw("no run was scored by two judges")
    reliability = of.reliability()
    correlations = reliability.pearson.get(of.score, ())
    pearson = {
        pair: next((e for e in correlations if {*e.facets.values()} == {*map(str, pair)}), None)
        for pair in pairs
    }
    forms = [e for e in reliability.icc.get(of.score, ()) if e.name in _FORMS]
    these = reliability.icc_these_judges.get(of.score, ())
    known = [e for e in pearson.values() if e is not None]
    drawn = valid[valid["run_id"].isin(data["run_id"])]
    units = drawn[["base", "run_id", "model", "repeat"]].nunique()
    n = {"bases": int(units["base"]), "answers": int(units["run_id"]), "models": int(units["model"])}
    n |= {"judges": len(judges), "repeats": int(units["repeat"]) if about.repeats is None else about.repeats}
    lost = len(judgements) - len(valid)
    caption = captions.join(
        f"Agreement between judges ({captions.n_words(n)}).",
        "Each point is one answer, scored by the two judges of the panel; points are shifted by up to "
        f"{_shift_of(data):g} so that equal ones show. Dashed line: equal scores.",
        f"All judges: {captions.interval_words(forms)}" if forms else "",
        " ".join(f"{e.name}: {e.remarks}." for e in forms if e.estimable and e.remarks),
        f"With the interval for these judges only: {'; '.join(_told(e.name, e) for e in these)}."
        if these
        else "",
        f"Above each panel r: Pearson correlation, {captions.interval_words(known)}" if known else "",
        "Nothing is corrected for the number of pairs." if len(known) > 1 else "",
        captions.not_estimable_words(replace(e, missing=0) for e in (*forms, *known)),
        f"{lost} of {counted(len(judgements), 'judgements')} {agreeing(lost, 'are')} missing, not zero."
        if lost
        else "",
        about.whole,
    )
    counts = data.groupby(["first", "second"]).size()
    said = "; ".join(
        f"{a} and {b}: {counted(int(counts.get((a, b), 0)), 'answers')}"
        + (f", r = {style.decimals(e.estimate)}" if e is not None and e.estimate is not None else "")
        for (a, b), e in pearson.items()
    )
    alt_text = f"Scatter of the composite scores of pairs of judges, {scale_words()} on both axes: {said}."
    figure = _draw_agreement(data, pearson, forms, about)
    return FigureWithCaption("judge_agreement", figure, caption, alt_text, data, n)


def _scores_of_pairs(valid: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    """Return one row for each pair of judges and each run that both scored."""
    columns = ["first", "second", "run_id", "model", "first_score", "second_score"]
    kept = []
    for first, second in pairs:
        one = valid.loc[valid["judge"] == first, ["run_id", "model", "score"]]
        other = valid.loc[valid["judge"] == second, ["run_id", "score"]]
        both = one.merge(other, on="run_id", suffixes=("_one", "_other")).assign(first=first, second=second)
        scores = {"score_one": "first_score", "score_other": "second_score"}
        kept.append(both.rename(columns=scores)[columns])
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=columns)


def _shift_of(data: pd.DataFrame) -> float:
    """Return by how much points are shifted: more where scores are whole steps, of which hundreds are one point."""
    scores = np.unique(data[["first_score", "second_score"]].to_numpy(dtype=float).round(6))
    return max(_JITTER, round(0.2 * float(np.diff(scores).min()), 2) if len(scores) > 1 else 0.0)


def _draw_agreement(
    data: pd.DataFrame, pearson: Mapping[Pair, Estimate | None], forms: Sequence[Estimate], about: About
) -> Figure:
    styles = about.styles(data["model"])
    across = min(_ACROSS, len(pearson))
    columns = across if max(map(len, styles)) <= _NARROW else min(across, 2)
    lines = len(forms) if across == 1 else bool(forms)
    tall = style.PAGE_MM / _ACROSS + 10
    head = 5 * lines + 4 + 5 * (-(-len(styles) // columns))
    figure, panels, _ = style.grid(len(pearson), across=_ACROSS, head=head, tall=tall, lone=85.0)
    shift, reach = np.random.default_rng(0), _shift_of(data)
    for axes, (pair, correlation) in zip(panels, pearson.items(), strict=True):
        rows = data[(data["first"] == pair[0]) & (data["second"] == pair[1])]
        axes.plot(scale(), scale(), color=style.GREY, linestyle="--", linewidth=0.8, zorder=1)
        moved = rows[["first_score", "second_score"]].astype(float)
        moved = moved + shift.uniform(-reach, reach, size=(len(rows), 2))
        size = 3.5 if len(rows) <= 150 else 2.2  # hundreds of answers would be one blot
        for name, look in styles.items():
            own = moved[rows["model"] == name]
            axes.plot(
                own["first_score"], own["second_score"], linestyle="none", color=look.color,
                marker=look.marker, markersize=size, alpha=0.6, markeredgewidth=0, zorder=2, clip_on=False,
                rasterized=len(rows) > _MANY,
            )  # fmt: skip
        for judge, which in zip(pair, "xy", strict=True):
            style.score_axis(axes, f"{style.shorten(judge, 20)} judge", which=which)
        axes.set_aspect("equal")
        axes.set_title(f"{_told('r', correlation)}\nn = {counted(len(rows), 'answers')}")
    if forms:
        told = ("\n" if across == 1 else "; ").join(_told(e.name, e) for e in forms)
        figure.suptitle(f"All judges: {told}" if across > 1 else told)
    style.legend(figure, style.model_handles(styles), columns=columns, where="lower")
    return style.settle(figure)


def _told(name: str, found: Estimate | None) -> str:
    if found is None or found.estimate is None:
        return f"{name} not estima{'ted' if found is None else 'ble'}"
    return f"{name} = {style.interval(found.estimate, found.low, found.high)}"


def bland_altman(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the difference of each pair of judges against their mean, a panel for each pair."""
    pairs = of.bland_altman()
    drawn = {names: one for names, one in pairs.items() if one.bias.estimable}
    if not drawn:
        raise NothingToDraw("no two judges scored three answers")
    data = pd.concat([_differences(names, one) for names, one in drawn.items()], ignore_index=True)
    figure, reach = _draw_bland_altman(drawn, data)
    found = [estimate for one in drawn.values() for estimate in one.estimates()]
    paired = captions.estimates_n_words(one.bias for one in drawn.values()).removeprefix("n = ")
    slopes = "; ".join(f"{_told(f'{a} less {b}', one.slope)}" for (a, b), one in drawn.items())
    caption = captions.join(
        f"Bland-Altman plots of the judges ({captions.n_words(about.n)}; each pair: {paired}): composite score of the "
        "first judge less that of the second, against the mean of the two.",
        "A larger point is several answers in one place. Solid line: bias, the mean difference; dashed lines: limits "
        "within which 95% of the differences are expected; grey bands: their intervals.",
        captions.interval_words(found),
        f"Proportional bias, the change of the difference per point of the mean: {slopes}.",
        "Nothing is corrected for the number of pairs." if len(drawn) > 1 else "",
        f"The axis of differences shows ±{reach:g} of the ±{scale()[1] - scale()[0]:g} points that are possible.",
        "An interval that goes on beyond the axis is cut there; the data have its end."
        if data[["low", "high"]].abs().max().max() > reach
        else "",
        captions.not_estimable_words(one.bias for names, one in pairs.items() if names not in drawn),
        captions.no_interval_words((one.name, one) for one in found),
        about.end,
    )
    said = "; ".join(
        f"{a} less {b}: bias {_number(one.bias)}, limits {_number(one.lower)} to {_number(one.upper)}"
        for (a, b), one in drawn.items()
    )
    alt_text = f"Differences of pairs of judges against their mean on a scale from {scale_words()}: {said}."
    return FigureWithCaption("bland_altman", figure, caption, alt_text, data, about.n)


def _differences(names: Pair, found: BlandAltman) -> pd.DataFrame:
    points = found.points.round(9).groupby(["mean", "difference"]).size().rename("answers").reset_index()
    lines = [
        {"kind": kind, "difference": one.estimate, "low": one.low, "high": one.high}
        for kind, one in zip(_LINES, (found.bias, found.lower, found.upper), strict=True)
    ]
    rows = pd.concat([points.assign(kind="point").astype(object), pd.DataFrame(lines, dtype=object)])
    numbers = dict.fromkeys(("mean", "difference", "low", "high"), "float64") | {"answers": "Int64"}
    return rows.assign(first=names[0], second=names[1]).reindex(columns=list(_DIFFERENCES)).astype(numbers)


def _draw_bland_altman(drawn: Mapping[Pair, BlandAltman], data: pd.DataFrame) -> tuple[Figure, float]:
    figure, panels, across = style.grid(len(drawn), across=_ACROSS, head=14, tall=62)
    ends = float(data[["difference", "low", "high"]].abs().max().max())
    step = (scale()[1] - scale()[0]) / 10
    reach = min(10 * step, max(2 * step, math.ceil(1.05 * ends / step) * step))
    for place, (axes, ((first, second), found)) in enumerate(zip(panels, drawn.items(), strict=True)):
        own = data[(data["first"] == first) & (data["second"] == second)]
        points = own[own["kind"] == "point"]
        axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
        # Area says how many answers lie there, up to a size at which a point hides nothing but itself.
        answers = points["answers"].astype(float)
        sizes = (_POINT * answers * min(1.0, _LARGEST / (_POINT * float(answers.max())))).clip(lower=2.0)
        marks: dict[str, Any] = {"color": style.INK, "alpha": 0.45, "linewidth": 0, "clip_on": False}
        marks["rasterized"] = len(points) > _MANY
        axes.scatter(points["mean"], points["difference"], s=sizes, zorder=2, **marks)
        for row in style.rows_of(own[own["kind"] != "point"]):
            width = 1.4 if row.kind == "bias" else 1.1
            axes.axhline(row.difference, color=style.INK, linestyle=_LINES[row.kind], linewidth=width)
            if pd.notna(row.low) and pd.notna(row.high):
                axes.axhspan(row.low, row.high, color=style.GREY, alpha=0.28, linewidth=0, zorder=1)
        axes.set_ylim(-reach, reach)
        axes.set_title(
            f"{style.shorten(first, 16)} less {style.shorten(second, 16)}\n{_told('bias', found.bias)}\n"
            f"limits {_number(found.lower)} to {_number(found.upper)}"
        )
        style.score_axis(axes, "Mean of the two", which="x")
        if place % across == 0:
            axes.set_ylabel("Difference (points)")
    handles = [
        Line2D([], [], color=style.INK, linewidth=1.4, linestyle="-", label="bias"),
        Line2D([], [], color=style.INK, linewidth=1.1, linestyle="--", label="95% limits of agreement"),
    ]
    style.legend(figure, handles, columns=2, where="lower")
    return style.settle(figure), reach


def _number(found: Estimate) -> str:
    return "–" if found.estimate is None else style.decimals(found.estimate)


def icc_forest(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the six intraclass correlations of each dimension and of the composite with their intervals."""
    icc = of.reliability().icc
    order = [form for forms in _PANELS.values() for form in forms]
    rows = [
        (
            key,
            one.name,
            one.estimate,
            one.low,
            one.high,
            one.n.get("answers"),
            one.n.get("judges"),
            one.remarks,
        )
        for key, forms in icc.items()
        for one in sorted(forms, key=lambda form: order.index(form.name))
    ]
    numbers = dict.fromkeys(("estimate", "low", "high"), "float64")
    data = pd.DataFrame(rows, columns=list(_ICC)).astype(numbers)
    drawn = data[data["estimate"].notna()]
    if drawn.empty:
        notes = [str(note).removeprefix("not estimable: ") for note in data["note"] if note]
        raise NothingToDraw(notes[0] if notes else "no run was scored by two judges")
    found = [one for forms in icc.values() for one in forms]
    lowest = float(data[["estimate", "low"]].min().min())
    low = max(_LOWEST, min(0.0, math.floor(lowest * 4) / 4))
    rated = captions.estimates_n_words(found).removeprefix("n = ")
    caption = captions.join(
        f"Intraclass correlations of the judges ({captions.n_words(about.n)}; rated by every judge: {rated}).",
        "Left: of the score of one judge; right: of the mean of all judges. ICC(A,1) and ICC(A,k), absolute agreement, "
        "are black and printed: leniency of a judge is error there. The one-way form (1) does not tell the judges "
        "apart; consistency (C) leaves their leniency out.",
        "Dotted lines at .5, .75 and .9 part poor, moderate, good and excellent reliability (Koo & Li 2016); where the "
        "whole interval lies says which it is.",
        captions.interval_words(found),
        "The forms are not corrected for their number and test nothing.",
        "An interval that ends in an arrow goes on beyond the axis, to the number above it."
        if lowest < low
        else "",
        captions.not_estimable_words(one for one in found if not one.estimable),
        about.end,
    )
    said = "; ".join(
        f"{row.dimension}, {row.form} {style.decimals(row.estimate)}"
        for row in style.rows_of(drawn[drawn["form"].isin(_FORMS)])
    )
    alt_text = f"Forest of intraclass correlations with intervals in two panels, one judge and the mean of all: {said}."
    return FigureWithCaption("icc_forest", _draw_icc(data, low), caption, alt_text, data, about.n)


def _draw_icc(data: pd.DataFrame, low: float) -> Figure:
    keys = list(dict.fromkeys(data["dimension"]))
    figure = style.new_figure(style.PAGE_MM, 9.0 * len(keys) + 26)
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for axes, (title, forms) in zip(panels, _PANELS.items(), strict=True):
        axes.axvline(0, color=style.GREY, linewidth=0.6, zorder=0)
        for guide in _GUIDES:
            axes.axvline(guide, color=style.GREY, linewidth=0.7, linestyle=":", zorder=0)
            style.threshold(axes, guide, f"{guide:g}".lstrip("0"))
        for place, key in enumerate(keys):
            own = data[data["dimension"] == key].set_index("form")
            for number, form in enumerate(forms):
                if form in own.index and pd.notna(own.loc[form, "estimate"]):
                    _icc_mark(axes, own.loc[form], place + (number - 1) * 0.24, low, form[4])
            if (leading := forms[0]) not in own.index or pd.isna(own.loc[leading, "estimate"]):
                style.beside(axes, place - 0.24, "not estimable", 1.03, color=style.GREY)
                continue
            one = own.loc[leading]
            told = style.interval(*one[["estimate", "low", "high"]])
            style.beside(axes, place, told.replace(" [", "\n["), 1.03)
        axes.set_xlim(low - 0.03, 1.03)
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, pad=13)
        axes.set_xlabel("Intraclass correlation")
    style.row_axis(panels[0], [readable(key) for key in keys], (len(keys) - 0.45, -0.55))
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linewidth=width, markersize=4, label=label)
        for look, width, label in _LOOKS.values()
    ]
    style.legend(figure, handles, columns=3, columnspacing=1.2)
    return style.settle(figure)


def _icc_mark(axes: Axes, one: pd.Series, up: float, low: float, form: str) -> None:
    """Draw one form; what lies beyond the axis ends in an arrow."""
    look, width, _ = _LOOKS[form]
    shown = pd.DataFrame([one]).assign(low=one["low"] if pd.isna(one["low"]) else max(low, one["low"]))
    shown["estimate"] = shown["estimate"].where(shown["estimate"] >= low)
    style.forest(axes, shown, [up], look, width=width, size=4.2)
    if one["low"] < low:
        axes.plot([low], [up], color=look.color, marker="<", markersize=4, clip_on=False, zorder=3)
        ends: dict[str, Any] = {"ha": "left", "va": "bottom", "fontsize": 7}
        axes.text(low, up - 0.06, style.decimals(one["low"]), color=look.color, **ends)
