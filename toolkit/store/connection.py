"""Open a store, the server of ``MONGODB_URI`` or the embedded one of a results folder, and read and write through it.

No other room asks the database. Documents are read raw, because objects of mongoengine take four times as long.
Many writes go through `toolkit.store.writer` in bulks; a single write that decides something goes through `Store`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import mongoengine as me
import pymongo
from mongoengine.connection import ConnectionFailure, get_connection
from mongoengine.queryset import QuerySet
from pymongo import InsertOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, PyMongoError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatListener
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from toolkit.errors import StoreError, redacted_words
from toolkit.judges.rubric import scheme_in
from toolkit.prompts.dataset import Prompt as DatasetPrompt
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.store import embedded
from toolkit.store.documents import DOCUMENTS, Kind, Prompt, Rubric
from toolkit.store.writer import BulkWriter, Document, Duplicate, Fields, reason_of, what_to_do
from toolkit.words import LENGTH_BINS, one_line

T = TypeVar("T")
DATABASE = "toolkit"  # where the address names none
ANSWER_MS = 10_000  # longest a store may take to answer at all
CHUNK = 5000  # ids in one $in
WINDOW = 1000  # documents that are in memory at once where all of a study are gone through
LAYOUT = "about"  # collection whose one document names the version of the store
LAYOUT_VERSION = 1
_opening = threading.RLock()  # the garbage collector may close a store while another is opened


class Store:
    """An open store: collections, a durable writer, and queries; one that nobody holds any more closes itself."""

    def __init__(self, uri: str, folder: Path | None) -> None:
        self.folder = folder
        with _opening:
            alias = f"store-{uuid.uuid4()}"
            # A timeout in the address is the user's choice, for an answer and for a store that is away.
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
                _check_version(self.database)
            except (StoreError, PyMongoError, ConnectionFailure) as error:
                me.disconnect(alias)
                message = reason = one_line(redacted_words(reason_of(error)), 300)
                if isinstance(error, StoreError):
                    message = str(error)
                elif folder:
                    mend = what_to_do(error) if "disk is full" in reason else embedded.MEND
                    message = f"the store cannot be used ({reason}); {mend}"
                else:
                    mend = "check MONGODB_URI or remove it to use the embedded server"
                    message = f"the store does not answer ({reason}); {mend}"
                raise StoreError(f"{folder or redacted_words(uri)}: {message}") from None
        # A database object of its own, or the thread would hold the one whose end ends it.
        revive = partial(embedded.revive, folder) if folder else None
        self.writer = BulkWriter(self.database.with_options(), revive)
        self._alias = alias
        self.name = self.database.name
        self._abandoned = weakref.finalize(self.database, _close_abandoned, self.writer, alias)

    def objects(self, document: Kind) -> QuerySet:
        """Return mongoengine's query set of a document class, bound to this store."""
        return QuerySet(document, self._collection(document))

    def find_by(
        self,
        document: Kind,
        field: str,
        values: Iterable[str],
        leave_out: Iterable[str] = (),
        *,
        query: Fields | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return the documents whose ``field`` is one of ``values``, in chunks that any server takes."""
        documents: list[Document] = []
        for ids in windows(dict.fromkeys(values), CHUNK):
            matching = {**(query or {}), field: {"$in": ids}}
            documents += self.find_where(document, matching, leave_out, **options)
        return documents

    def find_where(self, *arguments: Any, **options: Any) -> list[Document]:
        """Return the documents that `each_where` yields."""
        collecting = gc.isenabled()
        gc.disable()  # documents have no cycles, and looking for them takes as long as reading
        try:
            return list(self.each_where(*arguments, **options))
        finally:
            if collecting:
                gc.enable()

    def each_where(
        self,
        document: Kind,
        query: Fields,
        leave_out: Iterable[str] = (),
        *,
        only: Iterable[str] = (),
        limit: int = 0,
    ) -> Iterator[Document]:
        """Yield the raw documents that match a query, with ``only`` these fields or without those to ``leave_out``."""
        fields = dict.fromkeys(only, 1) or dict.fromkeys(leave_out, 0)
        return self._collection(document).find(query, fields or None, batch_size=WINDOW, limit=limit)

    def get(self, document: Kind, query: Fields, **options: Any) -> Document | None:
        """Return one document that matches a query, ``None`` when there is none."""
        return next(self.each_where(document, query, limit=1, **options), None)

    def has(self, document: Kind, query: Fields) -> bool:
        """Return whether a document matches a query."""
        return self.get(document, query, only=("_id",)) is not None

    def sizes(self, *documents: Kind) -> list[int]:
        """Return about how many documents there are of each class, without reading any."""
        return [self._collection(document).estimated_document_count() for document in documents]

    def insert(self, document: Kind, content: Fields) -> None:
        """Insert one document now; raises ``Duplicate`` where its key is taken."""
        try:
            self._collection(document).insert_one(dict(content))
        except DuplicateKeyError:
            raise Duplicate(document._meta["collection"]) from None

    def update(self, document: Kind, query: Fields, change: Fields) -> bool:
        """Change one document now; return whether there was one that matches the query."""
        return bool(self._collection(document).update_one(query, change).matched_count)

    def remove(self, document: Kind, identity: str) -> None:
        """Remove one document now."""
        self._collection(document).delete_one({"_id": identity})

    def _collection(self, document: Kind) -> Collection[Document]:
        return self.database[document._meta["collection"]]

    def server_time(self) -> float:
        """Return the present moment by the server's clock, in seconds since 1970: the clocks of hosts differ."""
        hello = self.database.command("hello", codec_options=self.database.codec_options)
        return float(hello["localTime"].timestamp())

    def add_prompts(self, prompts: Sequence[DatasetPrompt]) -> None:
        """Store prompts once per dataset version; the same id with another text is refused."""
        stored = {
            (document["prompt_id"], document["dataset_version"]): document["text"]
            for document in self.find_by(Prompt, "prompt_id", (prompt.prompt_id for prompt in prompts))
        }
        new = []
        for prompt in prompts:
            text = stored.get((prompt.prompt_id, prompt.dataset_version))
            if text is None:
                new.append(prompt_document(prompt))
            elif text != prompt.text:
                raise StoreError(
                    f"prompt {prompt.prompt_id}: version {prompt.dataset_version} is stored with another text; "
                    "give the changed dataset a new dataset_version"
                )
        self._add(new)

    def add_rubric(self, rubric_hash: str, name: str, version: str, content: str) -> None:
        """Store the content of a rubric once, under the hash that its judgements carry."""
        if not self.has(Rubric, {"_id": rubric_hash}):
            self._add([Rubric(rubric_hash=rubric_hash, name=name, version=version, content=content)])

    def scheme_of(self, rubric_hash: str) -> Scheme:
        """Return dimensions, weights and scale of a stored rubric; of one that is not stored, those of the seed."""
        stored = self.get(Rubric, {"_id": rubric_hash})
        return scheme_in(stored["content"]) if stored else SEED_SCHEME

    def _add(self, documents: Sequence[me.Document]) -> None:
        for document in documents:
            document.validate()
        writes = [
            self.writer.submit(document._meta["collection"], InsertOne(document.to_mongo().to_dict()))
            for document in documents
        ]
        for write in writes:
            with contextlib.suppress(Duplicate):  # another process was first with the same
                write.result()

    def close(self) -> None:
        """Write what is queued and disconnect."""
        if self._abandoned.detach():
            _close(self.writer, self._alias)


def prompt_document(prompt: DatasetPrompt) -> Prompt:
    """Return a prompt of a dataset as it is stored."""
    fields = asdict(prompt)
    fields.pop("base")  # it is metadata.base_scenario, as the seed has it
    if prompt.level in LENGTH_BINS:
        fields["length_bin"] = fields.pop("level")  # as the seed has it
    return Prompt(**{name: value for name, value in fields.items() if value != ""})


def _database(client: pymongo.MongoClient[Any], *, embedded: bool) -> Database[Any]:
    """Return the database that an address names, as the ledger needs it."""
    # Read from the primary, whatever the address says: a reply that a secondary does not have yet would be paid for
    # again. Writes are acknowledged by a majority where the address says nothing, and that is also what is read.
    concern = {name: value for name, value in client.write_concern.document.items() if name != "fsync"}
    concern["w"] = concern.get("w", 1 if embedded else "majority") or 1
    level = client.read_concern.level or ("majority" if concern["w"] == "majority" else None)
    durable = WriteConcern(**{**concern, "j": True})
    return client.get_default_database(DATABASE, None, ReadPreference.PRIMARY, durable, ReadConcern(level))


def _check_version(database: Database[Any]) -> None:
    """Refuse a store that a toolkit with another layout wrote, and name the layout in a new one."""
    with contextlib.suppress(DuplicateKeyError):  # another process opened it at the same moment
        database[LAYOUT].update_one(
            {"_id": "schema"}, {"$setOnInsert": {"version": LAYOUT_VERSION}}, upsert=True
        )
    stored = database[LAYOUT].find_one({"_id": "schema"}) or {}
    if stored.get("version") != LAYOUT_VERSION:
        raise StoreError(
            f"the store has version {stored.get('version')} and this toolkit reads version {LAYOUT_VERSION}; "
            "use the toolkit that wrote it"
        )


class _Reviver(ServerHeartbeatListener):
    """Start the embedded server again where it does not answer a heartbeat."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def started(self, event: object) -> None:
        """Nothing to do."""

    succeeded = started

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Start the server again."""
        with contextlib.suppress(StoreError):  # the next operation reports it
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


def windows(values: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    """Yield values in lists of at most ``size``, which is ``WINDOW`` by default."""
    iterator = iter(values)
    while some := list(islice(iterator, size or WINDOW)):
        yield some


def open_store(folder: Path) -> Store:
    """Open the store of a results folder, or the one that ``MONGODB_URI`` names."""
    uri = os.environ.get("MONGODB_URI")
    return Store(uri, None) if uri else Store(embedded.address(folder), folder)


@contextlib.contextmanager
def temporary_store() -> Iterator[Store]:
    """Open an embedded store that is gone afterwards, never the server that MONGODB_URI names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store(embedded.address(folder), folder)
        try:
            yield store
        finally:
            store.close()
            embedded.stop(folder)
