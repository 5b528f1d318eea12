"""The main job on one page: run, judge, measure, aggregate what a plan says.

Everything that spends money goes through the gateway; everything after the ledger can be thrown away and made again
from it. That gives resume: what is in the store is not asked again.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import all_of
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.models.registry import open_batch_client
from toolkit.models.thoughts import split_thoughts
from toolkit.plan import Plan, PlannedRun, PlannedRuns, RunKey
from toolkit.prompt_test import PromptReply
from toolkit.runs.budget import budget_left
from toolkit.runs.decisions import keep_decision
from toolkit.runs.estimate import estimate_frame, refuse_keyless, refuse_unreachable
from toolkit.runs.execution import IN_ORDER_UP_TO, each, run_anywhere
from toolkit.runs.gateway import Endpoint, Gateway, endpoints_of, share_of, worst_aud
from toolkit.runs.instruments import JUDGEMENTS, automatic_stages, stages_of
from toolkit.runs.judge_gate import rated_runs, refuse_uncalibrated
from toolkit.runs.ledger import Ledger
from toolkit.runs.limits import UNREACHABLE
from toolkit.runs.measure import Outcome, annotated_by, measure
from toolkit.runs.progress import Progress
from toolkit.runs.provider_batch import Batches
from toolkit.runs.run_state import is_answered, states_ahead, stored_by_index
from toolkit.runs.stages import Pending, Stage, pending_tasks, requests_of, unpaid
from toolkit.runs.unsaved import take_up
from toolkit.store.connection import Store, windows
from toolkit.store.documents import Call
from toolkit.store.records import (
    NO_RECORDS,
    StoredRecords,
    StoredRun,
    annotation_record,
    evaluation_fields,
    failed_run_record,
    reply_texts,
    run_documents,
    run_records,
    stored_after,
    stored_records,
    stored_run,
    with_earlier,
)
from toolkit.store.writer import TOUCH, Fields, Record
from toolkit.words import LENGTH_BINS, money, reason_key, total_aud

R = TypeVar("R")
_Texts = asyncio.Future[dict[str, str]]

AHEAD = 20
"""Runs that may wait for the store beside those that wait for a model."""


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
    endpoints, runs = endpoints_of(plan), plan.runs[:limit]
    if not replay:
        refuse_unreachable(plan, store, only_judge=only_judge)

    async def execute() -> Outcome:
        gateway, batches = _gateway(plan, store, endpoints, stop, replay=replay), None
        execution = partial(_Execution, plan, store=store, gateway=gateway, stop=stop, replay=replay)
        free = partial(execution, plan.runs, free=len(runs))
        reached, failed_before = None, {}
        if progress and not replay:
            frame = estimate_frame(plan, store, only_judge=only_judge)
            gateway.counters.worst_aud = total_aud(frame["worst_aud"])
        try:
            gateway.open()
            store.add_prompts(plan.dataset.prompts)
            if plan.test.judged:
                rubric = plan.rubric
                store.add_rubric(rubric.digest, rubric.name, rubric.version, rubric.content)
            if not replay:
                take_up(store, plan.output)
                keep_decision(plan, store)
                batches = _batches(plan, gateway, stop, shown=progress)
                await _write_free(free())
            if plan.study.judges.gate and not replay and limit is None:
                reached = await execution(rated_runs(plan, store), only_judge=True).run(shown=progress)
                if not reached:
                    refuse_uncalibrated(plan, store)
            if batches and not (only_judge or reached):
                await _ask_in_batches(plan, runs, store, batches)
                asking = execution(runs, only_ask=True)
                reached, failed_before = await asking.run(shown=progress), asking.failed_before
            if batches and plan.scored:
                tasks, _ = pending_tasks(JUDGEMENTS, plan, store, states_ahead(plan, store)[: len(runs)])
                await batches.fill(requests_of(tasks), "judge")
            work = execution(runs, only_judge=only_judge or bool(batches))
            if reached:  # what batches brought of judges
                await _write_free(free())
            reached = reached or await work.run(shown=progress)
            failed_before = failed_before or work.failed_before
            for stage in automatic_stages():
                if not (reached or stop.is_set()):
                    reached = await _ask_stage(stage, work, batches, shown=progress)
        finally:
            await gateway.close()
            if batches:
                await batches.close()
        del work  # half of a replay's memory, and measuring needs as much again
        counters = gateway.counters
        return await measure(plan, runs, store, counters.asked, counters.spent_aud, reached, failed_before)

    return run_anywhere(execute, stop)


class Changes:
    """What a replay would write, in place of the writer of a store: records, each with what stands there."""

    def __init__(self) -> None:
        self.records: list[tuple[Record, Fields | None]] = []

    def post(self, record: Record, known: Fields | None = None) -> None:
        """Note a record."""
        self.records.append((record, known))

    def check(self) -> None:
        """Nothing can fail."""

    async def settled(self) -> None:
        """Nothing is under way."""


def replay_changes(
    plan: Plan, store: Store, excused: Callable[[StoredRun, Judgement], bool]
) -> tuple[list[tuple[Record, Fields | None]], StoredRecords]:
    """Return what a replay would write, and what is stored of runs and judgements; nothing is written.

    A judgement that is missing and excused counts as one that is still to be asked.
    """
    stop, changes = threading.Event(), Changes()

    async def execute() -> StoredRecords:
        gateway = _gateway(plan, store, endpoints_of(plan), stop, replay=True)
        execution = _Execution(
            plan, plan.runs, store, gateway, stop, replay=True, writer=changes, excused=excused
        )
        await execution.run(shown=False)
        for stage in stages_of(plan, store):
            await _ask_stage(stage, execution, None, shown=False)
        await gateway.close()
        return execution.documents

    documents = run_anywhere(execute, stop)
    return changes.records, documents


@dataclass
class _Execution:
    """One execution of a plan: every run is asked, saved, judged and saved before too many others are begun.

    ``stored`` has the runs that are in the store and not finished, by their index in ``runs``.
    """

    plan: Plan
    runs: PlannedRuns
    store: Store
    gateway: Gateway
    stop: threading.Event
    replay: bool
    only_judge: bool = False
    only_ask: bool = False
    free: int | None = None
    """Where only what the ledger has is written: how many of the runs the study is to ask for."""
    stored: dict[int, StoredRun] = field(default_factory=dict)
    failed_before: dict[RunKey, str] = field(default_factory=dict)
    documents: StoredRecords = NO_RECORDS  # filled in a replay, which writes only what differs
    # Ids of texts that are in the store, or on their way in front of their runs.
    texts: set[str] = field(default_factory=set)
    writer: Any = None
    excused: Callable[[StoredRun, Judgement], bool] = field(default=lambda stored, judgement: False)

    def __post_init__(self) -> None:
        self.writer = self.writer or self.store.writer
        study = self.plan.study
        self.policies = study.replies.model_dump(exclude={"retries", "thoughts"})
        self.controls = study.bias_controls.model_dump()
        self.has_annotators = bool(self.plan.test.annotators()) and not self.only_ask
        if self.free is not None and not self.plan.test.judged:
            self.has_annotators = False  # nothing that they say is written
        # More than the gateway lets out: replies are saved and judged while others are under way.
        self.at_once = 1 if len(self.runs) <= IN_ORDER_UP_TO else 3 * study.concurrency + AHEAD

    async def run(self, *, shown: bool) -> BudgetReached | None:
        """Ask and judge what is missing; return the budget's error where it was reached."""
        unfinished = self._unfinished()
        if not unfinished:
            return None
        label = "runs" if not self.only_judge else "judged runs" if self.plan.test.judged else "read runs"
        counters, waiting = self.gateway.counters, self.gateway.waiting
        self.bar = Progress(label, len(unfinished), shown=shown, since=counters, waiting=waiting)
        # One group for each provider: a slow one must not hold up the others. In a group a prompt is asked of every
        # model before the next, so that a study that is stopped has its first bases whole.
        groups: dict[Any, list[int]] = defaultdict(list)
        for index in sorted(unfinished, key=self.runs.number_in_model):
            spec = self.plan.models[self.runs.model_of(index)]
            groups[(spec.provider, spec.endpoint) if self.at_once > 1 else None].append(index)
        try:
            items = map(self._with_reading, groups.values())
            return await each(items, self._finish, at_once=self.at_once, stop=self.stop)
        finally:
            self.bar.close()
            await self.writer.settled()

    def _unfinished(self) -> list[int]:
        """Read how the runs stand, and return the indices of those that have still to be asked or judged."""
        name = self.plan.study.name
        if self.replay:
            self.documents = stored_records(self.store, name, self.runs.call_ids)
            self.texts.update(self.documents.blobs)
            rows: Iterable[Any] = self.documents.runs.values()
        else:
            rows = run_documents(self.store, name, self.runs.call_ids)
        finished = bytearray(len(self.runs))
        for index, stored in stored_by_index(self.runs, rows):
            if stored.failure:
                self.failed_before[self.runs[index].key] = reason_key(stored.failure)
            if self._is_to_ask(stored) or self._is_to_judge(stored):
                self.stored[index] = stored
            else:
                finished[index] = True
        unfinished = [
            index
            for index, is_finished in enumerate(finished)
            if not is_finished and (index in self.stored or not self.only_judge)
        ]
        if self.free is None:
            return unfinished
        # Beyond its limit a study takes what it paid for itself, and not what another one has.
        ids = self.runs.call_ids
        calls = self.store.find_by(Call, "_id", (ids[index] for index in unfinished), only=("study", "state"))
        is_own = {call["_id"]: call["study"] == name for call in calls if call["state"] == "done"}
        return [
            index
            for index in unfinished
            if index in self.stored or is_own.get(ids[index]) or (index < self.free and ids[index] in is_own)
        ]

    def _is_to_ask(self, stored: StoredRun | None) -> bool:
        return not self.only_judge and (self.replay or not is_answered(stored, self.policies))

    def _is_to_judge(self, stored: StoredRun) -> bool:
        """Return whether a reply is shown to annotators: judges of the study judge what they have not judged yet."""
        if stored.failure or stored.excluded or not self.has_annotators:
            return False
        # What judges scored before they compared pairs is in the ledger, and a replay gives it.
        if self.plan.compared and not (self.plan.scored or self.replay):
            return False
        return self.replay or not self.plan.test.judged or stored.ensemble_key != self.plan.ensemble_key

    def _with_reading(self, indices: Sequence[int]) -> Iterator[tuple[int, Callable[[], _Texts]]]:
        for window in windows(indices):
            # When the first of them needs it.
            reading = cache(lambda window=window: asyncio.ensure_future(self._read(window)))
            for index in window:
                yield index, reading

    async def _read(self, indices: Sequence[int]) -> dict[str, str]:
        """Return the stored replies that have still to be judged, by the id of their text."""
        is_to_ask = {index for index in indices if self._is_to_ask(self.stored.get(index))}
        if not self.replay:  # which has read every answer
            await self.gateway.prefetch(self.runs[index].request for index in is_to_ask)
        answered = [self.stored[index] for index in indices if index not in is_to_ask]
        return await asyncio.to_thread(reply_texts, self.store, answered)

    async def _finish(self, item: tuple[int, Callable[[], _Texts]]) -> None:
        index, reading = item
        texts = await asyncio.shield(reading())
        run, stored = self.runs[index], self.stored.pop(index, None)
        text = texts.get(stored.blob_id or "") if stored else None
        if self._is_to_ask(stored):
            try:
                answers, defect = await self._ask(run)
            except ModelError as error:
                if error.reason in ("stopped", UNREACHABLE):
                    return  # still to be asked, so neither failed nor one of those that the progress counts
                if not self.replay:
                    self.bar.fail("runs")
                    message = f"{error.reason}: {error}"
                    self._post(failed_run_record(*self._key_and_facts(run), message))
                stored = None
            else:
                text, stored = answers[-1].reply.text, self._save(run, answers, defect, stored)
        self.writer.check()
        is_whole = not (stored and self._is_to_judge(stored)) or await self._judge(run, stored, text)
        if is_whole or not self.stop.is_set():
            self.bar.step(self.gateway.counters)

    async def _ask(self, run: PlannedRun) -> tuple[list[Answer], str | None]:
        """Return the answers to a run, the last of which counts, and what keeps that from being whole."""
        request, retries = run.request, self.plan.study.replies.retries
        answers = [self._read_reply(await self.gateway.ask(request, purpose="run"))]
        while (
            (defect := answers[-1].reply.defect)
            and self.policies[defect] == "retry"
            and len(answers) <= retries
        ):
            request = replace(request, max_tokens=2 * request.max_tokens)
            answers.append(self._read_reply(await self.gateway.ask(request, purpose="run")))
        return answers, defect

    def _read_reply(self, answer: Answer) -> Answer:
        """Return an answer without the thoughts in its text, unless the study keeps them; the ledger has all of it."""
        reply = answer.reply
        text, thoughts = split_thoughts(reply.text)
        if self.plan.study.replies.thoughts == "keep" or not thoughts:
            return answer
        # A provider that sends thoughts in the text seldom counts them; what is known is their share of the text.
        share = round(reply.usage.output * len(thoughts) / len(reply.text))
        usage = replace(reply.usage, reasoning=max(reply.usage.reasoning, share))
        return replace(answer, reply=replace(reply, text=text, usage=usage))

    def _key_and_facts(self, run: PlannedRun) -> tuple[dict[str, Any], dict[str, Any]]:
        key = {
            "study": self.plan.study.name,
            "test": self.plan.test.name,
            "prompt_id": run.prompt.prompt_id,
            "model": run.model,
            "repeat": run.repeat,
            "call_id": run.call_id,
        }
        return key, {
            "prompt_length_bin" if run.level in LENGTH_BINS else "level": run.level or None,
            "test_item": run.item.item_id,
            "dataset_version": self.plan.dataset.version,
            "bias_controls": self.controls,
            "reasoning_effort": run.spec.reasoning_effort or run.spec.thinking_level,
        }

    def _save(
        self, run: PlannedRun, answers: Sequence[Answer], defect: str | None, before: StoredRun | None
    ) -> StoredRun:
        """Queue the record of a run; if we die before it is written, the next start makes it from the ledger."""
        policy = self.policies[defect] if defect else None
        *blobs, record = run_records(
            *self._key_and_facts(run), answers, defect=defect, policy=policy, texts=self.texts
        )
        for blob in blobs:
            # In a replay its id may be there with another text, which somebody edited.
            change = {"$set": {"content": blob.document["content"]}} if self.replay else None
            self._post(replace(blob, change=change))
        self.texts.add(record.document["output_blob_id"])
        earlier = self.documents.of(record)
        if earlier is None and before is not None:
            self.writer.post(record, {"_id": before.document_id})
            return replace(stored_run(record.document), document_id=before.document_id, run_id=before.run_id)
        self._post(record)
        return stored_after(record, earlier)

    async def _judge(self, run: PlannedRun, stored: StoredRun, text: str | None) -> bool:
        """Have a reply annotated, and save what judges of the study say; return whether each of them has answered."""
        is_whole = True
        reached: list[BudgetReached] = []

        async def ask(request: ModelRequest) -> Answer:
            try:
                return await self.gateway.ask(request, purpose="judge")
            except BudgetReached as error:  # what other judges said of this run is written all the same
                reached.append(error)
                raise ModelError(str(error), reason="stopped") from error

        item = replace(run.item, prompts=(run.prompt,))
        reply = PromptReply(run.prompt, text, stored.run_id, run.model, run.repeat)
        annotated = await annotated_by(self.plan.test, item, (reply,), ask, self.stop)
        if self.plan.test.judged:
            judgements = [
                judgement for (judgement,) in annotated.annotations.values() if judgement is not None
            ]
            self.bar.fail("judgements", sum(j.failed and not j.interrupted for j in judgements))
            # A judge that gave no answer is asked again next time; an answer that cannot be read is a result.
            is_whole = all(judgement.answered and not judgement.interrupted for judgement in judgements)
            present = with_earlier(self.store, stored, judgements)
            judgements = [judgement for judgement in present if not self.excused(stored, judgement)]
            for judgement in judgements:
                self._post(annotation_record(stored.run_id, self.plan.study.name, judgement))
            if judgements:
                whole_ensemble = is_whole and len(judgements) == len(present)
                key = self.plan.ensemble_key if whole_ensemble else None
                scheme, judges = self.plan.rubric.scheme, self.plan.judges.values()
                fields = evaluation_fields(judgements, key, stored.blob_id, self.controls, scheme, judges)
                earlier = self.documents.by_id.get(stored.document_id)
                change = Record("runs", {}, {"_id": stored.document_id}, {"$set": fields, **TOUCH})
                if earlier is None:  # behind the record of the run, which may be on its way
                    self.writer.post(change, {"_id": stored.document_id})
                elif change.changes(earlier):
                    self.writer.post(change, earlier)
        self.writer.check()
        if reached:
            raise reached[0]
        return is_whole

    def _post(self, record: Record) -> None:
        earlier = self.documents.of(record)
        if earlier is None or record.changes(earlier):
            self.writer.post(record, earlier)


