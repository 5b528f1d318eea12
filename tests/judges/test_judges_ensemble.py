"""The ensemble as the run document keeps it: a mean over the judges that count, and one is not enough."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from toolkit.errors import InputError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement
from toolkit.scoring import calculate_composite_score, composite_strict, count_zeros
from toolkit.words import DIMENSIONS, JUDGE_ROLES

ALL = {*DIMENSIONS, "composite", "composite_strict"}


def said(role: str, score: float | None, **changes: float) -> Judgement:
    """Return a judgement with one score everywhere, or a failed one."""
    if score is None:
        return Judgement(role, f"model-{role}", "default", "d" * 64, reason="prose: 'no'", call_id="c" * 64)
    scores = {**dict.fromkeys(DIMENSIONS, score), **changes}
    return Judgement(
        role,
        f"model-{role}",
        "default",
        "d" * 64,
        scores=scores,
        composite=calculate_composite_score(scores),
        composite_strict=composite_strict(scores),
        zeros=count_zeros(scores),
        call_id="c" * 64,
    )


def ensemble(*scores: float | None) -> dict:
    return ensemble_evaluation([said(role, score) for role, score in zip(JUDGE_ROLES, scores, strict=False)])


def test_three_judges_give_the_numbers_of_the_seed_s_example():
    """The composites 4.3, 4.1 and 4.5 of seed 002, section 3.1: mean 4.3, standard deviation 0.2."""
    aggregated = ensemble(4.3, 4.1, 4.5)["aggregated"]
    assert aggregated["mean_scores"]["composite"] == pytest.approx(4.3)
    assert aggregated["std_scores"]["composite"] == pytest.approx(0.2)
    half = 4.302652729911275 * 0.2 / math.sqrt(3)  # Student t, two degrees of freedom, table value
    assert aggregated["confidence_intervals"]["composite"] == pytest.approx([4.3 - half, 4.3 + half])
    assert (aggregated["judge_count"], aggregated["judged"]) == (3, True)


def test_every_aggregate_has_the_seven_dimensions_and_both_composites():
    aggregated = ensemble(4, 3, 5)["aggregated"]
    for key in ("mean_scores", "std_scores", "median_scores", "confidence_intervals"):
        assert set(aggregated[key]) == ALL


def test_a_failed_judge_is_kept_with_its_reason_and_counts_nowhere():
    evaluation = ensemble(4, None, 5)
    assert evaluation["aggregated"]["mean_scores"]["composite"] == 4.5
    assert evaluation["aggregated"]["judge_count"] == 2
    assert evaluation["aggregated"]["judged"] is True
    assert evaluation["judge_results"]["secondary"] == {
        "model": "model-secondary",
        "scores": None,
        "composite": None,
        "composite_strict": None,
        "zeros": 0,
        "evaluation_failed": True,
        "reason": "prose: 'no'",
        "call_id": "c" * 64,
        "rubric": "default",
        "rubric_hash": "d" * 64,
        "related": False,
    }
    assert evaluation["judge_results"]["primary"]["evaluation_failed"] is False


@pytest.mark.parametrize("scores", [(4, None, None), (None, None, None), (4,), (None,), ()])
def test_fewer_than_two_judges_leave_the_run_unjudged(scores):
    aggregated = ensemble(*scores)["aggregated"]
    assert aggregated["judged"] is False
    assert aggregated["judge_count"] == sum(score is not None for score in scores)
    for key in ("mean_scores", "std_scores", "median_scores", "confidence_intervals"):
        assert aggregated[key] == dict.fromkeys(ALL)
    assert aggregated["zeros"] is None


def test_true_zeros_are_counted_and_only_the_strict_composite_feels_them():
    aggregated = ensemble_evaluation([said("primary", 4, clarity=0), said("secondary", 4)])["aggregated"]
    assert aggregated["zeros"] == 1
    assert aggregated["mean_scores"]["composite"] == 4
    assert aggregated["mean_scores"]["composite_strict"] == pytest.approx((24 / 7 + 4) / 2)
    assert aggregated["mean_scores"]["clarity"] == 2


def test_the_order_of_the_judges_changes_nothing():
    forward = [said(role, score) for role, score in zip(JUDGE_ROLES, (1.5, 4.5, 3.0), strict=True)]
    there, back = ensemble_evaluation(forward), ensemble_evaluation(forward[::-1])
    assert there["aggregated"]["mean_scores"] == pytest.approx(back["aggregated"]["mean_scores"])
    assert there["judge_results"] == back["judge_results"]


def test_two_judgements_of_one_role_are_refused():
    with pytest.raises(InputError, match="a role may judge a run once"):
        ensemble_evaluation([said("primary", 4), said("primary", 5)])


def test_the_median_and_the_means_without_each_judge_stand_beside_the_mean():
    aggregated = ensemble(1, 4, 5)["aggregated"]
    assert aggregated["median_scores"]["composite"] == 4
    assert aggregated["leave_one_out"] == {"primary": 4.5, "secondary": 3.0, "tertiary": 2.5}


def test_what_is_left_of_two_judges_is_no_ensemble():
    assert ensemble(3, 4)["aggregated"]["leave_one_out"] == {"primary": None, "secondary": None}
    assert ensemble(None, 4)["aggregated"]["leave_one_out"] == {"secondary": None}


def test_a_judge_that_judges_three_times_counts_once_with_its_mean_over_what_can_be_read():
    again = [
        said("primary", 1),
        replace(said("primary", 4), judge_repeat=1),
        replace(said("primary", None), judge_repeat=2),
        said("secondary", 4.5),
    ]
    evaluation = ensemble_evaluation(again)
    primary = evaluation["judge_results"]["primary"]
    assert (primary["composite"], primary["scores"]["clarity"], primary["reason"]) == (2.5, 2.5, None)
    assert primary["repeats"] == {"asked": 3, "readable": 2}
    assert primary["composites"] == [1, 4, None]
    assert evaluation["aggregated"]["mean_scores"]["composite"] == 3.5
    assert evaluation["aggregated"]["judge_count"] == 2


def test_a_judge_that_failed_every_time_gives_its_first_reason():
    evaluation = ensemble_evaluation([replace(said("primary", None), judge_repeat=n) for n in range(2)])
    assert evaluation["judge_results"]["primary"]["reason"] == "prose: 'no'"
    assert evaluation["aggregated"]["judge_count"] == 0


def test_the_same_time_of_one_judge_twice_is_refused():
    twice = [replace(said("primary", 4), judge_repeat=1)] * 2
    with pytest.raises(InputError, match="primary_2"):
        ensemble_evaluation(twice)


def test_judges_of_the_judged_model_s_own_family_are_counted():
    judgements = [replace(said("primary", 5), related=True), said("secondary", 3), said("tertiary", 3)]
    evaluation = ensemble_evaluation([*judgements])
    assert evaluation["aggregated"]["related_count"] == 1
    assert evaluation["judge_results"]["primary"]["related"] is True
    failed = replace(said("primary", None), related=True)
    assert ensemble_evaluation([failed, *judgements[1:]])["aggregated"]["related_count"] == 0


def test_expected_scores_stand_beside_the_sampled_ones():
    expected = dict.fromkeys(DIMENSIONS, 3.7)
    found = ensemble_evaluation([replace(said("primary", 4), expected=expected)])["judge_results"]["primary"]
    assert found["scores"]["clarity"] == 4
    assert found["expected"]["clarity"] == 3.7
