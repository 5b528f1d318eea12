"""One batch and its provider: submitted once, looked for where that is unsure, and its results read."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Collection, Mapping
from typing import Final

from toolkit.errors import ModelError
from toolkit.models.base import ModelRequest
from toolkit.models.batches import BatchClient, Result
from toolkit.runs.batch_records import OpenBatch
from toolkit.runs.retries import RetryPolicy

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
