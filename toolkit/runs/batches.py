"""The desk where single askings become batches: half the price, an answer within a day, and nothing lost meanwhile.

A batch is in the store before it is submitted and stays there, open, until every reply it brought is in the ledger;
so whichever process asks for one of its calls next finds the batch and waits for it instead of paying again. A batch
of an earlier process is taken up when one of its calls is asked for, and not before: who asks holds the claim of that
call, so the process that submitted it is gone. Until then the batch may be another living process's own.

What its provider says of a batch may be wrong for a while. A batch that contradicts itself is looked at several times
before calls are given up, and a call that was perhaps answered is then booked as if it had been. A call that its batch
will not answer is let go of in the store before it is asked singly: from then on the claim alone says what it may cost.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pymongo import InsertOne, UpdateMany, UpdateOne
from ulid import ULID

from toolkit.errors import ModelError
from toolkit.models.base import BatchResult, ModelReply, ModelRequest, add_result, is_unreadable
from toolkit.models.catalogue import ModelSpec
from toolkit.runs.limits import UNSURE, RetryPolicy
from toolkit.store.connection import CHUNK, Store
from toolkit.store.documents import Batch, Call
from toolkit.store.writer import TOUCH

if TYPE_CHECKING:
    from toolkit.models.batches import BatchClient

STILL_OPEN: Final = ("stopped", "batch_unknown")
"""Reasons under which the batch may yet answer: asked singly now, the call could be paid for twice."""
OPEN_STATES: Final = ("submitting", "submitted")
STOP_LOOK_SECONDS = 0.1
LOOKS: Final = 6
"""Looks at a batch that contradicts itself, each after twice the time: half an hour at the usual pace."""
LISTINGS: Final = 3
"""Times that a batch which may have arrived is looked for: a list of batches may be behind."""
SUBMIT_RETRY: Final = RetryPolicy(attempts=5, first_wait=2.0)

Key = tuple[str, str, str | None]  # provider, model and endpoint: what the calls of one batch have in common
Outcome = Mapping[str, Any] | Exception | None
"""A raw reply, why there is none, or ``None`` when the call is to be asked anew."""


@dataclass(eq=False)
class OpenBatch:
    """A batch whose replies are not all in the ledger yet, with what this process has seen of it.

    Until it is submitted, ``requests`` are gathered in it; ``full`` is when no other fits in.
    """

    key: Key
    call_ids: frozenset[str] = frozenset()
    requests: dict[str, ModelRequest] = field(default_factory=dict)
    bytes: int = 0
    touched: float = 0.0
    full: bool = False
    name: str = field(default_factory=lambda: str(ULID()))
    batch_id: str | None = None
    kept: set[str] = field(default_factory=set)
    read: dict[str, BatchResult] = field(default_factory=dict)
    results: dict[str, BatchResult] | None = None
    left: set[str] = field(default_factory=set)
    followed: bool = False

    def outcome(self, call_id: str) -> BatchResult:
        """Return what a batch that has ended brought for a call."""
        return (self.results or {}).get(call_id) or self.missing("the batch holds no result for this call")

    def missing(self, message: str, reason: str = "batch_missing") -> ModelError:
        """Return the failure of a call that this batch will never answer; asked singly it may succeed."""
        provider, model, _ = self.key
        return ModelError(f"{provider} model {model!r}: {message}", reason=reason, retryable=True)

    def contradiction(self, answered: int | None, faults: list[str]) -> str | None:
        """Return in words how what was read differs from the number of answers that the provider counts."""
        unreadable = sum(map(is_unreadable, self.read.values()))
        replies = len(self.kept) + sum(not isinstance(result, ModelError) for result in self.read.values())
        missing = len(self.call_ids - self.kept - self.read.keys())
        if not unreadable and not (missing and (answered is None or answered > replies)):
            return None
        count = "an unknown number" if answered is None else answered
        message = f"its provider counts {count} of {len(self.call_ids)} calls as answered, {replies} replies were read"
        return "; ".join([message, *faults])

    def unknown(self, error: ModelError) -> ModelError:
        """Return the failure of calls whose batch may be at the provider, which a later run will find out."""
        return ModelError(
            f"batch {self.name}: it is not known whether the provider has it ({error}); run the study again later",
            reason="batch_unknown",
        )


class BatchDesk:
    """Gathers what is asked into batches and hands out their results; belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        study: str,
        open_client: Callable[[ModelSpec], BatchClient | None],
        *,
        quiet_seconds: float = 1.0,
        poll_seconds: float = 30.0,
        retry: RetryPolicy = SUBMIT_RETRY,
        stop: threading.Event | None = None,
    ) -> None:
        self._store = store
        self._study = study
        self._open_client = open_client
        self._quiet_seconds = quiet_seconds
        self._poll_seconds = poll_seconds
        self._retry = retry
        self._stop = stop or threading.Event()
        # Two processes that were refused together should not come back together.
        self._jitter = random.Random()
        self._clients: dict[Key, BatchClient | None] = {}
        self._batches: dict[str, OpenBatch] = {}
        self._held: dict[str, OpenBatch] = {}
        self._gathering: dict[Key, OpenBatch] = {}
        # Of a call with a claim only one asks at a time.
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched = False

    async def open(self) -> None:
        """Read the open batches of the study that are not known yet from the store."""
        for batch in await asyncio.to_thread(open_batches, self._store, self._study, set(self._batches)):
            if batch.kept == batch.call_ids:
                # Whoever kept the last reply died before it could say so.
                await _note(self._store, batch, "ended")
            elif batch.name not in self._batches:
                self._hold(batch)

    def holds(self, call_id: str) -> bool:
        """Return whether an open batch, of this or an earlier process, holds a call."""
        return call_id in self._held

    def drop(self, call_id: str) -> None:
        """Forget that a batch holds a call: another process has seen that it does not answer it."""
        self._held.pop(call_id, None)

    async def ask(self, request: ModelRequest, spec: ModelSpec, *, submits: bool = True) -> ModelReply:
        """Return the reply to a request that this process has claimed; say `kept` once it is in the ledger.

        Without ``submits`` only the batches of earlier processes are waited for.
        """
        key = (spec.provider, spec.model, spec.endpoint)
        if key not in self._clients:
            self._clients[key] = self._open_client(spec)
        client = self._clients[key]
        if client is None:
            raise ModelError(f"{spec.provider} has no batch endpoint; ask singly", reason="no_batch")
        if not self._watched:
            self._watched = True
            self._begin(self._watch())
        call_id, outcome = request.identity(), None
        while outcome is None:  # again, when the batch that held it was never submitted
            if self._stop.is_set():
                raise _stopped()
            self._waiting[call_id] = waiting = asyncio.get_running_loop().create_future()
            try:
                if call_id in self._held:
                    self._take_up(self._held[call_id], call_id, client)
                elif not submits:
                    raise ModelError("no batch holds this call; ask singly", reason="no_batch")
                else:
                    self._gather(call_id, request, client, key)
                outcome = await waiting
            finally:
                del self._waiting[call_id]
        if isinstance(outcome, Exception):
            raise outcome
        try:
            return client.reply(request, outcome)
        except ModelError as error:
            if batch := self._held.get(call_id):  # there is nothing in it that could be kept
                await self._let_go(batch, {call_id: error})
            raise

    async def kept(self, call_id: str) -> None:
        """Note that a call's reply is in the ledger; with the last of them its batch is ended."""
        if (batch := self._held.get(call_id)) is None:
            return
        batch.kept.add(call_id)
        batch.left.discard(call_id)
        if batch.results is not None:
            batch.results.pop(call_id, None)
            if not batch.left:
                await self._end(batch, "ended")

    async def close(self) -> None:
        """Stop gathering and polling; open batches stay open and are found again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail(self._waiting, _stopped())
        for client in self._clients.values():
            if client is not None:
                await client.close()
        self._clients.clear()

    def _tell(self, call_ids: Iterable[str], outcome: Callable[[str], Outcome]) -> None:
        for call_id in call_ids:
            future = self._waiting.get(call_id)
            if future is not None and not future.done():
                future.set_result(outcome(call_id))

    def _fail(self, call_ids: Iterable[str], error: Exception) -> None:
        self._tell(call_ids, lambda _: _same(error))

    def _gather(self, call_id: str, request: ModelRequest, client: BatchClient, key: Key) -> None:
        size = client.size(call_id, request)
        batch = self._gathering.get(key)
        if batch and (len(batch.requests) >= client.largest or batch.bytes + size > client.largest_bytes):
            batch.full = True
            batch = None
        if batch is None:
            batch = self._gathering[key] = OpenBatch(key, followed=True)
            self._begin(self._submit(batch, client))
        batch.requests[call_id] = request
        batch.bytes += size
        batch.touched = time.monotonic()

    def _take_up(self, batch: OpenBatch, call_id: str, client: BatchClient) -> None:
        if batch.results is not None:
            self._tell([call_id], batch.outcome)
        elif not batch.followed:
            batch.followed = True
            self._begin(self._follow(batch, client))

    async def _submit(self, batch: OpenBatch, client: BatchClient) -> None:
        """Wait until nothing more is gathered in a batch, submit it, and follow it to its end."""
        while not batch.full and (left := batch.touched + self._quiet_seconds - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if self._gathering.get(batch.key) is batch:
            del self._gathering[batch.key]
        requests = batch.requests
        try:
            # A process that died after we opened may have left a batch with calls that are ours now.
            await self.open()
            requests = {name: sent for name, sent in requests.items() if name in self._waiting}
            for call_id in requests.keys() & self._held.keys():
                self._take_up(self._held[call_id], call_id, client)
                del requests[call_id]
            if not requests or self._stop.is_set():
                return
            batch.call_ids = frozenset(requests)
            self._hold(batch)
            await _write(self._store, self._study, batch)
            await self._send(client, batch, requests)
        except Exception as error:
            # Whatever it is, it belongs to those who wait: nobody else would ever hear of it.
            batch.followed = False
            try:
                if isinstance(error, ModelError) and error.reason not in STILL_OPEN:
                    await self._end(batch, "lost")
            finally:
                self._fail(requests, error)
        else:
            batch.requests.clear()
            await self._follow(batch, client)

    async def _send(
        self, client: BatchClient, batch: OpenBatch, requests: Mapping[str, ModelRequest]
    ) -> None:
        """Submit a batch and note the provider's id of it; one that may have arrived is looked for first."""
        unsure = False
        for number in itertools.count(1):
            looking = unsure
            try:
                if looking and await self._is_listed(client, batch):
                    return
                looking = False
                if self._stop.is_set():
                    raise _stopped()
                batch.batch_id = await client.submit(requests, batch.name)
                await _note(self._store, batch, "submitted")
                return
            except ModelError as error:
                unsure = looking or (error.retryable and error.reason != "rate_limited")
                ended = number >= self._retry.attempts or (error.retry_after or 0.0) > self._retry.deadline
                if not error.retryable or ended or self._stop.is_set():
                    if unsure:
                        raise batch.unknown(error) from None
                    raise
                await asyncio.sleep(self._retry.wait(number, error.retry_after, self._jitter))

    async def _is_listed(self, client: BatchClient, batch: OpenBatch) -> bool:
        """Look for a batch whose id nobody noted; return whether its provider has it, or one that may be it."""
        foreign_ids = await asyncio.to_thread(_other_ids, self._store, batch.name)
        for number in range(LISTINGS):
            if number:
                await asyncio.sleep(self._poll_seconds)
            batch.batch_id, running = await client.find(batch.name, batch.call_ids, foreign_ids)
            if batch.batch_id is not None:
                await _note(self._store, batch, "submitted")
            if batch.batch_id is not None or running:
                return True
        return False

    async def _follow(self, batch: OpenBatch, client: BatchClient) -> None:
        looks = 0
        try:
            while batch.results is None:
                wait, fault, lasting = self._poll_seconds, None, True
                try:
                    if batch.batch_id is None and not await self._is_listed(client, batch):
                        # It never came to be; those who wait ask anew.
                        await self._end(batch, "lost")
                        self._tell(batch.call_ids, lambda _: None)
                        return
                    if batch.batch_id is not None:
                        fault = await self._look(client, batch)
                except ModelError as error:
                    if not error.retryable and error.reason != "not_found":
                        failure = error if error.fatal_for_provider else batch.unknown(error)
                        self._fail(batch.call_ids, failure)
                        return
                    wait = max(wait, min(error.retry_after or 0.0, self._retry.deadline))
                    if error.reason == "not_found":
                        fault = "its provider does not know it (HTTP 404)"
                    elif error.reason == "malformed_body":
                        fault, lasting = str(error), False
                looks = looks + 1 if fault else 0
                if fault and looks == 1:
                    _say(batch, f"{fault}; it is looked at again")
                if fault and looks >= LOOKS:
                    if not lasting:  # nothing is known of the batch but that it cannot be asked for
                        self._fail(batch.call_ids, batch.unknown(batch.missing(fault)))
                        return
                    await self._conclude(batch, None, fault)
                if batch.results is None:
                    await asyncio.sleep(max(wait, self._poll_seconds * 2 ** max(0, looks - 1)))
            self._tell(batch.results, batch.outcome)
        except Exception as error:
            # As above: the store is away, or the provider sent what nobody foresaw.
            self._fail(batch.call_ids | batch.read.keys(), error)
        finally:
            batch.followed = False

    async def _look(self, client: BatchClient, batch: OpenBatch) -> str | None:
        """Ask the provider once how a batch is, take its results if it has ended, and return what contradicts them."""
        state = await client.state(str(batch.batch_id))
        if not state.ended:
            return None
        results = await client.results(str(batch.batch_id), batch.name, batch.call_ids)
        for call_id, result in results.by_call.items():
            if call_id not in batch.kept:
                add_result(batch.read, call_id, result)
        if state.failure and not state.answered:
            await self._conclude(batch, state.failure)
        elif fault := batch.contradiction(state.answered, results.faults):
            return fault
        else:
            await self._conclude(batch)
        return None

    async def _conclude(self, batch: OpenBatch, refusal: str | None = None, fault: str | None = None) -> None:
        """Take what was read of a batch for all that it brings, and let go of the calls that it does not answer."""
        for call_id in batch.call_ids - batch.kept - batch.read.keys():
            if fault:
                message = f"the batch may have answered this call, and its reply cannot be had: {fault}"
                batch.read[call_id] = batch.missing(message, "batch_lost")
            elif refusal:
                batch.read[call_id] = batch.missing(f"the batch was refused: {refusal}", "batch_failed")
            else:
                batch.read[call_id] = batch.missing("the batch ended without a result for this call")
        batch.results = batch.read
        failures = {n: result for n, result in batch.results.items() if isinstance(result, ModelError)}
        batch.left = batch.results.keys() - failures.keys()
        if fault:
            unsure = sum(error.reason in UNSURE for error in failures.values())
            message = f"{unsure} calls are given up after {LOOKS} looks and booked as if they had been billed"
            _say(batch, message)
        await self._let_go(batch, failures)

    async def _let_go(self, batch: OpenBatch, failures: Mapping[str, ModelError]) -> None:
        """Take calls that a batch does not answer out of it: from now on their claims say what they may have cost."""
        unbilled = [call_id for call_id, error in failures.items() if error.reason not in UNSURE]
        await _mark(self._store, unbilled, sent=False)
        batch.left -= failures.keys()
        if not batch.left:
            await self._end(batch, "ended")
        elif failures:
            await _note(self._store, batch, "submitted", call_ids=sorted(batch.call_ids - failures.keys()))
        self._release(batch, failures)
        batch.call_ids -= failures.keys()

    def _hold(self, batch: OpenBatch) -> None:
        self._batches[batch.name] = batch
        self._held.update(dict.fromkeys(batch.call_ids, batch))

    async def _end(self, batch: OpenBatch, state: str) -> None:
        if state == "lost":
            await _mark(self._store, sorted(batch.call_ids), sent=False)
        await _note(self._store, batch, state)
        self._batches.pop(batch.name, None)
        self._release(batch, batch.call_ids)

    def _release(self, batch: OpenBatch, call_ids: Iterable[str]) -> None:
        """Hold calls no longer; once the store says so, for a claim may only then be taken back."""
        for call_id in call_ids:
            if self._held.get(call_id) is batch:
                del self._held[call_id]

    async def _watch(self) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(STOP_LOOK_SECONDS)
        self._fail(self._waiting, _stopped())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def open_batches(store: Store, study: str, known: Collection[str] = ()) -> list[OpenBatch]:
    """Return the open batches of a study, those of other processes included."""
    batches = [
        OpenBatch(
            key=(batch["provider"], batch["model"], batch.get("endpoint")),
            call_ids=frozenset(batch["call_ids"]),
            name=batch["_id"],
            batch_id=batch.get("batch_id"),
        )
        for batch in _open_documents(store, study, known)
    ]
    for batch in batches:
        calls = store.find_by(Call, "_id", batch.call_ids, leave_out=("request", "raw", "text", "attempts"))
        batch.kept = {call["_id"] for call in calls if call["state"] == "done"}
    return batches


