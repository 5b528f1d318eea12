"""The desk, without a browser: what its buttons keep, show and refuse."""

from dataclasses import replace

import pytest

from toolkit.errors import StoreError
from toolkit.people.desk import Desk
from toolkit.people.rating import open_round
from toolkit.people.ratings_file import import_ratings
from toolkit.store.frames import history_frame
from toolkit.store.ratings import running_rounds
from toolkit.words import DIMENSIONS


@pytest.fixture
def desk(study):
    """The desk of anna, at her first reply."""
    return opened(study)


def opened(study, size=None):
    return Desk(study.plan, study.store, open_round(study.plan, study.store, "anna", size=size))


def save(desk, *scores):
    for name, score in zip(DIMENSIONS, scores, strict=False):
        desk.scores[name].value = score
    desk.save.click()


def pressed(desk):
    return [buttons.value for buttons in desk.scores.values()]


def kept(study):
    return list(study.human()[["run_id", "failed", "clarity"]].itertuples(index=False, name=None))


def test_no_score_is_pressed_at_first_and_saving_then_keeps_nothing(desk, study):
    """Scores are whole steps from 0 to 5, and a true zero is one; neither model nor run is shown."""
    first = desk.reply
    assert first.run_id not in desk.texts.value + desk.header.value
    assert "scripted" not in desk.header.value + desk.texts.value.split("<pre")[0]
    assert study.plan.rubric.steps == (0, 1, 2, 3, 4, 5)
    assert pressed(desk) == [None] * 7
    desk.save.click()
    assert "nothing is scored yet" in desk.status.value
    assert (desk.reply, kept(study)) == (first, [])
    save(desk, *[0.0] * 7)
    assert kept(study)[0][1:] == (False, 0.0)


def test_a_saved_rating_is_in_the_store_before_the_next_reply_is_shown(desk, study):
    first, there = desk.reply, []
    desk.texts.observe(lambda _: there.append(kept(study)), "value")
    desk.reasons.value = "good"
    save(desk, *[4.0] * 7)
    assert there == [[(first.run_id, False, 4.0)]]
    assert desk.reply == desk.round.replies[1]
    assert pressed(desk) == [None] * 7
    assert (desk.reasons.value, "1 of 6 rated" in desk.header.value) == ("", True)


def test_gaps_are_asked_about_once_and_then_kept_as_unfinished(desk, study):
    save(desk, 3.0, 3.0)
    assert "Not scored: Completeness, Risk awareness" in desk.status.value
    assert kept(study) == []
    desk.save.click()
    ((_, failed, _),) = kept(study)
    assert failed
    assert "1 unfinished" in desk.header.value


def test_a_dimension_that_may_be_null_may_stay_empty(desk, study):
    """Such a rating is finished, is saved at the first press, and its composites are the means of the six others."""
    save(desk, 4.0, 5.0, 3.0, None, 0.0, 2.0, 1.0)
    assert "1 of 6 rated" in desk.header.value
    (row,) = study.human().to_dict("records")
    assert (row["failed"], row["composite_strict"], row["composite"]) == (False, 2.5, 3.0)
    assert study.human()["compliance_alignment"].isna().all()
    desk.back.click()
    assert pressed(desk)[3] is None
    save(desk, 4.0, 5.0, 3.0, 1.0)
    assert study.human()["composite_strict"].tolist() == pytest.approx([16 / 7])


def test_back_shows_what_was_pressed_and_another_score_replaces_it(desk, study):
    first = desk.reply
    desk.back.click()
    assert "the first one" in desk.status.value
    save(desk, *[2.0] * 7)
    desk.back.click()
    assert desk.reply == first
    assert pressed(desk) == [2.0] * 7
    save(desk, *[1.0] * 7)
    assert kept(study) == [(first.run_id, False, 1.0)]


def test_what_cannot_be_kept_stays_at_the_desk_with_the_reason(desk, study, monkeypatch):
    first = desk.reply

    def broken(*_):
        raise StoreError("human_ratings: the store did not take a write")

    monkeypatch.setattr("toolkit.people.desk.rate", broken)
    save(desk, *[4.0] * 7)
    assert "Not kept (StoreError: human_ratings" in desk.status.value
    assert desk.reply == first
    assert pressed(desk) == [4.0] * 7


