"""Repeated-measures ANOVA and Friedman against SPSS, R, pingouin, statsmodels and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.prompt_length.contrasts import friedman, repeated_measures


def table(bases: int = 9, bins: int = 3, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 3 + rng.normal(0, 1, (bases, 1)) + rng.normal(0, 1, (bases, bins)) * np.linspace(0.2, 1.5, bins)


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_friedman_is_that_of_scipy_and_ignores_what_keeps_the_order(seed: int) -> None:
    """Chi-square of scipy with ties; any rising function leaves it; so does the order of bases."""
    scores = np.round(table(bases=8, seed=seed) * 2) / 2
    found = friedman(scores)
    theirs = stats.friedmanchisquare(*scores.T)
    assert found.estimate * 16 == pytest.approx(theirs.statistic)
    assert friedman(np.exp(scores)) == found
    assert friedman(scores[::-1]) == found


@given(st.floats(0.1, 50), st.floats(-20, 20), st.permutations(range(3)))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_scale_shift_and_order_leave_the_anova(scale: float, shift: float, order: list[int]) -> None:
    """F and p have no unit; the order of bases and bins and a level of one's own per base change nothing."""
    scores = table()
    first = repeated_measures(scores)
    changed = scale * scores[::-1][:, order] + shift + np.arange(len(scores))[:, None]
    second = repeated_measures(changed)
    assert (second.f, second.p_gg, second.p_hf) == pytest.approx((first.f, first.p_gg, first.p_hf), rel=1e-6)


def test_the_same_order_everywhere_has_a_p_value_above_0() -> None:
    same = friedman(np.arange(3) + np.arange(5)[:, None] * 10.0)
    assert same.estimate == pytest.approx(1.0)
    assert same.p_value == pytest.approx(stats.chi2.sf(10, 2))
