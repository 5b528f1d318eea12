"""Asks the judges of a study the same again on a later day, to see whether they still judge as they did.

A provider can change what answers under a name. The replies that are judged anew are drawn once, so that days can be
compared; what judges say of them then is stored apart and is no judgement of the study.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError, ModelError
from toolkit.files import sha256_hex
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import DAY_STRIDE, JudgeSpec
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.plan import Plan
from toolkit.probes.job import (
    Reply,
    ask_each,
    balanced_sample,
    distinct,
    outcome_counts,
    targets_of,
    usable_replies,
)
from toolkit.runs.ledger import Ledger
from toolkit.store.connection import Store
from toolkit.store.documents import Anchor, Drift
from toolkit.store.drifts import anchor_document, anchor_label, anchors_of
from toolkit.store.records import Record, judgement_record, stored_judgements, stored_runs
from toolkit.store.writer import Duplicate, utc_now
from toolkit.words import Summary, money, total_aud

if TYPE_CHECKING:
    from toolkit.study import Study

_FIRST_DAY = date(1970, 1, 1)


def on_day(request: ModelRequest, day: date) -> ModelRequest:
    """Return a request as it is asked anew on a day: the same to its model, another call to the ledger."""
    return replace(request, repeat=request.repeat + DAY_STRIDE * (day - _FIRST_DAY).days)


Target = tuple[Reply, JudgeSpec]
"""One judgement that is asked anew: the reply, and the judge as it was asked first."""


@dataclass(frozen=True)
class Job:
    """An anchor set with the judgements that are asked anew on one day."""

    plan: Plan
    anchor: Mapping[str, Any]
    targets: tuple[Target, ...]
    day: date

    def requests(self) -> tuple[ModelRequest, ...]:
        """Return every request of the day, repairs aside, to estimate its cost."""
        firsts = (request for reply, spec in self.targets for request in reply.requests(self.plan, spec))
        return distinct(on_day(request, self.day) for request in firsts)

    async def judgement(self, target: Target, ask: Ask) -> Judgement:
        """Have one judge judge a reply anew."""
        reply, spec = target
        judgement = await reply.judgement(self.plan, spec, lambda request: ask(on_day(request, self.day)))
        return replace(judgement, call_id=on_day(reply.requests(self.plan, spec)[0], self.day).identity())

    def record(self, target: Target, judgement: Judgement) -> Record:
        """Return the record of a judgement of this day."""
        fields = {"anchor": self.anchor["_id"], "day": str(self.day)}
        return judgement_record(target[0].run_id, self.plan.study.name, judgement, "drifts", **fields)


def drift_job(plan: Plan, store: Store, size: int, day: date | None = None) -> Job:
    """Return what is asked anew today (UTC): the anchor set of this size as it was drawn first, or a new one."""
    name, today = plan.study.name, day or utc_now().date()
    if not (plan.test.judged and plan.judges):
        raise InputError(
            f"study {name}: no judge scores its replies (test {plan.test.name}), so none can drift"
        )
    replies = usable_replies(plan, store)
    for anchor in anchors_of(store, name):
        if anchor["size"] == size and (targets := _targets_of(plan, replies, anchor)):
            return Job(plan, anchor, targets, today)
    by_id = {reply.run_id: reply for reply in replies}
    runs = [run for run in stored_runs(store, name, plan.call_ids).values() if run.run_id in by_id]
    complete = [run for run in runs if run.ensemble_key == plan.ensemble_key]
    scored = {
        run_id
        for run_id, judgements in stored_judgements(store, complete, plan.rubric.digest).items()
        if not any(judgement.failed for judgement in judgements.values())
    }
    chosen = balanced_sample([reply for reply in replies if reply.run_id in scored], size, plan.study.seed)
    if not chosen:
        raise InputError(
            f"study {name}: no run is scored by all judges as the study file has them now; finish it by `toolkit run`"
        )
    content = [
        {"run_id": reply.run_id, "blob_id": sha256_hex(reply.text), "calls": _calls(plan, reply)}
        for reply in chosen
    ]
    targets = tuple(target for reply in chosen for target in targets_of(plan, reply))
    return Job(plan, anchor_document(name, size, plan.rubric.digest, content), targets, today)


def _calls(plan: Plan, reply: Reply) -> dict[str, str]:
    return {spec.role: reply.requests(plan, spec)[0].identity() for _, spec in targets_of(plan, reply)}


def _targets_of(plan: Plan, replies: Sequence[Reply], anchor: Mapping[str, Any]) -> tuple[Target, ...]:
    """Return the judgements of a stored anchor set; none where a reply or a request is not what it was."""
    by_id = {reply.run_id: reply for reply in replies}
    targets: list[Target] = []
    for stored in anchor["replies"]:
        reply = by_id.get(stored["run_id"])
        if (
            reply is None
            or sha256_hex(reply.text) != stored["blob_id"]
            or _calls(plan, reply) != stored["calls"]
        ):
            return ()
        targets += targets_of(plan, reply)
    return tuple(targets)


def measure_drift(study: Study, job: Job, *, progress: bool = True) -> Summary:
    """Ask every judgement of an anchor set anew; what the ledger has of this day is not asked again.

    Exit code 1 where a judge did not answer, or where the composite of one is not shown to be within the tolerance.
    """
    plan, store = job.plan, study.store
    with suppress(Duplicate):  # before the first request: later days ask the same
        store.insert(Anchor, {"at": utc_now(), **job.anchor})

    async def look(target: Target, ask: Ask) -> Judgement:
        judgement = await job.judgement(target, ask)
        if judgement.answered:
            store.writer.post(job.record(target, judgement))
        return judgement

    judgements, paid = ask_each(
        plan, store, job.targets, look, job.requests(), label="drift", purpose="drift", progress=progress
    )
    counts, line = outcome_counts(judgements)
    tolerance, label = plan.study.judges.drift_tolerance, anchor_label(job.anchor)
    drift = None
    if counts["unanswered"] < len(judgements):
        drift = study.judge_drift().get((label, str(job.day)))
    outside = drift.outside(tolerance) if drift and tolerance is not None else {}
    spent = total_aud(answer.aud_cost for answer in paid)
    first_day = f"{job.anchor.get('at', job.day):%Y-%m-%d}"
    lines = [
        f"anchors  {label} (fingerprint {job.anchor['fingerprint'][:12]}), first drawn {first_day}",
        f"drift    {job.day}: {line}",
        f"calls    {len(paid)} asked now, {money(spent)} spent now",
        drift.sentence() if drift else "no judge answered; the same command asks again",
    ]
    lines += [f"{judge}: {reason}" for judge, reason in outside.items()]
    fields: dict[str, Any] = {
        "study": study.name,
        "day": str(job.day),
        "size": job.anchor["size"],
        "anchor": job.anchor["_id"],
        "fingerprint": job.anchor["fingerprint"],
        "replies": len(job.anchor["replies"]),
        **counts,
        "new_calls": len(paid),
        "spent_aud": spent,
        "tolerance": tolerance,
        "outside": dict(outside),
        "drift": drift.to_dict() if drift else None,
    }
    return Summary(fields, "\n".join(lines), int(bool(counts["unanswered"] or outside)))


def changed_drifts(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for each judgement of a later day that is not what the ledger gives."""
    replies, ledger = usable_replies(plan, store), Ledger(store, plan.study.name)

    async def ask(request: ModelRequest) -> Answer:
        if request.identity() not in ledger.prefetch([request.identity()]):
            raise ModelError("not in the ledger", reason="absent")
        return ledger.whole(request.identity())

    for anchor in anchors_of(store, plan.study.name):
        anchored = _targets_of(plan, replies, anchor)
        targets = {(reply.run_id, spec.role): (reply, spec) for reply, spec in anchored}
        for stored in store.find_where(Drift, {"anchor": anchor["_id"]}):
            target = targets.get((stored["run_id"], stored["judge"]))
            if target is None:  # the study file, or the reply, is another one now
                continue
            job = Job(plan, anchor, (target,), date.fromisoformat(stored["day"]))
            judgement = asyncio.run(job.judgement(target, ask))
            record = job.record(target, judgement)
            if record.key["call_id"] != stored["call_id"] or record.changes(stored):
                name = f"judgement of {stored['day']} by {stored['judge']} of run {stored['run_id']}"
                yield f"{name}: is not what the ledger gives"
