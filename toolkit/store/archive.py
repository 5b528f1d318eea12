"""Write the records of a study into one zip file of JSON lines, check such a file, and add it to a store.

Documents are written and read a few at a time. An archive and a store that contradict each other are not mixed, so no
paid reply and no rating is replaced by another.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import mongoengine as me
from bson import json_util
from bson.errors import BSONError
from pymongo import InsertOne, ReplaceOne, UpdateOne

from toolkit.errors import InputError
from toolkit.files import DAMAGED_ZIP, opened_atomically, similar_file
from toolkit.judges.rubric import scheme_in
from toolkit.store.connection import Store, windows
from toolkit.store.documents import (
    Anchor,
    Call,
    Decision,
    Drift,
    HumanRating,
    Judgement,
    OutputBlob,
    PairVote,
    Prompt,
    RatingRound,
    Rubric,
    Run,
    Settlement,
    fault_of,
)
from toolkit.store.parts import JSON
from toolkit.store.records import calls_beside
from toolkit.store.writer import Duplicate, sealed
from toolkit.words import SCALE, VERSION

FORMAT: Final = "llm-security-toolkit archive 1"
CONTENTS: Final = "archive.json"
_SINCE: Final = ("settlements", "decisions", "anchors", "drifts", "pair_votes")
"""Collections that older archives lack, and that are left out where they are empty: older versions read the rest."""
UNPACKED_AT_MOST: Final = 200  # times the file's size its parts may have; those of studies have 5 to 40
SMALL: Final = 100_000_000  # bytes of parts that are read however small the file is
BLOCK: Final = 4_000_000  # bytes of lines whose documents are in memory at once, with the last one of them
LONGEST: Final = 1 << 29  # bytes of a line: 16 MB may be six times as much in JSON, and some are in parts
_STEP: Final = 1 << 20
_AGE: Final = (1980, 1, 1, 0, 0, 0)  # of every member: the same records are the same bytes
# The last two are what bson says of a date that no calendar has, or of a number that is none.
_DAMAGED: Final = (*DAMAGED_ZIP, BSONError, ArithmeticError)
_Document = Mapping[str, Any]
_Documents = list[dict[str, Any]]
_Operation = InsertOne | ReplaceOne | UpdateOne
_AT_ONCE: Final = 500  # documents
_RUN_IS: Final = ("study", "test", "prompt_id", "model", "repeat", "call_id")
_REPLY_IS: Final = ("text", "finish_reason", "aud_cost", "latency_ms")
_RATING_IS: Final = ("run_id", "blob_id", "scores", "reasons", "created_at")
_ELSEWHERE: Final = "import into an empty results folder"


def write_archive(store: Store, study: str, path: Path, *, call_ids: Iterable[str] = ()) -> Mapping[str, int]:
    """Write every record of a study into one file, and return how many there are of each collection."""
    query = {"study": study}
    fields = ("run_id", "call_id", "prompt_id", "dataset_version", "output_blob_id")
    runs = store.find_where(Run, query, only=fields)
    calls_of_study = store.find_where(Call, query, only=("state",))
    if not runs and not calls_of_study:
        raise InputError(f"{study}: nothing of this study is in the store; run it first")
    run_ids = [run["run_id"] for run in runs]
    judgements = store.find_by(Judgement, "run_id", run_ids, only=("call_id", "rubric_hash"))
    drifts = store.find_where(Drift, query)
    ratings = store.find_where(HumanRating, query, only=("blob_id", "rubric_hash"))
    votes = store.find_where(PairVote, query, only=("call_id", "rubric_hash"))
    leads = {document["call_id"] for document in (*runs, *judgements, *drifts, *votes)}
    calls = {*(call["_id"] for call in calls_of_study), *call_ids, *leads, *calls_beside(store, study, leads)}
    versions = {(run["prompt_id"], run["dataset_version"]) for run in runs}
    texts = {run.get("output_blob_id") for run in runs} | {rating["blob_id"] for rating in ratings}
    parts: Mapping[str, Iterable[_Document]] = {
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
        "rubrics": _in_order(
            store, Rubric, (record["rubric_hash"] for record in (*judgements, *ratings, *votes))
        ),
        "human_ratings": _in_order(store, HumanRating, (rating["_id"] for rating in ratings)),
        "rating_rounds": sorted(store.find_where(RatingRound, query), key=itemgetter("_id")),
    }
    for kind, name in zip((Settlement, Decision, Anchor, Drift, PairVote), _SINCE, strict=True):
        if documents := store.find_where(kind, query):
            parts = {**parts, name: sorted(documents, key=itemgetter(*KEYS[name]))}
    return pack_archive(study, parts, path)


def _in_order(store: Store, kind: type[me.Document], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the documents with these names in the order of an archive, a few at a time: of calls there are many."""
    key = KEYS[kind._meta["collection"]]
    for some in windows(sorted(set(names)), _AT_ONCE):
        yield from sorted(store.find_by(kind, key[0], some), key=itemgetter(*key))


