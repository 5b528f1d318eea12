"""From a provider's raw reply to ours: pure functions over the JSON that was on the wire."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from toolkit.models.base import ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.tokens import count_tokens
from toolkit.models.transport import body_failure

_MOST = 2**40
"""Tokens that no reply has: a server that counts more does not count, and the store holds no such number."""
_OPENAI_FINISH = {"stop": "stop", "length": "length", "content_filter": "filter"}
_ANTHROPIC_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def from_chat_completion(spec: ModelSpec, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
    """Return the reply in an OpenAI chat completion."""
    try:
        choice = raw["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        finish = _OPENAI_FINISH.get(choice.get("finish_reason"), "other")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise body_failure(spec, "holds no choice with a message") from None
    text = _text_of(content)
    if refusal and not text:
        text, finish = str(refusal), "refusal"
    return _reply(spec, request, raw, text, finish, _chat_usage(raw.get("usage")))


def from_anthropic_message(spec: ModelSpec, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
    """Return the reply in an Anthropic message."""
    content = raw.get("content")
    if not isinstance(content, list):
        raise body_failure(spec, "holds no content")
    finish = _ANTHROPIC_FINISH.get(str(raw.get("stop_reason")), "other")
    return _reply(spec, request, raw, _text_of(content), finish, _message_usage(raw.get("usage")))


def estimated_usage(spec: ModelSpec, request: ModelRequest, text: str) -> Usage:
    """Return our own count of tokens, marked as the estimate it is."""
    encoding, times = spec.counted_by
    sent = sum(count_tokens(message.content, encoding) for message in request.messages)
    return Usage(math.ceil(sent * times), math.ceil(count_tokens(text, encoding) * times), estimated=True)


def _reply(
    spec: ModelSpec,
    request: ModelRequest,
    raw: Mapping[str, Any],
    text: str,
    finish: str,
    usage: Usage | None,
) -> ModelReply:
    return ModelReply(
        text=text,
        finish_reason=finish,
        usage=estimated_usage(spec, request, text) if usage is None else usage,
        model=str(raw.get("model") or spec.model),
        raw=raw,
    )


def _text_of(content: Any) -> str:
    """Return the text of a reply: a string, nothing, or a list of blocks of which some are text."""
    if isinstance(content, list):
        return "".join(str(block.get("text") or "") for block in content if isinstance(block, Mapping))
    return content if isinstance(content, str) else ""


def _chat_usage(usage: Any) -> Usage | None:
    """Return OpenAI's own count, or ``None`` where it sent none that can be used."""
    if not isinstance(usage, Mapping):
        return None
    sent, got = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens") or 0)
    if sent is None or got is None:
        return None
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read, written = (_count(details.get(name)) or 0 for name in ("cached_tokens", "cache_write_tokens"))
    # Parts that are more than the whole are no parts; then nothing is taken off the price.
    return (
        Usage(sent, got, cache_read=read, cache_written=written)
        if read + written <= sent
        else Usage(sent, got)
    )


def _message_usage(usage: Any) -> Usage | None:
    """Return Anthropic's own count, or ``None`` where it sent none that can be used."""
    if not isinstance(usage, Mapping):
        return None
    sent, got = _count(usage.get("input_tokens")), _count(usage.get("output_tokens") or 0)
    read = _count(usage.get("cache_read_input_tokens") or 0)
    written = _count(usage.get("cache_creation_input_tokens") or 0)
    if sent is None or got is None or read is None or written is None:
        return None
    # Tokens of the provider's cache were input too, and are counted apart from it.
    return Usage(sent + read + written, got, cache_read=read, cache_written=written)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None
