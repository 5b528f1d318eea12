"""The schema that is sent: what a provider refuses in a JSON schema is left out of it and said in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_STRING_BOUNDS: Final = frozenset({"minLength", "maxLength"})
_NUMBER_BOUNDS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
REFUSED: Final[Mapping[str, frozenset[str]]] = {
    # "Invalid schema for response_format 'reply': In context=('properties', 'reasons'), 'maxLength' is not permitted."
    "openai": _STRING_BOUNDS,
    # What `anthropic.transform_schema` of the anthropic package 2.12 moves out of a schema.
    "anthropic": _STRING_BOUNDS | _NUMBER_BOUNDS | {"pattern", "minItems", "maxItems", "uniqueItems"},
}
"""Keywords to which a provider answers 400, by provider; the others take them, and llama.cpp holds a reply to them."""


def accepted_schema(text: str, provider: str) -> dict[str, Any]:
    """Return a JSON schema as a provider takes it: refused keywords become words of the description."""
    schema: dict[str, Any] = json.loads(text)
    refused = REFUSED.get(provider)
    return schema if refused is None else _without(schema, refused)


def _without(schema: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    kept, said = {}, []
    for key, value in schema.items():
        # Anthropic takes the two smallest bounds of a list.
        if key in refused and not (key == "minItems" and value in (0, 1)):
            said.append(f"{key}: {json.dumps(value)}")
        else:
            kept[key] = _inside(key, value, refused)
    if said:
        kept["description"] = ". ".join([*filter(None, [kept.get("description")]), ", ".join(said)])
    return kept


def _inside(key: str, value: Any, refused: frozenset[str]) -> Any:
    """Return the value of a keyword, with the schemas in it changed too."""
    if key in ("properties", "$defs") and isinstance(value, Mapping):
        return {name: _without(part, refused) for name, part in value.items()}
    if key in ("anyOf", "allOf", "oneOf") and isinstance(value, list):
        return [_without(part, refused) for part in value]
    if key == "items" and isinstance(value, Mapping):
        return _without(value, refused)
    return value