@dataclass(frozen=True)
class Archive:
    """An archive that was read to its end and found whole."""

    path: Path
    study: str
    counts: Mapping[str, int]
    sums: Mapping[str, str]

    def blocks(self, name: str) -> Iterator[_Documents]:
        """Yield the documents of a collection in their order, a few at a time; see ``BLOCK``."""
        if name not in self.sums:
            return
        with _one_line(self.path), zipfile.ZipFile(self.path) as file:
            yield from _blocks(self.path, file, name, self.sums[name])


def pack_archive(study: str, parts: Mapping[str, Iterable[_Document]], path: Path) -> Mapping[str, int]:
    """Write documents into an archive that is whole or not there, and return how many there are of each collection."""
    contents: dict[str, Any] = {"format": FORMAT, "study": study, "toolkit": VERSION, "parts": {}}
    with opened_atomically(path) as target, zipfile.ZipFile(target, "w") as file:
        for name, documents in parts.items():
            digest, count = hashlib.sha256(), 0
            with file.open(_member(f"{name}.jsonl"), "w", force_zip64=True) as stream:
                for document in documents:
                    plain = _named(name, document)
                    line = json_util.dumps(plain, json_options=JSON, sort_keys=True).encode() + b"\n"
                    stream.write(line)
                    digest.update(line)
                    count += 1
            contents["parts"][name] = {"documents": count, "sha256": digest.hexdigest()}
        file.writestr(_member(CONTENTS), json.dumps(contents, indent=1, sort_keys=True))
    return {name: part["documents"] for name, part in contents["parts"].items()}


def check_archive(path: Path) -> Archive:
    """Read the members of an archive once to their end, and check all that can be checked without a store."""
    with _one_line(path), zipfile.ZipFile(path) as file:
        members = {CONTENTS, *(f"{name}.jsonl" for name in KEYS)}
        unpacked = sum(member.file_size for member in file.infolist() if member.filename in members)
        if unpacked > max(SMALL, UNPACKED_AT_MOST * path.stat().st_size):
            raise InputError(
                f"{path}: {path.stat().st_size:,} bytes that would unpack to {unpacked:,} are no archive of "
                "`toolkit export`; nothing was imported"
            )
        with file.open(CONTENTS) as stream:
            contents = json.loads(stream.read(_STEP))
        if contents["format"] != FORMAT:
            raise InputError(f"{path}: format {contents['format']!r}; this toolkit reads {FORMAT!r}")
        for name in contents["parts"]:  # a part that is unknown here would be lost without a word
            if name not in KEYS:
                raise InputError(
                    f"{path}: has {name}, which toolkit {VERSION} does not know; "
                    f"import it with toolkit {contents['toolkit']}, which wrote it"
                )
        if len(set(file.namelist())) < len(file.namelist()):
            raise ValueError("a part is in it twice")
        for name in KEYS:
            if name not in contents["parts"] and f"{name}.jsonl" in file.namelist():
                raise ValueError(f"{name}.jsonl is in it and not among its parts")
        names = [name for name in KEYS if name not in _SINCE or name in contents["parts"]]
        sums = {name: str(contents["parts"][name]["sha256"]) for name in names}
        study, counts = str(contents["study"]), dict.fromkeys(KEYS, 0)
        stored: dict[str, set[Any]] = defaultdict(set)  # names of records, and no texts
        for name in names:
            last: tuple[str, ...] = ()
            for document in chain.from_iterable(_blocks(path, file, name, sums[name])):
                key = _key_of(name, document)
                fault = fault_of(_PARTS[name][0], document) or _misfit(study, name, document, stored)
                if fault or key <= last:
                    message = f"{name} {' '.join(key)[:40]}: {fault or 'is there twice, or not in its place'}"
                    raise ValueError(message)
                last = key
                counts[name] += 1
            if counts[name] != contents["parts"][name]["documents"]:
                raise ValueError(f"{name}: {counts[name]} records, and it says to have another number")
        return Archive(path, study, counts, sums)


