"""Anthropic's messages API through Anthropic's own client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import anthropic
import httpx2

from toolkit.models.base import Message, ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.replies import from_anthropic_message
from toolkit.models.schemas import accepted_schema
from toolkit.models.transport import HTTP_LIMITS, Limits, client_options, json_reply

API_VERSION: Final = "2023-06-01"
"""Under the client's own default, 2026-10-21, the API refuses temperature and top_p, which a study sets."""
MOST_BREAKPOINTS: Final = 4
"""The most blocks of one request that may end a cached prefix; a fifth is answered with 400."""


class AnthropicModel:
    """A model behind an Anthropic messages endpoint; belongs to the event loop that first asks it."""

    def __init__(self, spec: ModelSpec, *, key: str | None = None, limits: Limits = HTTP_LIMITS) -> None:
        self._spec = spec
        self._key = key
        self.limits = limits
        self.client = anthropic.AsyncAnthropic(
            # Given even where none is wanted: without it the client looks for credentials of its own.
            api_key=key or "none",
            base_url=spec.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(limits.seconds, connect=limits.connect_seconds),
            default_headers={"anthropic-version": API_VERSION},
            # Prompts of a study must not reach a tracing service by accident.
            open_telemetry=False,
            http_client=anthropic.DefaultAioHttpClient(**client_options(spec, limits)),
        )

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, without retries."""
        # `post` and not `messages.create`: that one takes no temperature any more, and warns at every call of
        # a model that is past its date.
        sent = self.client.post(
            "/v1/messages", cast_to=httpx2.Response, body=request_body(self._spec, request)
        )
        raw = await json_reply(
            sent, sdk=anthropic, spec=self._spec, key=self._key, seconds=self.limits.seconds
        )
        return from_anthropic_message(self._spec, request, raw)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()


def request_body(spec: ModelSpec, request: ModelRequest) -> dict[str, Any]:
    """Return the body of a messages request; the API takes system text apart from the conversation."""
    system = [message for message in request.messages if message.role == "system" and message.content]
    others = [message for message in request.messages if message.role != "system"]
    # Of more than four the last: each holds the ones before it.
    ends = [message for message in (*system, *others) if message.cached and message.content.strip()]
    ends = ends[-MOST_BREAKPOINTS:]
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [{"role": message.role, "content": _content(message, ends)} for message in others],
    }
    if system:
        body["system"] = _system(system, ends)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    # Claude 4.5 and later refuse the two together, and 1 is what holds without it.
    if request.top_p is not None and (request.top_p != 1 or request.temperature is None):
        body["top_p"] = request.top_p
    if request.response_schema is not None and spec.structured:
        schema = accepted_schema(request.response_schema, spec.provider)
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return body


def _system(messages: Sequence[Message], ends: Sequence[Message]) -> str | list[dict[str, Any]]:
    """Return the system text: one string, or blocks of the same text where a prefix ends in it."""
    texts = [messages[0].content, *(f"\n\n{message.content}" for message in messages[1:])]
    if not any(_is_end(message, ends) for message in messages):
        return "".join(texts)
    return [_block(text, message, ends) for text, message in zip(texts, messages, strict=True)]


def _content(message: Message, ends: Sequence[Message]) -> str | list[dict[str, Any]]:
    return [_block(message.content, message, ends)] if _is_end(message, ends) else message.content


def _block(text: str, message: Message, ends: Sequence[Message]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    return {**block, "cache_control": {"type": "ephemeral"}} if _is_end(message, ends) else block


def _is_end(message: Message, ends: Sequence[Message]) -> bool:
    # By identity: of two messages with the same text only one may be among the last.
    return any(message is end for end in ends)
