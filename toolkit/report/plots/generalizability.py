"""Generalizability: variance components of a single score, and what a mean would be worth in other designs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.generalizability.g_study import E_RHO2, PHI
from toolkit.stats.generalizability.study_scores import StudyGeneralizability

_WIDEST: Final = 2.0  # the axis ends where it is this many times as long as all components together
_COMPONENTS: Final = ("name", "estimate", "low", "high", "raw", "share")
_FACTORS: Final = {
    "base": "base: how much the situations differ",
    "answer": "answer: how much the replies to one situation differ",
    "judge": "judge: how much milder one judge is than another",
    "model": "model: how much the models differ",
    "repeat": "repeat: how much the same is scored differently when it is asked again",
}
_CURVES: Final = ("of", "coefficient", "facet", "count", "estimate", "low", "high", "aud", "present")
_LINES: Final[dict[str, tuple[str, Literal["-", "--"], str, str]]] = {
    PHI: (style.INK, "-", "o", "Φ: of the score as it stands"),
    E_RHO2: (style.GREY, "--", "s", "Eρ²: of comparisons"),
}


def variance_components(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the variance component of every effect of the study's design with its interval and its share."""
    found = of.generalizability()
    components = found.result.components
    if components.problem:
        raise NothingToDraw(components.problem)
    frame = found.figure_frame()
    data = frame.loc[frame["part"] == "component", list(_COMPONENTS)].reset_index(drop=True)
    figure, cut = _draw_components(data)
    names = sorted({factor for name in data["name"] for factor in str(name).replace(":", " x ").split(" x ")})
    below = [_effect(str(name)) for name in data.loc[data["raw"] < 0, "name"]]
    caption = captions.join(
        f"Variance components of a single {readable(found.score)} score "
        f"({captions.n_words(about.n)}; {components.method}).",
        f"Factors: {'; '.join(_FACTORS[name] for name in names if name in _FACTORS)}.",
        "Read a in b as a within b, and a × b as what only the combination brings; the last one is confounded with "
        "the error. Printed: share of the sum of the components.",
        captions.interval_words(components.components),
        captions.UNCORRECTED if any(one.low is not None for one in components.components) else "",
        f"Beyond the axis (arrow): {'; '.join(cut)}." if cut else "",
        f"Negative before it was set to 0: {', '.join(below)}." if below else "",
        " ".join(f"{note[:1].upper()}{note[1:]}." for note in components.cautions),
        captions.not_estimable_words(one for one in components.components if not one.estimable),
        about.end,
    )
    said = "; ".join(
        f"{_effect(row.name)} {row.estimate:.3f} ({row.share:.0%})" for row in style.rows_of(data)
    )
    alt_text = f"Horizontal bars of the variance components in squared score points, with intervals: {said}."
    return FigureWithCaption("variance_components", figure, caption, alt_text, data, about.n)


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
    style.row_axis(axes, [_effect(str(name)) for name in data["name"]][::-1])
    axes.set_xlim(0, end)
    axes.set_xlabel("Variance component (squared score points)")
    return style.settle(figure), cut


