"""What one process of several may send: notebooks of a batch that run at the same time share a study's limits.

A provider counts all of them together. So each gets its part: a limit that the study sets is divided, rounded down,
and one that is too small to be divided is refused, because to exceed it was not allowed.
"""

from __future__ import annotations

import os
from typing import Final

from toolkit.errors import InputError

SHARE_ENV: Final = "TOOLKIT_BATCH_SHARE"
"""Set by a batch in the surroundings of its kernels: how many of them run at the same time."""


def processes_at_once() -> int:
    """Return how many processes share the limits of a study with this one, itself included."""
    text = os.environ.get(SHARE_ENV, "1")
    return max(1, int(text)) if text.isdigit() else 1


def share_of(limit: float, what: str) -> float:
    """Return this process's part of a limit that the study sets."""
    processes = processes_at_once()
    part = limit // processes
    if processes > 1 and part < 1:
        raise InputError(
            f"{what}: {limit:g} cannot be shared by {processes} notebooks that run at the same time; run the batch "
            f"with --workers {max(1, int(limit))} or fewer"
        )
    return part if processes > 1 else limit


def share_of_default(limit: int) -> int:
    """Return this process's part of a limit that the study does not set itself: at least one request at once."""
    return max(1, limit // processes_at_once())
