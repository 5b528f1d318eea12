"""Asks the judges of a study the same again on a later day, to see whether they still judge as they did.

A provider can change what answers under a name. The replies that are judged anew are drawn once, so that days can be
compared; what judges say of them then is stored apart and is no judgement of the study.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.pipeline import ask_stage
from toolkit.plan import Plan
from toolkit.probes.job import balanced_sample, outcome_counts, usable_replies
from toolkit.runs.instruments import DRIFT, anchor_tasks, anchored_calls, judge_tasks
from toolkit.runs.stages import Stage
from toolkit.store.connection import Store
from toolkit.store.documents import Anchor
from toolkit.store.drifts import anchor_document, anchor_label, anchors_of
from toolkit.store.records import stored_judgements
from toolkit.store.writer import Document, Duplicate, Fields, utc_now
from toolkit.words import Summary, template, total_aud

if TYPE_CHECKING:
    from toolkit.study import Study


@dataclass(frozen=True)
class Job:
    """An anchor set whose judgements are asked anew on one day."""

    anchor: Fields
    day: str

    @property
    def stage(self) -> Stage:
        """What is asked on the day, and on no other."""
        return replace(DRIFT, tasks=partial(anchor_tasks, anchor=self.anchor, day=self.day))


def drift_job(plan: Plan, store: Store, size: int, day: date | None = None) -> Job:
    """Return what is asked anew today (UTC): the anchor set of this size as it was drawn first, or a new one."""
    name, today = plan.study.name, str(day or utc_now().date())
    if not (plan.test.judged and plan.judges):
        raise InputError(
            f"study {name}: no judge scores its replies (test {plan.test.name}), so none can drift"
        )
    for anchor in anchors_of(store, name):
        if anchor["size"] == size and anchor_tasks(plan, store, anchor, today):
            return Job(anchor, today)
    replies = [
        reply for reply in usable_replies(plan, store) if reply.stored.ensemble_key == plan.ensemble_key
    ]
    judged = stored_judgements(store, (reply.stored for reply in replies), plan.rubric.digest)
    judgements = [(reply, judged.get(reply.run_id, {}).values()) for reply in replies]
    scored = [reply for reply, each in judgements if each and not any(judgement.failed for judgement in each)]
    chosen = balanced_sample(scored, size, plan.study.seed)
    if not chosen:
        raise InputError(
            f"study {name}: no run is scored by all judges as the study file has them now; finish it by `toolkit run`"
        )
    content = [
        {
            "run_id": reply.run_id,
            "blob_id": sha256_hex(reply.text),
            "calls": anchored_calls(plan, judge_tasks(plan, reply.run.key), reply.text),
        }
        for reply in chosen
    ]
    return Job(anchor_document(name, size, plan.rubric.digest, content), today)


def measure_drift(study: Study, job: Job, *, progress: bool = True) -> Summary:
    """Ask every judgement of an anchor set anew; what the ledger has of this day is not asked again.

    Exit code 1 where a judge did not answer, or where the composite of one is not shown to be within the tolerance.
    """
    with suppress(Duplicate):  # before the first request: later days ask the same
        study.store.insert(Anchor, {"at": utc_now(), **job.anchor})
    judgements, paid = ask_stage(job.stage, study.plan, study.store, progress=progress)
    counts, anchor = outcome_counts(judgements), job.anchor
    tolerance, label = study.plan.study.judges.drift_tolerance, anchor_label(anchor)
    answered = counts["unanswered"] < len(judgements)
    drift = study.judge_drift().get((label, job.day)) if answered else None
    outside = drift.outside(tolerance) if drift and tolerance is not None else {}
    fields: Document = {
        "study": study.name,
        "day": job.day,
        "size": anchor["size"],
        "anchor": anchor["_id"],
        "fingerprint": anchor["fingerprint"],
        "replies": len(anchor["replies"]),
        **counts,
        "new_calls": len(paid),
        "spent_aud": total_aud(answer.aud_cost for answer in paid),
        "tolerance": tolerance,
        "outside": dict(outside),
        "drift": drift.to_dict() if drift else None,
    }
    text = template("probes", "drifted.jinja").render(
        fields,
        label=label,
        first_day=f"{anchor['at']:%Y-%m-%d}" if "at" in anchor else job.day,
        sentence=drift.sentence() if drift else "no judge answered; the same command asks again",
    )
    return Summary(fields, text, int(bool(counts["unanswered"] or outside)))
