"""Batch mode: half the price, one batch for each model, resumed by the next process, and nothing paid twice."""

import os
import signal
import subprocess
import sys

import pytest
from processes import FORKS, kill
from stub_server import Fault
from stub_study import batch_study, is_judge, plain
from waiting import is_heard_out, wait_for

from toolkit.audit.verify import record_differences
from toolkit.runs import provider_batch
from toolkit.runs.limits import RetryPolicy
from toolkit.store.documents import Call
from toolkit.store.writer import utc_now
from toolkit.study import Study
from toolkit.study_file import BiasControls, Budget, Judges

pytestmark = pytest.mark.usefixtures("store_folder")

AUD_PER_TOKEN = 1.5444 / 1e6


@pytest.fixture
def load(server, tmp_path, monkeypatch):
    """Load a study that asks the server in batches of a provider."""
    monkeypatch.setenv("BATCH_KEY", "sk-batch-of-a-test")
    return lambda provider, **more: Study.load(batch_study(tmp_path, server, provider=provider, **more))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_study_in_batches_costs_half_and_asks_nothing_singly(server, load, provider):
    """Six runs in one batch, eighteen judgements in one for each judge, at half the tokens' price."""
    study = load(provider)
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, outcome.new_calls, outcome.failed) == (6, 6, 24, 0)
    assert (server.count, len(server.batches)) == (0, 4)
    assert outcome.spent_aud == pytest.approx(bill(server))
    assert [call.attempts[0]["batch"] for call in study.store.objects(Call)] == [True] * 24
    assert study.execute(progress=False).new_calls == 0
    assert len(server.batches) == 4


def test_what_a_batch_does_not_answer_is_asked_singly(server, load):
    """Every third line fails, is missing or expires: those calls alone are sent singly, at the full price."""
    lines = []

    def fault(custom_id):
        lines.append(custom_id)
        return (None, "error", "missing", "expired")[len(lines) % 4]

    server.batch_fault = fault
    study = load("openai")
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, outcome.failed) == (6, 6, 0)
    assert server.count == 18
    calls = list(study.store.objects(Call))
    assert sorted(len(call.attempts) for call in calls) == [1] * 6 + [2] * 18
    assert all("batch" not in call.attempts[-1] for call in calls if len(call.attempts) == 2)


@pytest.mark.parametrize(
    ("provider", "sent", "code"),
    [
        ("anthropic", signal.SIGKILL, -9),
        ("openai", signal.SIGINT, 130),
    ],
)
def test_a_process_that_ends_leaves_its_batch_to_the_next(server, load, provider, sent, code):
    """Killed or stopped while it waits: the next process polls the same batch, and nothing is sent twice."""
    server.batch_polls = 10**9
    path = load(provider).path
    command = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: server.batch_requests >= 6)
        os.kill(child.pid, sent)
        assert child.wait(120) == code
    finally:
        child.kill()
    assert len(server.batches) == 1
    server.batch_polls = 1
    study = Study.load(path)
    assert study.status()["runs"]["failed"] == 0
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, server.count, len(server.batches)) == (6, 6, 0, 4)
    runs = study.store.objects(Call).filter(purpose="run")
    assert [len(call.attempts) for call in runs] == [1] * 6
    assert not any(call.unsure_aud for call in runs)


def unjudged(study, aud=None, **settings):
    """Return the six runs of a study without its judges, with a budget."""
    changes = {"judges": Judges(primary=None, secondary=None, tertiary=None), "budget": Budget(aud=aud)}
    return Study(study.file.model_copy(update={**changes, **settings}), study.path)


def bill(server):
    """Return what a server bills, in AUD: batches at half the price, single requests at the whole."""
    halves = [batch.tokens for batch in server.batches]
    sent, got = (sum(part) / 2 for part in zip(*halves, strict=True))
    return (server.input_tokens - sent + 2 * (server.output_tokens - got)) * AUD_PER_TOKEN


def booked(study):
    """Return what a study has spent or may have spent, in AUD."""
    status = study.status()
    return float(status["spent_aud"] + status["unsure_aud"])


def polls(server):
    """Return how often batches were asked for."""
    return sum(batch.polls for batch in server.batches)


def collect(study, server):
    """Run a study to its end: its one open batch brings all replies, each paid for once, and nothing is sent."""
    outcome = study.execute(progress=False)
    assert (outcome.budget, outcome.succeeded, server.count, len(server.batches)) == (None, 6, 0, 1)
    assert booked(study) == pytest.approx(bill(server))
    calls = list(study.store.objects(Call))
    assert [(len(call.attempts), call.unsure_aud or 0.0) for call in calls] == [(1, 0.0)] * 6


def held_for_an_open_batch(study):
    """Return what of the budget is held for the batch, of which nothing is spent or unsure."""
    status = study.status()
    assert (status["unsure_calls"], status["unsure_aud"], status["spent_aud"]) == (0, 0.0, 0.0)
    return float(status["budget_aud"] - status["budget_left_aud"])


def go(study):
    """Run a study in a process of its own."""
    os.environ["BATCH_KEY"] = "sk-batch-of-a-test"
    study.execute(progress=False)


