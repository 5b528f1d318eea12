"""Who is at work: every process that claims calls is an owner, and an owner that died leaves its claims to others.

Whether a process of this host lives is seen by its pid and when it began, whatever its lease and the clock say. A host
is one name, one boot and one pid namespace: a container that shares the name, or this machine before it was started
anew, is another one, of which only the lease tells.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError

from toolkit.store.connection import Store

LEASE_SECONDS = 120.0
HEARTBEAT_SECONDS = 30.0
_ALIVE = "alive"


class Owner:
    """One process at work on one study; the lease of all its claims is one document, renewed by a heartbeat."""

    def __init__(self, store: Store, study: str) -> None:
        self.name = f"{this_host()}:{os.getpid()}:{_birth(os.getpid())}:{uuid.uuid4().hex[:8]}"
        self._owners = store.database["owners"]
        self._study = study
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Make this owner known and keep it so; a second call, of whichever thread, does nothing."""
        with self._starting:
            if self._beat is None:
                lease = time.time() + LEASE_SECONDS
                self._owners.insert_one({"_id": self.name, "study": self._study, "lease_until": lease})
                self._beat = threading.Thread(target=self._renew, name="owner-heartbeat", daemon=True)
                self._beat.start()

    def close(self) -> None:
        """End the heartbeat; claims that are still open become free at once."""
        self._stop.set()
        if self._beat is not None:
            self._beat.join()
            self._owners.delete_one({"_id": self.name})

    def _renew(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            try:
                self._owners.update_one(
                    {"_id": self.name}, {"$set": {"lease_until": time.time() + LEASE_SECONDS}}
                )
            except PyMongoError:
                continue  # a store that is away for a moment; the lease outlasts several beats


def living(store: Store, study: str) -> set[str]:
    """Return the owners that are at work on a study."""
    return {known["_id"] for known in store.database["owners"].find({"study": study}) if _is_alive(known)}


def is_living(store: Store, owner: str) -> bool:
    """Return whether an owner is at work; on this host that is seen, elsewhere its lease says it."""
    known = store.database["owners"].find_one({"_id": owner})
    return known is not None and _is_alive(known)


def _is_alive(known: dict[str, Any]) -> bool:
    host, pid, birth, _ = known["_id"].rsplit(":", 3)
    if host in (this_host(), socket.gethostname()) and (seen := _birth(int(pid))) != _ALIVE:
        return seen == birth
    return bool(known["lease_until"] >= time.time())


@cache
def this_host() -> str:
    """Return what the pids of this process are unique in: host, boot and pid namespace, as far as the system tells."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def _birth(pid: int) -> str:
    """Return when a process of this machine started, or a word when it is gone.

    A pid alone is not enough: pids are used again.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        # A killed process stays listed until its parent asks for it, in a container without an init for ever.
        return "gone" if state in "ZX" else fields[18]
    except (OSError, IndexError):
        pass
    try:  # no /proc on this system: a living pid is all that can be seen
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return _ALIVE
    return _ALIVE
