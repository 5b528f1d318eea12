"""The workers of a Dask cluster, once each has been checked; a cluster that is gone is one line.

The machines of a cluster share the folder of the batch and the store, so that locks, ledger and budget hold for all.
"""

import contextlib
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.batch.plan import Planned, code_hash
from toolkit.errors import InputError, ToolkitError
from toolkit.files.digests import sha256_hex

Work = Callable[..., Any]
CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""Seconds that a cluster may have no worker: Dask needs some to replace one that died."""


@contextlib.contextmanager
def connected(address: str, folder: Path, work: Work) -> Iterator[tuple[Executor, Work, int]]:
    """Connect to a cluster whose workers can all take part; yield its pool, the work with checks, and its threads."""
    option = f"--cluster {address}"
    try:
        from distributed import Client
        from distributed.scheduler import KilledWorker, NoWorkerError
    except ImportError:
        hint = "pip install llm-security-toolkit[cluster]"
        raise InputError(f"--cluster needs the package distributed: {hint}") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"{option}: no Dask scheduler answers there ({type(error).__name__})") from None
    with client:
        threads, expected = client.nthreads(), facts()
        if not threads:
            raise InputError(f"{option}: the cluster has no workers; start some with `dask worker`")
        for worker, mismatch in client.run(mismatch_with, expected, str(folder)).items():
            if mismatch:
                raise InputError(f"{option}: worker {worker}: {mismatch}")
        # Else Dask waits for workers for ever.
        client.run_on_scheduler(
            lambda dask_scheduler: setattr(dask_scheduler, "no_workers_timeout", DESERTED_SECONDS)
        )
        try:
            yield client.get_executor(pure=False), partial(_checked, work, expected), sum(threads.values())
        except (CancelledError, KilledWorker, NoWorkerError) as error:
            reason = f"{type(error).__name__} {error}"[:300]
            message = "the same call goes on from here when it is up again"
            raise ToolkitError(f"{option}: the cluster is gone ({reason}); {message}") from None


def _checked(work: Work, expected: Mapping[str, str], plan: Planned, *arguments: Any) -> Any:
    """Do work on a worker, which may have joined after the batch began."""
    if mismatch := mismatch_with(expected, plan.folder):
        raise ToolkitError(f"worker {socket.gethostname()}: {mismatch}")
    return work(plan, *arguments)


def facts() -> dict[str, str]:
    """Return what all workers must share; the store as a hash, because its address may hold a password."""
    uri = os.environ.get("MONGODB_URI", "")
    return {
        "MONGODB_URI": sha256_hex(uri) if uri else "",
        "machine (without MONGODB_URI)": "" if uri else socket.gethostname(),
        "code of the toolkit": code_hash(),
        "Python": platform.python_version(),
    }


def mismatch_with(expected: Mapping[str, str], folder: str) -> str:
    """Return why this worker cannot take part; empty when it can."""
    if names := [name for name, fact in facts().items() if fact != expected[name]]:
        return f"has another {names[0]} than this process; all need the same"
    hidden = f"does not see the folder {folder}; give --out a folder that all machines share"
    return "" if Path(folder).exists() else hidden