def decision_study(of: Analyses, about: About) -> FigureWithCaption:
    """Draw both coefficients against the number of judges, repeats and bases, a panel for each object and facet."""
    # How far a mean of a model holds cannot be read from two of them: the interval is the whole scale.
    objects = ("answer", "model") if of.runs["model"].nunique() > 2 else ("answer",)
    found = [of.generalizability(of=one) for one in objects]
    drawn = [one for one in found if len(one.decision.curves)]
    if not drawn:
        whys = [one.result.phi.remarks for one in found if one.result.phi.remarks]
        raise NothingToDraw(whys[0].removeprefix("not estimable: ") if whys else "no judged runs")
    data = pd.concat([_curves(one) for one in drawn], ignore_index=True)
    targets = sorted({plan.target for one in drawn for plan in one.decision.plans})
    planned = [one for one in drawn if one.decision.plans]
    plans = [f"Mean score of {_object(one)}: {one.decision.plans[0].sentence()}" for one in planned]
    caption = captions.join(
        f"Decision study ({captions.n_words(about.n)}): what a mean {readable(drawn[0].score)} score would be "
        "worth with other numbers of judges, repeats or bases, the other facets as in the study.",
        "Φ: dependability of the score as it stands; Eρ²: of comparisons between objects that the same judges "
        "scored. Marks: the study itself; band and thin dashed lines: intervals of Φ and of Eρ²"
        + (f"; dotted line: the target {targets[0]:.2f}." if len(targets) == 1 else "."),
        captions.interval_words(one for each in drawn for one in (each.result.phi, each.result.e_rho2)),
        "Nothing is corrected for the number of designs.",
        *plans,
        captions.not_estimable_words(one.result.phi for one in found if one not in drawn),
        about.end,
    )
    here = data.loc[data["present"], ["coefficient", "of", "facet", "count", "estimate"]]
    said = "; ".join(
        f"{coefficient} of {whose} with {count} {facet}{'s' if count != 1 else ''} {value:.2f}"
        for coefficient, whose, facet, count, value in here.itertuples(index=False)
    )
    alt_text = f"Curves of generalizability coefficients from 0 to 1 against the size of the design: {said}."
    return FigureWithCaption("decision_study", _draw_curves(data, targets), caption, alt_text, data, about.n)


def _object(found: StudyGeneralizability) -> str:
    of = found.result.components.asked.name(frozenset(found.result.of)).split(":")[0]
    return f"{'an' if of[0] in 'aeiou' else 'a'} {of}"


def _curves(found: StudyGeneralizability) -> pd.DataFrame:
    frame = found.figure_frame()
    lines = frame[frame["part"] == "curve"].rename(columns={"name": "coefficient"})
    return lines.assign(of=_object(found)).reindex(columns=list(_CURVES))


def _draw_curves(data: pd.DataFrame, targets: Sequence[float]) -> Figure:
    panels = list(dict.fromkeys(zip(data["of"], data["facet"], strict=True)))
    most = 3 if len(panels) != 4 else 2  # no row of one panel
    figure, places, across = style.grid(len(panels), across=most, head=16, tall=54, sharey=True)
    for place, (axes, (of, facet)) in enumerate(zip(places, panels, strict=True)):
        _panel(axes, data[(data["of"] == of) & (data["facet"] == facet)])
        for target in targets:
            axes.axhline(target, color=style.INK, linestyle=":", linewidth=0.8, zorder=5)
            style.threshold(axes, target, f"target {target:.2f}", which="y")
        axes.set_title(f"Mean score of {of}")
        axes.set_xlabel(f"Number of {facet}s")
        if place % across == 0:
            axes.set_ylabel("Coefficient")
    handles = [
        Line2D([], [], color=color, linestyle=line, marker=marker, markersize=4, label=label)
        for color, line, marker, label in _LINES.values()
    ]
    style.legend(figure, handles, columns=1 if across == 1 else 2)
    return style.settle(figure)


def _panel(axes: Axes, data: pd.DataFrame) -> None:
    for name, (color, line, marker, _) in reversed(_LINES.items()):
        own = data[data["coefficient"] == name].sort_values("count").astype({"count": float})
        if name == PHI:
            band: dict[str, Any] = {"color": color, "alpha": 0.14, "linewidth": 0, "zorder": 1}
            axes.fill_between(own["count"], own["low"], own["high"], **band)
        else:  # a second band would hide the first
            for end in ("low", "high"):
                axes.plot(own["count"], own[end], color=color, linestyle=line, linewidth=0.6, zorder=2)
        axes.plot(own["count"], own["estimate"], color=color, linestyle=line, linewidth=1.3, zorder=3)
        here = own[own["present"]]
        mark: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": 5.5, "clip_on": False}
        axes.plot(here["count"], here["estimate"], color=color, zorder=4, **mark)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
