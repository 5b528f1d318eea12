"""The process that runs notebooks, one after the other: papermill changes the folder of its whole process.

A worker is told a file of orders and takes whatever nobody has. It ends when all are through, when it is stopped (a
file beside the orders says so, for that reaches the machines of a cluster too), and when whoever called it is dead:
then it brings the notebook under way to its end first, for its calls are paid.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from toolkit.batch.engine import STOP_SECONDS, Ahead, NotebookFailed, ToolkitEngine, Watch
from toolkit.batch.plan import changed
from toolkit.batch.records import (
    AT_ONCE,
    COMPLETED,
    DIED,
    LOOK_SECONDS,
    QUEUED,
    RUNNING,
    Order,
    is_called_for,
    locked,
)

LOOK_AGAIN_AT_MOST: Final = 5.0
END_SECONDS: Final = 5.0
_LATE: Final = "{} was changed after the batch began; call the batch again"


class Worker:
    """What is under way in this process, and whether it is to end."""

    def __init__(self, orders: Path, slot: int) -> None:
        self.orders = orders
        self.slot = orders.with_suffix(f".slot-{slot}")
        self.ahead = Ahead()
        self.watch: Watch | None = None
        self.stopping = threading.Event()
        self._caller = os.getppid()

    def work(self) -> None:
        """Run what nobody else has, until all orders are through or this process is to end."""
        threading.Thread(target=self._listen, name="batch-stop", daemon=True).start()
        waiting = [Order(**order) for order in json.loads(self.orders.read_text(encoding="utf-8"))]
        with self.slot.open("a") as slot:
            # Whoever had this place on a cluster before runs on when its Dask worker dies: no more at once than asked.
            while not locked(slot.fileno(), fcntl.LOCK_EX):
                if self.is_to_end(LOOK_SECONDS):
                    return
            pause = LOOK_SECONDS
            try:
                while waiting and not self.is_to_end(0):
                    before, waiting = waiting, list(self._round(waiting))
                    if len(waiting) == len(before):
                        # Others run them: when they are through we find the records, when they die we run them.
                        self.is_to_end(pause)
                        pause = min(2 * pause, LOOK_AGAIN_AT_MOST)
            finally:
                self.ahead.end()

    def _round(self, waiting: list[Order]) -> Iterator[Order]:
        """Run each notebook that nobody has; yield those that another process has."""
        for number, order in enumerate(waiting, 1):
            if self.is_to_end(0):
                return
            if not self.fulfil(order, partial(_anything_waits, waiting[number:])):
                yield order

    def is_to_end(self, seconds: float) -> bool:
        """Wait a while at most, and say whether it was stopped, or nobody is there any more for whom to run."""
        stopped = self.stopping.wait(seconds) if seconds else self.stopping.is_set()
        return stopped or os.getppid() != self._caller or not is_called_for(self.orders)

    def _listen(self) -> None:
        stop = self.orders.with_suffix(".stop")
        stopped_at: float | None = None
        while True:
            time.sleep(LOOK_SECONDS)
            command = stop.read_text() if stop.exists() else None
            if command is None and stopped_at is None:
                continue
            stopped_at = stopped_at or time.monotonic()
            self.stopping.set()
            if self.watch is not None and not self.watch.status:
                self.watch.stop()
            if self.watch is not None and command == AT_ONCE:
                self.watch.end("stopped", "stopped")
            if time.monotonic() - stopped_at > STOP_SECONDS + END_SECONDS:
                os._exit(1)  # nothing else helped

    def fulfil(self, order: Order, more: Callable[[], bool] = lambda: False) -> bool:
        """Run a notebook unless it is finished, and keep its record; false when another process has it."""
        with order.claimed() as mine:
            if not mine:
                return False
            stored = order.read()
            if order.is_finished(stored):
                return True
            if stored.status == RUNNING and stored.batch == order.batch:
                order.settle("failed", DIED, stored)  # and it may be the notebook that ends processes
                return True
            clock = time.monotonic()  # the other may be set while it runs
            record = order.waiting(stored.attempts + 1)
            process = f"{socket.gethostname()}:{os.getpid()}"
            record = replace(record, status=RUNNING, began=time.time(), process=process, batch=order.batch)
            order.write(record)
            status, error = self._execute(order, more)
            order.settle(status, error, replace(record, seconds=time.monotonic() - clock))
        return True

    def _execute(self, order: Order, more: Callable[[], bool]) -> tuple[str, str]:
        """Run a notebook into its draft, and return its status and what ended it."""
        import papermill
        from papermill.engines import papermill_engines
        from papermill.exceptions import PapermillExecutionError

        papermill_engines.register("toolkit", ToolkitEngine)
        logging.getLogger("papermill").setLevel(logging.CRITICAL)
        if late := changed(order.files):
            return "failed", _LATE.format(late)
        order.draft.parent.mkdir(parents=True, exist_ok=True)
        self.watch = Watch()
        try:
            papermill.execute_notebook(
                _literally(order.copy or order.template),
                _literally(str(order.draft)),
                parameters=dict(order.parameters),
                engine_name="toolkit",
                kernel_name="python3",
                language="python",  # a notebook written by hand may not say
                progress_bar=False,
                cwd=order.folder,
                execution_timeout=order.cell_timeout,
                notebook_timeout=order.timeout,
                watch=self.watch,
                ahead=self.ahead,
                more=more,
            )
        except (NotebookFailed, PapermillExecutionError) as error:
            if self.watch.status == "stopped":
                return QUEUED, ""
            if isinstance(error, NotebookFailed):
                return error.status, str(error)
            return "failed", f"In [{error.exec_count}]: {error.ename}: {error.evalue}"
        except Exception as error:  # of papermill, the kernel or the disk: the end of this notebook only
            return "failed", f"{type(error).__name__}: {error}"
        finally:
            self.watch = None
        return ("failed", _LATE.format(late)) if (late := changed(order.files)) else (COMPLETED, "")


def _anything_waits(orders: Sequence[Order]) -> bool:
    return any(order.read().status == QUEUED for order in orders)


def _literally(path: str) -> str:
    """Return a path as papermill is to be given it: it would fill in parameters where it finds braces."""
    return path.replace("{", "{{").replace("}", "}}")


def main() -> None:
    """Work on the file of orders and in the place that the command line names."""
    Worker(Path(sys.argv[1]), int(sys.argv[2])).work()
