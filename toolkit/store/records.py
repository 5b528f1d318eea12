"""Runs, replies and judgements as records: how they are written to the store and read from it."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import itemgetter
from typing import Any

from bson import ObjectId
from ulid import ULID

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.focus import reply_metadata
from toolkit.judges.judgement import Judgement, judge_label
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Answer
from toolkit.scoring import Scheme
from toolkit.store import documents
from toolkit.store.connection import CHUNK, Store, windows
from toolkit.store.writer import TOUCH, Document, Fields, Record, utc_now

_JUDGEMENT_FIELDS = tuple(
    field.name for field in fields(Judgement) if field.name not in ("rubric_digest", "interrupted")
)
MOMENTS = ("created_at", "updated_at")


def run_records(
    key: Fields,
    description: Fields,
    answers: Sequence[Answer],
    *,
    defect: str | None = None,
    policy: str | None = None,
    texts: Container[str] = (),
) -> tuple[Record, ...]:
    """Return the records of a run that was answered: its text, unless it is one of ``texts``, then the run."""
    answer = answers[-1]  # those before it were not whole, and were paid for too
    text, usage = answer.reply.text, answer.reply.usage
    blob_id = sha256_hex(text)
    tokens = {name: getattr(usage, name) for name in ("input", "output", "total", "estimated")}
    cost = sum(answer.aud_cost for answer in answers)
    run = {
        **description,
        "status": "succeeded",
        "tokens": tokens,
        "economics": {"aud_cost": cost, "latency_ms": answer.latency_ms},
        "output_blob_id": blob_id,
        "finish_reason": answer.reply.finish_reason,
        "reasoning_tokens": usage.reasoning or None,
        "attempts": sum(answer.attempts for answer in answers),
        "defect": defect,
        "reply_policy": policy,
    }
    record = _record("runs", key, run, run_id=str(ULID()), _id=ObjectId())
    if blob_id in texts:
        return (record,)
    key = {"blob_id": blob_id}
    blob = {**key, "content": text, "metadata": reply_metadata(text), "created_at": utc_now()}
    return Record("output_blobs", blob, key, None), record


def failed_run_record(key: Fields, description: Fields, failure: str) -> Record:
    """Return the record of a run that got no reply, with its reason."""
    return _record("runs", key, {**description, "status": "failed", "failure": failure}, run_id=str(ULID()))


def annotation_record(run_id: str, study: str, judgement: Judgement, **fields: Any) -> Record:
    """Return the record of an annotation: of a judgement, unless ``fields`` name another kind and its context."""
    content = {name: getattr(judgement, name) for name in _JUDGEMENT_FIELDS}
    content["call_ids"] = list(judgement.call_ids)
    key = {"run_id": run_id, "judge": content.pop("judge"), "call_id": content.pop("call_id")}
    # Two pairwise comparisons, or two anchor sets of one day, may share a call: each has a record of its own.
    key["context"] = fields.pop("context", "")
    if not judgement.reference:
        del content["reference"]
    content |= {"failed": judgement.failed, "answered": judgement.answered, "kind": documents.JUDGEMENT}
    content |= {"study": study, "rubric_hash": judgement.rubric_digest, **fields}
    return _record("annotations", key, content)


def evaluation_fields(
    judgements: Sequence[Judgement],
    ensemble_key: str | None,
    blob_id: str | None,
    bias_controls: Fields,
    scheme: Scheme,
    judges: Collection[JudgeSpec],
) -> Document:
    """Return what a run holds of what the ensemble found; ``scores`` are the means over the judges."""
    evaluation = ensemble_evaluation(judgements, scheme, judges=judges)
    means = evaluation["aggregated"]["mean_scores"]
    return {
        "ensemble_evaluation": evaluation,
        "bias_controls": dict(bias_controls),
        "ensemble_key": ensemble_key,
        "judged_blob_id": blob_id,
        "judge_calls": {judgement.label: judgement.call_id for judgement in judgements},
        "judged": evaluation["aggregated"]["judged"],
        "scores": dict(means),
    }


def _record(collection: str, key: Fields, content: Fields, **insert: Any) -> Record:
    """Return a record as `toolkit.store.documents` describes it; ``insert`` is written with a new document only."""
    # Built by hand: a document class takes four times as long, and there are many thousands. A test compares
    # each kind of record with its class.
    may_lack = documents.FIELDS["may_lack"] if collection == "runs" else ()
    absent = [name for name in may_lack if content.get(name) is None]
    present = {name: value for name, value in content.items() if name not in absent}
    now = utc_now()
    # Only these fields are set: an evaluation that another process wrote meanwhile stays. Absent optional fields are
    # removed: a success keeps no failure.
    change: Document = {"$set": present, **TOUCH}
    if absent:
        change["$unset"] = dict.fromkeys(absent, "")
    return Record(collection, {**key, **present, **insert, "created_at": now, "updated_at": now}, key, change)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it stands in the store."""

    document_id: Any  # the store's own key, by which a document is changed fastest
    run_id: str
    blob_id: str | None
    failure: str | None
    defect: str | None
    policy: str | None  # what the study said should become of a reply that is not whole
    excluded: str | None  # why no judge sees the reply
    judged: bool
    ensemble_key: str | None  # what it was judged under, ``None`` when a judge has still to answer
    judge_calls: Mapping[str, str]  # call ids of the judgements that count, by label (`judge_label`)
    finish_reason: str | None
    output_tokens: int | None


