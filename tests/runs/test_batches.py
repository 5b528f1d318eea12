"""What is asked becomes batches, each is paid for once, and none is lost with the process that submitted it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import stub_batches
from aiohttp import web
from pymongo import InsertOne
from stub_server import Fault, StubServer

from toolkit.errors import ModelError, StoreError
from toolkit.models.base import Message, ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec, model_spec
from toolkit.models.registry import open_batch_client
from toolkit.runs.batches import STILL_OPEN, BatchDesk
from toolkit.runs.limits import RetryPolicy
from toolkit.store.connection import Store

KEY = "sk-canary-0123456789"
QUICK = RetryPolicy(attempts=3, first_wait=0.0, longest_wait=0.0)
Asked = ModelReply | ModelError


@pytest.fixture(params=["anthropic", pytest.param("openai", marks=pytest.mark.full)])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as running:
        yield running


def spec_for(provider: str, server: StubServer, name: str = "m") -> ModelSpec:
    url = server.url if provider == "anthropic" else server.openai_url
    return model_spec(name, provider=provider, base_url=url, api_key_env="K")


def requests_for(
    spec: ModelSpec, count: int, text: str = "Which port?", first: int = 0
) -> list[ModelRequest]:
    messages = (Message("user", text),)
    return [
        ModelRequest(spec.provider, spec.model, messages, max_tokens=9, endpoint=spec.endpoint, repeat=n)
        for n in range(first, first + count)
    ]


def at_desk(store: Store, work: Callable[[BatchDesk], Awaitable[Any]], **settings: Any) -> Any:
    """Open a desk as a process of its own would, do the work, and close it."""

    async def main() -> Any:
        quick = {"quiet_seconds": 0.05, "poll_seconds": 0.02, "retry": QUICK, **settings}
        desk = BatchDesk(store, "s", lambda spec: open_batch_client(spec, env={"K": KEY}), **quick)
        await desk.open()
        try:
            return await asyncio.wait_for(work(desk), 120)
        finally:
            await desk.close()

    return asyncio.run(main())


async def ask(
    desk: BatchDesk, requests: list[ModelRequest], spec: ModelSpec, keep: bool = True
) -> list[Asked]:
    """Ask all at once, as the gateway does, and return the replies and the failures."""

    async def one(request: ModelRequest) -> Asked:
        try:
            reply = await desk.ask(request, spec)
        except ModelError as error:
            return error
        if keep:
            await desk.kept(request.identity())
        return reply

    return await asyncio.gather(*map(one, requests))


def states(store: Store) -> list[str]:
    return sorted(batch["state"] for batch in store.database["batches"].find())


def texts(asked: list[Asked]) -> list[str]:
    return [reply.text if isinstance(reply, ModelReply) else reply.reason for reply in asked]


@pytest.mark.parametrize("limit", ["largest_bytes", pytest.param("largest", marks=pytest.mark.full)])
def test_a_full_batch_is_followed_by_another(
    limit: str, store: Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the number of requests nor the bytes of a batch pass what the provider takes."""
    spec = spec_for("openai", server)
    client = open_batch_client(spec, env={"K": KEY})
    assert client is not None
    size = client.size("0" * 64, requests_for(spec, 1)[0])
    most = {"largest": 4, "largest_bytes": 4 * size + size // 2}[limit]
    monkeypatch.setattr(f"toolkit.models.batches.OpenAIBatches.{limit}", most)
    replies = at_desk(store, lambda desk: ask(desk, requests_for(spec, 10), spec))
    assert {type(reply) for reply in replies} == {ModelReply}
    assert sorted(len(batch.requests) for batch in server.batches) == [2, 4, 4]
    assert states(store) == ["ended"] * 3


def test_a_batch_that_is_refused_as_a_whole_says_why(store: Store, server: StubServer) -> None:
    """OpenAI checks the file after it took the batch."""
    server.batch_refusal = f"Enqueued token limit reached for {KEY}"
    spec = spec_for("openai", server)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == ["batch_failed"] * 3
    assert "Enqueued token limit reached for [key]" in str(got[0])
    assert len({id(error) for error in got}) == 3
    assert states(store) == ["ended"]


def test_a_reply_nobody_can_read_is_told_as_such_and_ends_its_batch(store: Store, server: StubServer) -> None:
    """There is nothing in it that could be kept, so it holds up nothing."""
    server.change = lambda reply: {"choices": []}
    spec = spec_for("openai", server)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 2), spec))
    assert texts(got) == ["malformed_body"] * 2
    assert states(store) == ["ended"]


