"""Repeated-measures ANOVA and Friedman against SPSS, R, pingouin, statsmodels and scipy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.prompt_length.omnibus import friedman, repeated_measures


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


@pytest.mark.parametrize(
    ("scores", "note"),
    [
        (np.empty((0, 3)), "0 bases"),
        (table(bases=2), "2 bases"),
        (np.full((6, 3), 5.0), "do not vary"),
        (np.arange(6)[:, None] + np.array([0.1, 0.2, 0.3]), "do not vary"),
        (3 + 1e-13 * table(), "do not vary"),
    ],
)
def test_an_anova_that_cannot_be_made_says_why(scores: np.ndarray, note: str) -> None:
    """No bases, two bases, constant scores, equal differences, rounding."""
    found = repeated_measures(scores, missing=4)
    assert found.f is None
    assert found.p_value is None
    assert found.note.startswith("not estimable: ")
    assert note in found.note
    assert found.note in found.sentence()
    assert found.missing == 4
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_friedman_without_an_order_says_why_and_with_the_same_order_has_no_zero() -> None:
    """Constant scores have no ranks; the same order everywhere has W = 1 and a p value above 0."""
    assert "all bins are equal" in friedman(np.full((6, 3), 5.0)).note
    assert "all bins are equal" in friedman([[0.3, 0.1 + 0.2]] * 4).note
    assert "2 bases" in friedman(table(bases=2)).note
    same = friedman(np.arange(3) + np.arange(5)[:, None] * 10.0)
    assert same.estimate == pytest.approx(1.0)
    assert same.p_value == pytest.approx(stats.chi2.sf(10, 2))
