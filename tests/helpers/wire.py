"""A proxy in front of the store that notes what goes over the wire, and may hold back or change what comes home.

What a process was told by its store, and when, is seen here by one that does not know how it asks.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any
from urllib.parse import unquote_plus

import bson

_OP_MSG = 2013
_HEADER = struct.Struct("<iiii")
Told = dict[str, Any]


def _as_it_is(command, reply):
    return reply


class Wire:
    """A proxy on loopback; a context manager.

    Parameters
    ----------
    uri
        The store behind it, by its socket.
    change
        What becomes of a reply before it goes home, from the command and the reply; may take its time.
    note
        Called with a command and the reply that is on its way home.
    """

    def __init__(
        self,
        uri,
        *,
        change=_as_it_is,
        note=lambda command, reply: None,
    ):
        self._behind = unquote_plus(uri.removeprefix("mongodb://"))
        self._change, self._note = change, note
        self._ends: list[socket.socket] = []
        self._port = 0

    @property
    def uri(self):
        """Where a client finds the proxy."""
        return f"mongodb://127.0.0.1:{self._port}"

    def __enter__(self):
        self._listening = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    come_back = __enter__

    def __exit__(self, *_):
        self.go_away()

    def go_away(self):
        """Close every connection and take no other until `come_back`."""
        for end in (self._listening, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends = []

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._behind)
                self._ends += [near, far]
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        """Carry a command there and its reply home, in turn."""
        with contextlib.suppress(OSError, EOFError), near, far:
            while True:
                asked = _message(near)
                far.sendall(asked)
                said = _message(far)
                if _opcode(asked) == _opcode(said) == _OP_MSG:
                    command, reply = _read(asked), _read(said)
                    reply = self._change(command, reply)
                    self._note(command, reply)
                    said = _written(said, reply)
                near.sendall(said)


def _message(end):
    head = _exactly(end, _HEADER.size)
    return head + _exactly(end, _HEADER.unpack(head)[0] - len(head))


def _exactly(end, size):
    parts = bytearray()
    while len(parts) < size:
        part = end.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _opcode(message):
    return _HEADER.unpack_from(message)[3]


def _read(message):
    """Return the one document of a message, with what it carries beside it (kind 1) under its name."""
    place, told, beside = _HEADER.size + 4, {}, {}
    while place < len(message):
        kind, place = message[place], place + 1
        (size,) = struct.unpack_from("<i", message, place)
        part = message[place : place + size]
        if kind:
            end = part.index(b"\0", 4)
            beside[part[4:end].decode()] = bson.decode_all(part[end + 1 :])
        else:
            told = bson.decode(part)
        place += size
    return told | beside


def _written(message, reply):
    _, request, answers, opcode = _HEADER.unpack_from(message)
    body = message[_HEADER.size : _HEADER.size + 4] + b"\0" + bson.encode(reply)
    return _HEADER.pack(_HEADER.size + len(body), request, answers, opcode) + body