# --- restarts -------------------------------------------------------------------------------------------------


def stop_when(stop: threading.Event, condition: Callable[[], bool]) -> None:
    """Set an event from a thread of its own as soon as something holds."""

    def wait() -> None:
        while not condition():
            time.sleep(0.005)
        stop.set()

    threading.Thread(target=wait, daemon=True).start()


def submit_and_stop(
    store: Store, server: StubServer, spec: ModelSpec, requests: list[ModelRequest], **settings: Any
) -> list[Asked]:
    """Be the process that submits a batch and is stopped while it waits for it."""
    stop = threading.Event()
    before = len(server.batches)
    stop_when(stop, lambda: len(server.batches) > before and server.batches[-1].polls > 0)
    polls, server.batch_polls = server.batch_polls, 10**9
    try:
        return at_desk(store, lambda desk: ask(desk, requests, spec), stop=stop, **settings)
    finally:
        server.batch_polls = polls


def test_stopping_ends_every_ask_and_the_next_run_gets_the_replies(
    provider: str, store: Store, server: StubServer
) -> None:
    """Nothing is cancelled at the provider and nothing is submitted twice."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 3)
    stopped = submit_and_stop(store, server, spec, requests)
    assert texts(stopped) == ["stopped"] * 3
    assert all(error.retryable for error in stopped)
    assert states(store) == ["submitted"]

    async def work(desk: BatchDesk) -> Any:
        assert all(desk.holds(request.identity()) for request in requests)
        assert not desk.holds("0" * 64)
        replies = await ask(desk, requests, spec)
        assert not any(desk.holds(request.identity()) for request in requests)
        return replies

    assert texts(at_desk(store, work)) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


def test_a_desk_that_was_stopped_before_submits_nothing(
    store: Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is asked afterwards nor what was gathered before, though the asks hear of it later."""
    monkeypatch.setattr("toolkit.runs.batches.STOP_LOOK_SECONDS", 0.5)
    spec = spec_for("openai", server)
    stop = threading.Event()

    async def work(desk: BatchDesk) -> Any:
        asking = asyncio.create_task(ask(desk, requests_for(spec, 1), spec))
        await asyncio.sleep(0.05)
        stop.set()
        return await asking + await ask(desk, requests_for(spec, 1), spec)

    assert texts(at_desk(store, work, stop=stop, quiet_seconds=0.2)) == ["stopped", "stopped"]
    assert (server.batch_requests, states(store)) == (0, [])


def kill_after_submitting(store: Store, requests: list[ModelRequest], created: float | None = None) -> None:
    """Leave the document of a process that died between the submission and the provider's id."""
    store.database["batches"].insert_one(
        {
            "_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "state": "submitting",
            "study": "s",
            "provider": requests[0].provider,
            "model": requests[0].model,
            "endpoint": requests[0].endpoint,
            "call_ids": [request.identity() for request in requests],
            "created": created or time.time(),
        }
    )


def submit_directly(server: StubServer, spec: ModelSpec, requests: list[ModelRequest], name: str) -> str:
    async def main() -> str:
        client = open_batch_client(spec, env={"K": KEY})
        assert client is not None
        try:
            return await client.submit({request.identity(): request for request in requests}, name)
        finally:
            await client.close()

    return asyncio.run(main())


def test_a_batch_whose_id_was_never_noted_is_found_at_the_provider(
    provider: str, store: Store, server: StubServer
) -> None:
    """The process died between the two: what it paid for is not paid for again."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 3)
    submit_directly(server, spec, requests, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    kill_after_submitting(store, requests)
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


def test_a_batch_that_never_reached_the_provider_is_submitted_anew(
    provider: str, store: Store, server: StubServer
) -> None:
    """Also when only some of its calls, and others beside them, are asked for now."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 4)
    kill_after_submitting(store, requests[:3])
    assert texts(at_desk(store, lambda desk: ask(desk, requests[1:], spec))) == ["A stub's reply."] * 3
    times = [sum(batch.holds(request.identity()) for batch in server.batches) for request in requests]
    assert times == [0, 1, 1, 1]
    assert states(store)[-1] == "lost"


