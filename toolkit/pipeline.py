"""The main job on one page: run, judge, measure, aggregate what a plan says.

Everything that spends money goes through the gateway; everything after the ledger can be thrown away and made again
from it. That gives resume: what is in the store is not asked again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolkit.errors import BudgetReached, ModelError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement
from toolkit.models.base import Answer, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import price_of
from toolkit.models.registry import default_concurrency, open_model
from toolkit.outcome import Outcome
from toolkit.plan import Plan
from toolkit.prompt_test import MeasuredTestItem, PromptReply, TestItem, TestItemAnnotations, annotate
from toolkit.runs.execution import IN_ORDER_UP_TO, each, run_anywhere
from toolkit.runs.gateway import Endpoint, Gateway
from toolkit.runs.ledger import Ledger
from toolkit.runs.plan import PlannedRun
from toolkit.runs.progress import Progress
from toolkit.store.connection import Store
from toolkit.store.records import (
    Stored,
    evaluation_write,
    failed_run_record,
    judgement_record,
    run_records,
    stored_runs,
)
from toolkit.study import ModelEntry

AHEAD = 20
"""Runs that may wait for the store beside those that wait for a model."""


@dataclass(frozen=True)
class _Work:
    """What the steps of one execution share."""

    plan: Plan
    runs: tuple[PlannedRun, ...]
    store: Store
    gateway: Gateway
    progress: bool
    stop: threading.Event
    replay: bool

    def stored(self, **what: Any) -> dict[tuple[str, str, int], Stored]:
        """Return the runs as they stand in the store."""
        return stored_runs(self.store, self.plan.study.name, (run.call_id for run in self.runs), **what)

    @property
    def at_once(self) -> int:
        # More than the gateway lets out: claims are made ahead and replies written while others are under way.
        return 1 if len(self.runs) <= IN_ORDER_UP_TO else 3 * self.plan.study.concurrency + AHEAD


def run_plan(
    plan: Plan,
    store: Store,
    *,
    progress: bool = True,
    limit: int | None = None,
    only_judge: bool = False,
    replay: bool = False,
) -> Outcome:
    """Ask and judge what is missing in a plan, measure and aggregate.

    Parameters
    ----------
    plan
        What to do.
    store
        Where everything is kept.
    progress
        Whether to show progress.
    limit
        Consider only the first this many runs.
    only_judge
        Ask no run, only fill missing judgements.
    replay
        Make every run and judgement again from the ledger, with no network: what the ledger lacks stays as it is.

    Returns
    -------
    Outcome
        What was done and what is still missing; failures of single runs are in it, not raised.

    Raises
    ------
    PriceError
        When a model has no price; before the first call.
    """
    stop = threading.Event()
    endpoints = _endpoints(plan)

    async def execute() -> Outcome:
        store.add_prompts(plan.dataset.prompts)
        ledger = Ledger(store, plan.study.name)
        budget = plan.study.budget.aud
        gateway = Gateway(
            ledger, endpoints, budget_aud=budget, seed=plan.study.seed, stop=stop, replay=replay
        )
        work = _Work(plan, plan.runs[:limit], store, gateway, progress, stop, replay)
        try:
            reached = None if only_judge else await ask_runs(work)
            reached = reached or await judge_runs(work)
        finally:
            await gateway.close()
            ledger.close()
        return measure(work, reached)

    return run_anywhere(execute, stop)


async def ask_runs(work: _Work) -> BudgetReached | None:
    """Ask every run that is not answered yet; a failed one is recorded with its reason."""
    stored = work.stored()
    missing = [run for run in work.runs if work.replay or run.key not in stored or stored[run.key].failure]
    await work.gateway.prefetch(run.request for run in missing)
    bar = Progress("runs", len(missing), shown=work.progress)

    async def ask(run: PlannedRun) -> None:
        key, fields = _run_fields(work.plan, run)
        try:
            answer = await work.gateway.ask(run.request, purpose="run")
        except ModelError as error:
            if not work.replay:
                await work.store.writer.keep(failed_run_record(key, fields, f"{error.reason}: {error}"))
        else:
            await asyncio.gather(*map(work.store.writer.keep, run_records(key, fields, answer)))
        bar.step(work.gateway.note())

    # One group for each provider: a slow one must not hold up the others.
    groups: dict[tuple[str, str | None], list[PlannedRun]] = defaultdict(list)
    for run in missing:
        groups[(run.request.provider, run.request.endpoint) if work.at_once > 1 else ("", None)].append(run)
    try:
        ends = [each(group, ask, at_once=work.at_once, stop=work.stop) for group in groups.values()]
        return next((end for end in await asyncio.gather(*ends) if end is not None), None)
    finally:
        bar.close()


async def judge_runs(work: _Work) -> BudgetReached | None:
    """Have every judge judge every answered run that it has not judged yet."""
    plan = work.plan
    if not plan.judges:
        return None
    stored = work.stored(texts=True)
    missing = [
        run
        for run in work.runs
        if run.key in stored
        and not stored[run.key].failure
        and (work.replay or stored[run.key].ensemble_key != plan.ensemble_key)
    ]
    bar = Progress("judged runs", len(missing), shown=work.progress)

    async def ask(request: ModelRequest) -> Answer:
        return await work.gateway.ask(request, purpose="judge")

    async def judge(run: PlannedRun) -> None:
        reply = _reply(run, stored[run.key])
        item = replace(run.item, prompts=(run.prompt,))
        found = await annotate(plan.test, item, (reply,), ask)
        judgements = [annotation for (annotation,) in found.annotations.values() if annotation is not None]
        await _keep(work, stored[run.key], judgements)
        bar.step(work.gateway.note())

    try:
        return await each(missing, judge, at_once=work.at_once, stop=work.stop)
    finally:
        bar.close()


async def _keep(work: _Work, run: Stored, judgements: list[Judgement]) -> None:
    """Write the judgements of one run, and then what the ensemble makes of them."""
    writer, study = work.store.writer, work.plan.study.name
    if work.replay and not any(judgement.answered for judgement in judgements):
        return
    await asyncio.gather(
        *(writer.keep(judgement_record(run.run_id, study, judgement)) for judgement in judgements)
    )
    evaluation = ensemble_evaluation(judgements)
    # A judge that gave no answer is asked again next time; an answer that cannot be read is a result.
    whole = all(judgement.answered for judgement in judgements)
    evaluation["key"] = work.plan.ensemble_key if whole else None
    await writer.write(*evaluation_write(run.document_id, evaluation))


def measure(work: _Work, reached: BudgetReached | None) -> Outcome:
    """Measure every item, aggregate over items for each model, and say where the study stands."""
    test, stored = work.plan.test, work.stored(texts=True, rubric_hash=work.plan.rubric.digest)
    groups: dict[tuple[str, int, str], list[PlannedRun]] = defaultdict(list)
    items: dict[str, TestItem] = {}
    for run in work.runs:
        groups[run.model, run.repeat, run.item.item_id].append(run)
        items[run.item.item_id] = run.item
    measured: dict[str, list[MeasuredTestItem]] = defaultdict(list)
    roles = tuple(test.annotators())
    for (model, repeat, item_id), runs in groups.items():
        replies = tuple(_reply(run, stored.get(run.key)) for run in runs)
        said = [stored[run.key].judgements if run.key in stored else {} for run in runs]
        annotations = {role: tuple(judgements.get(role) for judgements in said) for role in roles}
        found = test.measure_quality(TestItemAnnotations(items[item_id], replies, annotations))
        measured[model].append(MeasuredTestItem(items[item_id], tuple(found), model, repeat))
    failures = Counter(s.failure.split(":")[0] for s in stored.values() if s.failure)
    return Outcome(
        planned=len(work.runs),
        succeeded=sum(not s.failure for s in stored.values()),
        failed=sum(failures.values()),
        judged=sum(s.judged for s in stored.values()),
        new_calls=work.gateway.counters.asked,
        spent_aud=work.gateway.counters.spent_aud,
        failures=dict(failures),
        budget=str(reached) if reached else None,
        results=tuple(
            (model, result)
            for model, found in measured.items()
            for result in test.aggregate_measurements(found)
        ),
    )


def _reply(run: PlannedRun, stored: Stored | None) -> PromptReply:
    if stored is None:
        return PromptReply(run.prompt, None, "", run.model, run.repeat, "not asked yet")
    failure = stored.failure or (None if stored.text and stored.text.strip() else "empty reply")
    return PromptReply(
        run.prompt, None if failure else stored.text, stored.run_id, run.model, run.repeat, failure
    )


def _run_fields(plan: Plan, run: PlannedRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what makes a run the same run, and what else the plan knows of it."""
    key = {
        "study": plan.study.name,
        "test": plan.test.name,
        "prompt_id": run.prompt.prompt_id,
        "model": run.model,
        "repeat": run.repeat,
        "call_id": run.call_id,
    }
    fields = {
        "prompt_length_bin": getattr(run.item.context, "length_bin", None),
        "test_item": run.item.item_id,
        "dataset_version": plan.dataset.version,
        "bias_controls": plan.study.bias_controls.model_dump(),
    }
    return key, fields


def _endpoints(plan: Plan) -> list[Endpoint]:
    """Return every model that may be asked; one without a price is refused here, before the first call."""
    judges = plan.study.judges.by_role()
    named: list[tuple[ModelEntry, ModelSpec]] = [
        *((entry, plan.models[entry.name]) for entry in plan.study.models),
        *((judges[role], spec) for role, spec in plan.judge_models.items()),
    ]
    return [
        Endpoint(
            spec=spec,
            price=price_of(spec),
            open=partial(open_model, spec, folder=plan.folder),
            concurrency=entry.concurrency or default_concurrency(spec, plan.study.concurrency),
        )
        for entry, spec in named
    ]
