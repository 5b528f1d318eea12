"""Batch endpoints, where a provider answers within a day at half the price.

A batch is a list of requests, each under a custom id: the call's identity, and for Anthropic, whose batches have no
place for it, our own name of the batch. Results come as JSON Lines, in any order, and are kept as received: they are
made into replies once their requests are known, which after a restart is later than the reading.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping
from itertools import starmap
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

from toolkit.errors import ModelError
from toolkit.models.anthropic_client import AnthropicModel
from toolkit.models.base import BatchResult, Body, Message, ModelReply, ModelRequest, Raw, add_result
from toolkit.models.catalogue import ModelSpec, toml_table
from toolkit.models.openai_client import OpenAIModel
from toolkit.models.transport import STATUS_OF, ClientModel, body_failure, failure, json_bytes, whole_count

TRANSFER_SECONDS = 3600.0
"""Longest a batch may take to send or its results to read: 256 MB at 600 kbit/s."""
PAGE = 100  # batches listed at once: the most that OpenAI lists
LONGEST_CUSTOM_ID = 64  # of letters, digits, "-" and "_": Anthropic, "Create a Message Batch"
NAME_KEY = "toolkit_batch"
"""The key of an OpenAI batch's metadata under which our own name of it is kept."""


class BatchState(NamedTuple):
    """Whether a batch has ended, how many requests it answered if it says so, and why it was refused as a whole."""

    ended: bool
    answered: int | None = None
    failure: str | None = None


class Results(NamedTuple):
    """What became of each call of a batch, as far as its results say, and what is wrong with them, in words."""

    by_call: dict[str, BatchResult]
    faults: list[str]