def start(study):
    """Start a study in a process of its own."""
    process = FORKS.Process(target=go, args=(Study(study.file, study.path),))
    process.start()
    return process


def leave_open(study, server):
    """Run a study that may not ask for its batch, so that it ends with the batch open; return what is held for it."""
    server.batch_http_fault = lambda method, path: (
        Fault(status=400) if method == "GET" and "/batch_" in path else None
    )
    assert study.execute(progress=False).succeeded == 0
    server.batch_http_fault = lambda method, path: None
    return held_for_an_open_batch(study)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_collecting_an_open_batch_needs_no_new_budget(server, load, provider):
    """Four starts: nothing is unsure, and what the batch may cost is held once, in a budget of hardly more."""
    loaded = load(provider)
    held = leave_open(unjudged(loaded, 5.0), server)
    study = unjudged(loaded, 1.1 * held)
    assert [leave_open(study, server) for _ in range(3)] == pytest.approx([held] * 3)
    collect(study, server)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_an_open_batch_is_booked_once_however_often_its_study_is_started(
    server, load, store_folder, provider
):
    """Three kills: nothing is unsure, what the batch may cost is held once, and collecting it needs no new budget."""
    server.batch_polls = 10**9
    loaded = load(provider)
    study, held = unjudged(loaded, 5.0), []
    for _ in range(3):
        process, polled = start(study), polls(server)
        wait_for(lambda now=polled, child=process: polls(server) > now + 1 or not child.is_alive())
        kill(process)
        wait_for(lambda: is_heard_out(store_folder))
        held.append(held_for_an_open_batch(study))
        study = unjudged(loaded, 1.1 * held[0])  # as much is left as the batch may cost, and little more
    assert held == pytest.approx([held[0]] * 3)
    server.batch_polls = 1
    collect(study, server)


def test_a_study_that_asks_singly_now_waits_for_its_open_batch(server, load):
    """The mode was changed meanwhile: what is paid for is collected, and the rest is asked singly."""
    study = load("anthropic", settings="budget.aud = 5.0")
    leave_open(unjudged(study, 5.0), server)
    single = Study(study.file.model_copy(update={"mode": "single"}), study.path)
    outcome = single.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, server.count, len(server.batches)) == (6, 6, 18, 1)
    assert single.status()["unsure_aud"] == 0.0
    assert booked(single) == pytest.approx(bill(server))


def test_a_key_that_is_refused_while_a_batch_is_open_loses_nothing(server, load):
    """What the batch may cost stays held, and the next start with a good key collects it."""
    study = unjudged(load("openai"), 5.0)
    server.batch_http_fault = lambda method, path: Fault(status=401) if method == "GET" else None
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, len(server.batches)) == (0, 1)
    status = study.status()
    assert status["unsure_aud"] == 0.0
    assert 5.0 - status["budget_left_aud"] > bill(server)
    server.batch_http_fault = lambda method, path: None
    collect(unjudged(study, 1.1 * (5.0 - status["budget_left_aud"])), server)


ODD = {
    "no results": ("batch_body", lambda body: b""),
    "half of them": ("batch_body", lambda body: b"".join(body.splitlines(keepends=True)[:3])),
    "of other calls": ("batch_body", lambda body: body.replace(b'"custom_id": "', b'"custom_id": "x')),
    "unreadable": (
        "batch_body",
        lambda body: body.replace(b'"choices"', b'"x"').replace(b'"content": [', b'"x": ['),
    ),
    "no file": ("batch_view", lambda shown: {**shown, "output_file_id": None, "id": "gone"}),
    "gone": ("batch_http_fault", lambda method, path: Fault(status=404) if "/batch_0" in path else None),
}


@pytest.mark.parametrize(
    ("provider", "odd"),
    [
        ("anthropic", "half of them"),
        *(
            (provider, odd)
            for provider in ("openai", "anthropic")
            for odd in ODD
            if (provider, odd) not in (("anthropic", "half of them"), ("anthropic", "no file"))
        ),
    ],
)
def test_answers_of_a_batch_that_cannot_be_had_are_booked_and_asked_singly(
    server, load, capfd, provider, odd
):
    """The provider counts six answers and never shows them: they are looked for, then paid for again; both count."""
    study = unjudged(load(provider), 5.0)
    setattr(server, ODD[odd][0], ODD[odd][1])
    outcome = study.execute(progress=False)
    missing = 3 if odd == "half of them" else 6
    assert (outcome.succeeded, outcome.failed, server.count, len(server.batches)) == (6, 0, missing, 1)
    assert study.status()["unsure_calls"] == missing
    assert booked(study) >= bill(server)
    assert study.store.database["calls"].count_documents({"state": "done"}) == 6
    assert not list(study.store.database["batches"].find({"state": "submitted"}))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("batch ")]
    assert len(lines) == 2
    assert "looked at again" in lines[0]
    assert f"{missing} calls are given up" in lines[1]


