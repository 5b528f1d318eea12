import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.inference.means import clustered_mean, mean_interval

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "clustered_error_miller_2024.json").read_text("utf-8")
)
SCORES = [score for cluster in GOLDEN["clusters"] for score in cluster]
CLUSTERS = [name for name, cluster in enumerate(GOLDEN["clusters"]) for _ in cluster]


def test_the_clustered_error_is_the_published_one():
    """Without a correction of its small sample it is Miller's own (CR0)."""
    small = clustered_mean(SCORES, CLUSTERS)
    assert small.error * np.sqrt(3 / 4) == pytest.approx(GOLDEN["clustered_se"], abs=1e-6)
    assert small.error == pytest.approx(GOLDEN["clustered_se_small_sample"], abs=1e-6)
    assert small.degrees == pytest.approx(3)


def test_without_clusters_the_error_is_the_naive_one():
    assert mean_interval(SCORES).error == pytest.approx(GOLDEN["naive_se"], abs=1e-6)


def test_clusters_of_equal_size_are_as_good_as_their_means():
    by_cluster = mean_interval([np.mean(cluster) for cluster in GOLDEN["clusters"]])
    clustered = clustered_mean(SCORES, CLUSTERS)
    assert (clustered.low, clustered.high) == pytest.approx((by_cluster.low, by_cluster.high))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=12).filter(lambda values: len(set(values)) > 1))
def test_the_interval_and_p_value_are_those_of_scipy(values):
    found, oracle = mean_interval(values), stats.ttest_1samp(values, 0)
    interval = oracle.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-9)


@pytest.mark.parametrize(("values", "reason"), [([2.0], "two are needed"), ([0.1 + 0.2, 0.3], "are equal")])
def test_values_that_do_not_vary_have_a_mean_and_no_interval(values, reason):
    found = mean_interval(values)
    assert found.mean == pytest.approx(values[0])
    assert found.low is None
    assert found.error is None
    assert reason in found.reason


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf"), 1.0]])
def test_missing_and_infinite_values_are_refused(values):
    with pytest.raises(InputError, match="mean"):
        mean_interval(values)


def test_each_value_needs_a_cluster():
    with pytest.raises(InputError, match="cluster for each value"):
        clustered_mean([1.0, 2.0], ["a"])
    assert clustered_mean([1.0, 2.0], ["a", "a"]).low is None
