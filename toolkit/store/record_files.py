"""The records of a study as JSON lines, with a sum of every field, so that whoever has the files needs no store.

A file is written and read a few records at a time. The sums name the field of a record that was changed since, and the
records that are new or gone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any

from bson import json_util

from toolkit.files.reading import parsed
from toolkit.files.writing import opened_atomically
from toolkit.store import documents
from toolkit.store.connection import Store, windows
from toolkit.store.documents import Kind
from toolkit.store.writer import JSON, Document

RECORD_SUMS = "record_sums.jsonl"
LONGEST = 1 << 27  # bytes of a line: a document of 16 MB may be six times as much in JSON
_ID = ("_id",)
KEYS: Mapping[Kind, tuple[str, ...]] = {
    getattr(documents, name): tuple(key) for name, key in documents.TABLES["records"].items()
}
"""The documents that are records of a study, and what names each: the others are of the processes of one machine."""


def record_file(folder: Path, kind: Kind) -> Path:
    """Return the file of the records of a kind."""
    return folder / f"{kind._meta['collection']}.jsonl"


def write_records(store: Store, study: str, folder: Path, call_ids: Iterable[str]) -> list[Path]:
    """Write all records of a study with the calls that it rests on, and their sums; return the files."""
    query = {"study": study}
    runs = store.find_where(
        documents.Run, query, only=("run_id", "prompt_id", "dataset_version", "output_blob_id")
    )
    run_ids = [run["run_id"] for run in runs]
    rated = ("rubric_hash", "blob_id")
    annotations = store.find_by(documents.Annotation, "run_id", run_ids, only=rated)
    ratings = store.find_where(documents.HumanRating, query, only=rated)
    named: dict[Kind, set[str | None]] = {
        documents.Prompt: {run["prompt_id"] for run in runs},
        documents.OutputBlob: {
            record.get("output_blob_id", record.get("blob_id")) for record in (*runs, *ratings)
        },
        documents.Call: set(call_ids),
        documents.Run: set(run_ids),
        documents.Annotation: set(run_ids),
        documents.Rubric: {record["rubric_hash"] for record in (*annotations, *ratings)},
    }
    versions = sorted({run["dataset_version"] for run in runs})
    files = [record_file(folder, kind) for kind in KEYS]
    with opened_atomically(folder / RECORD_SUMS) as sums:
        for (kind, key), path in zip(KEYS.items(), files, strict=True):
            among = {"dataset_version": {"$in": versions}} if kind is documents.Prompt else None
            names = windows(sorted(filter(None, named.get(kind, ()))))
            portions = (store.find_by(kind, key[0], some, query=among) for some in names)
            with opened_atomically(path) as stream:
                for records in portions if kind in named else [store.find_where(kind, query)]:
                    for record in sorted(records, key=itemgetter(*key)):
                        if key != _ID:
                            del record["_id"]  # given by one store
                        stream.write(_text(record) + b"\n")
                        line = [path.stem, [record[part] for part in key], _sums(record)]
                        sums.write(json.dumps(line, sort_keys=True).encode() + b"\n")
    return [*files, folder / RECORD_SUMS]


def _text(value: Any) -> bytes:
    return json_util.dumps(value, json_options=JSON, sort_keys=True).encode()


def _sums(record: Document) -> dict[str, str]:
    return {name: sha256(_text(value)).hexdigest()[:16] for name, value in record.items()}


def read_records(folder: Path, kind: Kind) -> Iterator[tuple[int, Document | None]]:
    """Yield the number of each line of a file and its record, ``None`` where it holds none."""
    with record_file(folder, kind).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
            try:
                record = parsed(json_util.loads, line, json_options=JSON)
                named = all(isinstance(record[part], str) for part in KEYS[kind])
            except Exception:  # whatever a stranger's line makes a parser raise
                named = False
            yield number, record if named and isinstance(record, dict) else None


def differing_records(folder: Path) -> Iterator[str]:
    """Yield a line for every field and record that is not what its sum says, with file and line."""
    expected: dict[tuple[Any, ...], str] = {}
    with (folder / RECORD_SUMS).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                name, key, fields = parsed(json.loads, line)
                expected[name, *key] = json.dumps(fields)
            except (ValueError, TypeError):
                yield f"{RECORD_SUMS}: line {number} is no sum of a record"
    for kind, key in KEYS.items():
        path = record_file(folder, kind)
        for number, record in read_records(folder, kind) if path.is_file() else ():
            if record is None:
                yield f"{path.name}: line {number} is no record"
                continue
            identity = (path.stem, *(record[part] for part in key))
            if (sums := expected.pop(identity, None)) is None:
                yield f"{path.name}: line {number} is no record of the export, or is there twice"
                continue
            before, now = json.loads(sums), _sums(record)
            for field in sorted({*before, *now}):
                if before.get(field) != now.get(field):
                    verb = "added" if field not in before else "removed" if field not in now else "changed"
                    yield f"{path.name}: line {number}, field {field}: was {verb} after the export"
    for name, *key in expected:
        yield f"{name}.jsonl: the record {' '.join(filter(None, key))} is missing"


def load_records(folder: Path, store: Store) -> None:
    """Put the records of an export into an empty store."""
    for kind in KEYS:
        for some in windows(record for _, record in read_records(folder, kind) if record):
            store.database[kind._meta["collection"]].insert_many(some)
