"""Runs a batch: a template over a grid of parameters, each notebook once, from the first check to the summary.

The machines of a cluster share the folder of the batch and the store, so that claims, ledger and budget hold for all.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.batch.plan import check_parameters, code_hash, grid_cells, plan_batch
from toolkit.batch.records import (
    AT_ONCE,
    COMPLETED,
    DIED,
    FAILED,
    LOOK_SECONDS,
    RUNNING,
    Order,
    ending,
    is_called_for,
)
from toolkit.batch.result import BatchResult, CellResult
from toolkit.errors import InputError, ToolkitError
from toolkit.files import write_atomically
from toolkit.runs.progress import Progress

if TYPE_CHECKING:
    from distributed import Client

RECORDS = "records"
END_SECONDS = 5.0
STOP_SECONDS = 25.0
"""Seconds that workers have to stop: longer than a notebook has, see `toolkit.batch.engine`."""
CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""Seconds that a cluster may have no worker: Dask needs some to replace one that died."""
GOES_ON = "the same call goes on from here when the cluster is up again"


def run_batch(
    template: Path | str,
    grid: Path | str | Mapping[str, Any],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    retry: bool = False,
    timeout: float | None = None,
    cell_timeout: float | None = None,
    cluster: str | None = None,
    progress: bool = True,
) -> BatchResult:
    """Run a template over a grid, each notebook once, and write the summary."""
    began = time.monotonic()
    template = Path(template)
    source = None if isinstance(grid, Mapping) else Path(grid)
    cells = grid_cells(source or grid)  # type: ignore[arg-type]
    folder = (source.parent if source else Path.cwd()).resolve()
    output = Path(out).resolve() if out else folder / "results" / "batches" / (source or template).stem
    for name, seconds in (("timeout", timeout), ("cell_timeout", cell_timeout)):
        if seconds is not None and not seconds > 0:
            raise InputError(f"{name}: {seconds} is no time; give seconds above 0, or leave it out")
    if workers is not None and workers < 1:
        raise InputError(f"workers: {workers} notebooks at once run none; give 1 or more")
    plan = plan_batch(template, cells, folder, str(source or "grid"))
    batch, version, records = uuid.uuid4().hex, _toolkit(), output / RECORDS
    orders = [
        Order(
            template=str(template.resolve()),
            output=str(output / f"{template.stem}_{cell.file_stem}.ipynb"),
            parameters=cell.parameters,
            folder=str(folder),
            identity=cell.identity,
            records=str(records),
            batch=batch,
            timeout=timeout,
            cell_timeout=cell_timeout,
            retry=retry,
            toolkit=version,
            copy=str(records / plan.copy_name),
            files=cell.files,
        )
        for cell in plan.cells
    ]
    try:
        orders = [replace(order, tried=order.read().attempts) for order in orders]
        if pending := [order for order in orders if not order.is_finished()]:
            local = contextlib.nullcontext((Processes(), len(os.sched_getaffinity(0))))
            with local if cluster is None else connected(cluster, output) as (pool, threads), _terminable():
                write_atomically(records / plan.copy_name, plan.content)
                _run(pending, pool, workers or threads, progress)
        rows, seconds = tuple(map(_cell, orders)), time.monotonic() - began
        result = BatchResult(template.stem, output, rows, seconds, plan.reads_store)
        result.write()
    except OSError as error:
        raise ToolkitError(
            f"{error.filename or output}: {error.strerror or error}; mend that, or give another folder by --out "
            "(in Python: out=...), and the same call goes on from here"
        ) from error
    return result


def run_templates(jobs: Sequence[tuple[Path, Path, Mapping[str, Any]]]) -> tuple[Path, ...]:
    """Execute templates with parameters, also those that were run before, and return the notebooks."""
    with tempfile.TemporaryDirectory() as records:
        orders = []
        for number, (template, output, parameters) in enumerate(jobs):
            target, arguments = output.resolve(), check_parameters(template, parameters)
            target.parent.mkdir(parents=True, exist_ok=True)
            folder, source = str(target.parent), str(template.resolve())
            orders.append(Order(source, str(target), arguments, folder, str(number), records))
        _run(orders, Processes(), 2, progress=False)
        for order in orders:
            record = order.read()
            if record.status != COMPLETED:
                problem = f"did not run to its end: {record.status}: {record.error}"
                notebook = (Path(records).parent / record.notebook).resolve()
                hint = f"; see {notebook}" if record.notebook else ""
                raise ToolkitError(f"{Path(order.template).name}: {problem}{hint}")
    return tuple(output for _, output, _ in jobs)


