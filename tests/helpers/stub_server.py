"""A loopback server of OpenAI chat and Anthropic messages that fails on command and counts what it saw.

It runs in a thread of its own, so that a test, a study in a subprocess and a plain client can all reach it::

    with StubServer(faults=[Fault(status=429, retry_after="2"), None]) as server:
        ...  # the first request is refused, the second and all later ones are answered
        assert server.count == 2
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from stub_batches import StubBatches

from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.scripted import example_of


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    ``kind`` is ``status`` (an error reply), ``hang`` (no reply), ``drop`` (the connection is cut before a
    reply), ``cut`` (cut in the middle of the body), ``half`` (a complete reply with half a JSON body),
    ``html`` (a page with status 200), ``drip`` (a byte now and then, for ever) or ``wire`` (no HTTP: a length below
    zero).
    """

    kind: str = "status"
    status: int = 500
    retry_after: str | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


class DrawnFaults:
    """Faults of requests drawn by a seeded generator; ``drawn`` keeps what each request met, by its number.

    ``shares`` are those of requests that meet one of these faults, each as likely as the others; the rest is answered.
    """

    def __init__(self, seed, shares):
        self.shares = shares
        self.drawn: dict[int, Fault | None] = {}
        self._random = random.Random(seed)

    def __call__(self, number, body):
        """Return what goes wrong with a request."""
        chance, fault = self._random.random(), None
        for faults, share in self.shares.items():
            if 0 <= chance < share:
                fault = self._random.choice(faults)
            chance -= share
        self.drawn[number] = fault
        return fault


