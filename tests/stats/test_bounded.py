"""The mean of scores on a scale that ends: a second calculation, its edges, and how often its interval holds."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
from logit_jackknife import logit_jackknife
from scipy import stats

from toolkit.stats.inference.means import BOUNDED, bounded_mean
from toolkit.stats.result import Estimate

EMPTY = Estimate("mean", None)
SCALE = (0.0, 5.0)


@pytest.mark.parametrize("ends", [(0.0, 5.0), (1.0, 5.0), (0.0, 100.0)])
@pytest.mark.parametrize("sizes", [(1,) * 6, (3, 1, 2, 5, 1, 4, 2)])
def test_a_second_calculation_gives_the_same(ends: tuple[float, float], sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    groups = [list(ends[0] + (ends[1] - ends[0]) * rng.uniform(0.3, 1.0, size)) for size in sizes]
    labels = [f"b{i}" for i, group in enumerate(groups) for _ in group]
    estimate = bounded_mean(EMPTY, [*chain(*groups)], labels, ends)
    assert estimate.estimate == pytest.approx(np.mean([*chain(*groups)]))
    assert (estimate.low, estimate.high) == pytest.approx(logit_jackknife(groups, ends))
    assert estimate.method == BOUNDED


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([4.0], "1 cluster, and two are needed"),
        ([5.0] * 6, "all 6 clusters are equal"),
        ([0.0] * 6, "all 6 clusters are equal"),
    ],
)
def test_where_there_is_no_variance_it_says_so(scores: list[float], reason: str) -> None:
    """Ties have a mean and no interval, never one of no width."""
    estimate = bounded_mean(EMPTY, scores, range(len(scores)), SCALE)
    assert (estimate.estimate, estimate.low, estimate.high) == (scores[0], None, None)
    assert reason in estimate.remarks


@pytest.mark.parametrize(
    "scores", [[5, 5, 5, 5, 5, 4], [0, 0, 0, 1], [5.0, 4.0], [4.9, 5.0, 5.0], [2.0, 3.0, 4.0]]
)
def test_one_base_apart_and_few_bases_have_a_finite_interval_within_the_scale(scores: list[float]) -> None:
    estimate = bounded_mean(EMPTY, scores, range(len(scores)), SCALE)
    assert 0 <= estimate.low <= estimate.estimate <= estimate.high <= 5
    assert estimate.low < estimate.high


def test_turning_the_scale_turns_the_interval() -> None:
    scores = np.array([4.0, 5.0, 4.5, 3.0, 5.0])
    up, down = (bounded_mean(EMPTY, values, range(5), SCALE) for values in (scores, 5 - scores))
    assert (down.low, down.high) == pytest.approx((5 - up.high, 5 - up.low))


def test_scores_beyond_the_scale_have_the_interval_of_students_t() -> None:
    estimate = bounded_mean(EMPTY, [4.0, 5.0, 6.0], range(3), SCALE)
    assert (estimate.low, estimate.high) == pytest.approx(stats.t.interval(0.95, 2, 5, 1 / math.sqrt(3)))
    assert estimate.method != BOUNDED


@pytest.mark.parametrize("bases", [12, 30])
def test_near_the_end_of_the_scale_the_interval_holds_where_students_t_does_not(bases: int) -> None:
    """Whole scores with a mean of 4.6, three answers a base whose difficulty is skewed: 600 studies."""
    rng = np.random.default_rng(20261125)

    def studies(count: int, size: int) -> np.ndarray:
        level = 4.8 - 0.4 * (rng.exponential(1, (count, size, 1)) - 1)
        return np.clip(np.round(level + rng.normal(0, 0.6, (count, size, 3))), 0, 5).mean(axis=2)

    truth = studies(200_000, 1).mean()
    assert truth == pytest.approx(4.63, abs=0.02)
    drawn = [x for x in studies(600, bases) if np.ptp(x) > 0]
    estimates = [bounded_mean(EMPTY, x, range(bases), SCALE) for x in drawn]
    holds = np.mean([one.low <= truth <= one.high for one in estimates])
    by_t = [stats.t.interval(0.95, bases - 1, x.mean(), stats.sem(x)) for x in drawn]
    assert holds > 0.945
    assert np.mean([low <= truth <= high for low, high in by_t]) < holds