class BatchClient(ABC):
    """A batch endpoint over the client of single calls; whatever asks the provider raises ``ModelError`` as they do."""

    model: ClassVar[type[ClientModel]]

    def __init__(self, spec: ModelSpec, *, key: str | None = None) -> None:
        self._spec = spec
        self._model = self.model(spec, key=key)
        self._terms = toml_table("catalogue")["endpoints"][spec.provider]
        self.largest, self.largest_bytes = self._terms["largest"], self._terms["largest_bytes"]
        self._path = self._terms["path"]

    @abstractmethod
    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit requests by custom id under our own name of the batch, and return the provider's id of it."""

    @abstractmethod
    def _item(self, custom_id: str, request: ModelRequest) -> Body:
        """Return a request as it stands in a batch."""

    @abstractmethod
    async def _files(self, batch_id: str) -> list[str]:
        """Return where the results of an ended batch are."""

    @abstractmethod
    def _result(self, line: Raw) -> BatchResult:
        """Return what a line of results says became of its request."""

    @abstractmethod
    async def _is_ours(self, batch: Raw, name: str, size: int) -> bool | None:
        """Return whether a listed batch is the one of that name; ``None`` where it will show only at its end."""

    def _custom_id(self, name: str, call_id: str) -> str:
        """Return what a call is named in the batch of that name."""
        return call_id

    async def state(self, batch_id: str) -> BatchState:
        """Return how far a batch is."""
        batch = await self._batch(batch_id)
        counts, words, status = batch.get("request_counts"), None, batch[self._terms["status"]]
        if status == "failed":
            errors = batch.get("errors")
            errors = errors.get("data") if isinstance(errors, Mapping) else errors
            first = next(filter(None, errors), None) if isinstance(errors, list) else errors
            # Through the failures of single calls, so that the provider's words are made safe in one place.
            words = str(self._model.refusal(400, {}, {"error": first}))
        answered = whole_count(counts.get(self._terms["answered"])) if isinstance(counts, Mapping) else None
        return BatchState(status in self._terms["over"], answered, words)

    async def results(self, batch_id: str, name: str, call_ids: Collection[str]) -> Results:
        """Return the results of an ended batch; a call without any is absent, and so is what cannot be read."""
        calls = {self._custom_id(name, call): call for call in call_ids}
        results, faults, unreadable, foreign = dict[str, BatchResult](), list[str](), 0, 0
        for path in await self._files(batch_id):
            try:
                lines = await self._model.get_lines(path, seconds=TRANSFER_SECONDS)
            except ModelError as error:
                if error.reason not in ("not_found", "malformed_body"):
                    raise
                faults.append(str(error))
                continue
            for line in lines:
                if (custom_id := _id_of_line(line)) is None or line is None:
                    unreadable += 1
                elif custom_id not in calls:
                    foreign += 1
                else:
                    add_result(results, calls[custom_id], self._result(line))
        faults += [f"{unreadable} lines of its results cannot be read"] if unreadable else []
        faults += [f"{foreign} lines of its results are of no call that it holds"] if foreign else []
        return Results(results, faults)

    def _answer(self, raw: Any) -> BatchResult:
        try:
            self.reply(ModelRequest(self._spec.provider, self._spec.model, (Message("user", ""),)), raw)
        except ModelError as error:
            return error
        return dict(raw)

    def reply(self, request: ModelRequest, raw: Raw) -> ModelReply:
        """Return the reply in a raw result, or raise ``ModelError`` where there is none in it."""
        return self._model.read(request, raw)

    def size(self, custom_id: str, request: ModelRequest) -> int:
        """Return the bytes a request takes in a batch, or raise ``ModelError`` where it cannot be sent."""
        return len(self._line(custom_id, request))

    async def find(
        self, name: str, call_ids: Collection[str], others: Collection[str] = ()
    ) -> tuple[str | None, bool]:
        """Return the id of the batch of that name, and whether one that still runs may be it; ``others`` are not."""
        running = unreadable = False
        async for batch in self._listed():
            if not isinstance(batch, Mapping) or not isinstance(batch.get("id"), str):
                unreadable = True
            elif batch["id"] not in others:
                ours = await self._is_ours(batch, name, len(call_ids))
                if ours:
                    return str(batch["id"]), False
                running = running or ours is None
        if unreadable and not running:
            raise self._no_list()
        return None, running

    async def close(self) -> None:
        """Close the connections; batches go on."""
        await self._model.close()

    async def _listed(self) -> AsyncIterator[Any]:
        after: dict[str, str] = {}
        key = self._terms["after"]
        while True:
            page = await self._model.get(self._path, limit=PAGE, **after)
            if not isinstance(batches := page.get("data"), list):
                raise self._no_list()
            for batch in batches:
                yield batch
            if not page.get("has_more"):
                return
            last = batches[-1].get("id") if batches and isinstance(batches[-1], Mapping) else None
            if not isinstance(last, str) or last == after.get(key):  # the same page for ever
                raise self._no_list()
            after = {key: last}

    def _no_list(self) -> ModelError:
        return body_failure(self._spec, "holds no list of batches")

    async def _batch(self, batch_id: str) -> Body:
        batch = await self._model.get(f"{self._path}/{quote(batch_id, safe='')}")
        if not isinstance(batch.get(self._terms["status"]), str):
            raise body_failure(self._spec, "holds no state of a batch")
        return batch

    def _id_of(self, created: Raw) -> str:
        if not isinstance(created.get("id"), str) or not created["id"]:
            raise body_failure(self._spec, "holds no id")
        return str(created["id"])

    def _unanswered(self, word: object) -> ModelError:
        reason = self._terms["unanswered"].get(str(word), "batch_error")
        what = f": the batch did not answer this call ({reason})"
        return failure(self._spec, what, reason, retryable=True)

    def _line(self, custom_id: str, request: ModelRequest) -> bytes:
        """Return a request as one line of JSON, whatever its reader takes for a line break."""
        line = json_bytes(self._spec, self._item(custom_id, request))
        # JSON leaves these three as they are, and str.splitlines, among others, breaks lines at them.
        for mark in ("\x85", "\u2028", "\u2029"):
            line = line.replace(mark.encode(), f"\\u{ord(mark):04x}".encode())
        return line + b"\n"


