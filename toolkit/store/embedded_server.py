"""The embedded server: nx-27017, with what it does otherwise than MongoDB, or slowly, mended here and nowhere else.

Private methods of the library are overridden, so its version is pinned. tests/hard/test_store.py tests every mend:

- A bulk is one transaction and one flush; the library commits each document and waits for the disk each time.
- A document of a reply is encoded once; the library encodes it twice to weigh it.
- An update changes the document in Python; in SQL a float keeps 15 digits, and a moment becomes text.
- `find` reads ids first and documents batch by batch, and takes fields out in SQL; the library loads all of a result.
- `$in` uses the index of a field; the library reads the whole collection for every field but `_id`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import gc
import json
import logging
import os
import re
import signal
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from neosqlite.collection import Collection
from neosqlite.collection.json_helpers import neosqlite_json_dumps, neosqlite_json_loads
from neosqlite.collection.json_path_utils import parse_json_path
from neosqlite.collection.jsonb_support import json_data_column
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
Reply = tuple[int, Document]
_FIND_OPTIONS = frozenset(
    ("find", "filter", "projection", "sort", "skip", "limit", "batchSize", "singleBatch", "comment", "lsid")
)
_FIELD = re.compile(r"\w+(\.\w+)*")
_ROWS = 1000  # documents that are read at once


class Rows:
    """The result of a `find`: row ids, whose documents are read when they are sent.

    It is sliced and added as the library does it with lists. Of a row that was deleted meanwhile there is ``None``.
    """

    def __init__(self, read: Callable[[Sequence[int]], Mapping[int, Document]], ids: array[int]) -> None:
        self._read = read
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self._read, self._ids[part])

    def __add__(self, rows: Rows) -> Rows:
        return Rows(self._read, self._ids + rows._ids)

    def __iter__(self) -> Iterator[Document | None]:
        for start in range(0, len(self._ids), _ROWS):
            ids = self._ids[start : start + _ROWS]
            documents = self._read(ids)
            yield from (documents.get(row) for row in ids)


class Handler(NeoSQLiteHandler):
    """The library's handler with the mends that the top of this file lists."""

    @staticmethod
    def _fit_bson_budget(docs: Any, limit: int = MAX_BSON_DOCUMENT_SIZE) -> tuple[list[Document], Any]:
        """Split documents into those that one reply takes, encoded, and the rest; the first always fits."""
        head: list[Any] = []
        size = count = 0
        for document in docs:
            if document is not None:
                raw = _encoded(document)
                if head and size + len(raw) > limit:
                    break
                head.append(RawBSONDocument(raw))
                size += len(raw)
            count += 1
        return head, docs[count:]

    def handle_insert(self, msg: Document) -> Reply:
        """Insert the documents of one command, all before the one commit."""
        return self._together(msg, super().handle_insert)

    def handle_command(self, msg: Document) -> Reply:
        """Do any other command; one that changes documents in one transaction."""
        body = _body(msg)
        if "update" in body or "delete" in body:
            return self._together(msg, super().handle_command)
        if "find" in body:
            with self._lock_for(body.get("$db", "test")):
                return self._find(msg, body) or super().handle_command(msg)
        return super().handle_command(msg)

    def _find(self, msg: Document, body: Document) -> Reply | None:
        """Answer a plain `find`; one with options or conditions that SQL does not have is left to the library."""
        query = self._convert_objectids(body.get("filter") or {})
        columns = _columns(body.get("projection") or {})
        options = {name for name in body if not name.startswith(("$", "read"))}
        if columns is None or not options <= _FIND_OPTIONS or "$expr" in query or _has_moment(query):
            return None
        name = body.get("$db", "test")
        database = self.get_database(name)
        if body["find"] not in database.list_collection_names():
            return None
        collection = database[body["find"]]
        helpers = collection.query_engine.helpers
        if (condition := helpers._build_simple_where_clause(query)) is None or condition[2]:
            return None
        table = quote_table_name(collection.name)
        order = helpers._build_sort_clause(body.get("sort"))
        page = helpers._build_pagination_clause(abs(body.get("limit") or 0), body.get("skip") or 0)
        ids = database.db.execute(f"SELECT id FROM {table} {condition[0]}{order}{page}", condition[1])
        rows = Rows(functools.partial(_documents, collection, columns), array("q", (row for (row,) in ids)))
        space, owner = f"{name}.{collection.name}", msg.get("_conn_id")
        first, cursor = self._split_first_batch(rows, self._first_batch_size(body), space, name, owner=owner)
        return msg["request_id"], {"ok": 1, "cursor": {"id": cursor, "ns": space, "firstBatch": first}}

    def _together(self, msg: Document, work: Callable[[Document], Reply]) -> Reply:
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