async def _write_free(execution: _Execution) -> None:
    """Write what the ledger has of a study that died before it wrote it: it costs nothing, so it comes first."""
    execution.gateway.free = True
    try:
        await execution.run(shown=False)
        for stage in automatic_stages():
            await _ask_stage(stage, execution, None, shown=False)
    finally:
        execution.gateway.free = False


async def _ask_stage(
    stage: Stage, execution: _Execution, batches: Batches | None, *, shown: bool
) -> BudgetReached | None:
    """Have judges answer what a stage has still to ask of the replies that are there, and save each answer."""
    plan, store, gateway, writer = execution.plan, execution.store, execution.gateway, execution.writer
    pending = unpaid(stage, plan, store, execution.runs.call_ids, all_tasks=execution.replay)
    if not pending:
        return None
    if batches:
        await batches.fill(requests_of(pending), stage.purpose)
    if batches or gateway.free:
        await gateway.prefetch(requests_of(pending))
    bar = Progress(stage.name, len(pending), shown=shown, since=gateway.counters, waiting=gateway.waiting)
    groups: dict[Any, list[Pending]] = defaultdict(list)
    for item in pending:
        groups[item.task.judge.provider, item.task.judge.endpoint].append(item)

    async def work(item: Pending) -> None:
        judgement = await item.answer(writer, partial(gateway.ask, purpose=stage.purpose))
        writer.check()
        bar.fail(stage.name, int(judgement.failed and not judgement.interrupted))
        if judgement.answered or not execution.stop.is_set():
            bar.step(gateway.counters)

    try:
        return await each(groups.values(), work, at_once=execution.at_once, stop=execution.stop)
    finally:
        bar.close()
        await writer.settled()


