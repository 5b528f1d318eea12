"""papermill's engine with checked parameters; a kernel that died or left by ``sys.exit()`` is an error.

Use it with papermill itself: ``papermill --engine toolkit IN.ipynb OUT.ipynb -p study my.toml``.
"""

import atexit
import contextlib
import functools
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output

from toolkit.batch.plan import fitting, template_parameters
from toolkit.batch.records import ending
from toolkit.errors import ToolkitError
from toolkit.files import held, left, mark

LONGEST = 62
"""Longest path of the folder of sockets, in bytes: some systems allow 103 for a socket, and our names take 41."""
STOP_SECONDS = 15.0
"""Seconds that a notebook has to stop: the replies to calls under way are still received and saved."""
OUTPUT_SECONDS = 60
"""Seconds that a cell's output may arrive after its end; papermill waits 4 s, too short on a busy machine."""
EXITED = "left by sys.exit() or exit() before its end"


class NotebookFailed(ToolkitError):
    """A notebook did not run to its end; ``status`` is one of `toolkit.batch.records.FAILED`, or ``stopped``."""

    exit_code = 1

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class Watch:
    """The running kernel: ends it on a time-out or a stop, and records the reason."""

    def __init__(self) -> None:
        self.client: Any = None
        self.process: Any = None
        self.status = self.reason = ""
        self.cell: int | None = None
        self.exit_cell: int | None = None
        self._timers: list[threading.Timer] = []
        self._cell_timer: threading.Timer | None = None

    def end(self, status: str, reason: str, number: int = signal.SIGKILL) -> None:
        """Signal the kernel now, or when it has started; the first reason is kept."""
        if not self.status:
            self.status, self.reason = status, reason
        self.process = (self.client and kernel_process(self.client.km)) or self.process
        if self.process is not None and self.process.poll() is None:
            signal_group(self.process, number)

    def stop(self) -> None:
        """Interrupt the notebook as Ctrl-C does, and kill its kernel when it does not stop."""
        self.end("stopped", "stopped", signal.SIGINT)
        self.end_after(STOP_SECONDS, "stopped", "stopped")

    def end_after(self, seconds: float | None, status: str, reason: str) -> threading.Timer | None:
        """Kill the kernel after some seconds, unless the notebook ends before."""
        if not seconds:
            return None
        timer = threading.Timer(seconds, self.end, (status, reason.format(f"more than {seconds:g} s")))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
        return timer

    def ready(self) -> None:
        """Record the process of a kernel that answers."""
        self.process = kernel_process(self.client.km)
        if self.status:
            self.end(self.status, self.reason)

    def cell_begins(self, cell_index: int, seconds: float | None) -> None:
        """Record which cell runs, and kill the kernel when it takes too long."""
        self.cell = cell_index
        self._cell_timer = self.end_after(seconds, "timeout", "the cell took {}")

    def cell_ended(self, reply: Mapping[str, Any] | None) -> None:
        """Stop the cell's timer, and record whether the cell ended the kernel, as ``exit()`` does."""
        if self._cell_timer is not None:
            self._cell_timer.cancel()
        payload = (reply or {}).get("content", {}).get("payload", ())
        if self.exit_cell is None and any(part.get("source") == "ask_exit" for part in payload):
            self.exit_cell = self.cell  # the kernel ends a moment later, perhaps in the next cell

    def close(self) -> None:
        """Kill the kernel's process group; a process with its own session, such as the embedded store, goes on."""
        for timer in self._timers:
            timer.cancel()
        if self.process is not None:
            signal_group(self.process, signal.SIGKILL)

    def death(self) -> tuple[str, str]:
        """Return status and reason of a kernel that ended."""
        if self.status:
            return self.status, self.reason
        if self.exit_cell is not None:
            return "exited", EXITED
        code = self.process.poll() if self.process is not None else None
        memory = "; perhaps the machine had no memory left" if code == -signal.SIGKILL else ""
        return "dead kernel", f"the kernel died ({ending(code)}{memory})"


def new_manager(kernel_name: str) -> AsyncKernelManager:
    """Return the manager of a kernel to start, which talks over sockets that are files.

    Jupyter's five TCP ports are chosen a second before the kernel binds them, and another process may take one.
    """
    name = sockets() / uuid.uuid4().hex[:12]
    return AsyncKernelManager(
        kernel_name=kernel_name, transport="ipc", ip=str(name), connection_file=f"{name}.json"
    )