def test_what_failed_in_a_batch_is_still_to_be_asked_where_the_budget_ends(server, load):
    """A replay gives no failed judgement for it: one would be a difference."""
    lines = []

    def fault(custom_id):
        lines.append(custom_id)
        return "missing" if len(lines) > 6 and len(lines) % 2 == 0 else None

    def answer(body):
        if "findings" in str(body["messages"]):
            return '{"findings": []}'
        return (
            '{"reasons": "so", "completeness": 4, "actionability": 4}' if is_judge(body) else "One sentence."
        )

    server.batch_fault, server.answer = fault, answer
    loaded = load("openai")
    file = loaded.file.model_copy(
        update={
            "budget": Budget(aud=0.025),
            "bias_controls": BiasControls(fsp_enabled=True, fsp_mode="per_sentence"),
        }
    )
    study = Study(file, loaded.path)
    assert study.execute(progress=False).budget
    assert study.status()["calls"]["failed"] > 0
    assert record_differences(study) == []


def test_a_kill_while_a_call_of_a_batch_is_asked_singly_books_both(server, load, store_folder):
    """The batch has let go of it, so that its claim says what both may have cost; the other replies are kept."""
    server.batch_body = lambda body: b"\n".join(body.splitlines()[:5])
    study = unjudged(load("openai"), 5.0)
    server.holds = lambda: True
    process = start(study)
    wait_for(lambda: server.under_way or not process.is_alive())
    kill(process)
    wait_for(lambda: is_heard_out(store_folder))
    server.settle()
    server.holds = lambda: False
    wait_for(lambda: not server.under_way)
    (claim,) = study.store.database["calls"].find({"state": "claimed"})
    assert study.status()["unsure_aud"] == pytest.approx(2 * claim["worst_aud"])
    assert (study.status()["unsure_calls"], booked(study) >= bill(server)) == (1, True)
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, server.count, len(server.batches)) == (6, 1, 2)
    assert booked(study) >= bill(server)


def test_a_batch_that_was_looked_for_stays_known_when_its_results_fail_once(server, load, monkeypatch):
    """The reply to its submission is lost, and later one look at its results: nothing is asked or paid twice."""
    monkeypatch.setattr(provider_batch, "RETRY", RetryPolicy(attempts=1))
    looks = []

    def fault(method, path):
        if path.endswith("/results"):
            looks.append(path)
            return Fault(status=500) if len(looks) == 2 else None
        return Fault("drop") if method == "POST" else None

    server.batch_http_fault, server.batch_polls = fault, 10**9
    study = unjudged(load("anthropic"), 5.0)
    assert study.execute(progress=False).succeeded == 0
    server.batch_polls = 1
    collect(study, server)
    (batch,) = study.store.database["batches"].find()
    assert (batch["state"], batch["batch_id"], len(looks)) == ("ended", "batch_0", 3)


@pytest.mark.parametrize("given_up", [0, 6])
def test_what_a_killed_single_request_may_have_cost_stays_counted(server, load, given_up):
    """Its call is in a new batch, which answers it, or whose six answers cannot be read and count as billed too."""
    study = unjudged(load("openai"), 9.0)
    server.batch_body = lambda body: body[: 0 if given_up else None]
    claim = {
        "study": study.name,
        "purpose": "run",
        "provider": "openai",
        "model": "answerer",
        "state": "claimed",
    }
    claim |= {
        "owner": "killed",
        "sent": True,
        "worst_aud": 1.0,
        "created_at": utc_now(),
        "updated_at": utc_now(),
    }
    calls = study.store.database["calls"]
    calls.insert_one({"_id": study.plan.call_ids[0], **claim})
    assert study.execute(progress=False).succeeded == 6
    assert server.count == given_up
    worst = sum(call["worst_aud"] for call in calls.find()) if given_up else 0.0
    assert study.status()["unsure_aud"] == pytest.approx(1.0 + worst)


def test_an_answer_in_the_ledger_is_used_while_its_batch_is_open(server, load):
    """Its judgement wants a repair, which a process that was killed did not come to."""
    server.answer = lambda body: "prose" if is_judge(body) and len(body["messages"]) < 3 else plain(body)
    server.faults = lambda number, body: Fault(status=400)
    study = load("openai")
    assert study.execute(progress=False).judged == 0
    server.faults = ()
    study.store.database["batches"].update_many(
        {}, {"$set": {"state": "submitted"}, "$push": {"call_ids": "0" * 64}}
    )
    assert study.execute(progress=False).judged == 6


@pytest.mark.parametrize("lost", [0, 2])
def test_a_batch_whose_end_was_not_noted_ends_with_its_last_reply(server, load, lost):
    """Its process was killed when it had kept all of its replies, or all but two: the next start frees its money."""
    study = unjudged(load("openai"), 5.0)
    study.execute(progress=False)
    database = study.store.database
    database["batches"].update_one({}, {"$set": {"state": "submitted", "worst_aud": 4.9}})
    database["calls"].delete_many({"_id": {"$in": study.plan.call_ids[:lost]}})
    database["runs"].delete_many({})
    collect(study, server)
    assert [batch["state"] for batch in database["batches"].find()] == ["ended"]
    status = study.status()
    assert status["budget_left_aud"] == pytest.approx(5.0 - status["spent_aud"])
