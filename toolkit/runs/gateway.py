"""The gateway: the only thing that spends money. It asks each call once, within limits, retries and the budget."""

import asyncio
import contextlib
import math
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.models.base import Answer, Model, ModelReply, ModelRequest
from toolkit.models.catalogue import Key, ModelSpec, Room, has_batches
from toolkit.models.entries import ModelEntry
from toolkit.models.prices import Price, aud_cost, price_of, worst_cost
from toolkit.models.registry import open_model
from toolkit.models.usage import text_tokens, worst_usage
from toolkit.plan import Plan
from toolkit.runs.budget import Account
from toolkit.runs.ledger import Busy, Claim, ClaimLost, Ledger, open_batches
from toolkit.runs.limits import (
    LONGEST_WAIT,
    POLL_SECONDS,
    UNREACHABLE,
    UNSURE,
    Limiter,
    Places,
    RetryPolicy,
    Slot,
    pause,
    turn_away_when,
)
from toolkit.runs.progress import duration
from toolkit.store.documents import Batch
from toolkit.store.writer import TOUCH, Document, utc_now


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
    def key(self) -> Key:
        """What a request names this model by."""
        return self.spec.provider, self.spec.model, self.spec.endpoint


def worst_aud(request: ModelRequest, endpoint: Endpoint) -> float:
    """Return what a request costs at worst, in AUD: all its text, and a reply as long as it may be."""
    return worst_cost(worst_usage(endpoint.spec, request), endpoint.price, utc_now().date())


def limiters(endpoints: Iterable[Endpoint], concurrency: int) -> dict[Room, Limiter]:
    """Return one limiter for each provider at one address, with the narrowest limits of the models it serves.

    Together they let ``concurrency`` calls go at once; those that are answered in this process are apart.
    """
    places = Places(concurrency)
    rooms: dict[Room, list[Endpoint]] = {}
    for endpoint in endpoints:
        rooms.setdefault(endpoint.spec.room, []).append(endpoint)

    def least(sharing: list[Endpoint], name: str) -> float | None:
        return min(
            (limit for endpoint in sharing if (limit := getattr(endpoint, name)) is not None), default=None
        )

    return {
        room: Limiter(
            min(endpoint.concurrency for endpoint in sharing),
            places=None if room[0] == "scripted" else places,
            requests_per_minute=least(sharing, "requests_per_minute"),
            tokens_per_minute=least(sharing, "tokens_per_minute"),
        )
        for room, sharing in rooms.items()
    }


AT_HAND = 64
"""Scripted calls at once: none is in flight, so only the store is waited for, which writes many as fast as a few."""
REFUSED_FOR_RATE = ("rate_limited", "overloaded")
REFUSALS = 10  # connections refused in a row after which an address is called unreachable


@dataclass
class Counters:
    """What a gateway has done since it opened; shown as progress."""

    asked: int = 0
    retried: int = 0
    spent_aud: float = 0.0
    doubted: int = 0  # replies whose count of tokens no call can have
    worst_aud: float = math.inf  # of all that is to be asked


@dataclass
class Sending:
    """One call on its way: its attempts so far, what is set aside for it and what it may have cost already.

    ``base_aud`` is what it costs at worst by its own tokens, ``worst_aud`` by what its model billed before; ``sent`` is
    whether its claim says that it is being sent; ``slot`` its place with the provider; ``out`` whether a request is
    out, or its reply is not in the ledger yet.
    """

    request: ModelRequest
    endpoint: Endpoint
    base_aud: float
    attempts: list[Document] = field(default_factory=list)
    worst_aud: float = 0.0
    reserved_aud: float = 0.0
    unsure_aud: float = 0.0
    sent: bool = False
    out: bool = False
    slot: Slot | None = None


