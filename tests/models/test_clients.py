"""The real openai and anthropic clients against a loopback server: what is sent, and what a reply becomes."""

import asyncio
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from stub_server import Fault, StubServer

from toolkit.errors import ModelError, StudyError
from toolkit.models.base import Message, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import default_concurrency, open_model
from toolkit.models.tokens import estimated_usage

OPENAI_LIKE = ("openai", "groq", "compatible")


def spec_for(provider, server, **fields):
    url = server.url if provider == "anthropic" else server.openai_url
    return model_spec("m", provider=provider, base_url=url, **fields)


def ask(spec, request, **options):
    """Ask once, in a loop of its own, and close."""

    async def once():
        model = open_model(spec, env={"MY_KEY": "my-key"}, **options)
        try:
            return await model.ask(request)
        finally:
            await model.close()

    return asyncio.run(once())


@pytest.mark.parametrize("provider", [*OPENAI_LIKE, "anthropic"])
def test_a_reply_comes_with_the_providers_usage_and_the_json_of_the_wire(provider, make_request):
    with StubServer(answer=lambda body: "Ja \u2713 {json}") as server:
        reply = ask(spec_for(provider, server), make_request(provider=provider, model="m"))
    assert (reply.text, reply.finish_reason, reply.model) == ("Ja \u2713 {json}", "stop", "m")
    assert (reply.usage.input, reply.usage.output, reply.usage.estimated) == (8, 3, False)
    assert (server.input_tokens, server.output_tokens) == (8, 3)
    assert reply.raw["id"] in ("chatcmpl-0", "msg_0")


@pytest.mark.parametrize(
    ("provider", "limit"),
    [("openai", "max_completion_tokens"), ("groq", "max_completion_tokens"), ("compatible", "max_tokens")],
)
def test_an_openai_request_carries_the_sampling_parameters_under_the_providers_names(
    provider, limit, make_request
):
    request = make_request(temperature=0.2, top_p=0.9, seed=3, max_tokens=77)
    with StubServer() as server:
        ask(spec_for(provider, server), request)
    body = dict(server.seen[0].body)
    assert [message["role"] for message in body.pop("messages")] == ["system", "user"]
    assert body == {"model": "gpt-4o", limit: 77, "temperature": 0.2, "top_p": 0.9, "seed": 3}


def test_an_anthropic_request_has_its_system_text_apart_and_pins_the_api_that_takes_a_temperature(
    make_request,
):
    request = make_request(temperature=0.2, top_p=0.9, seed=3, max_tokens=77, response_schema="{}")
    with StubServer() as server:
        ask(spec_for("anthropic", server), request)
    assert server.seen[0].headers["anthropic-version"] == "2023-06-01"
    assert server.seen[0].body == {
        "model": "gpt-4o",
        "max_tokens": 77,
        "messages": [{"role": "user", "content": "Is this mail phishing?"}],
        "system": "You are an analyst.",
        "temperature": 0.2,
        "top_p": 0.9,
    }


@pytest.mark.parametrize(
    ("temperature", "top_p", "sent"),
    [
        (0.5, 1.0, {"temperature": 0.5}),
        (None, 1.0, {"top_p": 1.0}),
        (0.5, 0.9, {"temperature": 0.5, "top_p": 0.9}),
    ],
)
def test_a_claude_is_not_given_a_top_p_of_1_beside_a_temperature(temperature, top_p, sent, make_request):
    """Claude 4.5 and later answer 400 to the two together; 1 is what holds without it."""
    with StubServer() as server:
        ask(spec_for("anthropic", server), make_request(temperature=temperature, top_p=top_p))
    body = server.seen[0].body
    assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_count_that_no_reply_has_is_not_believed(provider, make_request):
    """The store holds no such number, and a cost made of it would stop the study; our own estimate stands in."""
    said = {"prompt_tokens": 2**70, "completion_tokens": 1, "input_tokens": 1, "output_tokens": 2**63}
    body = {
        "choices": [{"message": {"content": "Yes."}}],
        "content": [{"type": "text", "text": "Yes."}],
        "usage": said,
    }
    with StubServer(faults=[Fault(status=200, body=body)]) as server:
        reply = ask(spec_for(provider, server), make_request(provider=provider, model="m"))
    assert reply.text == "Yes."
    assert reply.usage.estimated
    assert reply.usage.input < 1000


