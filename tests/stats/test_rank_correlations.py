import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.agreement.correlations import correlation, ranks_between_judges
from toolkit.stats.agreement.ratings import rating_matrix

ORACLES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def matrix(x, y, bases=None):
    rows = [
        (f"t{i}", judge, s)
        for i, pair in enumerate(zip(x, y, strict=True))
        for judge, s in zip("ab", pair, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["target", "judge", "score"])
    if bases is not None:
        frame["base"] = np.repeat(list(bases), 2)
    return rating_matrix(frame, [f"t{i}" for i in range(len(x))], ["a", "b"])


@pytest.mark.parametrize("kind", list(ORACLES))
@pytest.mark.parametrize("seed", [1, 2])
def test_each_correlation_and_each_one_without_a_base_is_that_of_scipy(kind, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, 40) / 2
    y = np.clip(x + rng.integers(-3, 4, 40) / 2, 0, 5)
    bases = rng.permutation(np.repeat(np.arange(10), 4))
    found, without = correlation(x, y, kind, list(bases))
    assert found == pytest.approx(ORACLES[kind](x, y)[0], abs=1e-12)
    for place, base in enumerate(pd.factorize(bases)[1]):
        rest = bases != base
        assert without[place] == pytest.approx(ORACLES[kind](x[rest], y[rest])[0], abs=1e-12)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_ranks_do_not_change_with_the_scale_nor_with_the_order_of_answers(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, 15), rng.integers(0, 6, 15)
    order = rng.permutation(15)
    before = ranks_between_judges(matrix(x, y))
    after = ranks_between_judges(matrix(np.exp(x)[order], y[order]))
    for one, other in zip(before, after, strict=True):
        assert (one.estimate, one.low, one.high) == pytest.approx(
            (other.estimate, other.low, other.high), abs=1e-9
        )


def test_bases_widen_the_interval_of_answers_that_are_alike_and_are_counted():
    rng = np.random.default_rng(5)
    x = np.repeat(rng.normal(size=10), 6)
    y = np.repeat(rng.normal(size=10), 6) + x
    alone, clustered = (
        ranks_between_judges(matrix(x, y, bases))[0] for bases in (None, np.repeat(np.arange(10), 6))
    )
    assert alone.estimate == clustered.estimate
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)
    assert clustered.n == {"bases": 10, "answers": 60, "judges": 2}


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([1, 1, 1, 1], [1, 2, 3, 4], "judge a gave the same score"),
        ([1, 2], [2, 1], "three are needed"),
        ([1, 2, 3, 4], [2, 4, 8, 16], "same order"),
        ([1, 2, 3], [1, 3, 2], "no interval: 3 answers"),
        ([1, 1, 1, 1, 2], [1, 1, 1, 2, 2], "no interval: one base alone"),
    ],
)
def test_what_cannot_be_estimated_says_why(x, y, says):
    for one in ranks_between_judges(matrix(x, y)):
        assert one.low is None
        assert says in one.note
