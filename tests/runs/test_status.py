"""Status: what is done, under way, spent and left, read from another terminal without asking anything."""

from collections import Counter
from datetime import timedelta

import pytest
from cases import cases
from stub_server import Fault
from stub_study import plain, stub_study

from toolkit.runs.estimate import estimate_summary
from toolkit.runs.owner import Owner
from toolkit.runs.status import status_sentence, status_summary, statuses
from toolkit.store.writer import utc_now
from toolkit.study import Study

CASES = cases(__file__)


@pytest.fixture
def study(study_file):
    """A study of six runs and eighteen judgements, open and not begun."""
    return Study.load(study_file(judges="[budget]\naud = 5.0"))


def call(study, name, **fields):
    """Put a call into the ledger; a string of attempts stands for their outcomes."""
    attempts = [{"at": utc_now(), "outcome": outcome} for outcome in fields.pop("attempts", "").split()]
    document = {
        "_id": name.ljust(64, "0"),
        "study": study.name,
        "state": "done",
        "owner": "gone",
        "purpose": "run",
        "provider": "scripted",
        "model": "scripted",
        "worst_aud": 0.0,
        "attempts": attempts,
        "updated_at": utc_now(),
        **fields,
    }
    study.store.database["calls"].insert_one(document)


def test_a_study_that_was_not_begun(study):
    """Everything is missing, nothing is spent, there is no rate and no time left."""
    status = study.status()
    assert status["runs"] == {"planned": 6, "succeeded": 0, "failed": 0, "missing": 6}
    names = ["planned", "done", "scored", "failed", "missing", "left_out"]
    assert status["judgements"] == dict(zip(names, [18, 0, 0, 0, 18, 0], strict=True))
    assert (status["calls"], status["attempts"], status["in_flight"], status["retried"]) == ({}, {}, {}, 0)
    assert (status["spent_aud"], status["unsure_aud"], status["budget_left_aud"]) == (0.0, 0.0, 5.0)
    assert (status["calls_per_minute"], status["seconds_left"], status["at_work"]) == (None, None, False)
    assert "no process is at work" in status_summary(status).text


def test_a_finished_study(study):
    """All is answered, nothing is left, and looking twice says the same."""
    study.execute(progress=False)
    status = study.status()
    assert status["runs"] == {"planned": 6, "succeeded": 6, "failed": 0, "missing": 0}
    assert [*status["judgements"].values()] == [18, 18, 18, 0, 0, 0]
    assert (status["calls"], status["attempts"]) == ({"done": 24}, {"answered": 24})
    assert (status["seconds_left"], status["at_work"], status["abandoned"]) == (0.0, False, 0)
    assert status["calls_per_minute"] > 0
    again = study.status()
    changing = ("calls_per_minute",)
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in status.items() if k not in changing
    }


def test_calls_in_flight_are_those_of_living_processes(study):
    """A claim of a living owner is in flight by its purpose; one of a dead owner is abandoned; both hold money."""
    owner = Owner(study.store, study.name)
    owner.start()
    for number, purpose in enumerate(("run", "judge", "judge")):
        call(study, f"a{number}", state="claimed", owner=owner.name, purpose=purpose, worst_aud=0.5)
    call(study, "b", state="claimed", owner="host:1:2:dead", worst_aud=1.0)
    call(study, "c", attempts="answered", aud_cost=0.25, unsure_aud=0.125, output_tokens=5, latency_ms=10.0)
    status = study.status()
    assert (status["in_flight"], status["abandoned"], status["at_work"]) == ({"run": 1, "judge": 2}, 1, True)
    assert (status["spent_aud"], status["unsure_aud"], status["unsure_calls"]) == (0.25, 1.125, 2)
    assert status["budget_left_aud"] == pytest.approx(5.0 - 0.25 - 0.125 - 2.5)
    assert status["calls"] == {"done": 1}
    text = status_summary(status).text
    assert "2 judge calls in flight, 1 run call in flight" in text
    assert "abandoned   1 call of a dead process" in text
    estimate = estimate_summary(study.estimate())
    assert estimate.fields["held_aud"] == pytest.approx(2.5)
    assert "AUD 2.50 held for calls that are under way or that a dead process left" in estimate.text
    assert "AUD 1.12 more may have been billed for 2 calls" in text
    owner.close()
    assert (study.status()["at_work"], study.status()["abandoned"]) == (False, 4)


