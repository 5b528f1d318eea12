"""How far judges agree, each beside the others and on later days, and what their scores are worth elsewhere."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import TERMS, readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.agreement.coefficients import OVER_DIMENSIONS, OVER_JUDGES
from toolkit.stats.generalizability.g_study import E_RHO2, PHI
from toolkit.stats.result import Estimate
from toolkit.words import JUDGE_ROLES, agreeing, counted, scale_words

Pair = tuple[str, str]

_ACROSS = 3
_JITTER = 0.06
_TURNS = 8
_NARROW = 22
"""Letters of a name of which three stand side by side in a legend."""
_FORMS = ("ICC(A,1)", "ICC(A,k)")
"""A judge's leniency is error, so the absolute-agreement forms come first (DESIGN, section 7)."""
# Not the colours of models: ink leads, because a judge's leniency is error (DESIGN, section 7).
_ABSOLUTE = (style.PLAIN, 1.6, "(A): absolute agreement")
_UNTOLD = (style.ModelStyle(style.GREY, "s", "-"), 0.9, "(1): judges not told apart")
_CONSISTENCY = (style.ModelStyle(style.GREY, "^", "-"), 0.9, "(C): consistency, leniency left out")
_OVER_JUDGES = (style.ModelStyle(style.INK, "D", "-"), 1.6, OVER_JUDGES)
_OVER_DIMENSIONS = (style.ModelStyle(style.INK, "v", "-"), 1.6, OVER_DIMENSIONS)
_PANELS = {
    "One judge": {"ICC(A,1)": _ABSOLUTE, "ICC(1,1)": _UNTOLD, "ICC(C,1)": _CONSISTENCY},
    "Mean of the judges": {"ICC(A,k)": _ABSOLUTE, "ICC(1,k)": _UNTOLD, "ICC(C,k)": _CONSISTENCY},
    "Cronbach's alpha": {OVER_JUDGES: _OVER_JUDGES, OVER_DIMENSIONS: _OVER_DIMENSIONS},
}
_TOGETHER = "all dimensions"
_LOWEST = -1.0
_GUIDES = (0.5, 0.75, 0.9)
_JUDGES = ("part", "judge", "estimate", "low", "high", "answers")
_ICC = ("dimension", "name", "estimate", "low", "high", "answers", "judges", "remarks")
_DRIFT = ("anchor", "day", "judge", "estimate", "low", "high")


