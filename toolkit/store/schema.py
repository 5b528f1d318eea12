"""What a document from elsewhere must be, read off the classes of `toolkit.store.documents`, before it is written.

mongoengine's own check makes an object of each document, which takes several times as long, and lets pass what no
store takes, such as a number of more than 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

import bson
import mongoengine as me

from toolkit.store.parts import PARTS

_LARGEST: Final = 1 << 28  # bytes of a document; one of more than 16 MB is stored in parts
_Check = Callable[[Any], bool]


def fault_of(kind: Any, document: Mapping[str, Any]) -> str | None:
    """Return why a document is none of its class, ``None`` where it is one; a field of a later version is kept."""
    if name := _wrong_field(kind, document):
        return f"{name} is missing, or not what it must be"
    if PARTS in document or not _is_plain(document) or len(bson.encode(document)) > _LARGEST:
        return "it holds what no store keeps"
    return None


def _wrong_field(kind: Any, document: Mapping[str, Any]) -> str | None:
    for name, (needed, nullable, check) in _checks(kind).items():
        value = document.get(name)
        if (needed or (name in document and not nullable)) if value is None else not check(value):
            return name
    return None


@cache
def _checks(kind: Any) -> dict[str, tuple[bool, bool, _Check]]:
    """Return for each field, by its name in the store, whether it must be there, may be null, and what it must pass."""
    return {
        kind._db_field_map[name]: (
            bool(field.required and field.default is None),
            # Records write null for a text that there is not.
            bool(field.null or (isinstance(field, me.StringField) and not field.required)),
            _check_of(field),
        )
        for name, field in kind._fields.items()
        if not isinstance(field, me.ObjectIdField)  # the store's own key is not of an archive
    }


def _check_of(field: Any) -> _Check:
    plain, validation = _plain_check_of(field), field.validation
    return plain if validation is None else lambda value: plain(value) and _passes(validation, value)


def _passes(validation: Callable[[Any], None], value: Any) -> bool:
    try:
        validation(value)
    except me.ValidationError:
        return False
    return True


def _plain_check_of(field: Any) -> _Check:
    match field:
        case me.EmbeddedDocumentField():
            return lambda value: isinstance(value, dict) and _wrong_field(field.document_type, value) is None
        case me.DictField():
            return lambda value: isinstance(value, dict)
        case me.ListField():
            inner = _check_of(field.field)
            return lambda value: isinstance(value, list) and all(map(inner, value))
        case me.StringField():
            low, high = field.min_length or 0, field.max_length or _LARGEST
            allowed = field.choices
            return lambda value: (
                isinstance(value, str) and low <= len(value) <= high and (not allowed or value in allowed)
            )
        case me.BooleanField():
            # Older stores have 0 and 1 where an update set a truth value.
            return lambda value: value in (0, 1) and isinstance(value, int | float)
        case me.DateTimeField():
            return lambda value: isinstance(value, datetime)
    least = -math.inf if field.min_value is None else field.min_value
    most = math.inf if field.max_value is None else field.max_value
    integral = isinstance(field, me.IntField)
    return lambda value: (
        _is_number(value) and least <= value <= most and (not integral or isinstance(value, int))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_plain(value: Any) -> bool:
    """Return whether a value is of JSON's kinds or a moment, and no name in it one that means something to a store."""
    if isinstance(value, Mapping):
        names = all(name and "\0" not in name and name[0] != "$" for name in value)
        return names and all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | str | datetime) or _is_number(value)
