"""Ask a judge and read what it says; one that cannot be read is shown its error and asked once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from toolkit.errors import ModelError
from toolkit.models.base import Answer, Ask, Message, ModelReply, ModelRequest

REPAIR: Final = (
    "Your reply cannot be read: {reason}. Answer once more, about the same material, in exactly the form that was "
    "asked for and with nothing before or after it. Be brief."
)
"""What a judge is told of its error. What it wrote stands before, in its own turn."""
NOT_REPAIRED: Final = ("refusal", "filtered")
"""A model that will not answer is not talked into it."""
UNANSWERED: Final = "unanswered"
"""What the reason of a judgement starts with when not all of its requests got a reply: asking again may help."""


class Readable(Protocol):
    """What a reply was read as; ``reason`` says why there is nothing in it, ``None`` when there is."""

    @property
    def reason(self) -> str | None:
        """Why there is nothing, or ``None``."""
        ...


T = TypeVar("T", bound=Readable)


@dataclass(frozen=True)
class Heard(Generic[T]):
    """What one judge said, after one repair at the most."""

    read: T | None
    reason: str | None
    answers: tuple[Answer, ...]
    call_id: str

    @property
    def aud_cost(self) -> float | None:
        """What the answers cost together, in AUD; ``None`` when none came."""
        return sum(answer.aud_cost for answer in self.answers) if self.answers else None


async def hear(
    request: ModelRequest, read: Callable[[ModelReply], T], ask: Ask, *, repair: bool = True
) -> Heard[T]:
    """Ask a judge, read its reply, and where that fails ask once more with the error shown."""
    call_id = request.identity()
    try:
        answer = await ask(request)
    except ModelError as error:
        return Heard(None, f"{error.reason}: {error}", (), call_id)
    first = read(answer.reply)
    if first.reason is None or not repair or first.reason.startswith(NOT_REPAIRED):
        return Heard(first, first.reason, (answer,), call_id)
    try:
        second_answer = await ask(repair_request(request, answer.reply, first.reason))
    except ModelError as error:
        reason = f"{UNANSWERED}: the repair: {error.reason}: {error}; first: {first.reason}"
        return Heard(first, reason, (answer,), call_id)
    second = read(second_answer.reply)
    still = None if second.reason is None else f"{second.reason}; first: {first.reason}"
    return Heard(second, still, (answer, second_answer), call_id)


def repair_request(request: ModelRequest, reply: ModelReply, reason: str) -> ModelRequest:
    """Return the request that shows a judge its unreadable reply and says what is wrong with it.

    Examples
    --------
    >>> from toolkit.models.base import Usage
    >>> request = ModelRequest("scripted", "echo", (Message("user", "Score it."),))
    >>> again = repair_request(request, ModelReply("4 of 5", "stop", Usage(1, 1), "echo"), "prose: '4 of 5'")
    >>> [message.role for message in again.messages]
    ['user', 'assistant', 'user']
    """
    # Providers refuse an empty turn of the assistant; its absence says the same.
    said = (Message("assistant", reply.text),) if reply.text.strip() else ()
    told = Message("user", REPAIR.format(reason=reason))
    return replace(request, messages=(*request.messages, *said, told))
