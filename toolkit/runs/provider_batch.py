"""Fill the ledger from batches of a provider before a study asks singly: half the price, an answer within a day.

A batch is in the store before it is submitted, and stays open there until each of its calls is in the ledger, answered
or failed; whoever runs the study next collects it. What a batch does not answer is asked singly afterwards.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pymongo import InsertOne, UpdateOne
from ulid import ULID

from toolkit.errors import ModelError
from toolkit.models.base import BatchResult, ModelRequest, add_result, is_unreadable
from toolkit.models.catalogue import Key, ModelSpec
from toolkit.models.prices import aud_cost, batch_price
from toolkit.runs.gateway import REFUSALS, Gateway, worst_aud
from toolkit.runs.ledger import Claim, OpenBatch, open_batches
from toolkit.runs.limits import UNREACHABLE, UNSURE, RetryPolicy, pause
from toolkit.runs.progress import Progress
from toolkit.store.documents import Batch
from toolkit.store.writer import TOUCH, utc_now
from toolkit.words import counted, total_aud

if TYPE_CHECKING:
    from toolkit.models.batches import BatchClient

LOOKS = 6
"""Looks at a batch that contradicts itself, each after twice the time: half an hour at the usual pace."""
LISTINGS = 3
"""Times that a batch which may have arrived is looked for: a list of batches may be behind."""
RETRY = RetryPolicy(attempts=5, first_wait=2.0)


class Batches:
    """The batches of one execution of a study."""

    def __init__(
        self,
        gateway: Gateway,
        open_client: Callable[[ModelSpec], BatchClient | None],
        *,
        poll_seconds: float,
        stop: threading.Event,
        shown: bool,
    ) -> None:
        self._gateway, self._ledger, self._store = gateway, gateway.ledger, gateway.ledger.store
        self._open_client, self._poll_seconds, self._stop = open_client, poll_seconds, stop
        self._shown, self._bar = shown, Progress("calls in batches", 0, shown=False)
        self._clients: dict[Key, BatchClient | None] = {}
        self._jitter = random.Random()

    async def fill(self, requests: Iterable[ModelRequest], purpose: str) -> None:
        """Have the ledger hold the answer, or the failure, of every request that batches take."""
        waiting = {request.identity(): request for request in requests}
        while waiting and not self._stop.is_set():
            for call_id in await asyncio.to_thread(self._ledger.prefetch, waiting):
                del waiting[call_id]
            batches = await asyncio.to_thread(open_batches, self._store, self._ledger.study)
            batches = [batch for batch in batches if batch.call_ids & waiting.keys()]
            if account := self._gateway.account:  # it counted them when it began
                account.adopt(total_aud(batch.worst_aud for batch in batches))
            held = self._gateway.held
            new = {call_id: request for call_id, request in waiting.items() if call_id not in held}
            batches += [batch async for batch in self._submitted(new)]
            if not batches:
                return
            expected = [call_id for batch in batches for call_id in batch.call_ids if call_id in waiting]
            self._bar = Progress(
                "calls in batches",
                len(expected),
                shown=self._shown,
                since=self._gateway.counters,
                waiting=partial(str, f"{counted(len(expected), 'calls')} for a batch of its provider"),
            )
            try:
                await asyncio.gather(*(self._collect(batch, waiting, purpose) for batch in batches))
            finally:
                self._bar.close()
            for call_id in expected:
                waiting.pop(call_id, None)

    async def close(self) -> None:
        """Close the connections; open batches stay open and are found again."""
        for client in filter(None, self._clients.values()):
            await client.close()

    def _client(self, key: Key) -> BatchClient | None:
        if key not in self._clients:
            self._clients[key] = self._open_client(self._gateway.endpoints[key].spec)
        return self._clients[key]

    def _portions(
        self, requests: Mapping[str, ModelRequest]
    ) -> Iterator[tuple[Key, dict[str, ModelRequest]]]:
        """Yield requests as single batches take them: of one model, and no larger than its provider allows."""
        groups: dict[Key, dict[str, ModelRequest]] = defaultdict(dict)
        for call_id, request in requests.items():
            groups[request.provider, request.model, request.endpoint][call_id] = request
        for key, group in groups.items():
            client = self._client(key) if self._gateway.endpoints[key].batch else None
            if client is None:
                continue
            portion, size = dict[str, ModelRequest](), 0
            for call_id, request in group.items():
                try:
                    size += (own := client.size(call_id, request))
                except ModelError:  # it cannot be sent, and says so when it is asked singly
                    continue
                if portion and (len(portion) >= client.largest or size > client.largest_bytes):
                    yield key, portion
                    portion, size = {}, own
                portion[call_id] = request
            if portion:
                yield key, portion

    async def _submitted(self, requests: Mapping[str, ModelRequest]) -> Any:
        """Submit as many requests as the budget allows at their worst; yield the batches."""
        account = self._gateway.account
        for key, portion in self._portions(requests):
            worst = {call_id: self._gateway.worst_aud(request) for call_id, request in portion.items()}
            while worst and account and not await account.fits_still(total_aud(worst.values())):
                worst = dict(list(worst.items())[: len(worst) // 2])
            if not worst:
                continue
            batch = OpenBatch(str(ULID()), key, frozenset(worst), total_aud(worst.values()))
            document = Batch(
                name=batch.name,
                state="submitting",
                study=self._ledger.study,
                provider=key[0],
                model=key[1],
                endpoint=key[2],
                call_ids=sorted(worst),
                worst_aud=batch.worst_aud,
                created=time.time(),
            )
            document.validate()
            await self._store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)
            self._gateway.held |= batch.call_ids
            try:
                sent = {call_id: portion[call_id] for call_id in worst}
                yield replace(batch, batch_id=await self._send(batch, sent))
            except ModelError as error:
                if error.reason == "batch_unknown":  # it may be there, and so it stays open
                    self._settle(batch, batch.worst_aud)
                else:  # the requests meet the same fault singly
                    await self._note(batch, "lost")
                    self._gateway.held -= batch.call_ids
                    self._settle(batch, 0.0)

    async def _send(self, batch: OpenBatch, requests: Mapping[str, ModelRequest]) -> str:
        """Submit a batch and note the provider's id of it; one that may have arrived is looked for first."""
        client, unsure = self._client(batch.key), False
        assert client is not None
        for number in range(1, RETRY.attempts + 1):
            try:
                if unsure and (found := await self._found(client, batch)):
                    return found
                batch_id = await client.submit(requests, batch.name)
                await self._note(batch, "submitted", batch_id=batch_id)
                return batch_id
            except ModelError as error:
                unsure = unsure or (error.retryable and error.reason not in ("rate_limited", UNREACHABLE))
                if not error.retryable or number == RETRY.attempts or self._stop.is_set():
                    message = f"batch {batch.name}: it is not known whether the provider has it ({error})"
                    raise ModelError(message, reason="batch_unknown") if unsure else error from None
                await pause(RETRY.wait(number, error.retry_after, self._jitter), self._stop)
        raise AssertionError("the last attempt raises")

    async def _found(self, client: BatchClient, batch: OpenBatch) -> str | None:
        """Look for a batch whose id nobody noted; raises ``ModelError`` where one that still runs may be it."""
        others = {other["batch_id"] for other in self._store.find_where(Batch, {}) if other.get("batch_id")}
        for number in range(LISTINGS):
            await pause(self._poll_seconds * bool(number), self._stop)
            batch_id, running = await client.find(batch.name, batch.call_ids, others)
            if batch_id:
                await self._note(batch, "submitted", batch_id=batch_id)
                return batch_id
            if running:
                raise ModelError("a batch that runs may be it", reason="batch_running", retryable=True)
        return None

    async def _collect(self, batch: OpenBatch, requests: Mapping[str, ModelRequest], purpose: str) -> None:
        """Follow a batch to its end and write what it brought for some requests into the ledger."""
        spent, started = batch.worst_aud, time.monotonic()  # what it may cost, where it stays open
        try:
            results = await self._results(batch)
            if results is None:
                return
            ready = batch.call_ids & requests.keys()
            costs = await asyncio.gather(
                *(self._keep(batch, requests[n], results.get(n), purpose, started) for n in ready)
            )
            left = await asyncio.to_thread(self._ledger.unpaid, batch.call_ids - ready)
            worst = batch.worst_aud * len(left) / len(batch.call_ids)
            state = "submitted" if left else "ended"
            await self._note(batch, state, call_ids=sorted(left or batch.call_ids), worst_aud=worst)
            self._gateway.held -= ready
            spent = total_aud(costs) + worst
        finally:
            self._settle(batch, spent)

    async def _results(self, batch: OpenBatch) -> dict[str, BatchResult] | None:
        """Return what an ended batch brought by call; ``None`` where it stays open."""
        client, batch_id, looks, refusals = self._client(batch.key), batch.batch_id, 0, 0
        read = dict[str, BatchResult]()
        while client and not self._stop.is_set():
            fault, may_be_open = "", False
            try:
                batch_id = batch_id or await self._found(client, batch)
                if batch_id is None:  # it never came to be
                    return {}
                state = await client.state(batch_id)
                if state.ended:
                    results = await client.results(batch_id, batch.name, batch.call_ids)
                    for call_id, result in results.by_call.items():
                        add_result(read, call_id, result)
                    replies = sum(not isinstance(result, ModelError) for result in read.values())
                    missing = len(batch.call_ids - read.keys())
                    short = state.answered is None or state.answered > replies
                    if not (
                        any(map(is_unreadable, read.values())) or (missing and short and not state.failure)
                    ):
                        return read
                    counts = f"its provider counts {state.answered} answers, {replies} were read"
                    fault = "; ".join([counts, *results.faults])
            except ModelError as error:
                refusals = refusals + 1 if error.reason == UNREACHABLE else 0
                if refusals == REFUSALS or (not error.retryable and error.reason != "not_found"):
                    return None
                may_be_open = error.reason == "malformed_body"
                fault = str(error) if error.reason in ("not_found", "malformed_body") else ""
            looks = looks + 1 if fault else 0
            if fault and looks == 1:
                _say(batch, f"{fault}; it is looked at again")
            if looks >= LOOKS:
                if may_be_open:
                    return None
                lost = ModelError(f"the batch may have answered this call: {fault}", reason="batch_lost")
                answers = {n: read.get(n, lost) for n in batch.call_ids}
                unsure = sum(isinstance(r, ModelError) and r.reason in UNSURE for r in answers.values())
                _say(batch, f"{unsure} calls are given up after {LOOKS} looks and booked as if billed")
                return answers
            await pause(self._poll_seconds * 2 ** max(0, looks - 1), self._stop)
        return None

    async def _keep(
        self,
        batch: OpenBatch,
        request: ModelRequest,
        result: BatchResult | None,
        purpose: str,
        started: float,
    ) -> float:
        """Write what a batch brought for one call into the ledger, and return what it cost or may have cost."""
        client = self._client(batch.key)
        assert client is not None  # it read the result
        self._bar.step(self._gateway.counters)
        worst = self._gateway.worst_aud(request)
        # Claimed like a single call, so that what a dead process may have sent of it stays counted.
        claim = await self._ledger.claim(request, purpose=purpose, worst_aud=worst, sent=False)
        if not isinstance(claim, Claim):  # another study has it: what both paid is counted when it is written
            claim = Claim(request, purpose, worst)
        ms = (time.monotonic() - started) * 1000
        attempt: dict[str, Any] = {"at": utc_now(), "outcome": "answered", "batch": True, "ms": ms}
        try:
            if result is None:
                raise ModelError("the batch ended without a result for this call", reason="batch_missing")
            if isinstance(result, ModelError):
                raise result
            reply = client.reply(request, result)
        except ModelError as error:
            attempt["outcome"] = error.reason
            unsure = worst if error.billed or error.reason in UNSURE else 0.0
            await self._ledger.fail(
                claim, reason=error.reason, message=str(error), attempts=[attempt], unsure_aud=unsure
            )
            return unsure
        endpoint = self._gateway.endpoints[batch.key]
        price = batch_price(endpoint.price, request.provider)
        spent = aud_cost(reply.usage, price, attempt["at"].date())
        self._gateway.note_reply(request, reply, attempt, spent, worst_aud(request, endpoint))
        await self._ledger.complete(
            claim,
            reply,
            aud_cost=spent,
            aud_per_usd=price.aud_per_usd if spent else None,
            latency_ms=ms,
            attempts=[attempt],
        )
        return spent

    async def _note(self, batch: OpenBatch, state: str, **fields: Any) -> None:
        change = {"$set": {"state": state, **fields}, **TOUCH}
        await self._store.writer.write("batches", UpdateOne({"_id": batch.name}, change), flush=True)

    def _settle(self, batch: OpenBatch, used_aud: float) -> None:
        if account := self._gateway.account:
            account.settle(batch.worst_aud, used_aud)


def _say(batch: OpenBatch, message: str) -> None:
    provider, model, _ = batch.key
    print(f"\nbatch {batch.name} of {provider} {model}: {message}", file=sys.stderr, flush=True)
