"""Runs one notebook of a batch in a process of its own, because papermill changes the folder of its whole process.

`run_cell` runs in a thread of the caller, or on a Dask worker; `main` is the process that it starts. A process whose
caller dies brings its notebook to the end, because its calls are paid.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolkit.batch.engine import STOP_SECONDS, NotebookFailed, ToolkitEngine, Watch
from toolkit.batch.plan import changed
from toolkit.batch.records import AT_ONCE, COMPLETED, LOOK_SECONDS, QUEUED, RUNNING, Order, ending
from toolkit.errors import ToolkitError

DIED = "the process that ran it died"
END_SECONDS = 5.0
_LATE = "{} was changed after the batch began; call the batch again"


def run_cell(fields: Mapping[str, Any], at_once: int) -> None:
    """Run one notebook in a process; one that dies fails its own notebook only."""
    from toolkit.runs.gateway import SHARE_ENV

    # Plain lines of progress, and a share of the limits for each notebook. A session of its own: we pass Ctrl-C on.
    environment = os.environ | {"TOOLKIT_BATCH": "1", SHARE_ENV: str(at_once)}
    command = [sys.executable, "-c", "from toolkit.batch.cell import main; main()"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        process.communicate(json.dumps(dict(fields)).encode())
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").split("\n")
    order, code = Order(**fields), process.returncode
    if code == 0 or order.stop.exists():
        return
    lines = [line.strip() for line in lines if line.strip() and code > 0]
    reason = ending(code) + (f": {lines[-1][:200]}" if lines else "")
    with order.claimed() as free:
        record = order.read()
        if record.process != f"{socket.gethostname()}:{process.pid}":
            raise ToolkitError(f"a worker of the batch ended before it ran anything ({reason})")
        if free and record.status == RUNNING:
            order.settle("failed", f"{DIED} ({reason})", record)


def main() -> None:
    """Run the notebook that standard input names, unless it is finished or another process runs it."""
    order, watch = Order(**json.load(sys.stdin)), Watch()
    threading.Thread(target=_listen, args=(order, watch), name="batch-stop", daemon=True).start()
    with order.claimed() as free:
        stored = order.read()
        if not free or order.is_finished(stored) or order.stop.exists():
            return
        if stored.status == RUNNING and stored.batch == order.batch:
            # Not run again: this notebook may be what killed the process.
            order.settle("failed", DIED, stored)
            return
        clock = time.monotonic()  # the wall clock may be changed while it runs
        process = f"{socket.gethostname()}:{os.getpid()}"
        record = order.waiting(stored.attempts + 1)
        record = replace(record, status=RUNNING, began=time.time(), process=process, batch=order.batch)
        order.write(record)
        status, error = _execute(order, watch)
        order.settle(status, error, replace(record, seconds=time.monotonic() - clock))


def _listen(order: Order, watch: Watch) -> None:
    """Stop the notebook when the batch is stopped, and this process when the notebook does not stop."""
    while not order.stop.exists():
        time.sleep(LOOK_SECONDS)
    stopped_at = time.monotonic()
    if not watch.status:
        watch.stop()
    while time.monotonic() - stopped_at < STOP_SECONDS + END_SECONDS:
        if order.stop.exists() and order.stop.read_text() == AT_ONCE:
            watch.end("stopped", "stopped")
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _execute(order: Order, watch: Watch) -> tuple[str, str]:
    """Run a notebook into its draft; return its status and its error."""
    import papermill
    from papermill.engines import papermill_engines
    from papermill.exceptions import PapermillExecutionError

    papermill_engines.register("toolkit", ToolkitEngine)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    if late := changed(order.files):
        return "failed", _LATE.format(late)
    order.draft.parent.mkdir(parents=True, exist_ok=True)
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
            watch=watch,
        )
    except (NotebookFailed, PapermillExecutionError) as error:
        if watch.status == "stopped":
            return QUEUED, ""
        if isinstance(error, NotebookFailed):
            return error.status, str(error)
        return "failed", f"In [{error.exec_count}]: {error.ename}: {error.evalue}"
    except Exception as error:  # of papermill, the kernel or the disk: it ends this notebook only
        return "failed", f"{type(error).__name__}: {error}"
    return ("failed", _LATE.format(late)) if (late := changed(order.files)) else (COMPLETED, "")


def _literally(path: str) -> str:
    """Escape braces in a path: papermill would fill in parameters there."""
    return path.replace("{", "{{").replace("}", "}}")
