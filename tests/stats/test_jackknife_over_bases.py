import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.agreement.icc_forms import (
    FORMS,
    base_sums,
    forms_of_sums,
    from_log_f,
    icc_from_mean_squares,
    log_f,
    mean_squares,
)
from toolkit.stats.inference.jackknife import jackknife_interval

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "shrout_fleiss_1979.json").read_text("utf-8"))


def half_steps(seed=1, bases=12, answers=3, judges=3, scales=2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(bases), answers)
    shared = rng.normal(0, 0.8, (bases, 1, scales))[owner] + rng.normal(0, 0.4, (len(owner), 1, scales))
    scores = 3 + shared + rng.normal(0, 0.5, (len(owner), judges, scales))
    return np.clip(np.round(2 * scores) / 2, 0, 5), owner


def numbers(values: np.ndarray) -> list[float]:
    found = icc_from_mean_squares(mean_squares(values))
    return [math.nan if found[form] is None else found[form] for form in FORMS]


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
    low, high = jackknife_interval(whole, parts)
    assert (float(low), float(high)) == pytest.approx((centre - half, centre + half))


def test_of_a_mean_of_light_tails_it_is_the_t_interval():
    x = np.arange(10.0)
    low, high = jackknife_interval(x.mean(), (x.sum() - x) / 9)
    assert (float(low), float(high)) == pytest.approx(stats.t.interval(0.95, 9, x.mean(), stats.sem(x)))


@pytest.mark.parametrize(
    "parts", [[1.0, 2.0, 3.0], [1.0] * 6, [1.0, 2.0, 3.0, 4.0, math.nan], [math.inf] * 5]
)
def test_there_is_none_of_three_bases_nor_where_bases_make_no_or_an_infinite_difference(parts):
    low, high = jackknife_interval(1.0, np.array(parts))
    assert np.isnan([low, high]).all()


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_sums_over_bases_give_the_mean_squares_of_every_part(seed):
    values, owner = half_steps(seed, bases=5, answers=2)
    sums = base_sums(values, owner)
    for scale in range(2):
        assert forms_of_sums(sums.whole)[scale] == pytest.approx(
            numbers(values[:, :, scale]), abs=1e-10, nan_ok=True
        )
        for base in range(5):
            rest = values[owner != base][:, :, scale]
            found = forms_of_sums(sums.left_out)[base, scale]
            assert found == pytest.approx(numbers(rest), abs=1e-9, nan_ok=True)


@given(st.floats(-0.3, 0.99), st.integers(2, 4))
@settings(deadline=None, derandomize=True)
def test_log_f_and_back_is_the_single_form_and_spearman_brown(rho, k):
    single, average = from_log_f(log_f(np.array(rho), k), k)
    assert float(single) == pytest.approx(rho, abs=1e-9)
    assert float(average) == pytest.approx(k * rho / (1 + (k - 1) * rho), abs=1e-9)
