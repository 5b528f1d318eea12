"""A study's records as one file, for a second machine, a supervisor, or a safe place, and back into a store.

The file is one zip of JSON lines with the SHA-256 of each part, read with suspicion, and written and read a few
documents at a time: all of them in memory would be many times as much as the file. Nothing that was paid for and no
word of a person is ever replaced by another: an archive and a store that contradict each other are not mixed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import mongoengine as me
from bson import json_util
from bson.errors import BSONError
from pymongo import InsertOne, ReplaceOne, UpdateOne

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.store.calls import calls_beside
from toolkit.store.connection import Store
from toolkit.store.documents import (
    DOCUMENTS,
    Call,
    HumanRating,
    Judgement,
    OutputBlob,
    Prompt,
    RatingRound,
    Rubric,
    Run,
    Settlement,
)
from toolkit.store.writer import Duplicate
from toolkit.words import VERSION

FORMAT: Final = "llm-security-toolkit archive 1"
CONTENTS: Final = "archive.json"
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompts": ("prompt_id", "dataset_version"),
    "output_blobs": ("blob_id",),
    "calls": ("_id",),
    "runs": ("run_id",),
    "judgements": ("run_id", "judge", "call_id"),
    "rubrics": ("_id",),
    "human_ratings": ("_id",),
    "rating_rounds": ("_id",),
    "settlements": ("_id",),
}
"""What names a document of each collection, in the order in which an import writes them: the ledger before what
rests on it. Owners, accounts and batches are of the processes of one machine and are not among them."""
UNPACKED_AT_MOST: Final = 200
"""How many times the size of the file its parts may have together; those of studies have five to forty times."""
SMALL: Final = 100_000_000
"""Bytes of parts that are read however small the file is."""
BLOCK: Final = 4_000_000
"""Bytes of lines whose documents are in memory at the same time, together with the last one of them."""
LONGEST: Final = 1 << 27
"""Bytes of one line: a document has 16 MB at most, and JSON needs up to six for one of them."""
_STEP: Final = 1 << 20
_AGE: Final = (1980, 1, 1, 0, 0, 0)  # of every member: the same records are the same bytes
# Whole numbers, floats and moments come back as they were, moments as the store gives them.
_OPTIONS: Final = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)
Documents = list[dict[str, Any]]


@dataclass(frozen=True)
class Archive:
    """An archive that was read to its end and found whole."""

    path: Path
    study: str
    counts: Mapping[str, int]
    sums: Mapping[str, str]

    def blocks(self, name: str) -> Iterator[Documents]:
        """Yield the documents of a collection in their order, a few at a time; see ``BLOCK``."""
        if name not in self.sums:
            return
        with _one_line(self.path), zipfile.ZipFile(self.path) as file:
            yield from _blocks(self.path, file, name, self.sums[name])


def pack_archive(
    study: str, parts: Mapping[str, Iterable[Mapping[str, Any]]], path: Path
) -> Mapping[str, int]:
    """Write documents into an archive that is whole or not there, and return how many there are of each collection."""
    buffer = io.BytesIO()
    about: dict[str, Any] = {"format": FORMAT, "study": study, "toolkit": VERSION, "parts": {}}
    with zipfile.ZipFile(buffer, "w") as file:
        for name in parts:
            key = KEYS[name]
            digest, count = hashlib.sha256(), 0
            with file.open(_member(f"{name}.jsonl"), "w", force_zip64=True) as stream:
                for document in parts[name]:
                    plain = document if key == ("_id",) else without_id(document)
                    line = json_util.dumps(plain, json_options=_OPTIONS, sort_keys=True).encode() + b"\n"
                    stream.write(line)
                    digest.update(line)
                    count += 1
            about["parts"][name] = {"documents": count, "sha256": digest.hexdigest()}
        file.writestr(_member(CONTENTS), json.dumps(about, indent=1, sort_keys=True))
    write_atomically(path, buffer.getvalue())
    return {name: part["documents"] for name, part in about["parts"].items()}


def check_archive(path: Path) -> Archive:
    """Read an archive once to its end and check everything that can be checked without a store.

    Only the members that an archive has are read, and nothing is unpacked onto the disk.
    """
    with _one_line(path), zipfile.ZipFile(path) as file:
        _refuse_bomb(path, file)
        with file.open(CONTENTS) as stream:
            about = json.loads(stream.read(_STEP))
        if about["format"] != FORMAT:
            raise InputError(f"{path}: format {about['format']!r}; this toolkit reads {FORMAT!r}")
        _refuse_newer(path, about)
        there = [name for name in KEYS if name != "settlements" or name in about["parts"]]
        sums = {name: str(about["parts"][name]["sha256"]) for name in there}
        counts = {name: sum(map(len, _blocks(path, file, name, sums[name]))) for name in there}
        counts = dict.fromkeys(KEYS, 0) | counts
        return Archive(path, str(about["study"]), counts, sums)


def key_of(document: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return what names a document, see ``KEYS``."""
    return tuple(document[name] for name in names)


