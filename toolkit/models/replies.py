"""From a provider's raw reply to ours: pure functions over the JSON that was on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit.models.base import ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.failures import body_failure
from toolkit.models.tokens import count_tokens

_OPENAI_FINISH = {"stop": "stop", "length": "length", "content_filter": "filter"}
_ANTHROPIC_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def json_object(spec: ModelSpec, content: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply's body, whatever content type it was sent under.

    Parameters
    ----------
    spec
        The model that was asked.
    content
        Body of the reply.

    Raises
    ------
    ModelError
        The body is no JSON object: broken off, a proxy's web page, a bare list.
    """
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raise body_failure(spec, f"of {len(content)} bytes is not JSON, or broke off") from None
    if not isinstance(raw, dict):
        raise body_failure(spec, "is JSON but no object")
    return raw


def from_chat_completion(spec: ModelSpec, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
    """Return the reply in an OpenAI chat completion.

    Parameters
    ----------
    spec, request
        The model and what it was asked, for a count of tokens where the server sends none.
    raw
        The JSON as received.

    Raises
    ------
    ModelError
        There is no choice with a message in it.
    """
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
    usage = _usage(raw.get("usage"), ("prompt_tokens",), "completion_tokens")
    return _reply(spec, request, raw, text, finish, usage)


def from_anthropic_message(spec: ModelSpec, request: ModelRequest, raw: Mapping[str, Any]) -> ModelReply:
    """Return the reply in an Anthropic message.

    Parameters
    ----------
    spec, request
        The model and what it was asked, for a count of tokens where the server sends none.
    raw
        The JSON as received.

    Raises
    ------
    ModelError
        There is no list of content blocks.
    """
    content = raw.get("content")
    if not isinstance(content, list):
        raise body_failure(spec, "holds no content")
    finish = _ANTHROPIC_FINISH.get(str(raw.get("stop_reason")), "other")
    # Tokens read from or written to the provider's cache were input too, and are counted apart from it.
    inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return _reply(
        spec, request, raw, _text_of(content), finish, _usage(raw.get("usage"), inputs, "output_tokens")
    )


def estimated_usage(spec: ModelSpec, request: ModelRequest, text: str) -> Usage:
    """Return our own count of tokens, marked as the estimate it is.

    Parameters
    ----------
    spec
        The model; without a public tokenizer ``o200k_base`` stands in.
    request, text
        What was sent and what came back.
    """
    encoding = spec.encoding or "o200k_base"
    sent = sum(count_tokens(message.content, encoding) for message in request.messages)
    return Usage(sent, count_tokens(text, encoding), estimated=True)


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


def _usage(usage: Any, input_names: tuple[str, ...], output_name: str) -> Usage | None:
    """Return the provider's own count, or ``None`` where it sent none that can be used."""
    if not isinstance(usage, Mapping):
        return None
    sent, got = [usage.get(name) or 0 for name in input_names], usage.get(output_name)
    if usage.get(input_names[0]) is None or not all(
        isinstance(count, int) and count >= 0 for count in [*sent, got]
    ):
        return None
    return Usage(sum(sent), int(got or 0))
