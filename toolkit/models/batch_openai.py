"""OpenAI's batch endpoint: a file of requests is uploaded, a batch made of it, and two files come back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import openai

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
from toolkit.models.openai_client import OpenAIModel, request_body
from toolkit.models.replies import from_chat_completion
from toolkit.models.transport import json_reply

NAME_KEY = "toolkit_batch"
"""The key of a batch's metadata under which our own name of it is kept."""
PAGE = 100  # the most batches OpenAI lists at once
_ENDED = ("completed", "failed", "expired", "cancelled")
# The codes of BatchRequestOutputError in OpenAI's API description, and our words for them.
_REASONS = {
    "batch_expired": "batch_expired",
    "batch_cancelled": "batch_cancelled",
    "request_timeout": "timeout",
}


class OpenAIBatches(OpenAIModel):
    """A model behind OpenAI's batch endpoint, over the same client as single calls; see ``BatchClient``."""

    # "up to 50,000 requests, and can be up to 200 MB in size": batch_create_params of the openai package
    largest = 50_000
    largest_bytes = 200 * 10**6

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        return len(self._line(custom_id, request))

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Upload the requests and make a batch of them; ``name`` goes into its metadata."""
        lines = await asyncio.to_thread(
            lambda: b"".join(self._line(custom_id, request) for custom_id, request in requests.items())
        )
        uploaded = await json_reply(
            self._client.post(
                "/files",
                cast_to=httpx2.Response,
                body={"purpose": "batch"},
                files={"file": (f"{name}.jsonl", lines, "application/jsonl")},
                options={"headers": {"Content-Type": "multipart/form-data"}},
            ),
            sdk=openai,
            spec=self._spec,
            key=self._key,
            seconds=TRANSFER_SECONDS,
        )
        body = {
            "input_file_id": id_of(self._spec, uploaded),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {NAME_KEY: name},
        }
        return id_of(self._spec, await self._json("POST", "/batches", body=body))

    async def find(
        self, name: str, custom_ids: Collection[str], since: float, others: Collection[str] = ()
    ) -> str | None:
        """Return the id of the batch of that name, or ``None``: the name is in the metadata of every batch."""
        after: dict[str, object] = {}
        while True:
            page = await self._json("GET", "/batches", params={"limit": PAGE, **after})
            try:
                for batch in page["data"]:
                    if (batch.get("metadata") or {}).get(NAME_KEY) == name:
                        return id_of(self._spec, batch)
                    # Newest first, so what is older than ours cannot be it, and nothing after it.
                    if batch["created_at"] < since - CLOCK_SLACK_SECONDS:
                        return None
                if not page.get("has_more"):
                    return None
                after = {"after": page["data"][-1]["id"]}
            except (KeyError, IndexError, TypeError, AttributeError):
                raise body_failure(self._spec, "holds no list of batches") from None

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._batch(batch_id)
        failure = None
        if batch.get("status") == "failed":
            errors = (batch.get("errors") or {}).get("data") or [{}]
            # Through the failures of single calls, so that the provider's words are made safe in one place.
            failure = str(status_failure(self._spec, 400, {}, {"error": dict(errors[0])}, key=self._key))
        return BatchState(batch.get("status") in _ENDED, dict(batch.get("request_counts") or {}), failure)

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch, from its output file and its error file."""
        batch = await self._batch(batch_id)
        results: dict[str, Result] = {}
        for name in ("error_file_id", "output_file_id"):
            if batch.get(name):
                sent = self._client.get(
                    f"/files/{quote(batch[name], safe='')}/content",
                    cast_to=httpx2.Response,
                    stream=True,
                    stream_cls=openai.AsyncStream[Any],
                )
                for line in await json_lines(sent, sdk=openai, spec=self._spec, key=self._key):
                    if isinstance(line.get("custom_id"), str):
                        results[line["custom_id"]] = self._result(line)
        return results

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""
        return from_chat_completion(self._spec, request, raw)

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to answer no more of a batch; what it has answered can still be read."""
        await self._json("POST", f"/batches/{quote(batch_id, safe='')}/cancel")

    def _line(self, custom_id: str, request: ModelRequest) -> bytes:
        return json_line(
            self._spec,
            {
                "custom_id": custom_id,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": request_body(self._spec, request),
            },
        )

    def _result(self, line: Mapping[str, Any]) -> Result:
        """Return what became of the request of one line of either file."""
        response, error = line.get("response"), line.get("error")
        if isinstance(response, Mapping):
            status, body = response.get("status_code"), response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return body
            if isinstance(status, int) and status >= 400:
                return status_failure(self._spec, status, {}, body, key=self._key)
        code = error.get("code") if isinstance(error, Mapping) else None
        reason = _REASONS.get(str(code), "batch_error")
        return unanswered(self._spec, reason)

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        batch = await self._json("GET", f"/batches/{quote(batch_id, safe='')}")
        if not isinstance(batch.get("status"), str):
            raise body_failure(self._spec, "holds no state of a batch")
        return batch

    async def _json(
        self, method: str, path: str, *, body: object = None, params: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        if method == "GET":
            sent = self._client.get(path, cast_to=httpx2.Response, options={"params": dict(params or {})})
        else:
            sent = self._client.post(path, cast_to=httpx2.Response, body=body)
        return await json_reply(
            sent, sdk=openai, spec=self._spec, key=self._key, seconds=self._limits.seconds
        )