def test_our_estimate_is_by_the_factor_of_the_models_tokenizer(make_request):
    """Half as many tokens again for what a provider did not count; the factor of the catalogue, rounded up."""
    request, text = make_request(), "Isolate the host. " * 40
    plain = estimated_usage(model_spec("claude-3-5-haiku"), request, text)
    more = estimated_usage(model_spec("claude-haiku-5-5"), request, text)
    assert (more.input, more.output) == (math.ceil(1.53 * plain.input), math.ceil(1.53 * plain.output))
    assert more.estimated


def test_a_model_past_its_date_is_asked_without_a_warning(make_request):
    """The client itself warns at every call of such a model; warnings are errors here."""
    with StubServer() as server:
        spec = model_spec("claude-3-5-haiku", base_url=server.url)
        assert ask(spec, make_request(model=spec.model)).finish_reason == "stop"


@pytest.mark.parametrize("provider", [*OPENAI_LIKE, "anthropic"])
def test_what_is_not_set_is_not_sent(provider, make_request):
    with StubServer() as server:
        spec = spec_for(provider, server, seed_supported=False)
        ask(spec, replace(make_request(seed=3), messages=(Message("user", "x"),)))
    assert set(server.seen[0].body) <= {"model", "messages", "max_tokens", "max_completion_tokens"}


@pytest.mark.parametrize("structured", [True, False])
def test_a_schema_is_sent_only_where_the_provider_enforces_it(structured, make_request):
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    with StubServer() as server:
        spec = spec_for("openai", server, structured=structured)
        ask(spec, make_request(response_schema=json.dumps(schema)))
    sent = server.seen[0].body.get("response_format")
    expected = {"name": "reply", "strict": True, "schema": schema}
    assert sent == ({"type": "json_schema", "json_schema": expected} if structured else None)


@pytest.mark.parametrize(
    ("finish", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filter"),
        ("tool_calls", "other"),
        (None, "other"),
    ],
)
def test_openai_finish_reasons_are_normalised(finish, ours, make_request):
    def change(reply):
        reply["choices"][0]["finish_reason"] = finish
        return reply

    with StubServer(change=change) as server:
        assert ask(spec_for("openai", server), make_request()).finish_reason == ours


@pytest.mark.parametrize(
    ("finish", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("tool_use", "other"),
        (None, "other"),
    ],
)
def test_anthropic_stop_reasons_are_normalised(finish, ours, make_request):
    with StubServer(change=lambda reply: {**reply, "stop_reason": finish}) as server:
        assert ask(spec_for("anthropic", server), make_request()).finish_reason == ours