def judge_agreement(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw what each pair of judges gave the same answers, against the line of equal scores."""
    judgements, score = analyses.judge_means, analyses.score
    scored = ~judgements["failed"].astype(bool) & judgements[score].notna()
    valid = judgements[scored].drop_duplicates(["run_id", "judge"]).sort_values("run_id", kind="stable")
    order = {judge: rank for rank, judge in enumerate(JUDGE_ROLES)}
    judges = sorted(valid["judge"].unique(), key=lambda judge: (order.get(judge, len(order)), str(judge)))
    pairs = list(combinations(judges, 2))
    data = _pair_scores(valid.rename(columns={score: "score"}), pairs)
    if data.empty:
        raise NothingToDraw("no run was scored by two judges")
    reliability, text = analyses.reliability(), captions.TEXTS["judge_agreement"]
    by_judges = {frozenset(e.facets.values()): e for e in reliability.pearson.get(score, ())}
    pearson = {pair: by_judges.get(frozenset(map(str, pair))) for pair in pairs}  # None: not estimated
    forms = [form for form in reliability.icc.get(score, ()) if form.name in _FORMS]
    fixed = "; ".join(_text(form.name, form) for form in reliability.icc_these_judges.get(score, ()))
    correlations = [correlation for correlation in pearson.values() if correlation is not None]
    units = valid.loc[valid["run_id"].isin(data["run_id"]), ["base", "run_id", "model", "repeat"]].nunique()
    n = {"bases": int(units["base"]), "answers": int(units["run_id"]), "models": int(units["model"])}
    repeats = int(units["repeat"]) if context.repeats is None else context.repeats
    n |= {"judges": len(judges), "repeats": repeats}
    missing = len(judgements) - len(valid)
    counts = data.groupby(["first", "second"]).size()
    panels = "; ".join(
        f"{context.judge(first)} and {context.judge(second)}: {counted(int(counts.get((first, second), 0)), 'answers')}"
        + (f", r = {style.decimals(e.estimate)}" if e is not None and e.estimate is not None else "")
        for (first, second), e in pearson.items()
    )
    scores = counted(len(judgements), "judgements")
    lost = f"{missing} of {scores} {agreeing(missing, 'are')} missing, not zero" if missing else ""
    figure, estimates = _draw_agreement(data, pearson, forms, context), (*forms, *correlations)
    words = {"scale": scale_words(context.scale), "panels": panels}
    words["marks"] = text["density" if _dense(data) else "marks"]
    return context.worded(
        "judge_agreement", figure, data, words,
        notes=[
            not _dense(data) and text["points"].format(jitter=_jitter(data)),
            captions.sentence(*(f"{form.name}: {form.remarks}" for form in forms if form.estimable and form.remarks)),
            fixed and text["fixed"].format(forms=fixed),
        ],
        n=n, estimates=estimates, missing=lost,
    )  # fmt: skip


def _pair_scores(valid: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    columns = ["first", "second", "run_id", "model", "first_score", "second_score"]
    scores = valid[["run_id", "model", "judge", "score"]].astype({"judge": str})
    both = scores.merge(scores.drop(columns="model"), on="run_id")
    both.columns = pd.Index(["run_id", "model", "first", "first_score", "second", "second_score"])
    frames = [both[(both["first"] == first) & (both["second"] == second)][columns] for first, second in pairs]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _dense(data: pd.DataFrame) -> bool:
    return bool(data.groupby(["first", "second"]).size().max() > style.MANY)


def _jitter(data: pd.DataFrame) -> float:
    """Return by how much points are shifted: more where scores are whole steps, of which hundreds are one point."""
    scores = np.unique(data[["first_score", "second_score"]].to_numpy(dtype=float).round(6))
    return max(_JITTER, round(0.2 * float(np.diff(scores).min()), 2) if len(scores) > 1 else 0.0)


def _draw_agreement(
    data: pd.DataFrame, pearson: Mapping[Pair, Estimate | None], forms: Sequence[Estimate], context: About
) -> Figure:
    styles = {} if _dense(data) else context.styles(data["model"])
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
        moved = rows[["first_score", "second_score"]].astype(float)
        moved = (moved + rng.uniform(-reach, reach, size=(len(rows), 2))).clip(*context.scale)
        # In turns, so that the model drawn last does not hide the others.
        for turn, (name, look) in product(range(_TURNS), styles.items()):
            marks = moved[rows["model"] == name][turn::_TURNS]
            if marks.empty:
                continue
            axes.plot(
                marks["first_score"], marks["second_score"], linestyle="none", color=look.color,
                marker=look.marker, markersize=3.2, alpha=0.6, markeredgewidth=0, zorder=2, clip_on=False,
            )  # fmt: skip
        if not styles:
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
    reliability, text = analyses.reliability(), captions.TEXTS["icc_forest"]
    icc = reliability.icc
    order = [form for forms in _PANELS.values() for form in forms]
    alphas = reliability.alpha_over_judges
    by_key = {key: sorted((*f, alphas[key]), key=lambda e: order.index(e.name)) for key, f in icc.items()}
    rows = [(key, form) for key, forms in by_key.items() for form in forms]
    if (over := reliability.alpha_over_dimensions) is not None:
        rows.append((_TOGETHER, over))
    data = style.data_of(rows, _ICC, every=True).rename(columns={"name": "form", "remarks": "note"})
    estimated = data[data["estimate"].notna()]
    estimates = [form for forms in icc.values() for form in forms]
    if not any(form.estimable for form in estimates):
        reasons = (form.reason for form in estimates if form.reason)
        raise NothingToDraw(next(reasons, "no run was scored by two judges"))
    lowest = float(data[["estimate", "low"]].min().min())
    low = max(_LOWEST, min(0.0, math.floor(lowest * 4) / 4))
    values = style.values_of(
        estimated[estimated["form"].isin((*_FORMS, OVER_JUDGES, OVER_DIMENSIONS))],
        lambda row: f"{row.dimension}, {row.form} {style.decimals(row.estimate)}",
    )
    return context.worded(
        "icc_forest", _draw_icc(data, low), data, {"values": values}, notes=[lowest < low and text["cut"]],
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
            estimated = rows[rows["estimate"].notna()].set_index("form")
            for number, form in enumerate(estimated.index):
                look, width, _ = looks[form]
                _icc_mark(
                    axes,
                    estimated.loc[form],
                    up + (number - (len(estimated) - 1) / 2) * 0.24,
                    low,
                    look,
                    width,
                )
            if rows.empty:
                continue
            leading = rows.iloc[0]
            if pd.isna(leading["estimate"]):
                style.beside(axes, up - 0.24, "not estimable", 1.03, color=style.GREY)
                continue
            style.beside(axes, up, style.interval(leading).replace(" [", "\n["), 1.03)
        axes.set_xlim(low - 0.03, 1.03)
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, pad=13)
        axes.set_xlabel("Alpha" if is_alpha else "Intraclass correlation")
    style.row_axis(panels[0], [readable(key) for key in keys], (len(keys) - 0.45, -0.55))
    handles = [
        style.handle(label, color=look.color, marker=look.marker, linewidth=width, markersize=4)
        for look, width, label in (_ABSOLUTE, _UNTOLD, _CONSISTENCY, _OVER_JUDGES, _OVER_DIMENSIONS)
    ]
    style.legend(figure, handles, columns=3, columnspacing=1.2)
    return style.settle(figure)


def _icc_mark(
    axes: Axes, row: pd.Series, up: float, low: float, look: style.ModelStyle, width: float
) -> None:
    """Draw one form; what lies beyond the axis ends in an arrow."""
    mark = pd.DataFrame([row]).assign(low=row["low"] if pd.isna(row["low"]) else max(low, row["low"]))
    mark["estimate"] = mark["estimate"].where(mark["estimate"] >= low)
    style.forest(axes, mark, [up], look, width=width, size=4.2)
    if row["low"] < low:
        axes.plot([low], [up], color=look.color, marker="<", markersize=4, clip_on=False, zorder=3)
        axes.text(
            low,
            up - 0.06,
            style.decimals(row["low"]),
            color=look.color,
            ha="left",
            va="bottom",
            fontsize="small",
        )


def judges(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw leniency, agreement and slope on the length of the reply of each judge, a panel for each."""
    result, text = analyses.compare_judges(), captions.TEXTS["judges"]
    selected = {part: result.select(part) for part in ("leniency", "correlation", "slope")}
    parts = {part: group for part, group in selected.items() if any(e.estimable for e in group)}
    estimates = [estimate for part in parts.values() for estimate in part]
    named = ((e.statistic, context.judge(e.facets["judge"]), e) for e in estimates)
    data = style.data_of(named, _JUDGES, every=True)
    if data.empty:
        raise NothingToDraw("no answer was scored by two judges")
    figure, panels = style.panels_of(data, "part", 6.0, 20)
    for part, drawn, axes in panels:
        names = drawn["judge"].map(style.shortened(drawn["judge"], 40))
        zero, digits = None if part == "correlation" else 0.0, 3 if part == "slope" else 2
        style.forest_panel(axes, drawn, names, text[f"{part}_axis"], at=zero, digits=digits)
        ends = drawn[["estimate", "low", "high"]]
        reach = 1.08 * float(ends.abs().max().max()) or 1.0
        # A correlation is seen between none and perfect, a difference on both sides of none.
        axes.set_xlim(*((min(-0.02, ends.min().min()), 1.02) if zero is None else (-reach, reach)))
        axes.set_title(text[part], loc="left", fontweight="bold")
    values = style.values_of(
        data[data["estimate"].notna()], lambda row: f"{row.judge}, {row.part} {style.decimals(row.estimate)}"
    )
    words = {"values": values, "slope": text["longer"] if "slope" in parts else ""}
    return context.worded(
        "judges", style.settle(figure), data, words, ["slope" in parts and text["slope_note"]],
        estimates=estimates, counts=captions.estimates_n_words(estimates),
    )  # fmt: skip


def judge_drift(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean shift of each judge's composite on every day on which it was asked anew."""
    measured = analyses.judge_drift().items()
    parts = [(*key, drift) for key, day in measured for drift in day.composites.values()]
    data = style.data_of(((*key, drift.judge, drift.shift) for *key, drift in parts), _DRIFT)
    if data.empty:
        raise NothingToDraw("no judge was asked anew on a later day")
    data["changed"] = [drift.changed.estimate for *_, drift in parts if drift.shift.estimable]
    estimates, tolerance = [drift.shift for *_, drift in parts], analyses.drift_tolerance
    text = captions.TEXTS["judge_drift"]
    band = "" if tolerance is None else text["tolerance"].format(tolerance=f"{tolerance:g}")
    values = style.values_of(
        data,
        lambda row: (
            f"{row.judge} on {row.day}: {style.decimals(row.estimate, sign=True)}, "
            f"{row.changed:.0%} of scores changed"
        ),
    )
    return context.worded(
        "judge_drift", _draw_drift(data, tolerance, context), data, {"values": values, "tolerance": band},
        notes=[text["changed"].format(values=values)],
        estimates=estimates, counts=captions.estimates_n_words(estimates), missing="",
    )  # fmt: skip


def _draw_drift(data: pd.DataFrame, tolerance: float | None, context: About) -> Figure:
    figure = style.new_figure(style.COLUMN_MM, 70)
    axes = figure.subplots()
    styles = style.model_styles(data["judge"])
    days = {day: place for place, day in enumerate(sorted(data["day"].unique()))}
    step = 0.5 / max(len(styles), 1)
    if tolerance is not None:
        axes.axhspan(-tolerance, tolerance, color=style.GREY, alpha=0.2, linewidth=0)
    axes.axhline(0, color=style.GREY, linewidth=0.8, zorder=0)
    for number, (judge, look) in enumerate(styles.items()):
        rows = data[data["judge"] == judge].sort_values("day")
        across = rows["day"].map(days) + (number - (len(styles) - 1) / 2) * step
        axes.vlines(across, rows["low"], rows["high"], color=look.color, linewidth=1.2)
        axes.plot(across, rows["estimate"], color=look.color, marker=look.marker, markersize=5, linewidth=0.8)
    axes.set_xticks(list(days.values()), list(days))
    axes.set_xlim(-0.6, len(days) - 0.4)
    axes.set_ylabel("Now less then (score points)")
    style.legend(figure, style.model_handles(styles), columns=min(len(styles), 2))
    return style.settle(figure)


_FARTHEST = 10.0
_TIMES = 3.0
"""A panel ends at this many times the count of the study, or at `_FARTHEST` where that is more."""
_WIDEST = 2.0  # the axis ends where it is this many times as long as all components together
_COMPONENTS = ("name", "estimate", "low", "high", "raw", "share")
_OBJECTS = {"answer": "an answer", "model": "a model"}
_CURVES = ("of", "coefficient", "facet", "count", "estimate", "low", "high", "aud", "present")
_LINES: dict[str, tuple[str, style.Line, str, str]] = {
    PHI: (style.INK, "-", "o", "Φ: of the score as it stands"),
    E_RHO2: (style.GREY, "--", "s", "Eρ²: of comparisons"),
}


def variance_components(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the variance component of every effect of the study's design with its interval and its share."""
    study, text = analyses.generalizability(), captions.TEXTS["variance_components"]
    components = study.result.components
    if components.problem:
        raise NothingToDraw(components.problem)
    frame = study.figure_frame()
    data = frame.loc[frame["part"] == "component", list(_COMPONENTS)].reset_index(drop=True)
    figure, cut = _draw_components(data)
    negative = list(data.loc[data["raw"] < 0, "name"].map(_effect))
    estimates, factors = components.components, TERMS["factors"]
    names = sorted(factors.keys() & components.table.design.factors)
    values = style.values_of(data, lambda row: f"{_effect(row.name)} {row.estimate:.3f} ({row.share:.0%})")
    return context.worded(
        "variance_components", figure, data, {"values": values, "score": readable(study.score)},
        notes=[
            text["factors"].format(method=components.method, factors="; ".join(factors[name] for name in names)),
            cut and text["cut"].format(names="; ".join(cut)),
            negative and text["negative"].format(names=", ".join(negative)),
            captions.notes_words(components.cautions),
        ],
        estimates=estimates,
    )  # fmt: skip


def _effect(name: str) -> str:
    return name.replace(" x ", " × ").replace(":", " in ")


def _draw_components(data: pd.DataFrame) -> tuple[Figure, list[str]]:
    figure = style.new_figure(style.PAGE_MM, 6.5 * len(data) + 16)
    axes = figure.subplots()
    total = float(data["estimate"].sum())
    highest = float(data[["estimate", "high"]].max().max())
    end = 1.04 * min(highest, _WIDEST * total) if total > 0 else 1.0
    cut: list[str] = []
    for up, row in enumerate(style.rows_of(data.iloc[::-1])):
        axes.barh(
            up, row.estimate, height=0.55, color=style.GREY, edgecolor=style.INK, linewidth=0.6, zorder=1
        )
        if pd.notna(row.low) and pd.notna(row.high):
            axes.plot([row.low, min(row.high, end)], [up, up], color=style.INK, linewidth=1.2, zorder=2)
            if row.high > end:
                axes.plot([end], [up], color=style.INK, marker=">", markersize=4, clip_on=False, zorder=3)
                axes.text(0.99 * end, up + 0.1, f"to {row.high:.3g}", ha="right", va="bottom")
                cut.insert(0, f"{_effect(row.name)} to {row.high:.3g}")
        style.beside(axes, up, f"{row.share:.0%}" if pd.notna(row.share) else "not estimable")
    style.row_axis(axes, list(data["name"].map(_effect))[::-1])
    axes.set_xlim(0, end)
    axes.set_xlabel("Variance component (squared score points)")
    return style.settle(figure), cut


def decision_study(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw both coefficients against the number of judges, repeats and bases, a panel for each object and facet."""
    # How far a mean of a model holds cannot be read from two of them: the interval is the whole scale.
    objects = ("answer", "model") if analyses.runs["model"].nunique() > 2 else ("answer",)
    text = captions.TEXTS["decision_study"]
    studies = {name: analyses.generalizability(of=name) for name in objects}
    plotted = {name: study for name, study in studies.items() if len(study.decision.curves)}
    if not plotted:
        reasons = (study.result.phi.reason for study in studies.values() if study.result.phi.reason)
        raise NothingToDraw(next(reasons, "no judged runs"))
    frames = [study.figure_frame().assign(of=_OBJECTS[name]) for name, study in plotted.items()]
    lines = pd.concat([frame[frame["part"] == "curve"] for frame in frames], ignore_index=True)
    data = lines.rename(columns={"name": "coefficient"}).reindex(columns=list(_CURVES))
    targets = sorted({plan.target for study in plotted.values() for plan in study.decision.plans})
    planned = [(_OBJECTS[name], study.decision.plans[0]) for name, study in plotted.items()]
    plans = [f"Mean score of {owner}: {plan.sentence()}" for owner, plan in planned]
    estimates = [e for study in plotted.values() for e in (study.result.phi, study.result.e_rho2)]
    score = readable(next(iter(plotted.values())).score)
    marks = data.loc[data["present"], ["coefficient", "of", "facet", "count", "estimate"]]
    values = "; ".join(
        f"{coefficient} of {owner} with {count} {facet}{'s' if count != 1 else ''} {value:.2f}"
        for coefficient, owner, facet, count, value in marks.itertuples(index=False)
    )
    target = text["target"].format(target=targets[0]) if len(targets) == 1 else ""
    words = {"values": values, "score": score, "target": target}
    return context.worded(
        "decision_study", _draw_curves(data, targets), data, words,
        notes=[
            *plans, "Intervals of other designs are in the data.",
            captions.not_estimable_words(s.result.phi for name, s in studies.items() if name not in plotted),
        ],
        estimates=estimates,
    )  # fmt: skip


def _draw_curves(data: pd.DataFrame, targets: Sequence[float]) -> Figure:
    panels = list(dict.fromkeys(zip(data["of"], data["facet"], strict=True)))
    most = 3 if len(panels) != 4 else 2  # no row of one panel
    figure, grid, across = style.grid(len(panels), across=most, head=16, tall=54, sharey=True)
    for number, (axes, (owner, facet)) in enumerate(zip(grid, panels, strict=True)):
        _curves_panel(axes, data[(data["of"] == owner) & (data["facet"] == facet)])
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


def _curves_panel(axes: Axes, data: pd.DataFrame) -> None:
    # A count of 500 would press those that a study can afford into the edge.
    data = data[data["count"] <= max(_FARTHEST, _TIMES * float(data.loc[data["present"], "count"].max()))]
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
