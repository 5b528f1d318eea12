"""The main job on one page: run, judge, measure, aggregate what a plan says.

Everything that spends money goes through the gateway; everything after the ledger can be thrown away and made again
from it. That gives resume: what is in the store is not asked again.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.measure import Outcome, annotated_by, measure, reply_of
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.models.registry import open_batch_client
from toolkit.plan import Plan, PlannedRun
from toolkit.runs.batches import BatchDesk
from toolkit.runs.budget import budget_left
from toolkit.runs.decisions import keep_decision
from toolkit.runs.estimate import refuse_keyless, refuse_unreachable
from toolkit.runs.execution import IN_ORDER_UP_TO, each, run_anywhere
from toolkit.runs.gateway import Endpoint, Gateway, endpoints_of, worst_aud
from toolkit.runs.ledger import Ledger
from toolkit.runs.progress import Progress
from toolkit.runs.run_state import is_answered
from toolkit.runs.unsaved import take_up
from toolkit.store.connection import Store
from toolkit.store.records import (
    NOTHING_KEPT,
    Kept,
    Stored,
    completed,
    evaluation_fields,
    failed_run_record,
    judgement_record,
    kept_documents,
    reply_texts,
    run_records,
    stored_runs,
)
from toolkit.store.writer import Record, differing
from toolkit.words import total_aud

R = TypeVar("R")

AHEAD = 20
"""Runs that may wait for the store beside those that wait for a model."""
LARGEST_BATCH = 20_000
"""Runs that may be gathered at once in batch mode; the rest follows in further batches."""


@dataclass
class _Work:
    """What the steps of one execution share; ``stored`` is how the runs stand, as far as this process knows."""

    plan: Plan
    runs: tuple[PlannedRun, ...]
    store: Store
    gateway: Gateway
    progress: bool
    stop: threading.Event
    replay: bool
    stored: dict[tuple[str, str, int], Stored] = field(default_factory=dict)
    wrote: bool = False
    kept: Kept = NOTHING_KEPT  # filled in a replay, which writes only what differs
    # Ids of texts that are there, or on their way in front of their runs.
    texts: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Read how the runs stand in the store."""
        ids = [run.call_id for run in self.runs]
        if self.replay:
            self.kept = kept_documents(self.store, self.plan.study.name, ids)
            self.stored = self.kept.stored()
            self.texts.update(self.kept.blobs)
        else:
            self.stored = stored_runs(self.store, self.plan.study.name, ids)

    async def settle(self) -> None:
        """Wait until everything is kept, and look at it where anything was written."""
        await self.store.writer.settled()
        if self.wrote:
            self.look()
        self.wrote = False

    def post(self, record: Record) -> None:
        """Write a record, unless it is there as it is."""
        known = self.kept.of(record) if self.replay else None
        if known is None or record.changes(known):
            self.store.writer.post(record, known)
            self.wrote = True

    def change(self, run: Stored, fields: dict[str, Any]) -> None:
        """Change a run behind what was posted before, unless it is so already."""
        known = self.kept.by_id[run.document_id] if self.kept.runs else None
        if not known or differing(known, fields):
            self.store.writer.post_change("runs", run.document_id, fields)
            self.wrote = True

    @cached_property
    def at_once(self) -> int:
        # More than the gateway lets out: claims are made ahead and replies written while others are under way.
        if self.plan.study.mode == "batch":
            return LARGEST_BATCH
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
    """Ask and judge what is missing in a plan, measure and aggregate."""
    stop = threading.Event()
    endpoints = endpoints_of(plan)
    if not replay:
        refuse_unreachable(plan, store, only_judge=only_judge)

    async def execute() -> Outcome:
        store.add_prompts(plan.dataset.prompts)
        if plan.test.judged:
            rubric = plan.rubric
            store.add_rubric(rubric.digest, rubric.name, rubric.version, rubric.content)
        if not replay:
            take_up(store, plan.output)
            keep_decision(plan, store)
        gateway = await _open_gateway(plan, store, endpoints, stop, replay=replay)
        work = _Work(plan, plan.runs[:limit], store, gateway, progress, stop, replay)
        work.look()
        failed_before = {key: run.failure for key, run in work.stored.items() if run.failure}
        try:
            reached = None if only_judge else await ask_runs(work)
            reached = reached or await judge_runs(work)
        finally:
            await gateway.close()
        if not replay:  # what came while the store was away, and is in it by now
            take_up(store, plan.output)
        work.kept = NOTHING_KEPT  # half of a replay's memory, and measuring needs as much again
        counters = gateway.counters
        spent = counters.asked, counters.spent_aud
        return await measure(plan, work.runs, store, work.stored, *spent, reached, failed_before)

    return run_anywhere(execute, stop)


