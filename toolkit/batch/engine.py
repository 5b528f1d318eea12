"""papermill's engine with what it lacks: parameters are checked, and an end that is no end is an error.

For whoever uses papermill itself: ``papermill --engine toolkit IN.ipynb OUT.ipynb -p study my.toml``. papermill warns
about unknown parameters, writes "completed" into the notebook of a kernel that died, and takes ``sys.exit(0)`` for
success. Here each of these is an error of its own, and the notebook shows where it happened.

Kernels talk over sockets that are files. Jupyter's usual five ports are chosen, let go, and bound by the kernel a
second later: whoever takes one meanwhile, be it another kernel or one of a hundred connections to models, ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
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
"""Bytes of the path of the folder for temporary files: some systems take 103 for a socket, and our names need 41."""
STOP_SECONDS = 15.0
"""How long a notebook may take to stop when it is asked to: calls that are under way come home and are kept."""
OUTPUT_SECONDS = 60
"""How long what a cell put out may come after its end; papermill gives it 4 s, which a busy machine exceeds."""
EXITED = "left by sys.exit() or exit() before its end"


class NotebookFailed(ToolkitError):
    """A notebook did not come to its end; ``status`` is one of `toolkit.batch.records.FAILED`, or ``stopped``."""

    exit_code = 1

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class Watch:
    """Who may end the kernel of the notebook under way, and why it ended.

    Only the process of the kernel and its group are ended: papermill would wait for a cell that never ends.
    """

    def __init__(self) -> None:
        self.client: Any = None
        self.process: Any = None
        self.status = self.reason = ""
        self.cell: int | None = None
        self.exit_cell: int | None = None
        self._timers: list[threading.Timer] = []
        self._cell_timer: threading.Timer | None = None

    def end(self, status: str, reason: str, number: int = signal.SIGKILL) -> None:
        """End the kernel by a signal, now or as soon as there is one; the first reason stays."""
        if not self.status:
            self.status, self.reason = status, reason
        manager = self.client and self.client.km
        self.process = (manager and kernel_process(manager)) or self.process
        if self.process is not None and self.process.poll() is None:
            signal_group(self.process, number)

    def stop(self) -> None:
        """Have the notebook stop as by Ctrl-C, and end its kernel when it does not."""
        self.end("stopped", "stopped", signal.SIGINT)
        self.end_after(STOP_SECONDS, "stopped", "stopped")

    def end_after(self, seconds: float | None, status: str, reason: str) -> threading.Timer | None:
        """End the kernel after some seconds, unless the notebook ends before."""
        if not seconds:
            return None
        timer = threading.Timer(seconds, self.end, (status, reason.format(f"more than {seconds:g} s")))
        timer.daemon = True  # nothing waits for an alarm
        timer.start()
        self._timers.append(timer)
        return timer

    def ready(self) -> None:
        """Note the kernel's process once it answers."""
        self.process = kernel_process(self.client.km)
        if self.status:
            self.end(self.status, self.reason)

    def cell_begins(self, cell_index: int, seconds: float | None) -> None:
        """Note which cell runs, and end the kernel when it takes too long."""
        self.cell = cell_index
        self._cell_timer = self.end_after(seconds, "timeout", "the cell took {}")

    def cell_ended(self, reply: Mapping[str, Any] | None) -> None:
        """Note that a cell ended, and whether it asked the kernel to end, as ``exit()`` does."""
        if self._cell_timer is not None:
            self._cell_timer.cancel()
        payload = (reply or {}).get("content", {}).get("payload", ())
        if self.exit_cell is None and any(part.get("source") == "ask_exit" for part in payload):
            self.exit_cell = self.cell  # the kernel ends a moment later, perhaps in the next cell

    def close(self) -> None:
        """End what the kernel began and left behind; what has a session of its own, as the store has, lives on."""
        for timer in self._timers:
            timer.cancel()
        if self.process is not None:
            signal_group(self.process, signal.SIGKILL)

    def death(self) -> tuple[str, str]:
        """Return the status and the reason of a kernel that is gone."""
        if self.status:
            return self.status, self.reason
        if self.exit_cell is not None:
            return "exited", EXITED
        code = self.process.poll() if self.process is not None else None
        memory = "; perhaps the machine had no memory left" if code == -signal.SIGKILL else ""
        return "dead kernel", f"the kernel died ({ending(code)}{memory})"


class Ahead:
    """At most one booted kernel that has not run anything, for a notebook in the same folder."""

    def __init__(self) -> None:
        self._manager: AsyncKernelManager | None = None
        self._folder = Path()

    async def boot(self, kernel_name: str) -> None:
        """Have a kernel boot in the working folder, and do not wait for it."""
        if self._manager is None:
            manager = new_manager(kernel_name)
            # The notebook under way has no part in a failure; the next one boots its own, and says why not.
            with contextlib.suppress(Exception):
                # As nbclient starts one: what a notebook runs is not added to the history of the user's own sessions.
                await manager.start_kernel(extra_arguments=["--HistoryManager.hist_file=:memory:"])
                self._manager, self._folder = manager, Path.cwd()

    def take(self) -> AsyncKernelManager | None:
        """Return the kernel that boots, where it is in this folder and lives; else none."""
        if self._manager and (self._folder != Path.cwd() or kernel_process(self._manager).poll() is not None):
            self.end()
        manager, self._manager = self._manager, None
        return manager

    def end(self) -> None:
        """End the kernel that boots, when nobody took it."""
        if self._manager is not None:
            process = kernel_process(self._manager)
            signal_group(process, signal.SIGKILL)
            process.wait()
            self._manager.cleanup_connection_file()
            self._manager.cleanup_ipc_files()
            self._manager = None


