"""The record of each notebook of a batch: a small JSON file, written whole or not at all, with a lock file beside it.

papermill writes "completed" into the notebook of a dead kernel, so it is not trusted. A lock dies with its holder: a
record that says "running" and is not locked was left by a process that died, and is taken over.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from toolkit.files import parsed, write_atomically
from toolkit.secrets import redacted, redacted_words
from toolkit.words import one_line

QUEUED = "queued"
RUNNING = "running"
COMPLETED = "done"
FAILED = ("failed", "timeout", "dead kernel", "exited")
"""A cell raised an error; a time-out ended it; the kernel died; the notebook called `sys.exit`."""
STATUSES = (QUEUED, RUNNING, COMPLETED, *FAILED)
LOOK_SECONDS = 0.3
AT_ONCE = "now"  # in the stop file: kill notebooks instead of interrupting them
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Record:
    """How one notebook of a batch stands."""

    identity: str
    status: str = QUEUED
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
    batch: str = ""


@dataclass(frozen=True)
class Order:
    """One notebook to run, in plain values that travel to other processes, and access to its record."""

    template: str
    output: str
    parameters: Mapping[str, Any]
    folder: str
    identity: str
    records: str
    batch: str
    timeout: float | None = None
    cell_timeout: float | None = None
    toolkit: str = ""
    copy: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def draft(self) -> Path:
        """The file of the notebook while it runs."""
        return Path(self.output).with_suffix(f".{RUNNING}.ipynb")

    def waiting(self, attempts: int) -> Record:
        """Return the record of a notebook that waits."""
        names = (self.identity, QUEUED, self.template, self.parameters)
        return Record(*names, attempts=attempts, toolkit=self.toolkit)

    def read(self) -> Record:
        """Return the record; one that waits where there is none or it cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            text = (Path(self.records) / f"{self.identity}.json").read_text(encoding="utf-8")
            record = Record(**parsed(json.loads, text))
            if record.identity == self.identity and record.status in STATUSES:
                return record
        return Record(self.identity)

    def write(self, record: Record) -> None:
        """Write the record; the caller must hold the claim."""
        content = json.dumps(asdict(record), ensure_ascii=False, indent=1)
        write_atomically(Path(self.records) / f"{self.identity}.json", content.encode())

    @property
    def stop(self) -> Path:
        """The file that stops the notebooks of the batch."""
        return Path(self.records) / f"batch-{self.batch}.stop"

    def is_finished(self, record: Record | None = None) -> bool:
        """Return whether the notebook is done and there, or has failed."""
        record = record or self.read()
        completed = record.status == COMPLETED and (Path(self.records).parent / record.notebook).is_file()
        return completed or record.status in FAILED

    def is_running(self) -> bool:
        """Return whether a process runs the notebook."""
        with self.claimed() as free:
            return not free

    @contextlib.contextmanager
    def claimed(self) -> Iterator[bool]:
        """Lock the notebook during the block; false where another process holds it."""
        Path(self.records).mkdir(parents=True, exist_ok=True)
        with (Path(self.records) / f"{self.identity}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def settle(self, status: str, error: str, record: Record) -> None:
        """Name the file by its status and write the record; the caller must hold the claim."""
        output = Path(self.output)
        failed = output.with_suffix(".failed.ipynb")
        final, ended, seconds = output if status == COMPLETED else failed, time.time(), record.seconds
        if self.draft.exists():  # a cell may have printed the environment
            write_atomically(self.draft, redacted(self.draft.read_text(encoding="utf-8")).encode())
            self.draft.replace(final)
        if final is output:
            failed.unlink(missing_ok=True)  # of an earlier attempt
        if record.began and seconds is None:
            seconds = max(0.0, ended - record.began)  # the clock may have been set back
        relative = os.path.relpath(final, Path(self.records).parent) if final.exists() else ""
        error = one_line(redacted_words(_COLOURS.sub("", error)), 300)
        self.write(
            replace(record, status=status, notebook=relative, seconds=seconds, ended=ended, error=error)
        )


def ending(code: int | None) -> str:
    """Return in words how a process ended."""
    return f"signal {-code}, {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
