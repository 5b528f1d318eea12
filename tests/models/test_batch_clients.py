"""The batch endpoints of both providers against a loopback server: submit, find, poll, read."""

import asyncio
import json
from dataclasses import replace

import pytest
import stub_batches
from aiohttp import web
from cases import FULL, cases
from refusals import failed
from stub_server import Fault, StubServer, spec_for

from toolkit.errors import ModelError
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_batch_client, open_model

NAME = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
KEY = "sk-canary-0123456789"
AWKWARD = 'nul \x00, breaks \n \r\n \x85 \u2028 \u2029, separator \x1e, \U0001f600 \\u2028 "quoted"'


def in_client(provider, server, work):
    """Do something with a client in a loop of its own, and close the client."""

    async def once():
        client = open_batch_client(spec_for(provider, server, api_key_env="K"), env={"K": KEY})
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(once())


@pytest.fixture
def requests(make_request, provider):
    """Return so many requests by their identity."""

    def make(count, text="Is this mail phishing?"):
        made = [make_request(text, provider=provider, model="m", repeat=n) for n in range(count)]
        return {request.identity(): request for request in made}

    return make


async def ended(client, requests):
    """Submit a batch, look at it once, and return its id."""
    batch_id = await client.submit(requests, NAME)
    await client.state(batch_id)
    return batch_id


async def done(client, requests):
    """Submit requests, poll to the end, and return the results."""
    batch_id = await client.submit(requests, NAME)
    while not (await client.state(batch_id)).ended:
        pass
    return (await client.results(batch_id, NAME, requests)).by_call


@pytest.mark.parametrize("count", [1, FULL(1500)])
def test_every_request_comes_back_under_its_own_id(provider, count, requests):
    asked = requests(count)
    with StubServer(answer=lambda body: "Two words.", batch_polls=2) as server:
        results = in_client(provider, server, lambda client: done(client, asked))
    assert results.keys() == asked.keys()
    assert (server.count, len(server.batches)) == (0, 1)
    assert (server.input_tokens, server.output_tokens) == (8 * count, 2 * count)
    # One upload and one batch, or one batch; two polls; the results of one file, of a batch shown once more.
    assert server.batch_requests == (6 if provider == "openai" else 4)


def test_text_with_every_kind_of_line_break_and_a_nul_goes_and_comes_unharmed(provider, requests):
    asked = requests(2, AWKWARD)
    with StubServer(answer=lambda body: body["messages"][-1]["content"]) as server:

        async def work(client):
            results = await done(client, asked)
            size = sum(client.size(name, request) for name, request in asked.items())
            return size, [client.reply(request, results[name]) for name, request in asked.items()]

        size, replies = in_client(provider, server, work)
        if provider == "openai":  # the size is what the provider gets
            assert size == len(server._batches.files["file-0"])
    assert [(reply.text, reply.finish_reason) for reply in replies] == [(AWKWARD, "stop")] * 2


def test_each_line_says_for_itself_what_became_of_it(provider, requests):
    asked = requests(4)
    good, bad, late, gone = asked
    faults = {bad: "error", late: "expired", gone: "missing"}
    faults = {name[:length]: fault for name, fault in faults.items() for length in (37, 64)}
    with StubServer(batch_fault=lambda custom_id: faults.get(custom_id.split("-")[-1])) as server:
        results = in_client(provider, server, lambda client: done(client, asked))
    assert results.keys() == {good, bad, late}
    assert not isinstance(results[good], ModelError)
    assert (results[bad].reason, results[bad].retryable) == ("bad_request", False)
    assert results[late].reason == "batch_expired"
    assert server.output_tokens == 3  # one answered line


@pytest.mark.parametrize("polls", [1, 2])
def test_a_batch_is_found_again_by_what_its_provider_shows_of_it(provider, polls, requests):
    """With batches around it of the same size, on several pages, running or ended; Anthropic shows it at its end."""
    asked, others = requests(3), requests(6)
    others = {name: others[name] for name in list(others)[3:]}
    with StubServer(batch_page=1, batch_polls=polls) as server:

        async def work(client):
            wanted = await client.submit(asked, NAME)
            foreign = [await client.submit(others, "other") for _ in range(3)]
            for batch_id in [wanted, *foreign]:
                await client.state(batch_id)
            server.batch_polls = 10 * polls
            before = await client.find(NAME, asked.keys(), foreign)
            server.batch_polls = 1
            return wanted, before, await client.find(NAME, asked.keys())

        wanted, before, after = in_client(provider, server, work)
    assert before == ((None, True) if provider == "anthropic" and polls == 2 else (wanted, False))
    assert after == (wanted, False)