def test_a_refusal_is_kept_as_one(make_request):
    def change(reply):
        reply["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
        return reply

    with StubServer(change=change) as server:
        reply = ask(spec_for("openai", server), make_request())
    assert (reply.text, reply.finish_reason) == ("I cannot.", "refusal")


@pytest.mark.parametrize("content", [None, "", []])
def test_an_empty_reply_is_kept_with_its_finish_reason(content, make_request):
    def change(reply):
        reply["choices"][0].update(message={"content": content}, finish_reason="length")
        return reply

    with StubServer(change=change) as server:
        reply = ask(spec_for("openai", server), make_request())
    assert (reply.text, reply.finish_reason) == ("", "length")


def test_text_in_blocks_is_joined_and_other_blocks_are_left_in_the_raw_reply(make_request):
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    with StubServer(change=lambda reply: {**reply, "content": blocks}) as server:
        reply = ask(spec_for("anthropic", server), make_request())
    assert reply.text == "ab"
    assert reply.raw["content"] == blocks


def test_tokens_of_the_providers_cache_are_input_too(make_request):
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    with StubServer(change=lambda reply: {**reply, "usage": usage}) as server:
        reply = ask(spec_for("anthropic", server), make_request())
    assert (reply.usage.input, reply.usage.output) == (24, 4)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "9"}, {"input_tokens": -1, "output_tokens": 1}, []]
)
def test_without_a_usable_usage_the_tokens_are_our_estimate(provider, usage, make_request):
    with StubServer(change=lambda reply: {**reply, "usage": usage}) as server:
        reply = ask(spec_for(provider, server), make_request())
    assert reply.usage.estimated
    assert reply.usage.input > 0
    assert reply.usage.output > 0


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("body", [[], 7, {}, {"choices": []}, {"choices": [{}]}])
def test_json_that_is_no_reply_is_a_malformed_body(provider, body, make_request):
    with StubServer(change=lambda reply: body) as server, pytest.raises(ModelError) as caught:
        ask(spec_for(provider, server), make_request())
    assert (caught.value.reason, caught.value.retryable) == ("malformed_body", True)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("error", "reason", "retried"),
    [
        ({"message": "the model is warming up", "code": 503}, "server_error", True),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limited", True),
        ({"message": "Overloaded", "type": "overloaded_error"}, "overloaded", True),
        ({"message": "no credit", "code": 402}, "out_of_money", False),
        ({"message": "the prompt was flagged", "code": "content_policy"}, "bad_request", False),
        ("the prompt is too long", "bad_request", False),
    ],
)
def test_an_error_under_status_200_is_the_providers_word_and_repeated_where_that_helps(
    provider, error, reason, retried, make_request
):
    with StubServer(change=lambda reply: {"error": error}) as server, pytest.raises(ModelError) as caught:
        ask(spec_for(provider, server), make_request())
    assert (caught.value.reason, caught.value.retryable) == (reason, retried)
    if reason != "out_of_money":
        assert (error if isinstance(error, str) else error["message"]) in str(caught.value)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_prompt_that_is_no_text_fails_at_once(provider, make_request):
    with StubServer() as server, pytest.raises(ModelError) as caught:
        ask(spec_for(provider, server), make_request("half a pair: \ud800"))
    assert (caught.value.reason, caught.value.retryable, server.count) == ("bad_request", False, 0)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_proxies_of_the_environment_do_not_divert_loopback_traffic(provider, make_request, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with StubServer() as server:
        assert ask(spec_for(provider, server), make_request()).finish_reason == "stop"


def test_the_organisation_of_an_openai_account_is_told_to_openai_only(make_request, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-1")
    with StubServer() as server:
        ask(spec_for("compatible", server), make_request())
        ask(spec_for("openai", server), make_request())
    assert "openai-organization" not in server.seen[0].headers
    assert "openai-project" not in server.seen[0].headers
    assert server.seen[1].headers["openai-organization"] == "org-1"


def test_a_model_that_was_never_asked_closes_cleanly():
    with StubServer() as server:
        for provider in ("openai", "anthropic"):
            asyncio.run(open_model(spec_for(provider, server)).close())
    asyncio.run(open_model(model_spec("smollm2-135m")).close())
    asyncio.run(open_model(model_spec("scripted")).close())


def test_a_provider_nobody_knows_is_refused():
    with pytest.raises(StudyError, match="unknown provider 'azure'"):
        open_model(replace(model_spec("gpt-4o", api_key_env=None), provider="azure"), env={})


def test_a_local_model_is_asked_one_at_a_time_and_a_provider_ten():
    assert default_concurrency(model_spec("smollm2-135m")) == 1
    assert default_concurrency(model_spec("gpt-4o")) == 10


def test_no_providers_client_is_imported_before_it_is_needed():
    code = "import sys, toolkit.models.registry as registry\n"
    code += "registry.open_model(registry.ModelSpec('s', 'scripted', 's', 's'), env={})\n"
    code += "print([name for name in ('openai', 'anthropic', 'aiohttp', 'xllamacpp') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(("asked", "sent"), [(5, 5), (20, 20), (50, 20), (0, 0)])
def test_log_probabilities_are_asked_for_where_they_are_given_and_no_more_than_the_api_returns(
    asked, sent, make_request
):
    with StubServer(answer=lambda body: "4", digits={"4": 0.75, "5": 0.25}) as server:
        reply = ask(spec_for("openai", server), make_request(top_logprobs=asked))
    body, token = server.seen[0].body, reply.raw["choices"][0]["logprobs"]["content"][0]
    assert (body["logprobs"], body["top_logprobs"]) == (True, sent)
    assert [piece["token"] for piece in token["top_logprobs"]] == ["4", "5"][:sent]


@pytest.mark.parametrize("provider", ["groq", "compatible", "anthropic"])
def test_log_probabilities_are_not_asked_for_where_none_are_given(provider, make_request):
    with StubServer() as server:
        ask(spec_for(provider, server), make_request(top_logprobs=5))
    assert not {"logprobs", "top_logprobs"} & set(server.seen[0].body)


BOUNDED = {
    "type": "object",
    "properties": {
        "reasons": {"type": "string", "maxLength": 160},
        "score": {"type": "number", "enum": [0, 2.5, 5]},
    },
    "required": ["reasons", "score"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "compatible"])
def test_a_structured_model_answers_by_the_schema_and_is_sent_only_what_its_provider_takes(
    provider, make_request
):
    with StubServer() as server:
        spec = spec_for(provider, server, structured=True)
        reply = ask(spec, make_request(response_schema=json.dumps(BOUNDED)))
    assert set(json.loads(reply.text)) == {"reasons", "score"}
    assert json.loads(reply.text)["score"] in (0, 2.5, 5)
    body = server.seen[0].body
    form = (
        body["output_config"]["format"] if provider == "anthropic" else body["response_format"]["json_schema"]
    )
    assert form["schema"]["properties"]["score"] == BOUNDED["properties"]["score"]
    assert form["schema"]["properties"]["reasons"] == (
        BOUNDED["properties"]["reasons"]
        if provider == "compatible"
        else {"type": "string", "description": "maxLength: 160"}
    )
    if provider == "anthropic":
        assert (form["type"], set(form)) == ("json_schema", {"type", "schema"})


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_server_that_ignores_the_schema_still_answers(provider, make_request):
    with StubServer(ignores_schema=True) as server:
        spec = spec_for(provider, server, structured=True)
        reply = ask(spec, make_request(response_schema=json.dumps(BOUNDED)))
    assert (reply.text, reply.finish_reason) == ("A stub's reply.", "stop")


MARK = {"cache_control": {"type": "ephemeral"}}


def test_an_anthropic_prefix_is_marked_where_it_ends_and_its_text_stays_the_same(make_request):
    messages = (
        Message("system", "You judge.", cached=True),
        Message("system", "Be brief."),
        Message("user", "The reply.", cached=True),
        Message("user", "Sentence 3."),
    )
    with StubServer() as server:
        ask(spec_for("anthropic", server), replace(make_request(), messages=messages))
        ask(
            spec_for("anthropic", server),
            replace(make_request(), messages=tuple(replace(message, cached=False) for message in messages)),
        )
    body, bare = server.seen[0].body, server.seen[1].body
    assert body["system"] == [
        {"type": "text", "text": "You judge.", **MARK},
        {"type": "text", "text": "\n\nBe brief."},
    ]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "The reply.", **MARK}]},
        {"role": "user", "content": "Sentence 3."},
    ]
    assert bare["system"] == "".join(block["text"] for block in body["system"])
    assert bare["messages"][0] == {"role": "user", "content": "The reply."}


