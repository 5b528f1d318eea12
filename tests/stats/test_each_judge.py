"""Leniency and test-retest."""

import math

import numpy as np
import pandas as pd
import pingouin as pg
import pytest
import statsmodels.formula.api as smf
from score_tables import ends, long, matrix, numbers

from toolkit.stats.agreement.reliability import judge_leniency, reliability, retest
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import holm


def scores_of(seed=1, bases=12, answers=3, judges=3):
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(0, 0.8, bases), answers)[:, None] + rng.normal(0, 0.4, (bases * answers, 1))
    lenient = np.linspace(-0.5, 0.6, judges)
    return np.clip(
        np.round(2 * (3 + shared + lenient + rng.normal(0, 0.5, (bases * answers, judges)))) / 2, 0, 5
    )


def test_leniency_is_the_clustered_mean_of_a_judge_less_the_others():
    scores = scores_of()
    found = judge_leniency(matrix(scores, 3))
    p = []
    for judge in range(3):
        difference = scores[:, judge] - np.delete(scores, judge, axis=1).mean(axis=1)
        oracle = clustered_mean(difference, list(np.repeat(range(12), 3)))
        one = found[f"j{judge}"]
        assert numbers(one) == pytest.approx((oracle.mean, oracle.low, oracle.high))
        p.append(oracle.p_value)
    assert [one.p_value for one in found.values()] == pytest.approx(holm(p))
    assert {one.correction for one in found.values()} == {"Holm over 3 judges"}
    assert sum(one.estimate for one in found.values()) == pytest.approx(0, abs=1e-9)


def test_judges_that_are_equal_have_a_bound_and_a_p_value_of_1():
    """Sixths do not add up exactly: what is left over is no leniency."""
    same = np.repeat(scores_of(bases=8, judges=1) / 6, 4, axis=1)
    for one in judge_leniency(matrix(same, 3)).values():
        assert (one.estimate, one.p_value) == (0.0, 1.0)
        assert ends(one) == pytest.approx((-3.841459 / 11.841459, 3.841459 / 11.841459))


def test_a_gift_of_one_judge_is_its_leniency_and_unknown_bases_change_no_estimate():
    scores = scores_of(bases=5)
    given = matrix(scores + np.array([0, 0, 1.3]))
    before, after = (judge_leniency(one) for one in (matrix(scores, 3), given))
    assert after["j2"].estimate == pytest.approx(before["j2"].estimate + 1.3, abs=1e-9)
    assert after["j0"].estimate == pytest.approx(before["j0"].estimate - 0.65, abs=1e-9)


def repeats(scores, judge="primary"):
    return long(scores, 3).rename(columns={"judge": "repeat"}).assign(judge=judge)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_repeats_are_a_one_way_table():
    scores = scores_of(judges=2)
    icc, sd, detectable = retest(repeats(scores))["score", "primary"]
    rows = long(scores, 3)
    oracle = pg.intraclass_corr(rows, targets="target", raters="judge", ratings="score").set_index("Type")
    assert icc.estimate == pytest.approx(oracle.at["ICC(1,1)", "ICC"], abs=1e-9)
    assert sd.estimate == pytest.approx(math.sqrt((np.diff(scores, axis=1) ** 2).mean() / 2))
    assert detectable.estimate == pytest.approx(1.96 * math.sqrt(2) * sd.estimate, rel=1e-4)
    assert detectable.high == pytest.approx(1.96 * math.sqrt(2) * sd.high, rel=1e-4)
    assert icc.low < icc.estimate < icc.high
    assert icc.n == {"bases": 12, "answers": 36, "ratings": 72}
    one_way = {one.name: one for one in reliability(rows).icc["score"]}["ICC(1,1)"]
    assert ends(icc) == pytest.approx(ends(one_way))


def test_unequal_repeats_are_the_one_way_anova_of_statsmodels():
    scores = scores_of(judges=3)
    scores[::2, 2] = np.nan
    scores[5, :2] = np.nan
    frame = repeats(scores)
    icc, sd, _ = retest(frame)["score", "primary"]
    kept = frame.dropna()
    kept = kept[kept.groupby("target")["score"].transform("size") > 1]
    fit = smf.ols("score ~ C(target)", kept).fit()
    sizes = kept.groupby("target").size()
    m = (len(kept) - (sizes**2).sum() / len(kept)) / (len(sizes) - 1)
    within, between = fit.mse_resid, fit.mse_model
    assert sd.estimate == pytest.approx(math.sqrt(within))
    assert icc.estimate == pytest.approx((between - within) / (between + (m - 1) * within))
    assert "1 answer scored once left out" in icc.remarks
    assert icc.missing == frame["score"].isna().sum()


def test_each_dimension_and_judge_is_told_apart():
    one, other = repeats(scores_of(1, judges=2)), repeats(scores_of(2, judges=2), "secondary")
    found = retest(
        pd.concat(
            [one.assign(dimension="clarity"), other.assign(dimension="clarity"), one.assign(dimension="wit")]
        )
    )
    assert list(found) == [("clarity", "primary"), ("clarity", "secondary"), ("wit", "primary")]
