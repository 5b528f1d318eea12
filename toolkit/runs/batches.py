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
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo import InsertOne, UpdateMany, UpdateOne
from ulid import ULID

from toolkit.errors import ModelError
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.batches import BatchClient, Result
from toolkit.models.catalogue import ModelSpec
from toolkit.runs.retries import RetryPolicy
from toolkit.store.connection import CHUNK, Store
from toolkit.store.documents import Batch, Call
from toolkit.store.writer import TOUCH

OPEN_STATES = ("submitting", "submitted")
Key = tuple[str, str, str | None]
"""Provider, model and endpoint: what the calls of one batch have in common."""


@dataclass(eq=False)
class OpenBatch:
    """A batch whose replies are not all in the ledger yet, with what this process has seen of it."""

    key: Key
    call_ids: frozenset[str]
    name: str = field(default_factory=lambda: str(ULID()))
    created: float = field(default_factory=time.time)
    batch_id: str | None = None
    kept: set[str] = field(default_factory=set)
    results: dict[str, Result] | None = None
    left: set[str] = field(default_factory=set)
    failure: str | None = None
    followed: bool = False


async def write_batch(store: Store, study: str, batch: OpenBatch) -> None:
    """Write a batch that is about to be submitted, and that its calls are, and return when it is on the disk."""
    provider, model, endpoint = batch.key
    document = Batch(
        name=batch.name,
        state="submitting",
        study=study,
        provider=provider,
        model=model,
        endpoint=endpoint,
        call_ids=sorted(batch.call_ids),
        created=batch.created,
    )
    document.validate()
    await store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)
    # After the batch: of a call that is marked before, nobody would know that it goes on.
    for start in range(0, len(document.call_ids), CHUNK):
        some = {"_id": {"$in": document.call_ids[start : start + CHUNK]}, "state": "claimed"}
        await store.writer.write("calls", UpdateMany(some, {"$set": {"sent": True}, **TOUCH}))


async def note_batch(store: Store, batch: OpenBatch, state: str) -> None:
    """Note the state of a batch and the provider's id of it, and return when they are on the disk."""
    change = {"$set": {"state": state, "batch_id": batch.batch_id}, **TOUCH}
    await store.writer.write("batches", UpdateOne({"_id": batch.name}, change), flush=True)


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


STILL_OPEN: Final = ("stopped", "batch_unknown")
"""Reasons under which the batch may yet answer: asked singly now, the call could be paid for twice."""


async def submit(
    client: BatchClient,
    batch: OpenBatch,
    requests: Mapping[str, ModelRequest],
    *,
    others: Collection[str],
    retry: RetryPolicy,
    stop: threading.Event,
    jitter: random.Random,
) -> str:
    """Submit a batch, and return the provider's id of it.

    A submission that broke off may have arrived: before it is sent again the provider is asked for it.
    """
    unsure = False
    for number in itertools.count(1):
        looking = unsure
        try:
            found = await client.find(batch.name, batch.call_ids, batch.created, others) if looking else None
            looking = False
            return found or await client.submit(requests, batch.name)
        except ModelError as error:
            unsure = looking or (error.retryable and error.reason != "rate_limited")
            if not error.retryable or number >= retry.attempts or stop.is_set():
                if unsure:
                    raise unknown(batch, error) from None
                raise
            await asyncio.sleep(retry.wait(number, error.retry_after, jitter))
    raise AssertionError("the last attempt returns or raises")


async def look(client: BatchClient, batch: OpenBatch, *, others: Collection[str]) -> bool:
    """Ask the provider once how a batch is, note in it what is new, and return whether it exists."""
    if batch.batch_id is None:
        batch.batch_id = await client.find(batch.name, batch.call_ids, batch.created, others)
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
    wanted = batch.call_ids - batch.kept
    batch.failure = state.failure
    batch.results = {name: result for name, result in results.items() if name in wanted}
    batch.left = {name for name, result in batch.results.items() if not isinstance(result, ModelError)}
    return True


def outcome_of(batch: OpenBatch, call_id: str) -> Result:
    """Return what a batch that has ended brought for a call."""
    found = (batch.results or {}).get(call_id)
    if found is not None:
        return found
    provider, model, _ = batch.key
    if batch.failure:
        return ModelError(f"the batch was refused: {batch.failure}", reason="batch_failed", retryable=True)
    return ModelError(
        f"{provider} model {model!r}: the batch ended without a result for this call",
        reason="batch_missing",
        retryable=True,
    )


