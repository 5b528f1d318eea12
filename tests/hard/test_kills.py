"""SIGKILL again and again, and two studies at once: every reply is kept once and nothing else is asked twice."""

import json
import random
import socket
import time

import pytest
from processes import (
    billed,
    in_a_process,
    kept_replies,
    kill,
    kill_when_seen,
    lone_file,
    twin,
    unjudged_study,
)
from stub_server import Fault
from stub_study import stub_study
from waiting import is_heard_out, wait_for

from toolkit.runs.status import status_summary
from toolkit.store.documents import Annotation, Call, Run
from toolkit.study import Study
from toolkit.study_file import Budget, Limit

LATENCY = 0.05
CONCURRENCY = 10
STARTED = 1.0
"""Seconds in which a process surely has begun to ask."""
FULL = pytest.mark.full


@pytest.mark.parametrize(("runs", "kills"), [(120, 4), pytest.param(500, 20, marks=FULL)])
def test_a_study_killed_again_and_again_is_done_once(server, tmp_path, store_folder, runs, kills):
    """At random moments: all are kept once, and only what was in flight then is asked again."""
    times, moments = random.Random(7), random.Random(20251117)
    in_flight = 0
    acknowledged = {}
    server.latency = lambda: times.uniform(0.2, 1.8) * LATENCY
    study = unjudged_study(tmp_path, server.openai_url, repeats=42, concurrency=CONCURRENCY)
    calls = study.store.database["calls"]
    for number in range(kills):
        before = server.count, calls.count_documents({"state": "done"})
        process = in_a_process(study, runs)
        if number % 5:
            most = max(2, runs * 9 // (10 * kills))
            requests, after = before[0] + moments.randrange(1, most), moments.uniform(0, LATENCY)
        else:  # perhaps before it has sent anything
            requests, after = 0, moments.uniform(0, STARTED)
        unanswered = kill_when_seen(process, server, requests, after)
        wait_for(lambda: is_heard_out(store_folder))
        lost = server.count - before[0] - (calls.count_documents({"state": "done"}) - before[1])
        in_flight += lost
        assert unanswered <= CONCURRENCY
        # Also what was answered and not yet kept when it died: as much again at most, however slow the disk is.
        assert lost <= 2 * CONCURRENCY
        before_it, acknowledged = acknowledged, kept_replies(study)
        assert before_it.items() <= acknowledged.items()
    outcome = study.execute(progress=False, limit=runs)
    assert (outcome.succeeded, outcome.failed) == (runs, 0)
    assert server.count == runs + in_flight
    assert server.most_at_once <= CONCURRENCY
    kept = list(study.store.objects(Call))
    assert [call.state for call in kept] == ["done"] * runs
    assert len({json.loads(call.raw)["id"] for call in kept}) == runs
    assert 0 < len(acknowledged) < runs
    assert acknowledged.items() <= kept_replies(study).items()
    stored = list(study.store.objects(Run))
    assert len(stored) == len({run.call_id for run in stored}) == runs
    assert {run.status for run in stored} == {"succeeded"}


def test_a_study_killed_while_judges_are_asked_is_done_once(server, tmp_path, store_folder):
    """SIGKILL at a run and again among judges: only what was in flight is repeated, and what was asked is judged."""
    server.latency = 0.05
    path = stub_study(tmp_path, server.openai_url, runs="repeats = 2\nconcurrency = 2", bins='["S"]')
    with Study.load(path) as study:
        calls, lost = study.store.database["calls"], 0
        for moment in (2, 9):
            before = server.count, calls.count_documents({"state": "done"})
            process = in_a_process(study)
            kill_when_seen(process, server, moment)
            wait_for(lambda: is_heard_out(store_folder))
            done = calls.count_documents({"state": "done"})
            lost += (server.count - before[0]) - (done - before[1])
            assert 0 < done < 16
            # No run points to a text that is not there; a run is judged before a third is asked.
            texts = {blob["blob_id"] for blob in study.store.database["output_blobs"].find()}
            assert {run.output_blob_id for run in study.store.objects(Run)} <= texts
            assert calls.count_documents({"purpose": "run", "state": "done"}) <= 2 + done // 4
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.failed, outcome.judged) == (4, 0, 4)
        assert calls.count_documents({"state": "done"}) == 16
        assert (study.store.objects(Run).count(), study.store.objects(Annotation).count()) == (4, 12)
        assert server.count == 16 + lost


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"budget": Budget(aud=5.0)}, id="with a budget"),
        pytest.param({}, id="without one", marks=FULL),
        pytest.param({"limits": {"compatible": Limit(requests_per_minute=4)}}, id="of a rate", marks=FULL),
    ],
)
def test_only_what_was_sent_may_have_been_billed_by_two_kills(server, tmp_path, store_folder, settings):
    """Three are in flight at each kill and 21 wait: what counts is what the server saw and did not answer."""
    server.holds, server.answer = (lambda: True), (lambda body: "A reply of five words.")
    study = unjudged_study(tmp_path, server.openai_url, repeats=2, concurrency=3, **settings)
    seen = [0]
    for _ in range(2):
        process = in_a_process(study)
        wait_for(lambda: server.count == seen[-1] + 3)
        time.sleep(0.5)  # in which others would be claimed
        kill(process)
        server.settle()
        seen.append(server.count)
        wait_for(lambda: is_heard_out(store_folder))
        status = study.status()
        assert (seen[-1], status["unsure_calls"]) == (seen[-2] + 3, 3)
        in_flight = {call.call_id: call.worst_aud for call in study.store.objects(Call)}
        sent = sorted(one.body["messages"][-1]["content"] for one in server.seen[-3:])
        planned = [run.request for run in study.plan.runs if run.call_id in in_flight]
        assert sent == sorted(request.messages[-1].content for request in planned)
        assert min(in_flight.values()) > 0
        # The same three calls at every kill.
        assert status["unsure_aud"] == pytest.approx(seen[-1] / 3 * sum(in_flight.values()))
        assert "more may have been billed for 3 calls" in status_summary(status).text
    assert study.store.database["calls"].count_documents({}) == 3
    if study.file.limits:
        return
    server.holds = lambda: False
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, server.count) == (24, 24 + 6)
    lost = [call for call in study.store.objects(Call) if len(call.attempts) > 1]
    assert [[one["outcome"] for one in call.attempts] for call in lost] == [["lost", "lost", "answered"]] * 3
    after = study.status()
    assert after["unsure_aud"] == pytest.approx(status["unsure_aud"])
    numbers = [int(name.removeprefix("chatcmpl-")) for name in kept_replies(study).values()]
    prompts = [server.seen[number].body["messages"][0]["content"] for number in numbers]
    words = len(server.answer({}).split())
    told = sum(billed(study, len(prompt.split()), words) for prompt in prompts)
    assert (len(set(numbers)), min(numbers)) == (24, 6)
    assert (outcome.spent_aud, after["spent_aud"]) == pytest.approx((told, told))


