"""The process that runs notebooks, one after the other: an order a line on standard input, a reply a line back.

papermill is not safe in threads: it changes the folder of its whole process. So each worker is a process that imports
papermill once. It claims a notebook, runs it, and writes its record itself, so that nothing is done twice when the one
who ordered it dies: then the worker brings the notebook under way to its end, for its calls are paid, and ends.
SIGTERM stops it, as Ctrl-C stops a notebook; a second one at once.

papermill writes "completed" into the notebook of a dead kernel, so we trust our own record. It is a small JSON file,
written whole or not at all. Whoever runs a notebook holds the lock file beside the record: a lock dies with its
holder, so a record that says "running" and is not locked was left by a process that died, and is taken over.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

from toolkit.files import write_atomically

DONE: Final = "done"
FAILED: Final = ("failed", "timeout", "dead kernel", "exited")
"""A cell raised; a time-out ended it; the kernel died; the notebook left by `sys.exit`, whatever it said."""
STATUSES: Final = ("queued", "running", DONE, *FAILED)
_LATE = "{} was changed after the batch began; call the batch again"


@dataclass(frozen=True)
class Order:
    """One notebook to run, in plain values, for it travels to other processes; without ``records`` nothing is kept."""

    template: str
    output: str
    parameters: Mapping[str, Any]
    folder: str
    timeout: float | None = None
    cell_timeout: float | None = None
    identity: str = ""
    records: str = ""
    retry: bool = False
    tried: int = 0
    toolkit: str = ""
    more: bool = False
    copy: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What became of an order; besides the statuses of records ``stopped``, and ``taken`` when another has it."""

    status: str
    notebook: str = ""
    error: str = ""
    ran: bool = False


@dataclass(frozen=True)
class Record:
    """How one notebook of a batch stands."""

    identity: str
    status: str = "queued"
    template: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notebook: str = ""
    error: str = ""
    seconds: float | None = None
    began: float | None = None
    ended: float | None = None
    attempts: int = 0
    process: str = ""
    toolkit: str = ""