def test_another_batch_of_the_same_size_is_not_taken_for_ours(store: Store, server: StubServer) -> None:
    """Anthropic shows what is in a batch only at its end; then ours is looked for again."""
    spec = spec_for("anthropic", server)
    requests = requests_for(spec, 3)
    server.batch_polls = 2
    submit_directly(server, spec, requests, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    submit_directly(server, spec, requests_for(spec, 3, "Somebody else's?"), "another study's")
    kill_after_submitting(store, requests)
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 3
    assert len(server.batches) == 2


def test_replies_that_were_not_kept_are_there_for_the_next_process(
    provider: str, store: Store, server: StubServer
) -> None:
    """It died with the results in its hands; the ledger has one of the three."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 3)
    at_desk(store, lambda desk: ask(desk, requests, spec, keep=False))
    assert states(store) == ["submitted"]
    for request, state in zip(requests, ("done", "claimed", "failed"), strict=True):
        store.writer.submit("calls", InsertOne({"_id": request.identity(), "state": state})).result()
    assert texts(at_desk(store, lambda desk: ask(desk, requests[1:], spec))) == ["A stub's reply."] * 2
    assert (len(server.batches), states(store)) == (1, ["ended"])


def test_a_batch_whose_last_reply_was_kept_is_ended_by_the_next_process(
    store: Store, server: StubServer
) -> None:
    """It died after the ledger had the last reply; nobody will ever ask for one of these calls again."""
    spec = spec_for("openai", server)
    requests = requests_for(spec, 2)
    at_desk(store, lambda desk: ask(desk, requests, spec, keep=False))
    for request in requests:
        store.writer.submit("calls", InsertOne({"_id": request.identity(), "state": "done"})).result()

    async def work(desk: BatchDesk) -> bool:
        return desk.holds(requests[0].identity())

    assert at_desk(store, work) is False
    assert states(store) == ["ended"]


def test_results_of_calls_that_are_asked_later_wait_in_memory(store: Store, server: StubServer) -> None:
    """The batch is read once and stays open until all its replies are kept."""
    spec = spec_for("openai", server)
    requests = requests_for(spec, 2)
    submit_and_stop(store, server, spec, requests)

    async def work(desk: BatchDesk) -> Any:
        first = await ask(desk, requests[:1], spec)
        assert states(store) == ["submitted"]
        read = server.batch_requests
        second = await ask(desk, requests[1:], spec)
        return first + second, server.batch_requests - read

    replies, more = at_desk(store, work)
    assert texts(replies) == ["A stub's reply."] * 2
    assert (more, states(store)) == (0, ["ended"])


def test_a_batch_that_another_process_left_after_we_opened_is_found_before_we_submit(
    store: Store, server: StubServer
) -> None:
    """Its calls are ours now, and they are at the provider already."""
    spec = spec_for("openai", server)
    requests = requests_for(spec, 3)

    async def work(desk: BatchDesk) -> Any:
        await asyncio.to_thread(submit_and_stop, store, server, spec, requests[:2])
        assert not desk.holds(requests[0].identity())
        return await ask(desk, requests, spec)

    assert texts(at_desk(store, work)) == ["A stub's reply."] * 3
    assert [len(batch.requests) for batch in server.batches] == [2, 1]


def test_two_processes_with_calls_of_their_own_do_not_touch_each_others_batches(
    store: Store, server: StubServer
) -> None:
    """The second sees the first one's batch while it is being submitted, and leaves it alone."""
    spec = spec_for("openai", server)
    kill_after_submitting(store, requests_for(spec, 2))  # alive: nobody else asks for its calls
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 2, first=5), spec))
    assert texts(got) == ["A stub's reply."] * 2
    assert states(store) == ["ended", "submitting"]


def test_a_cancelled_ask_is_not_submitted(store: Store, server: StubServer) -> None:
    """Its claim is given back, so it must not be on its way all the same."""
    spec = spec_for("openai", server)

    async def work(desk: BatchDesk) -> Any:
        asking = [asyncio.create_task(ask(desk, [request], spec)) for request in requests_for(spec, 3)]
        await asyncio.sleep(0.01)
        asking[1].cancel()
        return [await asking[0], await asking[2]]

    at_desk(store, work)
    assert [len(batch.requests) for batch in server.batches] == [2]


