"""Correlations and weighted kappa of two judges."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from score_tables import matrix, width
from sklearn.metrics import cohen_kappa_score

from toolkit.stats.agreement.coefficients import correlation, pearson_between_judges, weighted_kappa


def two(seed, n=30):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, n) / 2
    return x, np.clip(x + rng.integers(-2, 4, n) / 2, 0, 5)


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_weighted_kappa_is_that_of_scikit_learn(seed):
    x, y = two(seed)
    oracle = cohen_kappa_score(
        (2 * x).astype(int), (2 * y).astype(int), weights="quadratic", labels=list(range(11))
    )
    assert weighted_kappa(x, y).estimate == pytest.approx(oracle, abs=1e-10)
    clustered = weighted_kappa(x, y, np.repeat(range(10), 3))
    assert clustered.estimate == pytest.approx(oracle, abs=1e-10)
    assert clustered.low < oracle < clustered.high


def test_a_missing_score_is_no_zero_and_is_counted():
    x, y = two(4)
    gap = x.copy()
    gap[3] = np.nan
    assert weighted_kappa(gap, y).missing == 1
    assert weighted_kappa(gap, y).estimate == weighted_kappa(np.delete(x, 3), np.delete(y, 3)).estimate


@pytest.mark.parametrize("seed", [1, 2])
def test_a_correlation_and_each_one_without_a_base_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, 40) / 2
    y = np.clip(x + rng.integers(-3, 4, 40) / 2, 0, 5)
    bases = rng.permutation(np.repeat(np.arange(10), 4))
    found, without = correlation(x, y, list(bases))
    assert found == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
    for place, base in enumerate(pd.factorize(bases)[1]):
        rest = bases != base
        assert without[place] == pytest.approx(stats.pearsonr(x[rest], y[rest])[0], abs=1e-12)


def test_bases_widen_the_interval_of_answers_that_are_alike_and_are_counted():
    rng = np.random.default_rng(5)
    x = np.repeat(rng.normal(size=10), 6)
    y = np.repeat(rng.normal(size=10), 6) + x
    scores = np.column_stack([x, y])
    alone, clustered = (pearson_between_judges(matrix(scores, answers))[0] for answers in (None, 6))
    assert alone.estimate == pytest.approx(clustered.estimate)
    assert width(clustered) > 1.5 * width(alone)
    assert clustered.n == {"bases": 10, "answers": 60, "judges": 2}
