import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logit_jackknife import jackknife
from scipy import stats
from score_tables import ends, golden

from toolkit.stats.inference.jackknife import jackknife_interval
from toolkit.stats.inference.means import cluster_robust, clustered_mean, mean_interval, paired_effect_size
from toolkit.stats.inference.p_values import holm
from toolkit.stats.inference.proportions import CLUSTERED_METHOD, METHOD, rate_mean, share, wilson
from toolkit.stats.result import Estimate

GOLDEN = golden("clustered_error_miller_2024")
SCORES = [score for cluster in GOLDEN["clusters"] for score in cluster]
CLUSTERS = [name for name, cluster in enumerate(GOLDEN["clusters"]) for _ in cluster]


def test_the_clustered_error_is_the_published_one():
    """Without a correction of its small sample it is Miller's own (CR0)."""
    small = clustered_mean(SCORES, CLUSTERS)
    assert small.error * np.sqrt(3 / 4) == pytest.approx(GOLDEN["clustered_se"], abs=1e-6)
    assert small.error == pytest.approx(GOLDEN["clustered_se_small_sample"], abs=1e-6)
    assert small.degrees == pytest.approx(3)


@settings(max_examples=25)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=12).filter(lambda values: len(set(values)) > 1))
def test_the_interval_and_p_value_are_those_of_scipy(values):
    found, oracle = mean_interval(values), stats.ttest_1samp(values, 0)
    interval = oracle.confidence_interval(0.95)
    assert ends(found) == pytest.approx(ends(interval), abs=1e-9)
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-9)


def test_cases_that_stand_alone_have_the_plain_interval():
    """Without clusters, and with one case in each."""
    hits = [True, False, True, True]
    plain, single = share("s", hits), share("s", hits, list("abcd"))
    assert ends(plain) == ends(single) == wilson(3, 4)
    assert plain.method == single.method == METHOD
    assert (plain.n, single.n) == ({"pairs": 4}, {"pairs": 4, "bases": 4})


def test_cases_of_one_cluster_that_agree_count_as_one():
    """Three alike cases in each of forty bases are forty cases, with Student t for the normal; where all agree, too."""
    many = [name for name in range(40) for _ in range(3)]
    alike = share("s", [name < 20 for name in many], many)
    doubt = (2.0226909 / 1.9599640) ** 2
    assert ends(alike) == pytest.approx(wilson(20 / doubt, 40 / doubt))
    assert alike.method == CLUSTERED_METHOD
    bases = [name for name in "abcd" for _ in range(3)]
    none = share("s", [False] * 12, bases)
    assert ends(none) == pytest.approx(wilson(0, 4))
    within = share("s", [True, False] * 40, [n // 2 for n in range(80)])
    assert within.low < wilson(40, 80)[0], "never narrower than independent cases"
    assert share("s", [True, False, True], ["a"] * 3).low == wilson(2 / 3, 1)[0]


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("sizes", [(4,) * 6, (90, 2, 3, 5), (50,) + (5,) * 11, (1, 2, 3, 40, 40)])
def test_clustered_cases_are_worth_what_the_regression_on_a_constant_says(sizes, rate):
    """The oracle has error and degrees of `cluster_robust`, and the kurtosis of the sums by scipy."""
    rng = np.random.default_rng(len(sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    hits = (rng.random(len(labels)) < rng.beta(2 * rate, 2 - 2 * rate, len(sizes))[labels]).astype(float)
    hits[:2] = 0.0, 1.0
    found = rate_mean(Estimate("rate", None), hits, labels.tolist())
    line = cluster_robust(np.ones((len(hits), 1)), hits, labels, {"mean": [1.0]})["mean"]
    sums = [float((hits[labels == place] - hits.mean()).sum()) for place in range(len(sizes))]
    excess = max(stats.kurtosis([*sums, *np.negative(sums)]), 0.0)
    degrees = 2 / (2 / line.degrees + excess / len(sizes))
    p, least = float(hits.mean()), len(hits) ** 2 / float(np.square(sizes).sum())
    worth = min(max(least, p * (1 - p) / line.error**2), len(hits))
    shared = share("rate", [hit == 1 for hit in hits], labels.tolist())
    worth /= (stats.t.ppf(0.975, degrees) / stats.norm.ppf(0.975)) ** 2
    assert ends(found) == pytest.approx(wilson(p * worth, worth))
    assert ends(found) == pytest.approx(ends(shared))


def test_clusters_of_equal_cases_count_by_kish():
    """Nine of ten cases in one cluster are worth little more than that cluster, where all agree."""
    labels = ["large"] * 90 + list("aabbccddee")
    worth = 100**2 / (90**2 + 5 * 2**2)
    none = rate_mean(Estimate("rate", None), [0.0] * 100, labels)
    assert ends(none) == pytest.approx(wilson(0, worth))


def test_the_interval_is_bias_corrected_with_the_degrees_that_the_kurtosis_leaves():
    """The oracle takes the unbiased kurtosis of scipy."""
    rng = np.random.default_rng(4)
    parts = rng.exponential(size=15)
    whole = 1.1
    error, degrees = jackknife(parts)
    assert degrees < 14
    centre = whole - 14 * (parts.mean() - whole)
    half = stats.t.ppf(0.975, degrees) * error
    low, high, _ = jackknife_interval(whole, parts)
    assert (float(low), float(high)) == pytest.approx((centre - half, centre + half))


@pytest.mark.parametrize("parts", [[1.0, 2.0, 3.0], [1.0] * 6, [1.0, 2.0, 3.0, 4.0, math.nan]])
def test_there_is_none_of_three_bases_nor_where_bases_make_no_or_an_infinite_difference(parts):
    low, high, _ = jackknife_interval(1.0, np.array(parts))
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize("shift", [-2.0, 0.0, 0.5, 5.0])
def test_the_ends_of_the_interval_invert_the_non_central_t(shift):
    differences = np.random.default_rng(11).normal(shift, 1, 20)
    d_z, low, high = paired_effect_size(differences)
    t = d_z * np.sqrt(20)
    assert t == pytest.approx(stats.ttest_1samp(differences, 0).statistic)
    assert stats.nct.cdf(t, 19, low * np.sqrt(20)) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(t, 19, high * np.sqrt(20)) == pytest.approx(0.025, abs=1e-5)


def test_p_values_are_corrected_as_published():
    published = golden("holm_1979")
    assert holm(published["p"]) == pytest.approx(published["holm"])
    assert holm([0.01, None, float("nan"), 0.04]) == (0.02, None, None, 0.04)
    assert holm([]) == ()
