"""What a provider's JSON becomes: text, why it ended, and tokens that can be believed; pure, with no server."""

import math

import pytest
from cases import FULL, cases
from refusals import failed

from toolkit.models import usage
from toolkit.models.base import Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model

CASES = cases(__file__)


def read(provider, request, raw):
    """Return the reply in what was on the wire, by default of the provider whose form it has."""
    provider = provider or ("openai" if "choices" in raw else "anthropic")
    spec = model_spec("m", provider=provider, base_url="http://127.0.0.1:1/v1")
    return open_model(spec, env={}).reply(request, raw)


def openai(content="Yes.", finish="stop", usage=None, **message):
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


def anthropic(*blocks, finish="end_turn", usage=None):
    return {"content": list(blocks), "stop_reason": finish, "usage": usage}


def block(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(("raw", "text", "finish"), CASES["text"])
def test_text_and_finish_reason(raw, text, finish, make_request):
    """A reply that was paid for is readable whatever its shape; a part of another type is no part of its text."""
    reply = read(None, make_request(), raw)
    assert (reply.text, reply.finish_reason, reply.raw) == (text, finish, raw)


@pytest.mark.parametrize(("words", "finish", "defect"), CASES["broke_off"])
@pytest.mark.parametrize("make", [openai, lambda _, finish: anthropic(block("Yes."), finish=finish)])
def test_no_reply_that_broke_off_is_whole(make, words, finish, defect, make_request):
    """Whatever a provider or a server calls it; what nobody knows is a defect of its own."""
    for word in words:
        raw = make("Yes.", finish=word)
        reply = read(None, make_request(), raw)
        assert (reply.text, reply.finish_reason, reply.defect) == ("Yes.", finish, defect), word


@pytest.mark.parametrize("raw", CASES["no_reply"])
def test_json_that_is_no_reply_is_a_malformed_body(provider, raw, make_request):
    error = failed(read, provider, make_request(), raw)
    assert (error.reason, error.retryable) == ("malformed_body", True)


@pytest.mark.parametrize("empty", [*CASES["empty"], *map(FULL, CASES["also_empty"])], ids=str)
@pytest.mark.parametrize(
    ("error", "reason"), [*CASES["errors"], ({"error": True, "code": "9" * 5000}, "bad_request")]
)
def test_an_error_beside_no_text_is_that_error(empty, error, reason, provider, make_request):
    raised = failed(read, provider, make_request(), {**empty, **error})
    assert (raised.reason, raised.billed) == (reason, False)
    assert raised.fatal_for_provider == (reason in ("wrong_key", "out_of_money"))


def test_an_error_beside_tokens_may_be_billed_and_one_beside_a_text_is_none(provider, make_request):
    error = {"error": {"code": 502}, "choices": [], "content": []}
    thought = openai(None, reasoning="hm") if provider == "openai" else anthropic({"thinking": "hm"})
    for more in (*({"usage": {"prompt_tokens": 0, "output_tokens": odd}} for odd in (5, 5.0, "5")), thought):
        assert failed(read, provider, make_request(), {**error, **more}).billed
    text = openai() if provider == "openai" else anthropic(block("Yes."))
    assert read(provider, make_request(), {**text, "error": {"code": 401}, "code": 401}).text == "Yes."


DETAILS = {"prompt_tokens": 8, "completion_tokens": 3}


@pytest.mark.parametrize(("raw", "usage"), CASES["counts"])
def test_the_providers_own_count(raw, usage, make_request):
    """Tokens of its cache are input too; details that cannot be right take nothing off the price."""
    assert read(None, make_request(), raw).usage == Usage(**usage)


WORDS = "isolate " * 900  # a token each


@pytest.mark.parametrize(("counts", "least", "marked"), CASES["gaps"].values(), ids=CASES["gaps"])
def test_a_gap_in_the_usage_is_no_free_reply(counts, least, marked, make_request):
    """At least so much output is booked for the words beside an input of 200, and marked where it is no count."""
    request = make_request("scan " * 200, max_tokens=2000)
    found = read("openai", request, openai(WORDS, usage=counts)).usage
    assert (found.input >= 200, found.output >= least, found.estimated) == (True, True, marked)
    assert found.total < 10_000  # no call of these texts has more
    assert all(type(count) is int for count in (found.input, found.output))


UNHEARD_OF = {"input_tokens": 10**4000, "output_tokens": 900, "cache_read_input_tokens": 1.5}


@pytest.mark.parametrize(("usage", "written", "marked"), [*CASES["anthropic_gaps"], (UNHEARD_OF, 0, True)])
def test_a_gap_in_anthropics_usage_is_no_free_reply(usage, written, marked, make_request):
    """Input is at least that of the text, and nothing is taken off the price of an input that is not counted."""
    request = make_request("scan " * 200, max_tokens=2000)
    found = read("anthropic", request, anthropic(block(WORDS), usage=usage)).usage
    assert (found.input >= 200, found.output >= 900) == (True, True)
    assert (found.cache_read, found.cache_written, found.estimated) == (0, written, marked)


LIES = (None, {}, 0, -5, 1, 9, 1.0, "0", True, math.nan, "many")  # of a reply of a thousand tokens
REASONED = [
    {"type": "reasoning.summary", "summary": WORDS},
    {"type": "reasoning.encrypted", "data": "A" * 6000},
]
SHOWN = {  # what a reply has in place of a text, all of it or as much as shows: it was written, and is billed
    "tool": openai(None, "tool_calls", tool_calls=[{"function": {"name": "f", "arguments": WORDS}}]),
    "parsed": openai(None, tool_calls=[{"function": {"arguments": dict.fromkeys(map(str, range(900)), 1)}}]),
    "function": openai("", "function_call", function_call={"name": "f", "arguments": WORDS}),
    "refusal": openai(None, refusal=WORDS),
    "audio": openai(None, audio={"id": "a", "transcript": WORDS, "data": ""}),
    "another choice": {"choices": [*openai("Yes.")["choices"], *openai(WORDS)["choices"]]},
    "Anthropic's tool": anthropic({"type": "tool_use", "input": {"a": [{"b": WORDS}, 7]}}, finish="tool_use"),
    "server's tool": anthropic(block("Yes."), {"type": "server_tool_use", "input": {"query": WORDS}}),
}
THOUGHT = {  # only a part may be shown, so that the limit is all that is known
    **{
        name: openai("Yes.", **{name: WORDS})
        for name in ("reasoning", "reasoning_content", "thinking", "thoughts", "reasoning_text")
    },
    "details": openai("Yes.", reasoning_details=REASONED),
    "encrypted": openai("Yes.", reasoning_details=REASONED[1:]),
    "blocks": openai([{"type": "thinking", "thinking": [block(WORDS)]}, block("Yes.")]),
    "details beside no text": openai(None, "length", reasoning_details=REASONED),
    "thinking": anthropic({"type": "thinking", "thinking": WORDS, "signature": "c2ln"}, block("Yes.")),
    "signed": anthropic({"type": "thinking", "thinking": "", "signature": "A" * 6000}, block("Yes.")),
    "redacted": anthropic({"type": "redacted_thinking", "data": "A" * 6000}, block("Yes.")),
    "nothing, length": openai(None, "length"),
    "no blocks": anthropic(finish="max_tokens"),
    "redacted, cut off": anthropic({"type": "redacted_thinking", "data": "A" * 6000}, finish="max_tokens"),
    "cut off": openai(WORDS, "length"),
    "Anthropic, cut off": anthropic(block(WORDS), finish="max_tokens"),
}


@pytest.mark.parametrize(
    ("raw", "least"),
    [*((raw, 900) for raw in SHOWN.values()), *((raw, 2000) for raw in THOUGHT.values())],
    ids=[*SHOWN, *THOUGHT],
)
def test_no_count_that_what_was_written_contradicts_is_believed(raw, least, make_request):
    """Of each provider's form, whatever is told in place of a count: no less than what shows, or the limit."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens")
    request = make_request("scan " * 200, max_tokens=2000)
    for count in (*LIES, *([600] if least == 900 else [])):
        found = read(None, request, {**raw, "usage": dict.fromkeys(names, count)}).usage
        assert (found.input >= 200, found.output >= least, found.estimated) == (True, True, True), count
        assert found.total < 10_000, count


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        (openai("Yes.", reasoning=WORDS, reasoning_content=WORDS, reasoning_details=REASONED), (200, 905)),
        (openai(None, "stop"), (200, 1)),  # the mark of the end alone
        (openai(None, "length"), (200, 1996)),  # some stop a little before the limit
        (anthropic({"type": "redacted_thinking", "data": "A" * 6000}, block("Yes.")), (200, 1000)),
        # What a tool found is read, and not written; nor is what a provider says of a part.
        (anthropic({"type": "web_search_tool_result", "content": [block(WORDS)]}, block("Yes.")), (200, 2)),
        (openai("Yes.", annotations=[{"title": WORDS}], images=[{"url": "data:" + "A" * 6000}]), (200, 100)),
    ],
)
def test_a_count_that_fits_what_was_written_is_believed(raw, counts, make_request):
    """One thought under three names is one thought."""
    names = ("prompt_tokens", "completion_tokens") if "choices" in raw else ("input_tokens", "output_tokens")
    raw = {**raw, "usage": dict(zip(names, counts, strict=True))}
    assert read(None, make_request("scan " * 200, max_tokens=2000), raw).usage == Usage(*counts)


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": 40, "completion_tokens": 2}])
def test_an_input_that_is_not_counted_is_the_worst_of_its_call(usage, make_request):
    """Its schema and what the study adds among it."""
    options = f'{{"extra": {{"tools": "{WORDS}"}}}}'
    request = make_request("scan " * 200, response_schema=f'{{"title": "{WORDS}"}}', options=options)
    assert read("openai", request, openai(usage=usage)).usage.input >= 2000


def test_of_a_model_that_may_think_unseen_a_reply_without_a_count_is_at_its_limit(make_request):
    request, raw = make_request(max_tokens=2000), openai("Yes.", usage={"prompt_tokens": 9})
    for row in (
        {"reasoning_effort": "low"},
        {"efforts": ("low",)},
        {"extra": {"thinking": {"type": "enabled"}}},
    ):
        spec = model_spec("m", provider="compatible", base_url="http://127.0.0.1:1/v1", **row)
        assert open_model(spec, env={}).reply(request, raw).usage.output == 2000


def test_a_reply_that_is_nested_without_end_is_counted(make_request):
    nested = WORDS
    for _ in range(100_000):
        nested = [nested]
    raw = openai(None, reasoning_details=nested, usage={"prompt_tokens": 0, "completion_tokens": 0})
    assert read("openai", make_request(max_tokens=200), raw).usage.output >= 900


def test_a_count_that_no_call_has_is_said(make_request):
    doubts = [
        read("openai", make_request(), openai(usage={**DETAILS, **odd})).usage.doubt
        for odd in ({}, {"prompt_tokens": None}, {"completion_tokens": 2**39}, {"prompt_tokens": 2**63})
    ]
    assert doubts[:2] == ["", ""]
    assert "output tokens" in doubts[2]
    assert "input tokens" in doubts[3]


class Panic(BaseException):
    """What a library in Rust raises, by the name of its module."""


Panic.__module__ = "pyo3_runtime"


@pytest.mark.parametrize("error", [RuntimeError("broken"), RecursionError(), Panic("StackOverflow")])
def test_what_came_is_a_reply_whatever_a_library_raises_while_it_is_read(error, make_request, monkeypatch):
    """A paid reply is saved as it came, at its worst; what is no error of a library goes through."""

    def fail(*_):
        raise error

    raw, request = openai(usage=DETAILS), make_request(max_tokens=2000)
    model = open_model(model_spec("m", provider="compatible", base_url="http://127.0.0.1:1/v1"), env={})
    monkeypatch.setattr(type(model), "reply", fail)
    reply = model.read(request, raw)
    assert (reply.raw, reply.text, reply.defect, reply.usage.output) == (raw, "", "empty", 2000)
    if isinstance(error, Exception):  # a panic in counting is held back where it happens
        monkeypatch.setattr(usage, "text_tokens", fail)
        assert model.read(request, raw).usage.input > 0
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model.read(request, raw)
