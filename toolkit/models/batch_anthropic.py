"""Anthropic's batch endpoint: the requests travel in one body, and a stream of results comes back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2

from toolkit.models.anthropic_client import AnthropicModel, request_body
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.batches import (
    CLOCK_SLACK_SECONDS,
    TRANSFER_SECONDS,
    BatchState,
    Result,
    id_of,
    json_line,
    json_lines,
    unanswered,
)
from toolkit.models.failures import body_failure, status_failure
from toolkit.models.replies import from_anthropic_message
from toolkit.models.transport import json_reply

PATH = "/v1/messages/batches"
PAGE = 100  # batches listed at once, of at most 1,000
# HTTP status of each type of error, as Anthropic documents them for single calls ("Errors" in its API reference).
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_UNANSWERED = {"expired": "batch_expired", "canceled": "batch_cancelled"}


class AnthropicBatches(AnthropicModel):
    """A model behind Anthropic's batch endpoint, over the same client as single calls; see ``BatchClient``."""

    # "100,000 Message requests or 256 MB in size, whichever is reached first": Anthropic, "Batch processing"
    largest = 100_000
    largest_bytes = 256 * 10**6

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        return len(json_line(self._spec, self._item(custom_id, request)))

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit the requests; ``name`` has no place in this provider's batches, `find` goes by the custom ids."""
        body = {"requests": [self._item(custom_id, request) for custom_id, request in requests.items()]}
        return id_of(self._spec, await self._json("POST", PATH, body=body, seconds=TRANSFER_SECONDS))

    async def find(
        self, name: str, custom_ids: Collection[str], since: float, others: Collection[str] = ()
    ) -> str | None:
        """Return the id of a batch with as many requests, not older, and with our custom ids where they show.

        Custom ids show only once a batch has ended. Until then another batch of that size may be taken for ours;
        whoever reads its results sees that they are not, and looks again.
        """
        after: dict[str, object] = {}
        while True:
            page = await self._json("GET", PATH, params={"limit": PAGE, **after})
            try:
                for batch in page["data"]:
                    # Newest first, so what is older than ours cannot be it, and nothing after it.
                    if datetime.fromisoformat(batch["created_at"]).timestamp() < since - CLOCK_SLACK_SECONDS:
                        return None
                    as_many = sum(batch["request_counts"].values()) == len(custom_ids)
                    if as_many and batch["id"] not in others and await self._may_hold(batch, custom_ids):
                        return id_of(self._spec, batch)
                if not page.get("has_more"):
                    return None
                after = {"after_id": page["data"][-1]["id"]}
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                raise body_failure(self._spec, "holds no list of batches") from None

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._json("GET", f"{PATH}/{quote(batch_id, safe='')}")
        if not isinstance(batch.get("processing_status"), str):
            raise body_failure(self._spec, "holds no state of a batch")
        return BatchState(batch["processing_status"] == "ended", dict(batch.get("request_counts") or {}))

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch."""
        return {
            line["custom_id"]: self._result(line.get("result"))
            for line in await self._lines(batch_id)
            if isinstance(line.get("custom_id"), str)
        }

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""
        return from_anthropic_message(self._spec, request, raw)

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to answer no more of a batch; what it has answered can still be read."""
        await self._json("POST", f"{PATH}/{quote(batch_id, safe='')}/cancel")

    async def _may_hold(self, batch: Mapping[str, Any], custom_ids: Collection[str]) -> bool:
        if batch.get("processing_status") != "ended":
            return True
        first = await self._lines(batch["id"], most=1)
        return bool(first) and first[0].get("custom_id") in custom_ids

    async def _lines(self, batch_id: str, most: int | None = None) -> list[dict[str, Any]]:
        # Not at the `results_url` of the batch: the key must not travel to an address that a server names.
        sent = self._client.get(
            f"{PATH}/{quote(batch_id, safe='')}/results",
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=anthropic.AsyncStream[Any],
        )
        return await json_lines(sent, sdk=anthropic, spec=self._spec, key=self._key, most=most)

    def _result(self, result: Any) -> Result:
        """Return what became of one request."""
        if not isinstance(result, Mapping):
            result = {}
        if result.get("type") == "succeeded" and isinstance(result.get("message"), Mapping):
            message: Mapping[str, Any] = result["message"]
            return message
        error = result.get("error")
        if isinstance(error, Mapping):
            # The error of a single call, wrapped once more: {"type": "error", "error": {"type": ..., "message": ...}}.
            inner = error.get("error")
            kind = str(inner.get("type")) if isinstance(inner, Mapping) else ""
            return status_failure(self._spec, _STATUS.get(kind, 400), {}, error, key=self._key)
        reason = _UNANSWERED.get(str(result.get("type")), "batch_error")
        return unanswered(self._spec, reason)

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        if method == "GET":
            sent = self._client.get(path, cast_to=httpx2.Response, options={"params": dict(params or {})})
        else:
            sent = self._client.post(path, cast_to=httpx2.Response, body=body)
        return await json_reply(
            sent, sdk=anthropic, spec=self._spec, key=self._key, seconds=seconds or self._limits.seconds
        )

    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        return {"custom_id": custom_id, "params": request_body(self._spec, request)}