def _columns(projection: Document) -> tuple[list[str], list[str]] | None:
    """Return the fields that a projection includes and those it leaves out; ``None`` for one with expressions."""
    included = [name for name, value in projection.items() if value and name != "_id"]
    excluded = [name for name, value in projection.items() if not value]
    simple = all(value in (0, 1) and isinstance(value, int | float) for value in projection.values())
    plain = all(_FIELD.fullmatch(name) for name in projection)
    if not simple or not plain or (included and set(excluded) - {"_id"}) or len({*included}) > 50:
        return None
    return (["_id"] if projection and not included and not excluded else included), excluded


def _has_moment(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, datetime) or any(map(_has_moment, parts))


def _path(field: str) -> str:
    return "'$" + "".join(f'."{part}"' for part in field.split(".")) + "'"


def _documents(
    collection: Collection, columns: tuple[list[str], list[str]], ids: Sequence[int]
) -> dict[int, Document]:
    """Read documents by row: whole, with some fields, or without some. Fields of elements of lists stay."""
    included, excluded = columns
    data = "data"
    if parts := [_path(name) for name in excluded if name != "_id"]:
        data = f"json_remove(data, {', '.join(parts)})"
    # `->` hands a value on as JSON text: a float keeps all of its digits, and null is not the same as missing.
    names = list(dict.fromkeys([*included, *(["_id"] if included and "_id" not in excluded else [])]))
    tree: Document = {}
    for number, name in enumerate(names):
        *parents, last = name.split(".")
        functools.reduce(lambda branch, parent: branch.setdefault(parent, {}), parents, tree)[last] = number
    selected = [f"data -> {_path(name)}" for name in names]
    jsonb = collection.query_engine.jsonb.jsonb_supported
    content = "'{}'" if included else json_data_column(jsonb, data)
    columns_in_sql = ", ".join(["id", "_id", content, *selected])
    table = quote_table_name(collection.name)
    command = f"SELECT {columns_in_sql} FROM {table} WHERE id IN ({_marks(ids)})"
    rows = collection.db.execute(command, list(ids))
    if included:  # all in one go: the library has a decoder made for each text
        few = rows.fetchall()
        loaded = neosqlite_json_loads(f"[{','.join(_nested(tree, row[3:]) or row[2] for row in few)}]")
        documents = {row: document for (row, *_), document in zip(few, loaded, strict=True)}
        for row, identity, *_ in few:
            documents[row].setdefault("_id", collection._resolve_stored_id(identity, row))
    else:
        documents = {row: collection._load_with_stored_id(row, text, name) for row, name, text in rows}
    for document in documents.values() if "_id" in excluded else ():
        document.pop("_id", None)
    return documents


def _nested(tree: Document, values: Sequence[str | None]) -> str | None:
    """Return the JSON text of an object whose members are values, by number, or objects again; none of no members."""
    parts = []
    for name, branch in tree.items():
        text = values[branch] if isinstance(branch, int) else _nested(branch, values)
        if text is not None:
            parts.append(f'"{name}":{text}')
    return "{" + ",".join(parts) + "}" if parts else None


