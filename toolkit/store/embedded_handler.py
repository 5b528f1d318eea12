"""What the embedded server does differently from the library it is: one transaction for each command that writes.

nx-27017 commits every document of a bulk by itself, and waits for the disk each time where a flush is asked for. In one
transaction a bulk takes half the time and is flushed once. The library's locks, errors and replies stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nx_27017.handler import NeoSQLiteHandler

Reply = tuple[int, dict[str, Any]]
_WRITES = ("update", "delete")


class Handler(NeoSQLiteHandler):
    """The library's handler, with a transaction around inserts, updates and deletes."""

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


def _body(msg: dict[str, Any]) -> dict[str, Any]:
    return next((document for kind, document in msg["sections"] if kind == "body"), None) or {}
