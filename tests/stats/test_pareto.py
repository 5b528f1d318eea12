"""Quality per AUD and the cost-quality front."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import check_shown, ends

from toolkit.stats.comparisons.cost_quality import front_probabilities, on_front, pareto
from toolkit.stats.inference.jackknife import jackknife_interval


def study(points, bases=12, spread=0.1):
    """Runs whose mean quality and cost are those of the points, whatever the noise."""
    rng = np.random.default_rng(7)
    rows = []
    for (model, level), (quality, cost) in points.items():
        q, c = rng.normal(0, spread, bases), rng.uniform(0.9, 1.1, bases)
        for b in range(bases):
            rows.append((f"b{b}", model, level, quality + q[b] - q.mean(), cost * c[b] / c.mean()))
    return pd.DataFrame(rows, columns=["base", "model", "level", "composite_strict", "aud_cost"])


POINTS = {
    ("cheap", "S"): (3.0, 0.01),
    ("cheap", "L"): (3.5, 0.03),
    ("dear", "S"): (3.2, 0.05),  # beaten by cheap at L
    ("dear", "L"): (4.5, 0.2),
}


def test_the_front_is_what_no_other_point_beats():
    """Three points are on it, and with this little noise surely; quality per AUD is the ratio of the means."""
    found = pareto(study(POINTS))
    assert [(point.model, point.level) for point in found.points] == list(POINTS)
    assert [point.on_front for point in found.points] == [True, True, False, True]
    assert [point.probability for point in found.points] == [1.0, 1.0, 0.0, 1.0]
    assert found.points[3].per_aud.estimate == pytest.approx(4.5 / 0.2)
    assert found.points[3].per_aud.unit == "score points (0-5) per AUD"
    assert "dear at S" not in found.sentence()


@given(st.integers(0, 200))
@settings(max_examples=30)
def test_the_front_is_that_of_trying_every_pair(seed):
    """Whole-number qualities and costs, ties included, and resamples one by one."""
    rng = np.random.default_rng(seed)
    quality, price = rng.integers(0, 3, (5, 6)).astype(float), rng.integers(1, 4, (5, 6)).astype(float)
    weights = rng.multinomial(5, [0.2] * 5, size=4).astype(float)
    found = on_front(weights, quality, price)
    for row, counts in zip(found, weights, strict=True):
        q, c = counts @ quality, counts @ price  # sums of whole numbers compare exactly
        for i in range(6):
            beaten = any(q[j] >= q[i] and c[j] <= c[i] and (q[j] > q[i] or c[j] < c[i]) for j in range(6))
            assert row[i] == (not beaten)


def test_probabilities_are_of_bases_drawn_together():
    """A point that is better by the same in every base is on the front in every resample, however bases differ."""
    base = np.random.default_rng(1).normal(3, 1, 10)
    quality, price = np.column_stack([base + 0.01, base]), np.ones((10, 2))
    assert front_probabilities(quality, price, 500, seed=1) == [1.0, 0.0]
    torn = np.column_stack([base, base[::-1]])
    shares = front_probabilities(torn, price, 4000, seed=1)
    assert shares == front_probabilities(torn, price, 4000, seed=1)
    assert 0.4 < shares[0] < 0.6
    assert sum(shares) >= 1


def test_free_runs_have_no_quality_per_aud():
    """A local model costs nothing: said so, still on the front, and nothing is divided by 0."""
    points = {("local", "S"): (2.0, 0.0), ("dear", "S"): (4.0, 0.1), ("worse", "S"): (1.0, 0.0)}
    found = pareto(study(points))
    dear, local, worse = found.points
    assert local.per_aud.estimate is None
    assert "cost nothing" in local.per_aud.remarks
    assert (local.on_front, dear.on_front, worse.on_front) == (True, True, False)
    free = pareto(study({("local", "S"): (2.0, 0.0), ("local", "L"): (3.0, 0.0)}))
    assert [point.on_front for point in free.points] == [False, True]
    assert "every run was free" in str(free.notes)
    check_shown(found)
    assert found.frame()["per_aud"].isna().tolist() == [False, True, True]


def test_what_is_missing_is_left_out_counted_and_priced():
    """A failed run is no zero; what it cost is told; points on other bases are told."""
    runs = study(POINTS)
    runs.loc[0, "composite_strict"] = np.nan
    runs.loc[5, "aud_cost"] = np.nan
    found = pareto(runs)
    assert found.points[0].quality.missing == 2
    assert found.points[0].quality.n == {"bases": 10, "answers": 10}
    assert any("2 of 48 runs" in note and f"AUD {runs.loc[0, 'aud_cost']:g}" in note for note in found.notes)
    assert "partly different bases" in str(found.notes)


def test_what_cannot_be_estimated_says_why():
    """Nothing judged, one base, constant scores and costs, a mean of 0."""
    assert pareto(study(POINTS).assign(composite_strict=np.nan)).frame().empty
    alone = pareto(study(POINTS, bases=1))
    assert {point.probability for point in alone.points} == {None}
    assert alone.points[0].per_aud.remarks == "no interval: one base"
    flat = pareto(study(POINTS).assign(composite_strict=4.0, aud_cost=0.5)).points[0]
    assert flat.per_aud.estimate == pytest.approx(8)
    assert "no interval" in flat.per_aud.remarks
    nought = pareto(study(POINTS).assign(composite_strict=0.0)).points[0].per_aud
    assert nought.estimate == 0
    assert "quality or cost is 0" in nought.remarks


def test_the_interval_of_quality_per_aud_is_the_jackknife_of_its_logarithm():
    """Made again from the estimates without each base in turn."""
    runs = study(POINTS, bases=7, spread=0.8)
    whole = pareto(runs, resamples=1).points[0].per_aud
    left = [pareto(runs[runs["base"] != f"b{b}"], resamples=1).points[0].per_aud.estimate for b in range(7)]
    *logs, _ = jackknife_interval(np.log(whole.estimate), np.log(left))
    assert ends(whole) == pytest.approx(tuple(np.exp(logs)))
