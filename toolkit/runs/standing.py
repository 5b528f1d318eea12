"""How far every planned run is, as the store has it: its reply, what judges said of it, what is still ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from toolkit.judges.judgement import judge_label
from toolkit.models.base import ModelRequest
from toolkit.plan import PlannedRun
from toolkit.runs.ledger import Ledger
from toolkit.runs.said import Said, failure_reasons, judge_requests, said_of
from toolkit.runs.whole import defect_of
from toolkit.store.documents import OutputBlob, Run
from toolkit.store.stored import is_current

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

_OF_RUN = (
    *("study", "run_id", "prompt_id", "model", "repeat", "status", "failure", "finish_reason", "tokens"),
    *("output_blob_id", "defect", "reply_policy", "ensemble_key", "judged_blob_id", "judge_calls"),
)


@dataclass(frozen=True)
class Standing:
    """How far one planned run is."""

    run: PlannedRun
    status: str | None = None
    failure: str | None = None
    finish_reason: str | None = None
    output_tokens: int | None = None
    blob_id: str | None = None
    defect: str | None = None
    policy: str | None = None
    excluded: str | None = None
    replaced: bool = False
    said: Mapping[str, Said] = field(default_factory=dict)


@dataclass(frozen=True)
class Ahead:
    """What one run still has ahead of it."""

    standing: Standing
    request: ModelRequest | None
    retries: int = 0
    tokens: int | None = None
    text: str | None = None
    judged: bool = True


@dataclass(frozen=True)
class Calls:
    """The calls of one state of a study: how many, what they cost, and what may have been billed besides, in AUD.

    ``most_attempts`` is the number of requests of the call that took most.
    """

    count: int
    aud: float
    unsure_aud: float
    most_attempts: int


def standings(plan: Plan, store: Store, *, reasons: bool = True) -> tuple[Standing, ...]:
    """Return how far every run of a plan is, in the order of the plan."""
    found = {
        (run["prompt_id"], run["model"], run["repeat"]): run
        for run in store.find_by(Run, "call_id", plan.call_ids, only=_OF_RUN)
        if run["study"] == plan.study.name
    }
    why = failure_reasons(plan, store, {run["run_id"] for run in found.values()}) if reasons else {}
    known = {run.key: _standing(plan, run, found[run.key], why) for run in plan.runs if run.key in found}
    unjudged = {
        found[key]["run_id"]: (one.run, found[key].get("output_blob_id", ""))
        for key, one in known.items()
        if one.status == "succeeded" and not (one.excluded or one.replaced or one.said)
    }
    for run_id, said in said_of(plan, store, unjudged).items():
        key = unjudged[run_id][0].key
        known[key] = replace(known[key], said=said)
    return tuple(known.get(run.key) or Standing(run) for run in plan.runs)


def runs_ahead(plan: Plan, store: Store) -> list[Ahead]:
    """Return what every run has ahead of it, following the ledger as the study will: a reply, a retry, judges."""
    policies = plan.study.replies
    retries = policies.retries if "retry" in (policies.truncated, policies.empty) else 0
    found: dict[int, Ahead] = {}
    waiting: dict[int, tuple[Standing, ModelRequest, int]] = {}
    for place, one in enumerate(standings(plan, store, reasons=False)):
        treated = one.policy is None or one.policy == getattr(policies, one.defect or "", None)
        if one.status == "succeeded" and treated:
            found[place] = Ahead(one, None, tokens=one.output_tokens, judged=not one.excluded)
        else:
            waiting[place] = one, one.run.request, retries
    ledger = Ledger(store, plan.study.name)
    while waiting:
        ids = {
            place: one.run.call_id if left == retries else request.identity()
            for place, (one, request, left) in waiting.items()
        }
        answers = ledger.prefetch(ids.values())
        again: dict[int, tuple[Standing, ModelRequest, int]] = {}
        for place, (one, request, left) in waiting.items():
            answer = answers.get(ids[place])
            if answer is None:
                found[place] = Ahead(one, request, left)
                continue
            defect = defect_of(answer.reply)
            policy = getattr(policies, defect) if defect else "keep"
            if policy == "retry" and left:
                again[place] = one, replace(request, max_tokens=2 * request.max_tokens), left - 1
            else:
                judged = policy == "keep" and defect != "empty"
                found[place] = Ahead(
                    one, None, tokens=answer.reply.usage.output, text=answer.reply.text, judged=judged
                )
        waiting = again
    return [found[place] for place in sorted(found)]


def judge_shares(
    plan: Plan, store: Store, role: str, ahead: Sequence[Ahead]
) -> tuple[list[tuple[Ahead, float]], set[str]]:
    """Return what share of one judge's calls about each run is still to be paid, and those that are paid.

    Equal requests are one call. Of a reply that is still to come nobody knows whether it will equal another.
    """
    blobs = [one.standing.blob_id or "" for one in ahead if one.request is None and one.text is None]
    found = store.find_by(OutputBlob, "blob_id", blobs, only=("blob_id", "content"))
    texts = {blob["blob_id"]: blob["content"] for blob in found}
    wanted: dict[int, list[str]] = {}
    for place, one in enumerate(ahead):
        text = one.text if one.text is not None else texts.get(one.standing.blob_id or "")
        if one.request is None and text is not None and plan.test.judged:
            run = one.standing.run
            requests = judge_requests(plan, role, task=run.prompt.text, response=text, repeat=run.repeat)
            wanted[place] = [request.identity() for request in requests]
    paid = set(Ledger(store, plan.study.name).prefetch(call for ids in wanted.values() for call in ids))
    counted, left = set(paid), []
    for place, one in enumerate(ahead):
        ids = wanted.get(place)
        new = set(ids or ()) - counted
        counted |= new
        if ids is None or new:
            left.append((one, 1.0 if ids is None else len(new) / len(ids)))
    return left, paid


def calls_by_state(store: Store, study: str) -> dict[str, Calls]:
    """Return the calls of a study by their state: ``claimed``, ``done`` or ``failed``."""
    totals = {
        "n": {"$sum": 1},
        "aud": {"$sum": "$aud_cost"},
        "unsure": {"$sum": "$unsure_aud"},
        "most": {"$max": {"$size": {"$ifNull": ["$attempts", []]}}},  # a claim has none yet
    }
    # By one plain field: the embedded server counts that in SQL, and takes a compound _id for one constant group.
    found = store.database["calls"].aggregate(
        [{"$match": {"study": study}}, {"$group": {"_id": "$state", **totals}}]
    )
    return {
        group["_id"]: Calls(group["n"], group["aud"] or 0.0, group["unsure"] or 0.0, group["most"] or 0)
        for group in found
    }


def claimed_calls(store: Store, study: str) -> list[dict[str, Any]]:
    """Return owner, purpose and worst cost of the calls that are under way, or that a dead process left."""
    fields = {"state": 1, "owner": 1, "purpose": 1, "worst_aud": 1, "sent": 1}
    return list(store.database["calls"].find({"study": study, "state": "claimed"}, fields))


def _standing(
    plan: Plan, run: PlannedRun, document: Mapping[str, Any], reasons: Mapping[str, Mapping[str, str]]
) -> Standing:
    said: dict[str, Said] = {}
    defect, policy = document.get("defect"), document.get("reply_policy")
    now = getattr(plan.study.replies, defect) if defect else None
    out = defect is not None and policy != "keep" and now in ("exclude", policy)
    replaced = not out and now != policy and "retry" in (now, policy)
    if not (out or replaced) and document.get("ensemble_key") == plan.ensemble_key and is_current(document):
        # Judged by the whole ensemble as it stands: every judge has answered.
        why = reasons.get(document["run_id"], {})
        calls = document.get("judge_calls") or {}
        labels = {
            role: [judge_label(role, again) for again in range(plan.manner.repeats)]
            for role in plan.judges_of(run.model)
        }
        said = {
            role: Said(True, why.get(role), tuple(calls[label] for label in names if label in calls))
            for role, names in labels.items()
        }
    return Standing(
        run,
        status=document["status"],
        failure=document.get("failure"),
        finish_reason=document.get("finish_reason"),
        output_tokens=(document.get("tokens") or {}).get("output"),
        blob_id=document.get("output_blob_id"),
        defect=defect,
        policy=policy,
        excluded=defect if out else None,
        replaced=replaced,
        said=said,
    )


def budget_left(plan: Plan, store: Store) -> float:
    """Return how much of a study's budget is neither spent nor held for calls under way; infinity without a budget."""
    name, budget = plan.study.name, plan.study.budget.aud
    if budget is None:
        return float("inf")
    used = sum(calls.aud + calls.unsure_aud for calls in calls_by_state(store, name).values())
    return max(0.0, budget - used - sum(call["worst_aud"] or 0.0 for call in claimed_calls(store, name)))