def without_id(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without the store's own key."""
    return {name: value for name, value in document.items() if name != "_id"}


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with a file that is being read."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    # What zipfile says of a damaged file: a broken stream is a zlib.error, an unknown method or version a
    # NotImplementedError, and a flag that says "encrypted" a RuntimeError. What bson says of a date that no calendar
    # has, or of a number that is none, are the last two.
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
        BSONError,
        ArithmeticError,
    ) as error:
        raise InputError(f"{path}: no whole archive of `toolkit export` ({error}); copy it again") from None


def _blocks(path: Path, file: zipfile.ZipFile, name: str, sha256: str) -> Iterator[Documents]:
    """Yield the documents of one part, and know at its end whether it is as it was written."""
    digest, size = hashlib.sha256(), 0
    block: Documents = []
    # In large steps; in one, zipfile would unpack all there is whatever size the file claims.
    with file.open(f"{name}.jsonl") as stream, io.BufferedReader(stream, _STEP) as lines:  # type: ignore[type-var]
        while line := lines.readline(LONGEST):
            digest.update(line)
            block.append(_document(line, KEYS[name]))
            size += len(line)
            if size >= BLOCK:
                yield block
                block, size = [], 0
    if digest.hexdigest() != sha256:
        raise InputError(f"{path}: {name}.jsonl was changed after it was written; import a whole copy")
    if block:
        yield block


def _document(line: bytes, key: Sequence[str]) -> dict[str, Any]:
    document: dict[str, Any] = json_util.loads(line, json_options=_OPTIONS)
    if not all(isinstance(part, str) for part in key_of(document, key)):
        raise ValueError(f"a record without a name: {', '.join(key)}")
    return document


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_AGE)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def _refuse_newer(path: Path, about: Mapping[str, Any]) -> None:
    """A part that this toolkit does not know would be lost without a word."""
    for name in about["parts"]:
        if name not in KEYS:
            raise InputError(
                f"{path}: has {name}, which toolkit {VERSION} does not know; "
                f"import it with toolkit {about['toolkit']}, which wrote it"
            )


def _refuse_bomb(path: Path, file: zipfile.ZipFile) -> None:
    known = {CONTENTS, *(f"{name}.jsonl" for name in KEYS)}
    unpacked = sum(member.file_size for member in file.infolist() if member.filename in known)
    if unpacked > max(SMALL, UNPACKED_AT_MOST * path.stat().st_size):
        raise InputError(
            f"{path}: {path.stat().st_size:,} bytes that would unpack to {unpacked:,} are no archive of "
            "`toolkit export`; nothing was imported"
        )


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
_KINDS: Final = {kind._meta["collection"]: kind for kind in DOCUMENTS}
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


_AT_ONCE: Final = 500  # documents


def write_archive(store: Store, study: str, path: Path, *, call_ids: Iterable[str] = ()) -> Mapping[str, int]:
    """Write every record of a study into one file, see `toolkit.store.archive`."""
    of_study = {"study": study}
    about = ("run_id", "call_id", "prompt_id", "dataset_version", "output_blob_id")
    runs = store.find_where(Run, of_study, only=about)
    own = store.find_where(Call, of_study, only=("state",))
    if not runs and not own:
        raise InputError(f"{study}: nothing of this study is in the store; run it first")
    run_ids = [run["run_id"] for run in runs]
    said = store.find_by(Judgement, "run_id", run_ids, only=("call_id", "rubric_hash"))
    ratings = store.find_where(HumanRating, of_study)
    leads = {found["call_id"] for found in (*runs, *said)}
    calls = {*(call["_id"] for call in own), *call_ids, *leads, *calls_beside(store, study, leads)}
    versions = {(run["prompt_id"], run["dataset_version"]) for run in runs}
    texts = {run.get("output_blob_id") for run in runs} | {rating["blob_id"] for rating in ratings}
    parts: Mapping[str, Iterable[Mapping[str, Any]]] = {
        "prompts": (
            prompt
            for prompt in _in_order(store, Prompt, (prompt_id for prompt_id, _ in versions))
            if (prompt["prompt_id"], prompt["dataset_version"]) in versions
        ),
        "output_blobs": _in_order(store, OutputBlob, (text for text in texts if text)),
        # A claimed call is in flight: whoever sent it keeps its answer, and elsewhere it is not known.
        "calls": (call for call in _in_order(store, Call, calls) if call["state"] != "claimed"),
        "runs": _in_order(store, Run, run_ids),
        "judgements": _in_order(store, Judgement, run_ids),
        "rubrics": _in_order(store, Rubric, {found["rubric_hash"] for found in (*said, *ratings)}),
        "human_ratings": _in_order(store, HumanRating, (rating["_id"] for rating in ratings)),
        "rating_rounds": sorted(store.find_where(RatingRound, of_study), key=itemgetter("_id")),
    }
    if settled := store.find_where(
        Settlement, of_study
    ):  # an archive without any is read by older versions too
        parts = {**parts, "settlements": sorted(settled, key=itemgetter("_id"))}
    return pack_archive(study, parts, path)


def _in_order(store: Store, kind: type[me.Document], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the documents with these names in the order of an archive, a few at a time: of calls there are many."""
    key = KEYS[kind._meta["collection"]]
    ordered = sorted(set(names))
    for start in range(0, len(ordered), _AT_ONCE):
        found = store.find_by(kind, key[0], ordered[start : start + _AT_ONCE])
        yield from sorted(found, key=itemgetter(*key))
