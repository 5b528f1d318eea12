"""The desk where single askings become batches: half the price, an answer within a day, and nothing lost meanwhile.

A batch is in the store before it is submitted and stays there, open, until every reply it brought is in the ledger;
so whichever process asks for one of its calls next finds the batch and waits for it instead of paying again. A batch
of an earlier process is taken up when one of its calls is asked for, and not before: who asks holds the claim of that
call, so the process that submitted it is gone. Until then the batch may be another living process's own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pymongo import InsertOne, UpdateMany, UpdateOne
from ulid import ULID

from toolkit.errors import ModelError
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.runs.limits import RetryPolicy
from toolkit.store.connection import CHUNK, Store
from toolkit.store.documents import Batch, Call
from toolkit.store.writer import TOUCH

if TYPE_CHECKING:
    from toolkit.models.batches import BatchClient, Result

STILL_OPEN: Final = ("stopped", "batch_unknown")
"""Reasons under which the batch may yet answer: asked singly now, the call could be paid for twice."""
OPEN_STATES: Final = ("submitting", "submitted")
STOP_LOOK_SECONDS = 0.1
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
    created: float = field(default_factory=time.time)
    batch_id: str | None = None
    kept: set[str] = field(default_factory=set)
    results: dict[str, Result] | None = None
    left: set[str] = field(default_factory=set)
    failure: str | None = None
    followed: bool = False

    def outcome(self, call_id: str) -> Result:
        """Return what a batch that has ended brought for a call."""
        if (found := (self.results or {}).get(call_id)) is not None:
            return found
        if self.failure:
            return ModelError(f"the batch was refused: {self.failure}", reason="batch_failed", retryable=True)
        return self.missing("the batch ended without a result for this call")

    def missing(self, why: str) -> ModelError:
        """Return the failure of a call that this batch will never answer; asked singly it may succeed."""
        provider, model, _ = self.key
        return ModelError(f"{provider} model {model!r}: {why}", reason="batch_missing", retryable=True)

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
        """Read the open batches of the study from the store; call it once, before the first ask."""
        for batch in await asyncio.to_thread(open_batches, self._store, self._study, set(self._batches)):
            if batch.kept == batch.call_ids:
                # Whoever kept the last reply died before it could say so.
                await _note(self._store, batch, "ended")
            elif batch.name not in self._batches:
                self._hold(batch)

    def holds(self, call_id: str) -> bool:
        """Return whether an open batch, of this or an earlier process, holds a call."""
        return call_id in self._held

    async def ask(self, request: ModelRequest, spec: ModelSpec) -> ModelReply:
        """Return the reply to a request that this process has claimed; say `kept` once it is in the ledger."""
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
                else:
                    self._gather(call_id, request, client, key)
                outcome = await waiting
            finally:
                del self._waiting[call_id]
        if isinstance(outcome, Exception):
            raise outcome
        try:
            return client.reply(request, outcome)
        except ModelError:
            await self.kept(call_id)  # there is nothing in it that could be kept
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
        """Tell whoever waits for one of these calls what became of it."""
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
        asked = batch.requests
        try:
            # A process that died after we opened may have left a batch with calls that are ours now.
            await self.open()
            asked = {name: sent for name, sent in asked.items() if name in self._waiting}
            for call_id in asked.keys() & self._held.keys():
                self._take_up(self._held[call_id], call_id, client)
                del asked[call_id]
            if not asked or self._stop.is_set():
                return
            batch.call_ids, batch.created = frozenset(asked), time.time()
            self._hold(batch)
            await _write(self._store, self._study, batch)
            batch.batch_id = await self._submitted(client, batch, asked)
            await _note(self._store, batch, "submitted")
        except Exception as error:
            # Whatever it is, it belongs to those who wait: nobody else would ever hear of it.
            batch.followed = False
            try:
                if isinstance(error, ModelError) and error.reason not in STILL_OPEN:
                    await self._end(batch, "lost")
            finally:
                self._fail(asked, error)
        else:
            batch.requests.clear()
            await self._follow(batch, client)

    async def _submitted(
        self, client: BatchClient, batch: OpenBatch, requests: Mapping[str, ModelRequest]
    ) -> str:
        """Submit a batch, and return the provider's id of it; one that may have arrived is looked for first."""
        unsure = False
        for number in itertools.count(1):
            looking = unsure
            try:
                found = await self._find(client, batch) if looking else None
                looking = False
                return found or await client.submit(requests, batch.name)
            except ModelError as error:
                unsure = looking or (error.retryable and error.reason != "rate_limited")
                ended = number >= self._retry.attempts or (error.retry_after or 0.0) > self._retry.deadline
                if not error.retryable or ended or self._stop.is_set():
                    if unsure:
                        raise batch.unknown(error) from None
                    raise
                await asyncio.sleep(self._retry.wait(number, error.retry_after, self._jitter))
        raise AssertionError("the last attempt returns or raises")

    async def _find(self, client: BatchClient, batch: OpenBatch) -> str | None:
        others = {one.batch_id for one in self._batches.values() if one is not batch and one.batch_id}
        return await client.find(batch.name, batch.call_ids, batch.created, others)

    async def _follow(self, batch: OpenBatch, client: BatchClient) -> None:
        """Poll a batch until its results are here, and hand them out."""
        try:
            while batch.results is None:
                wait = self._poll_seconds
                try:
                    if not await self._look(client, batch):
                        # It never came to be; those who wait ask anew.
                        await self._end(batch, "lost")
                        self._tell(batch.call_ids, lambda _: None)
                        return
                except ModelError as error:
                    if not error.retryable:
                        self._fail(batch.call_ids, _poll_failure(batch, error))
                        return
                    wait = max(wait, min(error.retry_after or 0.0, self._retry.deadline))
                if batch.results is None:
                    await asyncio.sleep(wait)
            if not batch.left:
                await self._end(batch, "ended")
            self._tell(batch.call_ids, batch.outcome)
        except Exception as error:
            # As above: the store is away, or the provider sent what nobody foresaw.
            self._fail(batch.call_ids, error)
        finally:
            batch.followed = False

    async def _look(self, client: BatchClient, batch: OpenBatch) -> bool:
        """Ask the provider once how a batch is, note in it what is new, and return whether it exists."""
        if batch.batch_id is None:
            batch.batch_id = await self._find(client, batch)
            if batch.batch_id is None:
                return False
        state = await client.state(batch.batch_id)
        if not state.ended:
            return True
        results = await client.results(batch.batch_id)
        if results and batch.call_ids.isdisjoint(results):
            # Anthropic shows what is in a batch only at its end: the one that was found is somebody else's.
            batch.batch_id = None
            return True
        batch.failure = state.failure
        wanted = batch.call_ids - batch.kept
        batch.results = {name: result for name, result in results.items() if name in wanted}
        batch.left = {name for name, result in batch.results.items() if not isinstance(result, ModelError)}
        return True

    def _hold(self, batch: OpenBatch) -> None:
        self._batches[batch.name] = batch
        self._held.update(dict.fromkeys(batch.call_ids, batch))

    async def _end(self, batch: OpenBatch, state: str) -> None:
        self._batches.pop(batch.name, None)
        for call_id in batch.call_ids:
            if self._held.get(call_id) is batch:
                del self._held[call_id]
        await _note(self._store, batch, state)

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
    found = store.database["batches"].find({"study": study, "state": {"$in": OPEN_STATES}}, {"_id": 1})
    names = [batch["_id"] for batch in found if batch["_id"] not in known]
    batches = [
        OpenBatch(
            key=(batch["provider"], batch["model"], batch.get("endpoint")),
            call_ids=frozenset(batch["call_ids"]),
            name=batch["_id"],
            created=batch["created"],
            batch_id=batch.get("batch_id"),
        )
        for batch in store.find_by(Batch, "_id", names)
        if batch["state"] in OPEN_STATES
    ]
    for batch in batches:
        calls = store.find_by(Call, "_id", batch.call_ids, leave_out=("request", "raw", "text", "attempts"))
        batch.kept = {call["_id"] for call in calls if call["state"] == "done"}
    return batches


