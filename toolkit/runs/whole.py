"""Whether a reply is whole, and what becomes of one that is not: kept, asked again with more tokens, or excluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolkit.models.base import Answer, Ask, ModelReply, ModelRequest

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
