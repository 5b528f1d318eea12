"""What is missing and what lies at an end of the scale: shares, bounds."""

import numpy as np
import pandas as pd
import pytest
from score_tables import check_shown, crossed, ends, named, numbers, width

from toolkit.stats.comparisons.missing_data import ceiling, missing_bounds, missing_data
from toolkit.stats.comparisons.models import compare_models
from toolkit.stats.conditions.contrasts import compare_conditions
from toolkit.stats.inference.proportions import share


def scores(seed=1, top=0.4):
    rng = np.random.default_rng(seed)
    levels = {"model": ("m1", "m2"), "judge": ("primary", "secondary")}
    frame = crossed(base=named("b", 12), level="SML", **levels)
    return frame.assign(composite_strict=np.where(rng.random(len(frame)) < top, 5.0, 3.5))


def test_shares_are_those_of_the_group_with_intervals_by_base():
    frame = scores()
    found = ceiling(frame)
    groups = "all/level S/level M/level L/model m1/model m2/judge primary/judge secondary"
    assert list(found.shares) == groups.split("/")
    rows = frame[frame["level"] == "L"]
    oracle = share("x", list(rows["composite_strict"] == 5), list(rows["base"]))
    top, bottom = found.shares["level L"]
    assert numbers(top) == numbers(oracle)
    assert (bottom.estimate, bottom.low) == (0.0, 0.0)
    assert top.n == {"scores": 48, "bases": 12}


def test_it_warns_above_the_limit_only():
    assert any(
        "composite_strict are at the ceiling (5), all" in text for text in ceiling(scores(top=0.5)).warnings
    )
    assert ceiling(scores(top=0.5), limit=0.9).warnings == ()
    assert ceiling(scores(top=0.1)).warnings == ()
    floor = scores(top=0.6)
    floor["composite_strict"] = 5 - floor["composite_strict"]
    assert any("at the floor (0)" in text for text in ceiling(floor).warnings)
    assert "means hide differences there" in ceiling(scores(top=0.5)).sentence()


def test_a_missing_score_is_no_floor():
    frame = scores()
    gone = frame.assign(composite_strict=frame["composite_strict"].where(frame.index % 7 != 0))
    top, bottom = ceiling(gone).shares["all"]
    assert (top.missing, bottom.estimate) == (int(gone["composite_strict"].isna().sum()), 0.0)
    assert top.estimate == (gone["composite_strict"].dropna() == 5).mean()


def test_an_empty_group_and_a_frame_without_groups():
    frame = scores().assign(composite_strict=np.nan)
    found = ceiling(frame)
    assert found.shares["all"][0].estimate is None
    assert "not estimable" in found.sentence()
    check_shown(found)
    bare = ceiling(pd.DataFrame({"base": ["a"], "composite_strict": [5.0]}))
    assert list(bare.shares) == ["all"]
    assert bare.shares["all"][0].low < 0.5
    assert len(bare.frame()) == 2


def study(bases=10, seed=3):
    rng = np.random.default_rng(seed)
    frame = crossed(base=named("b", bases), model=["m1", "m2"], level="SML")
    return frame.assign(composite_strict=rng.choice([2.0, 3.0, 3.5, 4.0], len(frame)))


def test_shares_are_counted_at_every_place():
    runs = study()
    runs.loc[runs["level"] == "L", "composite_strict"] = [np.nan, 3.0, 3.0, np.nan] * 5
    judgements = pd.DataFrame(
        {"base": ["b1", "b2"] * 3, "judge": list("aabbcc"), "composite_strict": [1, 2, None, None, 3, 4]}
    )
    judgements["failure"] = [None, None, "outside the scale", "not JSON", None, None]
    found = missing_data(runs, judgements)
    assert [(one.name, one.estimate) for one in found.overall] == [
        ("missing runs", pytest.approx(1 / 6)),
        ("missing judgements", pytest.approx(1 / 3)),
    ]
    assert {one.name: one.estimate for one in found.shares["level"]} == {
        "missing, level L": 0.5,
        "missing, level M": 0.0,
        "missing, level S": 0.0,
    }
    assert [one.estimate for one in found.shares["judge"]] == [0.0, 1.0, 0.0]
    assert all(one.low <= one.estimate <= one.high for one in found.shares["judge"])
    assert found.reasons == {"not JSON": 1, "outside the scale": 1}
    assert "not JSON 1" in found.sentence()
    check_shown(found)
    assert set(found.frame()["missing by"]) == {"all", "level", "model", "judge"}


