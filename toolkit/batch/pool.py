"""The workers of a batch: processes of this machine, or of the machines of a Dask cluster.

Each slot is a thread, here or on a Dask worker, that starts a worker process and another one when it died. A
`ProcessPoolExecutor` would end all workers when one dies. The machines of a cluster share the folder of the batch and
the store, so that claims, ledger and budget hold for all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.batch.plan import code_hash
from toolkit.batch.records import DIED, RUNNING, Order, ending
from toolkit.errors import InputError, ToolkitError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""Seconds that a cluster may have no worker: Dask needs some to replace one that died."""
GOES_ON = "the same call goes on from here when the cluster is up again"


def serve(slot: int, orders: str, at_once: int, expected: dict[str, str] | None = None) -> None:
    """Keep a worker process running until all orders are run; a process that dies fails its own notebook only."""
    if expected and (mismatch := differences(expected, orders)):
        raise ToolkitError(f"worker {socket.gethostname()}: {mismatch}")
    from toolkit.runs.gateway import SHARE_ENV

    # Plain lines of progress, and a share of the limits for each notebook. A session of its own: we pass Ctrl-C on.
    environment = {**os.environ, "TOOLKIT_BATCH": "1", SHARE_ENV: str(at_once)}
    command = [sys.executable, "-c", "from toolkit.batch.worker import main; main()", orders, str(slot)]
    while True:
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
            code = process.wait()
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").splitlines()
        if code == 0 or Path(orders).with_suffix(".stop").exists():
            return
        last_line = next(
            (f": {line.strip()[:200]}" for line in reversed(lines) if line.strip() and code > 0), ""
        )
        reason, mine = f"{DIED} ({ending(code)}{last_line})", f"{socket.gethostname()}:{process.pid}"
        queued = [Order(**order) for order in json.loads(Path(orders).read_text(encoding="utf-8"))]
        died = [order for order in queued if order.read().process == mine]
        if not died:
            raise ToolkitError(
                f"a worker of the batch ended before it ran anything ({ending(code)}{last_line})"
            )
        for order in died:
            with order.claimed() as free:
                if free and (record := order.read()).process == mine and record.status == RUNNING:
                    order.settle("failed", reason, record)


class Processes:
    """Worker processes of this machine."""

    def __init__(self) -> None:
        self._futures: list[Future[None]] = []

    def start(self, orders: Path, at_once: int, count: int) -> None:
        """Start a number of workers."""
        threads = ThreadPoolExecutor(count, "batch")
        self._futures = [threads.submit(serve, slot, str(orders), at_once) for slot in range(count)]
        threads.shutdown(wait=False)

    def ended(self) -> str | None:
        """Return nothing while a worker runs, then the error that ended them, empty where all is run."""
        for future in self._futures:
            if future.done():
                future.result()
        return "" if all(future.done() for future in self._futures) else None


class Cluster:
    """The workers of a Dask cluster."""

    def __init__(self, client: Client, expected: dict[str, str]) -> None:
        self._client = client
        self._expected = expected
        self._futures: list[Any] = []
        self._alone_since: float | None = None

    def start(self, orders: Path, at_once: int, count: int) -> None:
        """Start a number of workers."""
        keys = [f"{orders.stem}-{slot}" for slot in range(count)]
        task = partial(serve, orders=str(orders), at_once=at_once, expected=self._expected)
        self._futures = self._client.map(task, range(count), key=keys, pure=False)

    def ended(self) -> str | None:
        """Return nothing while a worker runs, then the error that ended them, empty where all is run."""
        if self._client.status == "closed":
            return f"the scheduler of the cluster is gone; {GOES_ON}"
        if all(future.done() for future in self._futures):
            faults = [
                str(future.exception())[:300] for future in self._futures if future.status != "finished"
            ]
            return f"the workers of the cluster died ({faults[0]}); {GOES_ON}" if faults else ""
        # Dask waits for workers for ever. A scheduler that does not answer is noticed by its futures.
        with contextlib.suppress(TimeoutError, OSError, RuntimeError, ValueError):
            self._alone_since = None if self._client.nthreads() else self._alone_since or time.monotonic()
        if self._alone_since is None or time.monotonic() - self._alone_since <= DESERTED_SECONDS:
            return None
        self._client.cancel(self._futures)
        return f"the cluster has no workers any more; {GOES_ON}"


@contextlib.contextmanager
def connected(address: str, folder: Path) -> Iterator[tuple[Cluster, int]]:
    """Connect to a cluster whose workers can all take part; yield it and its number of threads."""
    option = f"--cluster {address}"
    try:
        from distributed import Client
    except ImportError:
        hint = "pip install llm-security-toolkit[cluster]"
        raise InputError(f"--cluster needs the package distributed: {hint}") from None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"{option}: no Dask scheduler answers there ({type(error).__name__})") from None
    with client:
        threads, expected = client.nthreads(), facts()
        if not threads:
            raise InputError(f"{option}: the cluster has no workers; start some with `dask worker`")
        for worker, mismatch in client.run(differences, expected, str(folder)).items():
            if mismatch:
                raise InputError(f"{option}: worker {worker}: {mismatch}")
        yield Cluster(client, expected), sum(threads.values())


def facts() -> dict[str, str]:
    """Return what all workers must share; the store as a hash, because its address may hold a password."""
    uri = os.environ.get("MONGODB_URI", "")
    return {
        "toolkit": code_hash(),
        "python": platform.python_version(),
        "store": hashlib.sha256(uri.encode()).hexdigest() if uri else "",
        "host": "" if uri else socket.gethostname(),
    }


def differences(expected: dict[str, str], folder: str) -> str:
    """Return why this worker cannot take part; empty when it can."""
    mine = facts()
    if mine["host"] != expected["host"] and not (mine["store"] or expected["store"]):
        return "is another machine, which cannot reach the embedded store; set MONGODB_URI here and there"
    if mine["store"] != expected["store"]:
        return "has another MONGODB_URI than this process; set the same for all"
    if mine["toolkit"] != expected["toolkit"]:
        return "has other code of the toolkit; install the same version"
    if mine["python"] != expected["python"]:
        return f"has Python {mine['python']}, this process {expected['python']}"
    if not Path(folder).exists():
        return f"does not see the folder {folder}; give --out a folder that all machines share"
    return ""