def test_seven_scores_can_be_typed_in_one_line(desk, study):
    """What is no score changes none."""
    scores = [4.0, 3.0, 5.0, None, 0.0, 2.0, 1.0]
    desk.typed.value = "4 3.0 5 - 0 2 1"
    assert pressed(desk) == scores
    for text in ("4 4", "4,5 1 1 1 1 1 1", "6 1 1 1 1 1 1", "3.5 1 1 1 1 1 1", "a b c d e f g"):
        desk.typed.value = text
        assert ("these are 2 scores; write 7" if text == "4 4" else "is no score") in desk.status.value
        assert pressed(desk) == scores


def test_what_a_model_wrote_is_text_and_nothing_else(study):
    round_ = open_round(study.plan, study.store, "anna")
    hostile = "<img src=x onerror=alert(1)> $x$ \x1b[31m</pre><script>1</script>"
    reply = replace(round_.replies[0], text=hostile, task="a < b & \ud800 c")
    desk = Desk(study.plan, study.store, replace(round_, replies=(reply, *round_.replies[1:])))
    assert "<img" not in desk.texts.value
    assert "<script" not in desk.texts.value
    assert desk.texts.value.count("</pre>") == desk.texts.value.count('dir="auto"') == 2
    assert "&lt;img src=x onerror=alert(1)&gt; $x$ &lt;/pre&gt;" in desk.texts.value
    assert "a &lt; b &amp;  c" in desk.texts.value


def test_a_round_is_ended_by_a_second_press_and_waits_for_nothing_then(study):
    """What has all scores stays; a larger size goes on; a round in which nobody rated leaves nothing behind."""
    empty = opened(study)
    empty.end.click()
    assert "6 replies will be left out of the round" in empty.status.value
    empty.end.click()
    assert running_rounds(study.plan, study.store) == {}
    assert study.store.database["rating_rounds"].count_documents({}) == 0
    desk = opened(study)
    first = desk.reply
    save(desk, *[4.0] * 7)
    assert len(running_rounds(study.plan, study.store)) == 6
    desk.end.click()
    desk.skip.click()  # what is pressed between takes it back
    desk.end.click()
    assert len(running_rounds(study.plan, study.store)) == 6
    desk.end.click()
    assert running_rounds(study.plan, study.store) == {}
    assert [reply.run_id for reply in opened(study).round.replies] == [first.run_id]
    assert len(opened(study, size=3).round.replies) == 3
    assert kept(study) == [(first.run_id, False, 4.0)]


def test_a_round_thrown_away_counts_nowhere_and_stays_in_the_history(study):
    """It asks once more; the same cell then begins a new round, and nothing of it was deleted."""
    desk = opened(study)
    first = desk.reply
    save(desk, *[4.0] * 7)
    assert study.human()["run_id"].tolist() == [first.run_id]
    desk.throw.click()
    assert "1 rating will count nowhere" in desk.status.value.replace("ratings", "rating")
    assert len(study.human()) == 1
    desk.throw.click()
    assert "Thrown away" in desk.status.value
    assert len(study.human()) == 0
    assert running_rounds(study.plan, study.store) == {}
    history = history_frame(study.store, study.runs(), study.plan.rubric.digest)
    assert history["score"].dropna().tolist() == [4.0] * 7
    assert not history["counts"].any()
    again = opened(study)
    assert (again.reply.run_id, again.round.rated, len(again.round.replies)) == (first.run_id, 0, 6)
    save(again, *[3.0] * 7)
    assert study.human()["composite"].tolist() == [3.0]


def test_a_score_from_a_file_between_two_buttons_is_shown_and_stays(desk, study, tmp_path):
    first = desk.reply
    path = tmp_path / "ratings.csv"
    path.write_text(f"run_id,{','.join(DIMENSIONS)}\n{first.run_id},4.2,1,1,1,1,1,\n")
    import_ratings(study.plan, study.store, path, "anna")
    again = opened(study)
    again.back.click()
    assert again.scores[DIMENSIONS[0]].value == 4.2
    again.scores["clarity"].value = 3.0
    again.save.click()
    assert study.human().iloc[0][[DIMENSIONS[0], "clarity"]].tolist() == [4.2, 3.0]


def test_a_line_of_a_file_without_the_optional_dimension_is_finished(study, tmp_path):
    """One that lacks another score is not."""
    first, second = study.runs()["run_id"].head(2)
    path = tmp_path / "ratings.csv"
    path.write_text(f"run_id,{','.join(DIMENSIONS)}\n{first},4,4,4,,4,4,1\n{second},4,4,4,4,4,4,\n")
    import_ratings(study.plan, study.store, path, "anna")
    human = study.human().set_index("run_id")
    assert human["failed"].to_dict() == {first: False, second: True}
    assert human.loc[first, "composite_strict"] == pytest.approx(21 / 6)
    assert human["composite_strict"].notna().sum() == 1