def test_a_run_that_failed_keeps_its_reason():
    runs = study().assign(failure=None, defect=None)
    runs.loc[0, ["composite_strict", "failure"]] = [None, "timeout"]
    runs.loc[1, ["composite_strict", "defect"]] = [None, "refusal"]
    runs.loc[2, "composite_strict"] = None
    assert missing_data(runs).reasons == {"refusal": 1, "runs without a reason": 1, "timeout": 1}


@pytest.mark.parametrize("end", ["missing", "there"])
def test_a_group_that_lacks_nothing_is_as_well_known_as_one_that_lacks_one_score(end):
    """How alike the answers of a base are is what all groups say: 0 of 137 was drawn to 24 %, 1 of 137 to 9 %."""
    rows = [(f"b{n % 12}", "S", model) for model in ("m1", "m2") for n in range(137)]
    runs = pd.DataFrame(rows, columns=["base", "level", "model"]).assign(composite_strict=3.0)
    runs.loc[5, "composite_strict"] = None
    if end == "there":
        runs["composite_strict"] = runs["composite_strict"].isna().map({True: 3.0, False: None})
    one, none = missing_data(runs).shares["model"]
    assert abs(none.estimate - one.estimate) == pytest.approx(1 / 137)
    assert 0.3 * width(one) < width(none) < width(one)
    rates = runs.assign(right=runs["composite_strict"].isna().astype(float), prompt_id=range(len(runs)))
    means = dict(compare_models(rates, "right", rate=True).models)
    assert ends(means["m2"]) == pytest.approx(ends(none))
    # Where answers of a base are all alike, and where no group says how alike they are, a base counts once.
    runs["composite_strict"] = (
        runs["base"].eq("b3").map({True: None, False: 3.0}).where(runs["model"] == "m1", 3.0)
    )
    alike = missing_data(runs).shares["model"][1]
    assert 0.1 < alike.high < 0.2425
    complete = missing_data(runs.assign(composite_strict=3.0))
    for count in (*complete.overall, *complete.shares["model"]):  # a complete count is no sample
        assert numbers(count) == (0.0, None, None)
        assert count.remarks == "no interval: no score is missing"


def test_one_base_and_nothing_scored_give_results():
    runs = study(bases=1)
    assert missing_data(runs).overall[0].estimate == 0.0
    empty = missing_data(runs.assign(composite_strict=np.nan))
    assert empty.overall[0].estimate == 1.0
    assert all(one.estimate is None for one in empty.bounds.contrasts["complete cases"])
    assert "M-S is not estimable" in empty.sentence()


def test_no_scores_within_the_scale_take_a_contrast_beyond_its_bounds():
    """Every filling of the gaps by whole and half scores, drawn 20 times, lies between lowest and highest."""
    rng = np.random.default_rng(2)
    runs = study()
    gone = rng.random(len(runs)) < 0.15
    runs.loc[gone, "composite_strict"] = None
    found = missing_bounds(runs)
    assert found.missing == gone.sum()
    for _ in range(20):
        filled = runs.assign(
            composite_strict=np.where(gone, rng.choice([0.0, 5.0], len(runs)), runs["composite_strict"])
        )
        for place, one in enumerate(compare_conditions(filled).contrasts):
            low, high = (found.contrasts[case][place].estimate for case in ("lowest", "highest"))
            assert low - 1e-12 <= one.estimate <= high + 1e-12
    zeros = compare_conditions(runs.fillna({"composite_strict": 0.0})).contrasts
    for case, contrasts in {
        "missing = worst": zeros,
        "complete cases": compare_conditions(runs).contrasts,
    }.items():
        assert [one.estimate for one in found.contrasts[case]] == [one.estimate for one in contrasts]
    assert found.contrasts["lowest"][0].unit == "score points (0-5)"
    assert len(found.frame()) == 15  # three contrasts under five assumptions


def test_without_gaps_there_is_nothing_to_assume():
    assert (
        missing_bounds(study()).sentence()
        == "No score is missing, so that no assumption about missing scores is made."
    )
