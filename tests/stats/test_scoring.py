"""The seeds' formulas: composite, ensemble, efficiency, length bins and the one-shot score."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from score_tables import width

from toolkit.scoring import (
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

CASES = cases(__file__)

RUN_DOCUMENT = dict(zip(DIMENSIONS, (4.2, 4.5, 4.1, 4.3, 4.0, 4.4, 4.6), strict=True))
NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "seed", "strict", "zeros"),
    [
        (RUN_DOCUMENT, 4.3, 4.3, 0),
        ({"clarity": 0.0, "relevance": 3.0, "completeness": 5.0}, 4.0, 8 / 3, 1),
        (dict.fromkeys(DIMENSIONS, 0.0), 0.0, 0.0, 7),
        ({"clarity": None, "relevance": 4.0}, 4.0, 4.0, 0),
        ({"clarity": NAN, "relevance": 4.0}, 4.0, 4.0, 0),
        ({"clarity": pd.NA, "relevance": 4.0}, 4.0, 4.0, 0),
        ({"clarity": 0.0, "relevance": None}, 0.0, 0.0, 1),
        ({}, None, None, 0),
        (dict.fromkeys(DIMENSIONS, NAN), None, None, 0),
        ({"clarity": 4.0, "composite": 1.0, "composite_strict": 0.0}, 4.0, 4.0, 0),
    ],
)
def test_the_composite_leaves_zeros_out_the_strict_one_counts_them_and_a_missing_score_is_no_zero(
    scores, seed, strict, zeros
):
    assert calculate_composite_score(scores) == (seed if seed is None else pytest.approx(seed))
    assert composite_strict(scores) == (strict if strict is None else pytest.approx(strict))
    assert count_zeros(scores) == zeros


@pytest.mark.parametrize(
    "failed",
    [
        {"composite": None},
        {"composite": NAN},
        {"composite": 0.0, "evaluation_failed": True},
        {"composite": 0.0, "failed": True},
        {"composite": 9.0},
        {},
        NAN,
    ],
)
def test_a_failed_judge_is_missing_and_never_a_zero(failed):
    aggregated = aggregate_ensemble_scores({"a": {"composite": 4.0}, "b": failed, "c": {"composite": 5.0}})
    assert (aggregated["mean"], aggregated["judge_count"]) == (4.5, 2)
    assert aggregate_ensemble_scores([4.0, failed, 5.0]) == aggregated
    alone = aggregate_ensemble_scores([{"composite": 4.0}, failed])
    nothing = dict.fromkeys(("mean", "std", "median", "confidence_interval"))
    assert alone == {**nothing, "judge_count": 1}


def test_the_interval_needs_two_judges_and_stays_on_the_scale():
    """One judge that was named alone is enough for a mean, and for nothing that needs a spread."""
    alone = aggregate_ensemble_scores([{"composite": 4.0}])
    assert alone == {
        "mean": 4.0, "std": None, "median": 4.0, "confidence_interval": None, "judge_count": 1,
    }  # fmt: skip
    assert aggregate_ensemble_scores([])["mean"] is None
    assert calculate_ci([4.0, None]) is None
    assert calculate_ci([0.0, 5.0]) == (0.0, 5.0)


@pytest.mark.parametrize(("quality", "cost", "found"), CASES["efficiency"])
def test_efficiency_is_quality_over_cost_and_missing_where_nothing_was_paid_or_known(quality, cost, found):
    assert calculate_efficiency(quality, cost) == (found if found is None else pytest.approx(found, abs=1e-3))


def test_runs_of_a_bin_may_be_objects_mappings_or_numbers():
    runs = [
        SimpleNamespace(scores=SimpleNamespace(composite=3.0)),
        SimpleNamespace(scores={"composite": 4.0}),
        SimpleNamespace(composite=4.0),
        {"scores": {"composite": 5.0}},
        {"composite": 2.0},
        np.float64(3.0),
        3,
    ]
    scores = [3, 4, 4, 5, 2, 3, 3]
    assert analyze_length_bias({"S": runs})["S"] == {
        "mean_score": pytest.approx(np.mean(scores)),
        "std_score": pytest.approx(np.std(scores)),
        "std_score_sample": pytest.approx(np.std(scores, ddof=1)),
        "count": 7,
        "missing": 0,
    }


def test_more_experiments_narrow_the_interval_and_equal_weights_leave_nothing_to_estimate():
    widths = [width(one) for one in (one_shot_score(6 * m, m, 3 * m) for m in (1, 10, 100))]
    assert widths == sorted(widths, reverse=True)
    result = one_shot_score(1, 2, 3, weights=(2, 2, 2))
    assert (result.low, result.raw, result.high) == (2.0, 2.0, 2.0)


@given(st.permutations([4.1, 3.0, 4.9, 0.0]))
def test_the_order_of_the_judges_changes_nothing_and_a_true_zero_counts(scores):
    aggregated = aggregate_ensemble_scores([{"composite": score} for score in scores])
    assert aggregated == aggregate_ensemble_scores([{"composite": score} for score in sorted(scores)])
    assert aggregated["mean"] == pytest.approx(3.0)


def test_missing_scores_of_a_bin_are_counted_and_enter_no_mean():
    missing = [None, NAN, pd.NA, {"scores": None}, {"composite": None}]
    described = analyze_length_bias({"M": [2.0, *missing], "L": []})
    assert described["M"] == {
        "mean_score": 2.0,
        "std_score": 0.0,
        "std_score_sample": None,
        "count": 1,
        "missing": 5,
    }
    assert set(described["L"].values()) == {None, 0}
