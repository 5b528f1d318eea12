"""Runs, replies and judgements as records: how they are written into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ulid import ULID

from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.focus import reply_metadata
from toolkit.judges.judgement import Judgement
from toolkit.models.base import Answer
from toolkit.store.documents import utc_now
from toolkit.store.writer import TOUCH, Record
from toolkit.words import DIMENSIONS

_RUN_OPTIONAL = (
    "failure",
    "prompt_length_bin",
    "tokens",
    "economics",
    "output_blob_id",
    "finish_reason",
    "attempts",
    "defect",
    "reply_policy",
)


def run_records(
    key: Mapping[str, Any],
    fields: Mapping[str, Any],
    answer: Answer,
    *,
    aud_cost: float | None = None,
    attempts: int | None = None,
    defect: str | None = None,
    policy: str | None = None,
    texts: Container[str] = (),
) -> tuple[Record, ...]:
    """Return the records of a run that was answered: its text, then the run."""
    text, usage = answer.reply.text, answer.reply.usage
    blob_id = hashlib.sha256(text.encode()).hexdigest()
    run = {
        **fields,
        "status": "succeeded",
        "tokens": {
            "input": usage.input,
            "output": usage.output,
            "total": usage.total,
            "estimated": usage.estimated,
        },
        "economics": {
            "aud_cost": answer.aud_cost if aud_cost is None else aud_cost,
            "latency_ms": answer.latency_ms,
        },
        "output_blob_id": blob_id,
        "finish_reason": answer.reply.finish_reason,
        "attempts": answer.attempts if attempts is None else attempts,
        "defect": defect,
        "reply_policy": policy,
    }
    record = _record("runs", key, run, _RUN_OPTIONAL, run_id=str(ULID()))
    if blob_id in texts:
        return (record,)
    blob = {
        "blob_id": blob_id,
        "content": text,
        "metadata": reply_metadata(text),
        "created_at": utc_now(),
    }
    return Record("output_blobs", blob, {"blob_id": blob_id}, None), record


def failed_run_record(key: Mapping[str, Any], fields: Mapping[str, Any], failure: str) -> Record:
    """Return the record of a run that got no reply, with its reason."""
    run = {**fields, "status": "failed", "failure": failure}
    return _record("runs", key, run, _RUN_OPTIONAL, run_id=str(ULID()))


def judgement_record(run_id: str, study: str, judgement: Judgement) -> Record:
    """Return the record of one judgement."""
    key = {"run_id": run_id, "judge": judgement.judge, "call_id": judgement.call_id}
    fields = {
        "study": study,
        "model": judgement.model,
        "rubric": judgement.rubric,
        "rubric_hash": judgement.rubric_digest,
        "scores": None if judgement.scores is None else dict(judgement.scores),
        "composite": judgement.composite,
        "composite_strict": judgement.composite_strict,
        "zeros": judgement.zeros,
        "failed": judgement.failed,
        "reason": judgement.reason,
        "reasons": judgement.reasons,
        "answered": judgement.answered,
        "aud_cost": judgement.aud_cost,
        "latency_ms": judgement.latency_ms,
        "input_tokens": judgement.input_tokens,
        "output_tokens": judgement.output_tokens,
        "judge_repeat": judgement.judge_repeat,
        "focus": judgement.focus,
        "related": judgement.related,
        "repaired": judgement.repaired,
        "expected": None if judgement.expected is None else dict(judgement.expected),
        "expected_mass": None if judgement.expected_mass is None else dict(judgement.expected_mass),
        "detail": None if judgement.detail is None else dict(judgement.detail),
    }
    return _record("judgements", key, fields)


def evaluation_fields(
    judgements: Sequence[Judgement],
    ensemble_key: str | None,
    blob_id: str | None,
    bias_controls: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what a run holds of what the ensemble found; ``scores`` are the means over the judges."""
    evaluation = ensemble_evaluation(judgements)
    means = evaluation["aggregated"]["mean_scores"]
    return {
        "ensemble_evaluation": evaluation,
        "bias_controls": dict(bias_controls),
        "ensemble_key": ensemble_key,
        "judged_blob_id": blob_id,
        "judge_calls": {judgement.label: judgement.call_id for judgement in judgements},
        "judged": evaluation["aggregated"]["judged"],
        "scores": {name: means[name] for name in (*DIMENSIONS, "composite", "composite_strict")},
    }


def _record(
    collection: str,
    key: Mapping[str, Any],
    fields: Mapping[str, Any],
    optional: Iterable[str] = (),
    **first: Any,
) -> Record:
    """Return a record as `toolkit.store.documents` describes it; ``first`` is never changed afterwards.

    Built by hand: a document class takes four times as long, and there are many thousands. A test holds each kind of
    record against its class.
    """
    absent = [name for name in optional if fields.get(name) is None]
    given = {name: value for name, value in fields.items() if name not in absent}
    now = utc_now()
    # Only what was given is changed: what the ensemble found of the same call stays, because another process may
    # have judged the run meanwhile. A field that this version lacks goes: a success keeps no failure.
    change: dict[str, Any] = {"$set": given, **TOUCH}
    if absent:
        change["$unset"] = dict.fromkeys(absent, "")
    return Record(collection, {**key, **given, **first, "created_at": now, "updated_at": now}, key, change)
