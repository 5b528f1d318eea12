"""A study's records as one file, and back into another store: for a second machine, a supervisor, or a safe place."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bson import json_util
from pymongo import InsertOne

from toolkit import __version__
from toolkit.errors import InputError
from toolkit.store.connection import Store
from toolkit.store.documents import Call, Judgement, OutputBlob, Prompt, Rubric, Run
from toolkit.writing import write_atomically

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
}
"""What names a document of each collection, in the order in which an import writes them: the ledger before what
rests on it. Owners, accounts and batches are of the processes of one machine and are not among them."""
_RUN_IS: Final = ("study", "test", "prompt_id", "model", "repeat", "call_id")
_AGE: Final = (1980, 1, 1, 0, 0, 0)  # of every member: the same records are the same bytes
_OPTIONS: Final = json_util.CANONICAL_JSON_OPTIONS  # whole numbers, floats and moments come back as they were


@dataclass(frozen=True)
class Imported:
    """What an import did: documents added and documents that were there already, by collection."""

    study: str
    added: Mapping[str, int]
    known: Mapping[str, int]

    def sentence(self) -> str:
        """Return the outcome in words."""
        return (
            f"{self.study}: {sum(self.added.values())} records added ({self.added['calls']} calls, "
            f"{self.added['runs']} runs, {self.added['judgements']} judgements), "
            f"{sum(self.known.values())} were there already"
        )


def write_archive(store: Store, study: str, path: Path, *, call_ids: Iterable[str] = ()) -> Mapping[str, int]:
    """Write every record of a study into one zip of JSON lines, with the SHA-256 of each part.

    Parameters
    ----------
    store
        An open store.
    study
        Name of the study.
    path
        The file to write; complete or not there.
    call_ids
        Calls that count for the study although another study of the same store paid for them.

    Returns
    -------
    Mapping
        Number of documents of each collection.

    Raises
    ------
    InputError
        When the store holds nothing of the study.
    """
    found = _documents(store, study, call_ids)
    if not found["runs"] and not found["calls"]:
        raise InputError(f"{study}: nothing of this study is in the store; run it first")
    parts = {name: _lines(found[name], KEYS[name]) for name in KEYS}
    counts = {name: len(found[name]) for name in KEYS}
    about = {
        "format": FORMAT,
        "study": study,
        "toolkit": __version__,
        "parts": {
            name: {"documents": counts[name], "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in parts.items()
        },
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        _add(file, CONTENTS, json.dumps(about, indent=1, sort_keys=True).encode())
        for name, content in parts.items():
            _add(file, f"{name}.jsonl", content)
    write_atomically(path, buffer.getvalue())
    return counts


def read_archive(store: Store, path: Path) -> Imported:
    """Add the records of an archive to a store; what is there already stays as it is, so twice is once.

    Everything is checked before the first record is written, and the ledger is written first: an import that is
    stopped half-way is finished by the same command.

    Parameters
    ----------
    store
        An open store.
    path
        A file from `write_archive`.

    Returns
    -------
    Imported

    Raises
    ------
    InputError
        When the file is no archive, was damaged or changed, or holds a run that the store has under another id.
    """
    study, parts = _read(path)
    missing: dict[str, list[dict[str, Any]]] = {}
    for name, documents in parts.items():
        there = _there(store, name, documents)
        missing[name] = [document for document in documents if _key(document, KEYS[name]) not in there]
    _refuse_other_runs(store, missing["runs"], path)
    for name, documents in missing.items():
        # The store gives its own ids to documents that are named by something else.
        own = documents if KEYS[name] == ("_id",) else [_without_id(document) for document in documents]
        for write in [store.writer.submit(name, InsertOne(document)) for document in own]:
            write.result()
    added = {name: len(documents) for name, documents in missing.items()}
    return Imported(study, added, {name: len(parts[name]) - added[name] for name in parts})


def _documents(store: Store, study: str, call_ids: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    database = store.database
    runs = list(database["runs"].find({"study": study}))
    run_ids = [run["run_id"] for run in runs]
    judgements = store.find_by(Judgement, "run_id", run_ids)
    ratings = list(database["human_ratings"].find({"study": study}))
    calls = {call["_id"]: call for call in database["calls"].find({"study": study})}
    named = {*call_ids, *(run["call_id"] for run in runs), *(found["call_id"] for found in judgements)}
    for call in store.find_by(Call, "_id", named - set(calls)):
        calls[call["_id"]] = call
    texts = [run.get("output_blob_id") for run in runs] + [rating["blob_id"] for rating in ratings]
    versions = {(run["prompt_id"], run["dataset_version"]) for run in runs}
    return {
        "prompts": [
            prompt
            for prompt in store.find_by(Prompt, "prompt_id", (prompt_id for prompt_id, _ in versions))
            if (prompt["prompt_id"], prompt["dataset_version"]) in versions
        ],
        "output_blobs": store.find_by(OutputBlob, "blob_id", (text for text in texts if text)),
        # A claimed call is in flight: whoever sent it keeps its answer, and elsewhere it is not known.
        "calls": [call for call in calls.values() if call["state"] != "claimed"],
        "runs": runs,
        "judgements": judgements,
        "rubrics": store.find_by(Rubric, "_id", {found["rubric_hash"] for found in [*judgements, *ratings]}),
        "human_ratings": ratings,
        "rating_rounds": list(database["rating_rounds"].find({"study": study})),
    }


def _lines(documents: Iterable[Mapping[str, Any]], key: Sequence[str]) -> bytes:
    ordered = sorted(documents, key=lambda document: _key(document, key))
    plain = (document if key == ("_id",) else _without_id(document) for document in ordered)
    return "".join(
        json_util.dumps(document, json_options=_OPTIONS, sort_keys=True) + "\n" for document in plain
    ).encode()


def _add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    member = zipfile.ZipInfo(name, date_time=_AGE)
    member.compress_type = zipfile.ZIP_DEFLATED
    file.writestr(member, content)


def _read(path: Path) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    try:
        with zipfile.ZipFile(path) as file:
            about = json.loads(file.read(CONTENTS))
            if about["format"] != FORMAT:
                raise InputError(f"{path}: format {about['format']!r}; this toolkit reads {FORMAT!r}")
            contents = {name: file.read(f"{name}.jsonl") for name in KEYS}
            sums = {name: about["parts"][name]["sha256"] for name in KEYS}
            study = str(about["study"])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: no whole archive of `toolkit export` ({error}); copy it again") from None
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != sums[name]:
            raise InputError(f"{path}: {name}.jsonl was changed after it was written; nothing was imported")
    return study, {
        name: [json_util.loads(line, json_options=_OPTIONS) for line in content.decode().splitlines()]
        for name, content in contents.items()
    }


def _there(store: Store, name: str, documents: Sequence[Mapping[str, Any]]) -> set[tuple[str, ...]]:
    key = KEYS[name]
    wanted = sorted({document[key[0]] for document in documents})
    collection = store.database[name]
    return {
        _key(found, key)
        for start in range(0, len(wanted), 5000)
        for found in collection.find({key[0]: {"$in": wanted[start : start + 5000]}}, dict.fromkeys(key, 1))
    }


def _refuse_other_runs(store: Store, runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Two machines that made the same run gave it two ids, and judgements of one would hang in the air."""
    known = {
        _key(run, _RUN_IS): run["run_id"]
        for run in store.find_by(Run, "call_id", (run["call_id"] for run in runs), only=("run_id", *_RUN_IS))
    }
    for run in runs:
        other = known.get(_key(run, _RUN_IS))
        if other is not None:
            raise InputError(
                f"{path}: run {run['run_id']} is in this store as {other}: both machines have asked this study; "
                "import into an empty results folder, then `toolkit run` there"
            )


def _key(document: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(document[name]) for name in names)


def _without_id(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "_id"}
