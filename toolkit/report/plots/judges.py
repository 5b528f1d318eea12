"""How far judges agree, each beside the others and on later days, and what their scores are worth elsewhere."""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.files.reading import read_toml
from toolkit.report import captions, style
from toolkit.report.escape import TERMS, readable
from toolkit.report.figure import About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats.agreement.coefficients import OVER_DIMENSIONS, OVER_JUDGES
from toolkit.stats.generalizability.g_study import E_RHO2, PHI
from toolkit.stats.result import Estimate
from toolkit.words import JUDGE_ROLES, agreeing, counted

Pair = tuple[str, str]

_ACROSS = 3
_JITTER = 0.06
_TURNS = 8
_NARROW = 22
"""Letters of a name of which three stand side by side in a legend."""
_FORMS = ("ICC(A,1)", "ICC(A,k)")
"""A judge's leniency is error, so the absolute-agreement forms come first (DESIGN, section 7)."""
_DATA = read_toml(files("toolkit.report") / "forms.toml")
_LOOKS = {
    name: (style.ModelStyle(look["color"], look["marker"], "-"), look["width"], look["label"])
    for name, look in _DATA["looks"].items()
}
_PANELS = {
    title: {form: _LOOKS[look] for form, look in forms.items()} for title, forms in _DATA["panels"].items()
}
_TOGETHER = "all dimensions"
_LOWEST = -1.0
_GUIDES = (0.5, 0.75, 0.9)


