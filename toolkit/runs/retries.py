"""How often a call is tried, and what becomes of a reply that is not whole: kept, asked again, or excluded."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from toolkit.models.base import Answer, Ask, ModelReply, ModelRequest

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


_FINISHES = {"length": "truncated", "filter": "filtered", "refusal": "refused"}


@dataclass(frozen=True)
class Whole:
    """What one run ended with."""

    answer: Answer
    aud_cost: float
    attempts: int
    defect: str | None = None
    policy: str | None = None


def defect_of(reply: ModelReply) -> str | None:
    """Return what keeps a reply from being whole: truncated, filtered, refused or empty; ``None`` when nothing does."""
    return _FINISHES.get(reply.finish_reason) or (None if reply.text.strip() else "empty")


async def ask_whole(request: ModelRequest, ask: Ask, *, policies: Mapping[str, str], retries: int) -> Whole:
    """Ask until the reply is whole, as far as the study wants it."""
    answers = [await ask(request)]
    while (
        (defect := defect_of(answers[-1].reply)) and policies[defect] == "retry" and len(answers) <= retries
    ):
        request = replace(request, max_tokens=2 * request.max_tokens)
        answers.append(await ask(request))
    return Whole(
        answers[-1],
        aud_cost=sum(answer.aud_cost for answer in answers),
        attempts=sum(answer.attempts for answer in answers),
        defect=defect,
        policy=policies[defect] if defect else None,
    )
