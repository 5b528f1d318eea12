"""What a document from elsewhere must be, read off the classes of `toolkit.store.documents`, before it is written.

mongoengine's own check makes an object of each document and takes several times as long; and it lets pass what no
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

LARGEST: Final = 16_000_000  # bytes that a store takes as one document
_Check = Callable[[Any], bool]


def fault_of(kind: Any, document: Mapping[str, Any]) -> str | None:
    """Return why a document is none of its class, ``None`` where it is one."""
    for name, (needed, check) in _checks(kind).items():
        value = document.get(name)
        if value is None:
            if needed:
                return f"{name} is missing"
        elif not check(value):
            return f"{name} is no {name} of a document"
    # A field of a later version is kept, whatever it is called, as long as every store can hold it.
    if not _is_plain(document):
        return "it holds what no store keeps"
    if len(bson.encode(document)) > LARGEST:
        return "it is larger than a store takes"
    return None


@cache
def _checks(kind: Any) -> dict[str, tuple[bool, _Check]]:
    """Return for each field, by its name in the store, whether it must be there and what its value must pass."""
    checks = {
        kind._db_field_map[name]: (bool(field.required and field.default is None), _check_of(field))
        for name, field in kind._fields.items()
        if not isinstance(field, me.ObjectIdField)  # the store's own key is not of an archive
    }
    for name, check in _INSIDE.items():
        if name in checks:
            checks[name] = (checks[name][0], check)
    return checks


def _check_of(field: Any) -> _Check:
    """Return what a value of a field must pass."""
    inner: _Check | None = None
    match field:
        case me.EmbeddedDocumentField():
            kind = field.document_type

            def embedded(value: Any) -> bool:
                parts = _checks(kind).items()
                return isinstance(value, dict) and all(
                    not needed if value.get(name) is None else check(value[name])
                    for name, (needed, check) in parts
                )

            return embedded
        case me.DictField():
            return lambda value: isinstance(value, dict)
        case me.ListField():
            inner = _check_of(field.field)
            return lambda value: isinstance(value, list) and all(map(inner, value))
        case me.StringField():
            low, high = field.min_length or 0, field.max_length or LARGEST
            return lambda value: (
                isinstance(value, str)
                and low <= len(value) <= high
                and (field.choices is None or value in field.choices)
            )
        case me.BooleanField():
            # The embedded server makes a number of a truth value that is changed in a document.
            return lambda value: value in (0, 1) and isinstance(value, int | float)
        case me.DateTimeField():
            return lambda value: isinstance(value, datetime)
    least = -math.inf if field.min_value is None else field.min_value
    whole = isinstance(field, me.IntField)
    return lambda value: _is_number(value) and value >= least and (not whole or isinstance(value, int))


def _is_plain(value: Any) -> bool:
    """Return whether a value is of JSON's kinds or a moment, and no name in it one that means something to a store."""
    if isinstance(value, Mapping):
        return all(
            name and "\0" not in name and name[0] != "$" and _is_plain(one) for name, one in value.items()
        )
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | str | datetime) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _numbers(value: Any) -> bool:
    """Return whether it is a table of numbers, of which some may be missing."""
    return isinstance(value, dict) and all(one is None or _is_number(one) for one in value.values())


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


_INSIDE: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("scores", "expected", "expected_mass"), _numbers),
    "judge_calls": _texts,
}
"""Tables whose values every frame reads as they are."""
