"""Anybody's scores: the same numbers as a study gives, and what cannot be answered said beforehand."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from cases import cases
from click.testing import CliRunner
from pydantic import ValidationError
from refusals import refusal

from toolkit import Scores, stats
from toolkit.analyses import QUESTIONS
from toolkit.cli import cli
from toolkit.errors import NotAnswerable
from toolkit.stats.agreement.reliability import reliability
from toolkit.study_file import StudyFile

pytestmark = pytest.mark.usefixtures("no_pictures")


def ratings(*, items=30, models=("alpha", "beta"), judges=("j1", "j2", "j3"), people=0):
    """Return ratings from 1 to 7 with a truth: beta is a point below alpha."""
    drawn = np.random.default_rng(20261123)
    rows = []
    for item in range(items):
        base = drawn.normal(5, 1)
        for model in models:
            truth = base - (model == "beta")
            for judge in (*judges, *(["anna"] if item < people else [])):
                value = int(np.clip(round(truth + drawn.normal(0, 0.6)), 1, 7))
                rows.append((f"i{item}", model, judge, value, "human" if judge == "anna" else "llm"))
    return pd.DataFrame(rows, columns=["item", "model", "judge", "score", "human"])


@pytest.fixture(scope="module")
def scores():
    """Ratings of two models by three judges, of some by a person."""
    return Scores(ratings(people=12), name="mine")


def test_agreement_is_that_of_the_ratings_themselves(scores):
    """One row a rating of an answer, by the base that is the item."""
    frame = ratings()
    long = frame.assign(target=frame["item"] + frame["model"], base=frame["item"])
    expected = reliability(long[["target", "base", "judge", "score"]]).icc["score"]
    found = Scores(frame, name="mine").reliability().icc["composite"]
    assert [one.estimate for one in found] == pytest.approx([one.estimate for one in expected])
    assert [one.low for one in found] == pytest.approx([one.low for one in expected])


def test_models_are_compared_within_items(scores):
    """The mean of the differences, by pandas."""
    frame = ratings(people=12)
    wide = frame[frame["human"] == "llm"].pivot_table(index="item", columns="model", values="score")
    found = scores.compare_models().differences[0]
    assert found.estimate == pytest.approx((wide["alpha"] - wide["beta"]).mean())
    assert found.low < 1.0 < found.high
    assert found.unit == "score points (1-7)"


def test_every_number_is_on_the_scale_of_the_scores(scores):
    """No 0-5 in any unit, caption or sentence, and the bounds of what is missing are those of the scale."""
    for _, result in scores.analyses().values():
        assert "0-5" not in result.sentence()
        assert "0-5" not in " ".join(one.unit for _, one in result.rows())
    assert repr(scores) == "Scores 'mine': 30 items, 2 models, 3 judges, 1 person, scale 1-7"
    given = Scores(ratings(), name="mine", scale=(0, 10))
    assert given.compare_models().differences[0].unit == "score points (0-10)"
    refusal("score 7 is outside of the scale 0-5", Scores, ratings(), scale=(0, 5))


def test_people_are_held_against_judges(scores):
    """Their ratings are no judgements; where only people rated they are the judges."""
    assert set(scores.judgements()["judge"]) == {"j1", "j2", "j3"}
    assert set(scores.human()["rater"]) == {"anna"}
    assert scores.calibration().agreement[0].estimate > 0.5
    alone = Scores(ratings().assign(human=True), name="people")
    assert set(alone.judgements()["judge"]) == {"j1", "j2", "j3"}
    assert alone.unanswerable["calibration"] == "no column human that tells people from judges"


CANNOT = {
    "reliability": (lambda: ratings().query("judge == 'j1'").drop(columns="judge"), "no column judge"),
    "compare_judges": (lambda: ratings(judges=("j1",)), "one judge: agreement is not estimable"),
    "length": (ratings, "no column level"),
    "compare_models": (lambda: ratings(models=("alpha",)), "one model"),
    "dimension_profile": (ratings, "no column dimension"),
    "pareto": (ratings, "no column aud_cost"),
    "calibration": (lambda: ratings().drop(columns="human"), "no column human"),
    "hallucination": (ratings, "is asked of studies"),
}


@pytest.mark.parametrize("question", CANNOT)
def test_what_cannot_be_answered_says_why(question):
    """As an error of the call, and beforehand."""
    frame, why = CANNOT[question]
    scores = Scores(frame())
    assert refusal(why, getattr(scores.frames(), question), error=NotAnswerable).startswith(
        QUESTIONS[question]
    )


def test_an_answer_with_one_judge_of_several_is_missing():
    """As in a study; it is no zero."""
    frame = ratings()
    frame.loc[(frame["item"] == "i0") & (frame["judge"] != "j1"), "score"] = None
    runs = Scores(frame).runs()
    assert runs.loc[runs["base"] == "i0", "judged"].tolist() == [False, False]
    assert runs.loc[runs["base"] == "i0", "composite"].isna().all()
    assert runs["composite"].notna().sum() == 58


def test_the_composite_needs_all_dimensions_and_counts_zeros():
    """The mean of a part of them would be another composite."""
    frame = pd.DataFrame(cases(__file__), columns=["item", "judge", "dimension", "score"])
    said = Scores(frame).judgements().set_index(["base", "judge"])["composite"]
    assert said["a", "j1"] == 2.0
    assert said[["a", "b"]].isna().sum() == 2


def test_columns_are_chosen_by_name_and_in_any_order():
    """Shuffled rows and renamed columns give the same numbers."""
    frame = ratings()
    other = frame.sample(frac=1, random_state=1).rename(columns={"item": "doc", "score": "q7"})
    found = Scores(other, columns={"item": "doc", "score": "q7"})
    assert found.reliability().to_dict() == Scores(frame).reliability().to_dict()
    refusal("has no column 'nothing'", Scores, frame, columns={"item": "nothing"})
    refusal("'mood' is no column of ours", Scores, frame, columns={"mood": "item"})


def test_figures_and_bundle_are_written_and_the_same_twice(scores, tmp_path):
    """With the means of the models in place of prompt lengths, and every figure that is left out named."""
    once, again = (scores.bundle(tmp_path / name, supplement=True) for name in ("once", "again"))
    names = {path.name for path in once}
    files = {"model_means.pdf", "icc_forest.pdf", "models.tex", "people.tex", "bundle.tex", "manifest.json"}
    assert files <= names
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
    left = (tmp_path / "once" / "figures" / "left_out.txt").read_text()
    assert "quality_by_length: no column level (S, M, L)" in left
    told = (tmp_path / "once" / "methods.txt").read_text()
    assert "on a scale from 1 to 7" in told
    for path in once:
        if path.suffix in (".txt", ".tex", ".svg"):
            assert "0-5" not in path.read_text() or path.name.startswith("all_references")
            assert "0–5" not in path.read_text()


def test_without_judges_there_are_means_and_no_agreement(tmp_path):
    """Accuracy of an exact match, say."""
    frame = ratings(judges=("exact",)).drop(columns=["judge", "human"])
    scores = Scores(frame.assign(score=frame["score"] > 4), name="exact")
    files = scores.bundle(tmp_path, supplement=True)
    assert scores.scale == (0.0, 1.0)
    assert "model_means.pdf" in {path.name for path in files}
    assert not {"icc_forest.pdf", "reliability.tex"} & {path.name for path in files}


def test_the_command_says_what_it_took_before_it_writes(tmp_path):
    """As text and as JSON; a column is named as OURS=THEIRS."""
    ratings().rename(columns={"item": "doc"}).to_csv(tmp_path / "mine.csv", index=False)
    call = ["analyse", str(tmp_path / "mine.csv"), "--column", "item=doc", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, call, standalone_mode=False)
    assert done.exception is None
    assert "  doc: item\n" in done.output
    assert "  Quality and cost: no column aud_cost (AUD)\n" in done.output
    assert (tmp_path / "out" / "figures" / "model_means.png").is_file()
    told = json.loads(CliRunner().invoke(cli, [*call, "--json"], standalone_mode=False).stdout)
    assert told["columns"]["base"] == "doc"
    assert any(path.endswith("icc_forest.pdf") for path in told["files"])
    wrong = CliRunner().invoke(cli, [*call[:2], "--column", "doc"], standalone_mode=False)
    assert "write it as OURS=THEIRS" in str(wrong.exception)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 81, "a\0b", "a b"])
def test_a_name_is_a_file_name_and_nothing_else(name):
    """A study's, too."""
    refusal("name them by letters", Scores, ratings(), name=name)
    with pytest.raises(ValidationError):
        StudyFile(name=name, models=("gpt-4o",))


def test_units_come_with_the_frame_and_survive_a_copy(scores):
    """Also where statistics are called with the frame alone; no setting of the process holds the scale."""
    other = Scores(ratings().assign(score=lambda frame: frame["score"] / 7), name="shares")
    for given, ends in ((scores, "1-7"), (other, "0-1")):
        unit = f"score points ({ends})"
        runs = given.runs()
        assert {one.unit for _, one in stats.compare_models(runs, "composite").rows()} == {unit}
        assert given.ceiling().shares["all"][0].name.startswith(f"composite at the ceiling ({ends[-1]})")
        lengths = runs.assign(level="S")
        assert {one.unit for one in stats.compare_conditions(lengths, "composite").per_level} == {unit}
        mean = stats.compare_models(runs, "composite").differences[0]
        for copied in (copy.deepcopy(mean), pickle.loads(pickle.dumps(mean))):
            assert (copied, copied.unit.scale) == (mean, mean.unit.scale)
