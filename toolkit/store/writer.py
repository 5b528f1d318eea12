"""One thread that writes what has arrived in one bulk, and only then tells the writers.

A reply must be on disk before anyone hears of it, and one bulk of many costs less than many writes. While a bulk is
under way the next one gathers, so the bulk size follows the load by itself.

What the embedded server does to a top-level value that ``$set`` changes in an existing document, found by trying: a
date becomes a text and a float keeps 15 significant digits. So moments are set by ``TOUCH`` or kept as seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from pymongo.errors import BulkWriteError, PyMongoError
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


@dataclass(frozen=True)
class _Entry:
    """An operation on its way, and who waits for it: a future of a loop, or of a thread when ``loop`` is ``None``."""

    collection: str
    operation: Operation
    future: Future[None] | asyncio.Future[None]
    loop: asyncio.AbstractEventLoop | None
    flush: bool = False


class BulkWriter:
    """Gathers operations from any thread or loop and writes them in bulks.

    A write that is acknowledged survives the death of this process and of the server. What was paid for is also
    flushed to the disk first (``flush``), so that it survives the machine; that doubles the price of a write, and
    everything else can be made again from the ledger.

    Parameters
    ----------
    database
        A pymongo database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, collection: str, operation: Operation) -> Future[None]:
        """Queue one operation; its future ends when it is acknowledged, or holds ``Duplicate`` or ``StoreError``."""
        future: Future[None] = Future()
        self._queue.put(_Entry(collection, operation, future, None))
        return future

    async def write(self, collection: str, operation: Operation, *, flush: bool = False) -> None:
        """Write one operation and return when it is acknowledged; a cancelled caller does not take it back."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.put(_Entry(collection, operation, future, loop, flush))
        await future

    async def keep(self, record: Record) -> None:
        """Write a record and return when it is acknowledged."""
        try:
            await self.write(record.collection, InsertOne(dict(record.document)))
        except Duplicate:
            if record.change is None:
                return
            # Found first and changed by its id: the embedded server reads a whole collection to change by other keys.
            found = await asyncio.to_thread(
                self._database[record.collection].find_one, dict(record.key), {"_id": 1}
            )
            await self.write(record.collection, UpdateOne(found or dict(record.key), dict(record.change)))

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
            bulks: dict[tuple[str, bool], list[_Entry]] = defaultdict(list)
            for entry in batch:
                if entry is None:
                    closing = True
                else:
                    bulks[entry.collection, entry.flush].append(entry)
            # By name, so that texts (output_blobs) and prompts are there before the runs that point to them, and
            # what is flushed after what is not: a claim before its reply.
            for name, flush in sorted(bulks):
                _settle(bulks[name, flush], self._write(name, flush, bulks[name, flush]))

    def _write(self, name: str, flush: bool, entries: list[_Entry]) -> dict[int, Exception]:
        """Write one bulk and return what failed, by place."""
        collection: Collection[Any] = self._database.get_collection(
            name, write_concern=WriteConcern(w=1, j=flush)
        )
        try:
            collection.bulk_write([entry.operation for entry in entries], ordered=False)
        except BulkWriteError as error:
            return {item["index"]: _failure(name, item) for item in error.details["writeErrors"]}
        except PyMongoError as error:
            failure = StoreError(f"{name}: the store did not take a write ({error}); is it still running?")
            return dict.fromkeys(range(len(entries)), failure)
        return {}


def _failure(name: str, item: Mapping[str, Any]) -> Exception:
    if item.get("code") == DUPLICATE_KEY:
        return Duplicate(name)
    return StoreError(f"{name}: the store refused a write: {item['errmsg']}")


def _settle(entries: list[_Entry], failures: Mapping[int, Exception]) -> None:
    """Tell everybody who waits, each loop once: waking a loop costs more than the write of a document."""
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, Exception | None]]] = defaultdict(list)
    for place, entry in enumerate(entries):
        if entry.loop is None:
            _resolve([(entry.future, failures.get(place))])
        else:
            of_loop[entry.loop].append((entry.future, failures.get(place)))
    for loop, ended in of_loop.items():
        with contextlib.suppress(
            RuntimeError
        ):  # the loop is closed: nobody waits any more, the write is done
            loop.call_soon_threadsafe(_resolve, ended)


def _resolve(ended: list[tuple[Any, Exception | None]]) -> None:
    for future, failure in ended:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
