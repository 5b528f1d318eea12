"""Open a store: the server named by ``MONGODB_URI``, or the embedded one of a results folder."""

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
from mongoengine.connection import get_connection
from mongoengine.queryset import QuerySet
from pymongo import InsertOne
from pymongo.errors import PyMongoError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatListener

from toolkit.errors import StoreError
from toolkit.prompts.dataset import Prompt as DatasetPrompt
from toolkit.store import embedded
from toolkit.store.documents import DOCUMENTS, Prompt, Rubric
from toolkit.store.writer import BulkWriter, Duplicate, reason_of, what_to_do

DATABASE = "toolkit"
CHUNK = 5000  # ids in one $in
BATCH = 100_000  # documents in one reply, which ends at 16 MB anyway
_opening = threading.RLock()  # the garbage collector may close a store while another is opened
_default_follows = [""]  # the store that ``Run.objects`` of the documents asks


class Store:
    """An open store: collections, a durable writer, and queries through mongoengine.

    Open it with `open_store`. ``Run.objects`` of the documents follow the store opened last in this process;
    ``store.objects(Run)`` always asks this one. One that nobody holds any more, nor its database, closes itself.
    """

    def __init__(self, uri: str, folder: Path | None) -> None:
        self.uri = uri
        self.folder = folder
        with _opening:
            self._alias = f"store-{uuid.uuid4()}"
            me.disconnect("default")
            _default_follows[0] = self._alias
            listeners = [_Reviver(folder)] if folder else []
            for alias in ("default", self._alias):
                me.connect(
                    db=DATABASE,
                    host=uri,
                    alias=alias,
                    tz_aware=True,
                    uuidRepresentation="standard",
                    serverSelectionTimeoutMS=10_000,
                    event_listeners=listeners,
                )
            client = get_connection(self._alias)
            self.database = client[DATABASE]
            try:
                for document in DOCUMENTS:
                    document.ensure_indexes()
            except PyMongoError as error:
                _disconnect(self._alias)
                said = _without_password(reason_of(error))
                if folder:
                    mend = what_to_do(error) if "disk is full" in said else embedded.MEND
                    raise StoreError(f"{folder}: the store cannot be used ({said}); {mend}") from None
                raise StoreError(
                    f"{_without_password(uri)}: the store does not answer ({said}); "
                    "check MONGODB_URI or remove it to use the embedded server"
                ) from None
        # A database object of its own, or the thread would hold the one whose end ends it.
        self.writer = BulkWriter(client[DATABASE], partial(embedded.revive, folder) if folder else _nothing)
        self._closing = weakref.finalize(self.database, _close, self.writer, self._alias)

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
        """Return the raw documents that match a query; ``_id`` is always among their fields.

        ``only`` names the fields to read, ``leave_out`` those not to, which may be parts of fields such as ``a.b``;
        one of the two.
        """
        wanted = {"_id", *only}
        left = list(leave_out) or [
            name for name in document._db_field_map.values() if only and name not in wanted
        ]
        collection = self.database[document._meta["collection"]]
        if "_id" in where:  # which a pipeline of the embedded server finds without its index
            with without_collecting():
                return list(collection.find(where, dict.fromkeys(left, 0) or None, batch_size=BATCH))
        # A pipeline that takes fields away: only that way does the embedded server leave them out in SQL, in a fifth of
        # the time, and hand on the others as they were written: picked one by one, floats would keep 15 digits.
        pipeline: list[Mapping[str, Any]] = [{"$match": where}]
        if left:
            pipeline.append({"$project": dict.fromkeys(left, 0)})
        with without_collecting():
            return list(collection.aggregate(pipeline, batchSize=BATCH))

    def add_prompts(self, prompts: Sequence[DatasetPrompt]) -> None:
        """Store prompts once per dataset version; the same id with another text is refused."""
        stored = {
            (found["prompt_id"], found["dataset_version"]): found["text"]
            for found in self.find_by(Prompt, "prompt_id", (prompt.prompt_id for prompt in prompts))
        }
        writes = []
        for prompt in prompts:
            fields = asdict(prompt)
            fields.pop("base")  # it is metadata.base_scenario, as the seed has it
            known = stored.get((prompt.prompt_id, prompt.dataset_version))
            if known is None:
                document = Prompt(**{name: value for name, value in fields.items() if value != ""})
                document.validate()
                writes.append(self.writer.submit("prompts", InsertOne(document.to_mongo().to_dict())))
            elif known != prompt.text:
                raise StoreError(
                    f"prompt {prompt.prompt_id}: version {prompt.dataset_version} is stored with another text; "
                    "give the changed dataset a new dataset_version"
                )
        for write in writes:
            with contextlib.suppress(Duplicate):  # another process was first with the same prompt
                write.result()

    def add_rubric(self, rubric_hash: str, name: str, version: str, content: str) -> None:
        """Store the content of a rubric once, under the hash that its judgements carry."""
        if self.database["rubrics"].count_documents({"_id": rubric_hash}, limit=1):
            return
        document = Rubric(rubric_hash=rubric_hash, name=name, version=version, content=content)
        document.validate()
        write = self.writer.submit("rubrics", InsertOne(document.to_mongo().to_dict()))
        with contextlib.suppress(Duplicate):  # another process was first
            write.result()

    def close(self) -> None:
        """Write what is queued and disconnect."""
        self._closing()


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


def _nothing() -> None:
    """A server that is not ours is not started by us."""


def _close(writer: BulkWriter, alias: str) -> None:
    writer.close()
    with _opening:
        _disconnect(alias)


def _disconnect(alias: str) -> None:
    # A client that outlives its server would hold up whoever opens the next store.
    if _default_follows[0] == alias:
        me.disconnect("default")
        _default_follows[0] = ""
    me.disconnect(alias)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Keep Python from looking for cycles among documents while they are there: they have none, and it takes as long.

    Also a decorator, for a function that reads many and lets them go again.
    """
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