def poll_failure(batch: OpenBatch, error: ModelError) -> ModelError:
    """Return what those who wait are told when a batch cannot be asked for and asking again will not help."""
    if error.fatal_for_provider:
        return error
    if error.reason == "not_found":
        provider, model, _ = batch.key
        return ModelError(
            f"{provider} model {model!r}: the provider does not know the batch {batch.batch_id} (any more)",
            reason="batch_missing",
            retryable=True,
        )
    return unknown(batch, error)


def unknown(batch: OpenBatch, error: ModelError) -> ModelError:
    """Return the failure of calls whose batch may be at the provider, which a later run will find out."""
    return ModelError(
        f"batch {batch.name}: it is not known whether the provider has it ({error}); run the study again later",
        reason="batch_unknown",
    )


def stopped() -> ModelError:
    """Return the failure of calls that nobody waits for any longer."""
    return ModelError(
        "stopped while waiting for a batch, which goes on; run the study again for its replies",
        reason="stopped",
        retryable=True,
    )


Outcome = Result | Exception | None
"""A raw reply, why there is none, or ``None`` when the call is to be asked anew."""


class Waiters:
    """Those who wait for calls, in one event loop."""

    def __init__(self) -> None:
        self._futures: defaultdict[str, list[asyncio.Future[Outcome]]] = defaultdict(list)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._futures

    async def wait(self, call_id: str, begin: Callable[[], None]) -> Outcome:
        """Begin something and wait until it is told what became of a call."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._futures[call_id].append(future)
        try:
            begin()
            return await future
        finally:
            self._futures[call_id].remove(future)
            if not self._futures[call_id]:
                del self._futures[call_id]

    def tell(self, call_ids: Iterable[str], outcome: Callable[[str], Outcome]) -> None:
        """Tell everybody who waits for one of these calls what became of it."""
        for call_id in call_ids:
            for future in self._futures.get(call_id, ()):
                if not future.done():
                    future.set_result(outcome(call_id))

    def fail(self, call_ids: Iterable[str], error: Exception) -> None:
        """Tell everybody who waits for one of these calls of an error that befell all of them."""
        self.tell(call_ids, lambda _: _same(error))

    def fail_all(self, error: Exception) -> None:
        """Tell everybody who waits."""
        self.fail(list(self._futures), error)


def _same(error: Exception) -> Exception:
    """Return an error like this one: one object raised in a thousand tasks would gather all their tracebacks."""
    another = type(error).__new__(type(error), *error.args)
    another.__dict__.update(error.__dict__)
    return another


STOP_LOOK_SECONDS = 0.1
SUBMIT_RETRY = RetryPolicy(attempts=5, first_wait=2.0)


@dataclass(eq=False)
class _Group:
    """Requests that will be one batch; ``closed`` when no other fits in."""

    requests: dict[str, ModelRequest] = field(default_factory=dict)
    bytes: int = 0
    touched: float = 0.0
    closed: bool = False


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
        self._groups: dict[Key, _Group] = {}
        self._waiters = Waiters()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched = False

    async def open(self) -> None:
        """Read the open batches of the study from the store; call it once, before the first ask."""
        for batch in await asyncio.to_thread(open_batches, self._store, self._study, set(self._batches)):
            if batch.kept == batch.call_ids:
                # Whoever kept the last reply died before it could say so.
                await note_batch(self._store, batch, "ended")
            elif batch.name not in self._batches:
                self._hold(batch)

    def holds(self, call_id: str) -> bool:
        """Return whether an open batch, of this or an earlier process, holds a call."""
        return call_id in self._held

    async def ask(self, request: ModelRequest, spec: ModelSpec) -> ModelReply:
        """Return the reply to a request that this process has claimed; say `kept` once it is in the ledger."""
        client = self._client(spec)
        call_id, key = request.identity(), (spec.provider, spec.model, spec.endpoint)
        if not self._watched:
            self._watched = True
            self._begin(self._watch())
        outcome = None
        while outcome is None:  # again, when the batch that held it was never submitted
            if self._stop.is_set():
                raise stopped()
            outcome = await self._waiters.wait(call_id, lambda: self._ask(call_id, request, client, key))
        if isinstance(outcome, Exception):
            raise outcome
        try:
            return client.reply(request, outcome)
        except ModelError:
            await self.kept(call_id)  # there is nothing in it that could be kept
            raise

    async def kept(self, call_id: str) -> None:
        """Note that a call's reply is in the ledger; with the last of them its batch is ended."""
        batch = self._held.get(call_id)
        if batch is None:
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
        self._waiters.fail_all(stopped())
        for client in self._clients.values():
            if client is not None:
                await client.close()
        self._clients.clear()

    def _ask(self, call_id: str, request: ModelRequest, client: BatchClient, key: Key) -> None:
        if call_id in self._held:
            self._take_up(self._held[call_id], call_id, client)
        else:
            self._gather(call_id, request, client, key)

    def _gather(self, call_id: str, request: ModelRequest, client: BatchClient, key: Key) -> None:
        size = client.size(call_id, request)
        group = self._groups.get(key)
        if group and (len(group.requests) >= client.largest or group.bytes + size > client.largest_bytes):
            group.closed = True
            group = None
        if group is None:
            group = self._groups[key] = _Group()
            self._begin(self._submit(group, client, key))
        group.requests[call_id] = request
        group.bytes += size
        group.touched = time.monotonic()

    def _take_up(self, batch: OpenBatch, call_id: str, client: BatchClient) -> None:
        if batch.results is not None:
            self._waiters.tell([call_id], lambda call_id: outcome_of(batch, call_id))
        elif not batch.followed:
            batch.followed = True
            self._begin(self._follow(batch, client))

    async def _submit(self, group: _Group, client: BatchClient, key: Key) -> None:
        """Wait until a group is complete, submit it, and follow the batch to its end."""
        while not group.closed and (left := group.touched + self._quiet_seconds - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if self._groups.get(key) is group:
            del self._groups[key]
        asked = group.requests
        batch = OpenBatch(key, frozenset(), followed=True)
        try:
            # A process that died after we opened may have left a batch with calls that are ours now.
            await self.open()
            asked = {name: sent for name, sent in asked.items() if name in self._waiters}
            for call_id in asked.keys() & self._held.keys():
                self._take_up(self._held[call_id], call_id, client)
                del asked[call_id]
            if not asked or self._stop.is_set():
                return
            batch.call_ids = frozenset(asked)
            self._hold(batch)
            await write_batch(self._store, self._study, batch)
            batch.batch_id = await submit(
                client,
                batch,
                asked,
                others=self._others(batch),
                retry=self._retry,
                stop=self._stop,
                jitter=self._jitter,
            )
            await note_batch(self._store, batch, "submitted")
        except Exception as error:
            # Whatever it is, it belongs to those who wait: nobody else would ever hear of it.
            batch.followed = False
            try:
                if isinstance(error, ModelError) and error.reason not in STILL_OPEN:
                    await self._end(batch, "lost")
            finally:
                self._waiters.fail(asked, error)
        else:
            group.requests.clear()
            await self._follow(batch, client)

    async def _follow(self, batch: OpenBatch, client: BatchClient) -> None:
        """Poll a batch until its results are here, and hand them out."""
        try:
            while batch.results is None:
                wait = self._poll_seconds
                try:
                    if not await look(client, batch, others=self._others(batch)):
                        # It never came to be; those who wait ask anew.
                        await self._end(batch, "lost")
                        self._waiters.tell(batch.call_ids, lambda _: None)
                        return
                except ModelError as error:
                    if not error.retryable:
                        self._waiters.fail(batch.call_ids, poll_failure(batch, error))
                        return
                    wait = max(wait, error.retry_after or 0.0)
                if batch.results is None:
                    await asyncio.sleep(wait)
            if not batch.left:
                await self._end(batch, "ended")
            self._waiters.tell(batch.call_ids, lambda call_id: outcome_of(batch, call_id))
        except Exception as error:
            # As above: the store is away, or the provider sent what nobody foresaw.
            self._waiters.fail(batch.call_ids, error)
        finally:
            batch.followed = False

    def _others(self, batch: OpenBatch) -> set[str]:
        return {other.batch_id for other in self._batches.values() if other is not batch and other.batch_id}

    def _hold(self, batch: OpenBatch) -> None:
        self._batches[batch.name] = batch
        self._held.update(dict.fromkeys(batch.call_ids, batch))

    async def _end(self, batch: OpenBatch, state: str) -> None:
        self._batches.pop(batch.name, None)
        for call_id in batch.call_ids:
            if self._held.get(call_id) is batch:
                del self._held[call_id]
        await note_batch(self._store, batch, state)

    async def _watch(self) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(STOP_LOOK_SECONDS)
        self._waiters.fail_all(stopped())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _client(self, spec: ModelSpec) -> BatchClient:
        key = (spec.provider, spec.model, spec.endpoint)
        if key not in self._clients:
            self._clients[key] = self._open_client(spec)
        client = self._clients[key]
        if client is None:
            raise ModelError(f"{spec.provider} has no batch endpoint; ask singly", reason="no_batch")
        return client
