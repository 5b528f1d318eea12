"""What a study's records are, made again from its ledger, and where the records that are kept differ from that."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from toolkit.store.connection import Store
from toolkit.store.stored import Kept, Stored, kept_documents, reply_texts

_CHUNK: Final = 1000
_OWN: Final = ("_id", "run_id", "created_at", "updated_at")
"""What is given when a record is written, and so differs between two that say the same."""


def copy_ledger(store: Store, into: Store) -> int:
    """Copy every answered call into an empty store, and return how many there are.

    Those of other studies too: a study counts calls that another one paid for.
    """
    copied = 0
    calls = store.database["calls"].find({"state": "done"})
    while chunk := list(islice(calls, _CHUNK)):
        into.database["calls"].insert_many(chunk)
        copied += len(chunk)
    return copied


def differing_records(store: Store, rebuilt: Store, study: str, call_ids: Iterable[str]) -> Iterator[str]:
    """Yield a line for every run, judgement and reply of a study that is not what the rebuilt store has.

    A run that failed has no reply in the ledger, so it is right not to be rebuilt.
    """
    ids = tuple(call_ids)
    kept, again = kept_documents(store, study, ids), kept_documents(rebuilt, study, ids)
    runs, runs_again = _runs(kept), _runs(again)
    failed = {name for name, run in runs.items() if run["status"] == "failed"}
    yield from _differences(
        {name: run for name, run in runs.items() if name not in failed or name in runs_again}, runs_again
    )
    yield from _differences(_judgements(kept), _judgements(again))
    stored = kept.stored().values()
    yield from _changed_texts(store, stored)


def counts_of(store: Store, study: str, call_ids: Iterable[str]) -> tuple[int, int]:
    """Return how many runs of a study the store holds, and how many judgements of them count."""
    kept = kept_documents(store, study, call_ids)
    return len(kept.runs), len(_judgements(kept))


def _runs(kept: Kept) -> dict[str, Mapping[str, Any]]:
    return {
        f"run of {prompt} by {model}, repeat {repeat}": run
        for (prompt, model, repeat, _), run in kept.runs.items()
    }


def _judgements(kept: Kept) -> dict[str, Mapping[str, Any]]:
    """Return the judgements that count: those whose calls the run names."""
    by_run = {run["run_id"]: (name, run) for name, run in _runs(kept).items()}
    found = {}
    for said in kept.judgements.values():
        name, run = by_run[said["run_id"]]
        labels = [label for label, call in (run.get("judge_calls") or {}).items() if call == said["call_id"]]
        for label in labels:
            found[f"judgement by {label} of {name}"] = said
    return found


def _differences(
    kept: Mapping[str, Mapping[str, Any]], again: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for name in sorted({*kept, *again}):
        if name not in again:
            yield f"{name}: the ledger does not give it"
        elif name not in kept:
            yield f"{name}: is missing, and the ledger gives it"
        else:
            ours, theirs = _plain(kept[name]), _plain(again[name])
            parts = sorted(part for part in {*ours, *theirs} if ours.get(part) != theirs.get(part))
            if parts:
                yield f"{name}: {', '.join(parts)} differ from what the ledger gives"


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in _OWN and value is not None}


def _changed_texts(store: Store, stored: Iterable[Stored]) -> Iterator[str]:
    runs = [run for run in stored if run.blob_id]
    texts = reply_texts(store, runs)
    for run in runs:
        blob_id = str(run.blob_id)
        if blob_id not in texts:
            yield f"reply of run {run.run_id}: its text is missing"
        elif hashlib.sha256(texts[blob_id].encode()).hexdigest() != blob_id:
            yield f"reply of run {run.run_id}: its text was changed"
