"""The embedded server: MongoDB's wire protocol over SQLite on a Unix socket, shared by the kernels of a results folder.

``address(folder)`` returns the URI of the running server, starting one when there is none. Two locks keep
it single: a starter holds ``start.lock`` while it looks and starts; the server holds ``server.lock`` for life,
so no second server can open the same data. The socket is its user's alone: no other account of the machine, and no
program that reaches loopback, can read or change what is kept. The server ends by itself when nobody has been connected
for a while.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote_plus

from toolkit.errors import StoreError

IDLE_SECONDS = 600.0
START_SECONDS = 30.0
LONGEST = 100  # bytes of the path of a socket, of which systems take 104 or 108
MEND = "put a copy of this folder in its place"
_MAGIC = b"SQLite format 3\0"


def address(folder: Path, *, idle_seconds: float = IDLE_SECONDS) -> str:
    """Return the ``mongodb://`` address of the server whose data is in ``folder``, starting it if needed."""
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: the store cannot be created ({error.strerror}); choose another `output` in the study file"
        ) from error
    with (folder / "start.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return _running(folder) or _start(folder, idle_seconds)


def revive(folder: Path) -> None:
    """Start a server that died again, at its socket; one that ended by itself took its record with it."""
    if read_record(folder.resolve()) is not None:
        address(folder)


def stop(folder: Path) -> bool:
    """Ask the embedded server of ``folder`` to end, and return whether there was one."""
    folder = folder.resolve()
    record = read_record(folder)
    if record is None or _running(folder) is None:
        return False
    os.kill(record["pid"], signal.SIGTERM)
    for _ in range(200):
        if not _is_locked(folder / "server.lock"):
            return True
        time.sleep(0.05)
    return False


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock file: true exactly while a server lives."""
    with contextlib.suppress(FileNotFoundError), path.open("r") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_record(folder: Path) -> dict | None:
    """Return where the server of a folder says it is, if one does."""
    try:
        record = json.loads((folder / "server.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) and {"pid", "socket"} <= record.keys() else None


def _running(folder: Path) -> str | None:
    # The lock, not the pid, decides: pids are used again, a lock dies with its holder.
    record = read_record(folder)
    if record is None or not _is_locked(folder / "server.lock"):
        return None
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        probe.connect(record["socket"])
        return f"mongodb://{quote_plus(record['socket'])}"
    return None


def socket_of(folder: Path) -> Path:
    """Return the socket of a folder's server: in it, or in a folder of the user's own."""
    # That is where its path is too long for a socket, or no UTF-8 (which is not printable), as an address has to be.
    inside = folder / "server.sock"
    if len(os.fsencode(inside)) <= LONGEST and str(inside).isprintable():
        return inside
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    parent = Path(tempfile.gettempdir()) / f"toolkit-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    status = parent.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        message = f"{parent}: is not this user's alone; remove it, or choose an `output` with a shorter path"
        raise StoreError(message)
    return parent / f"{name}.sock"


def _refuse_damaged(folder: Path) -> None:
    """SQLite takes an empty file for a new store, and everything paid for would be asked again."""
    for path in sorted((folder / "data").glob("*.db")):
        with path.open("rb") as file:
            head = file.read(100)
        size, paged = path.stat().st_size, int.from_bytes(head[16:18], "big")
        promised = int.from_bytes(head[28:32], "big") * (65536 if paged == 1 else paged)
        log = path.with_name(f"{path.name}-wal")
        # With a log beside it a file may be behind what it says of itself.
        short = size < promised and not (log.exists() and log.stat().st_size)
        if head[: len(_MAGIC)] != _MAGIC or short:
            raise StoreError(f"{path}: a damaged store ({size:,} bytes); nothing was read or asked; {MEND}")


def _start(folder: Path, idle_seconds: float) -> str:
    _refuse_damaged(folder)
    log = folder / "server.log"
    with log.open("ab") as sink:
        child = subprocess.Popen(
            [sys.executable, "-m", "toolkit.store.embedded_server", str(folder), str(idle_seconds)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,  # Ctrl-C in one kernel must not end the store of the others
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        record = read_record(folder)
        if record and record["pid"] == child.pid and (uri := _running(folder)):
            # Not waited for: the server outlives us on purpose, so silence the destructor's complaint.
            child.returncode = 0
            return uri
        if child.poll() is not None:
            break
        time.sleep(0.02)
    raise StoreError(f"{folder}: the embedded store did not start; {log} says why")
