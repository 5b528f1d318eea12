"""Which version of the store's layout a store has, and the steps that bring an older one forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from toolkit.errors import StoreError

ABOUT: Final = "about"
FIRST: Final = 1
"""Of stores that say none: those of toolkits before there was a number."""
STEPS: Final[Mapping[int, Callable[[Database[dict[str, Any]]], None]]] = {}
"""From which version, and what is to be done. A step may be done twice: two processes may open a store at once, and one
may be killed in it; the number is written when it is done."""


def bring_forward(database: Database[dict[str, Any]], steps: Mapping[int, Any] = STEPS) -> int:
    """Bring a store to the version that this toolkit knows, step by step, and return that; refuse one that is newer."""
    newest = max(steps, default=FIRST - 1) + 1
    stored = database[ABOUT].find_one({"_id": "schema"})
    version = int(stored["version"]) if stored else FIRST
    if version > newest:  # what it holds might be lost, so nothing is read or written
        raise StoreError(
            f"the store has version {version} of its layout and this toolkit knows {newest}; "
            "update the toolkit to the one that wrote it"
        )
    if stored is None:
        try:
            database[ABOUT].insert_one({"_id": "schema", "version": version})
        except DuplicateKeyError:  # another process opened it at the same moment
            return bring_forward(database, steps)
    for at in range(version, newest):
        steps[at](database)
        database[ABOUT].update_one({"_id": "schema", "version": at}, {"$set": {"version": at + 1}})
    return newest
