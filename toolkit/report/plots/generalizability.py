"""Generalizability: variance components of a single score, and what a mean would be worth in other designs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import TERMS, readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.generalizability.g_study import E_RHO2, PHI

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
    return context.figure(
        "variance_components", figure, data, text["alt"].format(values=values),
        text["seen"].format(score=readable(study.score)),
        [text["note"]],
        [
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
    plans = [
        f"Mean score of {_OBJECTS[name]}: {study.decision.plans[0].sentence()}"
        for name, study in plotted.items()
        if study.decision.plans
    ]
    estimates = [e for study in plotted.values() for e in (study.result.phi, study.result.e_rho2)]
    score = readable(next(iter(plotted.values())).score)
    marks = data.loc[data["present"], ["coefficient", "of", "facet", "count", "estimate"]]
    values = "; ".join(
        f"{coefficient} of {owner} with {count} {facet}{'s' if count != 1 else ''} {value:.2f}"
        for coefficient, owner, facet, count, value in marks.itertuples(index=False)
    )
    target = text["target"].format(target=targets[0]) if len(targets) == 1 else ""
    return context.figure(
        "decision_study", _draw_curves(data, targets), data, text["alt"].format(values=values),
        text["seen"].format(score=score, target=target),
        [text["note"]],
        [
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
        _panel(axes, data[(data["of"] == owner) & (data["facet"] == facet)])
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


def _panel(axes: Axes, data: pd.DataFrame) -> None:
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
