"""Runs a batch: a template over a grid of parameters, each notebook once, from the first check to the summary."""

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from toolkit.batch.cell import (
    COMPLETED,
    FAILED,
    QUEUED,
    RUNNING,
    CellResult,
    locked,
    read_record,
    run_in_process,
    write_record,
)
from toolkit.batch.cluster import connected
from toolkit.batch.grid import grid_cells
from toolkit.batch.plan import Planned, plan_batch
from toolkit.batch.result import BatchResult
from toolkit.batch.template import check_parameters
from toolkit.errors import InputError, ToolkitError
from toolkit.files import write_atomically
from toolkit.report.manifest import claim_folder
from toolkit.runs.progress import Progress

STOP_SECONDS = 15.0
"""Seconds that notebooks have to stop: the replies to calls under way are still received and saved."""


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
    tables = grid if isinstance(grid, Mapping) else Path(grid)
    folder, name, location = Path.cwd(), template.stem, "grid"
    if isinstance(tables, Path):
        folder, name, location = tables.parent.resolve(), tables.stem, str(tables)
    cells = grid_cells(tables)
    output = Path(out).resolve() if out else folder / "results" / "batches" / name
    limits = {"timeout": timeout, "cell_timeout": cell_timeout}
    for option, number in {"workers": workers, **limits}.items():
        if number is not None and not number > 0:
            raise InputError(f"{option}: {number} would run nothing; give a number above 0, or leave it out")
    batch = plan_batch(template, cells, folder, location, output, **limits)
    claim_folder(f"batch {template.stem}", output)
    settled = (COMPLETED,) if retry else (COMPLETED, *FAILED)
    try:
        lock = output / "records" / "batch.lock"
        with locked(lock, f"{output}: waiting for another call that runs a batch there"):
            before = list(map(read_record, batch.cells))
            states = zip(batch.cells, before, strict=True)
            if pending := [plan for plan, cell in states if cell.status not in settled]:
                write_atomically(batch.copy, batch.content.encode())
                _run_all(pending, workers, cluster, output, progress)
            after = zip(map(read_record, batch.cells), before, strict=True)
            results = tuple(replace(now, ran=now.attempts > then.attempts) for now, then in after)
            seconds = time.monotonic() - began
            result = BatchResult(template.stem, output, results, seconds, batch.reads_store)
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
        plans = []
        for number, (template, output, arguments) in enumerate(jobs):
            parameters, target = check_parameters(template, arguments), output.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            files = str(template.resolve()), str(target.parent), str(target), f"{records}/{number}.json"
            plans.append(Planned(parameters, *files))
        _run_all(plans, 2)
        for plan in plans:
            cell = read_record(plan)
            if cell.status != COMPLETED:
                problem = f"did not run to its end: {cell.status}: {cell.error}"
                hint = f"; see {plan.folder}/{cell.notebook}" if cell.notebook else ""
                raise ToolkitError(f"{Path(plan.template).name}: {problem}{hint}")
    return tuple(output for _, output, _ in jobs)


def _run_all(
    plans: Sequence[Planned],
    workers: int | None,
    cluster: str | None = None,
    folder: Path = Path(),
    progress: bool = False,
) -> None:
    """Run planned cells, some at once, in processes of this machine or on a cluster."""
    submit: Callable[..., Future[CellResult]]
    with contextlib.ExitStack() as stack:
        if cluster:
            submit, threads = stack.enter_context(connected(cluster, folder))
            at_once = workers or threads
        else:
            at_once = workers or len(os.sched_getaffinity(0))
            pool: Any = stack.enter_context(ThreadPoolExecutor(at_once))
            submit = partial(pool.submit, run_in_process)
        for plan in plans:
            cell = read_record(plan)
            if cell.status != RUNNING:  # its process, of a batch that was killed, may still write the record
                write_record(plan, replace(cell, status=QUEUED, error=""))
        if threading.current_thread() is threading.main_thread():  # SIGTERM stops as Ctrl-C does
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            stack.callback(signal.signal, signal.SIGTERM, before)
        bar = Progress("notebooks", len(plans), shown=progress, money=False)
        stack.callback(bar.close)
        processes: list[Any] = []
        waiting, futures = iter(plans), set[Future[CellResult]]()
        try:
            while futures := futures | {
                submit(plan, at_once, processes) for plan in islice(waiting, at_once - len(futures))
            }:
                done, futures = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    bar.fail("notebooks", int(future.result().status in FAILED))
                    bar.step()
        except BaseException:
            _stop(processes, futures)
            raise


def _stop(processes: Sequence[Any], futures: Collection[Future[CellResult]]) -> None:
    """Interrupt notebooks as Ctrl-C does, and kill those that do not stop, at once after a second Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        for process in processes:
            process.send_signal(number)
        for future in futures:  # on a cluster: what runs there goes on to its end
            future.cancel()
        with contextlib.suppress(KeyboardInterrupt):
            wait(futures, STOP_SECONDS)