async def _write(store: Store, study: str, batch: OpenBatch) -> None:
    """Write a batch that is about to be submitted, and that its calls are, and return when it is on the disk."""
    named = dict(zip(("provider", "model", "endpoint"), batch.key, strict=True))
    ids, created = sorted(batch.call_ids), batch.created
    document = Batch(name=batch.name, state="submitting", study=study, call_ids=ids, created=created, **named)
    document.validate()
    await store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)
    # After the batch: of a call that is marked before, nobody would know that it goes on.
    for start in range(0, len(ids), CHUNK):
        some = {"_id": {"$in": ids[start : start + CHUNK]}, "state": "claimed"}
        await store.writer.write("calls", UpdateMany(some, {"$set": {"sent": True}, **TOUCH}))


async def _note(store: Store, batch: OpenBatch, state: str) -> None:
    """Note the state of a batch and the provider's id of it, and return when they are on the disk."""
    change = {"$set": {"state": state, "batch_id": batch.batch_id}, **TOUCH}
    await store.writer.write("batches", UpdateOne({"_id": batch.name}, change), flush=True)


def _poll_failure(batch: OpenBatch, error: ModelError) -> ModelError:
    """Return what those who wait are told when a batch cannot be asked for and asking again will not help."""
    if error.fatal_for_provider:
        return error
    if error.reason == "not_found":
        return batch.missing(f"the provider does not know the batch {batch.batch_id} (any more)")
    return batch.unknown(error)


def _stopped() -> ModelError:
    """Return the failure of calls that nobody waits for any longer."""
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