def _misfit(study: str, name: str, document: _Document, names: Mapping[str, set[Any]]) -> str | None:
    """Return why a record does not go with those before it; parts stand in the order of what rests on what."""
    match name:
        case "prompts":
            names[name].add(_key_of(name, document))
        case "output_blobs" | "rubrics":
            (key,) = _key_of(name, document)
            if hashlib.sha256(document["content"].encode()).hexdigest() != key:
                return "its text is not the one it is named by"
            names[name].add(key)
            names[f"{name} {key}"].update(scheme_in(document["content"]).scale if name == "rubrics" else ())
            if _are_off(names, key, names[f"scores {key}"]):
                return "a judgement by it is off its scale"
        case "runs":
            itself = itemgetter(*_RUN_IS)(document)
            if document["study"] != study or itself in names["experiments"]:
                return "is of another study, or a second one of the same call"
            names["experiments"].add(itself)
            names[name].add(document["run_id"])
            if (document["prompt_id"], document["dataset_version"]) not in names["prompts"]:
                return "its prompt is not in the archive"
            if (text := document.get("output_blob_id")) and text not in names["output_blobs"]:
                return "its reply is not in the archive"
        case "judgements" | "drifts" if document["run_id"] not in names["runs"]:
            return "its run is not in the archive"
        case "pair_votes" if not {document["first_run_id"], document["second_run_id"]} <= names["runs"]:
            return "its runs are not in the archive"
        case "judgements" | "drifts":  # the rubrics come after them
            names[f"scores {document['rubric_hash']}"].update((document.get("scores") or {}).values())
        case "human_ratings" if _are_off(names, document["rubric_hash"], document.get("scores", {}).values()):
            return "it is off the scale of its rubric"
    return None


def _are_off(names: Mapping[str, set[Any]], rubric: str, scores: Iterable[float | None]) -> bool:
    scale = names[f"rubrics {rubric}"] or SCALE
    return any(score is not None and not min(scale) <= score <= max(scale) for score in scores)


def _key_of(name: str, document: _Document) -> tuple[str, ...]:
    return tuple(document[part] for part in KEYS[name])


def _named(name: str, document: _Document) -> _Document:
    if KEYS[name] == ("_id",):
        return document
    return {part: value for part, value in document.items() if part != "_id"}


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with a file that is being read."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {similar_file(path)}check the path") from None
    except _DAMAGED as error:
        raise InputError(f"{path}: no whole archive of `toolkit export` ({error}); copy it again") from None


