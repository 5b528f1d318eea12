"""The workers of a Dask cluster: whether each can take part, and whether some are left.

The machines of a cluster share the folder of the batch and the store, so that claims, ledger and budget hold for all.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.batch.plan import code_hash
from toolkit.errors import InputError, ToolkitError
from toolkit.files import sha256_hex

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""Seconds that a cluster may have no worker: Dask needs some to replace one that died."""


class Cluster:
    """A connected cluster whose workers run cells."""

    def __init__(self, client: Client, expected: dict[str, str]) -> None:
        self._client = client
        self._expected = expected
        self._alone_since: float | None = None

    def submit(self, run: Callable[..., None], order: dict[str, Any], at_once: int) -> Future:
        """Have a worker run a cell."""
        return self._client.submit(_run_checked, run, order, at_once, self._expected, pure=False)

    def loss(self, futures: Iterable[Future]) -> str:
        """Return why the cluster runs nothing any more; empty while it does."""
        if self._client.status == "closed":
            return "the scheduler of the cluster is gone"
        for future in futures:
            if future.done() and future.status != "finished":
                return f"the workers of the cluster died ({str(future.exception())[:300]})"
        # Dask waits for workers for ever. A scheduler that does not answer is noticed by its futures.
        with contextlib.suppress(TimeoutError, OSError, RuntimeError, ValueError):
            self._alone_since = None if self._client.nthreads() else self._alone_since or time.monotonic()
        if self._alone_since is None or time.monotonic() - self._alone_since <= DESERTED_SECONDS:
            return ""
        return "the cluster has no workers any more"


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


def _run_checked(
    run: Callable[..., None], order: Mapping[str, Any], at_once: int, expected: dict[str, str]
) -> None:
    """Run a cell on a worker, which may have joined after the batch began."""
    if mismatch := differences(expected, order["records"]):
        raise ToolkitError(f"worker {socket.gethostname()}: {mismatch}")
    run(order, at_once)


def facts() -> dict[str, str]:
    """Return what all workers must share; the store as a hash, because its address may hold a password."""
    uri = os.environ.get("MONGODB_URI", "")
    return {
        "toolkit": code_hash(),
        "python": platform.python_version(),
        "store": sha256_hex(uri) if uri else "",
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
