"""Many notebooks at a time and no more: long-lived worker processes, each fed by a thread that only waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Protocol

from toolkit.batch.records import Record, claim, is_finished, read_record, write_record
from toolkit.batch.worker import Order, Reply, kept_as_failed
from toolkit.runs.endpoints import SHARE_ENV

STOP_SECONDS = 25.0
"""How long workers may take to stop: longer than a notebook may, see `toolkit.batch.engine`."""
END_SECONDS = 5.0
LOOK_AGAIN_SECONDS, LOOK_AGAIN_AT_MOST = 0.3, 5.0


class Slot(Protocol):
    """Where one notebook runs at a time."""

    def run(self, order: Order) -> Reply:
        """Run one notebook and wait for its end."""

    def stop(self) -> None:
        """Have the notebook under way stop; called from another thread."""

    def close(self) -> None:
        """Give up the slot."""


class ProcessSlot:
    """A worker process of this machine; one that died is replaced at the next order."""

    def __init__(self, at_once: int) -> None:
        self._environment = kernel_environment(os.environ, at_once)
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self._stopped = False

    def run(self, order: Order) -> Reply:
        """Have the worker fulfil an order; a worker that dies over it fails this order only."""
        worker = self._worker()
        try:
            print(json.dumps(asdict(order)), file=worker.stdin, flush=True)
            if self._stopped:
                self.stop()  # it was stopped while this worker started
            line = worker.stdout.readline() if worker.stdout else ""
        except BrokenPipeError:
            line = ""
        if line:
            return Reply(**json.loads(line))
        code = worker.wait()
        said = _last_line(self._log)
        self.close()
        if self._stopped:
            return Reply("stopped", ran=True)
        how = f"signal {-code}, {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        error = f"the process that ran it died ({how}{f': {said}' if said and code > 0 else ''})"
        return settle_failed(order, error)

    def stop(self) -> None:
        """Ask the worker to stop as Ctrl-C would; see `toolkit.batch.worker`."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End the worker, which has nothing to do any more."""
        worker, self._process = self._process, None
        if worker is not None and worker.stdin is not None and worker.stdout is not None:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
            try:
                worker.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            worker.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _worker(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the worker
            self._process = subprocess.Popen(
                [sys.executable, "-m", "toolkit.batch.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env=self._environment,
                start_new_session=True,  # Ctrl-C in the terminal is ours to pass on
            )
        return self._process


def kernel_environment(environment: Mapping[str, str], at_once: int) -> dict[str, str]:
    """Return the surroundings of kernels of a batch: plain progress lines, and the share of the limits of each."""
    return {**environment, "TOOLKIT_BATCH": "1", SHARE_ENV: str(at_once)}


def settle_failed(order: Order, error: str) -> Reply:
    """Record that a notebook failed without a word of its own, unless another process has it or is through with it."""
    if not order.records:
        return Reply("failed", kept_as_failed(order), error, ran=True)
    folder, ended = Path(order.records), time.time()
    with claim(folder, order.identity) as mine:
        if not mine:
            return Reply("taken")
        known = read_record(folder, order.identity) or Record(order.identity)
        if is_finished(known, folder, retry=order.retry, tried=order.tried):
            return Reply(known.status, str(folder.parent / known.notebook), known.error)
        seconds = max(0.0, ended - known.began) if known.began else None
        notebook = kept_as_failed(order)
        write_record(
            folder,
            replace(
                known,
                status="failed",
                notebook=os.path.relpath(notebook, folder.parent) if notebook else "",
                error=error,
                ended=ended,
                seconds=seconds,
            ),
        )
    return Reply("failed", notebook, error, ran=True)


def run_orders(
    orders: Sequence[Order],
    open_slot: Callable[[], Slot],
    *,
    at_once: int,
    ended: Callable[[Order, Reply], None],
) -> None:
    """Run orders in at most ``at_once`` slots, begun in the given order."""
    waiting = deque(orders)
    replies: queue.Queue[tuple[Order, Reply] | BaseException] = queue.Queue()
    stopping = threading.Event()
    slots: list[Slot] = []
    through = [threading.Event() for _ in range(min(at_once, len(orders)))]

    def serve(mine: threading.Event) -> None:
        try:
            slot = open_slot()
            slots.append(slot)
            try:
                _serve(slot, waiting, replies, stopping)
            finally:
                slot.close()
        except BaseException as error:  # carried over to the caller's thread, whatever it is
            replies.put(error)
        finally:
            mine.set()

    for number, mine in enumerate(through):
        threading.Thread(target=serve, args=(mine,), name=f"batch-{number}", daemon=True).start()
    try:
        for _ in orders:
            found = _next(replies)
            if isinstance(found, BaseException):
                raise found
            ended(*found)
    except BaseException:
        stopping.set()
        for slot in slots:
            slot.stop()
        raise
    finally:
        stopping.set()
        try:
            _wait(through, STOP_SECONDS)
        except KeyboardInterrupt:  # a second time: at once
            for slot in slots:
                slot.stop()
            _wait(through, END_SECONDS)
            raise


def _wait(through: Sequence[threading.Event], seconds: float) -> None:
    """Wait until all slots are through; not by `join`, for a thread whose join is interrupted passes for dead."""
    deadline = time.monotonic() + seconds
    for each in through:
        each.wait(max(0.0, deadline - time.monotonic()))


def _next(replies: queue.Queue[tuple[Order, Reply] | BaseException]) -> tuple[Order, Reply] | BaseException:
    while True:
        try:
            return replies.get(timeout=0.2)  # with a time, so that Ctrl-C is heard on every platform
        except queue.Empty:
            continue


def _last_line(log: IO[bytes] | None) -> str:
    """Return the last thing a worker said before it died."""
    if log is None:
        return ""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def _serve(
    slot: Slot,
    waiting: deque[Order],
    replies: queue.Queue[tuple[Order, Reply] | BaseException],
    stopping: threading.Event,
) -> None:
    while not stopping.is_set():
        try:
            order = waiting.popleft()
        except IndexError:
            return
        reply, pause = slot.run(replace(order, more=bool(waiting))), LOOK_AGAIN_SECONDS
        # Another process runs it: of another batch, or of a worker that died. When it is through we find its record,
        # when it dies we run it. The slot waits meanwhile, for the limits of a study hold for so many and no more.
        while reply.status == "taken" and not stopping.wait(pause):
            reply, pause = slot.run(order), min(2 * pause, LOOK_AGAIN_AT_MOST)
        if reply.status != "taken":
            replies.put((order, reply))
