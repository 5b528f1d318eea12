"""The budget is a cap by the server's own count of tokens: alone, in chaos, and over a SIGKILL."""

import signal
import time
from functools import partial

import pytest
from processes import (
    BROKEN,
    billed,
    capped,
    in_a_process,
    kept_replies,
    kill_when_seen,
    twin,
    unjudged_study,
    wait_until_seen,
)
from stub_server import DrawnFaults, Fault
from waiting import wait_for

from toolkit import pipeline
from toolkit.models.entries import Sampling
from toolkit.runs import gateway
from toolkit.runs.limits import RetryPolicy
from toolkit.study import Study

pytestmark = pytest.mark.usefixtures("store_folder")

RUNS = 240
MAX_TOKENS = 60


def answer(body):
    """Return nearly the longest reply there may be: fifty words, each a token to the stub."""
    return "word " * 50


@pytest.fixture
def study_at(server, tmp_path):
    """Return what makes a study of 240 runs, ten at once, with nearly the longest replies."""
    server.answer = answer
    usual = {"repeats": 20, "sampling": Sampling(max_tokens=MAX_TOKENS), "concurrency": 10}
    return lambda **settings: unjudged_study(tmp_path, server.openai_url, **{**usual, **settings})


def whole_cost(study):
    """Return what every run of a study costs by the stub's count, where each is sent once, in AUD."""
    sent = sum(len(run.request.messages[0].content.split()) for run in study.plan.runs)
    return billed(study, sent, len(answer({}).split()) * len(study.plan.runs))


def bill(study, server):
    """Return the server's bill so far, in AUD."""
    return billed(study, server.input_tokens, server.output_tokens)


def test_one_process_stops_near_the_cap_and_a_larger_one_goes_on_to_the_end(server, study_at):
    """Half the cost is spent to four fifths at least, never passed, and no run is asked again afterwards."""
    server.latency = 0.01
    study = study_at()
    cap = whole_cost(study) / 2
    stopped = capped(study, cap).execute(progress=False)
    assert stopped.exit_code == 3
    assert "budget" in str(stopped.budget)
    assert 0.8 * cap <= bill(study, server) <= cap
    assert stopped.spent_aud == pytest.approx(bill(study, server))
    again = capped(study, cap).execute(progress=False)
    assert (again.exit_code, again.succeeded) == (3, server.count)
    assert bill(study, server) <= cap
    done = capped(study, 3 * cap).execute(progress=False)
    assert (done.exit_code, done.succeeded, server.count) == (0, RUNS, RUNS)


def unseen(reply):
    """Take the words out of a stub's reply, which ended at its limit, and count nothing of them."""
    shown = {"content": [], "stop_reason": "max_tokens"}
    if "choices" in reply:
        shown = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
    return {**reply, **shown, "usage": dict.fromkeys(reply["usage"], 0)}


