"""One judge on one answer: asked k times whether it is a hallucination, and what the readable replies say together.

Self-consistency after seed 004: the same question is put k times, and the score is the share of yes. A reply that
cannot be read is missing and is not asked for again with its error shown, as rubric judges are: a vote that was
talked to would not be one of k equal draws.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolkit.errors import InputError, ModelError
from toolkit.judges.ask import JudgeSpec
from toolkit.judges.hallucination_prompts import Mode, conversation
from toolkit.judges.hallucination_read import Vote, read_vote
from toolkit.judges.labelled import LabelledItem
from toolkit.models.base import Answer, Ask, ModelRequest

MOST_VOTES: Final = 1000
"""Largest k; also the distance between the repeat indices of two judges that are one model, so that their calls
stay apart whatever their k."""
SPLIT: Final = "split"
"""Why there is no decision when the score is exactly one half."""


@dataclass(frozen=True)
class HallucinationVerdict:
    """What one judge made of one answer."""

    item_id: str
    judge: str
    model: str
    mode: Mode
    decision: bool | None
    score: float | None
    explanation: str | None
    k: int
    unreadable: int
    votes: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    aud_cost: float
    call_ids: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """Why there is no decision: ``split``, or the reasons of the votes; ``None`` when there is one."""
        if self.decision is not None:
            return None
        return SPLIT if self.score is not None else "; ".join(dict.fromkeys(map(str, self.reasons)))


def hallucination_requests(
    item: LabelledItem,
    judge: JudgeSpec,
    mode: Mode = "cot",
    k: int = 5,
    temperature: float | None = 0.5,
    max_tokens: int = 256,
    top_p: float | None = 1.0,
) -> tuple[ModelRequest, ...]:
    """Return the k requests that put one answer to one judge; they differ in repeat index and seed alone.

    Examples
    --------
    >>> item = LabelledItem("a", "Which port is SSH?", "Port 22.")
    >>> requests = hallucination_requests(item, JudgeSpec("primary", "demo", "scripted", "echo"), k=3)
    >>> [request.repeat for request in requests], len(requests[0].messages)
    ([0, 1, 2], 3)
    """
    if not 1 <= k <= MOST_VOTES:
        raise InputError(f"k is {k}: a hallucination judge is asked 1 to {MOST_VOTES} times, 5 by default")
    messages = conversation(item, mode, judge.seed)
    seed = judge.seed if judge.seed_supported else None
    first = judge.repeat * MOST_VOTES
    if judge.temperature is None:
        temperature = top_p = None
    return tuple(
        ModelRequest(
            provider=judge.provider,
            model=judge.model,
            messages=messages,
            temperature=temperature,
            max_tokens=max_tokens,
            top_p=top_p,
            seed=None if seed is None else seed + repeat,
            endpoint=judge.endpoint,
            repeat=repeat,
        )
        for repeat in range(first, first + k)
    )


async def judge_hallucination(
    item: LabelledItem,
    *,
    judge: JudgeSpec,
    ask: Ask,
    mode: Mode = "cot",
    k: int = 5,
    temperature: float | None = 0.5,
    max_tokens: int = 256,
    top_p: float | None = 1.0,
) -> HallucinationVerdict:
    """Ask one judge k times about one answer."""
    requests = hallucination_requests(item, judge, mode, k, temperature, max_tokens, top_p)
    said = await asyncio.gather(*(ask(request) for request in requests), return_exceptions=True)
    answers: list[Answer | ModelError] = []
    for one in said:
        if isinstance(one, BaseException) and not isinstance(one, ModelError):
            raise one
        answers.append(one)
    return _verdict(item, judge, mode, requests, answers)


def _verdict(
    item: LabelledItem,
    judge: JudgeSpec,
    mode: Mode,
    requests: Sequence[ModelRequest],
    answers: Sequence[Answer | ModelError | None],
) -> HallucinationVerdict:
    votes = [_vote(answer, mode) for answer in answers]
    values = [vote.value for vote in votes if vote.value is not None]
    score = statistics.fmean(values) if values else None
    decision = None if score is None else _side(score)
    agreeing = (vote for vote in votes if vote.value is not None and _side(vote.value) is decision)
    explained = None if decision is None else next(agreeing, None)
    return HallucinationVerdict(
        item_id=item.item_id,
        judge=judge.role,
        model=judge.name,
        mode=mode,
        decision=decision,
        score=score,
        explanation=None if explained is None else explained.explanation,
        k=len(requests),
        unreadable=len(votes) - len(values),
        votes=tuple(vote.value for vote in votes),
        reasons=tuple(vote.reason for vote in votes),
        aud_cost=math.fsum(answer.aud_cost for answer in answers if isinstance(answer, Answer)),
        call_ids=tuple(request.identity() for request in requests),
    )


def _vote(answer: Answer | ModelError | None, mode: Mode) -> Vote:
    if answer is None:
        return Vote(None, "not answered")
    if isinstance(answer, ModelError):
        return Vote(None, f"{answer.reason}: {answer}")
    return read_vote(answer.reply.text, mode, answer.reply.finish_reason)


def _side(score: float) -> bool | None:
    """Return on which side of one half a score is; a sum of tenths is not exactly what it should be."""
    return None if math.isclose(score, 0.5, abs_tol=1e-9) else score > 0.5
