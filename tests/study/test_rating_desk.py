"""The desk over real HTTP on this machine: what it saves, shows and refuses, and to whom."""

import json
import signal

import pytest
from cases import cases
from loopback_client import Person, ask, served, started
from refusals import refusal

from toolkit.errors import StoreError
from toolkit.people.desk import desk_server
from toolkit.people.ratings_file import import_ratings
from toolkit.store.frames import history_frame
from toolkit.store.ratings import running_rounds
from toolkit.words import DIMENSIONS

CASES = cases(__file__)
START = json.dumps({"what": "start"})
OURS = {"Origin": "http://127.0.0.1:{port}"}


@pytest.fixture
def address(study):
    """The address of a desk for all raters."""
    with served(*desk_server(study.plan, study.store)) as address:
        yield address


@pytest.fixture
def anna(address):
    """A rater, at her first reply."""
    return Person(address)


def kept(study):
    return list(study.human()[["run_id", "failed", "clarity"]].itertuples(index=False, name=None))


def test_only_the_page_itself_is_answered(address, capfd):
    """Another page of this machine or of a site is not, nor is who has no token, and nothing is in a log."""
    for origin in CASES["origins"]:
        assert ask(address, method="POST", body=START, Origin=origin)[0] == 403
    assert ask(address, method="POST", body=START)[0] == 403
    for place in ({"path": "{right}x"}, {"host": "evil.example"}):
        assert ask(address, method="POST", body=START, **OURS, **place)[::2] == (403, b"Forbidden.")
    assert capfd.readouterr() == ("", "")


def test_what_is_no_question_is_refused_and_the_desk_goes_on(address):
    for body in (*CASES["bodies"], "[" * 9999):
        assert ask(address, method="POST", body=body.encode("latin-1"), **OURS)[0] == 400
    for size in CASES["sizes"]:
        assert ask(address, method="POST", **OURS, **{"Content-Length": size})[0] == 400
    for question in CASES["questions"]:
        answer = ask(address, method="POST", body=json.dumps(question), **OURS)[2]
        assert b'{"error": "Not done (' in answer
    assert ask(address)[0] == 200


def test_of_a_reply_its_texts_are_told_and_neither_model_nor_score(address, anna, study):
    """The page itself has nothing of the study, and its policy lets its own script run and ask its own server."""
    _, headers, page = ask(address)
    assert b"small" not in page
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.endswith("connect-src 'self'; frame-ancestors 'none'")
    told = json.loads(ask(address, method="POST", body=START, **OURS)[2])["value"]
    assert told["steps"] == [*"012345"]
    needed = {one["name"]: one["needed"] for one in told["dimensions"]}
    assert needed == dict.fromkeys(DIMENSIONS, True) | {"compliance_alignment": False}
    assert [[*anna.state], [*anna.reply]] == [CASES["round"], CASES["reply"]]
    assert (anna.text, anna.scores) == (study.reply(anna.run_id), {})
    assert "judge-" not in json.dumps([told, anna.state])


def test_a_saved_rating_is_in_the_store_before_the_next_reply_comes(anna, study):
    """A true zero is a score; nothing scored saves nothing; an unfinished one does not count."""
    first = anna.run_id
    assert "nothing is scored yet" in anna.save("- -")
    assert (anna.run_id, kept(study)) == (first, [])
    assert anna.save("0 0 0 0 0 0 0", "good") is None
    assert kept(study) == [(first, False, 0.0)]
    assert (anna.rated, anna.place, anna.scores, anna.reasons) == (1, 2, {}, "")
    anna.save("3 3")
    assert (anna.rated, anna.unfinished) == (1, 1)
    assert sorted(failed for _, failed, _ in kept(study)) == [False, True]


def test_previous_shows_what_was_saved_and_another_score_replaces_it(anna, study):
    """Without the dimension that may be null a rating is finished, and its composites are the means of the others."""
    first = anna.run_id
    assert anna("turn", run_id=first, back=True) == "This is the first reply."
    anna.save("4 5 3 - 0 2 1", "mild")
    (row,) = study.human().to_dict("records")
    assert (row["failed"], row["composite_strict"], row["composite"]) == (False, 2.5, 3.0)
    assert study.human()["compliance_alignment"].isna().all()
    anna("turn", run_id=anna.run_id, back=True)
    assert (anna.run_id, "".join(anna.scores.values()), anna.reasons) == (first, "453021", "mild")
    anna.save("4 5 3 1 0 2 1")
    assert study.human()["composite_strict"].tolist() == pytest.approx([16 / 7])


@pytest.mark.parametrize("score", CASES["scores"])
def test_a_score_that_is_none_of_the_steps_is_refused_and_nothing_is_saved(anna, study, score):
    assert f"{score!r} is no score: write 0 to 5 in steps of 1 like 4" in anna.save(f"{score} 4 4 4 4 4 4")
    assert (anna.place, kept(study)) == (1, [])