def test_attempts_are_counted_by_outcome(study):
    """Retries are the attempts beyond the first of each call, of failed calls too."""
    call(study, "a", attempts="answered")
    call(study, "b", attempts="rate_limited timeout answered")
    call(study, "c", attempts="server_error server_error", state="failed")
    call(study, "d", attempts="bad_request", state="failed")
    status = study.status()
    assert status["attempts"] == {
        "answered": 2,
        "rate_limited": 1,
        "timeout": 1,
        "server_error": 2,
        "bad_request": 1,
    }
    assert (status["retried"], status["calls"]) == (3, {"done": 2, "failed": 2})
    assert "retried     3 attempts" in status_summary(status).text


def test_the_rate_is_that_of_the_last_five_minutes(study):
    """Twelve calls over two minutes are six a minute; what ended before counts no more."""
    now = utc_now()
    for number in range(12):
        ended = now - timedelta(seconds=10 * number)
        call(study, f"a{number:02}", attempts="answered", updated_at=ended, latency_ms=10_000.0)
    call(study, "old", attempts="answered", updated_at=now - timedelta(seconds=400))
    status = study.status()
    assert status["calls_per_minute"] == pytest.approx(6.0, rel=0.05)
    assert status["seconds_left"] == pytest.approx(240, rel=0.05)  # 6 runs and 18 judgements at 6 a minute
    calls = study.store.database["calls"]
    calls.delete_many({"_id": {"$ne": "old".ljust(64, "0")}})
    assert (study.status()["calls_per_minute"], study.status()["seconds_left"]) == (None, None)


def test_excluded_and_failed_runs_are_told_apart(study):
    """An excluded reply is paid for and not judged, by reason; a failed run is neither answered nor waited for."""
    study.execute(progress=False)
    database = study.store.database
    ids = [run["_id"] for run in database["runs"].find({}, {"_id": 1})]
    database["runs"].update_one({"_id": ids[0]}, {"$set": {"defect": "truncated", "reply_policy": "exclude"}})
    database["runs"].update_one({"_id": ids[1]}, {"$set": {"defect": "refused", "reply_policy": "keep"}})
    database["runs"].update_one(
        {"_id": ids[2]}, {"$set": {"status": "failed", "failure": "timeout: 3 times"}}
    )
    status = study.status()
    assert status["runs"] == {"planned": 6, "succeeded": 5, "failed": 1, "missing": 0}
    assert (status["excluded"], status["failures"]) == ({"truncated": 1}, {"timeout": 1})
    # Twelve of the four that judges see; those of the failed run are missing, those of the excluded one left out.
    assert [*status["judgements"].values()] == [15, 12, 12, 0, 3, 3]
    assert (
        "12 of 15 with scores\n            0 failed, 3 not asked, 3 left out" in status_summary(status).text
    )
    assert status["seconds_left"] == 0.0
    assert "excluded    1 x truncated" in status_summary(status).text


