"""OpenAI's chat API through OpenAI's own client: for OpenAI, Groq, compatible servers and the local one."""

from __future__ import annotations

from typing import Any, Final

import httpx2
import openai

from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.replies import from_chat_completion
from toolkit.models.schemas import accepted_schema
from toolkit.models.transport import HTTP_LIMITS, Limits, client_options, json_reply

MOST_LOGPROBS: Final = 20
"""The most alternatives of each token that the API returns."""


class OpenAIModel:
    """A model behind an OpenAI chat endpoint; belongs to the event loop that first asks it."""

    def __init__(self, spec: ModelSpec, *, key: str | None = None, limits: Limits = HTTP_LIMITS) -> None:
        self._spec = spec
        self._key = key
        self.limits = limits
        self.client = openai.AsyncOpenAI(
            # The client insists on a key; servers that want none ignore this word.
            api_key=key or "none",
            base_url=spec.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(limits.seconds, connect=limits.connect_seconds),
            http_client=openai.DefaultAioHttpClient(**client_options(spec, limits)),
        )
        if spec.provider != "openai":
            # Read from OPENAI_ORG_ID and OPENAI_PROJECT_ID, and nobody else's business.
            self.client.organization = None
            self.client.project = None

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, without retries."""
        # `post` and not `chat.completions.create`: the body is kept as it came, nothing is built from it.
        sent = self.client.post(
            "/chat/completions", cast_to=httpx2.Response, body=request_body(self._spec, request)
        )
        raw = await json_reply(sent, sdk=openai, spec=self._spec, key=self._key, seconds=self.limits.seconds)
        return from_chat_completion(self._spec, request, raw)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()


def request_body(spec: ModelSpec, request: ModelRequest) -> dict[str, Any]:
    """Return the body of a chat completion request; parameters that are ``None`` are left to the provider."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        # OpenAI and Groq deprecate max_tokens and newer models refuse it; older compatible servers know only
        # max_tokens and would silently ignore the new name.
        "max_completion_tokens" if spec.provider in ("openai", "groq") else "max_tokens": request.max_tokens,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.seed is not None and spec.seed_supported:
        body["seed"] = request.seed
    if request.response_schema is not None and spec.structured:
        schema = accepted_schema(request.response_schema, spec.provider)
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": schema},
        }
    if request.top_logprobs is not None and spec.logprobs:
        body |= {"logprobs": True, "top_logprobs": min(request.top_logprobs, MOST_LOGPROBS)}
    return body
