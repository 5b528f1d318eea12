"""The way out and back, the same for every provider: limits, proxies, redirects, schemas, the one table of faults.

What went wrong with a call is told alike for every provider, and never with a key in it.

Nothing of it is on disk: the ledger writes an attempt with its reason, and keeps at the worst cost what is unsure.

============= ================================= ================= ===================================================
state         event                             reason            asked again; may be billed
============= ================================= ================= ===================================================
not connected no address, refused, not taken    unreachable       yes; no
sent          no whole reply in time            timeout           yes; unsure
sent          the connection broke              connection        yes; unsure
sent          HTTP 429, 529                     rate_limited,     yes, after `Retry-After`; no
                                                overloaded
sent          HTTP 408, 409, other 5xx          request_timeout,  yes; no
                                                conflict,
                                                server_error
sent          HTTP 401, 403, 402                wrong_key,        no, and no other call of this provider; no
                                                out_of_money
sent          HTTP 404, other 4xx               not_found,        no; no
                                                bad_request
answered      the body is not JSON              malformed_body    yes; unsure
answered      the body holds an error           as its status     as its status; yes where it counts tokens or has text
answered      the body is a reply               (none)            no; yes
============= ================================= ================= ===================================================
"""

import asyncio
import contextlib
import ipaddress
import json
import math
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2

from toolkit.errors import MARK, ModelError, redacted_words
from toolkit.files.reading import parsed
from toolkit.models.base import UNKNOWN_FINISH, Body, ModelReply, ModelRequest, Raw
from toolkit.models.catalogue import PROVIDERS, ModelSpec, toml_table
from toolkit.models.thoughts import written_in
from toolkit.models.tokens import is_panic
from toolkit.models.usage import counts_any, usage_of

T = TypeVar("T")
STATUS_OF = {word: int(status) for status, words in toml_table("statuses")["codes"].items() for word in words}
_OUT_OF_MONEY = ("insufficient_quota", "billing_error", "billing_hard_limit_reached")


SECONDS = 180.0  # longest that a reply may take
LOCAL_SECONDS = 900.0  # a small machine answers one request at a time, so a call may wait behind others
CONNECT_SECONDS = 10.0
CONNECTIONS = 100  # of one client


def is_loopback(url: str | None) -> bool:
    """Return whether an address is on this machine, where no proxy has any business."""
    host = urlsplit(url or "").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_options(spec: ModelSpec) -> Body:
    """Return what the HTTP client of every provider is made with: limits, no proxy on loopback, no foreign redirect."""

    async def refuse_redirect(response: httpx2.Response) -> None:
        if not response.has_redirect_location:
            return
        sent_to = urlsplit(str(response.url))
        try:
            target = urlsplit(urljoin(sent_to.geturl(), response.headers["location"]))
        except ValueError:
            target = urlsplit("//unreadable")
        if (target.scheme, target.netloc) != (sent_to.scheme, sent_to.netloc):
            host = target.netloc.rpartition("@")[2][:100]
            reason = f": its server points to another host, {host!r} (HTTP {response.status_code})"
            advice = "where nothing was sent; if that is where the prompts may go, name it by base_url in the study"
            raise failure(spec, f"{reason}, {advice}", "redirected", fatal_for_provider=True)

    return {
        "limits": httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        "trust_env": not is_loopback(spec.base_url),
        "event_hooks": {"response": [refuse_redirect]},
    }


