"""Asks the judges of a study the same again on a later day, to see whether they still judge as they did.

A provider can change what answers under a name. The replies that are judged anew are drawn once, so that days can be
compared; what judges say of them then is stored apart and is no judgement of the study.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError, ModelError
from toolkit.judges.judgement import Judgement, judge, judgement_requests
from toolkit.judges.request import DAY_STRIDE, JudgeSpec
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan, PlannedRun
from toolkit.probes.job import balanced_sample, usable_replies
from toolkit.runs.ledger import Ledger
from toolkit.store.connection import Store
from toolkit.store.documents import Anchor, Drift
from toolkit.store.drifts import anchor_document, anchor_label, anchors_of
from toolkit.store.records import judgement_record, stored_judgements, stored_runs
from toolkit.store.writer import Duplicate, utc_now
from toolkit.words import Summary, counted, money, total_aud

if TYPE_CHECKING:
    from toolkit.study import Study

_FIRST_DAY: Final = date(1970, 1, 1)
_Replies = Mapping[tuple[str, str, int], tuple[str, str]]


def on_day(request: ModelRequest, day: date) -> ModelRequest:
    """Return a request as it is asked anew on a day: the same to its model, another call to the ledger."""
    return replace(request, repeat=request.repeat + DAY_STRIDE * (day - _FIRST_DAY).days)


@dataclass(frozen=True)
class Target:
    """One judgement that is asked anew: the run, its reply, and the judge as it was asked first."""

    run: PlannedRun
    run_id: str
    text: str
    judge: JudgeSpec

    def requests(self, plan: Plan) -> tuple[ModelRequest, ...]:
        """Return the requests of the first judgement, repairs aside; the first one names it."""
        material = {"task": self.run.prompt.text, "response": self.text, "reference": self.reference}
        return judgement_requests(self.judge, plan.rubric, **material, manner=plan.manner)

    @property
    def reference(self) -> str:
        """The reference answer of the prompt, empty where it has none."""
        return str(self.run.prompt.context or "")


@dataclass(frozen=True)
class Job:
    """An anchor set with the judgements that are asked anew on one day."""

    plan: Plan
    anchor: Mapping[str, Any]
    targets: tuple[Target, ...]
    day: date

    def requests(self) -> tuple[ModelRequest, ...]:
        """Return every request of the day, repairs aside, to estimate its cost."""
        firsts = (request for target in self.targets for request in target.requests(self.plan))
        return tuple({(again := on_day(request, self.day)).identity(): again for request in firsts}.values())

    async def judgement(self, target: Target, ask: Ask) -> Judgement:
        """Have one judge judge a reply anew."""

        async def ask_anew(request: ModelRequest) -> Answer:
            return await ask(on_day(request, self.day))

        judgement = await judge(
            target.text, target.run.prompt.text, judge=target.judge, rubric=self.plan.rubric, ask=ask_anew,
            manner=self.plan.manner, related=target.run.model in target.judge.related, reference=target.reference,
        )  # fmt: skip
        return replace(judgement, call_id=on_day(target.requests(self.plan)[0], self.day).identity())


def drift_job(plan: Plan, store: Store, size: int, day: date | None = None) -> Job:
    """Return what is asked anew today (UTC): the anchor set of this size as it was drawn first, or a new one."""
    name, today = plan.study.name, day or utc_now().date()
    if not (plan.test.judged and plan.judges):
        message = f"study {name}: no judge scores its replies (test {plan.test.name}), so none can drift"
        raise InputError(message)
    replies = usable_replies(plan, store)
    for anchor in anchors_of(store, name):
        if anchor["size"] == size and (targets := _targets_of(plan, replies, anchor)):
            return Job(plan, anchor, targets, today)
    runs = {key: run for key, run in stored_runs(store, name, plan.call_ids).items() if key in replies}
    whole = [run for run in runs.values() if run.ensemble_key == plan.ensemble_key]
    scored = {
        run_id
        for run_id, judgements in stored_judgements(store, whole, plan.rubric.digest).items()
        if not any(judgement.failed for judgement in judgements.values())
    }
    candidates = [run for run in plan.runs if replies.get(run.key, ("", ""))[0] in scored]
    chosen = balanced_sample(candidates, size, plan.study.seed)
    if not chosen:
        raise InputError(
            f"study {name}: no run is scored by all judges as the study file has them now; finish it by `toolkit run`"
        )
    targets = tuple(target for run in chosen for target in _targets(plan, run, *replies[run.key]))
    calls: dict[str, dict[str, str]] = {}
    for target in targets:
        calls.setdefault(target.run_id, {})[target.judge.role] = target.requests(plan)[0].identity()
    content = [
        {"run_id": run_id, "blob_id": _sha256(text), "calls": calls[run_id]}
        for run_id, text in (replies[run.key] for run in chosen)
    ]
    return Job(plan, anchor_document(name, size, plan.rubric.digest, content), targets, today)


def _targets(plan: Plan, run: PlannedRun, run_id: str, text: str) -> tuple[Target, ...]:
    judges = plan.judges_of(run.model).values()
    return tuple(Target(run, run_id, text, judge_spec.of_run(run.repeat)) for judge_spec in judges)


def _targets_of(plan: Plan, replies: _Replies, anchor: Mapping[str, Any]) -> tuple[Target, ...]:
    """Return the judgements of a stored anchor set; none where a reply or a request is not what it was."""
    by_id = {run_id: (key, text) for key, (run_id, text) in replies.items()}
    runs = {run.key: run for run in plan.runs}
    targets: list[Target] = []
    for reply in anchor["replies"]:
        key, text = by_id.get(reply["run_id"], (None, ""))
        if key is None or _sha256(text) != reply["blob_id"]:
            return ()
        several = _targets(plan, runs[key], reply["run_id"], text)
        if {target.judge.role: target.requests(plan)[0].identity() for target in several} != reply["calls"]:
            return ()
        targets += several
    return tuple(targets)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def measure_drift(study: Study, job: Job, *, progress: bool = True) -> Summary:
    """Ask every judgement of an anchor set anew; what the ledger has of this day is not asked again.

    Exit code 1 where a judge did not answer, or where the composite of one is not shown to be within the tolerance.
    """
    plan, store, new = job.plan, study.store, list[Answer]()
    with suppress(Duplicate):  # before the first request: later days ask the same
        store.insert(Anchor, {"at": utc_now(), **job.anchor})

    async def work(ask: Ask, stop: threading.Event) -> list[Judgement]:
        async def counting(request: ModelRequest) -> Answer:
            answer = await ask(request)
            if not answer.from_ledger:
                new.append(answer)
            return answer

        async def measure(target: Target) -> Judgement:
            judgement = await job.judgement(target, counting)
            if judgement.answered:
                day_fields = {"anchor": job.anchor["_id"], "day": str(job.day)}
                store.writer.post(
                    judgement_record(target.run_id, study.name, judgement, "drifts", **day_fields)
                )
            return judgement

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(measure(target)) for target in job.targets]
        return [task.result() for task in tasks]

    judgements = ask_study(
        plan, store, work, requests=job.requests(), label="drift", purpose="drift", progress=progress
    )
    unanswered = sum(not judgement.answered for judgement in judgements)
    unread = sum(judgement.failed and judgement.answered for judgement in judgements)
    tolerance, label = plan.study.judges.drift_tolerance, anchor_label(job.anchor)
    drift = study.judge_drift().get((label, str(job.day))) if unanswered < len(judgements) else None
    outside = drift.outside(tolerance) if drift and tolerance is not None else {}
    spent = total_aud(answer.aud_cost for answer in new)
    first_day = f"{job.anchor.get('at', job.day):%Y-%m-%d}"
    lines = [
        f"anchors  {label} (fingerprint {job.anchor['fingerprint'][:12]}), first drawn {first_day}",
        f"drift    {job.day}: {counted(len(judgements), 'judgements')}, {unread} unreadable, {unanswered} unanswered",
        f"calls    {len(new)} asked now, {money(spent)} spent now",
        *([drift.sentence()] if drift else ["no judge answered; the same command asks again"]),
        *(f"{judge}: {reason}" for judge, reason in outside.items()),
    ]
    fields: dict[str, Any] = {
        **{"study": study.name, "day": str(job.day), "size": job.anchor["size"], "anchor": job.anchor["_id"]},
        **{"fingerprint": job.anchor["fingerprint"], "replies": len(job.anchor["replies"])},
        **{"judgements": len(judgements), "unreadable": unread, "unanswered": unanswered},
        "new_calls": len(new),
        **{"spent_aud": spent, "tolerance": tolerance, "outside": dict(outside)},
        "drift": drift.to_dict() if drift else None,
    }
    return Summary(fields, "\n".join(lines), int(bool(unanswered or outside)))


def changed_drifts(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for each judgement of a later day that is not what the ledger gives."""
    replies, ledger = usable_replies(plan, store), Ledger(store, plan.study.name)

    async def ask(request: ModelRequest) -> Answer:
        if request.identity() not in ledger.prefetch([request.identity()]):
            raise ModelError("not in the ledger", reason="absent")
        return ledger.whole(request.identity())

    for anchor in anchors_of(store, plan.study.name):
        anchored = _targets_of(plan, replies, anchor)
        targets = {(target.run_id, target.judge.role): target for target in anchored}
        for stored in store.find_where(Drift, {"anchor": anchor["_id"]}):
            target = targets.get((stored["run_id"], stored["judge"]))
            if target is None:  # the study file, or the reply, is another one now
                continue
            job = Job(plan, anchor, (target,), date.fromisoformat(stored["day"]))
            judgement = asyncio.run(job.judgement(target, ask))
            day_fields = {"anchor": anchor["_id"], "day": stored["day"]}
            record = judgement_record(target.run_id, plan.study.name, judgement, "drifts", **day_fields)
            if record.key["call_id"] != stored["call_id"] or record.changes(stored):
                name = f"judgement of {stored['day']} by {stored['judge']} of run {stored['run_id']}"
                yield f"{name}: is not what the ledger gives"
