"""The main job: everything is asked once, failures are recorded and missing, a killed study resumes."""

import pytest
from stub_server import Fault
from stub_study import REASONED, is_judge

from toolkit.audit.verify import verify_study
from toolkit.errors import PriceError
from toolkit.study import Study

SHORT = '["S"]'


def again(study, old, new):
    """Load a study once more, with its file changed in one place."""
    study.close()
    text = study.path.read_text()
    study.path.write_text(text.replace(old, new) if old else text + new)
    return Study.load(study.path)


def test_a_finished_study_makes_no_call(study_file):
    """Twelve runs and 36 judgements that hold together; the second time nothing is asked and everything is there."""
    first = Study.load(study_file("repeats = 2")).execute(progress=False)
    assert (first.succeeded, first.failed, first.judged, first.new_calls) == (12, 0, 12, 48)
    study = Study.load(study_file("repeats = 2"))
    second = study.execute(progress=False)
    assert (second.succeeded, second.judged, second.new_calls, second.exit_code) == (12, 12, 0, 0)
    frames = (study.runs(), study.judgements(), study.dimensions())
    assert [len(frame) for frame in frames] == [12, 36, 36 * 7]
    assert verify_study(study).fields["differences"] == []


def test_a_failed_run_is_recorded_and_stops_nothing(server, open_study):
    """One prompt is refused: its run has a reason and no scores, the others are whole; later it is asked again."""
    refused = []

    def faults(number, body):
        text = body["messages"][-1]["content"]
        if not is_judge(body) and (not refused or text == refused[0]):
            refused[:] = [text]
            return Fault(status=400)
        return None

    server.faults, server.answer = faults, lambda b: REASONED if is_judge(b) else "Block it."
    study = open_study()
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.failed, outcome.judged, outcome.exit_code) == (5, 1, 5, 1)
    assert list(outcome.failures) == ["bad_request"]
    failed = study.runs(status="failed")
    assert failed[["composite", "aud_cost"]].isna().all(axis=None)
    assert failed["failure"].str.startswith("bad_request").all()
    assert "failed  1 x bad_request\n" in outcome.summary().text
    assert "next  `toolkit run STUDY` asks what failed again" in outcome.summary().text
    again = study.execute(progress=False).summary()
    assert "failed  1 x bad_request, as before\n" in again.text
    assert (again.exit_code, "asks what failed again" in again.text) == (1, False)
    seen, server.faults = server.count, None
    second = study.execute(progress=False)
    assert (second.succeeded, second.failed, second.judged, second.new_calls) == (6, 0, 6, 4)
    assert server.count == seen + 4
    assert study.runs()["failure"].isna().all()


def cut_off(server, below):
    """Have a server's replies end for want of tokens when asked for fewer than ``below``."""

    def change(reply):
        text = reply["choices"][0]["message"]["content"]
        if text.startswith("Plan") and int(text.split()[1]) < below:
            reply["choices"][0]["finish_reason"] = "length"
        return reply

    def answer(body):
        return REASONED if is_judge(body) else f"Plan {body['max_tokens']} {str(body['messages'])[-300:]}"

    server.answer, server.change = answer, change


def test_replies_cut_off_are_marked_and_treated_as_the_study_says_now(server, open_study):
    """Excluded by default, then kept, then asked again with more tokens, then excluded: each call is paid once."""
    cut_off(server, 8000)
    study = open_study(bins=SHORT)
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, outcome.excluded) == (2, 0, {"truncated": 2})
    assert server.count == 2
    runs = study.runs()
    assert (list(runs["defect"]), list(runs["excluded"])) == (["truncated"] * 2, [True] * 2)
    assert runs["composite"].isna().all()
    assert "2 x truncated" in outcome.summary().text
    assert study.status()["excluded"] == {"truncated": 2}
    study = again(study, "", '[replies]\ntruncated = "keep"\n')
    kept = study.execute(progress=False)
    assert (kept.judged, kept.new_calls, kept.excluded) == (2, 6, {})
    assert list(study.runs()["defect"]) == ["truncated"] * 2
    assert not study.runs()["excluded"].any()
    study = again(study, '"keep"', '"retry"')
    retried = study.execute(progress=False)
    # 2000 is there; 4000 and 8000 are asked, and the whole reply is judged anew.
    assert (retried.judged, retried.new_calls, retried.excluded) == (2, 2 * 2 + 6, {})
    runs = study.runs()
    assert runs["defect"].isna().all()
    assert all("8000" in study.reply(run_id) for run_id in runs["run_id"])
    assert (runs["attempts"] == 3).all()
    study = again(study, '"retry"', '"exclude"')
    assert study.execute(progress=False).new_calls == 0