def ask_stage(
    stage: Stage, plan: Plan, store: Store, *, progress: bool = True
) -> tuple[list[Judgement], list[Answer]]:
    """Ask all of a stage that is no part of a run; return its judgements, and the answers that were paid for now.

    What the ledger has is not asked again.
    """
    pending = unpaid(stage, plan, store, plan.call_ids, all_tasks=True)

    async def work(ask: Ask, stop: threading.Event) -> list[Judgement]:
        return await all_of(item.answer(store.writer, ask) for item in pending)

    purpose = stage.purpose
    label = "judge calls" if purpose == "judge" else stage.name
    return ask_study(
        plan, store, work, requests=requests_of(pending), label=label, purpose=purpose, progress=progress
    )


def ask_study(
    plan: Plan,
    store: Store,
    work: Callable[[Ask, threading.Event], Awaitable[R]],
    *,
    requests: Sequence[ModelRequest],
    label: str = "judge calls",
    purpose: str = "judge",
    progress: bool = True,
) -> tuple[R, list[Answer]]:
    """Do work that asks judges of a study beside its runs: through its gateway, into its ledger, under its budget.

    What the ledger has is not asked again. With the ``purpose`` "write" any of its models may be asked. Returned are
    what the work returns, and the answers that were paid for now.
    """
    if purpose != "write" and not plan.judges:
        raise InputError(f"study {plan.study.name}: has no judges to ask; name them under [judges]")
    pending, worst = at_worst(plan, store, requests)
    keys = {(request.provider, request.model, request.endpoint) for request in pending}
    stop, endpoints, paid = threading.Event(), endpoints_of(plan), list[Answer]()
    refuse_keyless((end.spec for end in endpoints if end.key in keys), plan.folder)

    async def execute() -> R:
        gateway = _gateway(plan, store, endpoints, stop)
        gateway.counters.worst_aud = worst
        bar = Progress(label, len(requests), shown=progress, since=gateway.counters, waiting=gateway.waiting)

        async def ask(request: ModelRequest) -> Answer:
            try:
                answer = await gateway.ask(request, purpose=purpose)
            except ModelError as error:
                bar.fail(label, int(error.reason != "stopped"))
                raise
            if not answer.from_ledger:
                paid.append(answer)
            bar.step(gateway.counters)
            return answer

        try:
            gateway.open()
            take_up(store, plan.output)
            return await work(ask, stop)
        finally:
            await gateway.close()
            bar.close()
            await store.writer.settled()

    return run_anywhere(execute, stop), paid


