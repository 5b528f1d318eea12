"""The real openai and anthropic clients against a loopback server: what is sent, and what comes back."""

import json
import subprocess
import sys
from dataclasses import replace

import anthropic
import pytest
from cases import cases
from refusals import failed
from stub_server import Fault, StubServer, ask, spec_for

from toolkit.judges.request import answer_schema
from toolkit.judges.rubric import load_rubric
from toolkit.models.base import Message, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.transport import accepted_schema

CASES = cases(__file__)

OPENAI_LIKE = ("openai", "groq", "compatible")
MARK = {"cache_control": {"type": "ephemeral"}}
BOUNDED = CASES["bounded"]


@pytest.fixture
def body_of(make_request):
    """Return what a request is sent as, without its messages unless they are given."""

    def sent(provider, *, messages=None, fields=(), **request):
        spec = model_spec("m", provider=provider, base_url="http://127.0.0.1:1/v1", **dict(fields))
        asked = make_request(**request)
        return open_model(spec, env={}).body(replace(asked, messages=messages) if messages else asked)

    return sent


@pytest.mark.parametrize("provider", [*OPENAI_LIKE, "anthropic"])
def test_a_reply_comes_with_the_providers_usage_and_the_json_of_the_wire(provider, make_request):
    with StubServer(answer=lambda body: "Ja \u2713 {json}") as server:
        reply = ask(spec_for(provider, server), make_request(provider=provider, model="m"))
        sent = server.seen[0].body
    assert (reply.text, reply.finish_reason, reply.model) == ("Ja \u2713 {json}", "stop", "m")
    assert reply.usage == Usage(server.input_tokens, server.output_tokens) == Usage(8, 3)
    assert reply.raw["id"] in ("chatcmpl-0", "msg_0")
    # What is not set is not sent.
    assert set(sent) <= {"model", "messages", "max_tokens", "max_completion_tokens", "system"}


@pytest.mark.parametrize(
    ("provider", "limit"),
    [("openai", "max_completion_tokens"), ("groq", "max_completion_tokens"), ("compatible", "max_tokens")],
)
def test_an_openai_request_carries_the_sampling_parameters_under_the_providers_names(
    provider, limit, body_of
):
    sampling = {"temperature": 0.2, "top_p": 0.9, "seed": 3}
    body = body_of(provider, max_tokens=77, fields={"seed_supported": True}, **sampling)
    assert [message["role"] for message in body.pop("messages")] == ["system", "user"]
    assert body == {"model": "gpt-4o", limit: 77, **sampling}
    assert "seed" not in body_of(provider, fields={"seed_supported": False}, seed=3)


def test_an_anthropic_request_has_its_system_text_apart_and_pins_the_api_that_takes_a_temperature(
    make_request,
):
    request = make_request(temperature=0.2, top_p=0.9, seed=3, max_tokens=77, response_schema="{}")
    with StubServer() as server:
        ask(spec_for("anthropic", server), request)
    assert server.seen[0].headers["anthropic-version"] == "2023-06-01"
    assert server.seen[0].body == CASES["anthropic_body"]


@pytest.mark.parametrize(("temperature", "top_p", "sent"), CASES["temperatures"])
def test_a_claude_is_not_given_a_top_p_of_1_beside_a_temperature(temperature, top_p, sent, body_of):
    """Claude 4.5 and later answer 400 to the two together; 1 is what holds without it."""
    body = body_of("anthropic", temperature=temperature, top_p=top_p)
    assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent


def test_a_model_past_its_date_is_asked_without_a_warning(make_request):
    """The client itself warns at every call of such a model; warnings are errors here."""
    with StubServer() as server:
        spec = model_spec("claude-3-5-haiku", base_url=server.url)
        assert ask(spec, make_request(model=spec.model)).finish_reason == "stop"


@pytest.mark.parametrize("provider", ["openai", "compatible", "anthropic"])
def test_a_schema_is_sent_as_the_provider_takes_it_and_only_where_it_is_enforced(
    provider, make_request, body_of
):
    schema = json.dumps(BOUNDED)
    with StubServer() as server:
        reply = ask(spec_for(provider, server, structured=True), make_request(response_schema=schema))
    assert json.loads(reply.text)["score"] in (0, 2.5, 5)
    body = server.seen[0].body
    form = (
        body["output_config"]["format"] if provider == "anthropic" else body["response_format"]["json_schema"]
    )
    assert form["schema"]["properties"]["score"] == BOUNDED["properties"]["score"]
    bounded = {"type": "string", "maxLength": 160}
    told = bounded if provider == "compatible" else {"type": "string", "description": "maxLength: 160"}
    assert form["schema"]["properties"]["reasons"] == told
    assert provider == "anthropic" or (form["name"], form["strict"]) == ("reply", True)
    plain = body_of(provider, response_schema=schema, fields={"structured": False})
    assert not {"response_format", "output_config"} & set(plain)


