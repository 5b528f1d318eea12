"""OpenAI's chat API through OpenAI's own client: for OpenAI, Groq, compatible servers and the local one."""

import json
from collections.abc import Mapping
from typing import Any

import openai

from toolkit.models.base import Body, ModelRequest, Raw
from toolkit.models.transport import ClientModel, accepted_schema, finish_of, text_of

MOST_LOGPROBS = 20  # the most alternatives of each token that the API returns


class OpenAIModel(ClientModel):
    """A model behind an OpenAI chat endpoint."""

    sdk, path, content = openai, "/chat/completions", "choice with a message"

    def _open(self, **options: Any) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(**options)
        if self.spec.provider != "openai":
            # Read from OPENAI_ORG_ID and OPENAI_PROJECT_ID, and nobody else's business.
            client.organization = client.project = None
        return client

    def body(self, request: ModelRequest) -> Body:
        """Return the body of a chat completion request."""
        spec = self.spec
        # OpenAI and Groq deprecate max_tokens and newer models refuse it; older compatible servers know only
        # max_tokens and would silently ignore the new name.
        limit = "max_completion_tokens" if spec.provider in ("openai", "groq") else "max_tokens"
        body: Body = {
            "model": request.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            limit: request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed if spec.seed_supported else None,
        }
        if request.response_schema is not None and spec.structured:
            schema = accepted_schema(request.response_schema, spec.provider)
            form = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if request.top_logprobs is not None and spec.logprobs:
            body |= {"logprobs": True, "top_logprobs": min(request.top_logprobs, MOST_LOGPROBS)}
        options = json.loads(request.options or "{}")
        body |= {name: options.get(name) for name in ("reasoning_effort", "verbosity")}
        if level := options.get("thinking_level"):
            # Google's compatible endpoint reads this key ("OpenAI compatibility", Gemini API documentation, 2026-11).
            body["extra_body"] = {"google": {"thinking_config": {"thinking_level": level}}}
        return {name: value for name, value in body.items() if value is not None} | options.get("extra", {})

    def answer(self, raw: Raw) -> tuple[str, str] | None:
        """Return text and finish reason of the first choice that has a text, or of one whose message is empty."""
        choices, empty = raw.get("choices"), None
        for choice in choices if isinstance(choices, list) else [choices]:
            if not isinstance(choice, Mapping):
                continue
            message = choice.get("message", choice.get("text"))
            fields = message if isinstance(message, Mapping) else {"content": message}
            finish = finish_of(choice.get("finish_reason"))
            if text := text_of(fields.get("content")):
                return text, finish
            if refusal := text_of(fields.get("refusal")):
                return refusal, "refusal"
            if isinstance(message, Mapping | str):
                empty = empty or ("", finish)
        return empty