def test_no_more_prefixes_are_marked_than_the_api_takes_and_none_that_is_empty(make_request):
    texts = ["a", "b", " ", "c", "d", "e"]
    messages = tuple(Message("user", text, cached=True) for text in texts)
    with StubServer() as server:
        ask(spec_for("anthropic", server), replace(make_request(), messages=messages))
    marked = [isinstance(message["content"], list) for message in server.seen[0].body["messages"]]
    assert marked == [False, True, False, True, True, True]


@pytest.mark.parametrize("provider", OPENAI_LIKE)
def test_others_cache_by_themselves_and_are_sent_no_mark(provider, make_request):
    with StubServer() as server:
        ask(
            spec_for(provider, server), replace(make_request(), messages=(Message("user", "x", cached=True),))
        )
    assert server.seen[0].body["messages"] == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    ("provider", "first", "again"),
    [
        ("anthropic", Usage(8, 3, cache_written=6), Usage(8, 3, cache_read=6)),
        ("openai", Usage(8, 3), Usage(8, 3, cache_read=6)),
    ],
)
def test_a_shared_prefix_is_counted_as_part_of_the_input(provider, first, again, make_request):
    def request(text):
        messages = (Message("system", "You judge.", cached=True), Message("user", "a b c d", cached=True))
        return replace(make_request(), messages=(*messages, Message("user", text)))

    with StubServer(caches=True) as server:
        spec = spec_for(provider, server)
        usages = [ask(spec, request(text)).usage for text in ("one two", "three four")]
    assert usages == [first, again]
    assert (server.input_tokens, server.cache_read) == (16, 6)