async def ask_runs(work: _Work) -> BudgetReached | None:
    """Ask every run that is not answered yet; a failed one is recorded with its reason."""
    plan, study = work.plan, work.plan.study
    retries, policies = study.replies.retries, study.replies.model_dump(exclude={"retries"})
    missing = [run for run in work.runs if work.replay or not is_answered(work.stored.get(run.key), policies)]
    if not missing:
        return None
    if not work.replay:  # a replay has read them all
        await work.gateway.prefetch(run.request for run in missing)
    bar = _progress("runs", missing, work.progress, work.gateway)
    writer, send = work.store.writer, partial(work.gateway.ask, purpose="run")
    same = {"study": study.name, "test": plan.test.name}
    known = {"dataset_version": plan.dataset.version, "bias_controls": study.bias_controls.model_dump()}

    async def ask(run: PlannedRun) -> None:
        key = {
            **same,
            "prompt_id": run.prompt.prompt_id,
            "model": run.model,
            "repeat": run.repeat,
            "call_id": run.call_id,
        }
        length_bin = getattr(run.item.context, "length_bin", None)
        about = {"prompt_length_bin": length_bin, "test_item": run.item.item_id, **known}
        request = run.request
        bar.begin(run.model)
        try:
            answers = [await send(request)]
            while (
                (defect := answers[-1].reply.defect)
                and policies[defect] == "retry"
                and len(answers) <= retries
            ):
                request = replace(request, max_tokens=2 * request.max_tokens)
                answers.append(await send(request))
        except ModelError as error:
            if error.reason == "stopped":
                return  # still to be asked, so neither failed nor one of those that the progress counts
            if not work.replay:
                work.post(failed_run_record(key, about, f"{error.reason}: {error}"))
        else:
            policy = policies[defect] if defect else None
            records = run_records(key, about, answers, defect=defect, policy=policy, texts=work.texts)
            for record in records:
                work.post(record)
            work.texts.add(records[-1].document["output_blob_id"])
        writer.check()
        bar.step(work.gateway.counters, run.model)

    # One group for each provider: a slow one must not hold up the others.
    groups: dict[tuple[str, str | None], list[PlannedRun]] = defaultdict(list)
    for run in missing:
        groups[(run.request.provider, run.request.endpoint) if work.at_once > 1 else ("", None)].append(run)
    try:
        return await each(groups.values(), ask, at_once=work.at_once, stop=work.stop)
    finally:
        bar.close()
        await work.settle()


async def judge_runs(work: _Work) -> BudgetReached | None:
    """Have every answered run annotated; judges of the study judge what they have not judged yet."""
    plan, writer = work.plan, work.store.writer
    missing = [
        run
        for run in work.runs
        if (stored := work.stored.get(run.key))
        and not (stored.failure or stored.excluded)
        and (work.replay or not plan.test.judged or stored.ensemble_key != plan.ensemble_key)
    ]
    if not (missing and plan.test.annotators()):
        return None
    texts = reply_texts(work.store, (work.stored[run.key] for run in missing))
    label = "judged runs" if plan.test.judged else "read runs"
    bar = _progress(label, missing, work.progress, work.gateway)
    send, controls = partial(work.gateway.ask, purpose="judge"), plan.study.bias_controls.model_dump()

    async def judge(run: PlannedRun) -> None:
        stored, whole = work.stored[run.key], True
        item = replace(run.item, prompts=(run.prompt,))
        bar.begin(run.model)
        reached: list[BudgetReached] = []

        async def ask(request: ModelRequest) -> Answer:
            try:
                return await send(request)
            except BudgetReached as error:  # what other judges said of this run is written all the same
                reached.append(error)
                raise ModelError(str(error), reason="stopped") from error

        found = await annotated_by(plan.test, item, (reply_of(run, stored, texts),), ask, work.stop)
        if plan.test.judged:
            judgements = [judgement for (judgement,) in found.annotations.values() if judgement is not None]
            # A judge that gave no answer is asked again next time; an answer that cannot be read is a result.
            whole = all(judgement.answered and not judgement.interrupted for judgement in judgements)
            judgements = completed(work.store, stored, judgements)
            for judgement in judgements:
                work.post(judgement_record(stored.run_id, plan.study.name, judgement))
            if judgements:
                key = plan.ensemble_key if whole else None
                work.change(stored, evaluation_fields(judgements, key, stored.blob_id, controls))
        writer.check()
        if reached:
            raise reached[0]
        if whole or not work.stop.is_set():
            bar.step(work.gateway.counters, run.model)

    try:
        return await each([missing], judge, at_once=work.at_once, stop=work.stop)
    finally:
        bar.close()
        await work.settle()


