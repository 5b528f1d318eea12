"""The seeds' formulas: composite, ensemble, efficiency, length bins and the one-shot score."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from toolkit.errors import InputError
from toolkit.scoring import (
    aggregate_dimensions,
    aggregate_ensemble_scores,
    analyze_length_bias,
    calculate_ci,
    calculate_composite_score,
    calculate_efficiency,
    composite_strict,
    count_zeros,
    one_shot_score,
)
from toolkit.words import DIMENSIONS

RUN_DOCUMENT = dict(zip(DIMENSIONS, (4.2, 4.5, 4.1, 4.3, 4.0, 4.4, 4.6), strict=True))


def test_the_composite_is_the_mean_of_the_seven_dimensions():
    assert calculate_composite_score(RUN_DOCUMENT) == pytest.approx(4.3)


def test_the_composite_leaves_zeros_out_and_the_strict_one_counts_them():
    scores = {"clarity": 0.0, "relevance": 3.0, "completeness": 5.0}
    assert calculate_composite_score(scores) == 4.0
    assert composite_strict(scores) == pytest.approx(8 / 3)
    assert count_zeros(scores) == 1


def test_true_zeros_only_give_zero_as_the_seed_says():
    assert calculate_composite_score(dict.fromkeys(DIMENSIONS, 0.0)) == 0.0
    assert composite_strict(dict.fromkeys(DIMENSIONS, 0.0)) == 0.0


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_score_is_ignored_and_is_no_zero(missing):
    scores = {"clarity": missing, "relevance": 4.0}
    assert calculate_composite_score(scores) == composite_strict(scores) == 4.0
    assert count_zeros(scores) == 0


@pytest.mark.parametrize("scores", [{}, {"clarity": None}, dict.fromkeys(DIMENSIONS, math.nan)])
def test_nothing_but_missing_scores_is_missing(scores):
    assert calculate_composite_score(scores) is None
    assert composite_strict(scores) is None


def test_a_missing_score_beside_a_true_zero_leaves_the_zero():
    assert calculate_composite_score({"clarity": 0.0, "relevance": None}) == 0.0


@pytest.mark.parametrize("wrong", ["4", True, float("inf"), 5.1, -0.1, [4]])
def test_what_is_no_score_is_refused_with_its_dimension(wrong):
    with pytest.raises(InputError, match="clarity"):
        calculate_composite_score({"clarity": wrong})


@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=7))
def test_without_zeros_both_composites_are_the_mean(scores):
    named = dict(zip(DIMENSIONS, scores, strict=False))
    assert calculate_composite_score(named) == composite_strict(named)
    assert min(scores) - 1e-9 <= composite_strict(named) <= max(scores) + 1e-9


ENSEMBLE = json.loads((Path(__file__).parents[1] / "golden" / "ensemble_interval.json").read_text("utf-8"))
UNJUDGED = {"mean": None, "std": None, "confidence_interval": None}


def test_three_judges_give_the_golden_mean_spread_and_interval():
    aggregated = aggregate_ensemble_scores([SimpleNamespace(composite=score) for score in ENSEMBLE["scores"]])
    assert aggregated["mean"] == pytest.approx(ENSEMBLE["mean"])
    assert aggregated["std"] == pytest.approx(ENSEMBLE["std"])
    assert aggregated["confidence_interval"] == pytest.approx(ENSEMBLE["ci95"], abs=5e-4)
    assert aggregated["judge_count"] == 3


def test_the_stored_mapping_of_judges_is_read_by_its_values():
    stored = {"primary": {"composite": 4.0}, "secondary": {"composite": 5.0}}
    assert aggregate_ensemble_scores(stored)["mean"] == 4.5


@pytest.mark.parametrize(
    "failed",
    [
        {"composite": None},
        {"composite": float("nan")},
        {"composite": 0.0, "evaluation_failed": True},
        {"composite": 0.0, "failed": True},
        {"composite": 9.0},
        {},
    ],
)
def test_a_failed_judge_is_missing_and_never_a_zero(failed):
    aggregated = aggregate_ensemble_scores([{"composite": 4.0}, failed, {"composite": 5.0}])
    assert aggregated["mean"] == 4.5
    assert aggregated["judge_count"] == 2


@pytest.mark.parametrize("results", [[], [{"composite": 4.0}], [{"composite": 4.0}, {"composite": None}]])
def test_fewer_than_two_judges_leave_the_answer_unjudged(results):
    assert aggregate_ensemble_scores(results) == {**UNJUDGED, "judge_count": min(len(results), 1)}


def test_a_true_zero_of_a_judge_counts():
    assert aggregate_ensemble_scores([{"composite": 0.0}, {"composite": 4.0}])["mean"] == 2.0


def test_a_composite_that_is_text_is_refused():
    with pytest.raises(InputError, match="not a number"):
        aggregate_ensemble_scores([{"composite": "4.5"}, {"composite": 4.0}])


def test_one_score_has_no_interval():
    assert calculate_ci([4.0, None]) is None


def test_the_interval_stays_on_the_scale():
    assert calculate_ci([0.0, 5.0]) == (0.0, 5.0)


def test_a_confidence_beyond_one_is_refused():
    with pytest.raises(InputError, match="confidence"):
        calculate_ci([1.0, 2.0], confidence=95)


@given(st.lists(st.floats(0, 5), min_size=2, max_size=6), st.floats(0.5, 0.999))
def test_the_interval_is_the_t_interval_of_scipy(scores, confidence):
    low, high = calculate_ci(scores, confidence, bounds=(-1e9, 1e9))
    spread = np.std(scores, ddof=1) / np.sqrt(len(scores))
    if spread > 0:
        expected = stats.t.interval(confidence, len(scores) - 1, np.mean(scores), spread)
        assert (low, high) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.permutations([4.1, 3.0, 4.9, 0.0]))
def test_the_order_of_the_judges_changes_nothing(scores):
    aggregated = aggregate_ensemble_scores([{"composite": score} for score in scores])
    assert aggregated == aggregate_ensemble_scores([{"composite": score} for score in sorted(scores)])


def test_every_dimension_and_the_composite_are_aggregated():
    judges = [dict.fromkeys(DIMENSIONS, score) for score in (4.0, 4.5, 5.0)]
    aggregated = aggregate_dimensions(judges)
    assert list(aggregated) == ["mean_scores", "std_scores", "confidence_intervals"]
    assert all(set(scores) == {*DIMENSIONS, "composite"} for scores in aggregated.values())
    assert set(aggregated["mean_scores"].values()) == {4.5}
    assert aggregated["confidence_intervals"]["clarity"] == list(calculate_ci([4.0, 4.5, 5.0]))


def test_a_dimension_that_one_judge_scored_has_no_aggregate():
    judges = [{"clarity": 4.0, "relevance": 3.0}, {"clarity": 5.0, "relevance": None}]
    aggregated = aggregate_dimensions(judges)
    assert aggregated["mean_scores"]["clarity"] == 4.5
    assert aggregated["mean_scores"]["relevance"] is None
    assert aggregated["confidence_intervals"]["relevance"] is None


def test_a_composite_that_is_given_is_kept():
    judges = [{"clarity": 4.0, "composite": 3.0}, {"clarity": 5.0, "composite": None}, {"composite": 4.0}]
    assert aggregate_dimensions(judges)["mean_scores"]["composite"] == 3.5


def test_no_judge_at_all_leaves_every_aggregate_missing():
    assert set(aggregate_dimensions([])["std_scores"].values()) == {None}


def test_efficiency_is_quality_over_cost():
    assert calculate_efficiency(4.3, 0.0052) == pytest.approx(826.923, abs=1e-3)


def test_a_true_zero_of_quality_is_a_zero():
    assert calculate_efficiency(0.0, 0.01) == 0.0


@pytest.mark.parametrize(
    ("quality", "cost"), [(4.0, 0.0), (4.0, 0), (4.0, None), (None, 0.01), (float("nan"), 1)]
)
def test_efficiency_is_missing_where_nothing_was_paid_or_known(quality, cost):
    assert calculate_efficiency(quality, cost) is None


@pytest.mark.parametrize("cost", [-0.01, float("nan"), float("inf"), "free"])
def test_a_cost_that_cannot_be_is_refused(cost):
    with pytest.raises(InputError, match="cost"):
        calculate_efficiency(4.0, cost)


def test_runs_may_be_objects_mappings_or_numbers():
    runs = [
        SimpleNamespace(scores=SimpleNamespace(composite=3.0)),
        SimpleNamespace(scores={"composite": 4.0}),
        SimpleNamespace(composite=4.0),
        {"scores": {"composite": 5.0}},
        {"composite": 2.0},
        np.float64(3.0),
        3,
    ]
    described = analyze_length_bias({"S": runs})["S"]
    scores = [3, 4, 4, 5, 2, 3, 3]
    assert described["mean_score"] == pytest.approx(np.mean(scores))
    assert described["std_score"] == pytest.approx(np.std(scores))
    assert described["std_score_sample"] == pytest.approx(np.std(scores, ddof=1))
    assert described["count"] == 7
    assert described["missing"] == 0


def test_missing_scores_are_counted_and_enter_no_mean():
    described = analyze_length_bias(
        {"M": [2.0, None, float("nan"), pd.NA, {"scores": None}, {"composite": None}]}
    )
    assert described["M"] == {
        "mean_score": 2.0,
        "std_score": 0.0,
        "std_score_sample": None,
        "count": 1,
        "missing": 5,
    }


def test_an_empty_bin_has_no_mean():
    described = analyze_length_bias({"S": [1.0], "L": []})
    assert list(described) == ["S", "L"]
    assert described["L"]["mean_score"] is None
    assert described["L"]["std_score"] is None
    assert described["L"]["count"] == 0


@pytest.mark.parametrize("wrong", ["3.0", {"grade": 3.0}, object()])
def test_a_run_without_scores_is_refused(wrong):
    with pytest.raises(InputError):
        analyze_length_bias({"S": [wrong]})


ONE_SHOT = json.loads((Path(__file__).parents[1] / "golden" / "one_shot_score.json").read_text("utf-8"))


@pytest.mark.parametrize("case", ONE_SHOT["cases"])
def test_the_protocol_gives_raw_and_score(case):
    result = one_shot_score(case["i1"], case["i0"], case["h"])
    assert result.raw == pytest.approx(case["raw"])
    assert result.score == pytest.approx(case["score"])
    assert result.n == 10
    assert result.low <= result.raw <= result.high


@pytest.mark.parametrize("case", ONE_SHOT["clopper_pearson"])
def test_with_two_outcomes_the_interval_is_clopper_pearson(case):
    result = one_shot_score(case["k"], case["n"] - case["k"], 0, weights=(1, 0, 0))
    assert (result.low, result.high) == pytest.approx(case["ci"], abs=1e-4)
    exact = stats.binomtest(case["k"], case["n"]).proportion_ci(method="exact")
    assert (result.low, result.high) == pytest.approx((exact.low, exact.high))


def test_ten_out_of_ten_does_not_pretend_certainty():
    result = one_shot_score(10, 0, 0)
    assert result.high == 1.0
    # 0.6915 is the Clopper-Pearson bound of the expected share; the rest may all be hallucinations.
    assert result.low == pytest.approx(0.69150 - 0.5 * (1 - 0.69150), abs=1e-4)


@pytest.mark.parametrize("weights", [(1, 0, -0.5), (1, 0.5, -1)])
@pytest.mark.parametrize("n", [1, 4, 10])
def test_the_interval_covers_every_share_on_a_grid_at_least_as_often_as_it_says(n, weights):
    """Coverage is enumerated exactly: every outcome with its multinomial probability, for 231 shares."""
    outcomes = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    results = [one_shot_score(*(int(count) for count in outcome), weights=weights) for outcome in outcomes]
    low = np.array([result.low for result in results]) - 1e-5
    high = np.array([result.high for result in results]) + 1e-5
    shares = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)]) / 20
    ways = special.gammaln(n + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    chance = np.exp(ways + special.xlogy(outcomes[None], shares[:, None]).sum(axis=2))
    truth = (shares @ np.array(weights))[:, None]
    assert (chance * (truth < low)).sum(axis=1).max() <= 0.025
    assert (chance * (truth > high)).sum(axis=1).max() <= 0.025


def test_the_bounds_are_the_quantiles_of_a_simulated_dirichlet():
    draws = np.random.default_rng(20250107).dirichlet([6, 1, 4], 400_000) @ np.array([1, 0, -0.5])
    assert one_shot_score(6, 1, 3).low == pytest.approx(np.quantile(draws, 0.025), abs=3e-3)


def test_more_experiments_narrow_the_interval():
    widths = [one.high - one.low for one in (one_shot_score(6 * m, m, 3 * m) for m in (1, 10, 100))]
    assert widths == sorted(widths, reverse=True)


def test_equal_weights_leave_nothing_to_estimate():
    result = one_shot_score(1, 2, 3, weights=(2, 2, 2))
    assert (result.low, result.raw, result.high) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    "counts", [(0, 0, 0), (-1, 5, 6), (1.5, 1, 1), (float("nan"), 1, 1), ("6", 1, 3), (True, 1, 1)]
)
def test_counts_that_cannot_be_are_refused_in_one_line(counts):
    with pytest.raises(InputError, match="one-shot score") as caught:
        one_shot_score(*counts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weights", [(1, 0), (1, 0, float("nan")), ("a", 0, 1), 3])
def test_weights_must_be_three_finite_numbers(weights):
    with pytest.raises(InputError, match="weights"):
        one_shot_score(1, 1, 1, weights=weights)


def test_a_confidence_of_one_is_refused():
    with pytest.raises(InputError, match="confidence"):
        one_shot_score(1, 1, 1, confidence=1.0)


def test_the_one_shot_result_is_plain_json():
    kept = json.loads(json.dumps(one_shot_score(np.int64(6), 1.0, 3).to_dict(), allow_nan=False))
    assert kept["i1"] == 6
    assert kept["weights"] == [1.0, 0.0, -0.5]


def test_the_sentence_gives_score_raw_interval_and_counts():
    sentence = one_shot_score(6, 1, 3).sentence()
    assert sentence.startswith("score 0.450, raw 0.450 with 95% interval [-0.046, 0.835]")
    assert sentence.endswith("n = 10 experiments: 6 expected, 1 unexpected, 3 hallucinated.")