def judge_agreement(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw what each pair of judges gave the same answers, against the line of equal scores."""
    judgements, score = analyses.judge_means, analyses.score
    scored = ~judgements["failed"].astype(bool) & judgements[score].notna()
    valid = judgements[scored].drop_duplicates(["run_id", "judge"]).sort_values("run_id", kind="stable")
    order = {judge: rank for rank, judge in enumerate(JUDGE_ROLES)}
    judges = sorted(valid["judge"].unique(), key=lambda judge: (order.get(judge, len(order)), str(judge)))
    pairs = list(combinations(map(str, judges), 2))
    data = _pair_scores(valid.rename(columns={score: "score"}), pairs)
    if data.empty:
        raise NothingToDraw("no run was scored by two judges")
    reliability = analyses.reliability()
    by_judges = {frozenset(e.facets.values()): e for e in reliability.pearson.get(score, ())}
    pearson = {pair: by_judges.get(frozenset(pair)) for pair in pairs}  # None: not estimated
    forms = [form for form in reliability.icc.get(score, ()) if form.name in _FORMS]
    fixed = reliability.icc_these_judges.get(score, ())
    counts = data.groupby(["first", "second"]).size()
    dense = counts.max() > style.MANY
    panels = []
    for (first, second), e in pearson.items():
        size = counted(int(counts.get((first, second), 0)), "answers")
        panels.append(f"{context.judge(first)} and {context.judge(second)}: {size}, {_text('r', e)}")
    missing = len(judgements) - len(valid)
    scores = counted(len(judgements), "judgements")
    words = {
        "panels": "; ".join(panels),
        "density": dense,
        "marks": not dense,
        "points": not dense and _jitter(data),
        "fixed": "; ".join(_text(form.name, form) for form in fixed),
    }
    return context.worded(
        "judge_agreement", _draw_agreement(data, pearson, forms, context, dense=dense), data, words,
        notes=[
            "points",
            captions.sentence(*(f"{form.name}: {form.remarks}" for form in forms if form.estimable and form.remarks)),
            "fixed",
        ],
        n=captions.counts(analyses.runs[analyses.runs["run_id"].isin(data["run_id"])], context.repeats),
        estimates=[*forms, *filter(None, pearson.values())],
        missing=f"{missing} of {scores} {agreeing(missing, 'are')} missing, not zero" if missing else "",
    )  # fmt: skip


def _pair_scores(valid: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    scores = valid.assign(judge=valid["judge"].astype(str)).pivot(
        index=["run_id", "model"], columns="judge", values="score"
    )
    columns = ["first", "second", "run_id", "model", "first_score", "second_score"]
    frames = [pd.DataFrame(columns=columns)]
    for first, second in pairs:
        both = scores[[first, second]].dropna().set_axis(["first_score", "second_score"], axis=1)
        frames.append(both.reset_index().assign(first=first, second=second))
    return pd.concat([frame for frame in frames if len(frame)] or frames, ignore_index=True)[columns]


def _jitter(data: pd.DataFrame) -> float:
    """Return by how much points are shifted: more where scores are whole steps, of which hundreds are one point."""
    scores = np.unique(data[["first_score", "second_score"]].to_numpy(dtype=float).round(6))
    return max(_JITTER, round(0.2 * float(np.diff(scores).min()), 2) if len(scores) > 1 else 0.0)


def _draw_agreement(
    data: pd.DataFrame,
    pearson: Mapping[Pair, Estimate | None],
    forms: Sequence[Estimate],
    context: About,
    *,
    dense: bool,
) -> Figure:
    styles = {} if dense else context.styles(data["model"])
    across = min(_ACROSS, len(pearson))
    columns = across if max(map(len, styles), default=0) <= _NARROW else min(across, 2)
    lines = len(forms) if across == 1 else bool(forms)
    tall = style.PAGE_MM / _ACROSS + 10
    head = 5 * lines + 4 + 5 * (-(-len(styles) // columns))
    figure, panels, _ = style.grid(len(pearson), across=_ACROSS, head=head, tall=tall, lone=85.0)
    rng, reach = np.random.default_rng(0), _jitter(data)
    for axes, (pair, correlation) in zip(panels, pearson.items(), strict=True):
        rows = data[(data["first"] == pair[0]) & (data["second"] == pair[1])]
        axes.plot(context.scale, context.scale, color=style.GREY, linestyle="--", linewidth=0.8, zorder=1)
        scores = rows[["first_score", "second_score"]].astype(float)
        moved = (scores + rng.uniform(-reach, reach, size=scores.shape)).clip(*context.scale)
        # In turns, so that the model drawn last does not hide the others.
        for turn, (name, look) in product(range(_TURNS), styles.items()):
            marks = moved[rows["model"] == name][turn::_TURNS]
            style.scatter(axes, marks["first_score"], marks["second_score"], look, 3.2, 0.6)
        if dense:
            style.density(axes, rows["first_score"], rows["second_score"], (*context.scale, *context.scale))
        for judge, which in zip(pair, "xy", strict=True):
            style.score_axis(axes, context.scale, style.shorten(context.judge(judge), 20), which=which)
        axes.set_aspect("equal")
        axes.set_title(f"{_text('r', correlation)}\nn = {counted(len(rows), 'answers')}")
    if forms:
        text = ("\n" if across == 1 else "; ").join(_text(form.name, form) for form in forms)
        figure.suptitle(f"All judges: {text}" if across > 1 else text)
    style.legend(figure, style.model_handles(styles), columns=columns, where="lower")
    return style.settle(figure)


def _text(name: str, estimate: Estimate | None) -> str:
    if estimate is None or estimate.estimate is None:
        return f"{name} not estima{'ted' if estimate is None else 'ble'}"
    return f"{name} = {style.interval(estimate)}"


def icc_forest(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw six intraclass correlations and alpha of each dimension and the composite, and alpha over dimensions."""
    reliability = analyses.reliability()
    order = [form for forms in _PANELS.values() for form in forms]
    estimates = [form for forms in reliability.icc.values() for form in forms]
    if not any(form.estimable for form in estimates):
        reasons = (form.reason for form in estimates if form.reason)
        raise NothingToDraw(next(reasons, "no run was scored by two judges"))
    rows = [
        (key, form)
        for key, forms in reliability.icc.items()
        for form in sorted((*forms, reliability.alpha_over_judges[key]), key=lambda e: order.index(e.name))
    ]
    if (over := reliability.alpha_over_dimensions) is not None:
        rows.append((_TOGETHER, over))
    more = ("answers", "judges", "remarks")
    data = style.data_of(rows, ("dimension", "name"), more, every=True)
    data = data.rename(columns={"name": "form", "remarks": "note"})
    lowest = float(data[["estimate", "low"]].min().min())
    low = max(_LOWEST, min(0.0, math.floor(lowest * 4) / 4))
    leading = data[data["form"].isin((*_FORMS, OVER_JUDGES, OVER_DIMENSIONS))]
    text = captions.text_of("icc_forest")
    words = {"forms": style.values_of(leading, text["form"]), "cut": lowest < low}
    return context.worded(
        "icc_forest", _draw_icc(data, low), data, words, notes=["cut"],
        estimates=[form for _, form in rows], also=[f"rated by every judge: {captions.ranges_words(estimates)}"],
    )  # fmt: skip


def _draw_icc(data: pd.DataFrame, low: float) -> Figure:
    keys = list(dict.fromkeys(data["dimension"]))
    figure = style.new_figure(style.PAGE_MM, 9.0 * len(keys) + 26)
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for axes, (title, looks) in zip(panels, _PANELS.items(), strict=True):
        axes.axvline(0, color=style.GREY, linewidth=0.6, zorder=0)
        is_alpha = OVER_JUDGES in looks
        for guide in () if is_alpha else _GUIDES:
            axes.axvline(guide, color=style.GREY, linewidth=0.7, linestyle=":", zorder=0)
            style.threshold(axes, guide, f"{guide:g}".lstrip("0"))
        for up, key in enumerate(keys):
            rows = data[(data["dimension"] == key) & data["form"].isin(looks)]
            estimated = rows[rows["estimate"].notna()]
            present = {row.form: row for row in style.rows_of(estimated)}
            for form, row, shift in style.side_by_side(present, 0.24):
                _icc_mark(axes, row, up + shift, low, *looks[form][:2])
            for row in style.rows_of(rows.head(1)):
                is_estimated = pd.notna(row.estimate)
                look = {} if is_estimated else {"color": style.GREY}
                text = style.interval(row).replace(" [", "\n[")
                style.beside(axes, up - 0.24 * (not is_estimated), text, 1.03, **look)
        axes.set_xlim(low - 0.03, 1.03)
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, pad=13)
        axes.set_xlabel("Alpha" if is_alpha else "Intraclass correlation")
    style.row_axis(panels[0], [readable(key) for key in keys], (len(keys) - 0.45, -0.55))
    handles = [
        style.handle(label, color=look.color, marker=look.marker, linewidth=width, markersize=4)
        for look, width, label in _LOOKS.values()
    ]
    style.legend(figure, handles, columns=3, columnspacing=1.2)
    return style.settle(figure)


