"""What the store knows of batches: each is written before it is submitted, and found again by the next process."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from pymongo import InsertOne, UpdateMany, UpdateOne
from ulid import ULID

from toolkit.models.batches import Result
from toolkit.store.connection import CHUNK, Store
from toolkit.store.documents import Batch, Call
from toolkit.store.writer import TOUCH

OPEN_STATES = ("submitting", "submitted")
Key = tuple[str, str, str | None]
"""Provider, model and endpoint: what the calls of one batch have in common."""


@dataclass(eq=False)
class OpenBatch:
    """A batch whose replies are not all in the ledger yet, with what this process has seen of it."""

    key: Key
    call_ids: frozenset[str]
    name: str = field(default_factory=lambda: str(ULID()))
    created: float = field(default_factory=time.time)
    batch_id: str | None = None
    kept: set[str] = field(default_factory=set)
    results: dict[str, Result] | None = None
    left: set[str] = field(default_factory=set)
    failure: str | None = None
    followed: bool = False


async def write_batch(store: Store, study: str, batch: OpenBatch) -> None:
    """Write a batch that is about to be submitted, and that its calls are, and return when it is on the disk."""
    provider, model, endpoint = batch.key
    document = Batch(
        name=batch.name,
        state="submitting",
        study=study,
        provider=provider,
        model=model,
        endpoint=endpoint,
        call_ids=sorted(batch.call_ids),
        created=batch.created,
    )
    document.validate()
    await store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)
    # After the batch: of a call that is marked before, nobody would know that it goes on.
    for start in range(0, len(document.call_ids), CHUNK):
        some = {"_id": {"$in": document.call_ids[start : start + CHUNK]}, "state": "claimed"}
        await store.writer.write("calls", UpdateMany(some, {"$set": {"sent": True}, **TOUCH}))


async def note_batch(store: Store, batch: OpenBatch, state: str) -> None:
    """Note the state of a batch and the provider's id of it, and return when they are on the disk."""
    change = {"$set": {"state": state, "batch_id": batch.batch_id}, **TOUCH}
    await store.writer.write("batches", UpdateOne({"_id": batch.name}, change), flush=True)


def open_batches(store: Store, study: str, known: Collection[str] = ()) -> list[OpenBatch]:
    """Return the open batches of a study, those of other processes included."""
    found = store.database["batches"].find({"study": study, "state": {"$in": OPEN_STATES}}, {"_id": 1})
    names = [batch["_id"] for batch in found if batch["_id"] not in known]
    batches = [
        OpenBatch(
            key=(batch["provider"], batch["model"], batch.get("endpoint")),
            call_ids=frozenset(batch["call_ids"]),
            name=batch["_id"],
            created=batch["created"],
            batch_id=batch.get("batch_id"),
        )
        for batch in store.find_by(Batch, "_id", names)
        if batch["state"] in OPEN_STATES
    ]
    for batch in batches:
        calls = store.find_by(Call, "_id", batch.call_ids, leave_out=("request", "raw", "text", "attempts"))
        batch.kept = {call["_id"] for call in calls if call["state"] == "done"}
    return batches
