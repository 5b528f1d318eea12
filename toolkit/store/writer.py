"""Two threads, each of which writes what has arrived in one bulk, and only then tells the writers.

A reply must be on disk before anyone hears of it, and one bulk of many costs less than many writes: the operations are
raw, because mongoengine has no bulk of inserts and updates, and checking each document takes four times as long.

A store that is away is waited for as long as pymongo waits, by its address; a reply that it does not take is kept in a
file (`toolkit.runs.unsaved`). A change that matched no document is a failure.
"""

import asyncio
import contextlib
import json
import queue
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bson import json_util
from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, ConnectionFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from toolkit.errors import StoreError
from toolkit.files.digests import sha256_hex
from toolkit.files.writing import append_durably

T = TypeVar("T")
Fields = Mapping[str, Any]
"""What a document, a query or a change says, by the names of its fields."""
Document = dict[str, Any]
"""The same of one that is made, or was read, here."""
Operation = InsertOne | UpdateOne | UpdateMany | ReplaceOne | DeleteMany
JSON = json_util.RELAXED_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)
"""Documents as text: whole numbers, floats and moments come back as they were, moments as a store gives them."""
DUPLICATE_KEY = 11000
LARGEST_BULK = 500
BETWEEN_CLAIMS, BETWEEN_BULKS = 0.002, 0.02
"""Seconds from the beginning of one bulk to the next, at least: of claims, each of which has the place of its call, and
of the rest. Nobody notices the second, because a reply gives its place back before it is saved; and a bulk of five
costs little more than one of one."""
POSTED_SECONDS = 0.1
"""How long a record that nobody waits for may gather others, in seconds: written with every claim, such records took
half of the store's time. They can all be made again from the ledger, and `settled` and `close` do not wait for it."""
TOUCH = {"$currentDate": {"updated_at": True}}
"""Part of every update: the moment of the change by the server's own clock."""


def utc_now() -> datetime:
    """Return the present moment in UTC, to the millisecond that MongoDB keeps."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def sealed(document: Fields) -> Document:
    """Return a document that is never changed in place, with the SHA-256 of all that it says."""
    content = json.dumps(_comparable(document), sort_keys=True)
    return {**document, "seal": sha256_hex(content)}


def is_as_sealed(document: Fields) -> bool:
    """Return whether a document says what it said when it was written; a claim is still changed and has no seal."""
    return document.get("state") == "claimed" or document.get("seal") == sealed(document)["seal"]


def _comparable(value: Any) -> Any:
    """Return a value as every store gives it back: none keeps kinds of numbers, zones and what is nothing apart."""
    if isinstance(value, Mapping):
        return {
            name: _comparable(part) for name, part in value.items() if part is not None and name != "seal"
        }
    if isinstance(value, list | tuple):
        return [_comparable(part) for part in value]
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return float(value) if isinstance(value, int | float) else value


def differing(stored: Fields, expected: Fields) -> list[str]:
    """Return which expected fields a document of a store has otherwise; a field that is absent is ``None``."""
    return sorted(name for name, value in expected.items() if stored.get(name) != _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


class Duplicate(Exception):
    """The document exists already: someone else claimed or wrote it first."""


class Unmatched(StoreError):
    """The document that was to be changed is not in the store, or not as it was."""


@dataclass(frozen=True)
class Record:
    """A document to be kept: inserted (a third of an upsert's cost), or changed where it is there already."""

    collection: str
    document: Fields
    key: Fields
    change: Fields | None

    def changes(self, known: Fields) -> bool:
        """Return whether this record says anything else than a document that is there."""
        if self.change is None:
            return False
        removed = known.keys() & self.change.get("$unset", {})
        return bool(removed or differing(known, self.change["$set"]))


@dataclass(frozen=True)
class _Entry:
    """An operation on its way and who waits for it, if anybody; without one a mark: all before it is written."""

    collection: str = ""
    operation: Operation | None = None
    future: Future[Any] | None = None
    flush: bool = False
    record: Record | None = None
    unsaved: Path | None = None

    @property
    def is_posted(self) -> bool:
        """Whether nobody waits for it, so that it may gather others before it is written."""
        return self.future is None

    @property
    def turn(self) -> tuple[int, str, bool]:
        """When it is written among what has arrived with it: what others name comes before them.

        Texts and prompts are there before the runs of them, runs before what is said of them, and that before the
        change of a run which says that it counts; what is flushed comes after what is not: a claim before its reply.
        """
        if self.collection == "runs":
            return 1 if isinstance(self.operation, InsertOne) else 3, self.collection, self.flush
        return 2 * (self.collection == "annotations"), self.collection, self.flush


class _Lane:
    """A queue of entries, and the thread that writes them in bulks."""

    def __init__(self, work: Callable[["_Lane"], None], pause: float) -> None:
        self._pause = pause
        self.queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=work, args=(self,), name="store-writer", daemon=True)
        self.thread.start()

    def arrived(self, began: float, due: float | None) -> list[_Entry | None]:
        """Return what is in the queue, as soon as there is something and it is time; nothing when ``due`` has come."""
        try:
            batch = [self.queue.get(timeout=None if due is None else max(0.0, due - time.monotonic()))]
        except queue.Empty:
            return []
        time.sleep(max(0.0, began + self._pause - time.monotonic()))
        while len(batch) < LARGEST_BULK and not self.queue.empty():
            batch.append(self.queue.get())
        return batch