def _icc_mark(axes: Axes, row: Any, up: float, low: float, look: style.ModelStyle, width: float) -> None:
    """Draw one form; what lies beyond the axis ends in an arrow."""
    mark = pd.DataFrame([row])
    mark["low"] = mark["low"].clip(lower=low)
    mark["estimate"] = mark["estimate"].where(mark["estimate"] >= low)
    style.forest(axes, mark, [up], look, width=width, size=4.2)
    if row.low < low:
        style.arrow(axes, low, up, style.decimals(row.low), look.color, fontsize="small")


def judges(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw leniency, agreement and slope on the length of the reply of each judge, a panel for each."""
    result, text = analyses.compare_judges(), captions.text_of("judges")
    groups = [result.select(part) for part in ("leniency", "correlation", "slope")]
    estimates = [e for group in groups if any(e.estimable for e in group) for e in group]
    named = ((e.statistic, context.judge(e.facets["judge"]), e) for e in estimates)
    nothing = "no answer was scored by two judges"
    data = style.data_of(named, ("part", "judge"), ("answers",), every=True, nothing=nothing)
    names = style.shortened(data["judge"].unique(), 40)
    figure, panels = style.panels_of(data.assign(label=data["judge"].map(names)), "part", 6.0, 20)
    for part, rows, axes in panels:
        zero, digits = None if part == "correlation" else 0.0, 3 if part == "slope" else 2
        style.forest_panel(axes, rows, text[f"{part}_axis"], at=zero, digits=digits)
        ends = rows[["estimate", "low", "high"]]
        reach = 1.08 * float(ends.abs().max().max()) or 1.0
        # A correlation is seen between none and perfect, a difference on both sides of none.
        axes.set_xlim(*((min(-0.02, ends.min().min()), 1.02) if zero is None else (-reach, reach)))
        axes.set_title(text[part], loc="left", fontweight="bold")
    has_slope = (data["part"] == "slope").any()
    return context.worded(
        "judges", style.settle(figure), data, dict.fromkeys(("longer", "slope_note"), has_slope), ["slope_note"],
        estimates=estimates, counts=captions.estimates_n_words(estimates),
    )  # fmt: skip


_FARTHEST = 10.0
_TIMES = 3.0
"""A panel ends at this many times the count of the study, or at `_FARTHEST` where that is more."""
_WIDEST = 2.0  # the axis ends where it is this many times as long as all components together
_OBJECTS = {"answer": "an answer", "model": "a model"}
_LINES: dict[str, tuple[str, style.Line, str, str]] = {
    PHI: (style.INK, "-", "o", "Φ: of the score as it stands"),
    E_RHO2: (style.GREY, "--", "s", "Eρ²: of comparisons"),
}


def variance_components(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the variance component of every effect of the study's design with its interval and its share."""
    study = analyses.generalizability()
    components = study.result.components
    if components.problem:
        raise NothingToDraw(components.problem)
    frame = study.figure_frame()
    columns = ["name", "estimate", "low", "high", "raw", "share"]
    data = frame.loc[frame["part"] == "component", columns].reset_index(drop=True)
    drawn = data.assign(name=data["name"].str.replace(" x ", " × ").str.replace(":", " in "))
    figure, cut = _draw_components(drawn)
    factors, present = TERMS["factors"], components.table.design.factors
    words = {
        "value": style.values_of(drawn, captions.text_of("variance_components")["effect"]),
        "score": readable(study.score),
        "method": components.method,
        "factors": "; ".join(factors[name] for name in sorted(factors.keys() & present)),
        "cut": "; ".join(cut),
        "negative": ", ".join(drawn.loc[drawn["raw"] < 0, "name"]),
    }
    return context.worded(
        "variance_components", figure, data, words,
        notes=["factors", "cut", "negative", captions.notes_words(components.cautions)],
        estimates=components.components,
    )  # fmt: skip


def _draw_components(data: pd.DataFrame) -> tuple[Figure, list[str]]:
    figure = style.new_figure(style.PAGE_MM, 6.5 * len(data) + 16)
    axes, bottom_up = figure.subplots(), data.iloc[::-1]
    total = float(data["estimate"].sum())
    highest = float(data[["estimate", "high"]].max().max())
    end = 1.04 * min(highest, _WIDEST * total) if total > 0 else 1.0
    cut: list[str] = []
    style.bars(axes, bottom_up["estimate"], 0.55)
    for up, row in enumerate(style.rows_of(bottom_up)):
        if pd.notna(row.low) and pd.notna(row.high):
            axes.plot([row.low, min(row.high, end)], [up, up], color=style.INK, linewidth=1.2, zorder=2)
            if row.high > end:
                style.arrow(axes, end, up, f"to {row.high:.3g}", style.INK)
                cut.insert(0, f"{row.name} to {row.high:.3g}")
        style.beside(axes, up, f"{row.share:.0%}" if pd.notna(row.share) else "not estimable")
    style.row_axis(axes, list(bottom_up["name"]))
    axes.set_xlim(0, end)
    axes.set_xlabel("Variance component (squared score points)")
    return style.settle(figure), cut


def decision_study(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw both coefficients against the number of judges, repeats and bases, a panel for each object and facet."""
    # How far a mean of a model holds cannot be read from two of them: the interval is the whole scale.
    objects = ("answer", "model") if analyses.runs["model"].nunique() > 2 else ("answer",)
    studies = {_OBJECTS[name]: analyses.generalizability(of=name) for name in objects}
    plotted = {owner: study for owner, study in studies.items() if len(study.decision.curves)}
    if not plotted:
        reasons = (study.result.phi.reason for study in studies.values() if study.result.phi.reason)
        raise NothingToDraw(next(reasons, "no judged runs"))
    frame = pd.concat([study.figure_frame().assign(of=owner) for owner, study in plotted.items()])
    lines = frame[frame["part"] == "curve"].rename(columns={"name": "coefficient"})
    columns = ["of", "coefficient", "facet", "count", "estimate", "low", "high", "aud", "present"]
    data = lines.reset_index(drop=True)[columns]
    targets = sorted({plan.target for study in plotted.values() for plan in study.decision.plans})
    plans = (f"Mean score of {owner}: {plotted[owner].decision.plans[0].sentence()}" for owner in plotted)
    marks = data[data["present"].astype(bool)]
    sizes = [counted(row.count, f"{row.facet}s") for row in style.rows_of(marks)]
    value = captions.text_of("decision_study")["mark"]
    words = {
        "marks": style.values_of(marks.assign(size=sizes), value),
        "score": readable(next(iter(plotted.values())).score),
        "target": targets[0] if len(targets) == 1 else None,
    }
    return context.worded(
        "decision_study", _draw_curves(data, targets), data, words,
        notes=[
            *plans, "Intervals of other designs are in the data.",
            captions.not_estimable_words(s.result.phi for owner, s in studies.items() if owner not in plotted),
        ],
        estimates=[e for study in plotted.values() for e in (study.result.phi, study.result.e_rho2)],
    )  # fmt: skip


def _draw_curves(data: pd.DataFrame, targets: Sequence[float]) -> Figure:
    panels = list(dict.fromkeys(zip(data["of"], data["facet"], strict=True)))
    most = 3 if len(panels) != 4 else 2  # no row of one panel
    figure, grid, across = style.grid(len(panels), across=most, head=16, tall=54, sharey=True)
    for number, (axes, (owner, facet)) in enumerate(zip(grid, panels, strict=True)):
        rows = data[(data["of"] == owner) & (data["facet"] == facet)]
        # A count of 500 would press those that a study can afford into the edge.
        present = float(rows.loc[rows["present"], "count"].max())
        _draw_curve(axes, rows[rows["count"] <= max(_FARTHEST, _TIMES * present)])
        for target in targets:
            axes.axhline(target, color=style.INK, linestyle=":", linewidth=0.8, zorder=5)
        axes.set_title(f"Mean score of {owner}")
        axes.set_xlabel(f"Number of {facet}s")
        if number % across == 0:
            axes.set_ylabel("Coefficient")
    handles = [
        style.handle(label, color=color, linestyle=line, marker=marker, markersize=4)
        for color, line, marker, label in _LINES.values()
    ]
    handles += [
        style.handle(f"target {at:.2f}", color=style.INK, linestyle=":", linewidth=0.8) for at in targets
    ]
    style.legend(figure, handles, columns=1 if across == 1 else 3)
    return style.settle(figure)


def _draw_curve(axes: Axes, data: pd.DataFrame) -> None:
    for (name, (color, line, marker, _)), width in zip(reversed(_LINES.items()), (4.0, 1.3), strict=True):
        curve = data[data["coefficient"] == name].sort_values("count").astype({"count": float})
        axes.plot(curve["count"], curve["estimate"], color=color, linestyle=line, linewidth=1.3, zorder=3)
        look: dict[str, Any] = {"color": color, "zorder": 4, "clip_on": False}
        for row in style.rows_of(curve[curve["present"]]):
            # The lower one is broader, so that both are seen; those of other designs are in the data.
            axes.plot([row.count] * 2, [row.low, row.high], linewidth=width, solid_capstyle="butt", **look)
            axes.plot([row.count], [row.estimate], marker=marker, markersize=5.5, **look)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