def _batches(plan: Plan, gateway: Gateway, stop: threading.Event, *, shown: bool) -> Batches | None:
    """Return the batches of a study: also of one that asks singly now, what open ones hold is paid for."""
    if plan.study.mode != "batch" and not gateway.held:
        return None
    client, poll = partial(open_batch_client, folder=plan.folder), plan.study.batch_poll_seconds
    return Batches(gateway, client, poll_seconds=poll, stop=stop, shown=shown)


async def _ask_in_batches(plan: Plan, runs: PlannedRuns, store: Store, batches: Batches) -> None:
    tried: set[str] = set()
    while (
        requests := [  # again, for replies that are asked for once more with twice the tokens
            state.request
            for state in states_ahead(plan, store)[: len(runs)]
            if state.request and state.request.identity() not in tried
        ]
    ):
        tried.update(request.identity() for request in requests)
        await batches.fill(requests, "run")


def _gateway(
    plan: Plan, store: Store, endpoints: Sequence[Endpoint], stop: threading.Event, *, replay: bool = False
) -> Gateway:
    ledger, study = Ledger(store, plan.study.name, plan.output), plan.study
    return Gateway(
        ledger,
        endpoints,
        concurrency=int(share_of(study.concurrency, None)),
        budget_aud=study.budget.aud,
        seed=study.seed,
        stop=stop,
        replay=replay,
    )