def stored_runs(store: Store, study: str, call_ids: Collection[str]) -> dict[tuple[str, str, int], StoredRun]:
    """Return the runs of a study that the given calls answer, by prompt id, model and repeat."""
    runs = run_documents(store, study, call_ids)
    return {(run["prompt_id"], run["model"], run["repeat"]): stored_run(run) for run in runs}


def run_documents(
    store: Store, study: str, call_ids: Collection[str], *, leave_out: str = ""
) -> Iterator[Document]:
    """Yield the raw runs of a study that the given calls answer, with the fields that say how they stand."""
    fields = [name for name in documents.FIELDS["of_stored_run"] if name != leave_out]
    if len(call_ids) <= CHUNK:
        rows: Iterable[Document] = store.find_by(documents.Run, "call_id", call_ids, only=fields)
    else:  # one cursor over all of them: each part of a list of ids would read the collection again
        planned = frozenset(call_ids)
        rows = store.each_where(documents.Run, {"study": study}, only=fields)
        rows = (run for run in rows if run["call_id"] in planned)
    yield from (run for run in rows if run["study"] == study)


def stored_after(record: Record, earlier: Fields | None) -> StoredRun:
    """Return a run as it stands once its record is written, over the document that was there before it, if any."""
    if earlier is None or record.change is None:
        return stored_run(record.document)
    changed, removed = {**earlier, **record.change["$set"]}, record.change.get("$unset", ())
    return stored_run({name: value for name, value in changed.items() if name not in removed})


def stored_run(run: Fields) -> StoredRun:
    """Return a raw run as it stands."""
    defect, policy = run.get("defect"), run.get("reply_policy")
    judged = run if is_current(run) else {}
    return StoredRun(
        document_id=run["_id"],
        run_id=run["run_id"],
        blob_id=run.get("output_blob_id"),
        failure=run.get("failure") or "unknown" if run["status"] == "failed" else None,
        defect=defect,
        policy=policy,
        excluded=None if policy == "keep" else defect,
        judged=bool(judged.get("judged")),
        ensemble_key=judged.get("ensemble_key"),
        judge_calls=judged.get("judge_calls") or {},
        finish_reason=run.get("finish_reason"),
        output_tokens=(run.get("tokens") or {}).get("output"),
    )


def is_current(run: Fields) -> bool:
    """Return whether the judges of a run saw the text that is its reply now."""
    return run.get("judged_blob_id") is not None and run["judged_blob_id"] == run.get("output_blob_id")


@dataclass(frozen=True)
class StoredRecords:
    """What is in the store of some runs, whole, so that what a replay makes again can be compared with it."""

    runs: Mapping[tuple[str, str, int, str], Fields]
    judgements: Mapping[tuple[str, str, str], Fields]
    blobs: Collection[str]  # ids of the texts that are what they were when they were written

    def of(self, record: Record) -> Fields | None:
        """Return the document that a record is about, ``None`` when there is none."""
        key = record.key
        if record.collection == "runs":
            return self.runs.get((key["prompt_id"], key["model"], key["repeat"], key["call_id"]))
        if record.collection == "annotations":
            return self.judgements.get((key["run_id"], key["judge"], key["call_id"]))
        return None

    @cached_property
    def by_id(self) -> dict[Any, Fields]:
        """Runs under the store's own key."""
        return {run["_id"]: run for run in self.runs.values()}