def _toolkit() -> str:
    """Return version and commit of the toolkit."""
    from toolkit.report.manifest import toolkit_commit
    from toolkit.words import VERSION

    return f"{VERSION} {toolkit_commit() or ''}".strip()


def _run(pending: Sequence[Order], pool: Processes | Cluster, at_once: int, progress: bool) -> None:
    """Have the workers of a pool run the pending orders, and wait for them."""
    for order in pending:
        with order.claimed() as free:  # else another batch runs it
            if free and not order.is_finished():
                order.write(order.waiting(order.tried))
    bar = Progress("notebooks", len(pending), shown=progress, money=False)
    try:
        with _orders_file(pending) as file:
            pool.start(file, at_once, min(at_once, len(pending)))
            try:
                remaining: Sequence[Order] = pending
                while (reason := pool.ended()) is None:
                    remaining = _step(remaining, bar)
                    time.sleep(LOOK_SECONDS + len(remaining) / 2000)  # to look at 2,000 takes a tenth second
                # Notebooks of a cluster that is gone may run on, and end by themselves.
                while (remaining := _step(remaining, bar)) and any(map(_is_under_way, remaining)):
                    time.sleep(LOOK_SECONDS)
                if reason and remaining:
                    raise ToolkitError(reason)
            except BaseException:
                _stop(file, pool)
                raise
    finally:
        bar.close()


def _step(pending: Sequence[Order], bar: Progress) -> list[Order]:
    """Count orders that have ended, and return the others."""
    waiting = []
    for order in pending:
        record = order.read()
        if order.is_finished(record):
            bar.fail("notebooks", int(record.status in FAILED))
            bar.step()
        else:
            waiting.append(order)
    return waiting


def _is_under_way(order: Order) -> bool:
    with order.claimed() as free:
        return not free


@contextlib.contextmanager
def _orders_file(orders: Sequence[Order]) -> Iterator[Path]:
    """Write the orders for workers to read, and lock the file as long as they are to be run."""
    records = Path(orders[0].records)
    for old in records.glob("batch-*.orders"):
        if old.stat().st_size and not is_called_for(old):  # of a batch that was killed
            _remove(old)
    file = records / f"batch-{uuid.uuid4().hex}.orders"
    with file.open("x", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        json.dump([asdict(order) for order in orders], stream)
        stream.flush()
        try:
            yield file
        finally:
            _remove(file)


def _remove(file: Path) -> None:
    for path in file.parent.glob(f"{file.stem}.*"):
        path.unlink(missing_ok=True)


def _stop(file: Path, pool: Processes | Cluster) -> None:
    """Stop all workers; a second Ctrl-C kills them."""
    stop = file.with_suffix(".stop")
    stop.touch()
    try:
        _wait(pool, STOP_SECONDS)
    except KeyboardInterrupt:
        stop.write_text(AT_ONCE)
        _wait(pool, END_SECONDS)


def _wait(pool: Processes | Cluster, seconds: float) -> None:
    until = time.monotonic() + seconds
    with contextlib.suppress(Exception):  # an error of the workers ends them too
        while pool.ended() is None and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does; only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _cell(order: Order) -> CellResult:
    record = order.read()
    ran = record.batch == order.batch and record.status in (COMPLETED, *FAILED)
    return CellResult(order.parameters, record.status, record.seconds, record.error, record.notebook, ran)


# --- workers: processes of this machine, or of the machines of a Dask cluster -----------------------------------------

# Each slot is a thread, here or on a Dask worker, that starts a worker process and another one when it died. A
# `ProcessPoolExecutor` would end all workers when one dies.


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
        written = (line.strip() for line in reversed(lines) if line.strip() and code > 0)
        last_line = next((f": {line[:200]}" for line in written), "")
        reason, mine = f"{DIED} ({ending(code)}{last_line})", f"{socket.gethostname()}:{process.pid}"
        queued = [Order(**order) for order in json.loads(Path(orders).read_text(encoding="utf-8"))]
        died = [order for order in queued if order.read().process == mine]
        if not died:
            message = f"a worker of the batch ended before it ran anything ({ending(code)}{last_line})"
            raise ToolkitError(message)
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
            broken = (future for future in self._futures if future.status != "finished")
            faults = [str(future.exception())[:300] for future in broken]
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
