"""The way out and back, the same for every provider: limits, proxies, and one place where a call can fail."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from toolkit.errors import ModelError
from toolkit.models.catalogue import ModelSpec
from toolkit.models.failures import (
    error_body_failure,
    redirect_failure,
    status_failure,
    timeout_failure,
    transport_failure,
    unsendable,
)
from toolkit.models.replies import json_object

if TYPE_CHECKING:
    import httpx2


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
    import httpx2

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
    failure: ModelError
    try:
        async with asyncio.timeout(seconds):
            response = await sent
    except sdk.APIStatusError as error:
        failure = status_failure(spec, error.status_code, error.response.headers, error.body, key=key)
    except sdk.APIConnectionError as error:
        failure = transport_failure(spec, error)
    except TimeoutError:
        failure = timeout_failure(spec, seconds)
    except ModelError as error:  # a redirect that is not followed
        failure = error.with_traceback(None)
    except ValueError:
        failure = unsendable(spec)
    else:
        raw = json_object(spec, response.content)
        # An error beside an answer is no failure.
        if not raw.get("error") or not raw.keys().isdisjoint(("choices", "content")):
            return raw
        failure = error_body_failure(spec, raw, key=key)
    finally:
        key = None  # a traceback that shows variables, as IPython's verbose one, must not show it
    # Raised here and not above: the client's error holds the request with its key and must not ride along.
    raise failure