def test_a_call_that_was_refused_or_waits_in_a_pause_may_not_have_been_billed(server, tmp_path, store_folder):
    """The provider refuses all and asks for a minute: of what is claimed nothing is under way when it is killed."""
    server.faults = lambda number, body: Fault(status=429, retry_after="60")
    study = unjudged_study(tmp_path, server.openai_url, repeats=2, concurrency=3)
    process = in_a_process(study)
    calls = study.store.database["calls"]

    def waiting():
        refused = calls.count_documents({"sent": False})
        return server.count == refused > 0 == calls.count_documents({"sent": True})

    # Twice, or the next one is on its way to be refused.
    wait_for(lambda: waiting() and not time.sleep(0.5) and waiting())
    kill(process)
    wait_for(lambda: is_heard_out(store_folder))
    assert (study.status()["unsure_calls"], study.status()["unsure_aud"]) == (0, 0.0)


@pytest.mark.parametrize("billed", [True, pytest.param(False, marks=FULL)])
def test_what_may_have_been_billed_is_settled_once(server, tmp_path, store_folder, billed, toolkit):
    """Refused while a process works; then spent or off the budget, with a record that goes with the study."""

    def settle(path):
        which = "billed" if billed else "not-billed"
        code, out, _ = toolkit("status", path, "--settle", which, "the bill of May", "--json")
        return code, json.loads(out)

    server.holds = lambda: True
    path = lone_file(tmp_path, server.openai_url, "concurrency = 3", "[budget]\naud = 5.0\n")
    study = Study.load(path)
    process = in_a_process(study)
    wait_for(lambda: server.count == 3)
    code, said = settle(path)
    assert (code, "a process works on this study" in said["error"]) == (2, True)
    kill(process)
    wait_for(lambda: is_heard_out(store_folder))
    before = study.status()
    code, said = settle(path)
    assert (code, said["settled_calls"]) == (0, 3)
    assert said["settled_aud"] == pytest.approx(before["unsure_aud"])
    again = settle(path)
    assert (again[0], again[1]["settled_calls"]) == (0, 0)
    after = study.status()
    assert (after["unsure_calls"], after["unsure_aud"]) == (0, 0.0)
    assert after["spent_aud"] == pytest.approx(before["unsure_aud"] if billed else 0.0)
    assert after["budget_left_aud"] == pytest.approx(5.0 - after["spent_aud"])
    assert "the bill of May" in status_summary(after).text
    [record] = after["settled"]
    assert (record["calls"], record["billed"], record["note"]) == (3, billed, "the bill of May")
    server.holds = lambda: False
    outcome = study.execute(progress=False)
    done = study.status()  # the lost calls are asked again, and what was settled stays settled
    assert (outcome.succeeded, server.count) == (12, 15)
    assert (done["unsure_calls"], done["settled"]) == (0, [record])