def new_manager(kernel_name: str) -> AsyncKernelManager:
    """Return the manager of a kernel that is not started yet, with sockets that nobody else can take."""
    name = sockets() / uuid.uuid4().hex[:12]
    return AsyncKernelManager(
        kernel_name=kernel_name, transport="ipc", ip=str(name), connection_file=f"{name}.json"
    )


@functools.cache
def sockets() -> Path:
    """Return this process's folder of sockets, which only its user may open; those of killed processes are removed."""
    usual = tempfile.gettempdir()
    parent = Path(usual if len(os.fsencode(usual)) <= LONGEST else "/tmp")
    for folder in left(parent, f"kernels-{mark()}-[a-z0-9_]{{8}}"):
        shutil.rmtree(folder, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"kernels-{mark()}-", dir=parent))
        with contextlib.suppress(FileNotFoundError):  # taken for left before it could be opened
            handle = os.open(folder, os.O_RDONLY)
            if held(handle):  # and open for as long as this process lives
                break
            os.close(handle)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def signal_group(process: Any, number: int) -> None:
    """Send a signal to a process with all that it began."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def kernel_process(manager: AsyncKernelManager) -> Any:
    """Return the process of a kernel, where it has one already."""
    provisioner: Any = manager.provisioner
    return provisioner.process if provisioner is not None else None


class ToolkitEngine:
    """The engine; registered with papermill under the name ``toolkit``.

    papermill loads it in the middle of its own import, so it is no subclass, and asks papermill when something runs.
    """

    nb_kernel_name = staticmethod(lambda nb, name=None: _papermills().nb_kernel_name(nb, name))
    nb_language = staticmethod(lambda nb, language=None: _papermills().nb_language(nb, language))

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters, then execute; nothing is written when they do not fit."""
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
        ahead: Ahead | None = None,
        more: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        """Execute the cells, and raise `NotebookFailed` for every end that papermill takes for a good one."""
        from papermill.clientwrap import PapermillNotebookClient
        from papermill.log import logger

        watch, ahead = watch or Watch(), ahead or Ahead()

        async def ready(notebook: Any) -> None:
            watch.ready()
            if more():
                await ahead.boot(kernel_name)

        def execute() -> None:
            watch.client = PapermillNotebookClient(
                nb_man,
                km=ahead.take() or new_manager(kernel_name),
                kernel_name=kernel_name,
                startup_timeout=start_timeout,
                iopub_timeout=OUTPUT_SECONDS,
                log=logger,
                **{name: options.get(name) for name in ("log_output", "stdout_file", "stderr_file")},
                on_notebook_start=ready,
                on_cell_execute=lambda cell, cell_index: watch.cell_begins(cell_index, execution_timeout),
                on_cell_executed=lambda cell, cell_index, execute_reply: watch.cell_ended(execute_reply),
            )
            watch.client.execute(cleanup_kc=True)  # the kernel is ours to end, whoever made it

        watch.end_after(notebook_timeout, "timeout", "the notebook took {}")
        try:
            try:
                execute()
            except RuntimeError:
                if watch.process is not None or watch.status:
                    raise
                execute()  # it died before its first word: nothing was done, and another may live
        except DeadKernelError:
            raise _failed(nb_man.nb, watch, *watch.death()) from None
        except CellTimeoutError:
            reason = f"the output of the cell did not arrive within {OUTPUT_SECONDS:g} s"
            raise _failed(nb_man.nb, watch, "failed", reason) from None
        except RuntimeError as error:
            if watch.cell is not None:
                raise
            status, reason = (
                watch.status or "dead kernel",
                watch.reason or f"the kernel did not start: {error}",
            )
            raise _failed(nb_man.nb, watch, status, reason) from None
        finally:
            watch.close()
        if watch.status:
            raise _failed(nb_man.nb, watch, watch.status, watch.reason)
        last: Any = {} if watch.cell is None else nb_man.nb.cells[watch.cell]
        failed = last and last.metadata.papermill.get("exception") is True
        by_exit = failed and any(out.get("ename") == "SystemExit" for out in last.get("outputs", ()))
        if watch.exit_cell is not None or by_exit:
            raise _failed(nb_man.nb, watch, "exited", EXITED)


def _papermills() -> Any:
    from papermill.engines import Engine

    return Engine


def _failed(notebook: Any, watch: Watch, status: str, reason: str) -> NotebookFailed:
    """Return the error of a notebook, and have the notebook itself show where it ended."""
    notebook.metadata.papermill["exception"] = True
    index = watch.cell if watch.exit_cell is None else watch.exit_cell
    code = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    failing = index if index is not None else next(iter(code), None)  # none began: the first shows it
    if failing is not None:
        cell = notebook.cells[failing]
        # With a failed cell papermill leaves those behind it pending, else it would call them completed.
        cell.metadata.papermill.update(status="failed", exception=True)
        if cell.cell_type == "code" and not any(output.output_type == "error" for output in cell.outputs):
            cell.outputs.append(
                new_output("error", ename=status, evalue=reason, traceback=[f"{status}: {reason}"])
            )
    if index is None:
        return NotebookFailed(reason, status=status)
    number = sum(position <= index and bool(notebook.cells[position].source.strip()) for position in code)
    return NotebookFailed(f"In [{number}]: {reason}", status=status)
