"""Batches of a provider fill the ledger: each is on record before it is submitted, and paid for once."""

import asyncio
import threading
from dataclasses import replace

import pytest
from stub_server import Fault, StubServer, spec_for

from toolkit.errors import StoreError
from toolkit.models.base import Message, ModelRequest
from toolkit.models.catalogue import toml_table
from toolkit.models.prices import Price
from toolkit.models.registry import open_batch_client, open_model
from toolkit.runs import provider_batch
from toolkit.runs.gateway import Endpoint, Gateway
from toolkit.runs.ledger import Ledger
from toolkit.runs.limits import RetryPolicy
from toolkit.runs.provider_batch import Batches

ENV = {"K": "sk-canary-0123456789"}
PRICE = Price(1.0, 2.0, 1.5, "test", "test")
NAME = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture(params=["anthropic", pytest.param("openai", marks=pytest.mark.full)])
def provider(request):
    return str(request.param)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(provider_batch, "RETRY", RetryPolicy(attempts=3, first_wait=0.0, longest_wait=0.0))
    with StubServer() as running:
        yield running


@pytest.fixture
def spec(provider, server):
    return spec_for(provider, server, api_key_env="K")


def requests_for(spec, count, text="Which port?"):
    question = ModelRequest(
        spec.provider, spec.model, (Message("user", text),), 0.0, 9, endpoint=spec.endpoint
    )
    return [replace(question, repeat=number) for number in range(count)]


def asked(store, spec, requests, **settings):
    """Fill the ledger from batches, then ask as the pipeline does; return the texts, or why there are none."""

    async def main():
        stop = threading.Event()
        endpoint = Endpoint(spec, PRICE, lambda: open_model(spec, env=ENV), concurrency=4, batch=True)
        gateway = Gateway(Ledger(store, "s"), [endpoint], concurrency=4, stop=stop, **settings)
        batches = Batches(
            gateway, lambda spec: open_batch_client(spec, env=ENV), poll_seconds=0.02, stop=stop, shown=False
        )
        try:
            gateway.open()
            await batches.fill(requests, "run")
            answers = (gateway.ask(request, purpose="run") for request in requests)
            ends = await asyncio.gather(*answers, return_exceptions=True)
        finally:
            await gateway.close()
            await batches.close()
        return [
            str(getattr(end, "reason", end)) if isinstance(end, Exception) else end.reply.text for end in ends
        ]

    return asyncio.run(main())


def states(store):
    return sorted(batch["state"] for batch in store.database["batches"].find())


def sent(server, store):
    """Return how many batches and how many single requests came, and what the batches are on record as."""
    return len(server.batches), server.count, states(store)


def left_by_a_killed_process(store, requests):
    """Leave the document of a process that died between the submission and the provider's id."""
    document = {"_id": NAME, "state": "submitting", "study": "s", "worst_aud": 0.5, "created": 1.0}
    key = {name: getattr(requests[0], name) for name in ("provider", "model", "endpoint")}
    call_ids = [request.identity() for request in requests]
    store.database["batches"].insert_one({**document, **key, "call_ids": call_ids})


