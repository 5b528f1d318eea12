"""The schema that is sent: nothing a provider refuses is in it, and nothing else is changed."""

import json

import anthropic
import pytest

from toolkit.judges.request import answer_schema
from toolkit.judges.rubric import load_rubric
from toolkit.models.schemas import REFUSED, accepted_schema

FINDINGS = {
    "type": "object",
    "properties": {
        # A property may be called like a keyword.
        "maximum": {"type": "integer", "minimum": 0, "maximum": 5},
        "findings": {
            "type": "array",
            "minItems": 2,
            "maxItems": 9,
            "items": {"anyOf": [{"type": "string", "pattern": "^a", "maxLength": 9}, {"type": "null"}]},
        },
        "one": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/word"}},
        "severity": {"enum": [0, 0.5, 1], "type": "number", "description": "How bad"},
    },
    "$defs": {"word": {"type": "string", "minLength": 1, "description": "A word"}},
    "required": ["maximum", "findings", "one", "severity"],
    "additionalProperties": False,
}


def test_what_a_provider_refuses_becomes_words_wherever_it_stands():
    assert accepted_schema(json.dumps(FINDINGS), "anthropic") == {
        "type": "object",
        "properties": {
            "maximum": {"type": "integer", "description": "minimum: 0, maximum: 5"},
            "findings": {
                "type": "array",
                "description": "minItems: 2, maxItems: 9",
                "items": {
                    "anyOf": [
                        {"type": "string", "description": 'pattern: "^a", maxLength: 9'},
                        {"type": "null"},
                    ]
                },
            },
            "one": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/word"}},
            "severity": {"enum": [0, 0.5, 1], "type": "number", "description": "How bad"},
        },
        "$defs": {"word": {"type": "string", "description": "A word. minLength: 1"}},
        "required": ["maximum", "findings", "one", "severity"],
        "additionalProperties": False,
    }


def test_openai_is_spared_the_length_of_a_text_and_the_others_get_the_schema_as_it_is():
    sent = accepted_schema(json.dumps(FINDINGS), "openai")
    assert sent["$defs"]["word"] == {"type": "string", "description": "A word. minLength: 1"}
    assert sent["properties"]["findings"]["items"]["anyOf"][0]["pattern"] == "^a"
    assert sent["properties"]["maximum"] == FINDINGS["properties"]["maximum"]
    for provider in ("local", "compatible", "groq", "scripted"):
        assert accepted_schema(json.dumps(FINDINGS), provider) == FINDINGS
    for provider in REFUSED:  # keys, their order and steps stay
        meant = json.loads(answer_schema(load_rubric("default")))
        sent = accepted_schema(json.dumps(meant), provider)
        assert list(sent["properties"]) == list(meant["properties"]) == sent["required"]
        assert sent["properties"]["clarity"] == meant["properties"]["clarity"]


@pytest.mark.parametrize("schema", [FINDINGS, json.loads(answer_schema(load_rubric("default")))])
def test_anthropics_own_client_finds_nothing_left_to_take_out(schema):
    """It puts what the API refuses in braces into the description, which here has been done before."""
    assert "{" in json.dumps([part.get("description") for part in _parts(anthropic.transform_schema(schema))])
    sent = accepted_schema(json.dumps(schema), "anthropic")
    for part in _parts(anthropic.transform_schema(sent)):
        assert "{" not in part.get("description", "")


def _parts(schema):
    """Yield a schema and every schema in it."""
    yield schema
    inside = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inside += [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]
    for part in inside:
        yield from _parts(part)
