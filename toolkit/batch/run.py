"""A batch: a template over a grid of parameters, each notebook once, from the first check to the summary."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.batch.grid import cells_of, read_grid
from toolkit.batch.planning import BatchPlan, plan_batch
from toolkit.batch.pool import ProcessSlot, run_orders
from toolkit.batch.records import FAILED, Record, claim, is_finished, read_record, write_record
from toolkit.batch.result import BatchResult, CellResult
from toolkit.batch.worker import Order, Reply
from toolkit.errors import InputError, ToolkitError
from toolkit.runs.progress import Progress

RECORDS = "records"


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
    source = Path(grid) if isinstance(grid, str | Path) else None
    cells = read_grid(source) if source else cells_of(grid)  # type: ignore[arg-type]
    folder = (source.parent if source else Path.cwd()).resolve()
    place = Path(out).resolve() if out else folder / "results" / "batches" / (source or template).stem
    for name, seconds in (("timeout", timeout), ("cell_timeout", cell_timeout)):
        if seconds is not None and not seconds > 0:
            raise InputError(f"{name}: {seconds} is no time; give seconds above 0, or leave it out")
    if workers is not None and workers < 1:
        raise InputError(f"workers: {workers} notebooks at once run none; give 1 or more")
    plan = plan_batch(template, cells, folder, str(source or "grid"))
    same = Order(
        template=str(template.resolve()),
        output="",
        parameters={},
        folder=str(folder),
        timeout=timeout,
        cell_timeout=cell_timeout,
        records=str(place / RECORDS),
        retry=retry,
        toolkit=_toolkit(),
    )
    try:
        orders, ran = _ordered(plan, same, place), set[str]()
        pending = [order for order in orders if not _finished(order)]
        if pending:
            with _slots(cluster, workers, place) as (open_slot, at_once), _terminable():
                copy = str(plan.keep_template(place / RECORDS))
                pending = [replace(order, copy=copy) for order in pending]
                for order in pending:
                    _queue(order)
                ran = _run(pending, open_slot, at_once, progress)
        found = tuple(_cell(order, read_record(place / RECORDS, order.identity), ran) for order in orders)
        result = BatchResult(
            template.stem, place, found, time.monotonic() - began, reads_store=plan.reads_store
        )
        result.write()
    except OSError as error:
        raise ToolkitError(
            f"{error.filename or place}: {error.strerror or error}; mend that, or give another folder by --out "
            "(in Python: out=...), and the same call goes on from here"
        ) from error
    return result


def _ordered(plan: BatchPlan, same: Order, place: Path) -> list[Order]:
    """Return the order of every notebook, with how often it was begun before."""
    orders = []
    for cell in plan.cells:
        known = read_record(place / RECORDS, cell.identity)
        output = place / f"{plan.template.stem}_{cell.identity[:12]}.ipynb"
        orders.append(
            replace(
                same,
                output=str(output),
                parameters=cell.parameters,
                identity=cell.identity,
                files=cell.files,
                tried=known.attempts if known else 0,
            )
        )
    return orders


def _toolkit() -> str:
    """Return version and commit of the toolkit in words."""
    from toolkit.report.manifest import toolkit_commit
    from toolkit.words import VERSION

    return f"{VERSION} {toolkit_commit() or ''}".strip()


def _finished(order: Order) -> bool:
    folder = Path(order.records)
    known = read_record(folder, order.identity)
    return is_finished(known, folder, retry=order.retry, tried=order.tried)


def _queue(order: Order) -> None:
    """Say in a record that a notebook waits, unless another batch has it under way or through."""
    folder = Path(order.records)
    with claim(folder, order.identity) as mine:
        if mine and not _finished(order):
            write_record(
                folder,
                Record(
                    order.identity,
                    template=order.template,
                    parameters=order.parameters,
                    attempts=order.tried,
                ),
            )


def _run(pending: list[Order], open_slot: Any, at_once: int, progress: bool) -> set[str]:
    """Run what is pending, and return the identities of what was run here."""
    ran: set[str] = set()
    counted = _Counted()
    bar = Progress("notebooks", len(pending), shown=progress, money=False)

    def ended(order: Order, reply: Reply) -> None:
        if reply.ran:
            ran.add(order.identity)
        counted.failed += reply.status in FAILED
        bar.step(counted)

    try:
        run_orders(pending, open_slot, at_once=at_once, ended=ended)
    finally:
        bar.close()
    return ran


class _Counted:
    """What the progress line reads."""

    asked = 0
    from_ledger = 0
    failed = 0
    retried = 0
    spent_aud = 0.0


@contextlib.contextmanager
def _slots(cluster: str | None, workers: int | None, place: Path) -> Iterator[tuple[Any, int]]:
    """Yield what opens a slot, and how many there are: on this machine, or on a cluster."""
    if cluster is not None:
        from toolkit.batch.cluster import cluster_slots

        with cluster_slots(cluster, workers, place) as slots:
            yield slots
        return
    at_once = workers or len(os.sched_getaffinity(0))
    yield partial(ProcessSlot, at_once), at_once


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does; only the main thread hears signals."""
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


def _cell(order: Order, record: Record | None, ran: set[str]) -> CellResult:
    record = record or Record(order.identity)
    return CellResult(
        order.parameters, record.status, record.seconds, record.error, record.notebook, order.identity in ran
    )
