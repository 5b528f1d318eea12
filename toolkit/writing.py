"""Files that are complete or not there."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from toolkit.leftovers import held, left, mark


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that is either complete or not there, also when the process is killed half-way.

    What a killed process left in the folder is removed by the next one that writes there; see `toolkit.leftovers`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.absolute())
    with _draft(path) as (stream, draft):
        stream.write(content)
        stream.flush()
        draft.chmod(0o644)  # mkstemp makes it private; a figure is for the supervisor too
        draft.replace(path)
    return path


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Yield a new file beside another one, held until it has its name; it is removed when it comes to none."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{mark()}-")
        with os.fdopen(handle, "wb") as stream:
            if not held(handle):
                continue
            try:
                yield stream, Path(name)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            return


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder: once in a process, for it may hold 100,000 records."""
    for draft in left(folder, rf"\..+\.{mark()}-[a-z0-9_]{{8}}"):
        with contextlib.suppress(OSError):  # whoever writes has no part in it
            draft.unlink()
