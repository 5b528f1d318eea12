"""The embedded server: nx-27017, with one transaction a write and one encoding a reply.

Its private methods are overridden here and nowhere else, so its version is pinned. It commits every document of a bulk
by itself and waits for the disk each time where a flush is asked for; in one transaction a bulk takes half the time and
is flushed once. Of what it sends it encodes each document to weigh it, walks through it value by value and encodes it
again; encoded once, 10,000 runs take 0.6 s less. What an update sets it hands to SQLite as SQL values, which keep 15
digits of a float and no dates; here a document is changed in Python and written whole. Its locks, errors and replies
stay as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import functools
import gc
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from neosqlite.collection import Collection
from neosqlite.collection.json_helpers import neosqlite_json_dumps
from neosqlite.collection.query_helper import QueryHelper, crud_operations, update_operations
from neosqlite.collection.query_helper.utils import _convert_bytes_to_binary
from neosqlite.results import UpdateResult
from neosqlite.sql_utils import quote_table_name
from nx_27017.handler import NeoSQLiteHandler
from nx_27017.server import handle_client
from nx_27017.utils import convert_neo_to_bson_objectids
from nx_27017.wire_protocol import MAX_BSON_DOCUMENT_SIZE

from toolkit.errors import StoreError
from toolkit.store.embedded import IDLE_SECONDS, read_record, socket_of

COLLECT_AFTER = 200_000  # new objects
"""How often Python looks for cycles. Documents have none, and at the usual 700 it goes through all of them again and
again while they are read: half of the time that a thousand take."""

Document = dict[str, Any]
Reply = tuple[int, dict[str, Any]]
_WRITES = ("update", "delete")


class Handler(NeoSQLiteHandler):
    """The library's handler, with a transaction around inserts, updates and deletes, and documents encoded once."""

    @staticmethod
    def _fit_bson_budget(
        docs: list[Document], limit: int = MAX_BSON_DOCUMENT_SIZE
    ) -> tuple[list[Document], list[Document]]:
        """Split documents into those that one reply takes, encoded, and the rest; the first always fits."""
        head: list[Any] = []
        used = 0
        for document in docs:
            raw = _encoded(document)
            if head and used + len(raw) > limit:
                break
            head.append(RawBSONDocument(raw))
            used += len(raw)
        return head, docs[len(head) :]

    def handle_insert(self, msg: dict[str, Any]) -> Reply:
        """Insert the documents of one command, all before the one commit."""
        return self._together(msg, super().handle_insert)

    def handle_command(self, msg: dict[str, Any]) -> Reply:
        """Do any other command; one that changes documents in one transaction."""
        body = _body(msg)
        if any(word in body for word in _WRITES):
            return self._together(msg, super().handle_command)
        return super().handle_command(msg)

    def _together(self, msg: dict[str, Any], work: Callable[[dict[str, Any]], Reply]) -> Reply:
        body = _body(msg)
        name = body.get("$db", "test")
        with self._lock_for(name):
            database = self.get_database(name)
            # Before the transaction begins: inside it SQLite takes no other safety level, in silence.
            self._apply_write_concern(database, name, body.get("writeConcern"))
            sqlite = database.db
            if sqlite.in_transaction:  # one that a client has opened
                return work(msg)
            sqlite.execute("BEGIN IMMEDIATE")
            try:
                reply = work(msg)
            except BaseException:
                sqlite.execute("ROLLBACK")
                raise
            sqlite.execute("COMMIT")
            return reply


def change_in_python() -> None:
    """Have updates change a document here and write it whole; once a process."""
    # In SQL a float of `$set` would come back with 15 digits, a date as a text and a truth value as a number.
    library_update, library_replace = QueryHelper._internal_update, Collection.replace_one

    def update(
        helper: QueryHelper,
        row: int,
        change: Document,
        document: Document,
        filters: list[Document] | None = None,
        query: Document | None = None,
    ) -> tuple[Document, bool]:
        """Return a document as changed and whether it is another one; of an upsert, row 0, nothing is written."""
        paths = [path for fields in change.values() for path in fields]
        here = set() if any("$" in path for path in paths) else change.keys() & _CHANGES
        changed = _changed(document, {name: change[name] for name in change if name in here}, new=not row)
        if row and here:
            table = quote_table_name(helper.collection.name)
            helper.collection.db.execute(f"UPDATE {table} SET data = ? WHERE id = ?", (_dumps(changed), row))
        if others := {name: fields for name, fields in change.items() if name not in here}:
            # The library's own way in Python knows no parts of fields.
            in_sql = any("." in path for fields in others.values() for path in fields)
            way = library_update if in_sql else QueryHelper._perform_python_update
            changed, _ = way(helper, row, others, changed, filters, query)
        return changed, changed != document

    def replace(collection: Collection, query: Document, document: Document, **options: Any) -> UpdateResult:
        """Replace a document, and insert it under the identity that it was looked for by."""
        identity = query.get("_id")
        if options.get("upsert") and identity is not None and not isinstance(identity, dict):
            document = {"_id": identity, **document}
        return library_replace(collection, query, document, **options)

    Collection.replace_one = replace
    QueryHelper._internal_update = update
    crud_operations.neosqlite_json_dumps = update_operations.neosqlite_json_dumps = _dumps


