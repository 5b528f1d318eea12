"""How far every planned run is, as the store has it: its reply, what judges said of it, what is still ahead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.judges.judgement import judge_label, judgement_requests
from toolkit.judges.per_sentence import estimate_segments
from toolkit.models.base import ModelRequest
from toolkit.plan import Plan, PlannedRun
from toolkit.runs.ledger import Ledger
from toolkit.runs.retries import defect_of
from toolkit.store.connection import Store
from toolkit.store.documents import Judgement, OutputBlob, Run
from toolkit.store.records import is_current

_OF_JUDGEMENT = ("run_id", "judge", "model", "rubric_hash", "call_id", "answered", "failed", "reason")


@dataclass(frozen=True)
class Said:
    """What one judge said of one run."""

    answered: bool
    reason: str | None = None
    calls: tuple[str, ...] = ()


def judge_requests(
    plan: Plan, role: str, *, task: str, response: str, repeat: int = 0
) -> tuple[ModelRequest, ...]:
    """Return every request that one judge is sent about one run, repairs left out."""
    return tuple(
        request
        for again in range(plan.manner.repeats)
        for request in judgement_requests(
            plan.judges[role].of_run(repeat, again),
            plan.rubric,
            task=task,
            response=response,
            manner=plan.manner,
        )
    )


def calls_of_judge(plan: Plan, tokens: float) -> float:
    """Return how many calls one judge makes about one reply, as far as its length tells, repairs left out."""
    segments = estimate_segments(tokens) if plan.manner.focus == "per_sentence" else 0.0
    return plan.manner.repeats * (1 + segments)


def failure_reasons(plan: Plan, store: Store, run_ids: set[str]) -> dict[str, dict[str, str]]:
    """Return why judges gave no scores, by run id and role, as the ensembles of the runs have it.

    Only runs with a judgement that failed, under whatever settings, are read: reading every ensemble takes as long as
    everything else together.
    """
    key = {"study": plan.study.name, "rubric_hash": plan.rubric.digest, "failed": True}
    failed = store.database["judgements"].find(key, {"run_id": 1})
    ids = [judgement["run_id"] for judgement in failed if judgement["run_id"] in run_ids]
    return {
        run["run_id"]: {
            role: result["reason"] or "unknown"
            for role, result in ((run.get("ensemble_evaluation") or {}).get("judge_results") or {}).items()
            if result["evaluation_failed"]
        }
        for run in store.find_by(Run, "run_id", ids, only=("run_id", "ensemble_evaluation"))
    }


def said_of(
    plan: Plan, store: Store, runs: Mapping[str, tuple[PlannedRun, str]]
) -> dict[str, dict[str, Said]]:
    """Return what single judges said of runs (run id to run and blob id), by run id and role.

    A judgement counts when its call is the one that would be asked now: under another temperature or seed it would be
    asked, and paid for, again.
    """
    names = {role: judge.name for role, judge in plan.judges.items()}
    found: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for document in store.find_by(Judgement, "run_id", runs, only=_OF_JUDGEMENT):
        same = document["rubric_hash"] == plan.rubric.digest
        if same and names.get(document["judge"]) == document["model"]:
            found[document["run_id"]][document["call_id"]] = document
    blobs = store.find_by(
        OutputBlob, "blob_id", (runs[run_id][1] for run_id in found), only=("blob_id", "content")
    )
    texts = {blob["blob_id"]: blob["content"] for blob in blobs}
    said: dict[str, dict[str, Said]] = {}
    for run_id, documents in found.items():
        run, blob_id = runs[run_id]
        said[run_id] = {}
        for role in plan.judges_of(run.model):
            kept = [
                documents.get(call_id) for call_id in _first_calls(plan, role, run, texts.get(blob_id, ""))
            ]
            there = [judgement for judgement in kept if judgement is not None]
            if there:
                answered = len(there) == len(kept) and all(judgement["answered"] for judgement in there)
                reasons = [judgement["reason"] or "unknown" for judgement in there if judgement["failed"]]
                calls = tuple(judgement["call_id"] for judgement in there)
                said[run_id][role] = Said(answered, next(iter(reasons), None), calls)
    return said


def _first_calls(plan: Plan, role: str, run: PlannedRun, response: str) -> list[str]:
    """Return the calls that name the judgements of a run by one judge: the first call of each time it judges."""
    return [
        judgement_requests(
            plan.judges[role].of_run(run.repeat, again),
            plan.rubric,
            task=run.prompt.text,
            response=response,
            manner=plan.manner,
        )[0].identity()
        for again in range(plan.manner.repeats)
    ]


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