@pytest.mark.parametrize(("error", "reason", "retried"), CASES["broken_choices"])
def test_an_error_under_status_200_is_the_providers_word_and_repeated_where_that_helps(
    provider, error, reason, retried, make_request
):
    with StubServer(change=lambda reply: {"error": error}) as server:
        raised = failed(ask, spec_for(provider, server), make_request())
    assert (raised.reason, raised.retryable) == (reason, retried)
    if reason != "out_of_money":
        assert (error if isinstance(error, str) else error["message"]) in str(raised)


def test_a_prompt_that_is_no_text_fails_at_once(provider, make_request):
    with StubServer() as server:
        error = failed(ask, spec_for(provider, server), make_request("half a pair: \ud800"))
    assert (error.reason, error.retryable, server.count) == ("bad_request", False, 0)


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
    assert not {"openai-organization", "openai-project"} & set(server.seen[0].headers)
    assert server.seen[1].headers["openai-organization"] == "org-1"


def test_no_providers_client_is_imported_before_it_is_needed():
    """Not by the whole main job either: a study of scripted models loads neither package."""
    code = "import sys, toolkit.pipeline, toolkit.models.registry as registry\n"
    code += "registry.open_model(registry.ModelSpec('s', 'scripted', 's', 's'), env={})\n"
    code += "print([name for name in ('openai', 'anthropic', 'aiohttp', 'xllamacpp') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(("asked", "sent"), CASES["logprobs"])
def test_log_probabilities_are_asked_for_where_they_are_given_and_no_more_than_the_api_returns(
    asked, sent, body_of
):
    body = body_of("openai", top_logprobs=asked, fields={"logprobs": True})
    assert (body.get("logprobs"), body.get("top_logprobs")) == (None if sent is None else True, sent)
    for provider, known in (("openai", False), ("anthropic", True)):
        assert "top_logprobs" not in body_of(provider, top_logprobs=asked, fields={"logprobs": known})


def test_an_anthropic_prefix_is_marked_where_it_ends_and_its_text_stays_the_same(body_of):
    messages = (
        Message("system", "You judge.", cached=True),
        Message("system", "Be brief."),
        Message("user", "The reply.", cached=True),
        Message("user", "Sentence 3."),
    )
    body = body_of("anthropic", messages=messages)
    bare = body_of("anthropic", messages=tuple(replace(message, cached=False) for message in messages))
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


def test_no_more_prefixes_are_marked_than_the_api_takes_and_none_that_is_empty(body_of):
    messages = tuple(Message("user", text, cached=True) for text in ("a", "b", " ", "c", "d", "e"))
    marked = [isinstance(m["content"], list) for m in body_of("anthropic", messages=messages)["messages"]]
    assert marked == [False, True, False, True, True, True]
    for provider in OPENAI_LIKE:  # they cache by themselves and are sent no mark
        body = body_of(provider, messages=(Message("user", "x", cached=True),))
        assert body["messages"] == [{"role": "user", "content": "x"}]


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


@pytest.mark.parametrize(("provider", "status"), CASES["redirects"])
def test_a_redirect_to_another_host_is_not_followed(provider, status, make_request):
    """Neither prompt nor key goes where nobody sent them; the line names the host, without what may hide in it."""
    with StubServer() as other, StubServer() as server:
        place = other.url.replace("http://", "http://user:secret@")
        server.faults = lambda number, body: Fault(status=status, headers={"Location": f"{place}/v1/x"})
        spec = spec_for(provider, server, api_key_env="MY_KEY")
        error = failed(ask, spec, make_request(provider=provider, model="m"), {"MY_KEY": "my-key"})
        assert (server.count, other.count) == (1, 0)
    said = str(error)
    assert (error.reason, error.retryable) == ("redirected", False)
    assert other.url.removeprefix("http://") in said
    assert "base_url" in said
    assert not any(hidden in said for hidden in ("secret", "my-key", "\n"))


def test_what_a_provider_refuses_becomes_words_wherever_it_stands():
    """A property may be called like a keyword."""
    assert accepted_schema(json.dumps(CASES["given"]), "anthropic") == CASES["accepted"]


@pytest.mark.parametrize("schema", [CASES["given"], json.loads(answer_schema(load_rubric("default")))])
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
