"""Files are written whole or not at all, and what killed processes left is removed.

A temporary file has the `mark` of the running system in its name and is locked by `try_lock` while it is in use,
because a lock ends with its process and a pid may be used again. `leftovers` finds files that nobody locks. Files with
the mark of another system are left alone: some disks do not show the locks of another machine.
"""

import contextlib
import fcntl
import functools
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@functools.cache
def mark() -> str:
    """Return eight signs that name the running system; where it has no name, those of this process alone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[-8:]
    except OSError:
        return uuid.uuid4().hex[:8]


def try_lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed; false when another process has locked or removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(handle).st_nlink > 0


def leftovers(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files that nobody locks, each locked meanwhile, so that one process only removes it."""
    try:
        entries = [entry for entry in os.scandir(folder) if re.fullmatch(name, entry.name)]
    except OSError:
        return
    for entry in entries:
        # Removed meanwhile, of another user, locked, or on a disk without locks: left alone.
        with contextlib.suppress(OSError):
            kind = os.O_RDONLY if entry.is_dir(follow_symlinks=False) else os.O_RDWR
            handle = os.open(entry.path, kind | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.lstat(entry.path)):
                    yield Path(entry.path)
            finally:
                os.close(handle)


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that is either complete or not there, also when the process is killed half-way.

    What a killed process left in the folder is removed by the next one that writes there.
    """
    with opened_atomically(path) as stream:
        stream.write(content)
    return path


@contextlib.contextmanager
def opened_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written in pieces: at the end it is there as a whole, or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.absolute())
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{mark()}-")
        draft = Path(name)
        with os.fdopen(handle, "wb") as stream:
            if not try_lock(handle):  # locked until it is renamed
                continue
            try:
                yield stream
                stream.flush()
                draft.chmod(0o644)  # mkstemp makes it private; a figure is for the supervisor too
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            return


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder: once in a process, for it may hold 100,000 records."""
    for draft in leftovers(folder, rf"\..+\.{mark()}-[a-z0-9_]{{8}}"):
        with contextlib.suppress(OSError):  # whoever writes has no part in it
            draft.unlink()


def append_durably(path: Path, lines: bytes) -> None:
    """Append whole lines to a file that several processes may write to, and return when they are on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a+b") as file:
            if not try_lock(file.fileno()):  # another process writes, or has just removed it
                time.sleep(0.01)
                continue
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            # A killed process may have left half a line.
            file.write(b"\n" + lines if size and file.read(1) != b"\n" else lines)
            file.flush()
            os.fsync(file.fileno())
            return
