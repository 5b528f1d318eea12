"""One notebook of a batch: how it is run, and the record of how it stands.

The record of a planned notebook is a small JSON file, written whole or not at all, before the notebook runs and after
it. papermill writes "completed" into the notebook of a dead kernel, so the notebook is not trusted. Each notebook runs
in a process of its own, because papermill changes the folder of its whole process, and because a process that dies
takes no other with it. A process whose batch is killed brings its notebook to the end, because its calls are paid;
whoever is to run the same notebook waits for it.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import papermill
from papermill.exceptions import PapermillExecutionError
from pydantic import TypeAdapter

from toolkit.batch.engine import STOPPED, NotebookFailed, Watch, ending
from toolkit.batch.plan import Planned, changed
from toolkit.errors import ToolkitError
from toolkit.files import held, write_atomically
from toolkit.secrets import redacted, redacted_words
from toolkit.words import one_line

QUEUED = "queued"
RUNNING = "running"
COMPLETED = "done"
FAILED = ("failed", "timeout", "dead kernel", "exited")
"""A cell raised an error; a time-out ended it; the kernel died; the notebook called `sys.exit`."""
STATUSES = (QUEUED, RUNNING, COMPLETED, *FAILED)
LOOK_SECONDS = 0.3
_CODE = (
    "import sys; from toolkit.batch import cell; cell.run_cell(cell.PLANNED.validate_json(sys.stdin.read()))"
)


@dataclass(frozen=True)
class CellResult:
    """How one cell of the grid stands; ``ran`` is whether the call ran it, ``process`` its host and process."""

    parameters: Mapping[str, Any]
    status: str = QUEUED
    seconds: float | None = None
    error: str = ""
    notebook: str = ""
    ran: bool = False
    attempts: int = 0
    process: str = ""


PLANNED, _RECORD = TypeAdapter(Planned), TypeAdapter(CellResult)


def read_record(plan: Planned) -> CellResult:
    """Return how a planned cell stands: queued without a record that can be read, and where its notebook is gone."""
    with contextlib.suppress(OSError, ValueError):
        cell = _RECORD.validate_json(Path(plan.record).read_bytes())
        existing = (Path(plan.output).parent / cell.notebook).is_file()
        if cell.status in STATUSES and (existing or cell.status != COMPLETED):
            return cell
    return CellResult(plan.parameters)


def write_record(plan: Planned, cell: CellResult) -> CellResult:
    """Write how a planned cell stands, and return it."""
    write_atomically(Path(plan.record), _RECORD.dump_json(cell, indent=1))
    return cell


@contextlib.contextmanager
def locked(path: Path, notice: str = "") -> Iterator[None]:
    """Lock a file during the block; print a notice and wait while another process has locked it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        while not held(lock.fileno()):
            if notice:
                print(notice, file=sys.stderr)
            notice = ""
            time.sleep(LOOK_SECONDS)
        yield


def run_cell(plan: Planned) -> CellResult:
    """Run the notebook of a planned cell in this process, unless it is finished; its record says so before and after.

    Where another process still runs it, of a batch that was killed or a worker that died, this one waits for its end.
    """
    with locked(Path(plan.record).with_suffix(".lock")):
        cell, watch = read_record(plan), Watch()
        if cell.status not in (QUEUED, RUNNING):
            return cell
        signal.signal(signal.SIGINT, lambda *_: watch.stop(signal.SIGINT))
        signal.signal(signal.SIGTERM, lambda *_: watch.stop(signal.SIGKILL))
        began = time.monotonic()  # the wall clock may be changed while it runs
        process = f"{socket.gethostname()}:{os.getpid()}"
        cell = CellResult(plan.parameters, RUNNING, attempts=cell.attempts + 1, process=process)
        write_record(plan, cell)
        status, error = _execute(plan, watch)
        return _settle(plan, replace(cell, seconds=time.monotonic() - began), status, error)


def _execute(plan: Planned, watch: Watch) -> tuple[str, str]:
    """Run a notebook into its draft; return its status and its error."""
    # papermill would fill in parameters at the braces of a path.
    template, draft = (path.replace("{", "{{").replace("}", "}}") for path in (plan.template, _draft(plan)))
    try:
        if not (late := changed(plan.files)):
            papermill.execute_notebook(
                template,
                draft,
                parameters=plan.parameters,
                engine_name="toolkit",
                kernel_name="python3",
                language="python",  # a notebook written by hand may not name it
                progress_bar=False,
                cwd=plan.folder,
                execution_timeout=plan.cell_timeout,
                notebook_timeout=plan.timeout,
                watch=watch,
            )
            late = changed(plan.files)
    except NotebookFailed as error:
        return (QUEUED, "") if error.status == STOPPED else (error.status, str(error))
    except PapermillExecutionError as error:
        return "failed", f"In [{error.exec_count}]: {error.ename}: {error.evalue}"
    except Exception as error:  # of papermill, the kernel or the disk: it ends this notebook only
        return "failed", f"{type(error).__name__}: {error}"
    return (
        ("failed", f"{late} was changed after the batch began; call the batch again")
        if late
        else (COMPLETED, "")
    )


def _settle(plan: Planned, cell: CellResult, status: str, error: str) -> CellResult:
    """Name the file of a notebook by how it ended, and write its record."""
    output, draft = Path(plan.output), Path(_draft(plan))
    failed = output.with_suffix(".failed.ipynb")
    final = output if status == COMPLETED else failed
    if draft.exists():  # a cell may have printed the environment
        write_atomically(final, redacted(draft.read_text(encoding="utf-8")).encode())
        draft.unlink()
    if final is output:
        failed.unlink(missing_ok=True)  # of an earlier attempt
    colourless = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", error)
    line = one_line(redacted_words(colourless), 300)
    notebook = final.name if final.exists() else ""
    return write_record(plan, replace(cell, status=status, error=line, notebook=notebook))


def _draft(plan: Planned) -> str:
    """Return the file of a notebook while it runs."""
    return str(Path(plan.output).with_suffix(f".{RUNNING}.ipynb"))


def run_in_process(plan: Planned, at_once: int, processes: list[Any]) -> CellResult:
    """Run a cell in a process of its own, which is added to a list; one that dies fails its own notebook only."""
    from toolkit.runs.gateway import SHARE_ENV

    # Plain lines of progress, and a share of the limits for each notebook.
    environment = os.environ | {"TOOLKIT_BATCH": "1", SHARE_ENV: str(at_once)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C is passed on by the batch
        )
        processes.append(process)
        process.communicate(PLANNED.dump_json(plan))
        log.seek(0)
        last = log.read()[-200:].decode(errors="replace")
    cell = read_record(plan)
    reason = f"the process that ran it died ({ending(process.returncode)}) {last}".strip()
    if process.returncode and cell.status == QUEUED:
        raise ToolkitError(one_line(f"a notebook did not begin: {reason}", 300))
    if process.returncode and cell.status == RUNNING:
        return _settle(plan, cell, "failed", reason)
    return cell
