"""What a process that was killed left behind, told from what a living one still uses.

Who makes something that is to vanish puts the `mark` of the running system into its name and holds it by `held` for as
long as it is in use; a lock dies with its holder, where a pid lives on in another process. Whoever comes next finds by
`left` what nobody holds any more. What has the mark of another system is left alone, be it of another machine that
shares the disk or of this one before it was started anew: some disks do not tell one machine of the locks of another.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def mark() -> str:
    """Return eight signs that name the running system; where it has no name, those of this process alone."""
    try:
        return _BOOT.read_text().strip().replace("-", "")[-8:]
    except OSError:
        return uuid.uuid4().hex[:8]


def held(handle: int) -> bool:
    """Hold an open file or folder until it is closed; false when somebody took it for left before we did."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(handle).st_nlink > 0


def left(folder: Path, name: str) -> Iterator[Path]:
    """Yield what nobody holds any more, each held while it is looked at, so that it is removed by one process only."""
    try:
        known = [entry for entry in os.scandir(folder) if re.fullmatch(name, entry.name)]
    except OSError:
        return
    for entry in known:
        # Gone meanwhile, somebody else's, held by its user, or on a disk without locks: none of our business.
        with contextlib.suppress(OSError):
            kind = os.O_RDONLY if entry.is_dir(follow_symlinks=False) else os.O_RDWR
            handle = os.open(entry.path, kind | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.lstat(entry.path)):
                    yield Path(entry.path)
            finally:
                os.close(handle)