NO_RECORDS = StoredRecords({}, {}, ())


def stored_records(store: Store, study: str, call_ids: Iterable[str]) -> StoredRecords:
    """Return everything but moments in the store of the runs of a study that the given calls answer."""
    matching = store.find_by(documents.Run, "call_id", call_ids, MOMENTS)
    runs = [run for run in matching if run["study"] == study]
    judgements = judgements_of(store, (run["run_id"] for run in runs), MOMENTS)
    texts = (reply_texts(store, some) for some in windows([stored_run(run) for run in runs], CHUNK))
    return StoredRecords(
        {(run["prompt_id"], run["model"], run["repeat"], run["call_id"]): run for run in runs},
        {itemgetter("run_id", "judge", "call_id")(judgement): judgement for judgement in judgements},
        {blob_id for part in texts for blob_id, text in part.items() if sha256_hex(text) == blob_id},
    )


def reply_texts(store: Store, runs: Iterable[StoredRun]) -> dict[str, str]:
    """Return the replies of runs by the id of their text."""
    ids = (run.blob_id for run in runs if run.blob_id)
    blobs = store.find_by(documents.OutputBlob, "blob_id", ids, only=("blob_id", "content"))
    return {blob["blob_id"]: blob["content"] for blob in blobs}


def reply_text(store: Store, run_id: str) -> str:
    """Return the text of a run's reply."""
    run = store.get(documents.Run, {"run_id": run_id})
    if run is None:
        raise InputError(f"run {run_id!r}: not in the store; study.runs() lists the run ids")
    for text in reply_texts(store, [stored_run(run)]).values():
        return text
    lost = "its text is not in the store; `toolkit run STUDY --replay` writes it again from the ledger"
    raise InputError(f"run {run_id}: has no reply ({run.get('failure') or lost})")


def judgements_of(
    store: Store, run_ids: Iterable[str], leave_out: Iterable[str] = (), **options: Any
) -> list[Document]:
    """Return the raw judgements of runs, of judges and of people, under whatever rubric or settings."""
    query = {"kind": documents.JUDGEMENT, **options.pop("query", {})}
    return store.find_by(documents.Annotation, "run_id", run_ids, leave_out, query=query, **options)


def stored_judgements(
    store: Store, runs: Iterable[StoredRun], rubric_hash: str
) -> dict[str, dict[str, Judgement]]:
    """Return the judgements of runs under one rubric that count, by run id and label (`judge_label`)."""
    counting = {run.run_id: run.judge_calls for run in runs if run.judge_calls}
    judgements: dict[str, dict[str, Judgement]] = {}
    for document in judgements_of(store, counting):
        label = judge_label(document["judge"], document.get("judge_repeat") or 0)
        counts = counting[document["run_id"]].get(label) == document["call_id"]
        if counts and document["rubric_hash"] == rubric_hash:
            judgements.setdefault(document["run_id"], {})[label] = judgement_of(document)
    return judgements


def judgement_of(document: Fields) -> Judgement:
    """Return a judgement as it was when it was written."""
    fields = {name: document[name] for name in _JUDGEMENT_FIELDS if name in document}
    fields |= {"rubric_digest": document["rubric_hash"], "call_ids": tuple(document.get("call_ids", ()))}
    return Judgement(**fields)


def with_earlier(store: Store, run: StoredRun, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the judgements of a run, interrupted ones replaced by the earlier ones that it names, or left out."""
    if not any(judgement.interrupted for judgement in judgements):
        return list(judgements)
    earlier = stored_judgements(store, [run], judgements[0].rubric_digest).get(run.run_id, {})
    best = (
        earlier.get(judgement.label, judgement) if judgement.interrupted else judgement
        for judgement in judgements
    )
    calls = {judgement.call_id for judgement in judgements}  # no earlier judgement under other settings
    return [judgement for judgement in best if not judgement.interrupted and judgement.call_id in calls]