class ClientModel:
    """A model behind its provider's own client; belongs to the event loop that first asks it."""

    sdk: ModuleType
    path: str
    content: str
    """What a reply must hold, in words."""
    cache_beside: bool = False
    """Whether tokens of the provider's cache are counted beside the input and not within it."""

    def __init__(self, spec: ModelSpec, *, key: str | None = None, seconds: float = SECONDS) -> None:
        self.spec = spec
        self._key = key
        self._seconds = seconds
        self._client = self._open(
            # Given even where none is wanted: a client insists on a key, or looks for credentials of its own.
            api_key=key or "none",
            base_url=spec.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            http_client=self.sdk.DefaultAioHttpClient(**client_options(spec)),
        )

    def _open(self, **options: Any) -> Any:
        raise NotImplementedError

    def body(self, request: ModelRequest) -> Body:
        """Return the body that a request is sent as; parameters that are ``None`` are left to the provider."""
        raise NotImplementedError

    def answer(self, raw: Raw) -> tuple[str, str] | None:
        """Return text and finish reason of the JSON that was on the wire, or ``None`` where it holds no message."""
        raise NotImplementedError

    def reply(self, request: ModelRequest, raw: Raw) -> ModelReply:
        """Return the reply in the JSON that was on the wire, or that a batch brought."""
        if (error := self.error_in(raw)) is not None:
            raise error
        if (answer := self.answer(raw)) is None:
            raise body_failure(self.spec, f"holds no {self.content}")
        text, finish = answer
        usage = usage_of(
            self.spec,
            request,
            raw,
            text=text,
            cut_off=finish == "length",
            cache_beside=self.cache_beside,
        )
        return ModelReply(text, finish, usage, str(raw.get("model") or self.spec.model), raw)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, without retries."""
        body = self.body(request)
        json_bytes(self.spec, body)  # looked at first, so that later faults are the network's
        return self.read(request, await self.post(self.path, body=body))

    def read(self, request: ModelRequest, raw: Raw) -> ModelReply:
        """Return the reply in JSON, or that JSON as a reply without text where a library fails in reading it."""
        # What came is paid for, and can be read again once it is saved.
        try:
            return self.reply(request, raw)
        except BaseException as error:
            if isinstance(error, ModelError) or not (isinstance(error, Exception) or is_panic(error)):
                raise
        usage = usage_of(self.spec, request, {}, text="")
        return ModelReply("", UNKNOWN_FINISH, usage, self.spec.model, raw)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def post(self, path: str, *, seconds: float | None = None, **sent: Any) -> Body:
        """Post and return the JSON object that comes back, as it came."""
        # `post` and not the client's methods: those build objects, drop parameters, and warn of a model past its date.
        return await self._object(self._client.post(path, cast_to=httpx2.Response, **sent), seconds)

    async def get(self, path: str, **params: Any) -> Body:
        """Get a JSON object."""
        work = self._client.get(path, cast_to=httpx2.Response, options={"params": params})
        return await self._object(work, None)

    async def get_lines(self, path: str, *, seconds: float, most: int | None = None) -> list[Body | None]:
        """Return the objects of JSON Lines, parsed as they arrive; ``None`` for a line that is none, or broke off."""

        async def read() -> list[Body | None]:
            stream = self.sdk.AsyncStream[Any]
            response = await self._client.get(path, cast_to=httpx2.Response, stream=True, stream_cls=stream)
            objects: list[Body | None] = []
            remainder = b""
            try:
                async for chunk in response.aiter_bytes():
                    # At b"\n" and nowhere else: a text may hold what other splitters take for a line break.
                    *lines, remainder = (remainder + chunk).split(b"\n")
                    objects += [_object_in(line) for line in lines if line.strip()]
                    if most is not None and len(objects) >= most:
                        return objects[:most]
            finally:
                await response.aclose()
            objects += [_object_in(remainder)] if remainder.strip() else []
            if objects and not any(objects):
                raise body_failure(self.spec, "of a batch broke off, or is not JSON Lines")
            return objects

        return await self._faults(read(), seconds)

    async def _object(self, work: Awaitable[httpx2.Response], seconds: float | None) -> Body:
        content = (await self._faults(work, seconds or self._seconds)).content
        raw = _json_in(content)
        if raw is None:
            raise body_failure(self.spec, f"of {len(content)} bytes is not JSON, or broke off")
        if isinstance(raw, list) and len(raw) == 1:  # as Google wraps its errors
            raw = raw[0]
        if not isinstance(raw, dict):
            raise body_failure(self.spec, "is JSON but no object")
        if (error := self.error_in(raw)) is not None:
            raise error
        return raw

    def error_in(self, raw: Raw) -> ModelError | None:
        """Return the failure that a body under status 200 holds, as proxies and routers send it."""
        # An error beside a text is no failure: the text was paid for.
        if (self.answer(raw) or ("",))[0]:
            return None
        choices = raw.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        error = raw.get("error") or (choice.get("error") if isinstance(choice, Mapping) else None)
        # It is what it would be under the status that it names; of one that names none, nobody knows that asking again
        # would help.
        names = ("status", "code", "type", "status_code")
        words = [str(part.get(name)).lower() for part in (_error_of({"error": error}), raw) for name in names]
        numbers = (int(w) if len(w) == 3 and w.isdecimal() else STATUS_OF.get(w, 0) for w in words)
        status = next((number for number in numbers if 400 <= number < 600), None)
        if not error and status is None and "error" not in (raw.get("type"), raw.get("object")):
            return None
        failed = self.refusal(status or 400, {}, {"error": error or raw})
        # Or whatever a model wrote before it broke off.
        failed.billed = counts_any(raw.get("usage")) or any(written_in(raw))
        return failed

    def refusal(self, status: int, headers: Mapping[str, str], body: Any) -> ModelError:
        """Return the failure behind an HTTP status, without the key that was sent."""
        spec, error, rows = self.spec, _error_of(body), toml_table("statuses")["refusals"]
        message = _said(error.get("message"), self._key)
        # Anthropic answers 400 invalid_request_error for an empty account; only the text tells.
        broke = "credit balance is too low" in str(error.get("message"))
        broke = broke or any(error.get(name) in _OUT_OF_MONEY for name in ("code", "type"))
        key = "402" if broke and status not in (401, 403) else str(status)
        row = dict(rows.get(key) or rows["5xx" if status >= 500 else "4xx" if status >= 400 else "other"])
        sampling = any(name in message for name in ("temperature", "top_p"))
        what = row.pop("what").format(
            status=status,
            message=message,
            key=spec.api_key_env or "a key, and none was sent",
            retired=f"; it was retired on {spec.retired}" if spec.is_retired() else "",
            sampling="; for a model that takes no temperature say sampling_supported = false"
            if sampling
            else "",
        )
        after = retry_after(headers) if row.get("retryable") else None
        return failure(spec, what, **row, retry_after=after)

    async def _faults(self, work: Awaitable[T], seconds: float) -> T:
        """Wait for what the client does; the one place where errors of the HTTP layer become ours."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except self.sdk.APIStatusError as error:
            failed = self.refusal(error.status_code, error.response.headers, error.body)
        except TimeoutError:
            failed = timeout_failure(self.spec, seconds)
        except Exception as error:  # aiohttp's, zlib's or a codec's, which the client lets through
            failed = transport_failure(self.spec, error)
        if self._key and self._key in str(failed):  # a server may send it as the name of another host
            failed.args = (str(failed).replace(self._key, MARK),)
        # Raised here and not above: the client's error holds the request with its key and must not ride along.
        failed.__cause__ = failed.__context__ = None
        raise failed.with_traceback(None)