def use_indexes() -> None:
    """Have equality and `$in` of texts use every index that begins with their field; once a process."""
    # The library looks at indexes of one field, and only for equality. As it has it, a field of an index holds no list.
    library_clause, library_has_index = QueryHelper._build_field_clause, QueryHelper._field_has_index

    def has_index(helper: QueryHelper, field: str) -> bool:
        start = f"idx_{helper.collection.name}_{field.replace('.', '_')}_"
        if any(str(name).startswith(start) for name in helper.collection.list_indexes()):
            return True
        return bool(library_has_index(helper, field))

    def clause(helper: QueryHelper, field: str, value: Any) -> tuple[str, list[Any]] | None:
        texts = value.get("$in") if isinstance(value, dict) and len(value) == 1 and field != "_id" else None
        if texts and all(isinstance(text, str) for text in texts) and has_index(helper, field):
            function = f"{helper.jsonb.json_function_prefix}_extract"
            return f"{function}(data, '{parse_json_path(field)}') IN ({_marks(texts)})", list(texts)
        return library_clause(helper, field, value)

    QueryHelper._field_has_index = has_index
    QueryHelper._build_field_clause = clause


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


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
        in_python = set() if any("$" in path for path in paths) else change.keys() & _CHANGES
        ours = {name: fields for name, fields in change.items() if name in in_python}
        changed = _changed(document, ours, new=not row)
        if row and in_python:
            table = quote_table_name(helper.collection.name)
            helper.collection.db.execute(f"UPDATE {table} SET data = ? WHERE id = ?", (_dumps(changed), row))
        if library_changes := {name: fields for name, fields in change.items() if name not in in_python}:
            # The library's own way in Python knows no parts of fields.
            in_sql = any("." in path for fields in library_changes.values() for path in fields)
            way = library_update if in_sql else QueryHelper._perform_python_update
            changed, _ = way(helper, row, library_changes, changed, filters, query)
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
    if not isinstance(identity := document.get("_id"), str | None):  # where nearly all of them stand
        document = {**document, "_id": convert_neo_to_bson_objectids(identity)}
    try:
        return bson.encode(document)
    except BSONError:
        return bson.encode(convert_neo_to_bson_objectids(document))


def _body(msg: Document) -> Document:
    return next((document for kind, document in msg["sections"] if kind == "body"), None) or {}


def serve(folder: Path, idle_seconds: float = IDLE_SECONDS) -> None:
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
    logging.getLogger("nx_27017").addFilter(_without_traceback)
    change_in_python()
    use_indexes()
    handler = Handler(data_dir=str(folder / "data"))
    asyncio.run(_serve(folder, handler, idle_seconds))


def _without_traceback(record: logging.LogRecord) -> bool:
    """Have the server log failures without tracebacks: on a full disk each of many writes has one."""
    if record.exc_info:
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {record.exc_info[1]}", (), None
    return True


async def _serve(folder: Path, handler: Handler, idle_seconds: float) -> None:
    # Not `run_server` of the package, which listens on a port, where every user of the machine could come.
    handle, address = functools.partial(handle_client, handler=handler), socket_of(folder)
    address.unlink(missing_ok=True)  # of a server that died: who holds the lock has no other beside it
    listening = await asyncio.start_unix_server(handle, address)
    server = asyncio.create_task(listening.serve_forever())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.cancel)
    draft = folder / "server.json.new"
    draft.write_text(json.dumps({"pid": os.getpid(), "socket": str(address)}))
    draft.replace(folder / "server.json")
    used_at = time.monotonic()
    while not server.done():
        await asyncio.wait([server], timeout=min(1.0, idle_seconds))
        if handler._active_connections > 0:  # the handler has no public count
            used_at = time.monotonic()
        elif time.monotonic() - used_at > idle_seconds:
            server.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await server
    # Ended, and not died: nobody starts it again unasked. Where the folder was removed and made anew meanwhile, the
    # record there is that of another server.
    if (read_record(folder) or {}).get("pid") == os.getpid():
        (folder / "server.json").unlink(missing_ok=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *map(float, sys.argv[2:]))
