"""Questions to judges: one `Stage` for each kind.

A `Stage` says which tasks a study has, what each asks, and what is made of the reply. Estimate, execution, provider
batches, status, resume and verify go over stages with the functions below, which know no stage by name; so a new one
cannot be forgotten by any of them. Judgements of runs are a stage too; they are asked and counted with their runs.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from toolkit.files.digests import digest
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Ask, ModelRequest
from toolkit.plan import Plan, RunKey
from toolkit.runs.ledger import Ledger
from toolkit.runs.run_state import RunState, stored_states
from toolkit.store.connection import Store
from toolkit.store.documents import Annotation
from toolkit.store.records import MOMENTS, StoredRun, annotation_record, reply_texts, stored_runs
from toolkit.store.writer import Document, Fields, Record, differing
from toolkit.words import reason_key

RunsByKey = Mapping[RunKey, StoredRun]
"""How runs stand in the store, by prompt, model and repeat."""
_SHOWN = "Reply."


@dataclass(frozen=True)
class Task:
    """One question to one judge: about the reply to a run, or to several in the order in which they are shown."""

    judge: JudgeSpec  # with the repeat index of its call
    runs: tuple[RunKey, ...]
    context: str = ""
    """Further part of its name, such as the anchor set that a judgement is asked anew for."""
    day: str = ""  # UTC, where the same is asked on several days

    @property
    def related(self) -> bool:
        """Whether the judge shares a family with a model that is shown."""
        return any(model in self.judge.related for _, model, _ in self.runs)

    def usable_runs(self, replies: RunsByKey) -> tuple[StoredRun, ...] | None:
        """Return the replies as they stand, ``None`` where one is missing or the study leaves it out."""
        stored = [replies.get(key) for key in self.runs]
        return tuple(run for run in stored if run) if all(map(is_usable, stored)) else None


@dataclass(frozen=True)
class Stage:
    """One kind of question that a study pays for beside its runs and their scores."""

    name: str
    """Plural noun: kind of its annotations, label of its progress and of its counts."""
    tasks: Callable[[Plan, Store], Iterable[Task]]
    requests: Callable[[Plan, Task, Sequence[str]], Sequence[ModelRequest]]
    """All requests about some texts, repairs aside; the first one names the annotation."""
    judge: Callable[[Plan, Task, Sequence[str], Ask], Awaitable[Judgement]]
    automatic: bool = True  # a part of `toolkit run`; others have a command of their own
    purpose: str = "judge"  # of its calls in the ledger
    parts: Callable[[Plan, float], float] = lambda plan, tokens: 1.0
    """How many requests a task makes about a reply of so many tokens, as far as its length tells, repairs aside."""
    blank: Callable[[Plan, Task], tuple[ModelRequest, str]] | None = None
    """A request without prompt and replies, and what is shown of a prompt: for estimates that count them apart."""
    answered: Callable[[RunState, Task], Collection[str]] | None = None
    """The calls that have answered a task, where the states of its runs say it and not its annotations."""


@dataclass(frozen=True)
class Pending:
    """A task about some runs with their replies; ``earlier`` is its annotation in the store, if any."""

    stage: Stage
    plan: Plan
    task: Task
    shown: tuple[RunState, ...]
    texts: tuple[str, ...]  # fewer than runs where a reply is still to come
    question_hash: Callable[[Task], str]
    earlier: Document | None

    @property
    def is_ready(self) -> bool:
        """Whether all replies are there."""
        return len(self.texts) == len(self.shown)

    @property
    def requests(self) -> Sequence[ModelRequest]:
        """All requests, repairs aside; none where a reply is still to come."""
        return self.stage.requests(self.plan, self.task, self.texts) if self.is_ready else ()

    async def answer(self, writer: Any, ask: Ask) -> Judgement:
        """Have the judge answer, and save what the store does not have of it yet."""
        judgement = await self.stage.judge(self.plan, self.task, self.texts, ask)
        if not judgement.interrupted:
            record = self.record(judgement)
            expected = dict.fromkeys(self.earlier or ()) | dict(record.document)
            if self.earlier is None or {*differing(self.earlier, expected)} - {"_id", *MOMENTS}:
                writer.post(record, self.earlier)
        return judgement

    def record(self, judgement: Judgement) -> Record:
        """Return the record of the answer."""
        shown = tuple(state.stored for state in self.shown if state.stored)
        fields = {"kind": self.stage.name} | ({"day": self.task.day} if self.task.day else {})
        fields |= _identity(self.task, shown, self.question_hash(self.task))
        return annotation_record(shown[0].run_id, self.plan.study.name, judgement, **fields)


def is_usable(run: StoredRun | None) -> bool:
    """Return whether a reply can be shown: it is there, and the study does not leave it out."""
    return run is not None and not (run.failure or run.excluded)


def annotations(
    stage: Stage, plan: Plan, store: Store, tasks: Sequence[Task], replies: RunsByKey
) -> dict[Task, Document]:
    """Return the annotations of a stage that answer what would be asked now about the replies of now, by task."""
    if not tasks:
        return {}
    question_hash = _question_hasher(stage, plan)
    query = {"study": plan.study.name, "kind": stage.name}
    stored = {_address(row["judge"], row): row for row in store.each_where(Annotation, query)}
    present = {}
    for task in tasks:
        if shown := task.usable_runs(replies):
            document = stored.get(_address(task.judge.role, _identity(task, shown, question_hash(task))))
            if document is not None:
                present[task] = document
    return present


def pending_tasks(
    stage: Stage, plan: Plan, store: Store, states: Iterable[RunState], *, all_tasks: bool = False
) -> tuple[list[Pending], dict[str, set[str]]]:
    """Return the tasks about some runs without an answer (``all_tasks``: all), and the calls of answers by role."""
    if not (tasks := [*stage.tasks(plan, store)]):
        return [], defaultdict(set)
    by_key = {state.run.key: state for state in states}
    replies = {key: state.stored for key, state in by_key.items() if state.stored and not state.request}
    present = {} if stage.answered else annotations(stage, plan, store, tasks, replies)
    wanted: list[tuple[Task, tuple[RunState, ...]]] = []
    answered: dict[str, set[str]] = defaultdict(set)
    for task in tasks:
        shown = tuple(by_key[key] for key in task.runs if key in by_key)
        if len(shown) < len(task.runs) or not all(state.to_judge for state in shown):
            continue
        earlier = present.get(task)
        if stage.answered:
            calls = stage.answered(shown[0], task)
        else:
            calls = [earlier["call_id"]] if earlier and earlier["answered"] else []
        answered[task.judge.role].update(calls)
        if all_tasks or not calls:
            wanted.append((task, shown))
    texts = reply_texts(store, (state.stored for _, shown in wanted for state in shown if state.stored))
    pending, question_hash = [], _question_hasher(stage, plan)
    for task, shown in wanted:
        seen = tuple(text for state in shown if (text := state.reply(texts)) is not None)
        pending.append(Pending(stage, plan, task, shown, seen, question_hash, present.get(task)))
    return pending, answered


def unpaid(
    stage: Stage, plan: Plan, store: Store, call_ids: Collection[str], *, all_tasks: bool = False
) -> list[Pending]:
    """Return what has still to be asked about the replies that are in the store; with ``all_tasks`` all of it."""
    pending, _ = pending_tasks(stage, plan, store, stored_states(plan, store, call_ids), all_tasks=all_tasks)
    return [item for item in pending if item.is_ready]


def requests_of(pending: Iterable[Pending]) -> list[ModelRequest]:
    """Return the requests of some tasks, repairs aside."""
    return [request for item in pending for request in item.requests]


def stage_requests(stage: Stage, plan: Plan, store: Store) -> list[ModelRequest]:
    """Return every request of a stage about the replies that are there, to estimate the cost."""
    return requests_of(unpaid(stage, plan, store, plan.call_ids, all_tasks=True))


def unpaid_by_role(
    stage: Stage, plan: Plan, store: Store, states: Sequence[RunState]
) -> tuple[dict[str, list[tuple[Pending, float]]], dict[str, set[str]]]:
    """Return what each judge will have to be paid for, with the share of its calls, and the calls that are paid.

    Equal requests are one call. Of a reply that is still to come nobody knows whether it will equal another.
    """
    pending, paid = pending_tasks(stage, plan, store, states)
    calls: list[set[Any]] = [{request.identity() for request in item.requests} for item in pending]
    # A process that was killed may have left answers in the ledger of which the store has no annotation.
    in_ledger = set(Ledger(store, plan.study.name).prefetch(chain.from_iterable(calls)))
    unpaid_tasks: dict[str, list[tuple[Pending, float]]] = defaultdict(list)
    counted = set(in_ledger)
    for item, ids in zip(pending, calls, strict=True):
        judge = item.task.judge
        # Runs of one call will have one reply.
        ids = ids or {(judge.role, judge.repeat, *(state.run.call_id for state in item.shown))}
        if new := ids - counted:
            unpaid_tasks[judge.role].append((item, len(new) / len(ids)))
        counted |= new
        paid[judge.role] |= ids & in_ledger
    return unpaid_tasks, paid


def count(stage: Stage, plan: Plan, store: Store) -> dict[str, Any]:
    """Return how many tasks are planned, left out with a reply that does not count, answered, read and missing."""
    tasks = [*stage.tasks(plan, store)]
    replies = stored_runs(store, plan.study.name, plan.call_ids) if tasks else {}
    present = annotations(stage, plan, store, tasks, replies)
    planned = Counter(
        "left_out"
        if any(run is not None and run.excluded for run in map(replies.get, task.runs))
        else "answered"
        if task in present and present[task]["answered"]
        else "missing"
        for task in tasks
    )
    answered = [document for document in present.values() if document["answered"]]
    unread = (document["reason"] for document in answered if document["reason"])
    return {
        "planned": planned.total(),
        "left_out": planned["left_out"],
        "answered": planned["answered"],
        "read": sum(document["reason"] is None for document in answered),
        "missing": planned["missing"],
        "unread": dict(Counter(map(reason_key, unread))),
    }


def _question_hasher(stage: Stage, plan: Plan) -> Callable[[Task], str]:
    """Return a function that hashes the question of a task (judge, prompt, wording, settings) without its replies."""

    @cache
    def of(role: str, prompt_ids: tuple[str, ...], day: str) -> str:
        runs = tuple((prompt_id, "", 0) for prompt_id in prompt_ids)
        judge = plan.judges[role]
        request = stage.requests(plan, Task(judge, runs, day=day), [_SHOWN] * len(runs))[0]
        return digest(request.identity(), role, judge.name, plan.manner.repair)

    return lambda task: of(task.judge.role, tuple(key[0] for key in task.runs), task.day)


def _identity(task: Task, shown: Sequence[StoredRun], question_hash: str) -> Document:
    """Return the fields by which the annotation of a task of a judge is found in the store."""
    return {
        "context": task.context or "".join(run.run_id for run in shown[1:]),
        "shown": [{"run_id": run.run_id, "blob_id": run.blob_id} for run in shown],
        "question": question_hash,
    }


def _address(judge: str, fields: Fields) -> tuple[Any, ...]:
    shown = tuple((reply["run_id"], reply["blob_id"]) for reply in fields["shown"])
    return judge, fields["context"], fields["question"], shown
