"""A model as the gateway asks it: how to reach it, what it costs at worst, and what its provider may be sent."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Final

from toolkit.errors import InputError
from toolkit.models.base import Model, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec, has_batches
from toolkit.models.prices import Price, aud_cost, price_of
from toolkit.models.registry import default_concurrency, open_model
from toolkit.models.tokens import count_tokens
from toolkit.plan import Plan
from toolkit.runs.limits import Limiter
from toolkit.study_file import ModelEntry

MESSAGE_TOKENS = 16  # what chat formats add around a message, rounded up, for the worst case


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

    @cached_property
    def key(self) -> tuple[str, str, str | None]:
        """What a request names this model by."""
        return self.spec.provider, self.spec.model, self.spec.endpoint

    @cached_property
    def room(self) -> tuple[str, str | None]:
        """What shares limits."""
        return self.spec.room


def worst_aud(request: ModelRequest, endpoint: Endpoint) -> float:
    """Return what a request costs at worst, in AUD: all its text, and a reply as long as it may be."""
    spec = endpoint.spec
    encoding, times = spec.counted_by
    text = sum(_text_tokens(m.content, encoding) for m in request.messages)
    if request.response_schema:  # a provider may bill the schema like a text
        text += _text_tokens(request.response_schema, encoding)
    sent = math.ceil((text * times + MESSAGE_TOKENS * len(request.messages)) * spec.doubt)
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

    def least(sharing: list[Endpoint], name: str) -> float | None:
        return min((limit for one in sharing if (limit := getattr(one, name)) is not None), default=None)

    return {
        room: Limiter(
            min(endpoint.concurrency for endpoint in sharing),
            requests_per_minute=least(sharing, "requests_per_minute"),
            tokens_per_minute=least(sharing, "tokens_per_minute"),
        )
        for room, sharing in rooms.items()
    }


SHARE_ENV: Final = "TOOLKIT_BATCH_SHARE"
"""Set by a batch in the surroundings of its kernels: how many of them run at the same time."""


def share_of(limit: float, what: str | None) -> float:
    """Return this process's part of a limit that the study sets under that name, or of a default: at least one."""
    text = os.environ.get(SHARE_ENV, "1")
    processes = max(1, int(text)) if text.isdigit() else 1
    if processes == 1:
        return limit
    part = limit // processes
    if part < 1 and what is not None:
        raise InputError(
            f"{what}: {limit:g} cannot be shared by {processes} notebooks that run at the same time; run the batch "
            f"with --workers {max(1, int(limit))} or fewer"
        )
    return max(1, part)


def endpoints_of(plan: Plan) -> list[Endpoint]:
    """Return every model that may be asked; one without a price is refused here, before the first call."""
    found = []
    for entry, spec in named_models(plan):
        limit, where = plan.study.limit(spec.provider), f"limits.{spec.provider}"
        rates = {
            name: share_of(value, f"{where}.{name}")
            for name in ("requests_per_minute", "tokens_per_minute")
            if (value := getattr(limit, name)) is not None
        }
        named = f"concurrency of {entry.name}" if entry.concurrency else f"{where}.concurrency"
        own = entry.concurrency or limit.concurrency
        found.append(
            Endpoint(
                spec=spec,
                price=price_of(spec),
                open=partial(open_model, spec, folder=plan.folder, seconds=plan.study.timeout_seconds),
                concurrency=int(share_of(at_once_of(plan, entry, spec), named if own else None)),
                batch=plan.study.mode == "batch" and has_batches(spec.provider),
                **rates,
            )
        )
    return found


def named_models(plan: Plan) -> list[tuple[ModelEntry, ModelSpec]]:
    """Return the models and judges of a study, as it names them and as they are."""
    judges = plan.study.judges.by_role()
    return [
        *((entry, plan.models[entry.name]) for entry in plan.study.models),
        *((judges[role], spec) for role, spec in plan.judge_models.items()),
    ]


def at_once_of(plan: Plan, entry: ModelEntry, spec: ModelSpec) -> int:
    """Return how many requests a model may have under way, by all processes of the study."""
    own = entry.concurrency or plan.study.limit(spec.provider).concurrency
    return own or default_concurrency(spec, plan.study.concurrency)
