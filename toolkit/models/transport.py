"""The way out and back, the same for every provider: limits, proxies, redirects, and the one table of faults.

What went wrong with a call is told alike for every provider, and never with a key in it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import re
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2

from toolkit.errors import ModelError
from toolkit.models.catalogue import ModelSpec

T = TypeVar("T")
_KEY_LIKE = re.compile(r"\b(?:sk|gsk|pk|rk)[-_][\w*.\-]+|\bBearer\s+\S+|\b\w*\*{3,}\w*", re.IGNORECASE)
_STATUS_OF = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "server_error": 500,
    "timeout_error": 500,
    "authentication_error": 401,
    "permission_error": 403,
    "invalid_api_key": 401,
    "not_found_error": 404,
    "model_not_found": 404,
}
"""The HTTP status that providers send these codes and types of errors with."""
_OUT_OF_MONEY = ("insufficient_quota", "billing_error", "billing_hard_limit_reached")


@dataclass(frozen=True)
class Limits:
    """What one client may use."""

    connections: int = 100
    seconds: float = 180.0
    connect_seconds: float = 10.0


HTTP_LIMITS = Limits()
# A small machine answers one request at a time, so a call may wait behind many others.
LOCAL_LIMITS = Limits(connections=10, seconds=900.0)


def is_loopback(url: str | None) -> bool:
    """Return whether an address is on this machine, where no proxy has any business."""
    host = urlsplit(url or "").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_options(spec: ModelSpec, limits: Limits) -> dict[str, Any]:
    """Return what the HTTP client of every provider is made with: limits, no proxy on loopback, no foreign redirect."""

    async def refuse_redirect(response: httpx2.Response) -> None:
        if not response.has_redirect_location:
            return
        here = urlsplit(str(response.url))
        try:
            there = urlsplit(urljoin(here.geturl(), response.headers["location"]))
        except ValueError:
            there = urlsplit("//unreadable")
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise redirect_failure(spec, response.status_code, there.netloc.rpartition("@")[2])

    return {
        "limits": httpx2.Limits(
            max_connections=limits.connections, max_keepalive_connections=limits.connections
        ),
        "trust_env": not is_loopback(spec.base_url),
        "event_hooks": {"response": [refuse_redirect]},
    }


async def json_reply(
    sent: Awaitable[httpx2.Response], *, sdk: ModuleType, spec: ModelSpec, key: str | None, seconds: float
) -> dict[str, Any]:
    """Wait for a call of a provider's client and return the JSON object it brought."""
    response = await of_client(sent, sdk=sdk, spec=spec, key=key, seconds=seconds)
    raw = json_object(spec, response.content)
    # An error beside an answer is no failure.
    if not raw.get("error") or not raw.keys().isdisjoint(("choices", "content")):
        return raw
    raise error_body_failure(spec, raw, key=key)


async def of_client(
    work: Awaitable[T], *, sdk: ModuleType, spec: ModelSpec, key: str | None, seconds: float
) -> T:
    """Wait for what a provider's client does; the one place where its errors become ours."""
    failure: ModelError
    try:
        async with asyncio.timeout(seconds):
            return await work
    except sdk.APIStatusError as error:
        failure = status_failure(spec, error.status_code, error.response.headers, error.body, key=key)
    except (sdk.APIConnectionError, httpx2.HTTPError) as error:
        failure = transport_failure(spec, error)
    except TimeoutError:
        failure = timeout_failure(spec, seconds)
    except ModelError as error:  # a redirect that is not followed, or a body that broke off
        failure = error.with_traceback(None)
    except ValueError:
        failure = unsendable(spec)
    finally:
        key = None  # a traceback that shows variables, as IPython's verbose one, must not show it
    # Raised here and not above: the client's error holds the request with its key and must not ride along.
    raise failure


