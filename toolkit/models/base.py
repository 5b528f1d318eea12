"""What every model is asked and what it answers: plain frozen objects, and the identity of a call."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from toolkit.errors import ModelError
from toolkit.files.digests import sha256_hex


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    content: str
    cached: bool = False


Raw = Mapping[str, Any]
"""An object of JSON as a provider sent it."""
Body = dict[str, Any]
"""An object of JSON as it is sent or read."""
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=1024)
def _messages_json(messages: tuple[Message, ...]) -> str:
    return _JSON.encode([{"role": m.role, "content": m.content} for m in messages])


@dataclass(frozen=True)
class ModelRequest:
    """One request to one model: everything that decides what may come back, and nothing else."""

    provider: str
    model: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int = 2000
    top_p: float | None = None
    seed: int | None = None
    response_schema: str | None = None
    endpoint: str | None = None
    repeat: int = 0
    top_logprobs: int | None = None
    # JSON of what its model is asked with beside these, such as a reasoning effort
    options: str | None = None

    def canonical(self) -> Body:
        """Return the request as plain JSON types, the form that is hashed and stored."""
        messages = [{"role": m.role, "content": m.content} for m in self.messages]
        canonical = {**vars(self), "messages": messages}
        canonical.pop("_identity", None)
        # Only where they are set: calls that were paid for before there were such parameters keep their identity.
        for name in ("top_logprobs", "options"):
            if canonical[name] is None:
                del canonical[name]
        return canonical

    def identity(self) -> str:
        """Return the SHA-256 of the canonical request: the name under which the call is paid for once."""
        if (cached := vars(self).get("_identity")) is not None:
            return str(cached)
        # A quote inside of a value is escaped, so this stands for the key alone. Repeats share their long messages,
        # and a plan of 10,000 runs would otherwise spend most of a frame's time on encoding them again.
        text = _JSON.encode(self.canonical() | {"messages": 0})
        text = text.replace(',"messages":0,', f',"messages":{_messages_json(self.messages)},', 1)
        identity = sha256_hex(text)
        # Remembered, because it is asked for at every step of a call; a replaced request is a new object.
        object.__setattr__(self, "_identity", identity)
        return identity


@dataclass(frozen=True)
class Usage:
    """Tokens of one call; ``doubt`` is why a provider's count of them was not believed, empty where it was.

    ``reasoning`` is the part of the output that the provider counts as reasoning.
    """

    input: int
    output: int
    estimated: bool = False
    cache_read: int = 0
    cache_written: int = 0
    reasoning: int = 0
    doubt: str = field(default="", compare=False)

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input + self.output


UNKNOWN_FINISH = "unknown"
BROKE_OFF = ("length", "tool", "error")
"""Reasons for which a reply ended before it was whole: at a limit, for a call of a tool, or by a fault or a pause."""
_DEFECTS = {"filter": "filtered", "refusal": "refused"} | dict.fromkeys(BROKE_OFF, "truncated")
DEFECTS = {
    "truncated": "truncated",
    "empty": "empty",
    "refused": "refused",
    "filtered": "filtered",
    "unknown_finish": "of an unknown ending",
}
"""What keeps a reply from being whole, and how a sentence says it."""


@dataclass(frozen=True)
class ModelReply:
    """What came back: the text, why it ended, the tokens, and the raw reply as received.

    ``finish_reason`` is one of our words in ``finish_reasons.toml``, or ``unknown``.
    """

    text: str
    finish_reason: str
    usage: Usage
    model: str
    raw: Raw = field(default_factory=dict)

    @property
    def defect(self) -> str | None:
        """What keeps it from being whole, a key of ``DEFECTS``; ``None`` when nothing does."""
        if defect := _DEFECTS.get(self.finish_reason):
            return defect
        unknown = "unknown_finish" if self.finish_reason == UNKNOWN_FINISH else None
        return unknown if self.text.strip() else "empty"


class Model(Protocol):
    """The one small interface of a model: a request in, a reply out, or a ``ModelError``."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, without retries of its own."""
        ...

    async def close(self) -> None:
        """Release connections and servers."""
        ...


@dataclass(frozen=True)
class Answer:
    """A reply that is safely in the ledger: what everything downstream of the gateway works from."""

    call_id: str
    reply: ModelReply
    aud_cost: float
    latency_ms: float
    attempts: int
    from_ledger: bool


Ask = Callable[[ModelRequest], Awaitable[Answer]]
"""What judges, prompts and protocols are handed in place of a model: a request in, a kept reply out."""


BatchResult = Raw | ModelError
"""What became of one request of a batch: the raw reply as received, or why there is none."""


def is_unreadable(result: BatchResult | None) -> bool:
    """Return whether a request was answered, and billed, with what cannot be read."""
    return isinstance(result, ModelError) and result.reason == "malformed_body"


def add_result(results: dict[str, BatchResult], call_id: str, result: BatchResult) -> None:
    """Add what became of a call; of several lines a reply stands before an unreadable one, and that before none."""

    def worth(line: BatchResult | None) -> int:
        return 1 + is_unreadable(line) if isinstance(line, ModelError) else 3

    if call_id not in results or worth(result) > worth(results[call_id]):
        results[call_id] = result
