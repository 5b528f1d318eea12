"""Runs a batch: a template over a grid of parameters, each notebook once, from the first check to the summary."""

import contextlib
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolkit.batch.cell import END_SECONDS, run_cell
from toolkit.batch.cluster import Cluster, connected
from toolkit.batch.plan import check_parameters, grid_cells, plan_batch
from toolkit.batch.records import AT_ONCE, COMPLETED, FAILED, LOOK_SECONDS, Order
from toolkit.batch.result import BatchResult, CellResult
from toolkit.errors import InputError, ToolkitError
from toolkit.files import write_atomically
from toolkit.report.manifest import claim_folder
from toolkit.runs.progress import Progress

STOP_SECONDS = 25.0
"""Seconds that the process of a cell has to stop: longer than a notebook has, see `toolkit.batch.engine`."""


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
    claim_folder(f"batch {template.stem}", output)
    batch, version, records = uuid.uuid4().hex, _toolkit(), output / "records"
    orders = [
        Order(
            template=str(template.resolve()),
            output=str(output / f"{template.stem}_{cell.file_stem}.ipynb"),
            folder=str(folder),
            records=str(records),
            batch=batch,
            timeout=timeout,
            cell_timeout=cell_timeout,
            toolkit=version,
            copy=str(records / plan.copy_name),
            **vars(cell),
        )
        for cell in plan.cells
    ]
    try:
        rerun = FAILED if retry else ()
        if pending := [order for order in orders if not order.is_finished() or order.read().status in rerun]:
            count = len(os.sched_getaffinity(0))
            local = contextlib.nullcontext((Pool(workers or count), count))
            with local if cluster is None else connected(cluster, output) as (pool, threads), _terminable():
                write_atomically(records / plan.copy_name, plan.content)
                _run(pending, pool, workers or threads, progress)
        rows = []
        for order in orders:
            record = order.read()
            ran = record.batch == batch and record.status in (COMPLETED, *FAILED)
            outcome = (record.status, record.seconds, record.error, record.notebook)
            rows.append(CellResult(order.parameters, *outcome, ran))
        result = BatchResult(template.stem, output, tuple(rows), time.monotonic() - began, plan.reads_store)
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
            orders.append(Order(source, str(target), arguments, folder, str(number), records, batch="jobs"))
        _run(orders, Pool(2), 2, progress=False)
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


class Pool(ThreadPoolExecutor):
    """Threads of this process that each wait for the process of a cell."""

    def loss(self, futures: Iterable[Future[None]]) -> str:
        """Raise the error of a cell that could not be run; a pool is never lost."""
        for future in futures:
            if future.done():
                future.result()
        return ""


def _run(pending: Sequence[Order], pool: Pool | Cluster, at_once: int, progress: bool) -> None:
    """Have a pool run the pending orders, some at once, and wait for them."""
    for order in pending:
        with order.claimed() as free:  # else another batch runs it
            if free and (record := order.read()).status != COMPLETED:
                order.write(order.waiting(record.attempts))
    bar, stop = Progress("notebooks", len(pending), shown=progress, money=False), pending[0].stop
    futures: dict[str, Any] = {}
    try:
        remaining, loss = list(pending), ""
        while (remaining := _step(remaining, bar)) and not loss:
            busy = [order for order in remaining if order.identity not in futures and order.is_running()]
            # A process whose Dask worker died runs on, and counts.
            running = len(futures) + sum(order.read().batch == order.batch for order in busy)
            waiting = [order for order in remaining if order not in busy and order.identity not in futures]
            for order in waiting[: max(0, at_once - running)]:
                futures[order.identity] = pool.submit(run_cell, asdict(order), at_once)
            time.sleep(LOOK_SECONDS + len(remaining) / 2000)  # to look at 2,000 takes a tenth second
            loss = pool.loss(futures.values())
            futures = {identity: future for identity, future in futures.items() if not future.done()}
        # Notebooks of a cluster that is gone may run on, and end by themselves.
        while remaining and any(order.is_running() for order in remaining):
            time.sleep(LOOK_SECONDS)
            remaining = _step(remaining, bar)
        if remaining:
            raise ToolkitError(f"{loss}; the same call goes on from here when the cluster is up again")
    except BaseException:
        stop.touch()
        try:
            _wait(futures.values(), STOP_SECONDS)
        except KeyboardInterrupt:  # a second Ctrl-C kills them
            stop.write_text(AT_ONCE)
            _wait(futures.values(), END_SECONDS)
        raise
    finally:
        stop.unlink(missing_ok=True)
        bar.close()


def _step(orders: Sequence[Order], bar: Progress) -> list[Order]:
    """Count orders that have ended, and return the others."""
    remaining = []
    for order in orders:
        record = order.read()
        if order.is_finished(record):
            bar.fail("notebooks", int(record.status in FAILED))
            bar.step()
        else:
            remaining.append(order)
    return remaining


def _wait(futures: Iterable[Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not all(future.done() for future in futures) and time.monotonic() < until:
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
