"""Judges asked the same again on a later day: paid once a day, apart from the study, held to a tolerance."""

from dataclasses import replace
from datetime import date

import pandas as pd
import pytest
from cases import cases
from stub_study import REASONED, is_judge, stub_study

from toolkit import Study, stats
from toolkit.audit.verify import verify_study
from toolkit.errors import BudgetReached
from toolkit.pipeline import ask_stage
from toolkit.probes.drift import drift_job, measure_drift
from toolkit.store.documents import Anchor
from toolkit.store.writer import utc_now
from toolkit.thesis.methods import methods_section, methods_text, what_was_done
from toolkit.words import amount_text

STUDY = """
name = "moving"
dataset = "demo"
bases = 6
length_bins = ["S", "M"]
models = [{ name = "m", provider = "scripted", planted = { level = 3.0 } }]
[judges]
drift_tolerance = 0.5
primary = { name = "one", provider = "scripted", usd_per_million_input = 1, usd_per_million_output = 1, planted = {} }
secondary = { name = "two", provider = "scripted", planted = {} }
tertiary = false
"""


@pytest.fixture
def judged(tmp_path):
    """Return a study of twelve replies and two judges, all judged."""
    path = tmp_path / "moving.toml"
    path.write_text(STUDY)
    study = Study.load(path)
    study.run(progress=False)
    return study


def asked_anew(study, size=5, day=None):
    return measure_drift(study, drift_job(study.plan, study.store, size, day), progress=False).fields


def test_a_day_is_asked_once_and_is_no_judgement_of_the_study(judged):
    """The command pays what it asks, the same day nothing again, and the study's frames stay as they were."""
    before = judged.judgements()
    first = asked_anew(judged)
    assert (first["new_calls"], first["judgements"], first["unanswered"]) == (10, 10, 0)
    assert first["spent_aud"] > 0
    assert asked_anew(judged)["new_calls"] == 0
    pd.testing.assert_frame_equal(judged.judgements(), before)
    calls = judged.calls(purpose="drift")
    assert len(calls) == 10
    assert calls["aud_cost"].sum() == pytest.approx(first["spent_aud"])
    assert verify_study(judged).exit_code == 0


def test_later_days_ask_the_same_replies(judged):
    """The set is drawn once; another day is another measurement of it, with calls of its own."""
    for month in (11, 12):
        assert asked_anew(judged, day=date(2026, month, 25))["new_calls"] == 10
    days = judged.judge_drift()
    assert [day for _, day in days] == ["2026-11-25", "2026-12-25"]
    assert len({anchor for anchor, _ in days}) == 1
    third = drift_job(judged.plan, judged.store, 5, date(2027, 1, 25))
    assert third.anchor["fingerprint"] == drift_job(judged.plan, judged.store, 5).anchor["fingerprint"]
    assert drift_job(judged.plan, judged.store, 4).anchor["_id"] != third.anchor["_id"]


def test_two_sets_of_one_day_keep_their_rows_and_the_methods_have_cost_and_shift(judged):
    """Sets share replies, and so calls, of a day: each has all of its scores, and nothing is paid twice."""
    asked_anew(judged)
    assert asked_anew(judged, 12)["new_calls"] == 2 * (12 - 5)
    composites = [one.composites["primary"].shift for one in judged.judge_drift().values()]
    assert [(shift.n["pairs"], shift.missing) for shift in composites] == [(5, 0), (12, 0)]
    done = what_was_done(judged.plan, judged.store, judged.frames(), judged.status(), judged.manifest())
    methods = methods_text(methods_section(done))
    assert "The judges judged the same again on 1 day" in methods
    assert "; 5 replies, set" in methods
    assert f"The study cost AUD {amount_text(judged.status()['spent_aud'])} " in methods


@pytest.mark.parametrize(("tolerance", "code"), [("3.0", 0), ("0.0001", 1)])
def test_the_exit_code_says_whether_judges_stayed_within_the_tolerance(judged, toolkit, tolerance, code):
    """By the command line, with its line for each judge that is not shown to have stayed."""
    judged.path.write_text(STUDY.replace("0.5\n", f"{tolerance}\n", 1))
    end, out, _ = toolkit("judges", "drift", judged.path, "--size", "6", "--yes")
    assert (end, "is not within" in out) == (code, bool(code))


def test_what_answers_under_a_name_has_changed(server, open_study):
    """A server gives every score 4 at first and 3 a month later: each judge has moved by a point."""
    given = ["4.0"]

    def answer(body):
        return REASONED.replace("4.0", given[0]) if is_judge(body) else str(body["messages"])

    server.answer = answer
    study = open_study(judges="drift_tolerance = 0.5")
    study.run(progress=False)
    given[0] = "3.0"
    asked = asked_anew(study, 6, date(2027, 1, 25))
    study.close()
    drifts = next(iter(study.judge_drift().values())).composites
    assert {role: (d.shift.estimate, d.changed.estimate) for role, d in drifts.items()} == dict.fromkeys(
        ("primary", "secondary", "tertiary"), (-1.0, 1.0)
    )
    assert {*asked["outside"]} == {"primary", "secondary", "tertiary"}
    assert study.runs()["composite_strict"].eq(4.0).all()


def test_the_budget_caps_it_and_a_larger_one_goes_on(server, tmp_path):
    """What does not fit is not asked; with a larger budget the same day is completed, and nothing is paid twice."""
    server.answer = lambda body: REASONED if is_judge(body) else "Reply."
    path = stub_study(tmp_path, server.openai_url, more="[budget]\naud = 100\n")
    with Study.load(path) as study:
        study.run(progress=False)
        spent = study.status()["spent_aud"]
    day, before = date(2027, 1, 25), server.count
    path.write_text(path.read_text().replace("aud = 100", f"aud = {spent + 0.02}"))
    with Study.load(path) as study, pytest.raises(BudgetReached):
        asked_anew(study, 6, day)
    first = server.count - before
    path.write_text(path.read_text().replace(f"aud = {spent + 0.02}", "aud = 100"))
    with Study.load(path) as study:
        rest = asked_anew(study, 6, day)
    assert 0 < first < 18, first
    assert (rest["new_calls"], rest["unanswered"]) == (18 - first, 0)
    assert server.count - before == 18


def test_shift_agreement_and_changed_scores_by_hand():
    """Four replies, two of which rose by one point: shift .5, half of the scores changed; a missing pair is counted."""
    then = pd.DataFrame(cases(__file__)["then"], columns=["target", "base", "score"]).assign(
        judge="j", dimension="composite_strict"
    )
    now = then.assign(score=[4.0, 2.0, 4.0, 2.0, None])
    (drift,) = stats.judge_drift(then, now).drifts
    assert (drift.shift.estimate, drift.changed.estimate, drift.shift.missing) == pytest.approx((0.5, 0.5, 1))
    assert drift.shift.low < 0 < drift.shift.high


def test_what_was_asked_before_a_kill_is_not_asked_again(judged, monkeypatch):
    """Of a day that was cut off after some replies the next start asks the rest."""
    job = drift_job(judged.plan, judged.store, 5)
    judged.store.insert(Anchor, {"at": utc_now(), **job.anchor})
    first = [*job.stage.tasks(judged.plan, judged.store)][:4]
    part = replace(job.stage, tasks=lambda plan, store: first)
    assert len(ask_stage(part, judged.plan, judged.store, progress=False)[1]) == 4
    rest = measure_drift(judged, drift_job(judged.plan, judged.store, 5), progress=False)
    assert (rest.fields["new_calls"], rest.fields["unanswered"]) == (6, 0)
