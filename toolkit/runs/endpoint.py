"""A model as the gateway asks it: how to reach it, what it costs at worst, and what its provider may be sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from toolkit.models.base import Model, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import Price, aud_cost
from toolkit.models.tokens import count_tokens
from toolkit.runs.limits import Limiter

MESSAGE_TOKENS = 16  # what chat formats add around a message, rounded up, for the worst case
OTHER_TOKENIZER: Final = 1.5
"""At worst our count is this much too low where the tokenizer is not public; it covers what we have seen."""


@dataclass(frozen=True)
class Endpoint:
    """A model that can be asked: its description, its price, how to reach it, and what its provider may be sent."""

    spec: ModelSpec
    price: Price
    open: Callable[[], Model]
    concurrency: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    batch: bool = False

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What a request names this model by."""
        return self.spec.provider, self.spec.model, self.spec.endpoint

    @property
    def room(self) -> tuple[str, str | None]:
        """What shares limits: one provider at one address."""
        return self.spec.provider, self.spec.endpoint


def worst_aud(request: ModelRequest, endpoint: Endpoint) -> float:
    """Return what a request costs at worst, in AUD: all its text, and a reply as long as it may be."""
    spec = endpoint.spec
    encoding, times = spec.counted_by
    text = sum(_text_tokens(m.content, encoding) for m in request.messages)
    if request.response_schema:  # a provider may bill the schema like a text
        text += _text_tokens(request.response_schema, encoding)
    counted = text * times + MESSAGE_TOKENS * len(request.messages)
    sent = math.ceil(counted if spec.encoding else counted * OTHER_TOKENIZER)
    # At worst all of it is written to the provider's cache, which costs more than being read once; Anthropic does so
    # only where a message is marked.
    written = sent if spec.provider != "anthropic" or any(m.cached for m in request.messages) else 0
    usage = Usage(sent, request.max_tokens, estimated=True, cache_written=written)
    return aud_cost(usage, endpoint.price)


def most_tokens(request: ModelRequest, endpoint: Endpoint) -> float:
    """Return what a request may use of the tokens of a minute: its text and the longest reply."""
    encoding, times = endpoint.spec.counted_by
    return sum(_text_tokens(m.content, encoding) for m in request.messages) * times + request.max_tokens


# A study asks the same prompts again and again, and a judge sees the same rubric.
_text_tokens = lru_cache(maxsize=2048)(count_tokens)


def limiters(endpoints: Iterable[Endpoint]) -> dict[tuple[str, str | None], Limiter]:
    """Return one limiter for each provider at one address, with the narrowest limits of the models it serves."""
    rooms: dict[tuple[str, str | None], list[Endpoint]] = {}
    for endpoint in endpoints:
        rooms.setdefault(endpoint.room, []).append(endpoint)
    return {
        room: Limiter(
            min(endpoint.concurrency for endpoint in sharing),
            requests_per_minute=_least(endpoint.requests_per_minute for endpoint in sharing),
            tokens_per_minute=_least(endpoint.tokens_per_minute for endpoint in sharing),
        )
        for room, sharing in rooms.items()
    }


def _least(limits: Iterable[float | None]) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)
