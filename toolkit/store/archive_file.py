"""An archive as a file: one zip of JSON lines with the SHA-256 of each part, read with suspicion.

Written and read a few documents at a time: all of them in memory would be many times as much as the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from bson import json_util
from bson.errors import BSONError

from toolkit.errors import InputError
from toolkit.files import write_atomically
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
