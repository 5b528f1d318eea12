import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.agreement.icc import base_sums, from_log_f, log_f, mean_squares
from toolkit.stats.inference.jackknife import jackknife_interval


def textbook(values: np.ndarray) -> list[float]:
    """Mean squares between answers, within them, between judges and of the residual."""
    n, k = values.shape
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    rest = values - rows[:, None] - columns + values.mean()
    squares = [k * rows.var(ddof=1), values.var(axis=1, ddof=1).mean(), n * columns.var(ddof=1)]
    return [*squares, (rest**2).sum() / ((n - 1) * (k - 1))]


def test_the_interval_is_bias_corrected_with_the_degrees_that_the_kurtosis_leaves():
    """The oracle takes the unbiased kurtosis of scipy."""
    rng = np.random.default_rng(4)
    parts = rng.exponential(size=15)
    whole = 1.1
    variance = parts.var() * 14
    excess = stats.kurtosis(parts, bias=False)
    assert excess > 0
    degrees = 2 / (2 / 14 + excess / 15)
    centre = whole - 14 * (parts.mean() - whole)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(variance)
    low, high, _ = jackknife_interval(whole, parts)
    assert (float(low), float(high)) == pytest.approx((centre - half, centre + half))


def test_of_a_mean_of_light_tails_it_is_the_t_interval():
    x = np.arange(10.0)
    low, high, _ = jackknife_interval(x.mean(), (x.sum() - x) / 9)
    assert (float(low), float(high)) == pytest.approx(stats.t.interval(0.95, 9, x.mean(), stats.sem(x)))


@pytest.mark.parametrize(
    "parts", [[1.0, 2.0, 3.0], [1.0] * 6, [1.0, 2.0, 3.0, 4.0, math.nan], [math.inf] * 5]
)
def test_there_is_none_of_three_bases_nor_where_bases_make_no_or_an_infinite_difference(parts):
    low, high, _ = jackknife_interval(1.0, np.array(parts))
    assert np.isnan([low, high]).all()


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_sums_over_bases_give_the_mean_squares_of_every_part(seed):
    rng, owner = np.random.default_rng(seed), np.repeat(np.arange(5), 2)
    values = np.clip(np.round(2 * (3 + rng.normal(0, 0.8, (10, 1)) + rng.normal(0, 0.5, (10, 3)))) / 2, 0, 5)
    sums = base_sums(values, owner)
    assert mean_squares(sums.sum(axis=0)) == pytest.approx(textbook(values), abs=1e-10)
    for base in range(5):
        found = mean_squares(sums.sum(axis=0) - sums[base])
        assert found == pytest.approx(textbook(values[owner != base]), abs=1e-9)


@given(st.floats(-0.3, 0.99), st.integers(2, 4))
@settings(deadline=None, derandomize=True)
def test_log_f_and_back_is_the_single_form_and_spearman_brown(rho, k):
    single, average = from_log_f(log_f(np.array(rho), k), k)
    assert float(single) == pytest.approx(rho, abs=1e-9)
    assert float(average) == pytest.approx(k * rho / (1 + (k - 1) * rho), abs=1e-9)