def json_object(spec: ModelSpec, content: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply's body, whatever content type it was sent under."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raise body_failure(spec, f"of {len(content)} bytes is not JSON, or broke off") from None
    if not isinstance(raw, dict):
        raise body_failure(spec, "is JSON but no object")
    return raw


def status_failure(
    spec: ModelSpec, status: int, headers: Mapping[str, str], body: Any, *, key: str | None = None
) -> ModelError:
    """Return the failure behind an HTTP status."""
    where = f"{spec.provider} model {spec.model!r}"
    error = _error_of(body)
    said = _said(error.get("message"), key)
    if status in (401, 403):
        # Nothing of the provider's text: OpenAI's repeats the first and last letters of the key.
        variable = spec.api_key_env or "a key, and none was sent"
        return ModelError(
            f"{where}: the key was refused (HTTP {status}); check {variable}",
            reason="wrong_key",
            fatal_for_provider=True,
        )
    if status == 402 or _is_out_of_money(error):
        return ModelError(
            f"{where}: the account has no credit left (HTTP {status}); top it up, then run the study again",
            reason="out_of_money",
            fatal_for_provider=True,
        )
    if status == 429:
        return ModelError(
            f"{where}: too many requests (HTTP 429){said}",
            reason="rate_limited",
            retryable=True,
            retry_after=retry_after(headers),
        )
    if status in (408, 409) or status >= 500:
        # 529 is Anthropic's word for too much to do. A 408 is a refusal and not a time-out of ours: nothing is billed.
        reason = {408: "request_timeout", 409: "conflict", 529: "overloaded"}.get(status, "server_error")
        return ModelError(
            f"{where}: the server could not answer (HTTP {status}){said}",
            reason=reason,
            retryable=True,
            retry_after=retry_after(headers),
        )
    if status == 404:
        gone = f"; it was retired on {spec.retired}" if spec.is_retired() else ""
        return ModelError(
            f"{where} was not found (HTTP 404){gone}; give another model or base_url in the study{said}",
            reason="not_found",
        )
    sampling = any(name in said for name in ("temperature", "top_p"))
    how = "; for a model that takes no temperature say sampling_supported = false" if sampling else ""
    return ModelError(f"{where}: the request was refused (HTTP {status}){said}{how}", reason="bad_request")


def error_body_failure(spec: ModelSpec, body: Mapping[str, Any], *, key: str | None = None) -> ModelError:
    """Return the failure that stands in a body under status 200, as proxies and routers of models send it.

    It is what it would be under the status that it names, or is sent with elsewhere; of one that names none, nobody
    knows that asking again would help.
    """
    error = _error_of(body)
    words = [str(error.get(name)).lower() for name in ("status", "code", "type")]
    known = (int(word) if word.isdecimal() else _STATUS_OF.get(word, 0) for word in words)
    status = next((number for number in known if 400 <= number < 600), 400)
    return status_failure(spec, status, {}, body, key=key)


def transport_failure(spec: ModelSpec, error: BaseException) -> ModelError:
    """Return the failure behind a call that brought no HTTP reply."""
    import aiohttp

    if isinstance(
        error.__cause__, ModelError
    ):  # ours, of a redirect, which one client lets through and another wraps
        return error.__cause__.with_traceback(None)
    # The openai client calls a dropped connection a time-out; what aiohttp said is further down the chain.
    link: BaseException | None = error
    late = "Timeout" in type(error).__name__
    while link is not None:
        if isinstance(link, aiohttp.ClientError):
            late = isinstance(link, TimeoutError)
            break
        link = link.__cause__ or link.__context__
    if late:
        return timeout_failure(spec)
    if isinstance(link, aiohttp.ClientConnectorError):
        return ModelError(
            f"{spec.provider} model {spec.model!r}: nothing answers at its address; check the network and base_url",
            reason="unreachable",
            retryable=True,
        )
    what = type(link or error).__name__
    return ModelError(
        f"{spec.provider} model {spec.model!r}: the connection failed or broke off ({what})",
        reason="connection",
        retryable=True,
    )


def timeout_failure(spec: ModelSpec, seconds: float | None = None) -> ModelError:
    """Return the failure of a call that took too long."""
    within = "in time" if seconds is None else f"within {seconds:g} s"
    return ModelError(
        f"{spec.provider} model {spec.model!r}: no reply {within}", reason="timeout", retryable=True
    )


def redirect_failure(spec: ModelSpec, status: int, host: str) -> ModelError:
    """Return the failure of a call whose server points to another host, where no prompt and no key is taken."""
    return ModelError(
        f"{spec.provider} model {spec.model!r}: its server points to another host, {host[:100]!r} (HTTP {status}), "
        "where nothing was sent; if that is where the prompts may go, name it by base_url in the study",
        reason="redirected",
        fatal_for_provider=True,
    )


def body_failure(spec: ModelSpec, what: str) -> ModelError:
    """Return the failure of a reply with status 200 whose body is not what the provider promises."""
    return ModelError(
        f"{spec.provider} model {spec.model!r}: the reply {what}", reason="malformed_body", retryable=True
    )


def unsendable(spec: ModelSpec) -> ModelError:
    """Return the failure of a request that cannot be written as JSON, as one with half a surrogate pair."""
    return ModelError(
        f"{spec.provider} model {spec.model!r}: the prompt or a parameter cannot be sent as JSON; "
        "look for broken characters or a number that is not finite",
        reason="bad_request",
    )


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
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def _error_of(body: Any) -> Mapping[str, Any]:
    """Return the error object of a body: under ``error`` on the wire, unwrapped by openai's client."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, Mapping) else {"message": inner}


def _is_out_of_money(error: Mapping[str, Any]) -> bool:
    words = (error.get("code"), error.get("type"))
    # Anthropic answers 400 invalid_request_error for an empty account; only the text tells.
    return any(word in _OUT_OF_MONEY for word in words) or "credit balance is too low" in str(
        error.get("message")
    )


def _said(message: Any, key: str | None) -> str:
    """Return the provider's own words, on one line, short, and without anything that looks like a key."""
    if not isinstance(message, str) or not message.strip():
        return ""
    text = message if not key else message.replace(key, "[key]")
    text = _KEY_LIKE.sub("[key]", " ".join(text.split()))
    return f": {text[:300]}"
