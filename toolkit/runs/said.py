"""What judges are asked of a run and have said of it already, so that nothing is asked twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.judges.judgement import judgement_requests
from toolkit.judges.per_sentence import estimate_segments
from toolkit.models.base import ModelRequest
from toolkit.plan import PlannedRun
from toolkit.store.documents import Judgement, OutputBlob, Run

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

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
