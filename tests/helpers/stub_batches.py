"""The batch endpoints of the stub server: OpenAI's files and batches, Anthropic's message batches.

A batch ends at the poll number ``batch_polls``; only then are its lines answered, by the same ``answer`` as single
requests, and their tokens counted, once each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import HTTP
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from stub_server import StubServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ROUTES = """POST /v1/files upload
GET /v1/files/{id}/content download
POST /v1/batches create_openai
GET /v1/batches list
GET /v1/batches/{id} poll
POST /v1/batches/{id}/cancel cancel
POST /v1/messages/batches create_anthropic
GET /v1/messages/batches list
GET /v1/messages/batches/{id} poll
GET /v1/messages/batches/{id}/results results
POST /v1/messages/batches/{id}/cancel cancel"""
_ERROR = {"type": "invalid_request_error", "message": "the stub refused this line"}


@dataclass
class StubBatch:
    """One batch: its requests by custom id, and once it has ended its results by custom id."""

    provider: str
    id: str
    requests: dict[str, dict[str, Any]]
    metadata: dict[str, str] = field(default_factory=dict)
    created: int = field(default_factory=lambda: int(time.time()))
    polls: int = 0
    state: str = "in_progress"
    lines: dict[str, dict[str, Any]] = field(default_factory=dict)

    def holds(self, call_id):
        """Whether a call is in the batch, under its whole identity or its beginning behind a name."""
        return any(call_id.startswith(custom_id.rpartition("-")[2]) for custom_id in self.requests)

    @property
    def tokens(self):
        """Tokens of input and output that are billed for it."""
        bodies = [(line.get("response") or line.get("result") or {}) for line in self.lines.values()]
        usages = [body.get("usage") for one in bodies if (body := one.get("body") or one.get("message"))]
        known = [list(usage.values())[:2] for usage in usages if usage]
        return sum(sent for sent, _ in known), sum(got for _, got in known)


@dataclass
class StubBatches:
    """The batches and files of one stub server."""

    server: StubServer
    batches: dict[str, StubBatch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def add_routes(self, app):
        """Add the endpoints of both providers."""
        for line in ROUTES.split("\n"):
            method, path, name = line.split()
            app.router.add_route(method, path, self._counted(getattr(self, f"_{name}")))

    def _counted(self, handler):
        async def handle(request):
            self.server.batch_requests += 1
            fault = self.server.batch_http_fault(request.method, request.path)
            if fault is not None and fault.kind != "status":
                await handler(request)  # the work is done, and only the reply is lost
            return await (handler(request) if fault is None else self.server._fail(request, fault))

        return handle

    async def _upload(self, request):
        form = _form(request.headers["Content-Type"], await request.read())
        if form["purpose"] != b"batch":
            return web.json_response({"error": {"message": "purpose"}}, status=400)
        return web.json_response({"id": self._keep(form["file"]), "object": "file"})

    async def _download(self, request):
        body = self.server.batch_body(self.files[request.match_info["id"]])
        return web.Response(body=body, content_type="application/octet-stream")

    async def _create_openai(self, request):
        body = await request.json()
        if (body["endpoint"], body["completion_window"]) != ("/v1/chat/completions", "24h"):
            return web.json_response({"error": {"message": "endpoint"}}, status=400)
        # The harshest reader of lines there is: it breaks them at everything Unicode calls a line break.
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].decode().splitlines()]
        requests = {line["custom_id"]: line["body"] for line in lines if line["url"] == body["endpoint"]}
        return self._add("openai", requests, body.get("metadata") or {})

    async def _create_anthropic(self, request):
        items = (await request.json())["requests"]
        return self._add("anthropic", {item["custom_id"]: item["params"] for item in items}, {})

    def _add(self, provider, requests, metadata):
        batch = StubBatch(provider, f"batch_{len(self.batches)}", requests, metadata)
        self.batches[batch.id] = batch
        if self.server.batch_refusal and provider == "openai":
            batch.state = "failed"
        return web.json_response(self._shown(batch))

    async def _list(self, request):
        provider = "anthropic" if "/messages/" in request.path else "openai"
        known = [batch for batch in reversed(self.batches.values()) if batch.provider == provider]
        after = request.query.get("after") or request.query.get("after_id")
        ids = [batch.id for batch in known]
        start = ids.index(after) + 1 if after else 0
        end = start + min(int(request.query.get("limit", 20)), self.server.batch_page)
        shown = [self._shown(batch) for batch in known[start:end]]
        return web.json_response({"data": shown, "has_more": end < len(known)})

    async def _poll(self, request):
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        batch.polls += 1
        if batch.polls >= self.server.batch_polls and batch.state in ("in_progress", "cancelling"):
            self._end(batch)
        return web.json_response(self.server.batch_view(self._shown(batch)))

    async def _cancel(self, request):
        batch = self.batches[request.match_info["id"]]
        batch.state = "cancelling"
        return web.json_response(self._shown(batch))

    async def _results(self, request):
        lines = self.batches[request.match_info["id"]].lines.values()
        return web.Response(body=self.server.batch_body(_jsonl(lines)), content_type="application/x-jsonl")

    def _end(self, batch):
        """Answer what is to be answered; results come in the opposite order of the requests."""
        path = "/v1/messages" if batch.provider == "anthropic" else "/v1/chat/completions"
        faults = {custom_id: self.server.batch_fault(custom_id) for custom_id in batch.requests}
        if batch.state == "cancelling":
            faults = dict.fromkeys(faults, "cancelled")
        for number, (custom_id, body) in reversed(list(enumerate(batch.requests.items()))):
            fault = faults[custom_id]
            if fault != "missing":
                reply = self.server._reply(path, number, body) if fault is None else None
                make = _anthropic_line if batch.provider == "anthropic" else _openai_line
                batch.lines[custom_id] = make(custom_id, fault, reply)
        batch.state = "expired" if "expired" in faults.values() else "completed"

    def _shown(self, batch):
        """Return a batch as its provider shows it."""
        ended = batch.state in ("completed", "expired", "failed")
        total = len(batch.requests)
        if batch.provider == "anthropic":
            kinds = [line["result"]["type"] for line in batch.lines.values()]
            counts = {"processing": total - len(kinds), **{kind: kinds.count(kind) for kind in kinds}}
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": counts,
                "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat().replace("+00:00", "Z"),
                "results_url": "https://elsewhere.example/results" if ended else None,
            }
        good = [line for line in batch.lines.values() if line["response"]["status_code"] == 200]
        bad = [line for line in batch.lines.values() if line["response"]["status_code"] != 200]
        message = {"code": "invalid", "line": 1, "message": self.server.batch_refusal}
        return {
            "id": batch.id,
            "object": "batch",
            "status": batch.state,
            "created_at": batch.created,
            "metadata": batch.metadata,
            "errors": {"data": [message]} if batch.state == "failed" else None,
            "request_counts": {"total": total, "completed": len(good), "failed": len(bad)},
            "output_file_id": self._keep(_jsonl(good)) if good else None,
            "error_file_id": self._keep(_jsonl([_without_response(line) for line in bad])) if bad else None,
        }

    def _keep(self, content):
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name


def _form(content_type, body):
    """Return the parts of a form by name, from the whole body.

    Not ``request.post()``: when a body comes in pieces smaller than its boundary, aiohttp 3.14 calls a method of its
    own that it has deprecated, and a warning is an error here. How a body is cut is up to the machine.
    """
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body, policy=HTTP)
    names = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
    return {str(name): part.get_payload(decode=True) for name, part in names.items()}


def _openai_line(custom_id, fault, reply):
    line = {"id": f"req_{custom_id}", "custom_id": custom_id, "error": None}
    if fault is None:
        return {**line, "response": {"status_code": 200, "body": reply}}
    if fault == "error":
        return {**line, "response": {"status_code": 400, "body": {"error": _ERROR}}}
    code = {"code": f"batch_{fault}", "message": "the stub did not get to this line"}
    return {**line, "response": {"status_code": 0}, "error": code}


def _without_response(line):
    return line if line["error"] is None else {**line, "response": None}


def _anthropic_line(custom_id, fault, reply):
    if fault is None:
        return {"custom_id": custom_id, "result": {"type": "succeeded", "message": reply}}
    if fault == "error":
        error = {"type": "error", "error": _ERROR}
        return {"custom_id": custom_id, "result": {"type": "errored", "error": error}}
    word = "canceled" if fault == "cancelled" else fault
    return {"custom_id": custom_id, "result": {"type": word}}


def _jsonl(lines):
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
