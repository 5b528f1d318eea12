"""The figures of a judged study: its frames are read once, every analysis is made once, and all of it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.report.about import About
    from toolkit.report.study_figures import StudyResults
    from toolkit.workbench.analyses import Snapshot


def write_judged_figures(
    held: Snapshot, plan: Plan, folder: Path | str, only: Collection[str] = ()
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


def about_judged(held: Snapshot, plan: Plan) -> About:
    """Return what every figure of a judged study says besides its numbers.

    Parameters
    ----------
    held, plan
        As in `write_judged_figures`.
    """
    from toolkit.report.about import about_study
    from toolkit.report.captions import defects_note, related_note
    from toolkit.store.frames import judge_means

    runs, study = held.runs(), plan.study
    # Where the study has replies judged that are not whole, no reader may take them for whole ones.
    notes = [
        plan.note,
        defects_note(runs),
        related_note(judge_means(held.judgements())),
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


def study_results(held: Snapshot, plan: Plan, only: Collection[str] = ()) -> StudyResults:
    """Make every analysis that the figures and tables of a judged study show, each once.

    Parameters
    ----------
    held, plan
        As in `write_judged_figures`.
    only
        Names of the figures to be drawn: nothing is calculated that they do not need.
    """
    from toolkit.report.study_figures import StudyResults, needed_results
    from toolkit.stats.agreement.bland_altman import bland_altman_between_judges
    from toolkit.stats.judge_card import judge_cards
    from toolkit.stats.pareto import cost_column
    from toolkit.store.frames import judge_means
    from toolkit.words import SCALE

    runs, judgements = held.runs(), held.judgements()
    judged = bool(runs["judged"].any())
    # How far a mean of a model holds cannot be read from two of them: the interval is the whole scale.
    objects = ("answer", "model") if runs["model"].nunique() > 2 else ("answer",)
    related = {role: judge.related for role, judge in plan.judges.items()}
    agreement = cache(held.reliability)
    made: dict[str, Callable[[], Any]] = {
        "reliability": agreement,
        "comparison": held.length,
        "by_model": held.length_by_model,
        "margin": lambda: plan.study.analysis.equivalence_margin,
        "profile": held.dimension_profile,
        "pareto": lambda: held.pareto(cost=cost_column(runs)),
        "length_bias": held.length_bias,
        "missing": held.missing,
        "bland_altman": lambda: bland_altman_between_judges(agreement().matrices["composite"], SCALE),
        "generalizability": lambda: tuple(held.generalizability(of=one) for one in objects),
        "cards": lambda: judge_cards(judgements, runs, related=related),
    }
    # Without a score there is still something to say: what is missing.
    possible = (
        needed_results(only) if judged else needed_results(only) & ({"missing"} if len(runs) else set())
    )
    return StudyResults(
        runs, judge_means(judgements), **{name: make() for name, make in made.items() if name in possible}
    )
