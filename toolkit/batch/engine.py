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
import re
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output

from toolkit.batch.template import fitting, parameters_of
from toolkit.errors import ToolkitError
from toolkit.files import held, left, mark

if TYPE_CHECKING:
    from papermill.clientwrap import PapermillNotebookClient

# As nbclient starts a kernel: what a notebook runs is not added to the history of the user's own sessions.
ARGUMENTS = ["--HistoryManager.hist_file=:memory:"]
LONGEST = 62
"""Bytes of the path of the folder for temporary files: some systems take 103 for a socket, and our names need 41."""
STOP_SECONDS = 15.0
"""How long a notebook may take to stop when it is asked to: calls that are under way come home and are kept."""
OUTPUT_SECONDS = 60
"""How long what a cell put out may come after its end; papermill gives it 4 s, which a busy machine exceeds."""
EXITED = "left by sys.exit() or exit() before its end"
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class NotebookFailed(ToolkitError):
    """A notebook did not come to its end; ``status`` is one of `toolkit.batch.worker.FAILED`, or ``stopped``."""

    exit_code = 1

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class Watch:
    """Who may end the kernel of the notebook under way, and why it ended.

    Only the process of the kernel and its group are ended: papermill would wait for a cell that never ends.
    """

    def __init__(self) -> None:
        self.client: PapermillNotebookClient | None = None
        self.process: Any = None
        self.status = ""
        self.why = ""
        self.cell: int | None = None
        self.left_at: int | None = None
        self._cell_timer: threading.Timer | None = None

    def end(self, status: str, why: str, number: int = signal.SIGKILL) -> None:
        """End the kernel by a signal, now or as soon as there is one; the first reason stays."""
        if not self.status:
            self.status, self.why = status, why
        process = self._kernel()
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def stop(self) -> None:
        """Have the notebook stop as by Ctrl-C, and end its kernel when it does not; a second call ends it at once."""
        if self.status == "stopped":
            self.end("stopped", "stopped")
            return
        self.end("stopped", "stopped", signal.SIGINT)
        _timer(STOP_SECONDS, self.end, "stopped", "stopped")

    def ready(self) -> None:
        """Note the kernel's process once it answers."""
        self.process = self._kernel()
        if self.status:
            self.end(self.status, self.why)

    def cell_begins(self, cell_index: int, seconds: float | None) -> None:
        """Note which cell runs, and end the kernel when it takes too long."""
        self.cell = cell_index
        if seconds:
            self._cell_timer = _timer(seconds, self.end, "timeout", f"the cell took more than {seconds:g} s")

    def cell_ended(self, reply: Mapping[str, Any] | None = None) -> None:
        """Note that a cell ended, and whether it asked the kernel to end, as ``exit()`` does."""
        if self._cell_timer is not None:
            self._cell_timer.cancel()
        payload = (reply or {}).get("content", {}).get("payload", ())
        if self.left_at is None and any(part.get("source") == "ask_exit" for part in payload):
            self.left_at = self.cell  # the kernel ends a moment later, perhaps in the next cell

    def clear(self) -> None:
        """End what the kernel began and left behind; what has a session of its own, as the store has, lives on."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _kernel(self) -> Any:
        manager = self.client.km if self.client is not None else None
        provisioner = manager.provisioner if manager is not None else None
        return provisioner.process if provisioner is not None else self.process


class Ahead:
    """At most one booted kernel that has not run anything, for a notebook in the same folder."""

    def __init__(self) -> None:
        self._manager: AsyncKernelManager | None = None
        self._what: tuple[str, Path] | None = None

    async def boot(self, kernel_name: str) -> None:
        """Have a kernel boot in the working folder, and do not wait for it."""
        if self._manager is None:
            manager = new_manager(kernel_name)
            try:
                await manager.start_kernel(extra_arguments=ARGUMENTS)
            except (
                Exception
            ):  # the notebook under way has no part in it; the next one boots its own, and says why not
                manager.cleanup_connection_file()
            else:
                self._manager, self._what = manager, (kernel_name, Path.cwd())

    def take(self, kernel_name: str) -> AsyncKernelManager | None:
        """Return the kernel that boots, where it is of this name and folder and lives; else none."""
        if self._manager is None:
            return None
        if self._what != (kernel_name, Path.cwd()) or _process(self._manager).poll() is not None:
            self.end()
            return None
        manager, self._manager = self._manager, None
        return manager

    def end(self) -> None:
        """End the kernel that boots, when nobody took it."""
        if self._manager is None:
            return
        process = _process(self._manager)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
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
    place = Path(usual if len(os.fsencode(usual)) <= LONGEST else "/tmp")
    for folder in left(place, f"kernels-{mark()}-[a-z0-9_]{{8}}"):
        shutil.rmtree(folder, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"kernels-{mark()}-", dir=place))
        with contextlib.suppress(FileNotFoundError):  # taken for left before it could be opened
            handle = os.open(folder, os.O_RDONLY)
            if held(handle):  # and open for as long as this process lives
                break
            os.close(handle)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _process(manager: AsyncKernelManager) -> Any:
    provisioner: Any = manager.provisioner
    return provisioner.process


class ToolkitEngine:
    """The engine; registered with papermill under the name ``toolkit``.

    papermill loads it in the middle of its own import. Were this a subclass, then whoever imports this module first
    would import papermill, which would look for a class that is not there yet: so papermill is asked only when
    something runs.
    """

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:
        """Return the kernel that a notebook names, as papermill's own engines do."""
        from papermill.engines import Engine

        return Engine.nb_kernel_name(nb, name)

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:
        """Return the language that a notebook names, as papermill's own engines do."""
        from papermill.engines import Engine

        return Engine.nb_language(nb, language)

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters, then execute; nothing is written when they do not fit."""
        from papermill.engines import Engine

        where = str(nb.metadata.papermill.get("input_path") or "notebook")
        fitting(parameters_of(nb, where), nb.metadata.papermill.get("parameters") or {}, where)
        return Engine.execute_notebook.__func__(cls, nb, kernel_name, **options)

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        log_output: bool = False,
        stdout_file: Any = None,
        stderr_file: Any = None,
        start_timeout: float = 60,
        execution_timeout: float | None = None,
        notebook_timeout: float | None = None,
        watch: Watch | None = None,
        ahead: Ahead | None = None,
        more: bool = False,
        **_: Any,
    ) -> None:
        """Execute the cells, and raise `NotebookFailed` for every end that papermill takes for a good one."""
        from papermill.clientwrap import PapermillNotebookClient
        from papermill.log import logger

        watch = watch or Watch()

        async def ready(notebook: Any) -> None:
            watch.ready()
            if ahead is not None and more:
                await ahead.boot(kernel_name)

        def client() -> PapermillNotebookClient:
            taken = ahead.take(kernel_name) if ahead is not None else None
            watch.client = PapermillNotebookClient(
                nb_man,
                km=taken or new_manager(kernel_name),
                kernel_name=kernel_name,
                startup_timeout=start_timeout,
                iopub_timeout=OUTPUT_SECONDS,
                log=logger,
                log_output=log_output,
                stdout_file=stdout_file,
                stderr_file=stderr_file,
                on_notebook_start=ready,
                on_cell_execute=lambda cell, cell_index: watch.cell_begins(cell_index, execution_timeout),
                on_cell_executed=lambda cell, cell_index, execute_reply: watch.cell_ended(execute_reply),
            )
            return watch.client

        whole = f"the notebook took more than {notebook_timeout:g} s" if notebook_timeout else ""
        timer = _timer(notebook_timeout, watch.end, "timeout", whole) if notebook_timeout else None
        try:
            try:
                client().execute(cleanup_kc=True)  # the kernel is ours to end, whoever made it
            except RuntimeError:
                if watch.process is not None or watch.status:
                    raise
                # It died before its first word: nothing was done, and another may live.
                client().execute(cleanup_kc=True)
        except DeadKernelError:
            raise _failed(nb_man.nb, watch, *_death(watch)) from None
        except CellTimeoutError:
            why = f"the output of the cell did not arrive within {OUTPUT_SECONDS:g} s"
            raise _failed(nb_man.nb, watch, "failed", why) from None
        except RuntimeError as error:
            if watch.process is not None:
                raise
            status, why = watch.status or "dead kernel", watch.why or f"the kernel did not start: {error}"
            raise _failed(nb_man.nb, watch, status, why) from None
        finally:
            if timer is not None:
                timer.cancel()
            watch.cell_ended()
            watch.clear()
        if watch.status:
            raise _failed(nb_man.nb, watch, watch.status, watch.why)
        if watch.left_at is not None or _says_exit(nb_man.nb, watch.cell):
            raise _failed(nb_man.nb, watch, "exited", EXITED)


def place(notebook: Any, index: int | None) -> str:
    """Return the number of a code cell as a notebook shows it, e.g. ``In [3]``; empty before the first."""
    if index is None:
        return ""
    before = notebook.cells[: index + 1]
    return f"In [{sum(cell.cell_type == 'code' and bool(cell.source.strip()) for cell in before)}]"


def one_line(text: str) -> str:
    r"""Return text without colours on one line of at most 300 characters."""
    return " ".join(_COLOURS.sub("", text).split())[:300]


def _death(watch: Watch) -> tuple[str, str]:
    """Return the status and the reason of a kernel that is gone."""
    if watch.status:
        return watch.status, watch.why
    if watch.left_at is not None:
        return "exited", EXITED
    code = watch.process.poll() if watch.process is not None else None
    how = f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {-code}, {signal.Signals(-code).name}"
        how += "; perhaps the machine had no memory left" if -code == signal.SIGKILL else ""
    return "dead kernel", f"the kernel died ({how})"


def _failed(notebook: Any, watch: Watch, status: str, why: str) -> NotebookFailed:
    """Return the error of a notebook, and have the notebook itself show where it ended."""
    notebook.metadata.papermill["exception"] = True
    index = watch.cell if watch.left_at is None else watch.left_at
    code = [number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    shown = index if index is not None else next(iter(code), None)  # none began: the first shows it
    if shown is not None:
        cell = notebook.cells[shown]
        # With a failed cell papermill leaves those behind it pending, else it would call them completed.
        cell.metadata.papermill.update(status="failed", exception=True)
        if cell.cell_type == "code" and not any(output.output_type == "error" for output in cell.outputs):
            cell.outputs.append(new_output("error", ename=status, evalue=why, traceback=[f"{status}: {why}"]))
    where = place(notebook, index)
    return NotebookFailed(f"{where}: {why}" if where else why, status=status)


def _says_exit(notebook: Any, index: int | None) -> bool:
    if index is None:
        return False
    outputs = notebook.cells[index].get("outputs", ())
    failed = notebook.cells[index].metadata.papermill.get("exception") is True
    return failed and any(output.get("ename") == "SystemExit" for output in outputs)


def _timer(seconds: float, work: Any, *arguments: Any) -> threading.Timer:
    timer = threading.Timer(seconds, work, arguments)
    timer.daemon = True  # nothing waits for an alarm
    timer.start()
    return timer
