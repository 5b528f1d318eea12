"""What judges are asked beside the scores of a study, said once for each kind of question.

A `Stage` says which tasks a study has, what each asks, and what is made of the reply. Estimate, execution, provider
batches, status, resume and verify go over stages with the functions below, which know no stage by name; so a new one
cannot be forgotten by any of them.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from toolkit.errors import ModelError
from toolkit.files.digests import digest
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.plan import Plan, RunKey
from toolkit.runs.execution import run_anywhere
from toolkit.runs.ledger import Ledger
from toolkit.runs.run_state import RunState
from toolkit.store.connection import Store
from toolkit.store.documents import Annotation
from toolkit.store.records import MOMENTS, Stored, annotation_record, reply_texts, stored_runs
from toolkit.store.writer import Document, Fields, Record, differing
from toolkit.words import reason_key

Replies = Mapping[RunKey, Stored]
"""How runs stand in the store, by prompt, model and repeat."""
_SHOWN = "Reply."


@dataclass(frozen=True)
class Task:
    """One question to one judge: about the reply to a run, or to several in the order in which they are shown."""

    judge: JudgeSpec  # with the repeat index of its call
    runs: tuple[RunKey, ...]
    context: str = ""
    """What names it besides, such as the anchor set that a judgement is asked anew for."""
    day: str = ""  # UTC, where the same is asked on several days

    @property
    def name(self) -> tuple[Any, ...]:
        """What names the task within its stage."""
        return self.judge.role, self.runs, self.context, self.day

    @property
    def related(self) -> bool:
        """Whether the judge shares a family with a model that is shown."""
        return any(model in self.judge.related for _, model, _ in self.runs)

    def shown(self, replies: Replies) -> tuple[Stored, ...] | None:
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
    work: Callable[[Plan, Task, Sequence[str], Ask], Awaitable[Judgement]]
    automatic: bool = True  # a part of `toolkit run`; others have a command of their own
    purpose: str = "judge"  # of its calls in the ledger


@dataclass(frozen=True)
class Pending:
    """A task whose replies are there, with its requests; ``earlier`` is its annotation in the store, if any."""

    stage: Stage
    task: Task
    shown: tuple[Stored, ...]
    texts: tuple[str, ...]
    requests: Sequence[ModelRequest]
    question: str
    earlier: Document | None

    async def answered(self, plan: Plan, store: Store, ask: Ask) -> Judgement:
        """Have the judge answer, and save what the store does not have of it yet."""
        judgement = await self.stage.work(plan, self.task, self.texts, ask)
        if not judgement.interrupted:
            record = self.record(plan, judgement)
            if self.earlier is None or record.changes(self.earlier):
                store.writer.post(record, self.earlier)
        return judgement

    def record(self, plan: Plan, judgement: Judgement) -> Record:
        """Return the record of the answer."""
        shown = [{"run_id": run.run_id, "blob_id": run.blob_id} for run in self.shown]
        fields = {"kind": self.stage.name, "context": _context(self.task, self.shown)}
        fields |= {"day": self.task.day} if self.task.day else {}
        return annotation_record(
            self.shown[0].run_id,
            plan.study.name,
            judgement,
            **fields,
            shown=shown,
            question=self.question,
        )


def is_usable(run: Stored | None) -> bool:
    """Return whether a reply can be shown: it is there, and the study does not leave it out."""
    return run is not None and not (run.failure or run.excluded)


def annotations(stage: Stage, plan: Plan, store: Store, replies: Replies) -> dict[tuple[Any, ...], Document]:
    """Return the annotations of a stage that answer what would be asked now about the replies of now, by task."""
    tasks = [*stage.tasks(plan, store)]
    if not tasks:
        return {}
    question = _questions(stage, plan)
    query = {"study": plan.study.name, "kind": stage.name}
    stored = {_address(document): document for document in store.each_where(Annotation, query)}
    present = {}
    for task in tasks:
        if shown := task.shown(replies):
            document = stored.get(_address(_identity(task, shown, question(task))))
            if document is not None:
                present[task.name] = document
    return present


def unpaid(
    stage: Stage, plan: Plan, store: Store, call_ids: Collection[str], *, again: bool = False
) -> list[Pending]:
    """Return what has still to be asked about the replies that are there; with ``again`` all of it."""
    replies = stored_runs(store, plan.study.name, call_ids)
    present, question = annotations(stage, plan, store, replies), _questions(stage, plan)
    pending: list[tuple[Task, tuple[Stored, ...]]] = []
    for task in stage.tasks(plan, store):
        earlier = present.get(task.name)
        if (shown := task.shown(replies)) and (again or not (earlier and earlier["answered"])):
            pending.append((task, shown))
    texts = reply_texts(store, (run for _, shown in pending for run in shown))
    result = []
    for task, shown in pending:
        seen = tuple(texts.get(run.blob_id or "", "") for run in shown)
        requests = stage.requests(plan, task, seen)
        result.append(Pending(stage, task, shown, seen, requests, question(task), present.get(task.name)))
    return result


def unpaid_by_role(
    stage: Stage, plan: Plan, store: Store, states: Iterable[RunState]
) -> tuple[dict[str, list[tuple[Task, tuple[RunState, ...]]]], Counter[str]]:
    """Return what each judge will have to be paid for, replies to come included, and how many tasks are paid."""
    by_key = {state.run.key: state for state in states}
    replies = {key: state.stored for key, state in by_key.items() if state.stored and not state.request}
    present = annotations(stage, plan, store, replies)
    pending = {task.task.name: task for task in unpaid(stage, plan, store, plan.call_ids)}
    # A process that was killed may have left answers in the ledger of which the store has no annotation.
    first = {name: task.requests[0].identity() for name, task in pending.items()}
    in_ledger = Ledger(store, plan.study.name).prefetch(first.values())
    ahead: dict[str, list[tuple[Task, tuple[RunState, ...]]]] = defaultdict(list)
    paid: Counter[str] = Counter()
    for task in stage.tasks(plan, store):
        shown = tuple(by_key[key] for key in task.runs)
        if all(state.to_judge for state in shown):
            annotation = present.get(task.name)
            if (annotation and annotation["answered"]) or first.get(task.name) in in_ledger:
                paid[task.judge.role] += 1
            else:
                ahead[task.judge.role].append((task, shown))
    return ahead, paid


def count(stage: Stage, plan: Plan, store: Store) -> dict[str, Any]:
    """Return how many tasks are planned, left out with a reply that does not count, answered, read and missing."""
    replies = stored_runs(store, plan.study.name, plan.call_ids)
    present = annotations(stage, plan, store, replies)
    planned = Counter(
        "left_out"
        if any(run is not None and run.excluded for run in map(replies.get, task.runs))
        else "answered"
        if task.name in present and present[task.name]["answered"]
        else "missing"
        for task in stage.tasks(plan, store)
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


def count_line(counts: Mapping[str, Any]) -> str:
    """Return the counts of a stage as the command line shows them."""
    line = f"{counts['answered']} of {counts['planned']} answered, {counts['read']} of them can be read"
    if counts["left_out"]:
        line += f", {counts['left_out']} left out"
    return line + "".join(f", {number} x {reason}" for reason, number in counts["unread"].items())


def differences(stage: Stage, plan: Plan, store: Store, shared: Callable[[], set[str]]) -> Iterator[str]:
    """Yield a line for each annotation that is not what the ledger gives; nobody is asked.

    One that is not there may be missing where another study, or another record, paid for its calls (``shared``): a
    study that was stopped did not come to it.
    """
    query = {"study": plan.study.name, "kind": stage.name}
    if not (stage.automatic or store.has(Annotation, query)):
        return  # nobody asked for it
    ledger = Ledger(store, plan.study.name)
    tasks = unpaid(stage, plan, store, plan.call_ids, again=True)
    answers = ledger.prefetch(task.requests[0].identity() for task in tasks)
    tasks = [task for task in tasks if task.earlier or task.requests[0].identity() in answers]

    async def ask(request: ModelRequest) -> Answer:
        if (call_id := request.identity()) not in answers:
            answers.update(ledger.prefetch([call_id]))  # a repair
        if call_id not in answers:
            raise ModelError("not in the ledger", reason="absent")
        return ledger.whole(call_id) if request.top_logprobs else answers[call_id]

    async def answered_anew() -> list[tuple[Pending, Judgement]]:
        return [(task, await stage.work(plan, task.task, task.texts, ask)) for task in tasks]

    for pending, judgement in run_anywhere(answered_anew, threading.Event()):
        stored, task = pending.earlier, pending.task
        (prompt_id, _, repeat), models = task.runs[0], " and ".join(model for _, model, _ in task.runs)
        name = f"{stage.name} of {task.judge.role} on {prompt_id} by {models}, repeat {repeat}"
        name += f", {task.day}" if task.day else ""
        if stored is None:
            if stage.automatic and judgement.answered and not shared().issuperset(judgement.call_ids):
                yield f"{name}: is missing, and the ledger gives it"
        elif stored["answered"] and pending.requests[0].identity() not in answers:
            yield f"{name}: the ledger does not give it"
        elif stored["answered"]:
            expected = dict.fromkeys(stored) | dict(pending.record(plan, judgement).document)
            if parts := set(differing(stored, expected)) - {"_id", *MOMENTS}:
                yield f"{name}: {', '.join(sorted(parts))} differ from what the ledger gives"


def _questions(stage: Stage, plan: Plan) -> Callable[[Task], str]:
    """Return what gives the hash of a question, its replies aside: of judge, prompt, wording and settings."""

    @cache
    def of(role: str, prompt_ids: tuple[str, ...], day: str) -> str:
        runs = tuple((prompt_id, "", 0) for prompt_id in prompt_ids)
        judge = plan.judges[role]
        request = stage.requests(plan, Task(judge, runs, day=day), [_SHOWN] * len(runs))[0]
        return digest(request.identity(), role, judge.name, plan.manner.repair)

    return lambda task: of(task.judge.role, tuple(key[0] for key in task.runs), task.day)


def _context(task: Task, shown: Sequence[Stored]) -> str:
    return task.context or "".join(run.run_id for run in shown[1:])


def _identity(task: Task, shown: Sequence[Stored], question: str) -> Fields:
    """Return the fields by which the annotation of a task is found in the store."""
    return {
        "judge": task.judge.role,
        "context": _context(task, shown),
        "question": question,
        "shown": [{"run_id": run.run_id, "blob_id": run.blob_id} for run in shown],
    }


def _address(fields: Fields) -> tuple[Any, ...]:
    shown = tuple((reply["run_id"], reply["blob_id"]) for reply in fields["shown"])
    return fields["judge"], fields["context"], fields["question"], shown