def test_a_score_from_a_file_between_two_steps_is_shown_and_stays(anna, study, address, tmp_path):
    first = anna.run_id
    path = tmp_path / "ratings.csv"
    path.write_text(f"run_id,{','.join(DIMENSIONS)}\n{first},4.2,1,1,1,1,1,\n")
    import_ratings(study.plan, study.store, path, "anna")
    again = Person(address)
    assert again.place == 2
    again("turn", run_id=again.run_id, back=True)
    assert again.scores[DIMENSIONS[0]] == "4.2"
    assert again.save("4.2 4.2 1 1 1 1 3").startswith("'4.2' is no score")
    again.save("4.2 1 1 1 1 1 3")
    assert study.human().iloc[0][[DIMENSIONS[0], "clarity"]].tolist() == [4.2, 3.0]


def test_what_cannot_be_saved_is_an_error_without_a_secret_and_the_reply_stays(anna, study, monkeypatch):
    first = anna.run_id

    def broken(*_):
        raise StoreError("human_ratings: no write to mongodb://anna:Pa55word123@host")

    with monkeypatch.context() as patch:
        patch.setattr("toolkit.people.desk.rate", broken)
        error = anna.save("4 4 4 4 4 4 4")
    assert error.startswith("Not done (StoreError: human_ratings")
    assert "Pa55word123" not in error
    assert (anna.run_id, kept(study)) == (first, [])
    assert anna.save("4 4 4 4 4 4 4") is None


def test_two_raters_rate_at_one_desk_each_by_a_round_of_their_own(address, anna, study):
    ben = Person(address, "ben", size=3)
    assert (ben.replies, anna.replies) == (3, 6)
    rated = {"anna": anna.run_id, "ben": ben.run_id}
    assert anna.save("4 4 4 4 4 4 4") is None
    assert ben.save("2 2 2 2 2 2 2") is None
    assert study.human().set_index("rater")["run_id"].to_dict() == rated
    assert study.human().set_index("rater")["clarity"].to_dict() == {"anna": 4, "ben": 2}


def test_of_two_desks_of_one_rater_the_last_rating_counts(address, anna, study):
    """Also where the desk at which it is saved did not see the one between."""
    with served(*desk_server(study.plan, study.store)) as second:
        other, first = Person(second), anna.run_id
        anna.save("4 4 4 4 4 4 4")
        other.save("2 2 2 2 2 2 2")
    anna("turn", run_id=anna.run_id, back=True)
    anna.save("4 4 4 4 4 4 4")
    assert kept(study) == [(first, False, 4.0)]


def test_a_round_is_ended_or_thrown_away(address, anna, study):
    """What has all scores stays; a larger size goes on; a round in which nobody rated leaves nothing behind."""
    anna("end")
    assert (anna.reply, running_rounds(study.plan, study.store)) == (None, {})
    assert study.store.database["rating_rounds"].count_documents({}) == 0
    anna = Person(address)
    first = anna.run_id
    anna.save("4 4 4 4 4 4 4")
    assert len(running_rounds(study.plan, study.store)) == 6
    anna("end")
    assert running_rounds(study.plan, study.store) == {}
    assert (Person(address).replies, Person(address, size=3).replies) == (1, 3)
    assert kept(study) == [(first, False, 4.0)]
    anna = Person(address)
    anna("throw")
    assert (len(study.human()), running_rounds(study.plan, study.store)) == (0, {})
    history = history_frame(study.store, study.runs(), study.plan.rubric.digest)
    assert history["score"].dropna().tolist() == [4.0] * 7
    assert not history["counts"].any()
    again = Person(address)
    assert (again.run_id, again.rated, again.replies) == (first, 0, 6)
    again.save("3 3 3 3 3 3 3")
    assert study.human()["composite"].tolist() == [3.0]


def test_in_a_notebook_the_same_desk_answers_by_messages(study):
    """The round of one rater is open before the widget stands there, and no text of it is state of the widget."""
    widget, sent = study.rate("anna", size=2), []
    widget.send = sent.append
    widget._on_message(None, {"ask": "1", "what": "start"}, [])
    state = sent[0]["value"]["round"]
    assert (state["rater"], state["replies"]) == ("anna", 2)
    assert state["reply"]["text"] not in json.dumps(widget.get_state())
    refusal("give up to 64 letters", study.rate, "<b>")


def test_a_killed_desk_goes_on_where_it_was_acknowledged(study, monkeypatch):
    """The command, in a process of its own: what it had answered is there, and Ctrl-C ends it in peace."""
    monkeypatch.setenv("BROWSER", "true")
    rated = []
    for end, code in ((signal.SIGKILL, -9), (signal.SIGINT, 0)):
        with started("ratings", "desk", str(study.path)) as (process, line, address):
            assert line == "The desk of small, for this machine alone, until Ctrl-C:"
            anna = Person(address)
            assert (anna.rated, anna.place) == (len(rated), len(rated) + 1)
            rated.append(anna.run_id)
            assert anna.save("4 3 5 0 2 1 4", "short") is None
            process.send_signal(end)
            assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == code
    assert study.human().set_index("run_id").loc[rated, "reasons"].tolist() == ["short"] * 2
    assert study.human()["clarity"].tolist() == [4.0] * 2


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
