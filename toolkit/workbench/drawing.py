"""The figures of a judged study: its frames are read once, every analysis is made once, and all of it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.analyses import Analyses
    from toolkit.plan import Plan
    from toolkit.report.about import About
    from toolkit.report.study_figures import StudyResults


def write_judged_figures(
    held: Analyses, plan: Plan, folder: Path | str, only: Collection[str] = ()
) -> list[Path]:
    """Write every figure and table of a judged study that it can give, and say which it cannot.

    Parameters
    ----------
    held
        The frames of the study.
    plan
        The study as planned.
    folder
        Gets ``figures/`` and ``tables/``.
    only
        Names of the figures to write, and no table; everything where it is empty.
    """
    from toolkit.report.study_report import write_figures

    return write_figures(study_results(held, plan, only), about_judged(held, plan), folder, only)


def about_judged(held: Analyses, plan: Plan) -> About:
    """Return what every figure of a judged study says besides its numbers.

    Parameters
    ----------
    held, plan
        As in `write_judged_figures`.
    """
    from toolkit.report.about import about_study
    from toolkit.report.captions import defects_note, related_note

    runs, study = held.runs, plan.study
    # Where the study has replies judged that are not whole, no reader may take them for whole ones.
    notes = [
        plan.note,
        defects_note(runs),
        related_note(held.judge_means),
        plan.manner.sentence(),
    ]
    about = about_study(
        runs,
        study_name=study.name,
        dataset_version=plan.dataset.version,
        repeats=study.repeats,
        note=" ".join(note for note in notes if note),
    )
    # A model that has no run yet keeps its colour: it is of the study file, not of the frame.
    return replace(about, models=tuple(sorted(plan.models)))


def study_results(held: Analyses, plan: Plan, only: Collection[str] = ()) -> StudyResults:
    """Make every analysis that the figures and tables of a judged study show, each once.

    Parameters
    ----------
    held, plan
        As in `write_judged_figures`.
    only
        Names of the figures to be drawn: nothing is calculated that they do not need.
    """
    from toolkit.report.study_figures import StudyResults, needed_results
    from toolkit.stats.comparisons.cost_quality import cost_column

    runs = held.runs
    judged = held.is_judged
    # How far a mean of a model holds cannot be read from two of them: the interval is the whole scale.
    objects = ("answer", "model") if runs["model"].nunique() > 2 else ("answer",)
    made: dict[str, Callable[[], Any]] = {
        "reliability": held.reliability,
        "comparison": held.length,
        "by_model": held.length_by_model,
        "margin": lambda: held.margin,
        "profile": held.dimension_profile,
        "pareto": lambda: held.pareto(cost=cost_column(runs)),
        "length_bias": held.length_bias,
        "missing": held.missing,
        "bland_altman": held.bland_altman,
        "generalizability": lambda: tuple(held.generalizability(of=one) for one in objects),
        "cards": held.judge_cards,
    }
    # Without a score there is still something to say: what is missing.
    possible = (
        needed_results(only) if judged else needed_results(only) & ({"missing"} if len(runs) else set())
    )
    return StudyResults(
        runs, held.judge_means, **{name: make() for name, make in made.items() if name in possible}
    )