# --- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [Fault(status=503), Fault("drop"), Fault("half"), Fault("html"), Fault("cut")]
)
def test_polling_goes_on_through_errors(
    provider: str, fault: Fault, store: Store, server: StubServer
) -> None:
    """A provider that cannot be asked for a while has the batch all the same."""
    spec = spec_for(provider, server)
    server.batch_polls = 2
    seen = {"state": 0, "results": 0}

    def faulty(method: str, path: str) -> Fault | None:
        if method != "GET":
            return None
        step = "results" if path.endswith(("/content", "/results")) else "state"
        seen[step] += 1
        return fault if seen[step] <= 2 else None

    server.batch_http_fault = faulty
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("half"), Fault(status=503), Fault(status=429)])
def test_a_submission_whose_reply_is_lost_is_not_sent_twice(
    provider: str, fault: Fault, store: Store, server: StubServer
) -> None:
    """Before it is tried again the provider is asked whether it arrived."""
    spec = spec_for(provider, server)
    failed: list[str] = []

    def faulty(method: str, path: str) -> Fault | None:
        if method == "POST" and path.endswith("/batches") and not failed:
            failed.append(path)
            return fault
        return None

    server.batch_http_fault = faulty
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == ["A stub's reply."] * 3
    assert (len(failed), len(server.batches), states(store)) == (1, 1, ["ended"])


def test_a_submission_that_may_have_arrived_is_never_called_a_failure(
    provider: str, store: Store, server: StubServer
) -> None:
    """The line is cut after it arrived; the calls are neither asked singly nor submitted again, and come later."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 3)

    def faulty(method: str, path: str) -> Fault | None:
        return Fault("drop") if server.batches or path.endswith("/batches") else None

    server.batch_http_fault = faulty
    got = at_desk(store, lambda desk: ask(desk, requests, spec))
    assert texts(got) == ["batch_unknown"] * 3
    assert set(texts(got)) <= set(STILL_OPEN)
    assert (len(server.batches), states(store)) == (1, ["submitting"])
    server.batch_http_fault = lambda method, path: None
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


@pytest.mark.parametrize(
    ("status", "reason", "requests_seen", "retry_after"),
    [
        (401, "wrong_key", 1, None),
        (400, "bad_request", 1, None),
        (429, "rate_limited", 5, None),
        (429, "rate_limited", 1, "86400"),
    ],
)
def test_a_submission_that_is_refused_fails_every_ask(
    status: int,
    reason: str,
    requests_seen: int,
    retry_after: str | None,
    provider: str,
    store: Store,
    server: StubServer,
) -> None:
    """There is no batch, so there is nothing to look for later; a refusal for the rate is tried again first."""
    fault = Fault(status=status, retry_after=retry_after)
    server.batch_http_fault = lambda method, path: fault if method == "POST" else None
    spec = spec_for(provider, server)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == [reason] * 3
    assert states(store) == ["lost"]
    assert (len(server.batches), server.batch_requests) == (0, min(requests_seen, QUICK.attempts))


def test_a_wish_of_a_day_between_two_looks_is_bounded(
    provider: str, store: Store, server: StubServer
) -> None:
    """A batch may take a day, and is looked at again when a call would be."""
    faults = iter([Fault(status=429, retry_after="86400")])
    server.batch_http_fault = lambda method, path: next(faults, None) if method == "GET" else None
    spec, policy = spec_for(provider, server), RetryPolicy(deadline=0.05)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 2), spec), retry=policy)
    assert texts(got) == ["A stub's reply."] * 2


@pytest.mark.parametrize(("status", "reason"), [(401, "wrong_key"), (400, "batch_unknown")])
def test_a_batch_that_may_not_be_asked_for_stays_open(
    status: int, reason: str, provider: str, store: Store, server: StubServer
) -> None:
    """Another key, or another day, may still bring its replies."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 2)
    server.batch_http_fault = lambda method, path: Fault(status=status) if method == "GET" else None
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == [reason] * 2
    assert states(store) == ["submitted"]
    server.batch_http_fault = lambda method, path: None
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 2


