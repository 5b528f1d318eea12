"""An archive into a store that may hold some of it: what is missing is added, what is older brought up to date.

Nothing that was paid for and no word of a person is ever replaced by another: an archive and a store that contradict
each other are not mixed. A later export of the same study brings what came since: a reply where a call had failed, the
judgements of a run that had none. The archive is read a few documents at a time: once to compare, once to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import InsertOne, ReplaceOne, UpdateOne

from toolkit.errors import InputError
from toolkit.store.archive_file import KEYS, Archive, Documents, key_of, without_id
from toolkit.store.connection import Store
from toolkit.store.documents import DOCUMENTS, Run
from toolkit.store.rating_documents import RATING_DOCUMENTS
from toolkit.store.writer import Duplicate

_RUN_IS: Final = ("study", "test", "prompt_id", "model", "repeat", "call_id")
_REPLY_IS: Final = ("text", "finish_reason", "aud_cost", "latency_ms")
_RATING_IS: Final = ("run_id", "blob_id", "scores", "reasons", "created_at")
_COMPARED: Final[Mapping[str, tuple[str, ...]]] = {
    "prompts": ("text",),
    "calls": ("state", "study", "attempts", "unsure_aud", *_REPLY_IS),
    "runs": ("status", "updated_at"),
    "judgements": ("answered", "updated_at"),
    "human_ratings": _RATING_IS,
    "rating_rounds": ("run_ids",),
}
"""What is read of a document that is there already, besides its name; replies and requests are large."""
_ELSEWHERE: Final = "import into an empty results folder"
_KINDS: Final = {kind._meta["collection"]: kind for kind in (*DOCUMENTS, *RATING_DOCUMENTS)}
_Document = Mapping[str, Any]
_Operation = InsertOne | ReplaceOne | UpdateOne


@dataclass(frozen=True)
class Imported:
    """What an import did: documents added, brought up to date, and there already, by collection."""

    study: str
    added: Mapping[str, int]
    updated: Mapping[str, int]
    known: Mapping[str, int]

    def sentence(self) -> str:
        """Return the outcome in words."""
        return (
            f"{self.study}: {sum(self.added.values())} records added ({self.added['calls']} calls, "
            f"{self.added['runs']} runs, {self.added['judgements']} judgements), "
            f"{sum(self.updated.values())} brought up to date, {sum(self.known.values())} were there already"
        )


def add_archive(store: Store, archive: Archive) -> Imported:
    """Add the records of an archive to a store; twice is once.

    A call that failed here gets the reply of the archive, a run or judgement the version that was changed last, a round
    of ratings its further replies. Everything is compared before the first record is written, and the ledger is written
    first: an import that is stopped half-way is finished by the same command.
    """
    ahead = {name: _compare(store, name, archive) for name in KEYS}
    written = {name: _write(store, name, archive) if ahead[name] else (0, 0) for name in KEYS}
    added = {name: counts[0] for name, counts in written.items()}
    updated = {name: counts[1] for name, counts in written.items()}
    known = {name: archive.counts[name] - added[name] - updated[name] for name in KEYS}
    return Imported(archive.study, added, updated, known)


def _compare(store: Store, name: str, archive: Archive) -> int:
    """Return how many documents of a collection are to be written, and refuse those that the store contradicts."""
    if store.database[name].find_one({}, {"_id": 1}) is None:  # what is not there contradicts nothing
        return archive.counts[name]
    return sum(sum(map(len, _operations(store, name, block, archive))) for block in archive.blocks(name))


def _write(store: Store, name: str, archive: Archive) -> tuple[int, int]:
    """Write the documents of a collection, and return how many were added and how many brought up to date."""
    added = updated = 0
    for block in archive.blocks(name):
        new, changed = _operations(store, name, block, archive)
        added += len(new)
        updated += len(changed)
        for write in [store.writer.submit(name, operation) for operation in (*new, *changed)]:
            try:
                write.result()
            except Duplicate:  # another import was first with the same record
                added -= 1
    return added, updated


def _operations(
    store: Store, name: str, documents: Documents, archive: Archive
) -> tuple[list[_Operation], list[_Operation]]:
    """Return what adds the documents that a store lacks, and what brings those up to date that it has."""
    there = _there(store, name, documents)
    new = [one for one in documents if key_of(one, KEYS[name]) not in there]
    if name == "runs":
        _refuse_other_runs(store, new, archive)
    merge = _MERGES[name]
    merged = (
        merge(one, there[key], archive) for one in documents if (key := key_of(one, KEYS[name])) in there
    )
    return (
        # The store gives its own ids to documents that are named by something else.
        [InsertOne(one if KEYS[name] == ("_id",) else without_id(one)) for one in new],
        [operation for operation in merged if operation is not None],
    )


def _there(store: Store, name: str, documents: Sequence[_Document]) -> dict[tuple[str, ...], _Document]:
    """Return what the store has of the documents of a collection, by their names."""
    key = KEYS[name]
    only = (*key, *_COMPARED.get(name, ()))
    found = store.find_by(_KINDS[name], key[0], (document[key[0]] for document in documents), only=only)
    return {key_of(one, key): one for one in found}


def _keep(new: _Document, known: _Document, archive: Archive) -> None:
    """Named by the hash of its content, so it is the same."""


def _same_prompt(new: _Document, known: _Document, archive: Archive) -> None:
    if new["text"] != known["text"]:
        raise InputError(
            f"{archive.path}: prompt {new['prompt_id']} of dataset version {new['dataset_version']} has another "
            f"text in this store; {_ELSEWHERE}"
        )


def _call(new: _Document, known: _Document, archive: Archive) -> _Operation | None:
    if known["state"] == "claimed":
        raise InputError(
            f"{archive.path}: call {new['_id'][:12]}... is under way in this store, or was left by a process that was "
            f"killed; let `toolkit run` of study {known['study']} come to its end first, or {_ELSEWHERE}"
        )
    if new["state"] != "done":
        return None
    if known["state"] == "done":
        if any(new.get(name) != known.get(name) for name in _REPLY_IS):
            raise InputError(
                f"{archive.path}: call {new['_id'][:12]}... has another reply in this store: both machines have asked "
                f"it; {_ELSEWHERE}"
            )
        return None
    # What was sent from here and failed may have been billed, and the ledger forgets no attempt.
    own = [attempt for attempt in known.get("attempts") or [] if attempt not in (new.get("attempts") or [])]
    merged = dict(new)
    if own:
        merged["attempts"] = [*own, *(new.get("attempts") or [])]
        merged["unsure_aud"] = (new.get("unsure_aud") or 0.0) + (known.get("unsure_aud") or 0.0)
    return ReplaceOne({"_id": new["_id"]}, merged)


def _run(new: _Document, known: _Document, archive: Archive) -> _Operation | None:
    return _newest(new, known, lambda run: run["status"] == "succeeded")


def _judgement(new: _Document, known: _Document, archive: Archive) -> _Operation | None:
    return _newest(new, known, lambda said: said["answered"])


def _newest(new: _Document, known: _Document, got: Callable[[_Document], bool]) -> _Operation | None:
    """Return how the archive's version comes in the store's place, where it is the later one.

    One with an answer comes after one without, whenever that one was tried.
    """
    if (got(new), new["updated_at"]) <= (got(known), known["updated_at"]):
        return None
    return ReplaceOne({"_id": known["_id"]}, without_id(new))


def _same_rating(new: _Document, known: _Document, archive: Archive) -> None:
    if any(new.get(name) != known.get(name) for name in _RATING_IS):
        raise InputError(
            f"{archive.path}: {new['rater']} has rated run {new['run_id']} here and elsewhere, as version "
            f"{new['version']} both; {_ELSEWHERE}"
        )


def _longer_round(new: _Document, known: _Document, archive: Archive) -> _Operation | None:
    further = [run_id for run_id in new["run_ids"] if run_id not in known["run_ids"]]
    if not further:
        return None
    change = {"$addToSet": {"run_ids": {"$each": further}}, "$set": {"size": new["size"]}}
    return UpdateOne({"_id": known["_id"]}, change)


_MERGES: Final[Mapping[str, Callable[[_Document, _Document, Archive], _Operation | None]]] = {
    "prompts": _same_prompt,
    "output_blobs": _keep,
    "calls": _call,
    "runs": _run,
    "judgements": _judgement,
    "rubrics": _keep,
    "human_ratings": _same_rating,
    "rating_rounds": _longer_round,
    "settlements": _keep,
}


def _refuse_other_runs(store: Store, runs: Documents, archive: Archive) -> None:
    """Two machines that made the same run gave it two ids, and judgements of one would hang in the air."""
    known = {
        key_of(run, _RUN_IS): run["run_id"]
        for run in store.find_by(Run, "call_id", (run["call_id"] for run in runs), only=("run_id", *_RUN_IS))
    }
    for run in runs:
        other = known.get(key_of(run, _RUN_IS))
        if other is not None:
            raise InputError(
                f"{archive.path}: run {run['run_id']} is in this store as {other}: both machines have asked this "
                f"study; {_ELSEWHERE}, then `toolkit run` there"
            )
