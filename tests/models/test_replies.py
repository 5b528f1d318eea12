"""What a provider's JSON becomes: text, why it ended, and tokens that can be believed; pure, with no server."""

import math

import pytest
from cases import FULL
from refusals import failed

from toolkit.models import usage
from toolkit.models.base import Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model


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


@pytest.mark.parametrize(
    ("raw", "text", "finish"),
    [
        (openai(), "Yes.", "stop"),
        (openai(finish="length"), "Yes.", "length"),
        (openai(finish="content_filter"), "Yes.", "filter"),
        (openai(finish="tool_calls"), "Yes.", "tool"),
        (openai(finish=None), "Yes.", "unknown"),
        # Paid for, and readable: a finish reason and a content of any shape.
        *((openai(finish=odd), "Yes.", "unknown") for odd in ([], {}, 7, True, 1.5, [["stop"]], {"a": []})),
        *(
            (openai(finish=odd), "Yes.", "length")
            for odd in (["length"], {"type": "length"}, [None, "length"])
        ),
        (openai(refusal=["x"]), "Yes.", "stop"),
        (openai({"type": "text", "text": "Yes."}), "Yes.", "stop"),
        (openai([{"type": "text", "text": {"value": "Yes."}}, "No."]), "Yes.No.", "stop"),
        (openai({"clarity": 4}), '{"clarity": 4}', "stop"),
        (openai(4), "4", "stop"),
        ({"choices": {"message": {"content": "Yes."}, "finish_reason": "stop"}}, "Yes.", "stop"),
        ({"choices": [None, {"text": "Yes."}], "model": {}, "usage": [7]}, "Yes.", "unknown"),
        ({"choices": [{"message": "Yes.", "finish_reason": "stop"}]}, "Yes.", "stop"),
        ({"choices": [{"message": {}}, {"message": {"content": "Yes."}}]}, "Yes.", "unknown"),
        ({"content": "Yes.", "stop_reason": ["max_tokens"]}, "Yes.", "length"),
        ({"content": ["Yes."], "stop_reason": {"reason": "end_turn"}}, "Yes.", "stop"),
        ({"content": block("Yes."), "stop_reason": 5}, "Yes.", "unknown"),
        (
            anthropic({"type": "web_search_tool_result", "content": [block("a page")]}, block("a")),
            "a",
            "stop",
        ),
        # A part of another type is no part of the reply, though it has a text.
        *(
            (
                openai([{"type": kind, "text": "hm"}, block("Yes."), {"type": kind, "content": "x"}]),
                "Yes.",
                "stop",
            )
            for kind in ("tool_result", "thinking", "reasoning", "reasoning.text", "reference", ["text"], 5)
        ),
        (anthropic({"type": "server_tool_use", "text": "look"}, finish="pause_turn"), "", "error"),
        (openai([{"text": "hm", "thought": True}, {"text": "Yes."}]), "Yes.", "stop"),
        (openai(None, refusal="I cannot."), "I cannot.", "refusal"),
        (openai(None, "length"), "", "length"),
        (openai([], "length"), "", "length"),
        (anthropic(block("a"), {"type": "thinking", "thinking": "hm"}, block("b")), "ab", "stop"),
        (anthropic(block("a"), finish="stop_sequence"), "a", "stop"),
        (anthropic(block("a"), finish="max_tokens"), "a", "length"),
        (anthropic(finish="model_context_window_exceeded"), "", "length"),
        (anthropic(finish="refusal"), "", "refusal"),
        (anthropic(finish="tool_use"), "", "tool"),
        (anthropic(finish=None), "", "unknown"),
    ],
)
def test_text_and_finish_reason(raw, text, finish, make_request):
    reply = read(None, make_request(), raw)
    assert (reply.text, reply.finish_reason, reply.raw) == (text, finish, raw)


