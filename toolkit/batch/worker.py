"""The process that runs notebooks one after the other, because papermill changes the folder of its whole process.

A worker takes each order that no other process holds. It ends when all are run, when a stop file stands beside the
orders, or when its caller is dead; a caller's death lets the current notebook finish, because its calls are paid.
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
from dataclasses import replace
from pathlib import Path
from typing import Final

from toolkit.batch.engine import STOP_SECONDS, NotebookFailed, ToolkitEngine, Watch
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
    """One worker process: its orders and the notebook that it runs."""

    def __init__(self, orders: Path, slot: int) -> None:
        self.orders = orders
        self.slot = orders.with_suffix(f".slot-{slot}")
        self.watch: Watch | None = None
        self.stopping = threading.Event()
        self._caller = os.getppid()

    def work(self) -> None:
        """Run orders that no other process holds, until all are run or this process must end."""
        threading.Thread(target=self._listen, name="batch-stop", daemon=True).start()
        waiting = [Order(**order) for order in json.loads(self.orders.read_text(encoding="utf-8"))]
        with self.slot.open("a") as slot:
            # When a Dask worker dies, its process runs on: wait for it, or more notebooks than allowed run at once.
            while not locked(slot.fileno(), fcntl.LOCK_EX):
                if self.is_to_end(LOOK_SECONDS):
                    return
            pause = LOOK_SECONDS
            while waiting and not self.is_to_end(0):
                busy = [order for order in waiting if not (self.is_to_end(0) or self.fulfil(order))]
                if len(busy) == len(waiting):
                    # Other processes run them: look again for their records, and run them if those processes die.
                    self.is_to_end(pause)
                    pause = min(2 * pause, LOOK_AGAIN_AT_MOST)
                waiting = busy

    def is_to_end(self, seconds: float) -> bool:
        """Wait at most some seconds; return whether this worker was stopped or its caller is dead."""
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
                os._exit(1)  # the notebook did not stop

    def fulfil(self, order: Order) -> bool:
        """Run a notebook unless it is finished, and save its record; false when another process holds it."""
        with order.claimed() as mine:
            if not mine:
                return False
            stored = order.read()
            if order.is_finished(stored):
                return True
            if stored.status == RUNNING and stored.batch == order.batch:
                # Not run again: this notebook may be what killed the process.
                order.settle("failed", DIED, stored)
                return True
            clock = time.monotonic()  # the wall clock may be changed while it runs
            record = order.waiting(stored.attempts + 1)
            process = f"{socket.gethostname()}:{os.getpid()}"
            record = replace(record, status=RUNNING, began=time.time(), process=process, batch=order.batch)
            order.write(record)
            status, error = self._execute(order)
            order.settle(status, error, replace(record, seconds=time.monotonic() - clock))
        return True

    def _execute(self, order: Order) -> tuple[str, str]:
        """Run a notebook into its draft; return its status and its error."""
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
                language="python",  # a notebook written by hand may not name it
                progress_bar=False,
                cwd=order.folder,
                execution_timeout=order.cell_timeout,
                notebook_timeout=order.timeout,
                watch=self.watch,
            )
        except (NotebookFailed, PapermillExecutionError) as error:
            if self.watch.status == "stopped":
                return QUEUED, ""
            if isinstance(error, NotebookFailed):
                return error.status, str(error)
            return "failed", f"In [{error.exec_count}]: {error.ename}: {error.evalue}"
        except Exception as error:  # of papermill, the kernel or the disk: it ends this notebook only
            return "failed", f"{type(error).__name__}: {error}"
        finally:
            self.watch = None
        return ("failed", _LATE.format(late)) if (late := changed(order.files)) else (COMPLETED, "")


def _literally(path: str) -> str:
    """Escape braces in a path: papermill would fill in parameters there."""
    return path.replace("{", "{{").replace("}", "}}")


def main() -> None:
    """Run the file of orders and take the slot that the command line names."""
    Worker(Path(sys.argv[1]), int(sys.argv[2])).work()