def test_two_studies_with_the_same_calls_both_killed_at_random_pay_each_call_once(
    server, tmp_path, store_folder
):
    """Each reply is kept once, no living process's call is asked by the other, and only what was in flight again."""
    times, moments = random.Random(7), random.Random(20251128)
    runs, rounds = 400, 20
    server.latency = lambda: times.uniform(0.2, 1.8) * LATENCY
    study = unjudged_study(tmp_path, server.openai_url, repeats=42, concurrency=CONCURRENCY)
    for _ in range(rounds):
        before, processes = server.count, [in_a_process(each, runs) for each in (study, twin(study))]
        moments.shuffle(processes)
        for process in processes:  # the second one goes on for a while, and takes over what the first left
            requests = before + moments.randrange(1, runs * 9 // (20 * rounds))
            before = requests
            wait_for(lambda n=requests: server.count >= n)
            time.sleep(moments.uniform(0, LATENCY))
            kill(process)
        server.settle()
        wait_for(lambda: is_heard_out(store_folder))
    done = study.store.database["calls"].count_documents({"state": "done"})
    assert 0 < done < runs
    processes = [in_a_process(each, runs) for each in (study, twin(study))]
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    calls = list(study.store.objects(Call))
    outcomes = [[attempt["outcome"] for attempt in call.attempts] for call in calls]
    assert [call.state for call in calls] == ["done"] * runs
    assert all(each == ["lost"] * (len(each) - 1) + ["answered"] for each in outcomes)
    assert len({json.loads(call.raw)["id"] for call in calls}) == runs
    assert len({call.study for call in calls}) == 2  # both took part
    # What was asked again is what was in flight, or claimed and not sent yet, when a process was killed.
    assert 0 < server.count - runs <= sum(map(len, outcomes)) - runs <= 2 * rounds * CONCURRENCY
    for each in (study, twin(study)):
        assert each.status()["runs"]["succeeded"] == runs


def test_a_second_process_is_refused_and_takes_over_after_kill_9(server, tmp_path, store_folder, toolkit):
    """In one line, though the lease is over, as of a laptop that slept; anybody may read meanwhile."""
    server.holds = lambda: True
    path = lone_file(tmp_path, server.openai_url, "repeats = 2\nconcurrency = 3")
    with Study.load(path) as study:
        first = in_a_process(study)
        wait_for(lambda: server.count == 3)
        study.store.database["owners"].update_many({}, {"$set": {"lease_until": 0.0}})
        code, _, error = toolkit("run", path, "--yes")
        refusal = f"process {first.pid} on {socket.gethostname()} runs it since 20"
        assert (code, server.count, refusal in error) == (2, 3, True), error
        assert (study.status()["at_work"], len(study.runs())) == (True, 0)
        kill(first)
        server.holds = lambda: False
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, server.count) == (24, 24 + 3)
        assert not study.status()["at_work"]