def open_call_ids(store: Store, study: str) -> set[str]:
    """Return the calls that open batches of a study hold."""
    return {call_id for batch in _open_documents(store, study) for call_id in batch["call_ids"]}


def _open_documents(store: Store, study: str, known: Collection[str] = ()) -> list[dict[str, Any]]:
    matching = store.each_where(Batch, {"study": study, "state": {"$in": list(OPEN_STATES)}}, only=("_id",))
    names = [batch["_id"] for batch in matching if batch["_id"] not in known]
    return [batch for batch in store.find_by(Batch, "_id", names) if batch["state"] in OPEN_STATES]


def _other_ids(store: Store, name: str) -> set[str]:
    batches = store.each_where(Batch, {}, only=("batch_id",))
    return {batch["batch_id"] for batch in batches if batch["_id"] != name and batch.get("batch_id")}


async def _write(store: Store, study: str, batch: OpenBatch) -> None:
    """Write a batch that is about to be submitted, and that its calls are, and return when it is on the disk."""
    named = dict(zip(("provider", "model", "endpoint"), batch.key, strict=True))
    ids = sorted(batch.call_ids)
    document = Batch(
        name=batch.name, state="submitting", study=study, call_ids=ids, created=time.time(), **named
    )
    document.validate()
    await store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)
    # After the batch: of a call that is marked before, nobody would know that it goes on.
    await _mark(store, ids, sent=True)


async def _mark(store: Store, call_ids: list[str], *, sent: bool) -> None:
    for start in range(0, len(call_ids), CHUNK):
        some = {"_id": {"$in": call_ids[start : start + CHUNK]}, "state": "claimed"}
        await store.writer.write("calls", UpdateMany(some, {"$set": {"sent": sent}, **TOUCH}))


async def _note(store: Store, batch: OpenBatch, state: str, **fields: Any) -> None:
    change = {"$set": {"state": state, "batch_id": batch.batch_id, **fields}, **TOUCH}
    await store.writer.write("batches", UpdateOne({"_id": batch.name}, change), flush=True)


def _say(batch: OpenBatch, message: str) -> None:
    provider, model, _ = batch.key
    print(f"\nbatch {batch.name} of {provider} {model}: {message}", file=sys.stderr, flush=True)


def _stopped() -> ModelError:
    return ModelError(
        "stopped while waiting for a batch, which goes on; run the study again for its replies",
        reason="stopped",
        retryable=True,
    )


def _same(error: Exception) -> Exception:
    """Return an error like this one: one object raised in a thousand tasks would gather all their tracebacks."""
    another = type(error).__new__(type(error), *error.args)
    another.__dict__.update(error.__dict__)
    return another