@functools.cache
def sockets() -> Path:
    """Return this process's private folder of sockets; folders of killed processes are removed."""
    usual = tempfile.gettempdir()
    parent = Path(usual if len(os.fsencode(usual)) <= LONGEST else "/tmp")
    for folder in left(parent, f"kernels-{mark()}-[a-z0-9_]{{8}}"):
        shutil.rmtree(folder, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"kernels-{mark()}-", dir=parent))
        # Another process may have removed it as a leftover before it was locked.
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY)
            if held(handle):  # the handle stays open as long as this process lives
                break
            os.close(handle)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def signal_group(process: Any, number: int) -> None:
    """Send a signal to a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def kernel_process(manager: Any) -> Any:
    """Return the process of a kernel, or nothing before it has started."""
    return manager and getattr(manager.provisioner, "process", None)


class ToolkitEngine:
    """The engine that papermill knows as ``toolkit``.

    papermill loads it during its own import, so it is no subclass of papermill's engine and imports it when it runs.
    """

    nb_kernel_name = staticmethod(lambda nb, name=None: _papermills().nb_kernel_name(nb, name))
    nb_language = staticmethod(lambda nb, language=None: _papermills().nb_language(nb, language))

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters, then execute; a parameter that does not fit stops it before anything is written."""
        location = str(nb.metadata.papermill.get("input_path") or "notebook")
        fitting(template_parameters(nb, location), nb.metadata.papermill.get("parameters") or {}, location)
        return _papermills().execute_notebook.__func__(cls, nb, kernel_name, **options)

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        start_timeout: float = 60,
        execution_timeout: float | None = None,
        notebook_timeout: float | None = None,
        watch: Watch | None = None,
        **options: Any,
    ) -> None:
        """Execute the cells; raise `NotebookFailed` where papermill would report success."""
        from papermill.clientwrap import PapermillNotebookClient
        from papermill.log import logger

        watch = watch or Watch()

        watch.client = PapermillNotebookClient(
            nb_man,
            km=new_manager(kernel_name),
            kernel_name=kernel_name,
            startup_timeout=start_timeout,
            iopub_timeout=OUTPUT_SECONDS,
            log=logger,
            log_output=options.get("log_output"),
            stdout_file=options.get("stdout_file"),
            stderr_file=options.get("stderr_file"),
            on_notebook_start=lambda notebook: watch.ready(),
            on_cell_execute=lambda cell, cell_index: watch.cell_begins(cell_index, execution_timeout),
            on_cell_executed=lambda cell, cell_index, execute_reply: watch.cell_ended(execute_reply),
        )
        watch.end_after(notebook_timeout, "timeout", "the notebook took {}")
        failure = None
        try:
            watch.client.execute(cleanup_kc=True)
        except DeadKernelError:
            failure = watch.death()
        except CellTimeoutError:
            failure = "failed", f"the output of the cell did not arrive within {OUTPUT_SECONDS:g} s"
        except RuntimeError as error:
            if watch.cell is not None:
                raise
            failure = watch.status or "dead kernel", watch.reason or f"the kernel did not start: {error}"
        else:
            last: Any = {} if watch.cell is None else nb_man.nb.cells[watch.cell]
            failed = last and last.metadata.papermill.get("exception") is True
            by_exit = failed and any(out.get("ename") == "SystemExit" for out in last.get("outputs", ()))
            if watch.status or watch.exit_cell is not None or by_exit:
                failure = (watch.status or "exited", watch.reason or EXITED)
        finally:
            watch.close()
        if failure:
            raise _failed(nb_man.nb, watch, *failure)


def _papermills() -> Any:
    from papermill.engines import Engine

    return Engine


def _failed(notebook: Any, watch: Watch, status: str, reason: str) -> NotebookFailed:
    """Return the error of a notebook, and show in the notebook which cell failed."""
    notebook.metadata.papermill["exception"] = True
    index = watch.cell if watch.exit_cell is None else watch.exit_cell
    code = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    # Where no cell began the error is shown at the first.
    failing = index if index is not None else next(iter(code), None)
    if failing is not None:
        cell = notebook.cells[failing]
        # papermill marks the cells after a failed one as pending, and without one as completed.
        cell.metadata.papermill.update(status="failed", exception=True)
        if cell.cell_type == "code" and not any(output.output_type == "error" for output in cell.outputs):
            error = {"ename": status, "evalue": reason, "traceback": [f"{status}: {reason}"]}
            cell.outputs.append(new_output("error", **error))
    if index is None:
        return NotebookFailed(reason, status=status)
    number = sum(position <= index and bool(notebook.cells[position].source.strip()) for position in code)
    return NotebookFailed(f"In [{number}]: {reason}", status=status)
