"""Batch endpoints, where a provider answers within a day at half the price.

A batch is a list of requests, each under a custom id; ours is the call's identity, 64 hexadecimal digits, which both
providers accept. Results come as JSON Lines, in any order, and are kept as received: they are made into replies once
their requests are known, which after a restart is later than the reading.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2
import openai

from toolkit.errors import ModelError
from toolkit.models import anthropic_client, openai_client
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.replies import from_anthropic_message, from_chat_completion
from toolkit.models.transport import body_failure, json_reply, of_client, status_failure, unsendable

TRANSFER_SECONDS = 3600.0
"""Longest a batch may take to send or its results to read: 256 MB at 600 kbit/s."""
CLOCK_SLACK_SECONDS = 900.0
"""How much the provider's clock may be behind ours when a batch is looked for by the time it was made."""
PAGE = 100  # batches listed at once: the most that OpenAI lists
NAME_KEY = "toolkit_batch"
"""The key of an OpenAI batch's metadata under which our own name of it is kept."""

Result = Mapping[str, Any] | ModelError
"""What became of one request: the raw reply as received, or why there is none."""


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    ended: bool
    counts: Mapping[str, int]
    failure: str | None = None


class BatchClient(ABC):
    """A batch endpoint over the client of single calls; whatever asks the provider raises ``ModelError`` as they do."""

    sdk: ModuleType
    path: str
    largest: int
    largest_bytes: int
    after_key: str

    def __init__(self, spec: ModelSpec, *, key: str | None = None) -> None:
        self._spec, self._key = spec, key
        model = openai_client.OpenAIModel if self.sdk is openai else anthropic_client.AnthropicModel
        self._model = model(spec, key=key)

    @abstractmethod
    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit requests by custom id under our own name of the batch, and return the provider's id of it."""

    @abstractmethod
    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""

    @abstractmethod
    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch by custom id; a request without any is absent."""

    @abstractmethod
    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""

    @abstractmethod
    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        """Return a request as it stands in a batch."""

    @abstractmethod
    async def _is_ours(
        self, batch: Mapping[str, Any], name: str, custom_ids: Collection[str], others: Collection[str]
    ) -> bool:
        """Return whether a listed batch is, as far as it shows, the one of that name."""

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        return len(self._line(custom_id, request))

    async def find(
        self, name: str, custom_ids: Collection[str], since: float, others: Collection[str] = ()
    ) -> str | None:
        """Return the id of a batch that was perhaps submitted after ``since``, seconds since 1970.

        ``others`` are ids of batches that are not the one looked for.
        """
        async for batch in self._listed():
            try:
                made = batch["created_at"]
                made = datetime.fromisoformat(made).timestamp() if isinstance(made, str) else made
                # Newest first, so what is older than ours cannot be it, and nothing after it.
                if made < since - CLOCK_SLACK_SECONDS:
                    return None
                if await self._is_ours(batch, name, custom_ids, others):
                    return self._id_of(batch)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise self._no_list() from None
        return None

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to answer no more of a batch; what it has answered can still be read."""
        await self._json("POST", f"{self._at(batch_id)}/cancel")

    async def close(self) -> None:
        """Close the connections; batches go on."""
        await self._model.close()

    async def _listed(self) -> AsyncIterator[Mapping[str, Any]]:
        after: dict[str, object] = {}
        while True:
            page = await self._json("GET", self.path, params={"limit": PAGE, **after})
            batches = page.get("data")
            if not isinstance(batches, list):
                raise self._no_list()
            for batch in batches:
                yield batch
            if not page.get("has_more"):
                return
            try:
                after = {self.after_key: batches[-1]["id"]}
            except (IndexError, KeyError, TypeError):
                raise self._no_list() from None

    def _no_list(self) -> ModelError:
        return body_failure(self._spec, "holds no list of batches")

    def _at(self, batch_id: str) -> str:
        return f"{self.path}/{quote(batch_id, safe='')}"

    async def _batch(self, batch_id: str, status: str) -> dict[str, Any]:
        batch = await self._json("GET", self._at(batch_id))
        if not isinstance(batch.get(status), str):
            raise body_failure(self._spec, "holds no state of a batch")
        return batch

    def _id_of(self, made: Mapping[str, Any]) -> str:
        """Return the id in what a provider says of a file or batch."""
        if not isinstance(made.get("id"), str) or not made["id"]:
            raise body_failure(self._spec, "holds no id")
        return str(made["id"])

    def _unanswered(self, reason: str) -> ModelError:
        """Return the failure of a call that a batch ended without answering; asked singly it may succeed."""
        return ModelError(
            f"{self._spec.provider} model {self._spec.model!r}: the batch did not answer this call ({reason})",
            reason=reason,
            retryable=True,
        )

    def _line(self, custom_id: str, request: ModelRequest) -> bytes:
        return json_line(self._spec, self._item(custom_id, request))

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        seconds: float | None = None,
        **sent: Any,
    ) -> dict[str, Any]:
        client = self._model.client
        if method == "GET":
            work = client.get(path, cast_to=httpx2.Response, options={"params": dict(params or {})})
        else:
            work = client.post(path, cast_to=httpx2.Response, **sent)
        return await json_reply(
            work,
            sdk=self.sdk,
            spec=self._spec,
            key=self._key,
            seconds=seconds or self._model.limits.seconds,
        )

    async def _lines(self, path: str, most: int | None = None) -> list[dict[str, Any]]:
        """Return the objects on the lines of a streamed reply, parsed as they arrive."""
        sent = self._model.client.get(
            path, cast_to=httpx2.Response, stream=True, stream_cls=self.sdk.AsyncStream[Any]
        )

        async def read() -> list[dict[str, Any]]:
            response = await sent
            try:
                return await _objects(self._spec, response, most)
            finally:
                await response.aclose()

        return await of_client(read(), sdk=self.sdk, spec=self._spec, key=self._key, seconds=TRANSFER_SECONDS)


