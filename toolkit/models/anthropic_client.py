"""Anthropic's messages API through Anthropic's own client."""

import json
from collections.abc import Sequence
from typing import Any

import anthropic

from toolkit.models.base import Body, Message, ModelRequest, Raw
from toolkit.models.transport import ClientModel, accepted_schema, finish_of, text_of

API_VERSION = "2023-06-01"
"""Under the client's own default, 2026-10-21, the API refuses temperature and top_p, which a study sets."""
MOST_BREAKPOINTS = 4
"""The most blocks of one request that may end a cached prefix; a fifth is answered with 400."""


class AnthropicModel(ClientModel):
    """A model behind an Anthropic messages endpoint."""

    sdk, path, content, cache_beside = anthropic, "/v1/messages", "content", True

    def _open(self, **options: Any) -> anthropic.AsyncAnthropic:
        # Without telemetry: prompts of a study must not reach a tracing service by accident.
        headers = {"anthropic-version": API_VERSION}
        return anthropic.AsyncAnthropic(**options, default_headers=headers, open_telemetry=False)

    def body(self, request: ModelRequest) -> Body:
        """Return the body of a messages request; the API takes system text apart from the conversation."""
        system = [message for message in request.messages if message.role == "system" and message.content]
        conversation = [message for message in request.messages if message.role != "system"]
        # Of more than four the last: each holds the ones before it.
        ends = [message for message in (*system, *conversation) if message.cached and message.content.strip()]
        ends = ends[-MOST_BREAKPOINTS:]
        body: Body = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "messages": [{"role": part.role, "content": _content([part], ends)} for part in conversation],
        }
        if system:
            body["system"] = _content(system, ends)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        # Claude 4.5 and later refuse the two together, and 1 is what holds without it.
        if request.top_p is not None and (request.top_p != 1 or request.temperature is None):
            body["top_p"] = request.top_p
        if request.response_schema is not None and self.spec.structured:
            schema = accepted_schema(request.response_schema, self.spec.provider)
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        options = json.loads(request.options or "{}")
        if effort := options.get("reasoning_effort"):
            body["output_config"] = {**body.get("output_config", {}), "effort": effort}
        return body | options.get("extra", {})

    def answer(self, raw: Raw) -> tuple[str, str] | None:
        """Return text and finish reason of a message, whose list of blocks may be empty."""
        content = raw.get("content")
        text = text_of(content)
        return (text, finish_of(raw.get("stop_reason"))) if text or isinstance(content, list) else None


def _content(messages: Sequence[Message], ends: Sequence[Message]) -> str | list[Body]:
    """Return messages as one string, or as blocks of the same text where a cached prefix ends in one."""
    texts = [messages[0].content, *(f"\n\n{message.content}" for message in messages[1:])]
    # By identity: of two messages with the same text only one may be among the last.
    marked = [any(message is end for end in ends) for message in messages]
    if not any(marked):
        return "".join(texts)
    mark = {"cache_control": {"type": "ephemeral"}}
    return [
        {"type": "text", "text": text, **(mark if at else {})} for text, at in zip(texts, marked, strict=True)
    ]
