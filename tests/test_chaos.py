"""Two thousand runs against a server that refuses, hangs, drops and breaks its replies: nothing is lost or doubled."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from stub_server import DrawnFaults, Fault, StubServer

from toolkit.models.base import Usage
from toolkit.models.prices import aud_cost, price_of
from toolkit.runs import gateway
from toolkit.runs.retries import UNSURE, RetryPolicy
from toolkit.store.documents import Call, Run
from toolkit.study import Study
from toolkit.study_file import Judges, ModelEntry, StudyFile

RUNS = 2000
SHARES = {  # issue 3, "Chaos"
    (Fault(status=429), Fault(status=429, retry_after="0.05")): 0.15,
    (Fault(status=500), Fault(status=503), Fault(status=529)): 0.05,
    (Fault("hang"),): 0.02,
    (Fault("drop"),): 0.02,
    (Fault("half"), Fault("cut"), Fault("html")): 0.02,
}
REASONS = {
    None: "answered",
    "hang": "timeout",
    "drop": "connection",
    "cut": "connection",
    "half": "malformed_body",
    "html": "malformed_body",
    429: "rate_limited",
    500: "server_error",
    503: "server_error",
    529: "overloaded",
}


def unjudged_study(
    folder: Path, address: str, *, prices: tuple[float, float] = (1, 2), **settings: Any
) -> Study:
    """Return a study of the 12 S prompts without judges that asks one server.

    ``prices`` are USD per million tokens in and out, ``settings`` those of a study file.
    """
    model = ModelEntry(
        name="answerer",
        provider="compatible",
        base_url=address,
        usd_per_million_input=prices[0],
        usd_per_million_output=prices[1],
    )
    file = StudyFile(
        name="lone",
        models=(model,),
        length_bins=("S",),
        judges=Judges(primary=None, secondary=None, tertiary=None),
        output=folder / "results" / "lone",
        **settings,
    )
    return Study(file, folder / "lone.toml")


def reason_of(fault: Fault | None) -> str:
    """Return the word under which the ledger keeps an attempt that met a fault."""
    return REASONS[None if fault is None else fault.status if fault.kind == "status" else fault.kind]


def test_in_chaos_every_run_ends_and_the_ledger_knows_every_request(
    tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run succeeds or says why not, the ledger agrees with the server to the request and to the token."""
    # Four attempts and not six, so that some runs do fail; short waits, because there are some 700 of them.
    policy = partial(RetryPolicy, attempts=4, first_wait=0.05, longest_wait=0.2)
    monkeypatch.setattr(gateway, "RetryPolicy", policy)
    faults = DrawnFaults(20251117, SHARES)
    with StubServer(faults=faults) as server:
        study = unjudged_study(tmp_path, server.openai_url, repeats=167, concurrency=50, timeout_seconds=1.5)
        outcome = study.execute(progress=False, limit=RUNS)
        calls = list(study.store.objects(Call))
        runs = list(study.store.objects(Run))

        # Every run ended, none is missing, none is there twice.
        assert outcome.succeeded + outcome.failed == RUNS
        assert 0 < outcome.failed < RUNS / 50
        assert len(runs) == len({run.call_id for run in runs}) == len(calls) == RUNS
        done = [call for call in calls if call.state == "done"]
        failed = [call for call in calls if call.state == "failed"]
        assert (len(done), len(failed)) == (outcome.succeeded, outcome.failed)
        last = {call.call_id: call.attempts[-1]["outcome"] for call in failed}
        said = {run.call_id: run.failure.split(":")[0] for run in runs if run.status == "failed"}
        assert said == last
        assert {call.call_id: call.failure["reason"] for call in failed} == last

        # What the server saw is what the ledger says, in sum and by what became of it; only a busy machine may take
        # what came for what did not come in time.
        met = Counter(reason_of(fault) for fault in faults.drawn.values())
        noted = Counter(attempt["outcome"] for call in calls for attempt in call.attempts)
        assert met.total() == server.count
        unseen = noted.total() - met.total()  # given up before the server read them
        late = noted["timeout"] - met["timeout"]
        assert 0 <= unseen <= late <= RUNS / 100
        assert (met - noted).total() == late - unseen
        assert set(noted) == set(met)
        good = {f"chatcmpl-{number}": number for number, fault in faults.drawn.items() if fault is None}
        kept = [good[json.loads(call.raw)["id"]] for call in done]
        assert len(kept) == len(set(kept)) == noted["answered"]

        # The money: each reply that came paid for once, what may have been billed is noted and nothing else.
        price = price_of(study.plan.models["answerer"])
        sent = sum(len(server.seen[number].body["messages"][0]["content"].split()) for number in kept)
        paid = aud_cost(Usage(sent, len(kept) * len(server.answer({}).split())), price)
        assert sum(call.aud_cost or 0.0 for call in calls) == pytest.approx(paid)
        if not late:
            whole = aud_cost(Usage(server.input_tokens, server.output_tokens), price)
            assert paid == pytest.approx(whole)
        for call in calls:
            unsure = any(attempt["outcome"] in UNSURE for attempt in call.attempts)
            assert ((call.unsure_aud or 0.0) > 0) == unsure, call.attempts

        # And what failed is asked again, alone.
        seen, server.faults = server.count, lambda number, body: None
        again = study.execute(progress=False, limit=RUNS)
        assert (again.succeeded, again.failed, again.new_calls) == (RUNS, 0, outcome.failed)
        assert server.count == seen + outcome.failed
        study.store.close()


def test_waiting_in_line_is_no_part_of_the_retry_deadline(
    tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve calls one after the other, each refused twice: the last ones wait longer than a call may be retried."""
    policy = partial(RetryPolicy, attempts=50, first_wait=0.01, longest_wait=0.02, deadline=2.0)
    monkeypatch.setattr(gateway, "RetryPolicy", policy)
    met: Counter[str] = Counter()

    def twice(_: int, body: dict[str, Any]) -> Fault | None:
        met[str(body["messages"])] += 1
        return Fault(status=503) if met[str(body["messages"])] <= 2 else None

    with StubServer(faults=twice, latency=0.1) as server:
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
        study.store.close()
