import asyncio
import json

import pytest

from toolkit.errors import ModelError
from toolkit.models.base import ModelReply, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.scripted import ScriptedModel

SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 5},
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
        "share": {"type": "number", "minimum": 0.5, "maximum": 1.0},
        "verdict": {"enum": ["yes", "no"]},
        "fixed": {"const": 7},
        "parts": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"$ref": "#/$defs/part"}},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "$defs": {"part": {"type": ["integer", "null"], "minimum": 1, "maximum": 1}},
}


def ask(model, request):
    return asyncio.run(model.ask(request))


def test_the_same_request_gets_the_same_reply_and_another_repeat_may_get_another(make_request):
    model = open_model(model_spec("scripted", replies=["a", "b", "c"]))
    texts = [ask(model, make_request(repeat=repeat)).text for repeat in range(20)]
    assert texts == [ask(model, make_request(repeat=repeat)).text for repeat in range(20)]
    assert set(texts) == {"a", "b", "c"}


def test_a_function_decides_the_text_the_whole_reply_or_the_failure(make_request):
    reply = ModelReply("whole", "length", Usage(1, 2), "mine")

    async def slow(request):
        await asyncio.sleep(0)
        return "later"

    def fail(request):
        raise ModelError("no", reason="server_error", retryable=True)

    assert ask(ScriptedModel(lambda request: "text"), make_request()).text == "text"
    assert ask(ScriptedModel(lambda request: reply), make_request()) is reply
    assert ask(ScriptedModel(slow), make_request()).text == "later"
    with pytest.raises(ModelError):
        ask(ScriptedModel(fail), make_request())


def test_tokens_are_counted_and_marked_as_estimates(make_request):
    usage = ask(ScriptedModel(lambda request: ""), make_request()).usage
    assert usage.input > 0
    assert (usage.output, usage.estimated) == (0, True)


def test_without_a_script_the_reply_follows_the_schema_of_the_request(make_request):
    model = ScriptedModel()
    for repeat in range(30):
        request = make_request(response_schema=json.dumps(SCHEMA), repeat=repeat)
        value = json.loads(ask(model, request).text)
        assert list(value) == list(SCHEMA["properties"])
        assert len(value["reason"]) <= 5
        assert value["score"] in range(6)
        assert 0.5 <= value["share"] <= 1.0
        assert value["verdict"] in ("yes", "no")
        assert value["fixed"] == 7
        assert value["parts"] in ([1, 1], [1, 1, 1])
        assert value["maybe"] in (None, True, False)
    assert ask(model, make_request()).text.startswith("Scripted reply ")