class Gateway:
    """Sends each call once and hands out answers that are safely in the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        endpoints: Iterable[Endpoint],
        *,
        concurrency: int,
        budget_aud: float | None = None,
        retry: RetryPolicy | None = None,
        seed: int = 0,
        stop: threading.Event | None = None,
        replay: bool = False,
    ) -> None:
        self.ledger = ledger
        self.endpoints = {endpoint.key: endpoint for endpoint in endpoints}
        self._models: dict[Key, Model] = {}
        self._limiters = limiters(self.endpoints.values(), concurrency)
        self._turning_away: asyncio.Task[None] | None = None
        # Why a room, or one model, is not asked again.
        self._stopped: dict[tuple[str | None, ...], ModelError] = {}
        self._refusals: Counter[Room] = Counter()  # of connections in a row, by room
        self._reached: BudgetReached | None = None
        self.free = False  # whether nobody is asked, and what the ledger has is handed out
        # What models billed above the worst case of a call, as a factor of it, by provider and model.
        self._overrun: dict[tuple[str, str], float] = {}
        self._budget_aud = budget_aud
        self.account: Account | None = None
        self._retry = retry or RetryPolicy()
        self._jitter = random.Random(seed)
        self._stop = stop or threading.Event()
        self._replay = replay
        self.held: set[str] = set()  # calls that an open batch may still answer
        self._known: dict[str, Answer] = ledger.kept() if replay else {}
        self._absent: set[str] = set()  # looked for in the ledger, and not there
        self._failures = ledger.failures() if replay else {}
        self._under_way: set[asyncio.Task[Answer]] = set()
        self._waits: Counter[str] = Counter()
        self.counters = Counters()

    def open(self) -> None:
        """Take the study for this process alone and count what it has spent; a replay spends nothing."""
        if not self._replay:
            self.ledger.owner.start()
            store = self.ledger.store
            for batch in open_batches(store, self.ledger.study):
                self.held |= batch.call_ids
                if not self.ledger.unpaid(batch.call_ids):  # its process died before it noted that
                    store.update(
                        Batch, {"_id": batch.name}, {"$set": {"state": "ended", "worst_aud": 0.0}, **TOUCH}
                    )
            if self._budget_aud is not None:
                self.account = Account(self.ledger.owner, self._budget_aud)
                self._overrun = self.account.overrun

    def waiting(self) -> str:
        """Return in words what the calls wait for, for a line of progress; nothing where none waits."""
        limits = (limiter.held_up(room[0]) for room, limiter in self._limiters.items())
        calls = (f"{n} call{'s' * (n > 1)} {reason}" for reason, n in self._waits.items() if n)
        closed = (
            f"{provider} at {name or 'its address'} is unreachable, and its calls wait for the next start"
            if error.reason == UNREACHABLE
            else f"{name} asks for {duration(error.retry_after or 0)} and is not asked again in this run"
            for (provider, name, *_), error in self._stopped.items()
            if error.reason == UNREACHABLE or error.retry_after
        )
        return ", ".join([*filter(None, limits), *calls, *closed])

    @contextlib.contextmanager
    def _waiting(self, reason: str) -> Iterator[None]:
        self._waits[reason] += 1
        try:
            yield
        finally:
            self._waits[reason] -= 1

    def worst_aud(self, request: ModelRequest) -> float:
        """Return what a request costs at worst, in AUD, and more where its model has billed more than that before."""
        endpoint = self.endpoints[_key_of(request)]
        return worst_aud(request, endpoint) * self._overrun.get(endpoint.key[:2], 1.0)

    def note_reply(
        self, request: ModelRequest, reply: ModelReply, attempt: Document, spent: float, base: float
    ) -> None:
        """Count a reply and its cost; note a count of tokens that no call can have, and a bill above the worst case.

        ``base`` is that worst case by the tokens of the request, in AUD.
        """
        endpoint = self.endpoints[_key_of(request)]
        if base > 0:
            billed = aud_cost(reply.usage, endpoint.price, attempt["at"].date())  # singly, also of a batch
            model = endpoint.key[:2]
            self._overrun[model] = max(self._overrun.get(model, 1.0), billed / base)
        if reply.usage.doubt:
            attempt["doubt"] = reply.usage.doubt
            self.counters.doubted += 1
        self.counters.asked += 1
        self.counters.spent_aud += spent
        self._absent.discard(request.identity())

    async def prefetch(self, requests: Iterable[ModelRequest]) -> None:
        """Read all answers of these requests that are paid for already, in one go."""
        ids = [request.identity() for request in requests]
        answers = await asyncio.to_thread(self.ledger.prefetch, ids)
        self._known.update(answers)
        self._absent.update(call_id for call_id in ids if call_id not in answers)

    async def ask(self, request: ModelRequest, *, purpose: str) -> Answer:
        """Return the answer to a request: from the ledger if it is there, from the model otherwise."""
        call_id, endpoint = request.identity(), self.endpoints.get(_key_of(request))
        stopped = endpoint and (endpoint.spec.room in self._stopped or endpoint.key in self._stopped)
        # What the ledger has is free, whatever the budget, a provider or an open batch says; another study may have
        # paid for it.
        is_looked_for = self._replay or self.free or self._reached or stopped or call_id in self.held
        if is_looked_for and call_id not in self._known and call_id not in self._absent:
            await self.prefetch([request])
        # A replay may ask for it again; otherwise an answer is let go of when it is handed out.
        paid = self._known.get(call_id) if self._replay else self._known.pop(call_id, None)
        if paid is not None:
            if request.top_logprobs is None:
                return paid
            # Log-probabilities are in the raw reply only.
            return await asyncio.to_thread(self.ledger.whole, paid.call_id)
        if self._replay:
            absent = ("not_in_ledger", "not in the ledger, and a replay asks nobody")
            reason, message = self._failures.get(call_id, absent)
            raise ModelError(message, reason=reason)
        if self.free:
            raise ModelError("not in the ledger", reason="stopped")
        if self._reached:
            raise BudgetReached(str(self._reached))
        assert endpoint is not None  # only a replay has calls of other models
        self._refuse(endpoint)
        if call_id in self.held:
            message = "an open batch of its provider may answer it; run the study again later"
            raise ModelError(message, reason="stopped" if self._stop.is_set() else "batch_unknown")
        # Of every claim, and not only with a budget: if we die, the store alone knows what it may have cost.
        sending = Sending(request, endpoint, worst_aud(request, endpoint))
        sending.worst_aud = self._worst(sending)
        task = asyncio.ensure_future(self._ask(sending, purpose))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Whoever waits may be cancelled by a sibling's failure: what was sent comes home and is kept all the same.
            if not sending.out:
                task.cancel()
            raise

    async def _ask(self, sending: Sending, purpose: str) -> Answer:
        limiter = self._limiters[sending.endpoint.spec.room]
        limiter.open_calls += 1
        try:
            claimed = await self._claim(sending, purpose)
            while not isinstance(claimed, Answer):
                if isinstance(claimed, Claim):
                    with contextlib.suppress(ClaimLost):  # by a process that counts what was sent under it
                        return await self._send(claimed, sending)
                    sending.attempts, sending.unsure_aud, claimed = [], 0.0, Busy()
                with self._waiting("for an equal one under way" if claimed.is_own else "for another study"):
                    await pause(POLL_SECONDS, self._stop)
                    self._refuse(sending.endpoint)
                    claimed = await self._claim(sending, purpose)
            return claimed
        finally:
            self._leave(sending, unsent=True)
            self._settle(sending, 0.0)
            limiter.open_calls -= 1
            limiter.places.hand_out()

    async def close(self) -> None:
        """Wait for what is under way, unless this is cancelled itself; close every model and give the study back."""
        self._stop.set()
        closing = asyncio.current_task()
        if closing and closing.cancelling():
            for task in self._under_way:
                task.cancel()
        try:
            await asyncio.gather(*self._under_way, return_exceptions=True)
        finally:
            if self._turning_away:
                self._turning_away.cancel()
            for model in self._models.values():
                await model.close()
            self._models.clear()
            self._known.clear()  # a replay knows every answer of its study, and others still have work to do
            self.ledger.owner.close()

    async def _claim(self, sending: Sending, purpose: str) -> Claim | Answer | Busy:
        """Claim a call that has its place, or return its answer, or that somebody else is at it."""
        try:
            await self._enter(sending)
        except BudgetReached:
            # What the ledger has is free, whatever the budget says.
            call_id = sending.request.identity()
            if not await asyncio.to_thread(self.ledger.prefetch, [call_id]):
                raise
            return await asyncio.to_thread(self.ledger.whole, call_id)
        # A claim that comes when nobody waits for it any more is taken back, for nothing was sent.
        sending.sent = True
        claim_call = self.ledger.claim(sending.request, purpose=purpose, worst_aud=sending.worst_aud)
        claiming = asyncio.ensure_future(claim_call)
        try:
            claimed = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claimed = await claiming
            if isinstance(claimed, Claim):
                await asyncio.shield(self.ledger.withdraw(claimed))
            raise
        # Who waits for another study keeps neither a place nor money that others wait for.
        if not isinstance(claimed, Claim):
            self._leave(sending, unsent=True)
            self._settle(sending, 0.0)
        return claimed

    async def _send(self, claim: Claim, sending: Sending) -> Answer:
        try:
            reply = await self._attempts(claim, sending)
        except (ModelError, BudgetReached, InputError, asyncio.CancelledError) as error:
            reason = getattr(error, "reason", "stopped")
            if sending.attempts:
                writing = self.ledger.fail(
                    claim,
                    reason=reason,
                    message=str(error),
                    attempts=sending.attempts,
                    unsure_aud=sending.unsure_aud,
                )
            else:  # nothing was sent, so nothing happened
                writing = self.ledger.withdraw(claim)
            await asyncio.shield(writing)
            raise
        price, attempt = sending.endpoint.price, sending.attempts[-1]
        spent = aud_cost(reply.usage, price, attempt["at"].date())
        self.note_reply(sending.request, reply, attempt, spent, sending.base_aud)
        # Before it is saved: from now on every request that is about to be sent knows.
        self._settle(sending, spent)
        with self._limiters[sending.endpoint.spec.room].places.saving():
            self._leave(sending, answered=True, tokens=reply.usage.total)
            # Shielded: once a reply is paid for, not even Ctrl-C keeps it from the ledger.
            return await asyncio.shield(
                self.ledger.complete(
                    claim,
                    reply,
                    aud_cost=spent,
                    aud_per_usd=price.aud_per_usd if spent else None,
                    latency_ms=attempt["ms"],
                    attempts=sending.attempts,
                    unsure_aud=sending.unsure_aud,
                )
            )

    async def _attempts(self, claim: Claim, sending: Sending) -> ModelReply:
        number, seconds = 1, 0.0  # attempts, and the seconds that they and the waits between them took
        while True:
            try:
                return await self._attempt(claim, sending)
            except ModelError as error:
                if not error.retryable or number >= self._retry.attempts:
                    raise
                wait = self._retry.wait(number, error.retry_after, self._jitter)
                seconds += sending.attempts[-1]["ms"] / 1000 + wait
                if seconds > self._retry.deadline:
                    raise
                if self._stop.is_set():
                    raise ModelError(f"stopped after: {error}", reason="stopped") from error
                # If we die before or over the next attempt, this one may be billed all the same, or surely was not.
                await self._note(claim, sending, sent=False)
            number += 1
            self.counters.retried += 1
            # The place is given back while waiting, so that others are not held up.
            with self._waiting("to be asked again"):
                await pause(wait, self._stop)

    async def _attempt(self, claim: Claim, sending: Sending) -> ModelReply:
        request, endpoint = sending.request, sending.endpoint
        while not (sending.slot and await self._is_affordable(claim, sending)):
            if sending.sent:  # nothing is, while it waits
                await self._note(claim, sending, sent=False)
            self._leave(sending, unsent=True)
            await self._enter(sending)
            await self._note(claim, sending, sent=True)
        came: dict[str, Any] = {}
        started = time.monotonic()
        try:
            self._refuse(endpoint)
            attempt, billed = {"at": utc_now(), "outcome": "cancelled"}, False
            # Per model and not per room: a client knows what its model can do.
            if endpoint.key not in self._models:
                self._models[endpoint.key] = endpoint.open()
            sending.attempts.append(attempt)
            sending.out = True
            try:
                with self._waiting("for a reply"):
                    reply = await self._models[endpoint.key].ask(request)
                attempt["outcome"] = "answered"
                self._refusals[endpoint.spec.room] = 0
                came = {"answered": True}
                return reply
            except ModelError as error:
                sending.out = False
                attempt["outcome"] = error.reason
                billed = error.billed
                stopped = self._is_stopped_by(error, endpoint)
                # Who waits for a place of a model that is not asked again is told so at once.
                wait = None if stopped else error.retry_after
                came = {"refused": error.reason in REFUSED_FOR_RATE, "retry_after": wait}
                raise
            finally:
                attempt["ms"] = (time.monotonic() - started) * 1000
                if billed or attempt["outcome"] in UNSURE:  # as if it had been billed, at its worst
                    sending.unsure_aud += self._worst(sending)
                    self._settle(sending, self._worst(sending))
        finally:
            if "answered" not in came:  # else when it counts as one that is saved
                self._leave(sending, **came)

    async def _note(self, claim: Claim, sending: Sending, *, sent: bool) -> None:
        await self.ledger.note(
            claim, sending.attempts, sending.unsure_aud, worst_aud=sending.worst_aud, sent=sent
        )
        sending.sent = sent

    def _is_stopped_by(self, error: ModelError, endpoint: Endpoint) -> bool:
        room = endpoint.spec.room
        self._refusals[room] = self._refusals[room] + 1 if error.reason == UNREACHABLE else 0
        if error.fatal_for_provider:
            self._stopped[room] = error
        elif self._refusals[room] >= REFUSALS:
            error.retryable = False
            self._stopped[room] = error
        elif error.retry_after and not self._limiters[room].waits_for(error.retry_after):
            error.retryable = False
            error.args = (
                f"{error}; it asks to wait {duration(error.retry_after)}, and a run waits {duration(LONGEST_WAIT)} at "
                "most without an answer: run the study again later",
            )
            self._stopped[endpoint.key] = error
        else:
            return False
        return True

    def _worst(self, sending: Sending) -> float:
        """Return what a request costs at worst, and more where its model has billed more than that before."""
        return sending.base_aud * self._overrun.get(sending.endpoint.key[:2], 1.0)

    async def _is_affordable(self, claim: Claim, sending: Sending) -> bool:
        """Return whether a request may be sent after all that replies have shown since its money was set aside."""
        # Where it may not, its money is given back.
        affordable = False
        try:
            while not affordable:
                if (worst := self._worst(sending)) > sending.worst_aud:
                    sending.worst_aud = worst
                    await self._note(claim, sending, sent=sending.sent)
                if self.account:
                    if not await self.account.fits_still(worst - sending.reserved_aud):
                        return False
                    sending.reserved_aud = worst
                affordable = worst >= self._worst(sending)  # a reply may have come meanwhile
        finally:
            if not affordable:
                self._settle(sending, 0.0)
        return True

    async def _enter(self, sending: Sending) -> None:
        """Set aside what a call costs at worst and wait for its place, each in the order in which calls came."""
        if self._turning_away is None:
            self._turning_away = asyncio.create_task(turn_away_when(self._stop, self._limiters.values()))
        await self._reserve(sending)  # before the place: who has a place waits for nothing that others have
        limiter = self._limiters[sending.endpoint.spec.room]
        tokens, request = 0.0, sending.request
        if limiter.counts_tokens:  # its text and the longest reply
            encoding, times = sending.endpoint.spec.counted_by
            tokens = sum(text_tokens(part.content, encoding) for part in request.messages) * times
            tokens += request.max_tokens
        sending.slot = await limiter.enter(tokens)
        self._refuse(sending.endpoint)

    def _leave(self, sending: Sending, **came: Any) -> None:
        if sending.slot is not None:
            self._limiters[sending.endpoint.spec.room].leave(sending.slot, **came)
            sending.slot = None

    async def _reserve(self, sending: Sending) -> None:
        if self.account and not sending.reserved_aud:
            worst = sending.worst_aud = self._worst(sending)
            try:
                with self._waiting("for budget kept for others under way"):
                    await self.account.reserve(worst)
            except BudgetReached as error:
                if (raised := self._worst(sending)) > sending.base_aud:
                    model, times = sending.endpoint.spec.name, raised / sending.base_aud
                    words = (
                        f"{error} (model {model!r} has billed {times:.3g} times what a call costs at worst)"
                    )
                    error = BudgetReached(words)
                self._reached = error
                raise error from None
            sending.reserved_aud = worst

    def _settle(self, sending: Sending, used_aud: float) -> None:
        if self.account:
            self.account.settle(sending.reserved_aud, used_aud)
            sending.reserved_aud = 0.0

    def _refuse(self, endpoint: Endpoint) -> None:
        """Refuse to send what nobody waits for any more, or a provider would refuse like the one before it."""
        if self._stop.is_set():
            raise ModelError("stopped before it was sent", reason="stopped")
        if self.ledger.owner.is_replaced:
            raise ModelError("another process has taken the study over", reason="stopped")
        if stopped := self._stopped.get(endpoint.spec.room) or self._stopped.get(endpoint.key):
            again = "" if stopped.reason == UNREACHABLE else " (not asked again)"
            raise ModelError(f"{stopped}{again}", reason=stopped.reason)


def _key_of(request: ModelRequest) -> Key:
    return request.provider, request.model, request.endpoint


SHARE_ENV = "TOOLKIT_BATCH_SHARE"
"""Set by a batch in the surroundings of its kernels: how many of them run at the same time."""


def share_of(limit: float, setting: str | None) -> float:
    """Return this process's part of a limit that the study sets under that name, or of a default: at least one."""
    text = os.environ.get(SHARE_ENV, "1")
    processes = max(1, int(text)) if text.isdigit() else 1
    if processes == 1:
        return limit
    part = limit // processes
    if part < 1 and setting is not None:
        raise InputError(
            f"{setting}: {limit:g} cannot be shared by {processes} notebooks that run at the same time; run the batch "
            f"with --workers {max(1, int(limit))} or fewer"
        )
    return max(1, part)


