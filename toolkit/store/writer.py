"""One thread that writes what has arrived in one bulk, and only then tells the writers.

A reply must be on disk before anyone hears of it, and a bulk of a hundred costs little more than one write.
While a bulk is under way the next one gathers, so the bulk size follows the load by itself.

What the embedded server does to a top-level value that ``$set`` changes in an existing document, found by trying: a
date becomes a text and a float keeps 15 significant digits. So moments are set by ``TOUCH`` or kept as seconds.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError
from pymongo.write_concern import WriteConcern

from toolkit.errors import StoreError

Operation = InsertOne | UpdateOne | UpdateMany | ReplaceOne | DeleteMany
DUPLICATE_KEY = 11000
TOUCH = {"$currentDate": {"updated_at": True}}
"""Part of every update: the moment of the change by the server's own clock."""
LARGEST_BULK = 500


class Duplicate(Exception):
    """The document exists already: someone else claimed or wrote it first."""


@dataclass(frozen=True)
class Record:
    """A document to be kept: written once, or changed where it is there already.

    An insert costs the embedded server a third of an upsert, and nearly every record is new.

    Parameters
    ----------
    collection
        Where it goes.
    document
        The whole document.
    key
        The fields that name it, under a unique index.
    change
        What an older version of it is changed by; ``None`` when all versions are the same.
    """

    collection: str
    document: Mapping[str, Any]
    key: Mapping[str, Any]
    change: Mapping[str, Any] | None


class BulkWriter:
    """Gathers operations from any thread or loop and writes them in durable bulks.

    Parameters
    ----------
    database
        A pymongo database; every bulk is acknowledged after the journal is on disk.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[tuple[str, Operation, Future] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, collection: str, operation: Operation) -> Future[None]:
        """Queue one operation; the future resolves when it is durable, or raises ``Duplicate`` or ``StoreError``."""
        future: Future[None] = Future()
        self._queue.put((collection, operation, future))
        return future

    async def write(self, collection: str, operation: Operation) -> None:
        """Write one operation and return when it is durable."""
        # Shielded: a cancelled caller must not take back a write that is already on its way.
        await asyncio.shield(asyncio.wrap_future(self.submit(collection, operation)))

    async def keep(self, record: Record) -> None:
        """Write a record and return when it is durable."""
        try:
            await self.write(record.collection, InsertOne(dict(record.document)))
        except Duplicate:
            if record.change is not None:
                await self.write(record.collection, UpdateOne(record.key, record.change))

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        closing = False
        while not closing:
            batch = [self._queue.get()]
            while len(batch) < LARGEST_BULK and not self._queue.empty():
                batch.append(self._queue.get())
            by_collection: dict[str, list[tuple[Operation, Future]]] = defaultdict(list)
            for entry in batch:
                if entry is None:
                    closing = True
                else:
                    by_collection[entry[0]].append(entry[1:])
            # By name, so that texts (output_blobs) and prompts are there before the runs that point to them.
            for name in sorted(by_collection):
                self._write(name, by_collection[name])

    def _write(self, name: str, entries: list[tuple[Operation, Future]]) -> None:
        collection: Collection[Any] = self._database.get_collection(
            name, write_concern=WriteConcern(w=1, j=True)
        )
        failures: dict[int, Exception] = {}
        try:
            # Insertions go as one insert_many: the server writes them in one transaction.
            collection.bulk_write([operation for operation, _ in entries], ordered=False)
        except BulkWriteError as error:
            for item in error.details["writeErrors"]:
                duplicate = item.get("code") == DUPLICATE_KEY
                failures[item["index"]] = (
                    Duplicate(name)
                    if duplicate
                    else StoreError(f"{name}: the store refused a write: {item['errmsg']}")
                )
        except DuplicateKeyError:
            failures = {0: Duplicate(name)}
        except PyMongoError as error:
            failure = StoreError(f"{name}: the store did not take a write ({error}); is it still running?")
            failures = dict.fromkeys(range(len(entries)), failure)
        for index, (_, future) in enumerate(entries):
            if index in failures:
                future.set_exception(failures[index])
            else:
                future.set_result(None)