@pytest.mark.parametrize(
    ("details", "read", "written"),
    [
        ({"cached_tokens": 6, "cache_write_tokens": 2}, 6, 2),
        ({"cached_tokens": 9}, 0, 0),
        ({"cached_tokens": 6, "cache_write_tokens": 3}, 0, 0),
        ({"cached_tokens": -1}, 0, 0),
        ({"cached_tokens": True}, 0, 0),
        ({"cached_tokens": "6"}, 0, 0),
        ({"cached_tokens": None}, 0, 0),
        ([6], 0, 0),
        (None, 0, 0),
    ],
)
def test_details_that_cannot_be_right_take_nothing_off_the_price(details, read, written, make_request):
    usage = {"prompt_tokens": 8, "completion_tokens": 3, "prompt_tokens_details": details}
    with StubServer(change=lambda reply: {**reply, "usage": usage}) as server:
        reply = ask(spec_for("openai", server), make_request())
    assert reply.usage == Usage(8, 3, cache_read=read, cache_written=written)


@pytest.mark.parametrize("provider", [*OPENAI_LIKE, "anthropic"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(provider, status, make_request):
    """Neither prompt nor key goes where nobody sent them; the line names the host, without what may hide in it."""
    with StubServer() as other, StubServer() as server:
        place = other.url.replace("http://", "http://user:secret@")
        server.faults = lambda number, body: Fault(status=status, headers={"Location": f"{place}/v1/x"})
        with pytest.raises(ModelError) as caught:
            ask(spec_for(provider, server, api_key_env="MY_KEY"), make_request(provider=provider, model="m"))
        assert (server.count, other.count) == (1, 0)
    said = str(caught.value)
    assert (caught.value.reason, caught.value.retryable) == ("redirected", False)
    assert other.url.removeprefix("http://") in said
    assert "base_url" in said
    assert not any(hidden in said for hidden in ("secret", "my-key", "\n"))


@pytest.mark.parametrize("provider", ["compatible", "anthropic"])
def test_a_redirect_on_the_same_host_is_followed(provider, make_request):
    """A server that wants its path written in another way is still the one that was asked."""
    path = "/v1/messages" if provider == "anthropic" else "/v1/chat/completions"
    with StubServer(faults=[Fault(status=307, headers={"Location": path})]) as server:
        assert (
            ask(spec_for(provider, server), make_request(provider=provider, model="m")).finish_reason
            == "stop"
        )
        assert server.count == 2