@pytest.mark.parametrize(
    ("fault", "reason", "retryable"),
    [
        (Fault(status=429, retry_after="3"), "rate_limited", True),
        (Fault("html"), "malformed_body", True),
        FULL(Fault(status=500), "server_error", True),
        FULL(Fault(status=400), "bad_request", False),
        FULL(Fault("drop"), "connection", True),
        FULL(Fault("cut"), "connection", True),
        FULL(Fault("half"), "malformed_body", True),
    ],
)
@pytest.mark.parametrize("step", ["submit", "state", "results", "find"])
def test_what_goes_wrong_is_told_as_for_single_calls(provider, step, fault, reason, retryable, requests):
    asked = requests(1)
    with StubServer() as server:

        async def work(client):
            batch_id = await ended(client, asked)
            server.batch_http_fault = lambda method, path: fault
            return await {
                "submit": lambda: client.submit(asked, NAME),
                "state": lambda: client.state(batch_id),
                "results": lambda: client.results(batch_id, NAME, asked),
                "find": lambda: client.find(NAME, asked.keys()),
            }[step]()

        if (provider, step, reason) == ("anthropic", "results", "malformed_body"):
            # A batch has other results, which may be whole.
            assert "broke off" in in_client(provider, server, work).faults[0]
            return
        error = failed(in_client, provider, server, work)
    assert (error.reason, error.retryable) == (reason, retryable)
    assert error.retry_after == (3.0 if reason == "rate_limited" else None)


@pytest.mark.parametrize(
    "fault",
    [Fault("half"), *(FULL(Fault(kind)) for kind in ("cut", "html", "drop"))],
)
def test_results_that_break_off_are_no_results(provider, fault, requests):
    """Half a file must not pass for a file in which half of the requests are missing."""
    asked = requests(2)
    with StubServer() as server:

        async def work(client):
            batch_id = await ended(client, asked)
            server.batch_http_fault = lambda method, path: (
                fault if path.endswith(("/content", "/results")) else None
            )
            try:
                message = " ".join((await client.results(batch_id, NAME, asked)).faults)
            except ModelError as error:
                message = str(error)
            server.batch_http_fault = lambda method, path: None
            return message, await client.results(batch_id, NAME, asked)

        message, results = in_client(provider, server, work)
    assert "connection failed or broke off" in message or "broke off, or is not JSON Lines" in message
    assert (results.by_call.keys(), results.faults) == (asked.keys(), [])


def test_an_unreadable_line_costs_no_other_line(provider, requests, monkeypatch):
    asked = requests(3)
    with StubServer() as server:

        async def work(client):
            batch_id = await ended(client, asked)
            lines = stub_batches._jsonl
            monkeypatch.setattr(stub_batches, "_jsonl", lambda known: b"\xff{\n[1]\n\n{}\n" + lines(known))
            return await client.results(batch_id, NAME, asked)

        results = in_client(provider, server, work)
    assert results.by_call.keys() == asked.keys()
    assert results.faults == ["3 lines of its results cannot be read"]


@pytest.mark.parametrize("body", cases(__file__)["no_batch"])
def test_json_that_is_no_batch_is_a_malformed_body(provider, body, requests, monkeypatch):
    async def answer(request):
        return web.json_response(body)

    monkeypatch.setattr("stub_batches.StubBatches._counted", lambda self, handler: answer)
    asked = requests(1)
    with StubServer() as server:
        for step in (
            lambda client: client.submit(asked, NAME),
            lambda client: client.state("b"),
            lambda client: client.find(NAME, asked.keys()),
        ):
            assert failed(in_client, provider, server, step).reason == "malformed_body"


def test_the_key_goes_to_the_models_own_server_only_and_into_no_error(provider, requests):
    """Anthropic's batches name another address for their results; OpenAI's refusals repeat what was sent."""
    asked = requests(1)
    with StubServer(batch_refusal=f"no such thing: Bearer {KEY}") as server:

        async def work(client):
            batch_id = await client.submit(asked, NAME)
            state = await client.state(batch_id)
            await client.results(batch_id, NAME, asked)
            server.batch_http_fault = lambda method, path: Fault(
                status=400, body={"error": {"message": f"key {KEY}"}}
            )
            with pytest.raises(ModelError) as caught:
                await client.state(batch_id)
            return str(state.failure), str(caught.value)

        said = in_client(provider, server, work)
    assert KEY not in " ".join(said)
    assert "the request was refused (HTTP 400): key [key]" in said[1]
    if provider == "openai":
        assert said[0].endswith("no such thing: Bearer [key]")


@pytest.mark.parametrize("name", ["scripted", "smollm2-135m", "llama-3-3-70b-versatile"])
def test_other_providers_have_no_batch_endpoint(name):
    assert open_batch_client(model_spec(name), env={}) is None


def test_a_batch_asks_what_a_single_call_asks(provider, requests):
    """Schema, log-probabilities and marks of cached prefixes too: one body, made in one place."""
    asked = requests(1)
    name, request = next(iter(asked.items()))
    first, *others = request.messages
    schema = '{"type": "object", "properties": {"score": {"type": "integer", "enum": [0, 1]}}}'
    request = replace(
        request, messages=(replace(first, cached=True), *others), response_schema=schema, top_logprobs=5
    )
    with StubServer() as server:
        spec = replace(spec_for(provider, server, api_key_env="K"), structured=True)

        async def both():
            single, batches = open_model(spec, env={"K": KEY}), open_batch_client(spec, env={"K": KEY})
            try:
                await single.ask(request)
                await batches.submit({name: request}, NAME)
            finally:
                await single.close()
                await batches.close()

        asyncio.run(both())
        assert list(server.batches[0].requests.values()) == [server.seen[0].body]
    sent = json.dumps(server.seen[0].body)
    assert "json_schema" in sent
    assert ("cache_control" if provider == "anthropic" else "top_logprobs") in sent
