"""The status record of each notebook of a batch, and the claim that lets one process at a time work on it.

papermill writes "completed" into the notebook of a dead kernel, so we trust our own record. It is a small JSON file,
written whole or not at all. Whoever runs a notebook holds the lock file beside the record: a lock dies with its
holder, so a record that says "running" and is not locked was left by a process that died, and is taken over.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from toolkit.files import write_atomically

DONE: Final = "done"
FAILED: Final = ("failed", "timeout", "dead kernel", "exited")
"""A cell raised; a time-out ended it; the kernel died; the notebook left by `sys.exit`, whatever it said."""
STATUSES: Final = ("queued", "running", DONE, *FAILED)


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


def write_record(folder: Path, record: Record) -> None:
    """Write a record; only for who holds its claim."""
    content = json.dumps(asdict(record), ensure_ascii=False, indent=1)
    write_atomically(folder / f"{record.identity}.json", content.encode())


@contextlib.contextmanager
def claim(folder: Path, identity: str) -> Iterator[bool]:
    """Claim a notebook for the time of the block; false when another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{identity}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_finished(record: Record | None, folder: Path, *, retry: bool, tried: int) -> bool:
    """Whether a notebook needs no run."""
    if record is None:
        return False
    if record.status == DONE:
        return (folder.parent / record.notebook).is_file()
    return record.status in FAILED and (not retry or record.attempts > tried)
