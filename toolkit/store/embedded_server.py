"""The embedded server: nx-27017, with one transaction a write and one encoding a reply.

Its private methods are overridden here and nowhere else, so its version is pinned. It commits every document of a bulk
by itself and waits for the disk each time where a flush is asked for; in one transaction a bulk takes half the time and
is flushed once. Of what it sends it encodes each document to weigh it, walks through it value by value and encodes it
again; encoded once, 10,000 runs take 0.6 s less. A truth value that an update sets
it hands to SQLite as a number, which comes back as 0 or 1; here it is JSON. Its locks, errors and replies stay as they
are.
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
from pathlib import Path
from typing import Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from neosqlite.collection.query_helper import _sql_updates
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


class _Boolean(dict[str, bool]):
    """A truth value, as what the library's updates hand to SQLite as JSON: an object."""


def keep_booleans() -> None:
    """Have updates store true and false as such; once a process."""
    convert, dumps = _sql_updates._convert_bytes_to_binary, _sql_updates.neosqlite_json_dumps

    def converted(value: Any) -> Any:
        return _Boolean(value=value) if isinstance(value, bool) else convert(value)

    def dumped(value: Any) -> str:
        return json.dumps(value["value"]) if isinstance(value, _Boolean) else dumps(value)

    _sql_updates._convert_bytes_to_binary = converted
    _sql_updates.neosqlite_json_dumps = dumped


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
    keep_booleans()
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