_ODD_JSON = json.JSONDecoder(
    strict=False, parse_int=lambda digits: int(digits) if len(digits) < 1000 else float(digits)
)


def _json_in(content: bytes) -> Any:
    """Return the JSON that a body or line begins with; ``None`` where there is none, or not all of it."""
    with contextlib.suppress(ValueError):
        return parsed(json.loads, content)
    # A reply that was paid for is read though a byte of it is no UTF-8, a line break stands in a string, a number has
    # 5,000 digits, or something follows. Odd bytes stay in it as halves of surrogate pairs.
    with contextlib.suppress(ValueError):
        text = content.decode("utf-8", "surrogateescape").lstrip("\ufeff \t\r\n")
        return parsed(_ODD_JSON.raw_decode, text)[0]
    return None


def json_bytes(spec: ModelSpec, body: Raw) -> bytes:
    """Return a request as JSON; a failure where it cannot be written so, as with half a surrogate pair."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        what = "the prompt or a parameter cannot be sent as JSON"
        advice = "look for broken characters or a number that is not finite"
        raise failure(spec, f": {what}; {advice}", "bad_request") from None


def _object_in(line: bytes) -> Body | None:
    value = _json_in(line)
    return value if isinstance(value, dict) else None


def failure(spec: ModelSpec, what: str, reason: str, **more: Any) -> ModelError:
    """Return a failure of a call in one line that names the model."""
    return ModelError(f"{spec.provider} model {spec.model!r}{what}", reason=reason, **more)


def transport_failure(spec: ModelSpec, error: BaseException) -> ModelError:
    """Return the failure behind a call that brought no HTTP reply."""
    import aiohttp

    for link in (error, error.__cause__):  # of a redirect, which one client lets through and another wraps
        if isinstance(link, ModelError):
            return link
    # The openai client calls a dropped connection a time-out; what aiohttp said is further down the chain.
    link = error
    while link is not None and not isinstance(link, aiohttp.ClientError):
        link = link.__cause__ or link.__context__
    # A name without an address, a refused connection, and one that nobody takes: nothing was sent.
    if isinstance(link, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        what = ": nothing answers at its address; check the network and base_url"
        return failure(spec, what, "unreachable", retryable=True)
    if isinstance(link, TimeoutError) or (link is None and "Timeout" in type(error).__name__):
        return timeout_failure(spec)
    what = f": the connection failed or broke off ({type(link or error).__name__})"
    return failure(spec, what, "connection", retryable=True)


def timeout_failure(spec: ModelSpec, seconds: float | None = None) -> ModelError:
    """Return the failure of a call that took too long."""
    duration = "in time" if seconds is None else f"within {seconds:g} s"
    return failure(spec, f": no reply {duration}", "timeout", retryable=True)


def body_failure(spec: ModelSpec, what: str) -> ModelError:
    """Return the failure of a reply with status 200 whose body is not what the provider promises."""
    return failure(spec, f": the reply {what}", "malformed_body", retryable=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds the server asks to wait, or ``None`` where it says nothing usable."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    # A zone of 99 days, a day of 20 digits: the reader of dates raises more than it says.
    with contextlib.suppress(ValueError, TypeError, ArithmeticError, LookupError):
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - time.time())
    return None


def _error_of(body: Any) -> Raw:
    """Return the error object of a body: under ``error`` on the wire, unwrapped by openai's client."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, Mapping) else {"message": inner}


