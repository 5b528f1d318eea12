"""One repair at the most: the judge sees its own words and what is wrong with them."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.errors import BudgetReached, ModelError
from toolkit.judges.parse import Unreadable
from toolkit.judges.request import ask_and_read, repair_request
from toolkit.models.base import Answer, Message, ModelReply, ModelRequest, Usage

REQUEST = ModelRequest("scripted", "m", (Message("system", "rules"), Message("user", "Say yes.")), repeat=3)


def read(text: str, end: str) -> str:
    """Read a reply that is to be the one word yes."""
    if text != "yes":
        raise Unreadable(text or "empty", "not yes")
    return text


def heard(*replies: str | BaseException, repair: bool = True):
    left, asked = list(replies), []

    async def ask(request: ModelRequest) -> Answer:
        asked.append(request)
        reply = left.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        kept = ModelReply(reply, "stop", Usage(1, 1), "m")
        return Answer(request.identity(), kept, 0.5, 10.0, 1, False)

    return asyncio.run(ask_and_read(REQUEST, read, ask, repair=repair)), asked


def test_a_readable_reply_is_asked_for_once():
    found, asked = heard("yes")
    assert (found.reason, len(found.answers), asked) == (None, 1, [REQUEST])


def test_an_unreadable_reply_is_asked_for_once_more_with_its_error():
    found, asked = heard("no", "yes")
    assert (found.reason, len(found.answers)) == (None, 2)
    assert asked[1].messages[:2] == REQUEST.messages
    assert asked[1].messages[2] == Message("assistant", "no")
    assert "no: not yes" in asked[1].messages[3].content
    assert asked[1].repeat == 3
    assert found.call_id == REQUEST.identity()


def test_never_more_than_once():
    found, asked = heard("no", "never")
    assert (len(asked), found.reason) == (2, "never: not yes; first: no: not yes")


def test_without_repair_the_first_word_is_the_last():
    found, asked = heard("no", repair=False)
    assert (len(asked), found.reason) == (1, "no: not yes")


@pytest.mark.parametrize("word", ["refusal", "filtered"])
def test_who_will_not_answer_is_not_talked_into_it(word):
    found, asked = heard(word)
    assert (len(asked), found.reason) == (1, f"{word}: not yes")


def test_an_empty_reply_has_no_turn_of_its_own():
    """Anthropic refuses an empty turn of the assistant."""
    reply = ModelReply("  ", "stop", Usage(1, 0), "m")
    roles = [message.role for message in repair_request(REQUEST, reply, "empty").messages]
    assert roles == ["system", "user", "user"]


def test_no_answer_is_a_reason_and_no_answer_to_the_repair_another():
    found, _ = heard(ModelError("gone", reason="timeout"))
    assert (found.read, found.reason, found.answers) == (None, "timeout: gone", ())
    found, _ = heard("no", ModelError("gone", reason="timeout"))
    assert found.reason == "unanswered: the repair: timeout: gone; first: no: not yes"
    assert len(found.answers) == 1


def test_a_reached_budget_is_nobody_s_failure():
    with pytest.raises(BudgetReached):
        heard("no", BudgetReached("no money"))
