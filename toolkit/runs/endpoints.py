"""A model as the gateway asks it: how to reach it, what it costs at worst, and what its provider may be sent."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from toolkit.errors import InputError
from toolkit.models.base import Model, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import Price, aud_cost, price_of
from toolkit.models.registry import BATCH_PROVIDERS, default_concurrency, open_batch_client, open_model
from toolkit.models.tokens import count_tokens
from toolkit.plan import Plan
from toolkit.runs.batches import BatchDesk
from toolkit.runs.limits import Limiter
from toolkit.store.connection import Store
from toolkit.study_file import ModelEntry

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


SHARE_ENV: Final = "TOOLKIT_BATCH_SHARE"
"""Set by a batch in the surroundings of its kernels: how many of them run at the same time."""


def processes_at_once() -> int:
    """Return how many processes share the limits of a study with this one, itself included."""
    text = os.environ.get(SHARE_ENV, "1")
    return max(1, int(text)) if text.isdigit() else 1


def share_of(limit: float, what: str) -> float:
    """Return this process's part of a limit that the study sets."""
    processes = processes_at_once()
    part = limit // processes
    if processes > 1 and part < 1:
        raise InputError(
            f"{what}: {limit:g} cannot be shared by {processes} notebooks that run at the same time; run the batch "
            f"with --workers {max(1, int(limit))} or fewer"
        )
    return part if processes > 1 else limit


def share_of_default(limit: int) -> int:
    """Return this process's part of a limit that the study does not set itself: at least one request at once."""
    return max(1, limit // processes_at_once())


def open_desk(plan: Plan, store: Store, stop: threading.Event) -> BatchDesk:
    """Return the desk of a study in batch mode; it is to be opened in the loop that asks."""
    open_client = partial(open_batch_client, folder=plan.folder)
    return BatchDesk(
        store, plan.study.name, open_client, poll_seconds=plan.study.batch_poll_seconds, stop=stop
    )


def endpoints_of(plan: Plan) -> list[Endpoint]:
    """Return every model that may be asked; one without a price is refused here, before the first call."""
    judges = plan.study.judges.by_role()
    named: list[tuple[ModelEntry, ModelSpec]] = [
        *((entry, plan.models[entry.name]) for entry in plan.study.models),
        *((judges[role], spec) for role, spec in plan.judge_models.items()),
    ]
    return [
        Endpoint(
            spec=spec,
            price=price_of(spec),
            open=partial(open_model, spec, folder=plan.folder, seconds=plan.study.timeout_seconds),
            concurrency=_concurrency(plan, entry, spec),
            requests_per_minute=_rate(plan, spec, "requests_per_minute"),
            tokens_per_minute=_rate(plan, spec, "tokens_per_minute"),
            batch=plan.study.mode == "batch" and spec.provider in BATCH_PROVIDERS,
        )
        for entry, spec in named
    ]


def _concurrency(plan: Plan, entry: ModelEntry, spec: ModelSpec) -> int:
    """Return how many requests this process may have under way; several processes share what the study says."""
    if entry.concurrency:
        return int(share_of(entry.concurrency, f"concurrency of {entry.name}"))
    if limit := plan.study.limit(spec.provider).concurrency:
        return int(share_of(limit, f"limits.{spec.provider}.concurrency"))
    return share_of_default(default_concurrency(spec, plan.study.concurrency))


def _rate(plan: Plan, spec: ModelSpec, name: str) -> float | None:
    limit = getattr(plan.study.limit(spec.provider), name)
    return None if limit is None else share_of(limit, f"limits.{spec.provider}.{name}")
