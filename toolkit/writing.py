"""Files that are complete or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that is either complete or not there, also when the process is killed half-way.

    Parameters
    ----------
    path
        The file; its folder is made when it is not there.
    content
        All of its bytes.

    Returns
    -------
    Path
        The same path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)  # mkstemp makes it private; a figure is for the supervisor too
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
