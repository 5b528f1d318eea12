"""Anthropic's messages API through Anthropic's own client."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import httpx2

from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.replies import from_anthropic_message
from toolkit.models.transport import HTTP_LIMITS, Limits, is_loopback, json_reply

API_VERSION: Final = "2023-06-01"
"""Under the client's own default, 2026-10-21, the API refuses temperature and top_p, which a study sets."""


class AnthropicModel:
    """A model behind an Anthropic messages endpoint; belongs to the event loop that first asks it.

    Parameters
    ----------
    spec
        The model, with its ``base_url``.
    key
        The key to send, or ``None`` for a server that wants none.
    limits
        Connections and time.
    """

    def __init__(self, spec: ModelSpec, *, key: str | None = None, limits: Limits = HTTP_LIMITS) -> None:
        self._spec = spec
        self._key = key
        self._limits = limits
        self._client = anthropic.AsyncAnthropic(
            # Given even where none is wanted: without it the client looks for credentials of its own.
            api_key=key or "none",
            base_url=spec.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(limits.seconds, connect=limits.connect_seconds),
            default_headers={"anthropic-version": API_VERSION},
            # Prompts of a study must not reach a tracing service by accident.
            open_telemetry=False,
            http_client=anthropic.DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=limits.connections, max_keepalive_connections=limits.connections
                ),
                trust_env=not is_loopback(spec.base_url),
            ),
        )

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, without retries.

        Parameters
        ----------
        request
            What to ask; ``seed`` and ``response_schema`` are not sent, the API takes neither.

        Returns
        -------
        ModelReply
            The reply, with the JSON that was on the wire.

        Raises
        ------
        ModelError
            There is no usable reply; it says whether asking again may help.
        """
        # `post` and not `messages.create`: that one takes no temperature any more, and warns at every call of
        # a model that is past its date.
        sent = self._client.post("/v1/messages", cast_to=httpx2.Response, body=request_body(request))
        raw = await json_reply(
            sent, sdk=anthropic, spec=self._spec, key=self._key, seconds=self._limits.seconds
        )
        return from_anthropic_message(self._spec, request, raw)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def request_body(request: ModelRequest) -> dict[str, Any]:
    """Return the body of a messages request; the API takes system text apart from the conversation.

    Parameters
    ----------
    request
        What to ask.
    """
    system = "\n\n".join(message.content for message in request.messages if message.role == "system")
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [
            {"role": message.role, "content": message.content}
            for message in request.messages
            if message.role != "system"
        ],
    }
    if system:
        body["system"] = system
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    return body
