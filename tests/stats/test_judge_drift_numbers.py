"""Drift of judges: against scipy where bases are single, and what it says at the edges."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from score_tables import check_shown, ends, named
from statsmodels.stats.proportion import proportion_confint

from toolkit.stats import holm, judge_drift


def frames(then, now, *, bases=None, judge="primary", dimension="composite_strict", **more):
    """Two frames of one judge, a reply a score."""
    rows = pd.DataFrame({"target": named("r", len(then))})
    rows["base"] = rows["target"] if bases is None else list(bases)
    rows = rows.assign(judge=judge, dimension=dimension, **more)
    return rows.assign(score=then), rows.assign(score=now)


def moved(differences, confidence=0.95):
    """Return the interval of a shift of single bases: the wider of scipy's t and of both sides put together."""
    count = len(differences)
    test = scipy_stats.ttest_1samp(differences, 0).confidence_interval(confidence)
    level = (1 + confidence) / 2
    cases = count / (scipy_stats.t.ppf(level, count - 1) / scipy_stats.norm.ppf(level)) ** 2
    sides = []
    sizes = np.sort(np.abs(differences[differences != 0]))
    squared = np.average(sizes, weights=sizes)
    step = squared + (sizes[-1] - squared) * (5 / len(sizes) if len(sizes) > 5 else 1)
    for moves in (differences[differences > 0], -differences[differences < 0]):
        share = moves.sum() / step / count
        low, high = proportion_confint(share * cases, cases, 1 - confidence, "wilson")
        sides.append((share * step, max(low, 0.0) * step, min(high, 1.0) * step))
    (up, up_low, up_high), (down, down_low, down_high) = sides
    low = up - down - np.hypot(up - up_low, down_high - down)
    return min(test.low, low), max(test.high, up - down + np.hypot(up_high - up, down - down_low))


@pytest.mark.parametrize("changes", [
    [0.5, *[0.0] * 9], [1.0, -0.5, *[0.0] * 18], [-0.5, -0.5, -1.0, *[0.0] * 9], [0.5, 1.0, 0.5, 2.0, -1.0, 0.0],
    list(np.linspace(-1, 1.5, 30)), [0.4, 0.5, 0.6, 0.5],
])  # fmt: skip
def test_few_moves_up_and_down_are_put_together(changes):
    """The interval is that of a second calculation, and P is where it just reaches 0."""
    then = np.resize([1.0, 2.0, 3.0, 2.5], len(changes))
    (part,) = judge_drift(*frames(then, then + changes)).drifts
    assert ends(part.shift) == pytest.approx(moved(np.array(changes)))
    assert (part.shift.p_value < 0.05) == (not part.shift.low <= 0 <= part.shift.high)
    touching = moved(np.array(changes), 1 - part.shift.p_value)
    assert min(map(abs, touching)) == pytest.approx(0.0, abs=1e-6)


def test_one_large_base_is_worth_little_more_than_itself():
    """Fifty of 58 replies are of one base, and it alone moved: no interval by 9 bases would say so."""
    bases = ["large"] * 50 + list("abcdefgh")
    (part,) = judge_drift(*frames([3.0] * 58, [4.0] * 50 + [3.0] * 8, bases=bases)).drifts
    assert part.shift.low < 0.1
    assert part.shift.high > 0.95


def test_single_bases_and_holm_over_judges():
    """Mean and ends for each judge; p by Holm for the composite, as it is for a dimension."""
    rng, sides = np.random.default_rng(3), []
    for judge, shift in (("primary", 0.4), ("secondary", -0.3)):
        then = rng.integers(1, 5, 25).astype(float)
        now = then + np.round(rng.normal(shift, 0.8, 25))
        sides += [frames(then, now, judge=judge), frames(then, now, judge=judge, dimension="clarity")]
    then, now = (pd.concat(side) for side in zip(*sides, strict=True))
    drift = judge_drift(then, now)
    raw = [part.shift.p_value for part in drift.drifts if part.dimension == "clarity"]
    for (first, second), part in zip(sides[::2], drift.composites.values(), strict=True):
        changes = (second["score"] - first["score"]).to_numpy()
        assert part.shift.estimate == pytest.approx(changes.mean())
        assert ends(part.shift) == pytest.approx(moved(changes))
        assert part.changed.estimate == (first["score"] != second["score"]).mean()
    assert [part.shift.p_value for part in drift.composites.values()] == pytest.approx(holm(raw))
    assert list(drift.frame()["judge"].unique()) == ["primary", "secondary"]
    check_shown(drift)
    assert len(drift.to_dict()["drifts"]) == 4


@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_where_all_moved_alike_the_interval_is_what_so_many_bases_allow(moved):
    """No spread is no certainty, and the reason stands beside it; the bound itself: test_error_bars."""
    then = [1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0, 4.0, 3.0, 2.0]
    drift = judge_drift(*frames(then, [score + moved for score in then]))
    (part,) = drift.drifts
    assert "10 may not show" in part.shift.note
    assert (part.shift.p_value, part.changed.estimate) == (2**-9 if moved else 1.0, moved)
    assert drift.outside(0.25).keys() == {"primary"}  # ten bases show no more than that a quarter may move
    assert bool(drift.outside(0.3)) == bool(moved)


def test_equal_means_of_bases_are_not_called_unchanged_scores():
    """Each base has one score up and one down: the shift is 0 in each, and every score changed."""
    (part,) = judge_drift(*frames([2.0, 3.0] * 6, [3.0, 2.0] * 6, bases=np.repeat(range(6), 2))).drifts
    assert (part.shift.estimate, part.changed.estimate) == (0.0, 1.0)
    assert "no score changed" not in part.shift.note


def test_missing_scores_of_either_day_are_counted_and_never_zero():
    """NaN on one side, no row on the other; none of both days is no number; one base has no interval."""
    then, now = frames([3.0, np.nan, 2.0, 4.0, 1.0], [3.0, 2.0, np.nan, 5.0, 1.0])
    (part,) = judge_drift(then, now.iloc[:4]).drifts
    assert part.shift.n["pairs"] == 2
    assert part.shift.missing == part.agreement.missing == part.changed.missing == 3
    assert part.shift.estimate == 0.5
    drift = judge_drift(*frames([np.nan, 2.0], [1.0, np.nan]))
    assert (drift.drifts[0].shift.estimate, drift.drifts[0].changed.estimate) == (None, None)
    assert "no reply has a score of both days" in drift.sentence()
    alone = judge_drift(*frames([1.0, 2.0], [2.0, 2.0], bases="aa"))
    assert (alone.drifts[0].shift.estimate, alone.drifts[0].shift.low) == (0.5, None)
    assert "has no interval (1 cluster, and two are needed)" in alone.outside(5.0)["primary"]
    empty = judge_drift(*(side.iloc[:0] for side in frames([1.0], [1.0])))
    assert (empty.drifts, empty.outside(0.1), len(empty.frame())) == ((), {}, 0)


def test_bases_that_share_texts_are_one_group():
    """Intervals rest on clusters, and say so."""
    clusters = np.repeat(named("c", 5), 2)
    sides = frames(np.arange(10) % 4 + 1.0, np.arange(10) % 3 + 1.0, cluster=clusters)
    (part,) = judge_drift(*sides).drifts
    (plain,) = judge_drift(*(side.assign(base=clusters).drop(columns="cluster") for side in sides)).drifts
    assert part.shift.n["independent groups"] == 5
    assert ends(part.shift) == ends(plain.shift)
