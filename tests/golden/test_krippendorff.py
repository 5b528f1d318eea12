import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import ends, golden

from toolkit.stats.agreement.coefficients import krippendorff_alpha

GOLDEN = golden("krippendorff_2011")


def gappy(seed, answers=14, judges=4):
    rng = np.random.default_rng(seed)
    scores = np.clip(
        np.round(2 * (3 + rng.normal(0, 1, (answers, 1)) + rng.normal(0, 0.5, (answers, judges)))) / 2, 0, 5
    )
    scores[rng.random(scores.shape) < 0.3] = np.nan
    return scores


def of_the_package(scores):
    return krippendorff.alpha(reliability_data=scores.T, level_of_measurement="interval")


def test_krippendorffs_own_example():
    found = krippendorff_alpha(np.array(GOLDEN["ratings"], dtype=float).T)
    assert found.estimate == pytest.approx(GOLDEN["alpha"]["interval"], abs=1e-6)
    assert found.n == {"answers": 11, "judges": 4, "ratings": 40}
    assert found.missing == 7
    assert "1 answer with a single rating left out" in found.remarks
    assert found.low < found.estimate < found.high


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_alpha_with_gaps_is_that_of_the_krippendorff_package(seed):
    scores = gappy(seed)
    oracle = of_the_package(scores)
    assert krippendorff_alpha(scores).estimate == pytest.approx(oracle, abs=1e-10)
    rng = np.random.default_rng(seed)
    mixed = 7 + 3 * scores[rng.permutation(len(scores))][:, rng.permutation(4)]
    assert krippendorff_alpha(mixed).estimate == pytest.approx(oracle, abs=1e-9)


def test_the_interval_is_the_jackknife_of_the_package_over_bases():
    from toolkit.stats.agreement.icc import log_f
    from toolkit.stats.inference.jackknife import jackknife_interval

    scores, bases = gappy(3, answers=24), np.repeat(np.arange(8), 3)
    found = krippendorff_alpha(scores, list(bases))
    several = np.isfinite(scores).sum(axis=1) > 1
    k = np.isfinite(scores[several]).sum() / several.sum()
    without = [of_the_package(scores[bases != base]) for base in range(8)]
    low, high, _ = jackknife_interval(log_f(np.array(found.estimate), k), log_f(np.array(without), k))
    assert log_f(np.array(ends(found)), k) == pytest.approx([float(low), float(high)])
    assert found.n["bases"] == 8