@pytest.mark.parametrize(
    ("words", "finish", "defect"),
    [
        (("STOP", "eos", "COMPLETE", "end-turn"), "stop", None),
        (("model_length", "max_tokens", "MAX_TOKENS", " Length ", "max tokens"), "length", "truncated"),
        (("SAFETY", "recitation", "content-filter", "PROHIBITED_CONTENT"), "filter", "filtered"),
        (("error", "abort", "timeout", "pause_turn", "insufficient_system_resource"), "error", "truncated"),
        (("tool_calls", "function_call", "MALFORMED_FUNCTION_CALL"), "tool", "truncated"),
        (("OTHER", "other", "banana", "null", "", "FINISH_REASON_UNSPECIFIED"), "unknown", "unknown_finish"),
    ],
)
@pytest.mark.parametrize("make", [openai, lambda _, finish: anthropic(block("Yes."), finish=finish)])
def test_no_reply_that_broke_off_is_whole(make, words, finish, defect, make_request):
    """Whatever a provider or a server calls it; what nobody knows is a defect of its own."""
    for word in words:
        raw = make("Yes.", finish=word)
        reply = read(None, make_request(), raw)
        assert (reply.text, reply.finish_reason, reply.defect) == ("Yes.", finish, defect), word


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": None, "content": None},
        {"choices": 7, "content": {}},
    ],
)
def test_json_that_is_no_reply_is_a_malformed_body(provider, raw, make_request):
    error = failed(read, provider, make_request(), raw)
    assert (error.reason, error.retryable) == ("malformed_body", True)


@pytest.mark.parametrize(
    "empty",
    [
        {},
        {"choices": None, "content": None},
        *(FULL({"choices": none, "content": none}) for none in ([], "", {})),
        {"choices": [{"message": {"content": ""}, "finish_reason": "error"}], "content": [block("")]},
        {"choices": [{"message": None}], "content": [None]},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"error": {"code": 401, "message": "no such user"}}, "wrong_key"),
        ({"error": {"type": "authentication_error"}, "type": "error"}, "wrong_key"),
        ({"error": "no such user", "code": "401"}, "wrong_key"),
        ({"error": None, "code": 401}, "wrong_key"),
        ({"status": 403, "message": "no"}, "wrong_key"),
        ({"error": {"code": "insufficient_quota"}}, "out_of_money"),
        ({"error": {"code": 429}}, "rate_limited"),
        ({"error": {"code": 502}, "code": 200}, "server_error"),
        ({"error": True, "code": "9" * 5000}, "bad_request"),
        ({"type": "error", "message": "no"}, "bad_request"),
        ({"error": ["odd"]}, "bad_request"),
    ],
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


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (openai(usage=DETAILS), Usage(8, 3)),
        *(
            (openai(usage={**DETAILS, "prompt_tokens_details": details}), Usage(8, 3, cache_read=read))
            for details, read in [
                ({"cached_tokens": 6}, 6),
                # Details that cannot be right take nothing off the price.
                *((odd, 0) for odd in ({"cached_tokens": 9}, {"cached_tokens": -1}, {"cached_tokens": True})),
                *((odd, 0) for odd in ({"cached_tokens": "6"}, [6], {"cached_tokens": 2**50})),
            ]
        ),
        (
            # What was read is no part of it then; what was written costs more, and stays.
            openai(usage={**DETAILS, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 3}}),
            Usage(8, 3, cache_written=3),
        ),
        (
            # Tokens of the provider's cache are input too.
            anthropic(
                usage={
                    "input_tokens": 1,
                    "cache_read_input_tokens": 20,
                    "cache_creation_input_tokens": 3,
                    "output_tokens": 4,
                }
            ),
            Usage(24, 4, cache_read=20, cache_written=3),
        ),
    ],
)
def test_the_providers_own_count(raw, usage, make_request):
    assert read(None, make_request(), raw).usage == usage


WORDS = "isolate " * 900  # a token each


# A shape of usage, and the least output that is booked for the words beside an input of 200, and whether it is marked.
def counted(got, **more):
    return {"prompt_tokens": 200, "completion_tokens": got, **more}


