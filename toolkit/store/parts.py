"""Documents that are larger than a store takes: their largest fields are stored in parts, and joined when read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

import bson
from bson import json_util
from bson.errors import BSONError
from pymongo import InsertOne, ReplaceOne, UpdateOne

from toolkit.errors import StoreError

PARTS: Final = "parts"
"""The collection of parts, and the field of a document that names them: of each field that is not in it, in order."""
LARGEST: Final = 15_000_000
"""Bytes of a document that is stored as it is; a server takes 16 MB, with what it adds."""
_MOVED: Final = 100_000  # bytes of a field, at least, that is stored in parts: keys are not
_PART: Final = 4_000_000  # characters, of up to four bytes
JSON: Final = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)
"""Whole numbers, floats and moments come back as they were, moments as a store gives them."""


def divided(operations: Sequence[Any]) -> tuple[list[InsertOne], list[Any]]:
    """Return the parts that are to be written first, and the operations, the large ones without what is in parts."""
    pieces: list[InsertOne] = []
    return pieces, [_smaller(operation, pieces) for operation in operations]


def _smaller(operation: Any, pieces: list[InsertOne]) -> Any:
    if isinstance(operation, UpdateOne):
        change: dict[str, Any] = dict(operation._doc)  # type: ignore[arg-type]
        fields, named = _taken(change.get("$set", {}), pieces)
        if not named:
            return operation
        fields |= {f"{PARTS}.{name}": ids for name, ids in named.items()}
        removed = {**change.get("$unset", {}), **dict.fromkeys(named, "")}
        return UpdateOne(operation._filter, {**change, "$set": fields, "$unset": removed}, operation._upsert)
    if isinstance(operation, InsertOne | ReplaceOne):
        fields, named = _taken(operation._doc, pieces)
        if named and isinstance(operation, ReplaceOne):
            return ReplaceOne(operation._filter, {**fields, PARTS: named}, operation._upsert)
        if named:
            return InsertOne({**fields, PARTS: named})
    return operation


def _taken(document: Mapping[str, Any], pieces: list[InsertOne]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a document without its largest fields, where it is too large, and the ids of the parts of these."""
    fields: dict[str, Any] = dict(document)
    named: dict[str, list[str]] = {}
    try:
        size = len(bson.encode(fields))
        if size <= LARGEST:
            return fields, named
        sizes = {name: len(bson.encode({"": value})) for name, value in fields.items() if name != "_id"}
    except (BSONError, OverflowError):  # the write says what is wrong
        return fields, named
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if size <= LARGEST or sizes[name] < _MOVED:
            break
        size -= sizes[name]
        text = json_util.dumps(fields.pop(name), json_options=JSON, ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()
        contents = [text[start : start + _PART] for start in range(0, len(text), _PART)]
        named[name] = [f"{digest}-{number:04}" for number in range(len(contents))]
        parts = zip(named[name], contents, strict=True)
        pieces += (InsertOne({"_id": part_id, "content": content}) for part_id, content in parts)
    return fields, named


def joined(
    documents: Iterable[dict[str, Any]],
    read: Callable[[list[str]], Iterable[Mapping[str, Any]]],
    leave_out: Container[str] = (),
) -> Iterator[dict[str, Any]]:
    """Yield documents with their fields that were stored in parts; ``read`` returns parts by their ids."""
    for document in documents:
        for name, ids in document.pop(PARTS, {}).items():
            if name in document or name in leave_out:  # changed since to a small one
                continue
            contents = {part["_id"]: part["content"] for part in read(ids)}
            try:
                text = "".join(contents[part_id] for part_id in ids)
                document[name] = json_util.loads(text, json_options=JSON)
            except (KeyError, ValueError):
                raise StoreError(
                    f"{document['_id']}: a part of its {name} is missing or was changed; restore it from a backup, "
                    "or `toolkit import` an archive into another results folder"
                ) from None
        yield document
