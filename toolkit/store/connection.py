"""Open a store: the server named by ``MONGODB_URI``, or the embedded one of a results folder.

Reads go through mongoengine's query sets and come back as plain documents. Writes go through `toolkit.store.writer`: a
bulk of raw operations, because mongoengine would send each document by itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import mongoengine as me
import pymongo
from mongoengine.connection import get_connection
from mongoengine.queryset import QuerySet
from pymongo import InsertOne
from pymongo.errors import PyMongoError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatListener

from toolkit.errors import StoreError
from toolkit.prompts.dataset import Prompt as DatasetPrompt
from toolkit.store import embedded
from toolkit.store.documents import DOCUMENTS, Prompt, Rubric
from toolkit.store.migrations import bring_forward
from toolkit.store.writer import BulkWriter, Duplicate, reason_of, what_to_do

DATABASE = "toolkit"
ANSWER_MS = 10_000  # longest a store may take to answer at all
CHUNK = 5000  # ids in one $in
BATCH = 100_000  # documents in one reply, which ends at 16 MB anyway
_opening = threading.RLock()  # the garbage collector may close a store while another is opened


class Store:
    """An open store: collections, a durable writer, and queries; one that nobody holds any more closes itself."""

    def __init__(self, uri: str, folder: Path | None) -> None:
        self.folder = folder
        with _opening:
            alias = f"store-{uuid.uuid4()}"
            me.connect(
                db=DATABASE,
                host=uri,
                alias=alias,
                tz_aware=True,
                uuidRepresentation="standard",
                serverSelectionTimeoutMS=ANSWER_MS,
                event_listeners=[_Reviver(folder)] if folder else [],
            )
            client = get_connection(alias)
            self.database = client[DATABASE]
            try:
                for document in DOCUMENTS:
                    for spec in document._meta["index_specs"]:  # `ensure_indexes` knows one store a process
                        options = {name: value for name, value in spec.items() if name != "fields"}
                        self.database[document._meta["collection"]].create_index(spec["fields"], **options)
                bring_forward(self.database)
            except StoreError as error:
                me.disconnect(alias)
                raise StoreError(f"{folder or _without_password(uri)}: {error}") from None
            except PyMongoError as error:
                me.disconnect(alias)
                said = _without_password(reason_of(error))
                if folder:
                    mend = what_to_do(error) if "disk is full" in said else embedded.MEND
                    raise StoreError(f"{folder}: the store cannot be used ({said}); {mend}") from None
                raise StoreError(
                    f"{_without_password(uri)}: the store does not answer ({said}); "
                    "check MONGODB_URI or remove it to use the embedded server"
                ) from None
        # A database object of its own, or the thread would hold the one whose end ends it.
        revive = partial(embedded.revive, folder) if folder else None
        self.writer = BulkWriter(client[DATABASE], revive)
        self._alias = alias
        self._abandoned = weakref.finalize(self.database, _close_abandoned, self.writer, alias)

    def objects(self, document: type[me.Document]) -> QuerySet:
        """Return mongoengine's query set of a document class, bound to this store."""
        return QuerySet(document, self.database[document._meta["collection"]])

    def find_by(
        self,
        document: type[me.Document],
        field: str,
        values: Iterable[str],
        leave_out: Iterable[str] = (),
        *,
        only: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the raw documents whose ``field`` is one of ``values``, in chunks that any server takes.

        ``where`` narrows them further; ``leave_out`` and ``only`` as in `find_where`.
        """
        ids = list(dict.fromkeys(values))
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            # Of one value the embedded server uses its index by equality alone.
            chunk = {**(where or {}), field: some[0] if len(some) == 1 else {"$in": some}}
            found += self.find_where(document, chunk, leave_out, only=only)
        return found

    def find_where(
        self,
        document: type[me.Document],
        where: Mapping[str, Any],
        leave_out: Iterable[str] = (),
        *,
        only: Iterable[str] = (),
    ) -> list[dict[str, Any]]:
        """Return the raw documents that match a query; see `each_where`."""
        with without_collecting():
            return list(self.each_where(document, where, leave_out, only=only))

    def each_where(
        self,
        document: type[me.Document],
        where: Mapping[str, Any],
        leave_out: Iterable[str] = (),
        *,
        only: Iterable[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yield the raw documents that match a query; ``_id`` is always among their fields.

        ``only`` names the fields to read, ``leave_out`` those not to, which may be parts of fields such as ``a.b``;
        one of the two.
        """
        wanted = {"_id", *only}
        left = list(leave_out) or [
            name for name in document._db_field_map.values() if only and name not in wanted
        ]
        matching = self.objects(document).filter(__raw__=where)
        if "_id" in where:  # which a pipeline of the embedded server finds without its index
            yield from matching.exclude(*left).batch_size(BATCH).as_pymongo()
            return
        # Fields are taken away in a pipeline: only that way does the embedded server leave them out in SQL, in a
        # fifth of the time, and hand on the others as they were written: picked one by one, floats keep 15 digits.
        taking = [{"$project": dict.fromkeys(left, 0)}] if left else []
        yield from matching.aggregate(taking, batchSize=BATCH)

    def add_prompts(self, prompts: Sequence[DatasetPrompt]) -> None:
        """Store prompts once per dataset version; the same id with another text is refused."""
        stored = {
            (found["prompt_id"], found["dataset_version"]): found["text"]
            for found in self.find_by(Prompt, "prompt_id", (prompt.prompt_id for prompt in prompts))
        }
        new = []
        for prompt in prompts:
            known = stored.get((prompt.prompt_id, prompt.dataset_version))
            if known is None:
                fields = asdict(prompt)
                fields.pop("base")  # it is metadata.base_scenario, as the seed has it
                new.append(Prompt(**{name: value for name, value in fields.items() if value != ""}))
            elif known != prompt.text:
                raise StoreError(
                    f"prompt {prompt.prompt_id}: version {prompt.dataset_version} is stored with another text; "
                    "give the changed dataset a new dataset_version"
                )
        self._add(new)

    def add_rubric(self, rubric_hash: str, name: str, version: str, content: str) -> None:
        """Store the content of a rubric once, under the hash that its judgements carry."""
        if self.objects(Rubric).filter(rubric_hash=rubric_hash).first() is None:
            self._add([Rubric(rubric_hash=rubric_hash, name=name, version=version, content=content)])

    def _add(self, documents: Sequence[me.Document]) -> None:
        writes = []
        for document in documents:
            document.validate()
            writes.append(
                self.writer.submit(document._meta["collection"], InsertOne(document.to_mongo().to_dict()))
            )
        for write in writes:
            with contextlib.suppress(Duplicate):  # another process was first with the same
                write.result()

    def close(self) -> None:
        """Write what is queued and disconnect."""
        if self._abandoned.detach():
            _close(self.writer, self._alias)


class _Reviver(ServerHeartbeatListener):
    """Starts an embedded server that died again, as soon as a client notices."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def started(self, event: object) -> None:
        """Nothing to do."""

    succeeded = started

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Start it, or leave the word to whoever asks it next."""
        with contextlib.suppress(StoreError):
            embedded.revive(self._folder)


def _close(writer: BulkWriter, alias: str) -> None:
    writer.close()
    # A client that outlives its server would hold up whoever opens the next store, and ends its sessions with a server
    # that may be gone: not for as long as a question may take.
    with _opening, pymongo.timeout(1):
        me.disconnect(alias)


def _close_abandoned(writer: BulkWriter, alias: str) -> None:
    """Close a store that nobody holds, not where it was collected: that may be the loop in which paid replies come."""
    if threading.main_thread().is_alive():
        threading.Thread(target=_close, args=(writer, alias), name="store-closing").start()
    else:  # the process ends, and no other thread is waited for
        _close(writer, alias)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Keep Python from looking for cycles among many documents: they have none, and it takes as long as reading."""
    paused = gc.isenabled()
    if paused:
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def open_store(folder: Path) -> Store:
    """Open the store of a results folder, or the one that ``MONGODB_URI`` names."""
    uri = os.environ.get("MONGODB_URI")
    return Store(uri, None) if uri else Store(embedded.address(folder), folder)


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//***@", text)
