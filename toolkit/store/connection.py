"""Open a store: the server named by ``MONGODB_URI``, or the embedded one of a results folder.

Reads go through mongoengine's query sets and come back as plain documents. Writes go through `toolkit.store.writer`: a
bulk of raw operations, because mongoengine would send each document by itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
import uuid
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import mongoengine as me
import pymongo
from mongoengine.connection import ConnectionFailure, get_connection
from mongoengine.queryset import QuerySet
from pymongo import InsertOne
from pymongo.database import Database
from pymongo.errors import PyMongoError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatListener
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from toolkit.errors import StoreError
from toolkit.prompts.dataset import Prompt as DatasetPrompt
from toolkit.store import embedded
from toolkit.store.documents import DOCUMENTS, Prompt, Rubric
from toolkit.store.migrations import bring_forward
from toolkit.store.parts import PARTS, joined
from toolkit.store.writer import PATIENCE_SECONDS, BulkWriter, Duplicate, reason_of, what_to_do

DATABASE = "toolkit"  # where the address names none
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
            # What the address says of it is how long its user will wait: for an answer, and for a store that is away.
            named = "serverselectiontimeoutms=" in uri.lower()
            try:
                me.connect(
                    db=DATABASE,
                    host=uri,
                    alias=alias,
                    tz_aware=True,
                    uuidRepresentation="standard",
                    event_listeners=[_Reviver(folder)] if folder else [],
                    **({} if named else {"serverSelectionTimeoutMS": ANSWER_MS}),
                )
                client = get_connection(alias)
                self.database = _database(client, embedded=folder is not None)
                for document in DOCUMENTS:
                    for spec in document._meta["index_specs"]:  # `ensure_indexes` knows one store a process
                        options = {name: value for name, value in spec.items() if name != "fields"}
                        self.database[document._meta["collection"]].create_index(spec["fields"], **options)
                bring_forward(self.database)
                _warn_of_another(self.database)
            except StoreError as error:
                me.disconnect(alias)
                raise StoreError(f"{folder or _without_password(uri)}: {error}") from None
            except (PyMongoError, ConnectionFailure) as error:
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
        selection = client.options.server_selection_timeout
        patience = selection if named else 2 * selection if folder else PATIENCE_SECONDS
        self.writer = BulkWriter(self.database.with_options(), revive, patience)
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
        wanted = {"_id", PARTS, *only}
        left = {*leave_out} or {name for name in document._db_field_map.values() if only and name not in wanted}
        fields = dict.fromkeys(wanted, 1) if only else dict.fromkeys(left, 0)
        cursor = self.objects(document)._collection.find(where, fields or None, batch_size=BATCH)
        yield from self.joined(cursor, left)

    def joined(
        self, found: Iterable[dict[str, Any]], leave_out: Container[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield raw documents whole, also those that are stored in parts; every reader of texts asks through this."""
        parts = self.database[PARTS]
        return joined(found, lambda ids: parts.find({"_id": {"$in": ids}}, batch_size=2), leave_out)

    def server_time(self) -> float:
        """Return the present moment by the clock of the server, in seconds since 1970: hosts may not agree on one."""
        hello = self.database.command("hello", codec_options=self.database.codec_options)
        return float(hello["localTime"].timestamp())

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


def _database(client: pymongo.MongoClient[Any], *, embedded: bool) -> Database[Any]:
    """Return the database that an address names, as the ledger needs it."""
    # Read from the primary, whatever the address says: a reply or a grant that a secondary does not have yet would be
    # paid for again. Writes are acknowledged as the address says, by a majority where it says nothing and by one server
    # at least; what a majority has is also what is read, so that nothing that was read can be rolled back.
    concern = {name: value for name, value in client.write_concern.document.items() if name != "fsync"}
    concern["w"] = concern.get("w", 1 if embedded else "majority") or 1
    level = client.read_concern.level or ("majority" if concern["w"] == "majority" else None)
    database: Database[Any] = client.get_default_database(
        DATABASE,
        read_preference=ReadPreference.PRIMARY,
        write_concern=WriteConcern(**{**concern, "j": True}),
        read_concern=ReadConcern(level),
    )
    return database


def _warn_of_another(database: Database[Any]) -> None:
    """Say where calls are that an earlier toolkit kept: it used one database, whichever the address named."""
    if database.name == DATABASE or database["calls"].find_one({}, {"_id": 1}):
        return
    with contextlib.suppress(PyMongoError):  # no database of this user's
        if database.client[DATABASE]["calls"].find_one({}, {"_id": 1}):
            print(
                f"toolkit: the database {database.name} of MONGODB_URI is empty, and {DATABASE} beside it has calls; "
                f"if they are yours, name {DATABASE} in MONGODB_URI, or they are asked and paid for again",
                file=sys.stderr,
                flush=True,
            )


class _Reviver(ServerHeartbeatListener):
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