@pytest.mark.parametrize("word", ["banana", "error", None])
def test_a_reply_whose_end_nobody_knows_is_judged_only_if_the_study_says_so(server, open_study, word):
    """It has a text that was paid for, is marked everywhere, and no number rests on it unasked."""
    defect = "truncated" if word == "error" else "unknown_finish"

    def change(reply):
        text = reply["choices"][0]["message"]["content"]
        reply["choices"][0]["finish_reason"] = "stop" if text == REASONED else word
        return reply

    server.change, server.answer = change, lambda b: REASONED if is_judge(b) else "Plan"
    study = open_study(bins=SHORT)
    outcome = study.execute(progress=False)
    assert (outcome.judged, outcome.new_calls, outcome.excluded) == (0, 2, {defect: 2})
    runs = study.runs()
    assert (list(runs["defect"]), runs["composite_strict"].isna().all()) == ([defect] * 2, True)
    left_out = f"2 runs (2 of answerer) left out by replies.{defect} = exclude"
    assert left_out in set(study.deviations()["after"])
    study = again(study, "", f'[replies]\n{defect} = "keep"\n')
    assert (study.execute(progress=False).judged, study.runs()["excluded"].any()) == (2, False)


def test_a_model_without_a_price_is_refused_before_the_first_call(server, open_study):
    """Not a single request is sent when the cost cannot be counted."""
    study = open_study()
    study = again(study, ", usd_per_million_input = 1.0, usd_per_million_output = 2.0", "")
    with pytest.raises(PriceError, match="answerer"):
        study.run(progress=False)
    assert server.count == 0


def test_replay_makes_everything_again_without_a_network(server, open_study):
    """What was never asked stays missing; with runs and judgements gone the ledger alone gives the same scores."""
    study = open_study()
    outcome = study.execute(progress=False, replay=True)
    assert (outcome.succeeded, outcome.failed, server.count) == (0, 0, 0)
    study.run(progress=False)
    seen, before, said = server.count, study.runs(), study.judgements()
    for name in ("runs", "judgements", "output_blobs"):
        study.store.database[name].delete_many({})
    outcome = study.execute(progress=False, replay=True)
    assert (outcome.succeeded, outcome.judged, outcome.new_calls, outcome.exit_code) == (6, 6, 0, 0)
    new = ["run_id", "created_at"]
    assert study.runs().drop(columns=new).equals(before.drop(columns=new))
    assert study.judgements().drop(columns=new).equals(said.drop(columns=new))
    assert server.count == seen


def test_an_empty_reply_is_kept_and_not_judged(server, open_study):
    """A reply without text was paid for and stays, but no judge is paid to look at nothing."""
    server.answer = lambda body: ""
    study = open_study(bins=SHORT)
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, server.count) == (2, 0, 2)
    assert study.execute(progress=False).new_calls == 0
    assert study.runs()["composite"].isna().all()


def test_a_reply_that_stays_cut_off_is_excluded_after_the_retries(server, open_study):
    """Two retries with twice the tokens each, all paid for, all counted, and still not scored."""
    retry = '[replies]\ntruncated = "retry"\nretries = 2\n'
    cut_off(server, 10**6)
    study = open_study(bins=SHORT, more=retry)
    outcome = study.execute(progress=False)
    assert (outcome.excluded, outcome.judged, server.count) == ({"truncated": 2}, 0, 6)
    asked = sorted(seen.body["max_tokens"] for seen in server.seen)
    assert asked == [2000, 2000, 4000, 4000, 8000, 8000]
    assert study.runs()["aud_cost"].sum() == pytest.approx(study.calls()["aud_cost"].sum())
    assert study.execute(progress=False).new_calls == 0


def test_judges_that_cannot_be_read_are_missing_and_fewer_than_two_leave_a_run_unjudged(server, open_study):
    """Prose from one judge leaves two; prose from two leaves the run unjudged; nothing becomes a zero."""

    def answer(body):
        if not is_judge(body):
            return f"Plan: {body['messages'][-1]['content'][-400:]}"
        if body["model"] == "primary":
            return "I would give it a five."
        off_scale = body["model"] == "secondary" and "ATT&CK" in str(body["messages"])
        return REASONED.replace("4.0", "9.0") if off_scale else REASONED

    server.answer = answer
    study = open_study()
    study.run(progress=False)
    runs, judgements = study.runs(), study.judgements()
    reasons = judgements.query("judge == 'primary'")["failure"].str.split(":").str[0]
    assert set(reasons) == {"prose"}
    assert set(runs["judge_count"]) == {1, 2}
    unjudged = runs[runs["judge_count"] == 1]
    assert not unjudged["judged"].any()
    assert unjudged["composite"].isna().all()
    assert (runs[runs["judge_count"] == 2]["composite"] == 4.0).all()
    assert not (judgements["composite"] == 0).any()