def at_worst(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> tuple[list[ModelRequest], float]:
    """Return which of some requests are still to be asked, and what that may cost in AUD within the budget.

    Examples
    --------
    >>> tasks = hallucination_tasks(study.plan, read_items("security"), ["cot"])  # doctest: +SKIP
    >>> unpaid, aud = at_worst(study.plan, study.store, comparison_requests(tasks, k=5))  # doctest: +SKIP
    """
    unpaid = _unpaid(plan, store, requests)
    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    worst = total_aud(
        worst_aud(request, endpoints[request.provider, request.model, request.endpoint]) for request in unpaid
    )
    return unpaid, min(worst, budget_left(plan, store))


def confirm_asking(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> None:
    """Refuse to ask what may cost more than ``budget.confirm_above_aud`` unless it was confirmed."""
    pending, worst = at_worst(plan, store, requests)
    threshold = plan.study.budget.confirm_above_aud
    if worst > threshold:
        raise InputError(
            f"these {len(pending)} calls may cost {money(worst)}, more than budget.confirm_above_aud = "
            f"{threshold:.2f}; add --yes"
        )


def _unpaid(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> list[ModelRequest]:
    by_id = {request.identity(): request for request in requests}
    paid = Ledger(store, plan.study.name).prefetch(by_id)
    return [request for call_id, request in by_id.items() if call_id not in paid]