def _said(message: Any, key: str | None) -> str:
    """Return the provider's own words, on one line, short, and without anything that looks like a key."""
    if not isinstance(message, str) or not message.strip():
        return ""
    text = message if not key else message.replace(key, MARK)
    return f": {redacted_words(' '.join(text.split()))[:300]}"


def text_of(content: Any, depth: int = 9) -> str:
    """Return the text of a reply: a string, nothing, blocks of which some are text, or JSON that came parsed."""
    if isinstance(content, str) or not depth or content is None:
        return content if isinstance(content, str) else ""
    if isinstance(content, list):
        return "".join(text_of(block, depth - 1) for block in content)
    if not isinstance(content, Mapping):
        return json.dumps(content)  # a number or a truth value
    # A thought, the result of a tool or a quoted source is no part of the reply, though it may have a text.
    if content.get("type") not in (None, "text", "output_text") or content.get("thought") is True:
        return ""
    for name in ("text", "content", "value", "parts"):
        if text := text_of(content.get(name), depth - 1):
            return text
    thought_keys = content.keys() & {"type", "thinking", "reasoning", "reasoning_content"}
    return json.dumps(content, ensure_ascii=False) if content and not thought_keys else ""


def whole_count(value: Any) -> int | None:
    """Return a provider's count; ``None`` where it is no whole number, or none that the store could hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else None


_FINISHES = {word: ours for ours, words in toml_table("finish_reasons").items() for word in words}


def finish_of(reason: Any) -> str:
    """Return why a reply ended, in our word; some servers send the provider's word in a list or an object."""
    several = list(reason.values()) if isinstance(reason, Mapping) else reason
    parts = several if isinstance(several, list) else [several]
    words = (re.sub(r"[\s-]+", "_", part.strip().lower()) for part in parts if isinstance(part, str))
    return next((ours for word in words if (ours := _FINISHES.get(word))), UNKNOWN_FINISH)


def accepted_schema(text: str, provider: str) -> Body:
    """Return a JSON schema as a provider takes it: refused keywords become words of the description."""
    refused = PROVIDERS[provider].get("refused", ())
    return _without(json.loads(text), refused)


def _without(schema: Raw, refused: Sequence[str]) -> Body:
    accepted: Body = {}
    descriptions = []
    for key, value in schema.items():
        # Anthropic takes the two smallest bounds of a list.
        if key in refused and not (key == "minItems" and value in (0, 1)):
            descriptions.append(f"{key}: {json.dumps(value)}")
        elif key in ("properties", "$defs"):
            accepted[key] = {name: _without(part, refused) for name, part in value.items()}
        elif key in ("anyOf", "allOf", "oneOf"):
            accepted[key] = [_without(part, refused) for part in value]
        else:
            accepted[key] = _without(value, refused) if key == "items" else value
    if descriptions:
        accepted["description"] = ". ".join(
            filter(None, (accepted.get("description"), ", ".join(descriptions)))
        )
    return accepted