GAPS = {
    "output absent": ({"prompt_tokens": 200}, 900, True),
    "reasoning beside": (counted(900, reasoning_tokens=1500, total_tokens=2600), 2400, False),
    "reasoning in details": (
        counted(900, total_tokens=2600, completion_tokens_details={"reasoning_tokens": 1500}),
        2400,
        False,
    ),
    "reasoning beside, no total": (counted(900, reasoning_tokens=1500), 2400, False),
    "reasoning within": (
        counted(2400, total_tokens=2600, completion_tokens_details={"reasoning_tokens": 1500}),
        2400,
        False,
    ),
    "reasoning, output absent": (
        {"prompt_tokens": 200, "completion_tokens_details": {"reasoning_tokens": 1500}},
        2400,
        True,
    ),
    "total alone": ({"total_tokens": 2600}, 900, True),
    "input absent": ({"completion_tokens": 900, "total_tokens": 1100}, 900, True),
    "all zero": ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, 900, True),
    "input 0": ({"prompt_tokens": 0, "completion_tokens": 900}, 900, True),
    "far too few": ({"prompt_tokens": 1, "completion_tokens": 9}, 900, True),
    "input_tokens": ({"input_tokens": 200, "output_tokens": 900}, 900, False),
    "cut in text": ({"prompt_tokens": "200", "completion_tokens": "1500"}, 1500, True),
    "fractions": ({"prompt_tokens": 200.0, "completion_tokens": 1500.5}, 1501, True),
    "2^70": ({"prompt_tokens": 2**70, "completion_tokens": 1}, 900, True),
    "2^39": (counted(2**39), 2000, True),
    "2^39 in all": (dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 2**39), 2000, True),
    "2^39 of reasoning": (counted(900, reasoning_tokens=2**39), 2000, True),
    "2^39 of total": (counted(900, total_tokens=2**39), 2000, True),
    "a million": (counted(10**6), 2000, True),
    "a million in total": (counted(900, total_tokens=10**6), 2000, True),
    "infinite": ({"prompt_tokens": math.inf, "completion_tokens": math.inf}, 2000, True),
    **{
        f"nothing: {odd!r}": (odd, 900, True)
        for odd in (None, "", [], False, {}, "text", 7, [{"prompt_tokens": 200}])
    },
    **{
        f"output {odd!r}": (counted(odd), 900, True)
        for odd in (None, "", [], {}, False, True, -5, math.nan, -math.inf, "many", "-5", "４")
    },
    **{
        f"details {odd!r}": (
            counted(900, total_tokens=odd, reasoning_tokens=odd)
            | dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"), odd),
            900,
            False,
        )
        for odd in (None, "", [], False, -5)
    },
}


@pytest.mark.parametrize(("counts", "got", "marked"), GAPS.values(), ids=GAPS)
def test_a_gap_in_the_usage_is_no_free_reply(counts, got, marked, make_request):
    request = make_request("scan " * 200, max_tokens=2000)
    found = read("openai", request, openai(WORDS, usage=counts)).usage
    assert (found.input >= 200, found.output >= got, found.estimated) == (True, True, marked)
    assert found.total < 10_000  # no call of these texts has more
    assert all(type(count) is int for count in (found.input, found.output))


ANTHROPIC = {"input_tokens": 200, "output_tokens": 900}


@pytest.mark.parametrize(
    ("usage", "written", "marked"),
    [
        (ANTHROPIC, 0, False),
        ({**ANTHROPIC, "cache_read_input_tokens": None}, 0, False),
        *((odd, 0, True) for odd in (None, {}, [], {"input_tokens": -1, "output_tokens": 1})),
        ({"input_tokens": 200}, 0, True),
        ({"input_tokens": 200, "output_tokens": None}, 0, True),
        # A proxy that drops what was read from the cache: 3 tokens are no prompt of 1,000 characters.
        ({**ANTHROPIC, "input_tokens": 3}, 0, True),
        ({**ANTHROPIC, "input_tokens": 20, "cache_creation_input_tokens": "180"}, 0, True),
        ({**ANTHROPIC, "input_tokens": None, "cache_read_input_tokens": 150}, 0, True),
        (
            {"output_tokens": 900, "cache_read_input_tokens": 9, "cache_creation_input_tokens": 150},
            150,
            True,
        ),
        ({**ANTHROPIC, "cache_read_input_tokens": 2**39}, 0, True),
        ({**ANTHROPIC, "input_tokens": 10**4000, "cache_read_input_tokens": 1.5}, 0, True),
    ],
)
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