def ask_study(
    plan: Plan,
    store: Store,
    work: Callable[[Ask, threading.Event], Awaitable[R]],
    *,
    requests: Sequence[ModelRequest],
    label: str = "judge calls",
    purpose: str = "judge",
    progress: bool = True,
) -> R:
    """Do work that asks judges of a study beside its runs: through its gateway, into its ledger, under its budget.

    What the ledger has is not asked again. With another ``purpose`` than "judge" any of its models may be asked.
    """
    if purpose == "judge" and not plan.judges:
        raise InputError(f"study {plan.study.name}: has no judges to ask; name them under [judges]")
    take_up(store, plan.output)
    asked = {(one.provider, one.model, one.endpoint) for one in _unpaid(plan, store, requests)}
    refuse_keyless((end.spec for end in endpoints_of(plan) if end.key in asked), plan.folder)
    stop = threading.Event()

    async def execute() -> R:
        singly = [replace(endpoint, batch=False) for endpoint in endpoints_of(plan)]
        gateway = await _open_gateway(plan, store, singly, stop)
        bar = Progress(label, len(requests), shown=progress, since=gateway.counters, waiting=gateway.waiting)

        async def ask(request: ModelRequest) -> Answer:
            answer = await gateway.ask(request, purpose=purpose)
            bar.step(gateway.counters)
            return answer

        try:
            return await work(ask, stop)
        finally:
            await gateway.close()
            bar.close()
            await store.writer.settled()

    return run_anywhere(execute, stop)


async def _open_gateway(
    plan: Plan, store: Store, endpoints: Sequence[Endpoint], stop: threading.Event, *, replay: bool = False
) -> Gateway:
    ledger, study, desk = Ledger(store, plan.study.name, plan.output), plan.study, None
    if not replay:  # also where the study asks singly now: what an open batch holds is paid for
        client, poll = partial(open_batch_client, folder=plan.folder), study.batch_poll_seconds
        desk = BatchDesk(store, study.name, client, poll_seconds=poll, stop=stop)
        await desk.open()
    settings: dict[str, Any] = {"seed": study.seed, "stop": stop, "replay": replay, "desk": desk}
    return Gateway(ledger, endpoints, budget_aud=study.budget.aud, **settings)


def _progress(label: str, runs: Sequence[PlannedRun], shown: bool, gateway: Gateway) -> Progress:
    watched: dict[str, Any] = {"since": gateway.counters, "waiting": gateway.waiting}
    return Progress(label, len(runs), shown=shown, by_model=Counter(run.model for run in runs), **watched)


def at_worst(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> tuple[int, float]:
    """Return how many of some requests are still to be asked, and what that may cost in AUD within the budget."""
    left = _unpaid(plan, store, requests)
    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    worst = total_aud(worst_aud(one, endpoints[one.provider, one.model, one.endpoint]) for one in left)
    return len(left), min(worst, budget_left(plan, store))


def confirm_asking(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> None:
    """Refuse to ask what may cost more than ``budget.confirm_above_aud`` unless it was confirmed."""
    count, worst = at_worst(plan, store, requests)
    threshold = plan.study.budget.confirm_above_aud
    if worst > threshold:
        raise InputError(
            f"these {count} calls may cost {worst:.2f} AUD, more than budget.confirm_above_aud = {threshold:.2f}; "
            "add --yes"
        )


def _unpaid(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> list[ModelRequest]:
    wanted = {request.identity(): request for request in requests}
    paid = Ledger(store, plan.study.name).prefetch(list(wanted))
    return [request for call_id, request in wanted.items() if call_id not in paid]