def _blocks(path: Path, file: zipfile.ZipFile, name: str, sha256: str) -> Iterator[_Documents]:
    """Yield the documents of one part, and know at its end whether it is as it was written."""
    digest, size = hashlib.sha256(), 0
    block: _Documents = []
    # In large steps; in one, zipfile would unpack all there is whatever size the file claims.
    with file.open(f"{name}.jsonl") as stream, io.BufferedReader(stream, _STEP) as lines:  # type: ignore[type-var]
        while line := lines.readline(LONGEST):
            digest.update(line)
            document: dict[str, Any] = json_util.loads(line, json_options=JSON)
            if not all(isinstance(part, str) for part in _key_of(name, document)):
                raise ValueError(f"a record without a name: {', '.join(KEYS[name])}")
            block.append(document)
            size += len(line)
            if size >= BLOCK:
                yield block
                block, size = [], 0
    if digest.hexdigest() != sha256:
        raise InputError(f"{path}: {name}.jsonl was changed after it was written; import a whole copy")
    if block:
        yield block


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_AGE)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


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
    writes = dict(archive.counts)
    for name in KEYS:
        if store.has(_PARTS[name][0], {}):  # what is not there contradicts nothing
            operations = (_operations(store, name, block, archive) for block in archive.blocks(name))
            writes[name] = sum(len(new) + len(changed) for new, changed in operations)
    added, updated = dict.fromkeys(KEYS, 0), dict.fromkeys(KEYS, 0)
    for name in KEYS:
        for block in archive.blocks(name) if writes[name] else ():
            new, changed = _operations(store, name, block, archive)
            added[name] += len(new)
            updated[name] += len(changed)
            for write in [store.writer.submit(name, operation) for operation in (*new, *changed)]:
                try:
                    write.result()
                except Duplicate:  # another import was first with the same record
                    added[name] -= 1
    known = {name: archive.counts[name] - added[name] - updated[name] for name in KEYS}
    return Imported(archive.study, added, updated, known)


def _operations(
    store: Store, name: str, documents: _Documents, archive: Archive
) -> tuple[list[_Operation], list[_Operation]]:
    """Return what is to be inserted and what changed; an archive and a store that contradict each other are refused."""
    kind, key, compared, merge = _PARTS[name]
    ids = (document[key[0]] for document in documents)
    existing = store.find_by(kind, key[0], ids, only=(*key, *compared))
    stored = {_key_of(name, document): document for document in existing}
    pairs = [(document, stored.get(_key_of(name, document))) for document in documents]
    new = [document for document, earlier in pairs if earlier is None]
    try:
        if name == "runs":
            _refuse_other_runs(store, new)
        merged = [merge(document, earlier) for document, earlier in pairs if earlier] if merge else []
    except InputError as error:
        raise InputError(f"{archive.path}: {error}") from None
    inserts: list[_Operation] = [InsertOne(_named(name, document)) for document in new]
    return inserts, [change for change in merged if change is not None]


def _same_prompt(new: _Document, stored: _Document) -> None:
    if new["text"] != stored["text"]:
        name = f"prompt {new['prompt_id']} of dataset version {new['dataset_version']}"
        raise InputError(f"{name} has another text in this store; {_ELSEWHERE}")


def _call(new: _Document, stored: _Document) -> _Operation | None:
    name = f"call {new['_id'][:12]}..."
    if stored["state"] == "claimed":
        raise InputError(
            f"{name} is under way in this store, or was left by a process that was killed; "
            f"let `toolkit run` of study {stored['study']} come to its end first, or {_ELSEWHERE}"
        )
    if new["state"] != "done":
        return None
    if stored["state"] == "done":
        if any(new.get(name) != stored.get(name) for name in _REPLY_IS):
            twice = f"{name} has another reply in this store: both machines have asked it"
            raise InputError(f"{twice}; {_ELSEWHERE}")
        return None
    # What was sent from here and failed may have been billed, and the ledger forgets no attempt.
    attempts = new.get("attempts") or []
    further = [attempt for attempt in stored.get("attempts") or [] if attempt not in attempts]
    merged = dict(new)
    if further:
        merged["attempts"] = [*further, *attempts]
        merged["unsure_aud"] = (new.get("unsure_aud") or 0.0) + (stored.get("unsure_aud") or 0.0)
    return ReplaceOne({"_id": new["_id"]}, sealed(merged) if "seal" in merged else merged)


