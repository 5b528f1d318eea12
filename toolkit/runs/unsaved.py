"""Calls that come to a ledger twice or late: from a file that a store which was away left, or from two processes."""

import contextlib
import sys
from pathlib import Path

from bson import json_util
from bson.errors import BSONError
from pymongo import ReplaceOne

from toolkit.files.reading import parsed
from toolkit.files.writing import append_durably
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.store.writer import JSON, Document, Duplicate, Fields, Unmatched, is_as_sealed, sealed
from toolkit.words import counted

UNSAVED = "unsaved_replies.jsonl"
"""In the output folder of a study: one call a line, as the ledger has it. It holds no key, because no call does."""
DAMAGED = "unsaved_replies.damaged.jsonl"


def write_of(call: Fields) -> ReplaceOne:
    """Return what writes a call that has ended: over its claim, or anew where the claim is gone.

    It is a duplicate where another process has claimed or answered the call meanwhile, see `add_call`. Replaced and not
    changed, which takes half the time.
    """
    key = {"_id": call["_id"], "owner": call["owner"], "state": {"$ne": "done"}}
    return ReplaceOne(key, dict(call), upsert=True)


def add_call(store: Store, call: Fields) -> Fields:
    """Have the ledger hold a call that has ended beside what it has of it, and return what it holds now.

    The first reply stays, because runs may rest on it. Of a second one, and of a failure, the attempts are added, and
    what they cost or may have cost is counted as unsure. Twice is once.
    """
    while True:
        with contextlib.suppress(Duplicate):
            store.writer.submit("calls", write_of(call), flush=True).result()
            return call
        stored = store.writer.retried(lambda _: store.get(Call, {"_id": call["_id"]}))
        if stored is None:
            continue
        further = [attempt for attempt in call["attempts"] if attempt not in (stored.get("attempts") or ())]
        if not further or (call["state"] != "done" and stored["state"] == "claimed"):
            return stored  # who took a claim over has counted what was sent under it
        first, second = (call, stored) if call["state"] == "done" != stored["state"] else (stored, call)
        merged = {**first, "attempts": [*(stored.get("attempts") or ()), *further]}
        unsure = second.get("aud_cost") or 0.0
        merged["unsure_aud"] = unsure + sum(attempt.get("unsure_aud") or 0.0 for attempt in (stored, call))
        merged["unsure_aud"] -= call.get("inherited_aud") or 0.0 if stored["owner"] != call["owner"] else 0.0
        unchanged = {"_id": call["_id"], "owner": stored["owner"], "state": stored["state"]}
        if "seal" in stored:
            unchanged["seal"] = stored["seal"]
        with contextlib.suppress(Unmatched):
            merged = sealed({name: value for name, value in merged.items() if name != "seal"})
            store.writer.submit("calls", ReplaceOne(unchanged, merged), flush=True).result()
            return merged


def take_up(store: Store, folder: Path) -> None:
    """Add the calls that a store did not take to the ledger, and remove their file; a damaged line stays beside it."""
    path, damaged, count = folder / UNSAVED, [], 0
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for line in filter(bytes.strip, file):
            if (call := _call(line)) is None:
                damaged.append(line.rstrip(b"\n") + b"\n")
            else:
                add_call(store, call)
                count += 1
        if damaged:
            append_durably(folder / DAMAGED, b"".join(damaged))
        path.unlink()
        if count:
            message = f"toolkit: {counted(count, 'calls')} of {path} taken up into the ledger"
            print(message, file=sys.stderr, flush=True)
        if damaged:
            message = f"toolkit: {path}: {counted(len(damaged), 'lines')} damaged and not taken up"
            print(f"{message}; kept in {folder / DAMAGED}", file=sys.stderr, flush=True)


def _call(line: bytes) -> Document | None:
    """Return the call of a line; ``None`` where it is not whole."""
    try:
        call: Document = parsed(json_util.loads, line, json_options=JSON)
        if call["state"] not in ("done", "failed") or not is_as_sealed(call):
            return None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, BSONError):
        return None
    return call
