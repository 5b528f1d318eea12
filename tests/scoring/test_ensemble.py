import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from toolkit.errors import InputError
from toolkit.scoring.ensemble import aggregate_dimensions, aggregate_ensemble_scores, calculate_ci
from toolkit.words import DIMENSIONS

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ensemble_interval.json").read_text("utf-8"))
UNJUDGED = {"mean": None, "std": None, "confidence_interval": None}


def test_three_judges_give_the_golden_mean_spread_and_interval():
    aggregated = aggregate_ensemble_scores([SimpleNamespace(composite=score) for score in GOLDEN["scores"]])
    assert aggregated["mean"] == pytest.approx(GOLDEN["mean"])
    assert aggregated["std"] == pytest.approx(GOLDEN["std"])
    assert aggregated["confidence_interval"] == pytest.approx(GOLDEN["ci95"], abs=5e-4)
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
