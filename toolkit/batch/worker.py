"""The process that runs notebooks, one after the other: an order a line on standard input, a reply a line back.

papermill is not safe in threads: it changes the folder of its whole process. So each worker is a process that imports
papermill once. It claims a notebook, runs it, and writes its record itself, so that nothing is done twice when the one
who ordered it dies: then the worker brings the notebook under way to its end, for its calls are paid, and ends.
SIGTERM stops it, as Ctrl-C stops a notebook; a second one at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from toolkit.batch.records import DONE, Record, claim, is_finished, read_record, write_record


@dataclass(frozen=True)
class Order:
    """One notebook to run; plain values only, for it travels to other processes."""

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
    """What became of an order."""

    status: str
    notebook: str = ""
    error: str = ""
    ran: bool = False


_LATE = "{} was changed after the batch began; call the batch again"


@dataclass
class _Under:
    """What is under way in this process, and whether it is to end."""

    watch: Any = None
    ahead: Any = None
    busy: bool = False
    stopping: bool = False


def fulfil(order: Order, under: _Under | None = None) -> Reply:
    """Run a notebook unless it is finished or another process has it, and keep its record."""
    if not order.records:
        return _execute(order, under)
    folder = Path(order.records)
    with claim(folder, order.identity) as mine:
        if not mine:
            return Reply("taken")
        known = read_record(folder, order.identity)
        if known is not None and is_finished(known, folder, retry=order.retry, tried=order.tried):
            return Reply(known.status, str(folder.parent / known.notebook), known.error)
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
        write_record(folder, record)
        reply = _execute(order, under)
        write_record(
            folder,
            replace(
                record,
                status="queued" if reply.status == "stopped" else reply.status,
                notebook=os.path.relpath(reply.notebook, folder.parent) if reply.notebook else "",
                error=reply.error,
                ended=time.time(),
                seconds=time.monotonic() - clock,
            ),
        )
        return reply


def _execute(order: Order, under: _Under | None) -> Reply:
    """Run a notebook into its draft, and name the file by how it ended."""
    import papermill
    from papermill.engines import papermill_engines
    from papermill.exceptions import PapermillExecutionError

    from toolkit.batch.ahead import Ahead
    from toolkit.batch.engine import NotebookFailed, ToolkitEngine, Watch, one_line
    from toolkit.batch.sources import changed

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
    except (
        Exception
    ) as error:  # whatever papermill, the kernel or the disk raise is the end of this notebook only
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
    return Reply(status, kept_as_failed(order), one_line(said), ran=True)


def kept_as_failed(order: Order) -> str:
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


def main() -> None:
    """Fulfil orders until there are no more."""
    import logging

    from toolkit.batch.template import light_nbformat

    # What anything prints in this process must not stand between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    under = _Under()

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


if __name__ == "__main__":
    main()