class OpenAIBatches(BatchClient):
    """OpenAI's: a file of requests is uploaded, a batch made of it, and two files come back."""

    model = OpenAIModel

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Upload the requests and make a batch of them; ``name`` goes into its metadata."""
        lines = await asyncio.to_thread(lambda: b"".join(starmap(self._line, requests.items())))
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
        return self._id_of(await self._model.post(self._path, body=body))

    def _item(self, custom_id: str, request: ModelRequest) -> Body:
        body = self._model.body(request)
        return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}

    async def _files(self, batch_id: str) -> list[str]:
        batch = await self._batch(batch_id)
        names = (batch.get(kind) for kind in ("error_file_id", "output_file_id"))
        return [f"/files/{quote(name, safe='')}/content" for name in names if name and isinstance(name, str)]

    def _result(self, line: Raw) -> BatchResult:
        response, error = line.get("response"), line.get("error")
        if isinstance(response, Mapping):
            status, body = response.get("status_code"), response.get("body")
            if isinstance(status, int) and status >= 400:
                return self._model.refusal(status, {}, body)
            if isinstance(body, Mapping):
                return self._answer(body)
        if isinstance(error, Mapping):
            return self._unanswered(error.get("code"))
        return body_failure(self._spec, "in a batch holds neither an answer nor an error")

    async def _is_ours(self, batch: Raw, name: str, size: int) -> bool:
        metadata = batch.get("metadata")
        return isinstance(metadata, Mapping) and metadata.get(NAME_KEY) == name


class AnthropicBatches(BatchClient):
    """Anthropic's: the requests travel in one body, and a stream of results comes back."""

    model = AnthropicModel

    async def submit(self, requests: Mapping[str, ModelRequest], name: str) -> str:
        """Submit the requests; ``name`` is a part of their custom ids, which `find` goes by."""
        items = [self._item(self._custom_id(name, call), request) for call, request in requests.items()]
        created = await self._model.post(self._path, body={"requests": items}, seconds=TRANSFER_SECONDS)
        return self._id_of(created)

    def _item(self, custom_id: str, request: ModelRequest) -> Body:
        return {"custom_id": custom_id, "params": self._model.body(request)}

    def _custom_id(self, name: str, call_id: str) -> str:
        """Return the name of the batch and as much of the call's identity as fits, 37 digits."""
        return f"{name}-{call_id}"[:LONGEST_CUSTOM_ID]

    async def _files(self, batch_id: str) -> list[str]:
        # Not at the `results_url` of the batch: the key must not travel to an address that a server names.
        return [f"{self._path}/{quote(batch_id, safe='')}/results"]

    def _result(self, line: Raw) -> BatchResult:
        result = line.get("result")
        result = result if isinstance(result, Mapping) else {}
        kind, error = result.get("type"), result.get("error")
        if kind == "succeeded" and isinstance(result.get("message"), Mapping):
            return self._answer(result["message"])
        if isinstance(error, Mapping):
            # The error of a single call, wrapped once more: {"type": "error", "error": {"type": ..., "message": ...}}.
            inner = error.get("error")
            code = str(inner.get("type")) if isinstance(inner, Mapping) else ""
            return self._model.refusal(STATUS_OF.get(code, 400), {}, error)
        if str(kind) in self._terms["unanswered"]:
            return self._unanswered(kind)
        return body_failure(self._spec, "in a batch holds neither an answer nor an error")

    async def _is_ours(self, batch: Raw, name: str, size: int) -> bool | None:
        """Return whether a batch has as many requests, and its first result one of our custom ids."""
        # Results show only once a batch has ended; whether it has, the list may say too late.
        counts = batch.get("request_counts")
        sizes = [whole_count(n) or 0 for n in counts.values()] if isinstance(counts, Mapping) else None
        if batch.get("archived_at") or (sizes and sum(sizes) != size):
            return False
        try:
            if not (await self.state(batch["id"])).ended:
                return None
            (path,) = await self._files(batch["id"])
            lines = await self._model.get_lines(path, seconds=TRANSFER_SECONDS, most=1)
        except ModelError as error:
            if error.reason not in ("not_found", "malformed_body"):
                raise
            return False  # gone, or not to be read; who is in doubt looks several times
        first = _id_of_line(lines[0]) if lines else None
        return first is not None and first.startswith(f"{name}-")


def _id_of_line(line: Raw | None) -> str | None:
    """Return the custom id of a line of results, ``None`` of one that cannot be read."""
    custom_id = line.get("custom_id") if line is not None else None
    return custom_id if isinstance(custom_id, str) else None
