"""Slopes and correlations with bases as clusters, against statsmodels and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.inference.means import clustered_slope


def sample(seed: int, bases: int = 12, each: int = 4, slope: float = 0.5):
    """Return x, y and clusters whose errors are alike within a base."""
    chance = np.random.default_rng(seed)
    names = np.repeat(np.arange(bases), each)
    x = chance.normal(size=len(names)) + chance.normal(size=bases)[names]
    y = slope * x + chance.normal(size=len(names)) + chance.normal(size=bases)[names]
    return x, y, names


@pytest.mark.parametrize("seed", range(2))
def test_the_slope_is_that_of_statsmodels_and_its_interval_is_wider_than_that_of_cr1(seed: int) -> None:
    """With few bases the sandwich of statsmodels is too small; CR2 has a larger error and fewer degrees of freedom."""
    x, y, names = sample(seed)
    oracle = sm.OLS(y, sm.add_constant(x)).fit(
        cov_type="cluster", cov_kwds={"groups": names, "df_correction": True}, use_t=True
    )
    found = clustered_slope("s", x, y, list(names))
    low, high = oracle.conf_int()[1]
    assert found.estimate == pytest.approx(oracle.params[1])
    assert 1.0 < (found.high - found.low) / (high - low) < 1.6
    r = clustered_pearson("r", x, y, list(names))
    assert r.estimate == pytest.approx(np.corrcoef(x, y)[0, 1])


@pytest.mark.parametrize(
    ("x", "y", "bases", "note"),
    [
        ([], [], "", "not estimable: 0 answers"),
        ([1.0, 2.0], [1.0, 2.0], "ab", "not estimable: 2 answers"),
        ([5.0] * 4, [1.0, 2.0, 3.0, 4.0], "abcd", "does not vary"),
        ([0.1 + 0.2, 0.3, 0.3], [1.0, 2.0, 3.0], "abc", "does not vary"),
        ([1.0, 2.0, 4.0], [1.0, 3.0, 2.0], "aaa", "no interval: 1 base"),
        ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], "abc", "fitted line"),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], "abc", "fitted line"),
    ],
)
def test_a_slope_that_cannot_be_estimated_says_why(x, y, bases, note) -> None:
    """Too few answers, no spread, one base, no residual."""
    found = clustered_slope("s", x, y, bases)
    assert note in found.note
    assert found.low is None
    assert found.p_value is None


@pytest.mark.parametrize("function", [clustered_slope, clustered_pearson])
def test_what_cannot_be_used_is_refused(function) -> None:
    """Unequal lengths and missing values."""
    with pytest.raises(InputError, match="give as many"):
        function("s", [1.0, 2.0], [1.0], "ab")
    with pytest.raises(InputError, match="missing or infinite"):
        function("s", [1.0, 2.0, float("nan")], [1.0, 2.0, 3.0], "abc")


@pytest.mark.parametrize(
    ("x", "y", "bases", "note"),
    [
        ([], [], "", "not estimable: 0 answers"),
        ([1.0, 2.0, 3.0], [4.0, 4.0, 4.0], "abc", "does not vary"),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], "abcd", "straight line"),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0], "aabb", "2 bases"),
        ([1.0, 1.0, 1.0, 1.0, 9.0], [1.0, 2.0, 1.0, 2.0, 9.0], "abcde", "one base alone"),
    ],
)
def test_a_correlation_that_cannot_be_estimated_says_why(x, y, bases, note) -> None:
    """No answers, a constant side, a straight line, too few bases, one base that decides."""
    found = clustered_pearson("r", x, y, bases)
    assert note in found.note
    assert found.low is None
