"""Decision study: how dependable a mean score would be with more judges, repeats or bases than the study had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import COLUMN_MM, GREY, INK, PAGE_MM, new_figure, settle, thesis_style
from toolkit.stats.generalizability.g_study import E_RHO2, PHI
from toolkit.stats.generalizability.study_scores import StudyGeneralizability

NAME: Final = "decision_study"
TITLE: Final = "Decision study"
_ACROSS: Final = 3
_COLUMNS: Final = ("of", "coefficient", "facet", "count", "estimate", "low", "high", "aud", "present")
_LINES: Final[dict[str, tuple[str, Literal["-", "--"], str, str]]] = {
    PHI: (INK, "-", "o", "Φ: of the score as it stands"),
    E_RHO2: (GREY, "--", "s", "Eρ²: of comparisons"),
}


def decision_study_figure(found: Sequence[StudyGeneralizability], about: About) -> FigureWithCaption:
    """Draw both coefficients against the number of judges, repeats and bases, a panel for each object and facet."""
    drawn = [one for one in found if len(one.decision.curves)]
    if not drawn:
        whys = [one.result.phi.note for one in found if one.result.phi.note]
        return about.nothing(
            NAME, TITLE, whys[0].removeprefix("not estimable: ") if whys else "no judged runs"
        )
    data = pd.concat([_curves(one) for one in drawn], ignore_index=True)
    targets = sorted({plan.target for one in drawn for plan in one.decision.plans})
    with thesis_style():
        figure = _draw(data, targets)
    coefficients = [one for each in drawn for one in (each.result.phi, each.result.e_rho2)]
    plans = " ".join(
        f"Mean score of {_of(one)}: {one.decision.plans[0].sentence()}" for one in drawn if one.decision.plans
    )
    caption = captions.join(
        f"{TITLE} ({captions.n_words(about.n)}): what a mean {drawn[0].score} score would be worth with other numbers "
        "of judges, repeats or bases, the other facets as in the study.",
        "Φ: dependability of the score as it stands; Eρ²: of comparisons between objects that the same judges "
        "scored. Marks: the study itself; band and thin dashed lines: intervals of Φ and of Eρ²"
        + (f"; dotted line: the target {targets[0]:.2f}." if len(targets) == 1 else "."),
        captions.interval_words(coefficients),
        "Nothing is corrected for the number of designs.",
        plans,
        captions.not_estimable_words(one.result.phi for one in found if one not in drawn),
        about.missing,
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data), data, dict(about.n))


def _of(found: StudyGeneralizability) -> str:
    of = found.result.components.asked.name(frozenset(found.result.of)).split(":")[0]
    return f"{'an' if of[0] in 'aeiou' else 'a'} {of}"


def _curves(found: StudyGeneralizability) -> pd.DataFrame:
    frame = found.figure_frame()
    lines = frame[frame["part"] == "curve"].rename(columns={"name": "coefficient"})
    return lines.assign(of=_of(found)).reindex(columns=list(_COLUMNS))


def _draw(data: pd.DataFrame, targets: Sequence[float]) -> Figure:
    panels = list(dict.fromkeys(zip(data["of"], data["facet"], strict=True)))
    across = min(_ACROSS, len(panels)) if len(panels) != 4 else 2  # no row of one panel
    down = -(-len(panels) // across)
    figure = new_figure(COLUMN_MM if across == 1 else PAGE_MM, 16 + 54 * down)
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        of, facet = panels[place]
        _panel(axes, data[(data["of"] == of) & (data["facet"] == facet)])
        for target in targets:
            axes.axhline(target, color=INK, linestyle=":", linewidth=0.8, zorder=0)
        axes.set_title(f"Mean score of {of}")
        axes.set_xlabel(f"Number of {facet}s")
        if place % across == 0:
            axes.set_ylabel("Coefficient")
    handles = [
        Line2D([], [], color=color, linestyle=line, marker=marker, markersize=4, label=label)
        for color, line, marker, label in _LINES.values()
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=1 if across == 1 else 2, borderaxespad=0.2
    )
    return settle(figure)


def _panel(axes: Axes, data: pd.DataFrame) -> None:
    for name, (color, line, marker, _) in reversed(_LINES.items()):
        own = data[data["coefficient"] == name].sort_values("count")
        counts = own["count"].astype(float)
        if name == PHI:
            axes.fill_between(counts, own["low"], own["high"], color=color, alpha=0.14, linewidth=0, zorder=1)
        else:  # a second band would hide the first
            for end in ("low", "high"):
                axes.plot(counts, own[end], color=color, linestyle=line, linewidth=0.6, zorder=2)
        axes.plot(counts, own["estimate"], color=color, linestyle=line, linewidth=1.3, zorder=3)
        here = own[own["present"]]
        axes.plot(
            here["count"].astype(float), here["estimate"], linestyle="none", color=color, marker=marker,
            markersize=5.5, zorder=4,
        )  # fmt: skip
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _alt_text(data: pd.DataFrame) -> str:
    columns = ["coefficient", "of", "facet", "count", "estimate"]
    said = "; ".join(
        f"{coefficient} of {of} with {count} {facet}{'s' if count != 1 else ''} {estimate:.2f}"
        for coefficient, of, facet, count, estimate in data.loc[data["present"], columns].itertuples(
            index=False
        )
    )
    return f"Curves of generalizability coefficients from 0 to 1 against the size of the design: {said}."