class BulkWriter:
    """Gathers operations from any thread or loop and writes them in bulks; what is acknowledged survives our death.

    What was paid for is also flushed to the disk first (``flush``), so that it survives the machine; the rest can be
    made again from the ledger. ``revive`` starts an embedded server that died again.
    """

    def __init__(self, database: Database, revive: Callable[[], None] | None = None) -> None:
        self._database = database
        self._revive = revive
        self._is_away = False
        self._unsaved = set[Path]()  # files of replies that the store did not take
        self._broken: Exception | None = None
        # A claim is waited for in a place of its provider: it must not wait for a flush or for records.
        self._claims, self._rest = _Lane(self._work, BETWEEN_CLAIMS), _Lane(self._work, BETWEEN_BULKS)

    def submit(
        self, collection: str, operation: Operation, *, flush: bool = False, unsaved: Path | None = None
    ) -> Future[Any]:
        """Queue one operation; its future ends when it is acknowledged, or holds ``Duplicate`` or ``StoreError``.

        ``unsaved`` is the file that its document goes into where the store does not take it.
        """
        return self._put(_Entry(collection, operation, Future(), flush=flush, unsaved=unsaved))

    def _put(self, entry: _Entry) -> Future[Any]:
        lane = self._rest if entry.flush or entry.operation is None else self._claims
        lane.queue.put(entry)
        assert entry.future is not None
        return entry.future

    async def write(self, collection: str, operation: Operation, **options: Any) -> None:
        """Do the same and return when it is acknowledged; a cancelled caller does not take it back."""
        await asyncio.wrap_future(self.submit(collection, operation, **options))

    def post(self, record: Record, known: Fields | None = None) -> None:
        """Queue a record that nobody waits for; after one that could not be kept no other is written, see `settled`."""
        operation: Operation = InsertOne(record.document)
        if known is not None:
            operation = UpdateOne({"_id": known["_id"]}, dict(record.change or {}))
        self._rest.queue.put(_Entry(record.collection, operation, record=record))

    def settle(self) -> None:
        """Return when everything that was posted is kept."""
        self._put(_Entry(future=Future())).result()
        self.check()

    async def settled(self) -> None:
        """Do the same, and let the loop go on meanwhile."""
        await asyncio.to_thread(self.settle)

    def check(self) -> None:
        """Raise the ``StoreError`` of a posted record that could not be kept, if there is one."""
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Write what is queued and end the threads."""
        for lane in (self._claims, self._rest):
            lane.queue.put(None)
            lane.thread.join()

    def retried(self, work: Callable[[bool], T]) -> T:
        """Return what ``work`` returns, which asks the store, and once more where the connection broke.

        It is told whether it may have been done already, by a server that was gone before it could answer.
        """
        for again in (False, True):
            try:
                if self._is_away and not self._database.client.topology_description.has_writable_server():
                    raise ConnectionFailure("it is away")
                result = work(again)
            except ConnectionFailure as error:
                if again or self._is_away:
                    self._is_away = True
                    raise _lost("database", error) from error
                if self._revive:
                    self._revive()
            else:
                self._is_away = False
                break
        return result

    def _work(self, lane: "_Lane") -> None:
        closing = False
        began = due = 0.0
        posted: list[_Entry] = []
        while not closing:
            arrived = lane.arrived(began, due if posted else None)
            began = time.monotonic()
            closing = None in arrived
            entries = [entry for entry in arrived if entry is not None]
            marks = [entry for entry in entries if entry.operation is None]
            due = due if posted else began + POSTED_SECONDS
            awaited = [entry for entry in entries if entry.operation and not entry.is_posted]
            posted += [entry for entry in entries if entry.operation and entry.is_posted]
            if closing or marks or len(posted) >= LARGEST_BULK or began >= due:
                awaited, posted = awaited + posted, []
            bulks: dict[tuple[int, str, bool], list[_Entry]] = defaultdict(list)
            for entry in awaited:
                bulks[entry.turn].append(entry)
            for turn in sorted(bulks):
                _, name, flush = turn
                try:
                    self._write_entries(name, flush, bulks[turn])
                # Whatever it is, it belongs to those who wait: this thread goes on.
                except Exception as error:
                    failure = self._broken = _lost(name, error)
                    _settle(bulks[turn], dict.fromkeys(range(len(bulks[turn])), failure))
            _settle(marks, {})

    def _write_entries(self, name: str, flush: bool, entries: list[_Entry]) -> None:
        if self._broken is not None:
            dropped = [entry for entry in entries if entry.is_posted]
            _settle(dropped, dict.fromkeys(range(len(dropped)), self._broken))
            entries = [entry for entry in entries if not entry.is_posted]
        entries = self._without_repetitions(name, entries)
        failures = self._write(name, flush, entries)
        existing = [place for place, failure in failures.items() if isinstance(failure, Duplicate)]
        stored: dict[int, Any] = {}
        if recorded := [place for place in existing if entries[place].record]:
            documents = self._change(name, [entries[place].record for place in recorded])  # type: ignore[misc]
            stored = dict(zip(recorded, documents, strict=True))
        for place, failure in failures.items():
            if entries[place].is_posted and not isinstance(failure, Duplicate):
                self._broken = self._broken or failure
        _settle(entries, {**failures, **stored})

    def _without_repetitions(self, name: str, entries: list[_Entry]) -> list[_Entry]:
        """Return the entries but for posted changes that say what is there already, which would only touch it."""
        changes: dict[Any, list[Record]] = defaultdict(list)
        for entry in entries:
            if entry.record and isinstance(entry.operation, UpdateOne) and "_id" in entry.record.key:
                changes[entry.record.key["_id"]].append(entry.record)
        try:
            stored = self._database[name].find({"_id": {"$in": list(changes)}}) if changes else ()
            same = {
                document["_id"]
                for document in stored
                if not any(record.changes(document) for record in changes[document["_id"]])
            }
        except PyMongoError:  # the write that follows says so
            return entries
        return [entry for entry in entries if not (entry.record and entry.record.key.get("_id") in same)]

    def _write(self, name: str, flush: bool, entries: list[_Entry]) -> dict[int, Exception]:
        if not entries:
            return {}
        concern = dict(self._database.write_concern.document)
        if self._revive:  # the embedded server, whose every flush waits for the disk
            concern["j"] = flush
        database = self._database.with_options(write_concern=WriteConcern(**concern))
        operations = [entry.operation for entry in entries if entry.operation]
        try:
            failures = self.retried(partial(_bulk, database[name], operations))
        except Exception as error:  # whatever it is, it belongs to those who wait: this thread goes on
            failure = error if isinstance(error, StoreError) else _lost(name, error)
            failures = dict.fromkeys(range(len(operations)), failure)
        lost = [entries[place] for place, error in failures.items() if not isinstance(error, Duplicate)]
        self._set_aside([entry for entry in lost if entry.unsaved])
        return failures

    def _set_aside(self, entries: Iterable[_Entry]) -> None:
        """Append the documents of entries that were not written to the files that they name, and say so once a file."""
        for entry in entries:
            path, operation = entry.unsaved, entry.operation
            if path is None or not isinstance(operation, ReplaceOne):
                continue
            message = f"are kept in {path}; the next start of the study takes them up"
            try:
                append_durably(path, f"{json_util.dumps(operation._doc, json_options=JSON)}\n".encode())
            except OSError as error:
                message = f"are lost: {path} cannot be written either ({error.strerror})"
            if path not in self._unsaved:
                self._unsaved.add(path)
                print(f"toolkit: replies that the store did not take {message}", file=sys.stderr, flush=True)

    def _change(self, name: str, records: list[Record]) -> list[Fields | Exception | None]:
        """Change records that are there already, found by keys and changed by ids; return what stood there before."""
        changes: list[_Entry] = []
        before: list[Fields | Exception | None] = []
        try:
            for record in records:
                before.append(None)
                if record.change is not None:
                    find = partial(self._database[name].find_one, dict(record.key))
                    before[-1] = stored = self.retried(lambda _, find=find: find())  # type: ignore[misc]
                    if stored is None:
                        changes.append(_Entry(name, InsertOne(record.document)))
                    elif record.changes(stored):
                        # The embedded server reads a whole collection to change by other keys.
                        changes.append(_Entry(name, UpdateOne({"_id": stored["_id"]}, dict(record.change))))
        except (PyMongoError, StoreError) as error:
            self._broken = self._broken or _lost(name, error)
            return [self._broken] * len(records)
        for failure in self._write(name, False, changes).values():
            self._broken = self._broken or failure
        return before if self._broken is None else [self._broken] * len(records)


def _bulk(
    collection: Collection[Any], operations: Sequence[Operation], again: bool = False
) -> dict[int, Exception]:
    """Write operations and return what failed, by place; done ``again``, an insert may find itself."""
    failures: dict[int, Exception] = {}
    counts: Fields
    try:
        counts = collection.bulk_write(operations, ordered=False).bulk_api_result
    except BulkWriteError as error:
        counts = error.details
        # Written, and perhaps not for good: whoever waits for a flush must not take it for one.
        for unsafe in error.details["writeConcernErrors"]:
            failures = dict.fromkeys(range(len(operations)), _failure(collection.name, unsafe))
        failures |= {item["index"]: _failure(collection.name, item) for item in error.details["writeErrors"]}
    except ConnectionFailure:
        raise
    except PyMongoError as error:
        return dict.fromkeys(range(len(operations)), _lost(collection.name, error))
    except Exception as error:  # one that cannot be encoded must not take the others of its bulk with it
        if len(operations) == 1:
            return {0: StoreError(f"{collection.name}: not written, it cannot be stored ({error})")}
        alone = [_bulk(collection, [operation], again=True) for operation in operations]
        return {place: failure for place, failed in enumerate(alone) for failure in failed.values()}
    failures = _unmatched(collection, operations, counts) | failures
    return {
        place: failure
        for place, failure in failures.items()
        if not (again and isinstance(failure, Duplicate) and _is_own(collection, operations[place]))
    }


def _unmatched(
    collection: Collection[Any], operations: Sequence[Operation], counts: Fields
) -> dict[int, Exception]:
    changes = {n: change for n, change in enumerate(operations) if isinstance(change, UpdateOne | ReplaceOne)}
    several = any(isinstance(operation, UpdateMany) for operation in operations)
    if not changes or (not several and counts["nMatched"] + counts["nUpserted"] >= len(changes)):
        return {}
    failure = Unmatched(f"{collection.name}: what was to be changed is not in the store any more; run again")
    return {
        place: failure
        for place, operation in changes.items()
        if not operation._upsert and collection.count_documents(operation._filter, limit=1) == 0
    }


def _is_own(collection: Collection[Any], operation: Operation) -> bool:
    if not isinstance(operation, InsertOne | ReplaceOne):
        return False
    # A claim is told from that of another process by its owner, and a reply by its seal.
    document: Fields = operation._doc
    key = {name: document[name] for name in ("_id", "owner", "seal") if name in document}
    return collection.count_documents(key, limit=1) > 0


def _lost(name: str, error: Exception) -> StoreError:
    return StoreError(f"{name}: the store did not take a write ({reason_of(error)}); {what_to_do(error)}")


def reason_of(error: Exception) -> str:
    """Return what a store said, in its own words and short."""
    return str(error).split(", full error")[0].split(", Timeout:")[0][:200]


def what_to_do(error: Exception) -> str:
    """Return what helps against a failure of the store."""
    if "disk is full" in str(error):
        return "make room on its disk and run again; what was kept before stays"
    return "what was kept before stays, run again when it answers"


def _failure(name: str, item: Fields) -> Exception:
    if item.get("code") == DUPLICATE_KEY:
        return Duplicate(name)
    return StoreError(f"{name}: the store refused a write: {item['errmsg']}")


def _settle(entries: list[_Entry], outcomes: Mapping[int, Any]) -> None:
    for place, entry in enumerate(entries):
        if entry.future is not None:
            outcome = outcomes.get(place)
            with contextlib.suppress(InvalidStateError):  # nobody waits any more; the write is done
                if isinstance(outcome, Exception):
                    entry.future.set_exception(outcome)
                else:
                    entry.future.set_result(outcome)
