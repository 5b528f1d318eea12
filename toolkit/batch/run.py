"""Runs a batch: a template over a grid of parameters, each notebook once, from the first check to the summary.

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
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import papermill
from papermill.exceptions import PapermillExecutionError
from pydantic import TypeAdapter

from toolkit.batch.cluster import connected
from toolkit.batch.engine import STOPPED, NotebookFailed, Watch, ending
from toolkit.batch.grid import grid_cells
from toolkit.batch.plan import Planned, changed, plan_batch
from toolkit.batch.result import COMPLETED, FAILED, QUEUED, RUNNING, STATUSES, BatchResult, CellResult
from toolkit.batch.template import check_parameters
from toolkit.errors import InputError, ToolkitError, redacted, redacted_words
from toolkit.files.writing import try_lock, write_atomically
from toolkit.report.manifest import claim_folder
from toolkit.runs.progress import Progress
from toolkit.words import one_line

LOOK_SECONDS = 0.3
STOP_SECONDS = 15.0
"""Seconds that notebooks have to stop: the replies to calls under way are still received and saved."""
PLANNED, _RECORD = TypeAdapter(Planned), TypeAdapter(CellResult)
_CODE = "import sys; from toolkit.batch import run; run.run_cell(run.PLANNED.validate_json(sys.stdin.read()))"


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
    tables = grid if isinstance(grid, Mapping) else Path(grid)
    folder, name, location = Path.cwd(), template.stem, "grid"
    if isinstance(tables, Path):
        folder, name, location = tables.parent.resolve(), tables.stem, str(tables)
    cells = grid_cells(tables)
    output = Path(out).resolve() if out else folder / "results" / "batches" / name
    limits = {"timeout": timeout, "cell_timeout": cell_timeout}
    for option, number in {"workers": workers, **limits}.items():
        if number is not None and not number > 0:
            raise InputError(f"{option}: {number} would run nothing; give a number above 0, or leave it out")
    batch = plan_batch(template, cells, folder, location, output, **limits)
    claim_folder(f"batch {template.stem}", output)
    settled = (COMPLETED,) if retry else (COMPLETED, *FAILED)
    try:
        lock = output / "records" / "batch.lock"
        with locked(lock, f"{output}: waiting for another call that runs a batch there"):
            before = list(map(read_record, batch.cells))
            states = zip(batch.cells, before, strict=True)
            if pending := [plan for plan, cell in states if cell.status not in settled]:
                write_atomically(batch.copy, batch.content.encode())
                _run_all(pending, workers, cluster, output, progress)
            after = zip(map(read_record, batch.cells), before, strict=True)
            results = tuple(replace(now, ran=now.attempts > then.attempts) for now, then in after)
            seconds = time.monotonic() - began
            result = BatchResult(template.stem, output, results, seconds, batch.reads_store)
            result.write()
    except OSError as error:
        raise ToolkitError(
            f"{error.filename or output}: {error.strerror or error}; mend that, or give another folder by --out "
            "(in Python: out=...), and the same call goes on from here"
        ) from error
    return result


def run_templates(jobs: Sequence[tuple[Path, Path, Mapping[str, Any]]]) -> tuple[Path, ...]:
    """Execute templates with parameters, also those that were run before, and return the notebooks."""
    with tempfile.TemporaryDirectory() as records:
        plans = []
        for number, (template, output, arguments) in enumerate(jobs):
            parameters, target = check_parameters(template, arguments), output.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            files = str(template.resolve()), str(target.parent), str(target), f"{records}/{number}.json"
            plans.append(Planned(parameters, *files))
        _run_all(plans, 2)
        for plan, cell in zip(plans, map(read_record, plans), strict=True):
            if cell.status != COMPLETED:
                problem = f"did not run to its end: {cell.status}: {cell.error}"
                hint = f"; see {plan.folder}/{cell.notebook}" if cell.notebook else ""
                raise ToolkitError(f"{Path(plan.template).name}: {problem}{hint}")
    return tuple(output for _, output, _ in jobs)


def _run_all(
    plans: Sequence[Planned],
    workers: int | None,
    cluster: str | None = None,
    folder: Path = Path(),
    progress: bool = False,
) -> None:
    """Run planned cells, some at once, in processes of this machine or on a cluster."""
    with contextlib.ExitStack() as stack:
        if cluster:
            pool, work, threads = stack.enter_context(connected(cluster, folder, run_in_process))
        else:
            work, threads = run_in_process, len(os.sched_getaffinity(0))
            pool = stack.enter_context(ThreadPoolExecutor(workers or threads))
        at_once = workers or threads
        for plan, cell in zip(plans, map(read_record, plans), strict=True):
            if cell.status != RUNNING:  # its process, of a batch that was killed, may still write the record
                write_record(plan, replace(cell, status=QUEUED, error=""))
        if threading.current_thread() is threading.main_thread():  # SIGTERM stops as Ctrl-C does
            stack.callback(
                signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler)
            )
        bar = Progress("notebooks", len(plans), shown=progress, money=False)
        stack.callback(bar.close)
        processes: list[Any] = []
        waiting, futures = iter(plans), set[Future[CellResult]]()
        try:
            while futures := futures | {
                pool.submit(work, plan, at_once, processes)
                for plan in islice(waiting, at_once - len(futures))
            }:
                done, futures = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    bar.fail("notebooks", int(future.result().status in FAILED))
                    bar.step()
        except BaseException:
            # As Ctrl-C does; those that do not stop are killed, at once after a second Ctrl-C.
            for number in (signal.SIGINT, signal.SIGTERM):
                for process in processes:
                    process.send_signal(number)
                for future in futures:  # on a cluster: what runs there goes on to its end
                    future.cancel()
                with contextlib.suppress(KeyboardInterrupt):
                    wait(futures, STOP_SECONDS)
            raise


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
        while not try_lock(lock.fileno()):
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
    paths = (plan.template, str(_draft(plan)))
    template, draft = (path.replace("{", "{{").replace("}", "}}") for path in paths)
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
    if late:
        return "failed", f"{late} was changed after the batch began; call the batch again"
    return COMPLETED, ""


def _settle(plan: Planned, cell: CellResult, status: str, error: str) -> CellResult:
    """Name the file of a notebook by how it ended, and write its record."""
    output, draft = Path(plan.output), _draft(plan)
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


def _draft(plan: Planned) -> Path:
    """Return the file of a notebook while it runs."""
    return Path(plan.output).with_suffix(f".{RUNNING}.ipynb")


def run_in_process(plan: Planned, at_once: int, processes: list[Any]) -> CellResult:
    """Run a cell in a process of its own, which is added to a list; one that dies fails its own notebook only."""
    from toolkit.runs.gateway import SHARE_ENV  # the process of a cell does not need it

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
