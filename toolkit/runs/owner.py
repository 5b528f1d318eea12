"""One process at a time spends the money of a study: a second one is refused, and it takes over where that is dead.

Whether a process of this host lives is seen by its pid and when it began, whatever its lease and the clock say. A host
is one name, one boot and one pid namespace: a container that shares the name, or this machine before it was started
anew, is another one, of which only the lease tells.
"""

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pymongo import DeleteMany
from pymongo.errors import PyMongoError

from toolkit.errors import InputError, StoreError
from toolkit.store.connection import Store
from toolkit.store.documents import Owner as Lock
from toolkit.store.writer import Duplicate

LEASE_SECONDS = 120.0
HEARTBEAT_SECONDS = 30.0
_ALIVE = "alive"
_ENDED: set[str] = set()
"""Owners of this process that have ended: their store may have been away, and they are still listed there."""


class Owner:
    """The process that runs a study; the lease of the study and of all its claims is one document."""

    def __init__(self, store: Store, study: str) -> None:
        self.store, self.study = store, study
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.is_replaced = False  # another host took the study over, because no lease was renewed in time
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None

    def start(self) -> None:
        """Take the study and keep it; raises ``InputError`` where a living process has it."""
        since = self.store.writer.retried(lambda _: self.store.server_time())
        host, boot = this_host()
        lock = {
            "name": self.name,
            "host": host,
            "boot": boot,
            "pid": os.getpid(),
            "birth": _birth(os.getpid()),
            "since": since,
            "lease_until": since + LEASE_SECONDS,
        }
        while True:
            holder = self.store.writer.retried(lambda _: self.store.get(Lock, {"_id": self.study}))
            if holder is None:
                with contextlib.suppress(Duplicate):
                    self.store.insert(Lock, {"_id": self.study, **lock})
                    break
            elif is_alive(self.store, holder):
                began = datetime.fromtimestamp(holder["since"], UTC)
                raise InputError(
                    f"study {self.study}: process {holder['pid']} on {holder['host']} runs it since "
                    f"{began:%Y-%m-%d %H:%M} UTC; wait for its end, or stop it, and run again"
                )
            # The name is part of the condition, so of two that find the same dead owner one wins.
            elif self.store.update(Lock, {"_id": self.study, "name": holder["name"]}, {"$set": lock}):
                break
        self._beat = threading.Thread(target=self._renew, name="owner-heartbeat", daemon=True)
        self._beat.start()

    def close(self) -> None:
        """Give the study back; claims that are still open become free at once."""
        self._stop.set()
        if self._beat is not None:
            self._beat.join()
            _ENDED.add(self.name)
            with contextlib.suppress(StoreError):
                removal = DeleteMany({"_id": self.study, "name": self.name})
                self.store.writer.submit("owners", removal).result()

    def _renew(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            # A store may be away for a moment; the lease outlasts several beats.
            with contextlib.suppress(PyMongoError):
                lease = {"lease_until": self.store.server_time() + LEASE_SECONDS}
                key = {"_id": self.study, "name": self.name}
                self.is_replaced = not self.store.update(Lock, key, {"$set": lease})


def living_owner(store: Store, study: str) -> str | None:
    """Return the owner that is at work on a study; ``None`` where nobody is."""
    lock = store.get(Lock, {"_id": study})
    return lock["name"] if lock and is_alive(store, lock) else None


def is_alive(store: Store, lock: Mapping[str, Any]) -> bool:
    """Return whether the owner of a lock is at work; on this host that is seen, elsewhere its lease says it."""
    if lock["name"] in _ENDED:
        return False
    if (lock["host"], lock["boot"]) == this_host() and (birth := _birth(lock["pid"])) != _ALIVE:
        return bool(birth == lock["birth"])
    return bool(lock["lease_until"] >= store.writer.retried(lambda _: store.server_time()))


@cache
def this_host() -> tuple[str, str]:
    """Return what the pids of this process are unique in: host, boot and pid namespace, as far as the system tells."""
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        boot += f"/{Path('/proc/self/ns/pid').stat().st_ino}"
    return socket.gethostname(), boot


def _birth(pid: int) -> str:
    """Return when a process of this machine started, or a word when it is gone."""
    # A pid alone is not enough: pids are used again.
    with contextlib.suppress(OSError, IndexError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        # A killed process stays listed until its parent asks for it, in a container without an init for ever.
        return "gone" if state in "ZX" else fields[18]
    try:  # no /proc on this system: a living pid is all that can be seen
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        pass
    return _ALIVE
