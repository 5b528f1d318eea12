"""What people say of replies: rounds in a fixed order, files checked line by line, nothing overwritten or lost."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from cases import cases
from pymongo import UpdateOne
from refusals import refusal
from small_study import finished_study

from toolkit.people.rating import next_reply, open_round, rate
from toolkit.people.ratings_file import import_ratings
from toolkit.stats.agreement.reliability import reliability
from toolkit.stats.human.calibration import compare_with_people
from toolkit.store.frames import history_frame, human_frame, ratings_with_people
from toolkit.store.ratings import Rating, keep_order, keep_ratings, stored_order
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

FULL = dict.fromkeys(DIMENSIONS, 4.0)
LONG = "run_id,rater,dimension,score"
WIDE = "run_id,rater,clarity"


@pytest.fixture
def own_study(tmp_path):
    """One like it whose runs a test may change."""
    with finished_study(tmp_path) as loaded:
        yield loaded


def opened(study, rater="anna", **options):
    return open_round(study.plan, study.store, rater, **options)


def rated(study, round_, scores=FULL, reasons=""):
    """Rate the next reply of a round."""
    reply = next_reply(round_)
    assert reply is not None
    return rate(study.plan, study.store, round_, reply, scores, reasons)


def people(study):
    return human_frame(study.store, study.runs(), study.plan.rubric.digest)


def history_of(study):
    return history_frame(study.store, study.runs(), study.plan.rubric.digest)


def of_people(study):
    return study.store.database["annotations"].find({"model": "human"})


def imported(study, *given):
    return import_ratings(study.plan, study.store, *given)


def ids(round_):
    return [reply.run_id for reply in round_.replies]


def a_file(folder, header, *lines):
    path = folder / "ratings.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def counts(study):
    """How many versions of ratings, and how many judgements of people, the store holds."""
    return study.store.database["human_ratings"].count_documents({}), len(list(of_people(study)))


def test_a_round_is_blind_balanced_and_each_rater_s_own(study):
    """Every reply once, the length bins in turn, another order for each rater, and of a reply its text alone."""
    first, second = opened(study), opened(study, "ben")
    assert sorted(ids(first)) == sorted(ids(second)) == sorted(study.runs()["run_id"])
    assert ids(first) != ids(second)
    assert (first.rated, first.unfinished) == (0, 0)
    bins = study.runs().set_index("run_id")["level"]
    order = [bins[run_id] for run_id in ids(first)]
    assert Counter(order[:3]) == Counter(order[3:]) == Counter("SML")
    reply = first.replies[0]
    assert set(vars(reply)) == {"run_id", "task", "text", "blob_id"}
    assert reply.text == study.reply(reply.run_id)


def test_a_round_goes_on_at_the_first_reply_without_a_rating_in_the_same_order(study):
    """Another seed is another round, which knows what was rated."""
    before = rated(study, rated(study, opened(study)))
    after, other = opened(study), opened(study, seed=7)
    assert ids(after) == ids(before)
    assert (after.rated, next_reply(after)) == (2, after.replies[2])
    assert ids(other) != ids(before)
    assert set(other.ratings) == set(before.ratings)


def test_replies_that_came_since_go_to_the_end_of_the_round(tmp_path):
    with finished_study(tmp_path, limit=3) as growing:
        first = rated(growing, opened(growing))
        growing.execute(progress=False)
        again = opened(growing)
        assert ids(again)[:3] == ids(first)
        assert len(again.replies) == 6
        assert ids(opened(growing)) == ids(again)
        assert next_reply(again) == first.replies[1]


def test_names_that_look_the_same_are_one_rater_and_what_is_no_name_is_refused(study):
    """A space more, a space that does not break, or an accent as a sign of its own makes no second person."""
    for name in ("Zoë  K", " Zoe\u0308 K ", "Zoë\u00a0K"):
        assert opened(study, name).rater == "Zoë K"
    assert study.store.database["rating_rounds"].count_documents({}) == 0
    for name in ("Zoë  K", " Zoe\u0308 K "):
        rated(study, opened(study, name))
    assert study.store.database["rating_rounds"].count_documents({}) == 1
    refusal("'Zoë K' has rated here; write it the same way", opened, study, "zoë k")
    for rater in ("", "  ", "a/b", "-anna", "x" * 65, "<b>"):
        refusal("give up to 64 letters", opened, study, rater)


def test_a_rating_is_a_judgement_of_a_human_judge_and_changes_none_of_the_ensemble(study):
    before = study.judgements()
    runs_before = study.runs()
    scores = {**FULL, "clarity": 0.0, "relevance": 2.5}
    round_ = rated(study, opened(study), scores, "  too short  ")
    (found,) = of_people(study)
    assert found["run_id"] == round_.replies[0].run_id
    assert (found["judge"], found["failed"], found["aud_cost"]) == ("human:anna", False, None)
    assert found["call_id"].startswith("human:")
    assert (found["rubric"], found["rubric_hash"]) == (study.plan.rubric.name, study.plan.rubric.digest)
    assert found["scores"] == scores
    row = people(study).iloc[0]
    assert (row["rater"], row["reasons"], row["zeros"], row["failed"]) == ("anna", "too short", 1, False)
    assert row["composite"] == pytest.approx(22.5 / 6)
    assert row["composite_strict"] == pytest.approx(22.5 / 7)
    pd.testing.assert_frame_equal(study.judgements(), before)
    pd.testing.assert_frame_equal(study.runs(), runs_before)
    assert study.status()["judgements"]["done"] == 18
    assert study.execute(progress=False).new_calls == 0


def test_what_a_rating_leaves_out_is_missing_and_not_lost(study):
    round_ = rated(study, opened(study), {"clarity": 3.5, "relevance": None})
    assert (round_.rated, round_.unfinished) == (0, 1)
    row = people(study).iloc[0]
    assert row["failed"]
    assert row["failure"] == "unfinished: 1 of 7 dimensions scored"
    assert row[[*DIMENSIONS, "composite", "composite_strict"]].isna().all()
    history = history_of(study)
    assert history[["dimension", "score", "counts"]].values.tolist() == [["clarity", 3.5, True]]
    (found,) = of_people(study)
    assert (found["failed"], found["scores"], found["composite"]) == (True, None, None)
    for _ in range(5):  # it comes again after all others
        assert next_reply(round_) != round_.replies[0]
        round_ = rated(study, round_)
    assert (next_reply(round_), round_.rated) == (round_.replies[0], 5)
    assert rated(study, round_).rated == 6


def test_the_newest_version_counts_and_the_earlier_one_is_kept(study):
    round_ = rated(study, opened(study))
    reply = round_.replies[0]
    for _ in range(2):
        round_ = rate(study.plan, study.store, round_, reply, {**FULL, "clarity": 1.0})
    assert counts(study) == (2, 1)
    (row,) = people(study).to_dict("records")
    assert (row["clarity"], row["version"]) == (1.0, 2)
    history = history_of(study)
    clarity = history[history["dimension"] == "clarity"]
    assert clarity[["version", "score", "counts"]].values.tolist() == [[1, 4.0, False], [2, 1.0, True]]


def test_killed_between_rating_and_judgement_the_next_round_makes_the_judgement(study):
    rated(study, opened(study))
    study.store.database["annotations"].delete_many({"model": "human"})
    assert counts(study) == (1, 0)
    opened(study)
    assert counts(study) == (1, 1)


def test_a_rating_of_an_earlier_text_of_the_run_does_not_count(own_study):
    round_ = rated(own_study, opened(own_study))
    run_id, other = ids(round_)[:2]
    blob = own_study.store.database["runs"].find_one({"run_id": other})["output_blob_id"]
    own_study.store.database["runs"].update_one({"run_id": run_id}, {"$set": {"output_blob_id": blob}})
    assert people(own_study).empty
    again = opened(own_study)
    assert again.rated == 0
    assert next_reply(again).run_id == run_id
    history = history_of(own_study)
    assert len(history) == 7
    assert not history["counts"].any()


@pytest.mark.parametrize(("scores", "message"), CASES["no_rating"])
def test_a_rating_that_cannot_be_is_refused_and_not_kept(study, scores, message):
    refusal(message, rated, study, opened(study), scores)
    assert counts(study) == (0, 0)


def test_people_stand_beside_the_judges_in_the_reliability(study):
    round_ = opened(study)
    for score in (1.0, 2.0, 3.0, 4.0, 5.0):
        round_ = rated(study, round_, dict.fromkeys(DIMENSIONS, score))
    rated(study, round_, {"clarity": 2.0})
    ratings = ratings_with_people(study.judgements(), people(study))
    assert list(ratings.columns) == ["target", "base", "cluster", "level", "judge", "dimension", "score"]
    assert len(ratings) == 24 * 8
    result = reliability(ratings)
    assert result.icc["clarity"][0].n == {"bases": 2, "answers": 5, "judges": 4}
    assert {pair.name for pair in result.pearson["composite_strict"]} >= {"r(human:anna, primary)"}


def test_the_comparison_with_people_is_that_of_the_runs_they_rated():
    runs = pd.DataFrame(
        {"run_id": list("abcdef"), "base": list("aabbcc"), "composite_strict": [1, 2, 3, 4, 5, 3.0]}
    )
    human = runs.iloc[:5].assign(rater="anna")
    human["composite_strict"] -= [1, 0, 1, 0, 1.0]
    judgements = pd.concat([runs.assign(judge="secondary"), runs.assign(judge="primary")])
    found = compare_with_people(runs, judgements, human)
    assert [one.name for one in found] == [
        "ICC(A,1) of human:anna and ensemble",
        "ensemble less human:anna",
        "ICC(A,1) of human:anna and primary",
        "ICC(A,1) of human:anna and secondary",
    ]
    assert found[0].n == {"bases": 3, "answers": 5, "judges": 2}
    assert found[0].missing == 0
    assert found[1].estimate == pytest.approx(0.6)
    assert found[1].low < 0.6 < found[1].high


def test_a_long_file_is_kept_once_however_often_it_is_imported(study, tmp_path):
    first, second = ids(opened(study))[:2]
    raters = {"anna": 3, "ben": 4}
    rows = product((first, second), raters, DIMENSIONS)
    lines = [f"{run},{rater},{name},{raters[rater]}" for run, rater, name in rows]
    path = a_file(tmp_path, LONG, *lines)
    names = ("new", "changed", "unchanged", "unfinished", "raters")
    for kept in ([4, 0, 0], [0, 0, 4]):
        done = imported(study, path).fields
        assert [done[name] for name in names] == [*kept, 0, ["anna", "ben"]]
    assert counts(study) == (4, 4)
    assert people(study)["composite"].tolist() == [3.0, 3.0, 4.0, 4.0]
    assert set(people(study)["source"]) == {"file"}
    assert opened(study).rated == 2


def test_a_wide_file_of_one_rater_may_leave_scores_out_and_fill_them_in_later(study, tmp_path):
    first, second, third = ids(opened(study))[:3]
    names = ",".join(DIMENSIONS)
    path = a_file(
        tmp_path,
        f"run_id,base,{names},reasons",
        f"{first},x,4,4,4,4,4,4,4.25,fine",
        f'{second},x,3,,,,,,na,"part, only"',
        f"{third},x,,,,,,,,",
        "",
    )
    done = imported(study, path, "anna")
    assert [done.fields[name] for name in ("new", "unfinished", "empty")] == [2, 1, 1]
    assert "1 lack a dimension" in done.text
    later = a_file(tmp_path, f"run_id,{','.join(DIMENSIONS[1:])}", f"{second},0,1,2,3,4,5")
    assert imported(study, later, "anna").fields["changed"] == 1
    frame = people(study).set_index("run_id")
    assert frame.loc[second, list(DIMENSIONS)].tolist() == [3, 0, 1, 2, 3, 4, 5]
    assert frame.loc[second, "reasons"] == "part, only"
    assert frame.loc[first, "clarity"] == 4.25


def test_an_import_that_was_killed_half_way_is_completed_by_the_same_command(study, tmp_path):
    first, second = ids(opened(study))[:2]
    path = a_file(tmp_path, WIDE, f"{first},anna,4", f"{second},anna,3")
    imported(study, path)
    study.store.database["human_ratings"].delete_many({"run_id": second})
    study.store.database["annotations"].delete_many({"model": "human"})
    done = imported(study, path)
    assert (done.fields["new"], done.fields["unchanged"]) == (1, 1)
    assert counts(study) == (2, 2)


@pytest.mark.parametrize(("header", "line", "message"), CASES["wrong_lines"])
def test_a_wrong_line_is_named_and_nothing_is_kept(study, tmp_path, header, line, message):
    run_ids = study.runs()["run_id"].tolist()
    good = {LONG: f"{run_ids[1]},anna,clarity,4", WIDE: f"{run_ids[1]},anna,4"}
    path = a_file(
        tmp_path, header, line.format(*run_ids), *([good[header]] if header in good and line else ())
    )
    assert str(path) in refusal(message, imported, study, path)
    assert counts(study) == (0, 0)


def test_a_file_that_cannot_be_taken_is_one_line(study, tmp_path):
    """Not there, not text, a rater both in it and given, a frame of the judges; lines are counted as in the file."""
    one, two = study.runs()["run_id"][:2]
    (tmp_path / "binary.csv").write_bytes(b"run_id\xff\xfe")
    study.runs().to_csv(tmp_path / "runs.csv", index=False)
    lines = a_file(tmp_path, f"{WIDE},reasons", f'{one},anna,4,"two\nlines"', f"{two},anna,9,")
    for path, rater, says in (
        (tmp_path / "none.csv", None, "there is no such file"),
        (tmp_path / "binary.csv", None, "is not UTF-8"),
        (lines, "ben", "name the rater either"),
        (tmp_path / "runs.csv", "anna", "is unknown"),
        (lines, None, "line 4, column clarity: 9"),
    ):
        refusal(says, imported, study, path, rater)
    assert counts(study) == (0, 0)


@pytest.mark.parametrize(("change", "message"), CASES["not_for_judges"])
def test_a_run_that_no_judge_may_see_cannot_be_rated(own_study, tmp_path, change, message):
    run_id = own_study.runs()["run_id"][0]
    own_study.store.database["runs"].update_one({"run_id": run_id}, {"$set": change})
    assert len(opened(own_study).replies) == 5
    path = a_file(tmp_path, WIDE, f"{run_id},anna,4")
    refusal(message, imported, own_study, path)


def test_an_order_that_two_processes_keep_at_once_holds_each_run_once(study, monkeypatch):
    """Added by $push, which promises an order; $addToSet does not."""
    submit, operators = study.store.writer.submit, []

    def noting(collection, operation, **how):
        operators.extend(operation._doc if isinstance(operation, UpdateOne) else ())
        return submit(collection, operation, **how)

    monkeypatch.setattr(study.store.writer, "submit", noting)
    for order in (["a", "b"], ["b", "a", "c"]):
        keep_order(study.store, "small", "anna", "h", 1, None, order)
    assert operators == ["$push", "$set"]
    assert stored_order(study.store, "small", "anna", "h", 1) == (("a", "b", "c"), None)
    assert stored_order(study.store, "small", "ben", "h", 1) is None


def test_two_desks_of_one_rater_at_the_same_moment_keep_both_versions(study):
    reply = opened(study).replies[0]
    one = Rating("small", "anna", reply.run_id, reply.blob_id, "r", study.plan.rubric.digest, FULL)
    other = replace(one, scores={**FULL, "clarity": 2.0})
    with ThreadPoolExecutor() as desks:
        list(desks.map(keep_ratings, [study.store] * 2, [[one], [other]]))
    found = study.store.database["human_ratings"].find({})
    assert sorted(document["version"] for document in found) == [1, 2]
