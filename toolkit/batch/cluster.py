"""The notebooks of a batch on the workers of a Dask cluster, each in a process of its own there.

The workers share the folder of the batch and the store: ``MONGODB_URI`` for all of them, or, where all are on this
machine, the embedded server that each finds by its lock file. So claims, the ledger and the budget hold for all of
them as they do for processes of one machine. A Dask worker that dies leaves its notebook either to the process that
runs it, which brings it to its end, or to another worker, which waits for the claim first: never to both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.batch.identity import code_hash
from toolkit.batch.pool import ProcessSlot, settle_failed
from toolkit.batch.records import read_record
from toolkit.batch.worker import Order, Reply
from toolkit.errors import InputError, ToolkitError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""How long a cluster may be without any worker: a nanny needs some seconds to replace one that died."""
CHECK_SECONDS = 5.0
"""How often we look whether anybody is left who could answer."""
SCHEDULER_GONE = "the scheduler of the cluster is gone"
WORKERS_GONE = "the cluster has no workers any more"
LOOK_SECONDS = 0.5
"""How often a worker looks whether it is to stop; a file in the shared folder, for Dask cannot end what runs."""


class ClusterSlot:
    """One place on the cluster; Dask decides on which worker."""

    def __init__(self, client: Client, at_once: int, stop_file: Path, facts: dict[str, str]) -> None:
        self._client = client
        self._arguments = (at_once, str(stop_file), facts)
        self._stop_file = stop_file

    def run(self, order: Order) -> Reply:
        """Run one notebook on whatever worker is free."""
        from distributed import CancelledError, KilledWorker

        if self._client.status == "closed":
            return self._settle(order, SCHEDULER_GONE)
        key = f"{Path(order.output).stem}-{uuid.uuid4().hex[:8]}"
        future = self._client.submit(run_on_worker, asdict(order), *self._arguments, key=key, pure=False)
        alone_since: float | None = None
        while True:
            done = future.done()  # our own time may run out in the very moment in which it ends
            try:
                return Reply(**future.result(timeout=CHECK_SECONDS))
            except KilledWorker as error:
                return settle_failed(order, f"the workers that ran it died ({error})"[:300])
            except CancelledError:
                return self._settle(order, SCHEDULER_GONE)
            except (TimeoutError, OSError):
                if done:
                    raise  # what the worker itself met
            # Dask waits for workers for ever; what none of them answers may be done all the same.
            alone_since = (alone_since or time.monotonic()) if self._deserted() else None
            if alone_since is not None and time.monotonic() - alone_since > DESERTED_SECONDS:
                future.cancel()
                return self._settle(order, WORKERS_GONE)

    def _deserted(self) -> bool:
        """Whether the cluster has no worker; a scheduler that does not answer is seen by what is awaited of it."""
        try:
            return not self._client.nthreads()
        except (TimeoutError, OSError, RuntimeError, ValueError):
            return False

    def _settle(self, order: Order, why: str) -> Reply:
        """Wait for the end of a notebook that nobody can tell us of, and read it in its record."""
        while not self._stop_file.exists():
            known = read_record(Path(order.records), order.identity)
            if known is None or known.status == "queued":
                raise ToolkitError(f"{why}; the same call goes on from here when the cluster is up again")
            if (reply := settle_failed(order, why)).status != "taken":
                return reply
            time.sleep(LOOK_SECONDS)
        return Reply("stopped")

    def stop(self) -> None:
        """Have the workers stop their notebooks."""
        self._stop_file.touch()

    def close(self) -> None:
        """Give up the slot; nothing is open."""


@contextlib.contextmanager
def cluster_slots(address: str, workers: int | None, place: Path) -> Iterator[tuple[Any, int]]:
    """Connect to a cluster and yield what opens a slot on it, and how many slots there are."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--cluster needs the package distributed: pip install llm-security-toolkit[cluster]"
        ) from None
    place.mkdir(parents=True, exist_ok=True)
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"--cluster {address}: no Dask scheduler answers there ({type(error).__name__})"
        ) from None
    with client:
        threads = client.nthreads()
        if not threads:
            raise InputError(
                f"--cluster {address}: the cluster has no workers; start some with `dask worker`"
            )
        common = facts()
        for worker, said in client.run(differences, common, str(place)).items():
            if said:
                raise InputError(f"--cluster {address}: worker {worker}: {said}")
        at_once = workers or sum(threads.values())
        stop_file = place / f".stop-{uuid.uuid4().hex[:12]}"
        try:
            yield partial(ClusterSlot, client, at_once, stop_file, common), at_once
        finally:
            stop_file.unlink(missing_ok=True)


def facts() -> dict[str, str]:
    """Return what all that take part must have in common; the store by a hash, for its address may hold a password."""
    uri = os.environ.get("MONGODB_URI", "")
    return {
        "toolkit": code_hash(),
        "python": platform.python_version(),
        "store": hashlib.sha256(uri.encode()).hexdigest() if uri else "",
        "host": "" if uri else socket.gethostname(),
    }


def differences(wanted: dict[str, str], place: str) -> str:
    """Return in one line why this worker cannot take part; empty when it can."""
    mine = facts()
    if mine["host"] != wanted["host"] and not (mine["store"] or wanted["store"]):
        return "is another machine, which cannot reach the embedded store; set MONGODB_URI here and there"
    if mine["store"] != wanted["store"]:
        return "has another MONGODB_URI than this process; set the same for all"
    if mine["toolkit"] != wanted["toolkit"]:
        return "has other code of the toolkit; install the same version"
    if mine["python"] != wanted["python"]:
        return f"has Python {mine['python']}, this process {wanted['python']}"
    if not Path(place).is_dir():
        return f"does not see the folder {place}; give --out a folder that all machines share"
    return ""


def run_on_worker(
    order: dict[str, Any], at_once: int, stop_file: str, wanted: dict[str, str]
) -> dict[str, Any]:
    """Run one notebook in a process of its own; called on the worker, in one of its threads."""
    found = Order(**{**order, "more": False})  # the process ends with its notebook
    if said := differences(wanted, str(Path(found.output).parent)):  # a worker that came later
        return asdict(settle_failed(found, f"a worker of the cluster {said}"))
    slot, ended = ProcessSlot(at_once), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            if Path(stop_file).exists():
                slot.stop()
                return

    threading.Thread(target=look, name="batch-stop", daemon=True).start()
    try:
        return asdict(slot.run(found))
    finally:
        ended.set()
        slot.close()