def _newest(new: _Document, stored: _Document) -> _Operation | None:
    """Return how the archive's version of a run or judgement comes in the store's place, where it is the later one."""
    # One with an answer comes after one without, whenever that one was tried.
    ranks = [
        (bool(version.get("answered")) or version.get("status") == "succeeded", version["updated_at"])
        for version in (new, stored)
    ]
    if ranks[0] <= ranks[1]:
        return None
    return ReplaceOne({"_id": stored["_id"]}, {name: value for name, value in new.items() if name != "_id"})


def _same_rating(new: _Document, stored: _Document) -> None:
    if any(new.get(name) != stored.get(name) for name in _RATING_IS):
        rated = f"{new['rater']} has rated run {new['run_id']} here and elsewhere"
        raise InputError(f"{rated}, as version {new['version']} both; {_ELSEWHERE}")


def _longer_round(new: _Document, stored: _Document) -> _Operation | None:
    further = [run_id for run_id in new["run_ids"] if run_id not in stored["run_ids"]]
    if not further:
        return None
    change = {"$push": {"run_ids": {"$each": further}}, "$set": {"size": new["size"]}}
    return UpdateOne({"_id": stored["_id"]}, change)


def _refuse_other_runs(store: Store, runs: _Documents) -> None:
    """Two machines that made the same run gave it two ids, and judgements of one would hang in the air."""
    runs_here = store.find_by(Run, "call_id", (run["call_id"] for run in runs), only=("run_id", *_RUN_IS))
    stored = {itemgetter(*_RUN_IS)(run): run["run_id"] for run in runs_here}
    for run in runs:
        if (run_id := stored.get(itemgetter(*_RUN_IS)(run))) is not None:
            twice = f"run {run['run_id']} is in this store as {run_id}: both machines have asked this study"
            raise InputError(f"{twice}; {_ELSEWHERE}, then `toolkit run` there")


_Merge = Callable[[_Document, _Document], _Operation | None]
_ID: Final = ("_id",)
_VOTE: Final = ("first_run_id", "second_run_id", "judge", "call_id")
_PARTS: Final[Mapping[str, tuple[type[me.Document], tuple[str, ...], tuple[str, ...], _Merge | None]]] = {
    "prompts": (Prompt, ("prompt_id", "dataset_version"), ("text",), _same_prompt),
    # Named by the hash of its content, so it is the same.
    "output_blobs": (OutputBlob, ("blob_id",), (), None),
    "calls": (Call, _ID, ("state", "study", "attempts", "unsure_aud", *_REPLY_IS), _call),
    "runs": (Run, ("run_id",), ("status", "updated_at"), _newest),
    "judgements": (Judgement, ("run_id", "judge", "call_id"), ("answered", "updated_at"), _newest),
    "rubrics": (Rubric, _ID, (), None),
    "human_ratings": (HumanRating, _ID, _RATING_IS, _same_rating),
    "rating_rounds": (RatingRound, _ID, ("run_ids",), _longer_round),
    "settlements": (Settlement, _ID, (), None),
    "decisions": (Decision, _ID, (), None),
    "anchors": (Anchor, _ID, (), None),
    "drifts": (Drift, ("run_id", "judge", "call_id", "anchor"), ("answered", "updated_at"), _newest),
    "pair_votes": (PairVote, _VOTE, ("answered", "updated_at"), _newest),
}
"""How a collection is imported, in the order in which an import writes them, the ledger before what rests on it: its
class, what names a document, what is read of a document that is there, what becomes of the two. Owners, accounts and
batches are of the processes of one machine and are not among them."""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {name: key for name, (_, key, _, _) in _PARTS.items()}