@dataclass(frozen=True)
class Seen:
    """One request as it arrived; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Faults = Callable[[int, dict[str, Any]], Fault | None] | Iterable[Fault | None]


def plain(body):
    """Return what the stub says unless a test says otherwise."""
    return "A stub's reply."


@dataclass
class StubServer:
    """The server; a context manager."""

    faults: Faults = ()
    """Fault of each request in turn, then none; or a function of the request's number and body."""
    latency: float | Callable[[], float] = 0.0
    """Seconds every reply takes, or a function that says it for each."""
    holds: Callable[[], bool] = lambda: False
    """Whether replies are held back for now, asked again and again: so that what a test waits for comes first."""
    answer: Callable[[dict[str, Any]], str] = plain
    """Text of a reply, from the request's body; without one, a request with a schema gets a reply that follows it."""
    digits: Mapping[str, float] = field(default_factory=dict)
    """Probability of each token where a reply has a digit, for log-probabilities; every other token is certain."""
    caches: bool = False
    """Whether prefixes are cached: up to the last mark for Anthropic, all but the last message for OpenAI."""
    change: Callable[[dict[str, Any]], Any] = lambda reply: reply  # of a reply's JSON before it is sent
    batch_polls: int = 1  # until a batch has ended
    batch_fault: Callable[[str], str | None] = lambda custom_id: None
    """What becomes of a batch's request: ``None`` (an answer), ``error``, ``expired`` or ``missing``."""
    batch_refusal: str | None = None  # what OpenAI says when it fails a whole batch
    batch_http_fault: Callable[[str, str], Fault | None] = lambda method, path: None
    """Fault of a request to the batch endpoints; one that is no status loses the reply only."""
    batch_view: Callable[[dict[str, Any]], Any] = lambda shown: shown  # of a batch that is asked for
    batch_body: Callable[[bytes], bytes] = lambda body: body  # of results
    batch_page: int = 100  # batches listed at once, at most
    port: int = 0  # any, or that of a server that was there before
    bills_broken: bool = False
    """Whether tokens are counted for replies that never arrive whole too: every fault but an error status."""
    batch_requests: int = 0
    seen: list[Seen] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0  # input tokens too, as are those written
    cache_written: int = 0
    most_at_once: int = 0
    url: str = ""
    _at_once: int = 0
    _prefixes: set[str] = field(default_factory=set)

    @property
    def count(self):
        """Requests seen, failed ones included."""
        return len(self.seen)

    @property
    def under_way(self):
        """Requests that have arrived and are not answered yet."""
        return self._at_once

    @property
    def batches(self):
        """Batches that arrived, oldest first."""
        return list(self._batches.batches.values())

    @property
    def openai_url(self):
        """Address for an OpenAI client."""
        return f"{self.url}/v1"

    def address(self, provider):
        """Return the address for a client of one provider."""
        return self.url if provider == "anthropic" else self.openai_url

    def __enter__(self):
        self._batches = StubBatches(self)
        self._queue = None if callable(self.faults) else iter(self.faults)
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        if not started.wait(60):
            raise RuntimeError("the stub server did not start")
        return self

    def settle(self):
        """Return when everything that has arrived so far is seen, answered or not; for when its sender is dead.

        What a process sent before it died lies in the sockets of this one; a few rounds of the loop take it in.
        """

        async def rounds():
            for _ in range(100):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(rounds(), self._loop).result(60)

    def __exit__(self, *_):
        if not self._loop.is_closed():  # by a test to which it dies before its end
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)

    async def _serve(self, started):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._handle)
        app.router.add_post("/v1/messages", self._handle)
        self._batches.add_routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _handle(self, request):
        body = await request.json()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path, headers, body))
        number = len(self.seen) - 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.latency:
                await asyncio.sleep(self.latency() if callable(self.latency) else self.latency)
            while self.holds():
                await asyncio.sleep(0.002)
            fault = (
                self.faults(number, body) if callable(self.faults) else next(self._queue or iter(()), None)
            )
            if fault is None:
                return web.json_response(self._reply(request.path, number, body))
            if self.bills_broken and fault.kind != "status":
                self._reply(request.path, number, body)
            return await self._fail(request, fault)
        finally:
            self._at_once -= 1

    def _reply(self, path, number, body):
        """Return the JSON of a good reply and count its tokens; a word is a token here."""
        text = self._text(body)
        messages = [{"role": "system", "content": body.get("system", "")}, *body["messages"]]
        sent = sum(_words(message["content"]) for message in messages)
        got = len(text.split())
        read, written = self._cached(path, messages) if self.caches else (0, 0)
        self.input_tokens += sent
        self.output_tokens += got
        self.cache_read += read
        self.cache_written += written
        if path.endswith("/messages"):
            cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
            usage = {"input_tokens": sent - read - written, "output_tokens": got}
            reply = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
            reply |= {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
            return self.change({**reply, "usage": usage | (cache if self.caches else {})})
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": self._logprobs(text, body.get("top_logprobs", 0))}
        usage = {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got}
        if self.caches:
            usage["prompt_tokens_details"] = {"cached_tokens": read}
        reply = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
        }
        return self.change({**reply, "choices": [choice], "usage": usage})

    def _text(self, body):
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        schema = schema or body.get("output_config", {}).get("format", {}).get("schema")
        if schema is None or self.answer is not plain:
            return self.answer(body)
        return json.dumps(example_of(schema, random.Random(json.dumps(body))))

    def _cached(self, path, messages):
        """Return the tokens read from the cache and written to it; the end of the prefix decides what is one."""
        ends = [len(messages) - 1] if len(messages) > 2 else []
        if path.endswith("/messages"):
            ends = [n + 1 for n, message in enumerate(messages) if "cache_control" in json.dumps(message)]
        if not ends:
            return 0, 0
        prefix, known = json.dumps([path, messages[: ends[-1]]]), len(self._prefixes)
        self._prefixes.add(prefix)
        size = sum(_words(message["content"]) for message in messages[: ends[-1]])
        if len(self._prefixes) == known:
            return size, 0
        return (0, size) if path.endswith("/messages") else (0, 0)

    def _logprobs(self, text, most):
        """Return the tokens of a text: digits one by one, everything else in words with the blank before them."""
        tokens = re.findall(r"\d|\s*[^\d\s]+|\s+", text)
        return [_token(token, self.digits if token.isdigit() else {}, most) for token in tokens]

    async def _fail(self, request, fault):
        match fault.kind:
            case "status":
                wait = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
                headers = {**wait, **fault.headers}
                body = fault.body or {"error": {"type": "stub", "message": "the stub was told to fail"}}
                return web.json_response(body, status=fault.status, headers=headers)
            case "hang":
                await asyncio.sleep(3600)
            case "half":
                return web.Response(body=_HALF, content_type="application/json")
            case "html":
                return web.Response(text="<html>Sign in to the airport</html>", content_type="text/html")
            case "cut" | "drip":
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.content_length = 10_000
                await response.prepare(request)
                await response.write(_HALF)
                while fault.kind == "drip":
                    await asyncio.sleep(0.02)
                    await response.write(b" ")
                _cut(request)
                return response
            case "wire":
                if request.transport is not None:
                    request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + _HALF)
                    request.transport.close()
            case "drop":
                _cut(request)
            case _:
                raise ValueError(f"unknown fault {fault.kind!r}")
        return web.Response()


_HALF = json.dumps({"id": "half", "choices": [{"message": {"content": "broken off"}}]}).encode()[:40]


def _cut(request):
    if request.transport is not None:
        request.transport.abort()


def _words(content):
    """Return the tokens of a message, sent as one text or as blocks; a word is a token here."""
    blocks = [content] if isinstance(content, str) else [block["text"] for block in content]
    return sum(len(block.split()) for block in blocks)


def _token(token, chances, most):
    likely = sorted((chances or {token: 1.0}).items(), key=lambda chance: -chance[1])[:most]
    entries = [
        {"token": piece, "bytes": list(piece.encode()), "logprob": math.log(chance)}
        for piece, chance in likely
    ]
    own = math.log((chances or {token: 1.0}).get(token, 1e-9))
    return {"token": token, "bytes": list(token.encode()), "logprob": own, "top_logprobs": entries}


def spec_for(provider, server, **fields):
    """Return the entry of a model that one provider's client asks at a server."""
    return model_spec("m", provider=provider, base_url=server.address(provider), **fields)


def ask(spec, request, env=(), **options):
    """Ask a model once, in a loop of its own, and close it."""

    async def once():
        model = open_model(spec, env=dict(env), **options)
        try:
            return await model.ask(request)
        finally:
            await model.close()

    return asyncio.run(once())
