"""The main job on one page: run, judge, measure, aggregate what a plan says.

Everything that spends money goes through the gateway; everything after the ledger can be thrown away and made again
from it. That gives resume: what is in the store is not asked again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.filters import planned_runs
from toolkit.measure import Outcome, annotated_by, measure, reply_of
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.models.registry import open_batch_client
from toolkit.plan import Plan, PlannedRun
from toolkit.runs.batches import BatchDesk
from toolkit.runs.budget import budget_left
from toolkit.runs.estimate import refuse_keyless, refuse_unreachable
from toolkit.runs.execution import IN_ORDER_UP_TO, each, run_anywhere
from toolkit.runs.gateway import Endpoint, Gateway, endpoints_of, worst_aud
from toolkit.runs.ledger import Ledger
from toolkit.runs.progress import Progress
from toolkit.runs.run_state import is_answered
from toolkit.store.connection import Store
from toolkit.store.records import (
    NOTHING_KEPT,
    Kept,
    Stored,
    evaluation_fields,
    failed_run_record,
    judgement_record,
    kept_documents,
    reply_texts,
    run_records,
    stored_runs,
)
from toolkit.store.writer import Record

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")

ROUND = 4
"""Bases that an adaptive study asks before it looks again: so many blocks of all models keep the providers busy."""
SCORE = "composite"  # what an adaptive study compares its models by
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
        if not known or any(known.get(name) != value for name, value in fields.items()):
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
        desk = None
        if plan.study.mode == "batch" and not replay:
            client, poll = partial(open_batch_client, folder=plan.folder), plan.study.batch_poll_seconds
            desk = BatchDesk(store, plan.study.name, client, poll_seconds=poll, stop=stop)
            await desk.open()
        gateway = _open_gateway(plan, store, endpoints, stop, replay=replay, desk=desk)
        work = _Work(plan, plan.runs[:limit], store, gateway, progress, stop, replay)
        work.look()
        try:
            reached = None if only_judge else await ask_runs(work)
            reached = reached or await judge_runs(work)
        finally:
            await gateway.close()
        work.kept = NOTHING_KEPT  # half of a replay's memory, and measuring needs as much again
        counters = gateway.counters
        return await measure(plan, work.runs, store, work.stored, counters.asked, counters.spent_aud, reached)

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
    bar = _progress("runs", len(missing), work.progress, work.gateway)
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
        bar.step(work.gateway.counters)

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
    bar = _progress(label, len(missing), work.progress, work.gateway)
    ask, controls = partial(work.gateway.ask, purpose="judge"), plan.study.bias_controls.model_dump()

    async def judge(run: PlannedRun) -> None:
        stored, whole = work.stored[run.key], True
        item = replace(run.item, prompts=(run.prompt,))
        found = await annotated_by(plan.test, item, (reply_of(run, stored, texts),), ask, work.stop)
        if plan.test.judged:
            said = [judgement for (judgement,) in found.annotations.values() if judgement is not None]
            answered = [judgement.answered for judgement in said]
            # A judge that gave no answer is asked again next time; an answer that cannot be read is a result.
            whole = all(answered)
            if not work.replay or any(answered):
                for judgement in said:
                    work.post(judgement_record(stored.run_id, plan.study.name, judgement))
                key = plan.ensemble_key if whole else None
                work.change(stored, evaluation_fields(said, key, stored.blob_id, controls))
        writer.check()
        if whole or not work.stop.is_set():
            bar.step(work.gateway.counters)

    try:
        return await each([missing], judge, at_once=work.at_once, stop=work.stop)
    finally:
        bar.close()
        await work.settle()


def run_adaptively(plan: Plan, store: Store, *, replay: bool = False, **how: Any) -> Outcome:
    """Ask and judge an adaptive study round by round, whole bases of all models, until its differences are told apart.

    Which bases are next follows from the scores of the rounds before and the seed alone, so that a study that was
    killed goes through the same rounds, and asks what is missing in them.
    """
    from toolkit.prompts.adaptive import next_bases
    from toolkit.stats.adaptive.sequential import sequential_comparison

    bank, runs = bank_of(plan), planned_runs(plan, store)
    if replay:
        return run_plan(_of_bases(plan, runs["base"].unique()), store, replay=True, **how)
    done: list[str] = []
    rounds: list[Outcome] = []
    while chosen := next_bases(
        bank, runs[runs["base"].isin(done)], seed=plan.study.seed, count=ROUND, score=SCORE
    ):
        part = _of_bases(plan, chosen)
        rounds.append(run_plan(part, store, **how))
        done += chosen
        runs = planned_runs(_of_bases(plan, done), store)
        scored = runs.loc[runs["base"].isin(chosen) & runs[SCORE].notna(), "base"].value_counts()
        if rounds[-1].budget or scored.max() < len(part.runs) / len(chosen):  # no block that says something
            break
        width = plan.study.target_width
        if sequential_comparison(runs, bank, target_width=width, score=SCORE).stop:
            break
    # Asks what is still missing of the rounds, mostly nothing, and says how all of them stand.
    whole = run_plan(_of_bases(plan, done), store, **how) if len(rounds) > 1 else rounds[0]
    every = [*rounds, whole] if len(rounds) > 1 else rounds
    return replace(
        whole,
        new_calls=sum(one.new_calls for one in every),
        spent_aud=sum(one.spent_aud for one in every),
    )


def bank_of(plan: Plan) -> pd.DataFrame:
    """Return the bases of a plan as a bank: base, scenario, category and the cost of its whole block in AUD at worst.

    Models that cost nothing are weighed by what they read.
    """
    import pandas as pd

    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for run in plan.runs:
        prompt, asked = prompts[run.prompt.prompt_id], run.request
        aud = worst_aud(asked, endpoints[asked.provider, asked.model, asked.endpoint])
        rows.append((prompt.base, prompt.scenario, prompt.category, aud, prompt.token_count))
    frame = pd.DataFrame(rows, columns=["base", "scenario", "category", "aud", "tokens"])
    bank = frame.groupby(["base", "scenario", "category"], sort=False, as_index=False).sum()
    return bank.assign(cost=bank["aud"] if (bank["aud"] > 0).all() else bank["tokens"])


def _of_bases(plan: Plan, bases: Collection[str]) -> Plan:
    wanted = set(bases)
    of = {prompt.prompt_id for prompt in plan.dataset.prompts if prompt.base in wanted}
    return replace(plan, runs=tuple(run for run in plan.runs if run.prompt.prompt_id in of))


def ask_study(
    plan: Plan,
    store: Store,
    work: Callable[[Ask, threading.Event], Awaitable[R]],
    *,
    requests: Sequence[ModelRequest],
    label: str = "judge calls",
    progress: bool = True,
) -> R:
    """Do work that asks judges of a study beside its runs: through its gateway, into its ledger, under its budget.

    What the ledger has is not asked again.
    """
    if not plan.judges:
        raise InputError(f"study {plan.study.name}: has no judges to ask; name them under [judges]")
    asked = {(one.provider, one.model, one.endpoint) for one in _unpaid(plan, store, requests)}
    refuse_keyless((end.spec for end in endpoints_of(plan) if end.key in asked), plan.folder)
    stop = threading.Event()

    async def execute() -> R:
        gateway = _open_gateway(plan, store, endpoints_of(plan), stop)
        bar = _progress(label, len(requests), progress, gateway)

        async def ask(request: ModelRequest) -> Answer:
            answer = await gateway.ask(request, purpose="judge")
            bar.step(gateway.counters)
            return answer

        try:
            return await work(ask, stop)
        finally:
            await gateway.close()
            bar.close()
            await store.writer.settled()

    return run_anywhere(execute, stop)


def _open_gateway(
    plan: Plan, store: Store, endpoints: Sequence[Endpoint], stop: threading.Event, **settings: Any
) -> Gateway:
    ledger, study = Ledger(store, plan.study.name), plan.study
    return Gateway(ledger, endpoints, budget_aud=study.budget.aud, seed=study.seed, stop=stop, **settings)


def _progress(label: str, total: int, shown: bool, gateway: Gateway) -> Progress:
    return Progress(label, total, shown=shown, since=gateway.counters, waiting=gateway.waiting)


def at_worst(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> tuple[int, float]:
    """Return how many of some requests are still to be asked, and what that may cost in AUD within the budget."""
    left = _unpaid(plan, store, requests)
    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    worst = sum(worst_aud(one, endpoints[one.provider, one.model, one.endpoint]) for one in left)
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
    """Return those of some requests that are not answered in the ledger yet, each once."""
    wanted = {request.identity(): request for request in requests}
    paid = Ledger(store, plan.study.name).prefetch(list(wanted))
    return [request for call_id, request in wanted.items() if call_id not in paid]
