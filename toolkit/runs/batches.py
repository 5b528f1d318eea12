"""The desk where single askings become batches: half the price, an answer within a day, and nothing lost meanwhile.

A batch is in the store before it is submitted and stays there, open, until every reply it brought is in the ledger;
so whichever process asks for one of its calls next finds the batch and waits for it instead of paying again. A batch
of an earlier process is taken up when one of its calls is asked for, and not before: who asks holds the claim of that
call, so the process that submitted it is gone. Until then the batch may be another living process's own.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ModelError
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.batches import BatchClient
from toolkit.models.catalogue import ModelSpec
from toolkit.runs.batch_exchange import STILL_OPEN, look, outcome_of, poll_failure, stopped, submit
from toolkit.runs.batch_records import Key, OpenBatch, note_batch, open_batches, write_batch
from toolkit.runs.batch_waiters import Waiters
from toolkit.runs.retries import RetryPolicy
from toolkit.store.connection import Store

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
