"""The thesis bundle of a study in hand: draw everything, write the methods from what was done, seal it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError, PriceError

if TYPE_CHECKING:
    from toolkit.models.catalogue import ModelSpec
    from toolkit.models.prices import Price
    from toolkit.report.bundle.done import Done
    from toolkit.report.bundle.evidence import Evidence
    from toolkit.study import Study


def bundle_study(study: Study, folder: Path | str | None = None) -> list[Path]:
    """Write the thesis bundle of a study: figures, tables, methods, references and a document that compiles.

    Parameters
    ----------
    study
        The study in hand.
    folder
        Where; ``bundle/`` in the study's output folder when not given.

    Returns
    -------
    list of Path
        Every file of the bundle, ``manifest.json`` last.

    Raises
    ------
    InputError
        When no run has succeeded yet, or the folder holds the bundle of another study, or something else under the
        names of the bundle.
    """
    from toolkit.report.bundle.bundle import write_bundle
    from toolkit.report.bundle.evidence import evidence_of
    from toolkit.report.bundle.methods import methods_section
    from toolkit.report.bundle.sums import check_is_of

    place = Path(folder) if folder is not None else study.output / "bundle"
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; a bundle needs a folder")
    check_is_of(place, study.name)
    status = study.status()
    if not status["done"]:
        raise InputError(
            f"study {study.name}: no run has succeeded yet, so there is nothing to bundle; run it first"
        )
    drawn = study.figures(place)
    if study.plan.test.judged and study.runs()["judged"].any():
        drawn += study.statistics(place)
    done = what_was_done(study, status, evidence_of(drawn))
    return write_bundle(place, drawn, methods_section(done), done.manifest)


def what_was_done(study: Study, status: Mapping[str, Any], evidence: Evidence) -> Done:
    """Return what the methods section of a study tells, read from plan, ledger and frames.

    Parameters
    ----------
    study
        The study in hand.
    status
        From ``study.status()``.
    evidence
        What was calculated, from `toolkit.report.bundle.evidence.evidence_of`.
    """
    from toolkit.report.bundle.done import Done
    from toolkit.runs.provenance import asked_models

    plan = study.plan
    specs = {spec.name: spec for spec in (*plan.models.values(), *plan.judge_models.values())}
    prices = {name: _price(spec) for name, spec in specs.items()}
    if not plan.test.judged:
        # What judges said in other tests is not kept by call, so that all their calls count.
        paid = asked_models(plan, study.store)
        answers = [one for one in paid if one.purpose == "judge"]
        answers += [one for one in asked_models(plan, study.store, earlier=False) if one.purpose == "run"]
        return Done(plan, answers, paid, status, study.manifest(), evidence, prices=prices)
    runs, human = study.runs(), study.human()
    calls = list(study.judgements()["call_id"].dropna())
    rated = human[~human["failed"]]
    return Done(
        plan,
        answers=asked_models(plan, study.store, calls, earlier=False),
        paid=asked_models(plan, study.store, calls),
        status=status,
        manifest=study.manifest(),
        evidence=evidence,
        unscored=int(((runs["status"] == "succeeded") & ~runs["excluded"] & ~runs["judged"]).sum()),
        people=(rated["rater"].nunique(), rated["run_id"].nunique()),
        prices=prices,
    )


def _price(spec: ModelSpec) -> Price | None:
    """Return the price that is known today; a study whose models have left the table keeps its bundle."""
    from toolkit.models.prices import price_of

    try:
        return price_of(spec)
    except PriceError:
        return None
