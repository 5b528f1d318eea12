"""papermill's engine with checked parameters; a kernel that died or left by ``sys.exit()`` is an error.

Use it with papermill itself: ``papermill --engine toolkit IN.ipynb OUT.ipynb -p study my.toml``.
"""

import atexit
import contextlib
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from papermill.log import logger

from toolkit.batch.template import checked_arguments, template_parameters
from toolkit.errors import ToolkitError

OUTPUT_SECONDS = 60
"""Seconds that a cell's output may arrive after its end; papermill waits 4 s, too short on a busy machine."""
STOPPED = "stopped"


class NotebookFailed(ToolkitError):
    """A notebook did not run to its end; ``status`` is one of `toolkit.batch.result.FAILED`, or ``stopped``."""

    exit_code = 1

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Watch:
    """The kernel of a notebook: in which cell it is, which cell left by ``exit()``, and whether it is to stop."""

    manager: Any = None
    process: Any = None
    cell: int | None = None
    exit_cell: int | None = None
    stopped: bool = False

    def send(self, number: int) -> None:
        """Send a signal to the kernel and its children; one with its own session, such as the store, goes on."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def stop(self, number: int) -> None:
        """Send a signal that ends the notebook; a kernel that has not started is killed when its first cell begins."""
        self.stopped = True
        self.send(number)

    def cell_begins(self, cell: Any, cell_index: int) -> None:
        """Record which cell runs."""
        self.cell = cell_index
        # The manager forgets the process when it ends, and its children may run on.
        self.process = self.process or self.manager.provisioner.process
        if self.stopped:
            self.send(signal.SIGKILL)

    def cell_ended(self, cell: Any, cell_index: int, execute_reply: Mapping[str, Any]) -> None:
        """Record whether the cell ended the kernel: that happens a moment later, perhaps in the next cell."""
        content = execute_reply["content"]
        exits = any(part.get("source") == "ask_exit" for part in content.get("payload", ()))
        if self.exit_cell is None and (exits or content.get("ename") == "SystemExit"):
            self.exit_cell = cell_index


def new_manager(kernel_name: str) -> AsyncKernelManager:
    """Return the manager of a kernel to start, which talks over sockets that are files of a private folder.

    Jupyter's five TCP ports are chosen a second before the kernel binds them, and another process may take one.
    """
    # Short: some systems allow 103 bytes for a socket.
    folder = tempfile.mkdtemp(prefix="kernel-", dir="/tmp" if len(tempfile.gettempdir()) > 80 else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = f"{folder}/k"
    return AsyncKernelManager(
        kernel_name=kernel_name, transport="ipc", ip=name, connection_file=f"{name}.json"
    )


def ending(code: int | None) -> str:
    """Return in words how a process ended."""
    return f"signal {-code}, {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"


class ToolkitEngine(Engine):
    """The engine that papermill knows as ``toolkit``."""

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters, then execute; a parameter that does not fit stops it before anything is written."""
        facts = nb.metadata.papermill
        location = str(facts.get("input_path") or "notebook")
        checked_arguments(template_parameters(nb, location), facts.get("parameters") or {}, location)
        return super().execute_notebook(nb, kernel_name, **options)

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        start_timeout: float = 60,
        execution_timeout: float | None = None,
        notebook_timeout: float | None = None,
        watch: Watch | None = None,
        input_path: object = None,
        **options: Any,
    ) -> None:
        """Execute the cells; raise `NotebookFailed` where papermill would report success."""
        watch = watch or Watch()
        watch.manager = new_manager(kernel_name)
        deadline = time.monotonic() + (notebook_timeout or math.inf)

        def seconds_left(cell: Any) -> float | None:
            # nbclient takes 0 for no limit.
            seconds = min(execution_timeout or math.inf, max(0.1, deadline - time.monotonic()))
            return seconds if seconds < math.inf else None

        client = PapermillNotebookClient(
            nb_man,
            km=watch.manager,
            kernel_name=kernel_name,
            startup_timeout=start_timeout,
            iopub_timeout=OUTPUT_SECONDS,
            timeout_func=seconds_left,
            log=logger,
            on_cell_execute=watch.cell_begins,
            on_cell_executed=watch.cell_ended,
            **options,
        )
        status = reason = ""
        try:
            client.execute(cleanup_kc=True)
        except CellTimeoutError:
            status, reason = "timeout", f"the output of the cell did not arrive within {OUTPUT_SECONDS} s"
            if execution_timeout:
                reason = f"the cell took more than {execution_timeout:g} s"
            if time.monotonic() > deadline:
                reason = f"the notebook took more than {notebook_timeout:g} s"
        except DeadKernelError:
            status, reason = "dead kernel", f"the kernel died ({ending(watch.process.poll())})"
        except RuntimeError as error:
            status, reason = "dead kernel", f"the kernel did not start: {error}"
        finally:
            watch.send(signal.SIGKILL)  # what the kernel left of its children
        if watch.exit_cell is not None:
            status, reason = "exited", "left by sys.exit() or exit() before its end"
        if watch.stopped:
            status = reason = STOPPED
        if status:
            index = watch.cell if watch.exit_cell is None else watch.exit_cell
            raise NotebookFailed(_marked(nb_man.nb, index, status, reason), status)


def _marked(notebook: Any, index: int | None, status: str, reason: str) -> str:
    """Show in a notebook which cell failed, the first where none began, and return that with the reason."""
    notebook.metadata.papermill["exception"] = True
    code = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    cell = notebook.cells[code[0] if index is None else index]
    # papermill marks the cells after a failed one as pending, and without one as completed.
    cell.metadata.papermill.update(status="failed", exception=True)
    if not any(output.output_type == "error" for output in cell.outputs):
        traceback = [f"{status}: {reason}"]
        cell.outputs.append(new_output("error", ename=status, evalue=reason, traceback=traceback))
    return reason if index is None else f"In [{code.index(index) + 1}]: {reason}"


papermill_engines.register("toolkit", ToolkitEngine)  # also where the toolkit is not installed
