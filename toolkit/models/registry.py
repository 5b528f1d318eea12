"""From a description of a model to one that can be asked; a client is imported when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toolkit.errors import StudyError
from toolkit.models.base import Model
from toolkit.models.batches import BatchClient
from toolkit.models.catalogue import ModelSpec
from toolkit.models.keys import api_key, read_environment

BATCH_PROVIDERS = ("openai", "anthropic")
"""Providers with a batch endpoint; the others are asked singly in batch mode too."""
LOCAL_SLOTS = 1
"""Requests the local server works on at once: more would share the same cores and lose the cached prompt."""


def open_model(
    spec: ModelSpec,
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    connections: int | None = None,
    seconds: float | None = None,
) -> Model:
    """Return a model that can be asked; nothing is sent, and no server is started, before the first request."""
    if spec.provider == "scripted":
        from toolkit.models.scripted import ScriptedModel

        return ScriptedModel(spec.replies or None, spec=spec)

    from toolkit.models.transport import HTTP_LIMITS, LOCAL_LIMITS

    limits = LOCAL_LIMITS if spec.provider == "local" else HTTP_LIMITS
    limits = replace(limits, connections=connections or limits.connections, seconds=seconds or limits.seconds)
    match spec.provider:
        case "local":
            from toolkit.models.local import LocalModel

            return LocalModel(spec, slots=LOCAL_SLOTS, limits=limits)
        case "anthropic":
            from toolkit.models.anthropic_client import AnthropicModel

            return AnthropicModel(spec, key=_key(spec, env, folder), limits=limits)
        case "openai" | "groq" | "compatible":
            from toolkit.models.openai_client import OpenAIModel

            return OpenAIModel(spec, key=_key(spec, env, folder), limits=limits)
    raise StudyError(f"model {spec.name!r} has the unknown provider {spec.provider!r}")


def open_batch_client(
    spec: ModelSpec, *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> BatchClient | None:
    """Return the batch endpoint of a model, or ``None`` where its provider has none; nothing is sent."""
    match spec.provider:
        case "openai":
            from toolkit.models.batch_openai import OpenAIBatches

            return OpenAIBatches(spec, key=_key(spec, env, folder))
        case "anthropic":
            from toolkit.models.batch_anthropic import AnthropicBatches

            return AnthropicBatches(spec, key=_key(spec, env, folder))
    return None


def default_concurrency(spec: ModelSpec, others: int = 10) -> int:
    """Return how many requests to send to a model at once when the study does not say."""
    return LOCAL_SLOTS if spec.provider == "local" else others


def _key(spec: ModelSpec, env: Mapping[str, str] | None, folder: Path | None) -> str | None:
    return api_key(spec, read_environment(folder) if env is None else env)
