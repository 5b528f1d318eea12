"""How often a call is tried, and which failures leave it open whether the provider sends a bill."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

UNSURE: Final = ("timeout", "connection", "malformed_body", "cancelled")
"""Reasons of attempts that were sent and brought nothing readable: the provider may have answered, and billed."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a call is tried: exponential backoff with full jitter under one deadline."""

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    deadline: float = 600.0

    def wait(self, attempt: int, retry_after: float | None, jitter: random.Random) -> float:
        """Return the seconds to wait after attempt number ``attempt`` (1 is the first)."""
        backoff = jitter.uniform(0, min(self.longest_wait, self.first_wait * 2 ** (attempt - 1)))
        return max(backoff, retry_after or 0.0)
