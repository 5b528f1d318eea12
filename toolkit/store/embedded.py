"""The embedded server: MongoDB's wire protocol over SQLite on loopback, shared by all kernels of a results folder.

``address(folder)`` returns the URI of the running server, starting one when there is none. Two locks keep
it single: a starter holds ``start.lock`` while it looks and starts; the server holds ``server.lock`` for life,
so no second server can open the same data. The server ends by itself when nobody has been connected for a while.
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
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import StoreError

IDLE_SECONDS = 600.0
START_SECONDS = 30.0
MEND = "put a copy of this folder in its place, or `toolkit import` an archive of the study into another one"
_MAGIC = b"SQLite format 3\0"
COLLECT_AFTER = 200_000  # new objects
"""How often the server's Python looks for cycles. Documents have none, and at the usual 700 it goes through all of them
again and again while they are read: half of the time that a thousand take."""


def address(folder: Path, *, idle_seconds: float = IDLE_SECONDS) -> str:
    """Return the ``mongodb://`` address of the server whose data is in ``folder``, starting it if needed."""
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: the store cannot be created ({error.strerror}); choose another `output` in the study file"
        ) from error
    with _locked(folder / "start.lock"):
        uri = _running(folder)
        return uri if uri else _start(folder, idle_seconds)


def revive(folder: Path) -> None:
    """Start a server that died again, at its port; one that ended by itself took its record with it."""
    if _record(folder.resolve()) is not None:
        address(folder)


def stop(folder: Path) -> bool:
    """Ask the embedded server of ``folder`` to end, and return whether there was one."""
    import signal

    record = _record(folder.resolve())
    if record is None or _running(folder.resolve()) is None:
        return False
    os.kill(record["pid"], signal.SIGTERM)
    for _ in range(200):
        if not _held(folder.resolve() / "server.lock"):
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _held(path: Path) -> bool:
    """Whether another process holds the lock file: true exactly while a server lives."""
    if not path.exists():
        return False
    with path.open("r") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _record(folder: Path) -> dict | None:
    try:
        record = json.loads((folder / "server.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) and {"pid", "port"} <= record.keys() else None


def _running(folder: Path) -> str | None:
    # The lock, not the pid, decides: pids are used again, a lock dies with its holder.
    record = _record(folder)
    if record is None or not _held(folder / "server.lock"):
        return None
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", record["port"]), timeout=5):
        return f"mongodb://127.0.0.1:{record['port']}"
    return None


def _refuse_damaged(folder: Path) -> None:
    """SQLite takes an empty file for a new store, and everything paid for would be asked again."""
    for path in sorted((folder / "data").glob("*.db")):
        with path.open("rb") as file:
            head = file.read(100)
        size, paged = path.stat().st_size, int.from_bytes(head[16:18], "big")
        whole = int.from_bytes(head[28:32], "big") * (65536 if paged == 1 else paged)
        log = path.with_name(f"{path.name}-wal")
        # With a log beside it a file may be behind what it says of itself.
        short = size < whole and not (log.exists() and log.stat().st_size)
        if head[: len(_MAGIC)] != _MAGIC or short:
            raise StoreError(f"{path}: a damaged store ({size:,} bytes); nothing was read or asked; {MEND}")


def _start(folder: Path, idle_seconds: float) -> str:
    _refuse_damaged(folder)
    before = _record(folder)
    port = str(before["port"]) if before else "0"
    log = folder / "server.log"
    with log.open("ab") as sink:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "toolkit.store.embedded",
                str(folder),
                "--idle",
                str(idle_seconds),
                "--port",
                port,
            ],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,  # Ctrl-C in one kernel must not end the store of the others
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        record = _record(folder)
        if record and record["pid"] == child.pid and (uri := _running(folder)):
            # Not waited for: the server outlives us on purpose, so silence the destructor's complaint.
            child.returncode = 0
            return uri
        if child.poll() is not None:
            break
        time.sleep(0.02)
    raise StoreError(f"{folder}: the embedded store did not start; {log} says why")


def serve(folder: Path, idle_seconds: float, port: int = 0) -> None:
    """Serve ``folder`` until nobody has been connected for ``idle_seconds``; blocks.

    At ``port`` if that is free: clients of a server that died look for it there.
    """
    # A bare descriptor, which ends with the process: a file object would end before SQLite has written its last.
    lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreError(f"{folder}: another embedded server already serves this folder") from None
    gc.set_threshold(COLLECT_AFTER)
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("nx_27017").addFilter(_in_one_line)
    from nx_27017.server import handle_client

    from toolkit.store.embedded_server import Handler

    handler = Handler(data_dir=str(folder / "data"))
    asyncio.run(_serve(folder, handler, handle_client, idle_seconds, port))


def _in_one_line(record: logging.LogRecord) -> bool:
    """Have the server log what went wrong and not where in it: on a full disk each of many writes would say it."""
    if record.exc_info:
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {record.exc_info[1]}", (), None
    return True


async def _serve(folder: Path, handler, handle_client, idle_seconds: float, port: int) -> None:  # type: ignore[no-untyped-def]
    import signal

    # Not `run_server` of the package, which is told a port: another program may have it by the time it listens, and
    # whoever read our record meanwhile would talk to that one.
    handle = functools.partial(handle_client, handler=handler)
    try:
        listening = await asyncio.start_server(handle, "127.0.0.1", port)
    except (OSError, OverflowError):
        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server = asyncio.create_task(listening.serve_forever())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.cancel)
    draft = folder / "server.json.new"
    draft.write_text(json.dumps({"pid": os.getpid(), "port": port}))
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
    (folder / "server.json").unlink(missing_ok=True)  # ended, and not died: nobody starts it again unasked


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=serve.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    serve(arguments.folder, arguments.idle, arguments.port)
