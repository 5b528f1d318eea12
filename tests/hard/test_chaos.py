"""Thousands of runs against servers that refuse, hang, drop and break their replies: nothing is lost or doubled."""

import json
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial

import pytest
from processes import billed, unjudged_study
from stub_server import DrawnFaults, Fault, StubServer

from toolkit.runs import gateway
from toolkit.runs.limits import UNSURE, RetryPolicy
from toolkit.store.documents import Call, Run

ENDPOINTS = 4
REPEATS = 42
SHARES = {  # issue 3, "Chaos"
    (Fault(status=429), Fault(status=429, retry_after="0.05")): 0.15,
    (Fault(status=500), Fault(status=503), Fault(status=529)): 0.05,
    (Fault("hang"),): 0.02,
    (Fault("drop"),): 0.02,
    (Fault("half"), Fault("cut"), Fault("html"), Fault("wire")): 0.02,
}
REASONS = {
    None: "answered",
    "hang": "timeout",
    "drop": "connection",
    "cut": "connection",
    "wire": "connection",
    "half": "malformed_body",
    "html": "malformed_body",
    429: "rate_limited",
    500: "server_error",
    503: "server_error",
    529: "overloaded",
}


def reason_of(fault):
    """Return the word under which the ledger keeps an attempt that met a fault."""
    return REASONS[None if fault is None else fault.status if fault.kind == "status" else fault.kind]


def test_in_chaos_every_run_ends_and_the_ledger_knows_every_request(tmp_path, store_folder, monkeypatch):
    """Each run succeeds or says why not, the ledger agrees with the servers to the request and to the token."""
    # Few attempts, so that some runs do fail; short waits, because there are many of them.
    policy = partial(RetryPolicy, attempts=4, first_wait=0.05, longest_wait=0.2)
    monkeypatch.setattr(gateway, "RetryPolicy", policy)
    # Four endpoints and not one: under such refusals the window of one stands at 2.4 requests of its 50.
    faults = [DrawnFaults(20251117 + number, SHARES) for number in range(ENDPOINTS)]
    total = ENDPOINTS * 12 * REPEATS
    with ExitStack() as stack:
        servers = [stack.enter_context(StubServer(faults=one)) for one in faults]
        addresses = [server.openai_url for server in servers]
        study = unjudged_study(tmp_path, *addresses, repeats=REPEATS, concurrency=50, timeout_seconds=3.0)
        stack.enter_context(closing(study.store))  # also when it is red, or the next tests are too
        outcome = study.execute(progress=False)
        calls = list(study.store.objects(Call))
        runs = list(study.store.objects(Run))

        # Every run ended, none is missing, none is there twice.
        assert outcome.succeeded + outcome.failed == total
        assert 0 < outcome.failed < total / 20
        assert len(runs) == len({run.call_id for run in runs}) == len(calls) == total
        done = [call for call in calls if call.state == "done"]
        failed = [call for call in calls if call.state == "failed"]
        assert (len(done), len(failed)) == (outcome.succeeded, outcome.failed)
        last = {call.call_id: call.attempts[-1]["outcome"] for call in failed}
        assert {run.call_id: run.failure.split(":")[0] for run in runs if run.status == "failed"} == last
        assert {call.call_id: call.failure["reason"] for call in failed} == last

        # What the servers saw is what the ledger says, in sum and by what became of it; only a busy machine may take
        # what came for what did not come in time.
        met = Counter(reason_of(fault) for one in faults for fault in one.drawn.values())
        noted = Counter(attempt["outcome"] for call in calls for attempt in call.attempts)
        assert met.total() == sum(server.count for server in servers)
        unseen = noted.total() - met.total()  # given up before a server read them
        late = noted["timeout"] - met["timeout"]
        assert 0 <= unseen <= late <= total / 100
        assert (met - noted).total() == late - unseen
        assert set(noted) == set(met)

        # The money: each reply that came paid for once, what may have been billed is noted and nothing else.
        paid = 0.0
        for number, (one, server) in enumerate(zip(faults, servers, strict=True)):
            name = f"answerer-{number}" if number else "answerer"
            good = {f"chatcmpl-{place}": place for place, fault in one.drawn.items() if fault is None}
            kept = [good[json.loads(call.raw)["id"]] for call in done if call.model == name]
            assert len(kept) == len(set(kept)) > 0
            sent = sum(len(server.seen[place].body["messages"][0]["content"].split()) for place in kept)
            paid += billed(study, sent, len(kept) * len(server.answer({}).split()))
        assert len(done) == noted["answered"]
        assert sum(call.aud_cost or 0.0 for call in calls) == pytest.approx(paid)
        if not late:
            tokens = [
                sum(getattr(one, name) for one in servers) for name in ("input_tokens", "output_tokens")
            ]
            assert paid == pytest.approx(billed(study, *tokens))
        for call in calls:
            unsure = any(attempt["outcome"] in UNSURE for attempt in call.attempts)
            assert ((call.unsure_aud or 0.0) > 0) == unsure, call.attempts

        # And what failed is asked again, alone.
        for server in servers:
            server.faults = lambda number, body: None
        again = study.execute(progress=False)
        assert (again.succeeded, again.failed, again.new_calls) == (total, 0, outcome.failed)
        assert sum(server.count for server in servers) == met.total() + outcome.failed


def test_waiting_in_line_is_no_part_of_the_retry_deadline(server, tmp_path, store_folder, monkeypatch):
    """Twelve calls one after the other, each refused twice: the last ones wait longer than a call may be retried."""
    policy = partial(RetryPolicy, attempts=50, first_wait=0.01, longest_wait=0.02, deadline=2.0)
    monkeypatch.setattr(gateway, "RetryPolicy", policy)
    met = Counter()

    def twice(_, body):
        met[str(body["messages"])] += 1
        return Fault(status=503) if met[str(body["messages"])] <= 2 else None

    server.faults, server.latency = twice, 0.1
    study = unjudged_study(tmp_path, server.openai_url, concurrency=1)
    assert study.execute(progress=False).succeeded == 12
    assert server.count == 36
    # A provider that stays down is given up all the same, by the time that its own attempts took.
    server.faults = lambda number, body: Fault(status=503)
    study.store.database["runs"].delete_one({})
    study.store.database["calls"].delete_many({})
    assert study.execute(progress=False).failed == 1
    (call,) = study.store.objects(Call)
    assert 2 <= len(call.attempts) <= 20


@pytest.mark.parametrize("choices", [None, []])
def test_an_error_beside_no_choices_stops_its_provider_and_is_no_unsure_money(
    server, tmp_path, store_folder, choices
):
    """A key that is refused under status 200: one request, nothing that may have been billed, and a reason."""
    body = {"error": {"code": 401, "message": "no such user"}, "choices": choices}
    server.change = lambda reply: body
    study = unjudged_study(tmp_path, server.openai_url, concurrency=1)
    assert (study.execute(progress=False).failed, server.count) == (12, 1)
    assert not any(call.unsure_aud for call in study.store.objects(Call))
    assert all(run.failure.startswith("wrong_key") for run in study.store.objects(Run))
