"""A model that asks nobody: the same request always gets the same reply, for tests and dry runs."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec, model_spec
from toolkit.models.planted import planted_answer
from toolkit.models.usage import estimated_usage

Answer = str | ModelReply
Script = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class ScriptedModel:
    """A model whose replies are decided by a function, by a list of texts, or by the request alone."""

    def __init__(
        self, script: Script | Sequence[str] | None = None, *, spec: ModelSpec | None = None
    ) -> None:
        self._script = script
        self._spec = spec or model_spec("scripted")

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Return the scripted reply."""
        answer = self._answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ModelReply):
            return answer
        return ModelReply(
            text=answer,
            finish_reason="stop",
            usage=estimated_usage(self._spec, request, answer),
            model=self._spec.model,
            raw={"scripted": answer},
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _answer(self, request: ModelRequest) -> Answer | Awaitable[Answer]:
        if callable(self._script):
            return self._script(request)
        dice = random.Random(request.identity())
        if self._script:
            return self._script[dice.randrange(len(self._script))]
        schema = request.response_schema
        example = None if schema is None else example_of(json.loads(schema), dice)
        if self._spec.planted:
            return planted_answer(dict(self._spec.planted), request, example)
        if example is not None:
            return json.dumps(example)
        return f"Scripted reply {request.identity()[:12]}."


def example_of(schema: Mapping[str, Any], dice: random.Random, root: Mapping[str, Any] | None = None) -> Any:
    """Return a value that follows a JSON schema, the same for the same dice."""
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return example_of(target, dice, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return example_of(dice.choice(schema[choice]), dice, root)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: example_of(part, dice, root) for name, part in schema.get("properties", {}).items()}
        case "array":
            low = schema.get("minItems", 1)
            size = dice.randint(low, max(low, schema.get("maxItems", low)))
            return [example_of(schema.get("items", {}), dice, root) for _ in range(size)]
        case "integer":
            low = schema.get("minimum", 0)
            return dice.randint(low, schema.get("maximum", low + 5))
        case "number":
            low = schema.get("minimum", 0.0)
            return round(dice.uniform(low, schema.get("maximum", low + 5.0)), 1)
        case "boolean":
            return dice.random() < 0.5
        case "null":
            return None
        case _:
            return f"scripted {dice.randrange(10_000)}"[: schema.get("maxLength")]
