"""Batch endpoints, where a provider answers within a day at half the price: what they have in common.

A batch is a file of requests, each under a custom id; ours is the call's identity, 64 hexadecimal digits, which both
providers accept. Results come as JSON Lines, in any order, and are kept as received: they are made into replies once
their requests are known, which after a restart is later than the reading.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from toolkit.errors import ModelError
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.failures import (
    body_failure,
    status_failure,
    timeout_failure,
    transport_failure,
    unsendable,
)

if TYPE_CHECKING:
    import httpx2

TRANSFER_SECONDS = 3600.0
"""Longest a batch may take to send or its results to read: 256 MB at 600 kbit/s."""
CLOCK_SLACK_SECONDS = 900.0
"""How much the provider's clock may be behind ours when a batch is looked for by the time it was made."""

Result = Mapping[str, Any] | ModelError
"""What became of one request: the raw reply as received, or why there is none."""


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    ended: bool
    counts: Mapping[str, int]
    failure: str | None = None


class BatchClient(Protocol):
    """A batch endpoint: requests in, an id out, and their results when the batch has ended.

    Every method that asks the provider raises ``ModelError`` as a single call does.
    """

    largest: int
    largest_bytes: int

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        ...

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit requests by custom id under our own name of the batch, and return the provider's id of it."""
        ...

    async def find(
        self, name: str, custom_ids: Collection[str], since: float, others: Collection[str] = ()
    ) -> str | None:
        """Return the id of a batch that was perhaps submitted after ``since``, seconds since 1970.

        ``others`` are ids of batches that are not the one looked for.
        """
        ...

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        ...

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch by custom id; a request without any is absent."""
        ...

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""
        ...

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to answer no more of a batch; what it has answered can still be read."""
        ...

    async def close(self) -> None:
        """Close the connections; batches go on."""
        ...


def id_of(spec: ModelSpec, made: Mapping[str, Any]) -> str:
    """Return the id in what a provider says of a file or batch."""
    if not isinstance(made.get("id"), str) or not made["id"]:
        raise body_failure(spec, "holds no id")
    return str(made["id"])


def unanswered(spec: ModelSpec, reason: str) -> ModelError:
    """Return the failure of a call that a batch ended without answering; asked singly it may succeed."""
    return ModelError(
        f"{spec.provider} model {spec.model!r}: the batch did not answer this call ({reason})",
        reason=reason,
        retryable=True,
    )


def json_line(spec: ModelSpec, value: Mapping[str, Any]) -> bytes:
    r"""Return a JSON object as one line, whatever its reader takes for a line break."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # JSON leaves these three as they are, and str.splitlines, among others, breaks lines at them.
        for mark in ("\x85", "\u2028", "\u2029"):
            text = text.replace(mark, f"\\u{ord(mark):04x}")
        return text.encode() + b"\n"
    except ValueError:
        raise unsendable(spec) from None


async def json_lines(
    sent: Awaitable[Any],
    *,
    sdk: ModuleType,
    spec: ModelSpec,
    key: str | None,
    most: int | None = None,
) -> list[dict[str, Any]]:
    """Wait for a streamed reply and return the objects on its lines, parsed as they arrive."""
    import httpx2

    failure: ModelError
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            response = await sent
            try:
                return await _objects(spec, response, most)
            finally:
                await response.aclose()
    except sdk.APIStatusError as error:
        failure = status_failure(spec, error.status_code, error.response.headers, error.body, key=key)
    except (sdk.APIConnectionError, httpx2.HTTPError) as error:
        failure = transport_failure(spec, error)
    except TimeoutError:
        failure = timeout_failure(spec, TRANSFER_SECONDS)
    except ModelError as error:  # a redirect that is not followed, or a body that broke off
        failure = error.with_traceback(None)
    finally:
        key = None  # as in `toolkit.models.transport.json_reply`
    # Raised here and not above: the client's error holds the request with its key and must not ride along.
    raise failure


async def _objects(spec: ModelSpec, response: httpx2.Response, most: int | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    broken = False
    rest = b""

    def take(line: bytes) -> None:
        nonlocal broken
        if not line.strip():
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        broken = not isinstance(value, dict)
        if isinstance(value, dict):
            found.append(value)

    async for chunk in response.aiter_bytes():
        # At b"\n" and nowhere else: a reply's text may hold what other splitters take for a line break.
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            take(line)
        if most is not None and len(found) >= most:
            return found[:most]
    take(rest)
    if broken:
        raise body_failure(spec, "of a batch broke off, or is not JSON Lines")
    return found