def endpoints_of(plan: Plan) -> list[Endpoint]:
    """Return every model that may be asked; one without a price is refused here, before the first call."""
    endpoints = []
    for entry, spec in named_models(plan):
        limit, table = plan.study.limit(spec.provider), f"limits.{spec.provider}"
        rates = {
            name: share_of(value, f"{table}.{name}")
            for name in ("requests_per_minute", "tokens_per_minute")
            if (value := getattr(limit, name)) is not None
        }
        named = f"concurrency of {entry.name}" if entry.concurrency else f"{table}.concurrency"
        own_limit = entry.concurrency or limit.concurrency
        at_once = share_of(at_once_of(plan, entry, spec), named if own_limit else None)
        endpoints.append(
            Endpoint(
                spec=spec,
                price=price_of(spec),
                open=partial(
                    open_model,
                    spec,
                    folder=plan.folder,
                    seconds=plan.study.timeout_seconds,
                    question=plan.test.question,
                ),
                concurrency=int(at_once) if own_limit or spec.provider != "scripted" else AT_HAND,
                batch=plan.study.mode == "batch" and has_batches(spec.provider),
                **rates,
            )
        )
    return endpoints


def named_models(plan: Plan) -> list[tuple[ModelEntry, ModelSpec]]:
    """Return the models and judges of a study, as it names them and as they are."""
    judges = plan.study.judges.by_role()
    models = [(entry, plan.models[entry.label]) for entry in plan.study.under_test]
    return models + [(judges[role], spec) for role, spec in plan.judge_models.items()]


def at_once_of(plan: Plan, entry: ModelEntry, spec: ModelSpec) -> int:
    """Return how many requests a model may have under way, by all processes of the study."""
    own_limit = entry.concurrency or plan.study.limit(spec.provider).concurrency
    # The local one works on one at a time.
    return own_limit or (1 if spec.provider == "local" else plan.study.concurrency)
