"""The gateway: the only thing that spends money. It asks each call once, within limits, retries and the budget."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from toolkit.errors import BudgetReached, ModelError
from toolkit.models.base import Answer, Model, ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import Price, aud_cost
from toolkit.models.tokens import count_tokens
from toolkit.runs.ledger import Busy, Claim, Ledger
from toolkit.store.documents import utc_now

POLL_SECONDS = 0.5
MESSAGE_TOKENS = 16  # what chat formats add around a message, rounded up, for the worst case


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


@dataclass
class Counters:
    """What a gateway has done since it opened; shown as progress."""

    asked: int = 0
    from_ledger: int = 0
    failed: int = 0
    retried: int = 0
    spent_aud: float = 0.0
    reserved_aud: float = 0.0


@dataclass(frozen=True)
class Endpoint:
    """A model that can be asked: its description, its price and how to reach it."""

    spec: ModelSpec
    price: Price
    open: Callable[[], Model]
    concurrency: int


class Gateway:
    """Sends each call once and hands out answers that are safely in the ledger.

    Parameters
    ----------
    ledger
        Where calls are claimed and kept.
    endpoints
        The models that may be asked, by (provider, provider's model name, address).
    budget_aud
        Hard cap over everything this study has ever paid, ``None`` for no cap.
    retry
        How failed attempts are repeated.
    seed
        Seed of the jitter.
    stop
        When set, a failed attempt is not repeated.
    replay
        Answer from the ledger only: no model is opened, nothing is sent.
    """

    def __init__(
        self,
        ledger: Ledger,
        endpoints: Iterable[Endpoint],
        *,
        budget_aud: float | None = None,
        retry: RetryPolicy | None = None,
        seed: int = 0,
        stop: threading.Event | None = None,
        replay: bool = False,
    ) -> None:
        self._ledger = ledger
        self._endpoints = {(e.spec.provider, e.spec.model, e.spec.endpoint): e for e in endpoints}
        self._models: dict[tuple[str, str, str | None], Model] = {}
        self._rooms: dict[tuple[str, str | None], asyncio.Semaphore] = {}
        self._stopped: dict[tuple[str, str | None], ModelError] = {}
        self._budget = budget_aud
        self._paid_before = ledger.spent() if budget_aud is not None else 0.0
        self._retry = retry or RetryPolicy()
        self._jitter = random.Random(seed)
        self._stop = stop or threading.Event()
        self._replay = replay
        self._known: dict[str, Answer] = ledger.kept() if replay else {}
        self.counters = Counters()

    async def prefetch(self, requests: Iterable[ModelRequest]) -> None:
        """Read all answers of these requests that are paid for already, in one go."""
        ids = [request.identity() for request in requests]
        self._known.update(await asyncio.to_thread(self._ledger.prefetch, ids))

    async def ask(self, request: ModelRequest, *, purpose: str) -> Answer:
        """Return the answer to a request: from the ledger if it is there, from the model otherwise.

        Parameters
        ----------
        request
            What is asked.
        purpose
            ``run`` or ``judge``; kept in the ledger.

        Raises
        ------
        ModelError
            When the model gave no reply within the retry policy; the attempts are in the ledger.
        BudgetReached
            When this call could pass the budget; nothing was sent.
        """
        if self._replay and request.identity() not in self._known:
            await self.prefetch([request])  # another study may have paid for it
        known = self._known.get(request.identity())
        if known is not None:
            self.counters.from_ledger += 1
            return known
        if self._replay:
            raise ModelError("not in the ledger, and a replay asks nobody", reason="not_in_ledger")
        endpoint = self._endpoints[request.provider, request.model, request.endpoint]
        self._refuse_stopped(endpoint)
        # Counting tokens takes longer than everything else here, and only a budget needs it.
        worst = 0.0
        if self._budget is not None:
            worst = aud_cost(_worst_usage(request, endpoint.spec), endpoint.price)
        self._reserve(worst)
        try:
            claimed = await self._ledger.claim(request, purpose=purpose, worst_aud=worst)
            while isinstance(claimed, Busy):
                await asyncio.sleep(POLL_SECONDS)
                claimed = await self._ledger.claim(request, purpose=purpose, worst_aud=worst)
            if isinstance(claimed, Answer):
                self.counters.from_ledger += 1
                return claimed
            return await self._send(request, endpoint, claimed)
        finally:
            self.counters.reserved_aud -= worst

    def note(self) -> str:
        """Return in a few words what a progress line shows."""
        c = self.counters
        parts = [f"{c.spent_aud:.4f} AUD"]
        parts += [f"{c.retried} retried"] if c.retried else []
        parts += [f"{c.failed} failed"] if c.failed else []
        return ", ".join(parts)

    async def close(self) -> None:
        """Close every model that was opened."""
        for model in self._models.values():
            await model.close()
        self._models.clear()

    async def _send(self, request: ModelRequest, endpoint: Endpoint, claim: Claim) -> Answer:
        attempts = [dict(attempt) for attempt in claim.earlier]
        try:
            reply, latency_ms = await self._attempts(request, endpoint, attempts)
        except ModelError as error:
            self.counters.failed += 1
            if error.fatal_for_provider:
                self._stopped[_room(endpoint)] = error
            await self._ledger.fail(claim, reason=error.reason, message=str(error), attempts=attempts)
            raise
        cost = aud_cost(reply.usage, endpoint.price)
        self.counters.asked += 1
        self.counters.spent_aud += cost
        # Shielded: once a reply is paid for, not even Ctrl-C keeps it from the ledger.
        return await asyncio.shield(
            self._ledger.complete(claim, reply, aud_cost=cost, latency_ms=latency_ms, attempts=attempts)
        )

    async def _attempts(
        self, request: ModelRequest, endpoint: Endpoint, attempts: list[dict[str, Any]]
    ) -> tuple[ModelReply, float]:
        deadline = time.monotonic() + self._retry.deadline
        for number in range(1, self._retry.attempts + 1):
            async with self._room(endpoint):
                self._refuse_stopped(endpoint)
                model = self._model(endpoint)
                started = time.monotonic()
                attempt = {"at": utc_now(), "outcome": "answered"}
                attempts.append(attempt)
                try:
                    reply = await model.ask(request)
                    latency_ms = (time.monotonic() - started) * 1000
                    attempt["ms"] = latency_ms
                    return reply, latency_ms
                except ModelError as error:
                    attempt["outcome"] = error.reason
                    attempt["ms"] = (time.monotonic() - started) * 1000
                    wait = self._retry.wait(number, error.retry_after, self._jitter)
                    last = number == self._retry.attempts or time.monotonic() + wait > deadline
                    if not error.retryable or error.fatal_for_provider or last or self._stop.is_set():
                        raise
            # The place is given back while waiting, so that others are not held up.
            self.counters.retried += 1
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _reserve(self, worst: float) -> None:
        spent = self._paid_before + self.counters.spent_aud
        if self._budget is not None and spent + self.counters.reserved_aud + worst > self._budget:
            raise BudgetReached(
                f"budget.aud: {self._budget:.2f} AUD could be passed by the next call ({spent:.4f} AUD spent); "
                "raise it in the study file and run again"
            )
        self.counters.reserved_aud += worst

    def _refuse_stopped(self, endpoint: Endpoint) -> None:
        stopped = self._stopped.get(_room(endpoint))
        if stopped is not None:
            raise ModelError(f"{stopped} (not asked again)", reason=stopped.reason)

    def _room(self, endpoint: Endpoint) -> asyncio.Semaphore:
        return self._rooms.setdefault(_room(endpoint), asyncio.Semaphore(endpoint.concurrency))

    def _model(self, endpoint: Endpoint) -> Model:
        # Per model and not per room: a client knows what its model can do.
        key = (endpoint.spec.provider, endpoint.spec.model, endpoint.spec.endpoint)
        if key not in self._models:
            self._models[key] = endpoint.open()
        return self._models[key]


def _room(endpoint: Endpoint) -> tuple[str, str | None]:
    """Return what shares limits and a connection: one provider at one address."""
    return endpoint.spec.provider, endpoint.spec.endpoint


def _worst_usage(request: ModelRequest, spec: ModelSpec) -> Usage:
    text = sum(
        count_tokens(m.content, spec.encoding or "o200k_base") + MESSAGE_TOKENS for m in request.messages
    )
    # Without a public tokenizer our count may be low; half as much again covers what we have seen.
    return Usage(text if spec.encoding else text * 3 // 2, request.max_tokens, estimated=True)