def read_record(folder: Path, identity: str) -> Record | None:
    """Return the record of a notebook; ``None`` where there is none, or none that can be read."""
    names = {known.name for known in fields(Record)}
    try:
        content = json.loads((folder / f"{identity}.json").read_text(encoding="utf-8"))
        record = Record(**{name: value for name, value in content.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return record if record.identity == identity and record.status in STATUSES else None


def write_record(order: Order, record: Record) -> None:
    """Write a record; only for who holds its claim."""
    content = json.dumps(asdict(record), ensure_ascii=False, indent=1)
    write_atomically(Path(order.records) / f"{record.identity}.json", content.encode())


def finished(order: Order) -> Reply | None:
    """Return how a notebook ended that needs no run: done, or failed and not to be tried again."""
    folder = Path(order.records)
    known = read_record(folder, order.identity) or Record(order.identity)
    notebook = folder.parent / known.notebook
    done = known.status == DONE and notebook.is_file()
    failed = known.status in FAILED and (not order.retry or known.attempts > order.tried)
    return Reply(known.status, str(notebook), known.error) if done or failed else None


@contextlib.contextmanager
def claim(order: Order) -> Iterator[Reply | None]:
    """Claim a notebook for the time of the block; a reply says that another process has it, or is through with it."""
    folder = Path(order.records)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{order.identity}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield Reply("taken")
        else:
            yield finished(order)


def fulfil(order: Order, under: Under | None = None) -> Reply:
    """Run a notebook unless it is finished or another process has it, and keep its record."""
    if not order.records:
        return _execute(order, under)
    with claim(order) as settled:
        if settled:
            return settled
        known = read_record(Path(order.records), order.identity)
        clock = time.monotonic()  # the other may be set while it runs
        record = Record(
            identity=order.identity,
            status="running",
            template=order.template,
            parameters=order.parameters,
            began=time.time(),
            attempts=(known.attempts if known else 0) + 1,
            process=f"{socket.gethostname()}:{os.getpid()}",
            toolkit=order.toolkit,
        )
        write_record(order, record)
        reply = _execute(order, under)
        _end(order, record, reply, time.monotonic() - clock)
        return reply


def settle_failed(order: Order, error: str) -> Reply:
    """Record that a notebook failed without a word of its own, unless another process has it or is through with it."""
    if not order.records:
        return Reply("failed", _kept_as_failed(order), error, ran=True)
    ended = time.time()
    with claim(order) as settled:
        if settled:
            return settled
        known = read_record(Path(order.records), order.identity) or Record(order.identity)
        reply = Reply("failed", _kept_as_failed(order), error, ran=True)
        _end(order, known, reply, max(0.0, ended - known.began) if known.began else None)
        return reply


def _end(order: Order, record: Record, reply: Reply, seconds: float | None) -> None:
    status = "queued" if reply.status == "stopped" else reply.status
    notebook = os.path.relpath(reply.notebook, Path(order.records).parent) if reply.notebook else ""
    ended = replace(record, status=status, notebook=notebook, error=reply.error, seconds=seconds)
    write_record(order, replace(ended, ended=time.time()))


def _execute(order: Order, under: Under | None) -> Reply:
    """Run a notebook into its draft, and name the file by how it ended."""
    import papermill
    from papermill.engines import papermill_engines
    from papermill.exceptions import PapermillExecutionError

    from toolkit.batch.engine import Ahead, NotebookFailed, ToolkitEngine, Watch, one_line
    from toolkit.batch.plan import changed

    papermill_engines.register("toolkit", ToolkitEngine)
    output, draft, failed = _files(order)
    output.parent.mkdir(parents=True, exist_ok=True)
    watch = Watch()
    if under is not None:
        under.ahead = under.ahead or Ahead()
        under.watch = watch
        if under.stopping:
            return Reply("stopped")
    if late := changed(order.files):
        return Reply("failed", error=one_line(_LATE.format(late)), ran=True)
    try:
        papermill.execute_notebook(
            _literally(order.copy or order.template),
            _literally(str(draft)),
            parameters=dict(order.parameters),
            engine_name="toolkit",
            kernel_name="python3",
            language="python",  # a notebook written by hand may not say
            progress_bar=False,
            cwd=order.folder,
            execution_timeout=order.cell_timeout,
            notebook_timeout=order.timeout,
            watch=watch,
            ahead=under.ahead if under is not None else None,
            more=order.more,
        )
    except NotebookFailed as error:
        status, said = error.status, str(error)
    except PapermillExecutionError as error:
        status, said = "failed", f"In [{error.exec_count}]: {error.ename}: {error.evalue}"
    except Exception as error:  # of papermill, the kernel or the disk: the end of this notebook only
        status, said = "failed", f"{type(error).__name__}: {error}"
    else:
        late = changed(order.files)
        if not late:
            draft.replace(output)
            failed.unlink(missing_ok=True)  # what failed before has been made good
            return Reply(DONE, str(output), ran=True)
        status, said = "failed", _LATE.format(late)
    finally:
        if under is not None:
            under.watch = None
    return Reply(status, _kept_as_failed(order), one_line(said), ran=True)


def _kept_as_failed(order: Order) -> str:
    """Name what there is of a notebook that did not come to its end as one that failed, and return the file."""
    _, draft, failed = _files(order)
    if draft.exists():
        draft.replace(failed)
    return str(failed) if failed.exists() else ""


def _files(order: Order) -> tuple[Path, Path, Path]:
    """Return the file of the executed notebook, that while it runs, and that of one that failed."""
    output = Path(order.output)
    draft, failed = (output.with_name(f"{output.stem}.{how}.ipynb") for how in ("running", "failed"))
    return output, draft, failed


def _literally(path: str) -> str:
    """Return a path as papermill is to be given it: it would fill in parameters where it finds braces."""
    return path.replace("{", "{{").replace("}", "}}")


@dataclass
class Under:
    """What is under way in this process, and whether it is to end."""

    watch: Any = None
    ahead: Any = None
    busy: bool = False
    stopping: bool = False


def main() -> None:
    """Fulfil orders until there are no more."""
    import logging

    from toolkit.batch.template import light_nbformat

    # What anything prints in this process must not stand between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    under = Under()

    def stop(number: int, frame: FrameType | None) -> None:
        under.stopping = True
        if under.watch is not None:
            under.watch.stop()
        elif not under.busy:
            raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    light_nbformat()  # before papermill imports it
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    try:
        for line in sys.stdin:
            under.busy = True  # from here to the record nothing may break off
            reply = fulfil(Order(**json.loads(line)), under)
            under.busy = False
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(asdict(reply)), file=replies, flush=True)
            if under.stopping:
                break
    finally:  # also when it was stopped while it had nothing to do
        if under.ahead is not None:
            under.ahead.end()
    with contextlib.suppress(BrokenPipeError):
        replies.close()
