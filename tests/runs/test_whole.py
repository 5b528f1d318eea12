"""A reply that is not whole is marked and treated as the study says; all calls of a run are paid for."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.models.base import Answer, Message, ModelReply, ModelRequest, Usage
from toolkit.runs.retries import ask_whole, defect_of

REQUEST = ModelRequest("scripted", "scripted", (Message("user", "Which port?"),), max_tokens=10)
EXCLUDE = dict.fromkeys(("truncated", "empty", "refused", "filtered"), "exclude")


@pytest.mark.parametrize(
    ("finish", "text", "defect"),
    [
        ("stop", "Port 22.", None),
        ("other", "Port 22.", None),
        ("length", "Port", "truncated"),
        ("length", "", "truncated"),
        ("stop", "", "empty"),
        ("other", " \n\t", "empty"),
        ("refusal", "I cannot help.", "refused"),
        ("filter", "", "filtered"),
    ],
)
def test_what_keeps_a_reply_from_being_whole(finish: str, text: str, defect: str | None) -> None:
    """The reason is the provider's own where it gives one; no text at all is empty."""
    assert defect_of(ModelReply(text, finish, Usage(1, 1), "m")) == defect


def asked(enough: int, **policies: str) -> tuple[list[int], object]:
    """Ask a model that needs ``enough`` tokens, and return the ``max_tokens`` it was asked with and the end."""
    limits: list[int] = []

    async def ask(request: ModelRequest) -> Answer:
        limits.append(request.max_tokens)
        whole = request.max_tokens >= enough
        reply = ModelReply(
            "Port 22." if whole else "Por", "stop" if whole else "length", Usage(5, request.max_tokens), "m"
        )
        return Answer(request.identity(), reply, 0.5, 1.0, 2, from_ledger=False)

    whole = asyncio.run(ask_whole(REQUEST, ask, policies={**EXCLUDE, **policies}, retries=2))
    return limits, whole


def test_a_whole_reply_is_asked_once() -> None:
    """Nothing is retried, nothing is marked."""
    limits, whole = asked(1, truncated="retry")
    assert (limits, whole.defect, whole.policy, whole.aud_cost, whole.attempts) == ([10], None, None, 0.5, 2)


@pytest.mark.parametrize("policy", ["keep", "exclude"])
def test_keep_and_exclude_ask_once_and_mark(policy: str) -> None:
    """The reply stays as it is, with its defect and what the study says of it."""
    limits, whole = asked(40, truncated=policy)
    assert (limits, whole.defect, whole.policy, whole.answer.reply.text) == ([10], "truncated", policy, "Por")


def test_retry_doubles_the_tokens_until_it_is_whole_and_counts_every_call() -> None:
    """10, 20, 40: the third is whole; the money and the attempts of all three are the run's."""
    limits, whole = asked(40, truncated="retry")
    assert (limits, whole.defect, whole.policy) == ([10, 20, 40], None, None)
    assert (whole.aud_cost, whole.attempts, whole.answer.reply.text) == (1.5, 6, "Port 22.")


def test_retry_ends_and_the_reply_is_still_marked() -> None:
    """After two retries a reply that is still cut off is not taken for a whole one."""
    limits, whole = asked(1000, truncated="retry")
    assert (limits, whole.defect, whole.policy) == ([10, 20, 40], "truncated", "retry")
