"""Money that may have been billed: which calls were sent and brought nothing, and how a person settles them.

A settlement is one record that is only ever added: it names its calls and what each may have cost, so the ledger keeps
every attempt as it was, and what is unsure is what no settlement names.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pymongo.errors import DuplicateKeyError

from toolkit.errors import InputError
from toolkit.runs.batch_records import open_batches
from toolkit.runs.ledger import was_sent
from toolkit.runs.owners import living
from toolkit.runs.standing import claimed_calls
from toolkit.store.documents import utc_now
from toolkit.words import Summary, counted

if TYPE_CHECKING:
    from toolkit.store.connection import Store


def settlements(store: Store, study: str) -> list[dict[str, Any]]:
    """Return every settlement of a study, oldest first: at, billed, note, aud and the calls with what each may cost."""
    return sorted(store.database["settlements"].find({"study": study}), key=lambda one: one["at"])


def settled_aud(found: list[dict[str, Any]], *, billed: bool) -> float:
    """Return the AUD of those settlements that were accepted as billed, or that were cleared."""
    return float(sum(one["aud"] for one in found if one["billed"] is billed))


def settled_words(one: Mapping[str, Any]) -> str:
    """Return a settlement of a status in words."""
    which = "accepted as billed" if one["billed"] else "cleared as not billed"
    return (
        f"{one['aud']:.4f} AUD of {counted(one['calls'], 'calls')} {which} on {one['at'][:10]}: {one['note']}"
    )


def unsure_calls(store: Store, study: str, alive: Collection[str]) -> dict[str, float]:
    """Return the calls that may have been billed though they brought nothing, with AUD at worst, by call id.

    Those are attempts that broke after they were sent, and calls that were being sent when their process died and
    that no open batch holds; without what is settled.
    """
    found: defaultdict[str, float] = defaultdict(float)
    broken = {"study": study, "unsure_aud": {"$gt": 0}}
    for call in store.database["calls"].find(broken, {"unsure_aud": 1}):
        found[call["_id"]] += call["unsure_aud"]
    lost = [call for call in claimed_calls(store, study) if was_sent(call) and call["owner"] not in alive]
    if lost:
        going_on = {call_id for batch in open_batches(store, study) for call_id in batch.call_ids}
        for call in lost:
            if call["_id"] not in going_on:
                found[call["_id"]] += call["worst_aud"] or 0.0
    for settlement in settlements(store, study):
        for settled in settlement["calls"]:
            if settled["call_id"] in found:
                found[settled["call_id"]] -= settled["aud"]
                if found[settled["call_id"]] < 1e-12:
                    del found[settled["call_id"]]
    return dict(found)


def settle(store: Store, study: str, *, billed: bool, note: str) -> Summary:
    """Accept all that may have been billed as billed, or clear it, and record that; a second time changes nothing."""
    if not note.strip():
        raise InputError("--note: say how it is known, as in --note 'invoice of May shows 12 requests'")
    if living(store, study):
        raise InputError(
            f"{study}: a process works on this study; stop it, or wait for its end, and settle then"
        )
    calls = unsure_calls(store, study, ())
    if not calls:
        known = {"study": study, "settled_calls": 0, "settled_aud": 0.0}
        return Summary(known, f"{study}: no call is unsure, nothing to settle")
    named = [{"call_id": call_id, "aud": aud} for call_id, aud in sorted(calls.items())]
    earlier = sorted(one["_id"] for one in settlements(store, study))
    record = {
        # Named by what it settles: of two that settle the same at once one wins.
        "_id": hashlib.sha256(json.dumps([study, named, earlier]).encode()).hexdigest(),
        "study": study,
        "at": utc_now(),
        "billed": billed,
        "note": note.strip(),
        "aud": sum(calls.values()),
        "calls": named,
    }
    try:
        store.database["settlements"].insert_one(record)
    except DuplicateKeyError:
        raise InputError(f"{study}: settled a moment ago by another process; see `toolkit status`") from None
    which = "accepted as billed and counted as spent" if billed else "cleared as not billed, off the budget"
    return Summary(
        {"study": study, "settled_calls": len(named), "settled_aud": record["aud"], "billed": billed},
        f"{study}: {record['aud']:.4f} AUD of {counted(len(named), 'calls')} {which}",
    )