class OpenAIBatches(BatchClient):
    """OpenAI's: a file of requests is uploaded, a batch made of it, and two files come back."""

    sdk, path, after_key = openai, "/batches", "after"
    # "up to 50,000 requests, and can be up to 200 MB in size": batch_create_params of the openai package
    largest, largest_bytes = 50_000, 200 * 10**6
    _ended = ("completed", "failed", "expired", "cancelled")
    # The codes of BatchRequestOutputError in OpenAI's API description, and our words for them.
    _reasons = {  # noqa: RUF012
        "batch_expired": "batch_expired",
        "batch_cancelled": "batch_cancelled",
        "request_timeout": "timeout",
    }

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Upload the requests and make a batch of them; ``name`` goes into its metadata."""
        lines = await asyncio.to_thread(
            lambda: b"".join(self._line(custom_id, request) for custom_id, request in requests.items())
        )
        uploaded = await self._json(
            "POST",
            "/files",
            body={"purpose": "batch"},
            files={"file": (f"{name}.jsonl", lines, "application/jsonl")},
            options={"headers": {"Content-Type": "multipart/form-data"}},
            seconds=TRANSFER_SECONDS,
        )
        body = {
            "input_file_id": self._id_of(uploaded),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {NAME_KEY: name},
        }
        return self._id_of(await self._json("POST", self.path, body=body))

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._batch(batch_id, "status")
        failure = None
        if batch["status"] == "failed":
            errors = (batch.get("errors") or {}).get("data") or [{}]
            # Through the failures of single calls, so that the provider's words are made safe in one place.
            failure = str(status_failure(self._spec, 400, {}, {"error": dict(errors[0])}, key=self._key))
        return BatchState(batch["status"] in self._ended, dict(batch.get("request_counts") or {}), failure)

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch, from its output file and its error file."""
        batch = await self._batch(batch_id, "status")
        return {
            line["custom_id"]: self._result(line)
            for name in ("error_file_id", "output_file_id")
            if batch.get(name)
            for line in await self._lines(f"/files/{quote(batch[name], safe='')}/content")
            if isinstance(line.get("custom_id"), str)
        }

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result."""
        return from_chat_completion(self._spec, request, raw)

    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        body = openai_client.request_body(self._spec, request)
        return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}

    async def _is_ours(
        self, batch: Mapping[str, Any], name: str, custom_ids: Collection[str], others: Collection[str]
    ) -> bool:
        return bool((batch.get("metadata") or {}).get(NAME_KEY) == name)

    def _result(self, line: Mapping[str, Any]) -> Result:
        response, error = line.get("response"), line.get("error")
        if isinstance(response, Mapping):
            status, body = response.get("status_code"), response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return body
            if isinstance(status, int) and status >= 400:
                return status_failure(self._spec, status, {}, body, key=self._key)
        code = error.get("code") if isinstance(error, Mapping) else None
        return self._unanswered(self._reasons.get(str(code), "batch_error"))


class AnthropicBatches(BatchClient):
    """Anthropic's: the requests travel in one body, and a stream of results comes back."""

    sdk, path, after_key = anthropic, "/v1/messages/batches", "after_id"
    # "100,000 Message requests or 256 MB in size, whichever is reached first": Anthropic, "Batch processing"
    largest, largest_bytes = 100_000, 256 * 10**6
    # HTTP status of each type of error, as Anthropic documents them for single calls ("Errors" in its API reference).
    _status = {  # noqa: RUF012
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
    _reasons = {"expired": "batch_expired", "canceled": "batch_cancelled"}  # noqa: RUF012

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit the requests; ``name`` has no place in this provider's batches, `find` goes by the custom ids."""
        body = {"requests": [self._item(custom_id, request) for custom_id, request in requests.items()]}
        return self._id_of(await self._json("POST", self.path, body=body, seconds=TRANSFER_SECONDS))

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._batch(batch_id, "processing_status")
        return BatchState(batch["processing_status"] == "ended", dict(batch.get("request_counts") or {}))

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch."""
        return {
            line["custom_id"]: self._result(line.get("result"))
            for line in await self._results_of(batch_id)
            if isinstance(line.get("custom_id"), str)
        }

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result."""
        return from_anthropic_message(self._spec, request, raw)

    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        return {"custom_id": custom_id, "params": anthropic_client.request_body(self._spec, request)}

    async def _is_ours(
        self, batch: Mapping[str, Any], name: str, custom_ids: Collection[str], others: Collection[str]
    ) -> bool:
        """Return whether a batch has as many requests, and our custom ids where they show.

        They show only once a batch has ended. Until then another batch of that size may be taken for ours; whoever
        reads its results sees that they are not, and looks again.
        """
        if sum(batch["request_counts"].values()) != len(custom_ids) or batch["id"] in others:
            return False
        if batch.get("processing_status") != "ended":
            return True
        first = await self._results_of(batch["id"], most=1)
        return bool(first) and first[0].get("custom_id") in custom_ids

    async def _results_of(self, batch_id: str, most: int | None = None) -> list[dict[str, Any]]:
        # Not at the `results_url` of the batch: the key must not travel to an address that a server names.
        return await self._lines(f"{self._at(batch_id)}/results", most)

    def _result(self, result: Any) -> Result:
        found = result if isinstance(result, Mapping) else {}
        if found.get("type") == "succeeded" and isinstance(found.get("message"), Mapping):
            message: Mapping[str, Any] = found["message"]
            return message
        error = found.get("error")
        if isinstance(error, Mapping):
            # The error of a single call, wrapped once more: {"type": "error", "error": {"type": ..., "message": ...}}.
            inner = error.get("error")
            kind = str(inner.get("type")) if isinstance(inner, Mapping) else ""
            return status_failure(self._spec, self._status.get(kind, 400), {}, error, key=self._key)
        return self._unanswered(self._reasons.get(str(found.get("type")), "batch_error"))


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
