"""Plain objects into writes and documents back into plain objects: how runs and judgements look in the store."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymongo import UpdateOne
from ulid import ULID

from toolkit.errors import InputError
from toolkit.judges.judgement import Judgement
from toolkit.models.base import Answer
from toolkit.store import documents
from toolkit.store.connection import Store
from toolkit.store.documents import utc_now
from toolkit.store.writer import TOUCH, Record
from toolkit.words import DIMENSIONS

_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")


@dataclass(frozen=True)
class Stored:
    """A run as it stands in the store; ``text`` and ``judgements`` are read only when they are asked for.

    ``document_id`` is the store's own key, by which the embedded server finds a document to change fastest.
    ``failure`` says why there is no reply. ``ensemble_key`` is what the run was judged under, ``None`` when a judge has
    still to answer.
    """

    document_id: Any
    run_id: str
    prompt_id: str
    model: str
    repeat: int
    failure: str | None
    judged: bool
    ensemble_key: str | None
    text: str | None = None
    judgements: Mapping[str, Judgement] = field(default_factory=dict)


def stored_runs(
    store: Store, study: str, call_ids: Iterable[str], *, texts: bool = False, rubric_hash: str | None = None
) -> dict[tuple[str, str, int], Stored]:
    """Return the runs of a study that the given calls answer, by prompt id, model and repeat.

    Parameters
    ----------
    store
        An open store.
    study
        Name of the study.
    call_ids
        Identities of the calls the study plans.
    texts
        Whether to read the replies.
    rubric_hash
        When given, the judgements made under this rubric are read too.
    """
    found = [
        run
        for run in store.find_by(
            documents.Run, "call_id", call_ids, leave_out=("ensemble_evaluation.judge_results",)
        )
        if run["study"] == study
    ]
    contents: dict[str, str] = {}
    if texts:
        ids = (run["output_blob_id"] for run in found if "output_blob_id" in run)
        contents = {b["blob_id"]: b["content"] for b in store.find_by(documents.OutputBlob, "blob_id", ids)}
    judgements: dict[str, dict[str, Judgement]] = {}
    if rubric_hash is not None:
        for said in store.find_by(documents.Judgement, "run_id", (run["run_id"] for run in found)):
            if said["rubric_hash"] == rubric_hash:
                judgements.setdefault(said["run_id"], {})[said["judge"]] = _judgement(said)
    stored = {}
    for run in found:
        evaluation = run.get("ensemble_evaluation") or {}
        text = contents.get(run.get("output_blob_id", ""))
        stored[run["prompt_id"], run["model"], run["repeat"]] = Stored(
            document_id=run["_id"],
            run_id=run["run_id"],
            prompt_id=run["prompt_id"],
            model=run["model"],
            repeat=run["repeat"],
            failure=run.get("failure") if run["status"] == "failed" else None,
            judged=bool(evaluation.get("aggregated", {}).get("judged")),
            ensemble_key=evaluation.get("key"),
            text=text,
            judgements=judgements.get(run["run_id"], {}),
        )
    return stored


def run_records(key: Mapping[str, Any], fields: Mapping[str, Any], answer: Answer) -> tuple[Record, Record]:
    """Return the records of a run that was answered: its text, then the run.

    Parameters
    ----------
    key
        study, test, prompt_id, model, repeat and call_id: what makes a run the same run.
    fields
        What else the plan knows of it.
    answer
        Its answer from the gateway.
    """
    text, usage = answer.reply.text, answer.reply.usage
    blob_id = hashlib.sha256(text.encode()).hexdigest()
    blob = {
        "blob_id": blob_id,
        "content": text,
        "metadata": {
            "content_length": len(text),
            "word_count": len(text.split()),
            "sentence_count": len(_SENTENCE_END.findall(text)) or int(bool(text.strip())),
            "fsp_sentences": [],
        },
        "created_at": utc_now(),
    }
    run = {
        **fields,
        "status": "succeeded",
        "tokens": documents.Tokens(
            input=usage.input, output=usage.output, total=usage.total, estimated=usage.estimated
        ),
        "economics": documents.Economics(aud_cost=answer.aud_cost, latency_ms=answer.latency_ms),
        "output_blob_id": blob_id,
        "finish_reason": answer.reply.finish_reason,
        "attempts": answer.attempts,
    }
    return (
        Record("output_blobs", blob, {"blob_id": blob_id}, None),
        _record(documents.Run, key, run, run_id=str(ULID())),
    )


def failed_run_record(key: Mapping[str, Any], fields: Mapping[str, Any], failure: str) -> Record:
    """Return the record of a run that got no reply, with its reason."""
    run = {**fields, "status": "failed", "failure": failure}
    return _record(documents.Run, key, run, run_id=str(ULID()))


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
    }
    return _record(documents.Judgement, key, fields)


def evaluation_write(document_id: Any, evaluation: Mapping[str, Any]) -> tuple[str, UpdateOne]:
    """Return the write of what the ensemble found into its run; ``scores`` are the means over the judges."""
    means = evaluation["aggregated"]["mean_scores"]
    changes = {
        "ensemble_evaluation": dict(evaluation),
        "scores": {name: means[name] for name in (*DIMENSIONS, "composite", "composite_strict")},
    }
    return "runs", UpdateOne({"_id": document_id}, {"$set": changes, **TOUCH})


def reply_text(store: Store, run_id: str) -> str:
    """Return the text of a run's reply.

    Raises
    ------
    InputError
        When there is no such run, or it failed.
    """
    run = store.objects(documents.Run).filter(run_id=run_id).first()
    if run is None:
        raise InputError(f"run {run_id!r}: not in the store; study.runs() lists the run ids")
    if run.output_blob_id is None:
        raise InputError(f"run {run_id}: has no reply ({run.failure})")
    return str(store.objects(documents.OutputBlob).get(blob_id=run.output_blob_id).content)


def _judgement(said: Mapping[str, Any]) -> Judgement:
    names = (
        "judge",
        "model",
        "rubric",
        "scores",
        "composite",
        "composite_strict",
        "zeros",
        "reason",
        "reasons",
    )
    paid = ("call_id", "aud_cost", "latency_ms", "input_tokens", "output_tokens")
    fields: dict[str, Any] = {name: said.get(name) for name in (*names, *paid)}
    return Judgement(rubric_digest=said["rubric_hash"], **fields)


def _record(document: Any, key: Mapping[str, Any], fields: Mapping[str, Any], **first: Any) -> Record:
    """Return a record whose content the document class has checked; ``first`` is never changed afterwards."""
    checked = document(**key, **fields, **first)
    checked.validate()
    whole = checked.to_mongo().to_dict()
    # Only what was given is changed: what the ensemble found of the same call stays, because another process may
    # have judged the run meanwhile. A field that this version lacks goes: a success keeps no failure.
    change: dict[str, Any] = {"$set": {name: whole[name] for name in fields if name in whole}, **TOUCH}
    gone = [name for name in document._db_field_map if name not in whole and name != "id"]
    if gone:
        change["$unset"] = dict.fromkeys(gone, "")
    return Record(document._meta["collection"], whole, key, change)