_CHANGES = {"$set", "$unset", "$currentDate", "$setOnInsert"}
_dumps = functools.partial(neosqlite_json_dumps, allow_nan=False)  # which SQLite could not read again


def _changed(document: Document, change: Document, *, new: bool) -> Document:
    document = deepcopy(document)
    for operator, fields in change.items():
        for path, value in fields.items():
            if operator == "$setOnInsert" and not new:
                continue
            if operator == "$currentDate":  # as MongoDB keeps it, to the millisecond
                value = datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, UTC)
            *parents, last = path.split(".")
            parent: Any = document
            for name in parents:
                absent = not isinstance(parent, list) and name not in parent
                if absent and operator == "$unset":
                    break
                parent = parent[int(name)] if isinstance(parent, list) else parent.setdefault(name, {})
            else:
                if operator == "$unset" and not isinstance(parent, list):
                    parent.pop(last, None)
                else:
                    value = None if operator == "$unset" else _convert_bytes_to_binary(value)
                    parent[int(last) if isinstance(parent, list) else last] = value
    return document


def _encoded(document: Document) -> bytes:
    """Return a document as it goes over the wire; the store's own ids are no type of BSON."""
    if "_id" in document:  # where nearly all of them stand
        document = {**document, "_id": convert_neo_to_bson_objectids(document["_id"])}
    try:
        return bson.encode(document)
    except BSONError:
        return bson.encode(convert_neo_to_bson_objectids(document))


def _body(msg: dict[str, Any]) -> dict[str, Any]:
    return next((document for kind, document in msg["sections"] if kind == "body"), None) or {}


def serve(folder: Path, idle_seconds: float) -> None:
    """Serve ``folder`` until nobody has been connected for ``idle_seconds``; blocks."""
    os.umask(0o077)  # socket and data are this user's alone
    # A bare descriptor, which ends with the process: a file object would end before SQLite has written its last.
    lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreError(f"{folder}: another embedded server already serves this folder") from None
    gc.set_threshold(COLLECT_AFTER)
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("nx_27017").addFilter(_in_one_line)
    change_in_python()
    handler = Handler(data_dir=str(folder / "data"))
    asyncio.run(_serve(folder, handler, idle_seconds))


def _in_one_line(record: logging.LogRecord) -> bool:
    """Have the server log what went wrong and not where in it: on a full disk each of many writes would say it."""
    if record.exc_info:
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {record.exc_info[1]}", (), None
    return True


async def _serve(folder: Path, handler: Handler, idle_seconds: float) -> None:
    # Not `run_server` of the package, which listens on a port, where every user of the machine could come.
    handle, place = functools.partial(handle_client, handler=handler), socket_of(folder)
    place.unlink(missing_ok=True)  # of a server that died: who holds the lock has no other beside it
    listening = await asyncio.start_unix_server(handle, place)
    server = asyncio.create_task(listening.serve_forever())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.cancel)
    draft = folder / "server.json.new"
    draft.write_text(json.dumps({"pid": os.getpid(), "socket": str(place)}))
    draft.replace(folder / "server.json")
    last_used = time.monotonic()
    while not server.done():
        await asyncio.wait([server], timeout=min(1.0, idle_seconds))
        if handler._active_connections > 0:  # the handler has no public count
            last_used = time.monotonic()
        elif time.monotonic() - last_used > idle_seconds:
            server.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await server
    # Ended, and not died: nobody starts it again unasked. Where the folder was removed and made anew meanwhile, the
    # record there is that of another server.
    if (read_record(folder) or {}).get("pid") == os.getpid():
        (folder / "server.json").unlink(missing_ok=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=serve.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS)
    arguments = parser.parse_args()
    serve(arguments.folder, arguments.idle)
