"""Runs a batch: a template over a grid of parameters, each notebook once, from the first check to the summary."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from toolkit.batch.plan import check_parameters, grid_cells, plan_batch
from toolkit.batch.pool import Cluster, Processes, connected
from toolkit.batch.records import AT_ONCE, COMPLETED, FAILED, LOOK_SECONDS, Order, is_called_for
from toolkit.batch.result import BatchResult, CellResult
from toolkit.errors import InputError, ToolkitError
from toolkit.files import write_atomically
from toolkit.runs.progress import Progress

RECORDS = "records"
END_SECONDS = 5.0
STOP_SECONDS = 25.0
"""Seconds that workers have to stop: longer than a notebook has, see `toolkit.batch.engine`."""


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
            output=str(output / f"{template.stem}_{cell.identity[:12]}.ipynb"),
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
        result = BatchResult(
            template.stem, output, tuple(map(_cell, orders)), time.monotonic() - began, plan.reads_store
        )
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
            orders.append(
                Order(
                    str(template.resolve()), str(target), arguments, str(target.parent), str(number), records
                )
            )
        _run(orders, Processes(), 2, progress=False)
        for order in orders:
            record = order.read()
            if record.status != COMPLETED:
                problem = f"did not run to its end: {record.status}: {record.error}"
                hint = (
                    f"; see {(Path(records).parent / record.notebook).resolve()}" if record.notebook else ""
                )
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
    counts = SimpleNamespace(failed=0, retried=0, spent_aud=0.0, doubted=0)
    try:
        with _orders_file(pending) as file:
            pool.start(file, at_once, min(at_once, len(pending)))
            try:
                remaining: Sequence[Order] = pending
                while (reason := pool.ended()) is None:
                    remaining = _step(remaining, bar, counts)
                    time.sleep(LOOK_SECONDS + len(remaining) / 2000)  # to look at 2,000 takes a tenth second
                # Notebooks of a cluster that is gone may run on, and end by themselves.
                while (remaining := _step(remaining, bar, counts)) and any(map(_is_under_way, remaining)):
                    time.sleep(LOOK_SECONDS)
                if reason and remaining:
                    raise ToolkitError(reason)
            except BaseException:
                _stop(file, pool)
                raise
    finally:
        bar.close()


def _step(pending: Sequence[Order], bar: Progress, counts: SimpleNamespace) -> list[Order]:
    """Count orders that have ended, and return the others."""
    waiting = []
    for order in pending:
        record = order.read()
        if order.is_finished(record):
            counts.failed += record.status in FAILED
            bar.step(counts)
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