def submit(spec, requests, name):
    async def main():
        client = open_batch_client(spec, env=ENV)
        assert client is not None
        await client.submit({request.identity(): request for request in requests}, name)
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["largest_bytes", "largest"])
def test_a_full_batch_is_followed_by_another(store, server, monkeypatch, limit):
    """Neither the number of requests nor the bytes of a batch pass what the provider takes."""
    spec = spec_for("openai", server, api_key_env="K")
    client = open_batch_client(spec, env=ENV)
    assert client is not None
    size = client.size("0" * 64, requests_for(spec, 1)[0])
    most = {"largest": 4, "largest_bytes": 4 * size + size // 2}[limit]
    monkeypatch.setitem(toml_table("catalogue")["endpoints"]["openai"], limit, most)
    assert asked(store, spec, requests_for(spec, 10)) == ["A stub's reply."] * 10
    assert sorted(len(batch.requests) for batch in server.batches) == [2, 4, 4]
    assert (states(store), server.count) == (["ended"] * 3, 0)


def test_a_batch_that_its_budget_does_not_hold_is_smaller(store, server):
    """Then the next one, and what does not fit at all meets the budget singly."""
    spec = spec_for("openai", server, api_key_env="K")
    requests = requests_for(spec, 8)
    assert asked(store, spec, requests, budget_aud=1.0) == ["A stub's reply."] * 8
    worst = store.database["batches"].find_one({})["call_ids"]
    assert (len(worst), len(server.batches)) == (8, 1)
    more = requests_for(spec, 8, "And then?")
    spent = sum(call["aud_cost"] for call in store.database["calls"].find())
    ends = asked(store, spec, more, budget_aud=spent + 0.0001)
    assert 0 < ends.count("A stub's reply.") < 8
    booked = store.database["calls"].aggregate([{"$group": {"_id": None, "aud": {"$sum": "$aud_cost"}}}])
    assert next(iter(booked))["aud"] <= spent + 0.0001
    assert max(len(batch.requests) for batch in server.batches[1:]) < 8


def test_a_batch_whose_id_was_never_noted_is_found_at_the_provider(spec, store, server):
    """The process died between the two: what it paid for is not paid for again; another's batch is not ours."""
    requests = requests_for(spec, 3)
    submit(spec, requests, NAME)
    submit(spec, requests_for(spec, 3, "Somebody else's?"), "01BRZ3NDEKTSV4RRFFQ69G5FAV")
    left_by_a_killed_process(store, requests)
    assert asked(store, spec, requests) == ["A stub's reply."] * 3
    assert sent(server, store) == (2, 0, ["ended"])


def test_a_batch_that_never_reached_the_provider_is_asked_singly(spec, store, server):
    """Also when only some of its calls, and others beside them, are asked for now."""
    requests = requests_for(spec, 4)
    left_by_a_killed_process(store, requests[:3])
    assert asked(store, spec, requests[1:]) == ["A stub's reply."] * 3
    in_batches = [sum(batch.holds(request.identity()) for batch in server.batches) for request in requests]
    assert (in_batches, server.count) == ([0, 0, 0, 1], 2)


@pytest.mark.parametrize(
    "fault", [Fault(status=503), *(Fault(kind) for kind in ("drop", "half", "html", "cut"))]
)
def test_polling_goes_on_through_errors(spec, fault, store, server):
    """A provider that cannot be asked for a while has the batch all the same."""
    seen = {"state": 0, "results": 0}

    def faulty(method, path):
        if method != "GET":
            return None
        step = "results" if path.endswith(("/content", "/results")) else "state"
        seen[step] += 1
        return fault if seen[step] <= 2 else None

    server.batch_polls, server.batch_http_fault = 2, faulty
    assert asked(store, spec, requests_for(spec, 3)) == ["A stub's reply."] * 3
    assert sent(server, store) == (1, 0, ["ended"])


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("half"), Fault(status=503), Fault(status=429)])
def test_a_submission_whose_reply_is_lost_is_not_sent_twice(spec, fault, store, server):
    """Before it is tried again the provider is asked whether it arrived."""
    failed = []

    def faulty(method, path):
        if method == "POST" and path.endswith("/batches") and not failed:
            failed.append(path)
            return fault
        return None

    server.batch_http_fault = faulty
    assert asked(store, spec, requests_for(spec, 3)) == ["A stub's reply."] * 3
    assert (len(failed), *sent(server, store)) == (1, 1, 0, ["ended"])


def test_a_submission_that_may_have_arrived_is_never_called_a_failure(spec, store, server):
    """The line is cut after it arrived; the calls are neither asked singly nor submitted again, and come later."""
    requests = requests_for(spec, 3)

    def faulty(method, path):
        return Fault("drop") if server.batches or path.endswith("/batches") else None

    server.batch_http_fault = faulty
    assert asked(store, spec, requests) == ["batch_unknown"] * 3
    assert sent(server, store) == (1, 0, ["submitting"])
    server.batch_http_fault = lambda method, path: None
    assert asked(store, spec, requests) == ["A stub's reply."] * 3
    assert sent(server, store) == (1, 0, ["ended"])


def test_a_store_that_takes_no_batch_is_told_before_anything_is_submitted(store, server, monkeypatch):
    """What is not written down first could be paid for and lost."""

    async def refuse(*_, **__):
        raise StoreError("batches: the store did not take a write")

    monkeypatch.setattr(store.writer, "write", refuse)
    spec = spec_for("openai", server, api_key_env="K")
    with pytest.raises(StoreError, match="did not take a write"):
        asked(store, spec, requests_for(spec, 1))
    assert (server.batch_requests, states(store)) == (0, [])
