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
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

from toolkit.errors import ModelError
from toolkit.models.anthropic_client import AnthropicModel
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.openai_client import OpenAIModel
from toolkit.models.transport import STATUS_OF, ClientModel, body_failure, failure, unsendable

TRANSFER_SECONDS: Final = 3600.0
"""Longest a batch may take to send or its results to read: 256 MB at 600 kbit/s."""
CLOCK_SLACK_SECONDS: Final = 900.0
"""How much the provider's clock may be behind ours when a batch is looked for by the time it was made."""
PAGE: Final = 100  # batches listed at once: the most that OpenAI lists
NAME_KEY: Final = "toolkit_batch"
"""The key of an OpenAI batch's metadata under which our own name of it is kept."""

Result = Mapping[str, Any] | ModelError
"""What became of one request: the raw reply as received, or why there is none."""


class BatchState(NamedTuple):
    """Whether a batch has ended, and why its provider refused it as a whole."""

    ended: bool
    failure: str | None = None


class BatchClient(ABC):
    """A batch endpoint over the client of single calls; whatever asks the provider raises ``ModelError`` as they do."""

    model: ClassVar[type[ClientModel]]
    path: ClassVar[str]
    largest: ClassVar[int]
    largest_bytes: ClassVar[int]
    after_key: ClassVar[str]
    status_key: ClassVar[str]
    over: ClassVar[tuple[str, ...]]
    unanswered: ClassVar[Mapping[str, str]]

    def __init__(self, spec: ModelSpec, *, key: str | None = None) -> None:
        self._spec = spec
        self._model = self.model(spec, key=key)

    @abstractmethod
    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit requests by custom id under our own name of the batch, and return the provider's id of it."""

    @abstractmethod
    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        """Return a request as it stands in a batch."""

    @abstractmethod
    async def _files(self, batch_id: str) -> list[str]:
        """Return where the results of an ended batch are."""

    @abstractmethod
    def _result(self, line: Mapping[str, Any]) -> Result:
        """Return what a line of results says became of its request."""

    @abstractmethod
    async def _is_ours(
        self, batch: Mapping[str, Any], name: str, custom_ids: Collection[str], others: Collection[str]
    ) -> bool:
        """Return whether a listed batch is, as far as it shows, the one of that name."""

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._batch(batch_id)
        words = None
        if batch[self.status_key] == "failed":
            errors = (batch.get("errors") or {}).get("data") or [{}]
            # Through the failures of single calls, so that the provider's words are made safe in one place.
            words = str(self._model.refusal(400, {}, {"error": dict(errors[0])}))
        return BatchState(batch[self.status_key] in self.over, words)

    async def results(self, batch_id: str) -> dict[str, Result]:
        """Return the results of an ended batch by custom id; a request without any is absent."""
        return {
            line["custom_id"]: self._result(line)
            for path in await self._files(batch_id)
            for line in await self._model.get_lines(path, seconds=TRANSFER_SECONDS)
            if isinstance(line.get("custom_id"), str)
        }

    def reply(self, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""
        return self._model.read(request, raw)

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        return len(self._line(custom_id, request))

    async def find(
        self, name: str, custom_ids: Collection[str], since: float, others: Collection[str] = ()
    ) -> str | None:
        """Return the id of a batch that was perhaps submitted after ``since``, seconds since 1970, and is no other."""
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

    async def close(self) -> None:
        """Close the connections; batches go on."""
        await self._model.close()

    async def _listed(self) -> AsyncIterator[Mapping[str, Any]]:
        after: dict[str, str] = {}
        while True:
            page = await self._model.get(self.path, limit=PAGE, **after)
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

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        batch = await self._model.get(f"{self.path}/{quote(batch_id, safe='')}")
        if not isinstance(batch.get(self.status_key), str):
            raise body_failure(self._spec, "holds no state of a batch")
        return batch

    def _id_of(self, made: Mapping[str, Any]) -> str:
        """Return the id in what a provider says of a file or batch."""
        if not isinstance(made.get("id"), str) or not made["id"]:
            raise body_failure(self._spec, "holds no id")
        return str(made["id"])

    def _unanswered(self, word: object) -> ModelError:
        """Return the failure of a call that a batch ended without answering; asked singly it may succeed."""
        reason = self.unanswered.get(str(word), "batch_error")
        what = f": the batch did not answer this call ({reason})"
        return failure(self._spec, what, reason, retryable=True)

    def _line(self, custom_id: str, request: ModelRequest) -> bytes:
        """Return a request as one line of JSON, whatever its reader takes for a line break."""
        try:
            item = self._item(custom_id, request)
            text = json.dumps(item, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            # JSON leaves these three as they are, and str.splitlines, among others, breaks lines at them.
            for mark in ("\x85", "\u2028", "\u2029"):
                text = text.replace(mark, f"\\u{ord(mark):04x}")
            return text.encode() + b"\n"
        except ValueError:
            raise unsendable(self._spec) from None


class OpenAIBatches(BatchClient):
    """OpenAI's: a file of requests is uploaded, a batch made of it, and two files come back."""

    model, path, after_key, status_key = OpenAIModel, "/batches", "after", "status"
    # "up to 50,000 requests, and can be up to 200 MB in size": batch_create_params of the openai package
    largest, largest_bytes = 50_000, 200 * 10**6
    over = ("completed", "failed", "expired", "cancelled")
    # The codes of BatchRequestOutputError in OpenAI's API description, and our words for them.
    unanswered: ClassVar = {
        "batch_expired": "batch_expired",
        "batch_cancelled": "batch_cancelled",
        "request_timeout": "timeout",
    }

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Upload the requests and make a batch of them; ``name`` goes into its metadata."""
        lines = await asyncio.to_thread(
            lambda: b"".join(self._line(custom_id, request) for custom_id, request in requests.items())
        )
        uploaded = await self._model.post(
            "/files",
            seconds=TRANSFER_SECONDS,
            body={"purpose": "batch"},
            files={"file": (f"{name}.jsonl", lines, "application/jsonl")},
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )
        body = {
            "input_file_id": self._id_of(uploaded),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {NAME_KEY: name},
        }
        return self._id_of(await self._model.post(self.path, body=body))

    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        body = self._model.body(request)
        return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}

    async def _files(self, batch_id: str) -> list[str]:
        batch = await self._batch(batch_id)
        names = [batch[kind] for kind in ("error_file_id", "output_file_id") if batch.get(kind)]
        return [f"/files/{quote(name, safe='')}/content" for name in names]

    def _result(self, line: Mapping[str, Any]) -> Result:
        response, error = line.get("response"), line.get("error")
        if isinstance(response, Mapping):
            status, body = response.get("status_code"), response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return body
            if isinstance(status, int) and status >= 400:
                return self._model.refusal(status, {}, body)
        return self._unanswered(error.get("code") if isinstance(error, Mapping) else None)

    async def _is_ours(
        self, batch: Mapping[str, Any], name: str, custom_ids: Collection[str], others: Collection[str]
    ) -> bool:
        return bool((batch.get("metadata") or {}).get(NAME_KEY) == name)


class AnthropicBatches(BatchClient):
    """Anthropic's: the requests travel in one body, and a stream of results comes back."""

    model, path, after_key = AnthropicModel, "/v1/messages/batches", "after_id"
    status_key, over = "processing_status", ("ended",)
    # "100,000 Message requests or 256 MB in size, whichever is reached first": Anthropic, "Batch processing"
    largest, largest_bytes = 100_000, 256 * 10**6
    unanswered: ClassVar = {"expired": "batch_expired", "canceled": "batch_cancelled"}

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit the requests; ``name`` has no place in this provider's batches, `find` goes by the custom ids."""
        body = {"requests": [self._item(custom_id, request) for custom_id, request in requests.items()]}
        return self._id_of(await self._model.post(self.path, body=body, seconds=TRANSFER_SECONDS))

    def _item(self, custom_id: str, request: ModelRequest) -> dict[str, Any]:
        return {"custom_id": custom_id, "params": self._model.body(request)}

    async def _files(self, batch_id: str) -> list[str]:
        # Not at the `results_url` of the batch: the key must not travel to an address that a server names.
        return [f"{self.path}/{quote(batch_id, safe='')}/results"]

    def _result(self, line: Mapping[str, Any]) -> Result:
        found = line.get("result")
        found = found if isinstance(found, Mapping) else {}
        if found.get("type") == "succeeded" and isinstance(found.get("message"), Mapping):
            return dict(found["message"])
        error = found.get("error")
        if isinstance(error, Mapping):
            # The error of a single call, wrapped once more: {"type": "error", "error": {"type": ..., "message": ...}}.
            inner = error.get("error")
            kind = str(inner.get("type")) if isinstance(inner, Mapping) else ""
            return self._model.refusal(STATUS_OF.get(kind, 400), {}, error)
        return self._unanswered(found.get("type"))

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
        (path,) = await self._files(batch["id"])
        first = await self._model.get_lines(path, seconds=TRANSFER_SECONDS, most=1)
        return bool(first) and first[0].get("custom_id") in custom_ids