def lines_of(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


def body_of(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def unreadable(body: bytes) -> bytes:
    """Return results whose first answer has neither choices nor content."""
    return body.replace(b'"choices"', b'"chosen"', 1).replace(b'"content": [', b'"contents": [', 1)


ODD_BODIES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda body: b"",
    "blank": lambda body: b"\n \n",
    "half": lambda body: b"\n".join(body.splitlines()[:3]) + b"\n",
    "second half": lambda body: b"\n".join(body.splitlines()[3:]) + b"\n",
    "broken line": lambda body: b"{" + body,
    "broken end": lambda body: body[:-30],
    "all broken": lambda body: b"<html>Sign in to the airport</html>",
    "unreadable": unreadable,
    "no answer": lambda body: body_of([{"custom_id": line["custom_id"]} for line in lines_of(body)]),
    "odd ids": lambda body: body_of([{**line, "custom_id": [7]} for line in lines_of(body)]),
    "foreign": lambda body: body_of(
        [{**line, "custom_id": "x" + line["custom_id"][1:]} for line in lines_of(body)]
    ),
}
ODD_VIEWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no file": lambda shown: {**shown, "output_file_id": None},
    "file that is no name": lambda shown: {**shown, "output_file_id": 7, "error_file_id": [1]},
    "no counts": lambda shown: {**shown, "output_file_id": None, "request_counts": None},
    "odd counts": lambda shown: {**shown, "output_file_id": None, "request_counts": [6]},
    "no batch": lambda shown: [],
    "no status": lambda shown: {**shown, "status": None, "processing_status": None},
}
ODD_PATHS = ("/batches/batch_0", "/content", "/results")
ODD = [*ODD_BODIES, *ODD_VIEWS, *ODD_PATHS]
QUICK_ODD = ("empty", "half", "broken line", "no file", "/batches/batch_0", "/content", "/results")


def make_odd(server: StubServer, odd: str, times: int) -> None:
    """Have a batch, or its results, look odd so many times."""
    left = [times]

    def now() -> bool:
        left[0] -= 1
        return left[0] >= 0

    if odd in ODD_BODIES:
        server.batch_body = lambda body: ODD_BODIES[odd](body) if now() else body
    elif odd in ODD_VIEWS:
        server.batch_view = lambda shown: ODD_VIEWS[odd](shown) if now() else shown
    else:
        server.batch_http_fault = lambda method, path: (
            Fault(status=404) if method == "GET" and path.endswith(odd) and now() else None
        )


@pytest.mark.parametrize(
    "odd", [odd if odd in QUICK_ODD else pytest.param(odd, marks=pytest.mark.full) for odd in ODD]
)
def test_a_paid_batch_outlives_what_is_odd_for_a_while(
    provider: str, odd: str, store: Store, server: StubServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """The provider counts six answers: whatever it shows twice, it is looked at again, and all of them come."""
    make_odd(server, odd, 2)
    spec = spec_for(provider, server)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 6), spec))
    assert texts(got) == ["A stub's reply."] * 6
    assert (len(server.batches), states(store)) == (1, ["ended"])
    assert capfd.readouterr().err.count("looked at again") <= 1


@pytest.mark.parametrize("first", ["success", "error"])
def test_of_two_lines_of_one_call_the_reply_counts(
    first: str, provider: str, store: Store, server: StubServer
) -> None:
    """It was answered, and paid for."""
    spec = spec_for(provider, server)

    def twice(body: bytes) -> bytes:
        errors: list[Any] = [{**line, "response": None, "error": {"code": "x"}} for line in lines_of(body)]
        if provider == "anthropic":
            errors = [{**line, "result": {"type": "errored", "error": None}} for line in lines_of(body)]
        lines = lines_of(body)
        return body_of([*lines, *errors] if first == "success" else [*errors, *lines])

    server.batch_body = twice
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([{"message": "too many tokens"}], "too many tokens"),
        ({"data": [None]}, ""),
        ({"data": [None, {"message": "too many tokens"}]}, "too many tokens"),
        ({"data": None}, ""),
        ({"data": "too many tokens"}, "too many tokens"),
        ("too many tokens", "too many tokens"),
        ([], ""),
        (None, ""),
        (7, ""),
        ({"data": [{"message": ["too", "many"], "code": {}}]}, ""),
    ],
)
def test_errors_of_a_refused_batch_may_have_any_shape(
    errors: Any, message: str, store: Store, server: StubServer
) -> None:
    """None is an exception: the calls are told that the batch was refused, and why where it says so."""
    server.batch_refusal = "no"
    server.batch_view = lambda shown: {**shown, "errors": errors}
    spec = spec_for("openai", server)
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 2), spec))
    assert texts(got) == ["batch_failed"] * 2
    assert "the batch was refused" in str(got[0])
    assert message in str(got[0])


