"""How runs, replies and judgements stand in the store, as plain frozen objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolkit.errors import InputError
from toolkit.judges.judgement import Judgement, judge_label
from toolkit.store import documents
from toolkit.store.connection import Store
from toolkit.store.writer import Record


@dataclass(frozen=True)
class Stored:
    """A run as it stands in the store.

    ``document_id`` is the store's own key, by which the embedded server finds a document to change fastest.
    ``failure`` says why there is no reply, ``excluded`` why no judge sees it, ``policy`` what the study said should
    become of a reply that is not whole, and ``defect`` why it is not. ``ensemble_key`` is what the run was judged
    under, ``None`` when a judge has still to answer, and ``judge_calls`` names the calls whose word counts, by role.
    """

    document_id: Any
    run_id: str
    blob_id: str | None
    failure: str | None
    excluded: str | None
    policy: str | None
    defect: str | None
    judged: bool
    ensemble_key: str | None
    judge_calls: Mapping[str, str]


_STORED = (
    "study",
    "run_id",
    "prompt_id",
    "model",
    "repeat",
    "status",
    "failure",
    "output_blob_id",
    "defect",
    "reply_policy",
    "ensemble_key",
    "judged_blob_id",
    "judge_calls",
    "judged",
)  # top-level fields only: the embedded server gives parts of a field under other names


def stored_runs(store: Store, study: str, call_ids: Iterable[str]) -> dict[tuple[str, str, int], Stored]:
    """Return the runs of a study that the given calls answer, by prompt id, model and repeat."""
    found = store.find_by(documents.Run, "call_id", call_ids, only=_STORED)
    return _by_key(run for run in found if run["study"] == study)


def _by_key(runs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, int], Stored]:
    return {(run["prompt_id"], run["model"], run["repeat"]): _stored(run) for run in runs}


def _stored(run: Mapping[str, Any]) -> Stored:
    defect, policy = run.get("defect"), run.get("reply_policy")
    current = is_current(run)
    return Stored(
        document_id=run["_id"],
        run_id=run["run_id"],
        blob_id=run.get("output_blob_id"),
        failure=run.get("failure") if run["status"] == "failed" else None,
        excluded=None if policy == "keep" else defect,
        policy=policy,
        defect=defect,
        judged=current and bool(run.get("judged")),
        ensemble_key=run.get("ensemble_key") if current else None,
        judge_calls=run.get("judge_calls") or {} if current else {},
    )


def is_current(run: Mapping[str, Any]) -> bool:
    """Return whether the judges of a run saw the text that is its reply now."""
    return run.get("judged_blob_id") is not None and run["judged_blob_id"] == run.get("output_blob_id")


@dataclass(frozen=True)
class Kept:
    """What is in the store of some runs, whole, so that what a replay makes again can be compared with it."""

    runs: Mapping[tuple[str, str, int, str], Mapping[str, Any]]
    judgements: Mapping[tuple[str, str, str], Mapping[str, Any]]
    blobs: Mapping[str, Mapping[str, Any]]

    def of(self, record: Record) -> Mapping[str, Any] | None:
        """Return the document that a record is about, ``None`` when there is none."""
        key = record.key
        if record.collection == "runs":
            return self.runs.get((key["prompt_id"], key["model"], key["repeat"], key["call_id"]))
        if record.collection == "judgements":
            return self.judgements.get((key["run_id"], key["judge"], key["call_id"]))
        return self.blobs.get(key["blob_id"])

    def stored(self) -> dict[tuple[str, str, int], Stored]:
        """Return the runs as `stored_runs` does."""
        return _by_key(self.runs.values())

    @cached_property
    def by_id(self) -> dict[Any, Mapping[str, Any]]:
        """Runs under the store's own key."""
        return {run["_id"]: run for run in self.runs.values()}


NOTHING_KEPT = Kept({}, {}, {})


def kept_documents(store: Store, study: str, call_ids: Iterable[str]) -> Kept:
    """Return everything but moments in the store of the runs of a study that the given calls answer."""
    moments = ("created_at", "updated_at")  # given when a record is written, so never compared
    found = store.find_by(documents.Run, "call_id", call_ids, moments)
    runs = [run for run in found if run["study"] == study]
    said = store.find_by(documents.Judgement, "run_id", (run["run_id"] for run in runs), moments)
    ids = (run["output_blob_id"] for run in runs if "output_blob_id" in run)
    blobs = store.find_by(documents.OutputBlob, "blob_id", ids, only=("blob_id",))
    return Kept(
        {(run["prompt_id"], run["model"], run["repeat"], run["call_id"]): run for run in runs},
        {(one["run_id"], one["judge"], one["call_id"]): one for one in said},
        {blob["blob_id"]: blob for blob in blobs},
    )


def reply_texts(store: Store, runs: Iterable[Stored]) -> dict[str, str]:
    """Return the replies of runs by the id of their text."""
    ids = (run.blob_id for run in runs if run.blob_id)
    found = store.find_by(documents.OutputBlob, "blob_id", ids, only=("blob_id", "content"))
    return {blob["blob_id"]: blob["content"] for blob in found}


def stored_judgements(
    store: Store, runs: Iterable[Stored], rubric_hash: str
) -> dict[str, dict[str, Judgement]]:
    """Return what was said of runs under one rubric and counts, by run id and label (`judge_label`)."""
    counting = {run.run_id: run.judge_calls for run in runs if run.judge_calls}
    judgements: dict[str, dict[str, Judgement]] = {}
    for said in store.find_by(documents.Judgement, "run_id", counting):
        label = judge_label(said["judge"], said.get("judge_repeat") or 0)
        counts = counting[said["run_id"]].get(label) == said["call_id"]
        if counts and said["rubric_hash"] == rubric_hash:
            judgements.setdefault(said["run_id"], {})[label] = _judgement(said)
    return judgements


def reply_text(store: Store, run_id: str) -> str:
    """Return the text of a run's reply."""
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
    # Kept since judges may repeat themselves; judgements from before have none of these.
    later = ("judge_repeat", "focus", "related", "repaired", "expected", "expected_mass", "detail")
    fields |= {name: said[name] for name in later if name in said}
    return Judgement(rubric_digest=said["rubric_hash"], **fields)
