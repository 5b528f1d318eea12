"""Correlations, weighted kappa and Bland-Altman of two judges."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from toolkit.stats.agreement.bland_altman import bland_altman
from toolkit.stats.agreement.correlations import correlation, pearson_between_judges
from toolkit.stats.agreement.kappa import cohen_kappa, weighted_kappa
from toolkit.stats.agreement.ratings import rating_matrix
from toolkit.stats.agreement.reliability import reliability

FOLDER = Path(__file__).parents[1] / "golden"
FLOW = json.loads((FOLDER / "bland_altman_1986.json").read_text("utf-8"))


def two(seed: int, n=30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 11, n) / 2
    return x, np.clip(x + rng.integers(-2, 4, n) / 2, 0, 5)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None, derandomize=True)
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
    assert cohen_kappa([1, 2, 1], [1, 2, 2]).estimate == pytest.approx(0.4)


def test_the_peak_flow_of_bland_and_altman_has_limits_that_are_quantiles_of_the_non_central_t():
    d = np.array(FLOW["wright"]) - np.array(FLOW["mini_wright"])
    found = bland_altman(FLOW["wright"], FLOW["mini_wright"])
    assert found.bias.estimate == pytest.approx(FLOW["mean_difference"], abs=0.05)
    spread = (found.upper.estimate - found.lower.estimate) / (2 * stats.norm.ppf(0.975))
    assert spread == pytest.approx(FLOW["sd"], abs=0.05)
    oracle = stats.nct.ppf([0.025, 0.975], 16, stats.norm.ppf(0.975) * math.sqrt(17)) * stats.sem(d)
    assert (found.upper.low, found.upper.high) == pytest.approx(tuple(d.mean() + oracle))
    assert (found.lower.high, found.lower.low) == pytest.approx(tuple(d.mean() - oracle))
    assert (found.bias.low, found.bias.high) == pytest.approx(
        stats.t.interval(0.95, 16, d.mean(), stats.sem(d))
    )
    assert found.bias.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)


@pytest.mark.parametrize("base", [None, "target"])
def test_limits_of_a_few_answers_stay_sane_and_what_passes_the_scale_says_so(base):
    """The ratings of Shrout & Fleiss: the jackknife over six answers put limits of scores of 1-10 at -864."""
    scores = json.loads((FOLDER / "shrout_fleiss_1979.json").read_text("utf-8"))["ratings"]
    rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    ratings = pd.DataFrame(rows, columns=["target", "judge", "score"])
    if base:
        ratings["base"] = ratings[base]
    pairs = reliability(ratings).details.bland_altman["score"]
    for (one, other), found in pairs.items():
        columns = [
            ratings.loc[ratings["judge"] == name, "score"].to_numpy(dtype=float) for name in (one, other)
        ]
        d, held = columns[0] - columns[1], np.concatenate(columns)
        if not base:
            factors = stats.nct.ppf([0.025, 0.975], 5, stats.norm.ppf(0.975) * math.sqrt(6)) * stats.sem(d)
            assert (found.upper.low, found.upper.high) == pytest.approx(tuple(d.mean() + factors))
            assert (found.lower.low, found.lower.high) == pytest.approx(tuple(d.mean() - factors[::-1]))
        for limit in (found.lower, found.upper):
            assert max(abs(limit.low), abs(limit.high)) < 15
            beyond = max(abs(limit.estimate), abs(limit.low), abs(limit.high)) > np.ptp(held)
            assert ("goes beyond" in limit.sentence().lower()) is bool(beyond)
    assert any(
        "largest difference that the scores given (2-9) allow" in one.lower.remarks for one in pairs.values()
    )


def test_the_interval_of_the_clustered_spread_is_that_of_graybill_and_wang():
    """Mean squares of a one-way table by themselves, each with its chi squared; the mean by its own t interval."""
    rng = np.random.default_rng(8)
    table = rng.normal(0, 1, (6, 1)) + rng.normal(0, 0.5, (6, 4))
    found = bland_altman(table.ravel(), np.zeros(24), np.repeat(range(6), 4))
    within, between = table.var(axis=1, ddof=1).mean(), 4 * table.mean(axis=1).var(ddof=1)
    parts, degrees = np.array([between / 4, 3 / 4 * within]), np.array([5, 18])
    below, above = ((degrees / stats.chi2.ppf(q, degrees) - 1) * parts for q in (0.975, 0.025))
    s, z = math.sqrt(parts.sum()), stats.norm.ppf(0.975)
    narrow, wide = math.sqrt(s**2 - math.hypot(*below)), math.sqrt(s**2 + math.hypot(*above))
    half = (found.bias.high - found.bias.low) / 2
    assert found.upper.high == pytest.approx(found.upper.estimate + math.hypot(half, z * (wide - s)))
    assert found.upper.low == pytest.approx(found.upper.estimate - math.hypot(half, z * (s - narrow)))


@given(st.integers(0, 10_000), st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_limits_move_with_a_shift_and_stretch_with_the_scale(seed, factor, shift):
    x, y = two(seed)
    bases = np.repeat(range(10), 3)
    before, after = bland_altman(x, y, bases), bland_altman(factor * x + shift, factor * y, bases)
    for one, other in zip(before.estimates()[:3], after.estimates()[:3], strict=True):
        for end in ("estimate", "low", "high"):
            assert getattr(other, end) == pytest.approx(factor * getattr(one, end) + shift, abs=1e-6)
    turned = bland_altman(y, x, bases)
    assert turned.lower.estimate == pytest.approx(-before.upper.estimate)
    assert turned.upper.low == pytest.approx(-before.lower.high)


def test_the_proportional_bias_finds_a_judge_who_stretches_the_scale():
    x, noise = np.tile([1.0, 2, 3, 4, 5], 6), np.random.default_rng(1).normal(0, 0.1, (2, 30))
    found = bland_altman(1.5 * x + noise[0], x + noise[1], np.repeat(range(10), 3)).slope
    assert found.estimate == pytest.approx(0.4, abs=0.02)
    assert found.low > 0.3
    assert found.p_value < 0.001


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
    alone, clustered = (
        pearson_between_judges(matrix(x, y, bases))[0] for bases in (None, np.repeat(np.arange(10), 6))
    )
    assert alone.estimate == pytest.approx(clustered.estimate)
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)
    assert clustered.n == {"bases": 10, "answers": 60, "judges": 2}