@pytest.mark.parametrize(
    ("provider", "mode"),
    [("compatible", "single"), ("anthropic", "single"), ("anthropic", "batch"), ("openai", "batch")],
)
def test_the_cap_holds_where_the_usage_is_a_row_of_zeros(server, study_at, monkeypatch, provider, mode):
    """By the server's own count; the ledger has no less than its bill. Other forms: tests/models/test_replies.py."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-canary-0123456789")
    server.change = unseen
    study = study_at(mode=mode, batch_poll_seconds=0.05)
    (entry,) = study.file.models
    entry = entry.model_copy(update={"provider": provider, "base_url": server.address(provider)})
    study = Study(study.file.model_copy(update={"models": (entry,), "repeats": 4}), study.path)
    cap = whole_cost(study) / 2
    stopped = capped(study, cap).execute(progress=False)
    paid = study.store.database["calls"].find()
    booked = sum(call.get("aud_cost") or 0.0 for call in paid)
    share = 0.5 if mode == "batch" else 1.0
    assert 0.3 * cap < share * bill(study, server) <= booked <= cap
    assert stopped.exit_code == 3


OVER = 20  # times the tokens that a request may bring, which this server bills


def overbilled(reply):
    """Bill twenty times the tokens that the longest reply may have."""
    return {**reply, "usage": {**reply["usage"], "completion_tokens": OVER * MAX_TOKENS}}


def test_what_replies_show_holds_back_what_was_set_aside_before(server, study_at):
    """Of ten at once the first reply passes the cap: nothing is sent after it, and every reply is saved."""
    server.change, server.latency = overbilled, 0.5
    study = study_at(prices=(0.01, 100.0))
    cap = 0.9 * billed(study, 0, OVER * MAX_TOKENS)
    stopped = capped(study, cap).execute(progress=False)
    assert (stopped.exit_code, server.count) == (3, 10)
    assert "'answerer' has billed 20 times what a call costs at worst" in str(stopped.budget)
    assert len(kept_replies(study)) == 10
    read = sum(call["input_tokens"] for call in study.store.database["calls"].find())
    assert stopped.spent_aud == pytest.approx(billed(study, read, 10 * OVER * MAX_TOKENS))
    assert not study.store.database["calls"].count_documents({"state": {"$ne": "done"}})


def test_what_a_model_billed_above_its_worst_case_is_its_worst_case_from_then_on(server, study_at):
    """The cap is passed by nothing but the first round, in this start and, by the ledger, in later ones."""
    server.change, server.latency = overbilled, 0.05
    study = study_at(prices=(0.01, 100.0))
    each = billed(study, 0, OVER * MAX_TOKENS)
    assert capped(study, 15.5 * each).execute(progress=False, limit=1).exit_code == 0
    for calls in (5, 18):  # fewer than go out at once, and more
        assert capped(study, (calls + 0.5) * each).execute(progress=False).exit_code == 3
        assert server.count == len(kept_replies(study)) == calls


def test_replies_that_never_arrived_count_against_the_cap(server, study_at, monkeypatch):
    """The server bills what hung, was dropped or came broken too, and its bill stays within the budget."""
    policy = partial(RetryPolicy, first_wait=0.02, longest_wait=0.05)
    monkeypatch.setattr(gateway, "RetryPolicy", policy)
    faults = DrawnFaults(20251119, {BROKEN: 0.25})
    server.faults, server.bills_broken = faults, True
    study = study_at(timeout_seconds=1.0)
    cap = whole_cost(study) / 2
    stopped = capped(study, cap).execute(progress=False)
    assert stopped.exit_code == 3
    assert "budget" in str(stopped.budget)
    good = stopped.spent_aud
    assert good < bill(study, server) <= cap  # the ledger's replies are less than the bill
    assert bill(study, server) >= 0.5 * cap


def test_the_cap_outlives_a_kill(server, study_at):
    """Killed three times on the way, the study still ends at its budget, and goes on with a larger one."""
    server.latency = 0.05
    study = study_at()
    cap = whole_cost(study) / 2
    acknowledged = {}
    for number in range(3):
        kill_when_seen(in_a_process(capped(study, cap)), server, server.count + 10 + 7 * number)
        kept = kept_replies(study)
        assert acknowledged.items() <= kept.items()
        acknowledged = kept
    assert acknowledged
    stopped = capped(study, cap).execute(progress=False)
    assert stopped.exit_code == 3
    assert bill(study, server) <= cap
    done = capped(study, 9 * cap).execute(progress=False)
    assert (done.exit_code, done.succeeded) == (0, RUNS)
    assert acknowledged.items() <= kept_replies(study).items()


def test_attempts_of_a_killed_process_that_may_be_billed_count_against_the_cap(server, study_at):
    """Every request hangs and is billed in full, is sent again, and the process is killed: none of it is forgotten."""
    words = (
        "word " * MAX_TOKENS
    )  # the longest reply, nearly all of the cost: nothing of the worst case is spare
    hang = Fault("hang")
    server.answer, server.faults, server.bills_broken = (lambda body: words), (lambda n, body: hang), True
    study = study_at(prices=(0.01, 100.0), concurrency=50, timeout_seconds=0.1)
    cap = 150 * billed(study, 0, MAX_TOKENS)
    ends = []
    for _ in range(4):
        process = in_a_process(capped(study, cap), 50)
        wait_until_seen(process, server, server.count + 60)
        wait_for(lambda child=process: server.under_way or not child.is_alive())
        process.kill()
        process.join()
        ends.append(process.exitcode)
        server.settle()
    assert ends[0] == -signal.SIGKILL
    assert set(ends) <= {-signal.SIGKILL, 3}  # at its budget one ends by itself
    assert server.count > 75
    assert bill(study, server) <= cap


def test_a_study_that_its_budget_stops_leaves_whole_runs(tmp_path, monkeypatch):
    """What was asked is judged, but for what was under way, and every model has got as far as the others."""
    price = 'provider = "scripted", usd_per_million_input = 2.0, usd_per_million_output = 8.0'
    judges = "\n".join(f'{role} = {{ name = "{role}", {price} }}' for role in ("primary", "secondary"))
    spent = 0.0
    monkeypatch.setattr(pipeline, "AHEAD", 4)  # fewer than the runs of one model
    for name in ("whole", "half"):
        path = tmp_path / f"{name}.toml"
        path.write_text(
            f'name = "{name}"\noutput = "{name}/results"\nconcurrency = 1\nbases = 6\n'
            f'models = [{{ name = "a", {price} }}, {{ name = "b", {price} }}]\n'
            f"[judges]\n{judges}\ntertiary = false\n" + (f"[budget]\naud = {spent / 2}\n" if spent else "")
        )
        with Study.load(path) as study:
            outcome = study.execute(progress=False)
            spent, counts = outcome.spent_aud, study.runs()["model"].value_counts()
    under_way = 3 * 1 + pipeline.AHEAD
    assert outcome.exit_code == 3
    assert under_way < outcome.succeeded < 36
    assert outcome.judged is not None
    assert outcome.succeeded - outcome.judged <= under_way
    assert abs(counts["a"] - counts["b"]) <= under_way


def test_who_waits_for_another_study_keeps_neither_place_nor_money(server, study_at):
    """One place, little money, and the first call is under way for another study: the next ones are sent."""
    until = time.monotonic() + 60
    server.holds = lambda: server.count < 2 and time.monotonic() < until
    study = study_at(concurrency=1, sampling=Sampling(max_tokens=600), repeats=2)
    (endpoint,) = gateway.endpoints_of(study.plan)
    worst = max(gateway.worst_aud(run.request, endpoint) for run in study.plan.runs)
    study = capped(study, whole_cost(study) + 0.9 * worst)
    other = in_a_process(twin(study), limit=1)
    wait_for(lambda: server.count == 1)
    outcome = study.execute(progress=False)
    other.join(60)
    assert (outcome.succeeded, other.exitcode, server.count) == (24, 0, 24)
    assert time.monotonic() < until