@pytest.mark.parametrize(
    "data", [[None], *(pytest.param(data, marks=pytest.mark.full) for data in ("x", {}, [{"id": 7}], [[]]))]
)
def test_a_list_of_batches_that_cannot_be_read_leaves_the_batch_open(
    data: Any, provider: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it arrived is not known: it is neither submitted again nor asked for for ever."""
    monkeypatch.setattr("stub_batches.StubBatches._list", odd_list(data))
    with StubServer() as server:
        spec = spec_for(provider, server)
        requests = requests_for(spec, 2)
        kill_after_submitting(store, requests)
        assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["batch_unknown"] * 2
        assert (len(server.batches), states(store)) == (0, ["submitting"])


def odd_list(data: Any) -> Any:
    async def answer(*_: Any) -> web.StreamResponse:
        return web.json_response({"data": data, "has_more": False})

    return answer


def test_a_batch_is_found_by_its_name_whatever_the_clocks_say(
    provider: str, store: Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our clock is an hour ahead and the answer to the batch's creation is lost: it is not submitted again."""
    ahead = time.time
    monkeypatch.setattr("toolkit.runs.batches.time.time", lambda: ahead() + 3600)
    spec = spec_for(provider, server)
    lost: list[str] = []

    def faulty(method: str, path: str) -> Fault | None:
        if method == "POST" and path.endswith("/batches") and not lost:
            lost.append(path)
            return Fault("drop")
        return None

    server.batch_http_fault = faulty
    create = stub_batches.StubBatch
    monkeypatch.setattr(stub_batches, "StubBatch", lambda *given: create(*given, created=int(ahead()) - 3600))
    got = at_desk(store, lambda desk: ask(desk, requests_for(spec, 3), spec))
    assert texts(got) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


def test_a_batch_of_the_same_calls_in_another_store_is_not_ours(
    provider: str, store: Store, server: StubServer
) -> None:
    """It ended without an answer; ours, whose creation was not acknowledged, is behind it and has another name."""
    spec = spec_for(provider, server)
    requests = requests_for(spec, 2)
    submit_directly(server, spec, requests, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    server._batches._end(server.batches[0])
    server.batch_fault = lambda custom_id: "expired"
    submit_directly(server, spec, requests, "01BX5ZZKBKACTAV9WEVGEMMVRZ")
    server._batches._end(server.batches[1])
    kill_after_submitting(store, requests)
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 2
    assert len(server.batches) == 2


def test_a_batch_of_an_earlier_version_is_understood(store: Store, server: StubServer) -> None:
    """Its custom ids are whole identities, without a name."""
    spec = spec_for("anthropic", server)
    requests = requests_for(spec, 3)
    submit_directly(server, spec, requests, "x")
    (batch,) = server.batches
    batch.requests = {
        request.identity(): body for request, body in zip(requests, batch.requests.values(), strict=True)
    }
    kill_after_submitting(store, requests)
    assert texts(at_desk(store, lambda desk: ask(desk, requests, spec))) == ["A stub's reply."] * 3
    assert (len(server.batches), states(store)) == (1, ["ended"])


def test_a_store_that_takes_no_batch_is_told_before_anything_is_submitted(
    store: Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not written down first could be paid for and lost."""
    spec = spec_for("openai", server)

    async def refuse(*_: Any, **__: Any) -> None:
        raise StoreError("batches: the store did not take a write")

    monkeypatch.setattr(store.writer, "write", refuse)
    with pytest.raises(StoreError, match="did not take a write"):
        at_desk(store, lambda desk: ask(desk, requests_for(spec, 1), spec))
    assert (server.batch_requests, states(store)) == (0, [])