def test_a_policy_that_changed_counts_before_the_study_runs_again(study_file):
    """Status and estimate agree on what is still to be judged, and nothing is missing that no judge will see.

    A case has what the study said when the replies came and what it says now; how many are planned, done and left
    out; and the calls for each judge.
    """
    study = Study.load(study_file())
    study.execute(progress=False)
    database = study.store.database
    run, said = database["runs"].find_one({}), list(database["annotations"].find({}))
    call = database["calls"].find_one({"_id": run["call_id"]})
    for case, ((defect, then, now), (planned, done, left_out), calls) in CASES["policies"].items():
        cut = {"finish_reason": "length"} if defect == "truncated" else {"text": " "}
        database["calls"].replace_one({"_id": call["_id"]}, {**call, **cut})
        kept = {**run, "defect": defect, "reply_policy": then}
        if then != "keep":  # then no judge has seen it
            kept = {name: kept[name] for name in kept if not name.startswith(("ensemble", "judge"))}
        database["runs"].replace_one({"_id": run["_id"]}, kept)
        database["annotations"].delete_many({"run_id": run["run_id"]})
        of_run = [one["call_id"] for one in said if one["run_id"] == run["run_id"]]
        database["calls"].delete_many({"_id": {"$in": of_run}})  # or making them again would cost nothing
        if then == "keep":
            database["annotations"].insert_many([one for one in said if one["run_id"] == run["run_id"]])
        again = Study.load(study_file(judges=f'[replies]\n{defect} = "{now}"'))
        found = again.status()["judgements"]
        assert (found["planned"], found["done"], found["left_out"]) == (planned, done, left_out), case
        assert found["missing"] == planned - done == 3 * calls, case
        assert again.estimate().query("who != 'model'")["calls"].tolist() == [calls] * 3, case


def test_a_judge_that_cannot_be_read_is_answered_without_scores(tmp_path, store_folder, capsys):
    """Prose is an answer, paid for and not asked again; progress, summary, status and frame count it alike."""
    path = tmp_path / "prose.toml"
    prose = '{ name = "prose", provider = "scripted", structured = false, replies = ["I give it a five."] }'
    path.write_text(
        'name = "prose"\noutput = "results/prose"\nscenarios = ["CTI_ANALYSIS"]\nmodels = ["scripted"]\n'
        f'[judges]\nprimary = {prose}\nsecondary = {{ name = "b", provider = "scripted" }}\n'
        'tertiary = { name = "c", provider = "scripted" }\n'
    )
    study = Study.load(path)
    outcome = study.execute()
    assert "6 judgements failed" in capsys.readouterr().err
    assert "judged  6 with a score, 6 judgements failed" in outcome.summary().text
    assert outcome.judgements_failed == study.judgements()["failed"].sum() == 6
    status = study.status()
    assert "12 of 18 judgements have a score, 6 failed;" in status_sentence(status)
    assert [*status["judgements"].values()] == [18, 18, 12, 6, 0, 0]
    assert status["judgement_failures"] == {"prose": 6}
    assert "unscored    6 x prose" in status_summary(status).text
    assert study.estimate()["calls"].tolist() == [0, 0, 0, 0]


def test_watching_ends_when_nobody_works(study):
    """The status is looked at again as long as a process is at work, and once more; without a time only once."""
    owner = Owner(study.store, study.name)
    owner.start()
    seen = []
    for look in statuses(study.status, 0.01):
        seen.append(look["at_work"])
        if len(seen) == 3:
            owner.close()
    assert seen == [True, True, True, False]
    assert len(list(statuses(study.status, None))) == 1


def test_a_judge_that_judged_twice_has_scored_where_one_time_can_be_read(tmp_path, store_folder, server):
    """Also while another judge is away, so that the ensemble has no score yet; a judge fails when no time can be."""
    times = Counter()

    def answer(body):
        times[body["model"]] += 1
        unreadable = body["model"] == "tertiary" or (body["model"], times[body["model"]]) == ("primary", 1)
        return "prose" if unreadable else plain(body)

    server.answer = answer
    server.faults = lambda n, body: Fault(status=400) if body["model"] == "secondary" else None
    path = stub_study(
        tmp_path, server.openai_url, runs="bases = 1", bins='["S"]', judges="repeats = 2\nrepair = false"
    )
    with Study.load(path) as study:
        study.execute(progress=False)
        counts = study.status()["judgements"]
    assert {name: counts[name] for name in ("planned", "scored", "failed")} == {
        "planned": 3, "scored": 1, "failed": 2,
    }  # fmt: skip
