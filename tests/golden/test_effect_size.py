import numpy as np
import pytest
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.inference.effect_size import average_effect_size, paired_effect_size


@pytest.mark.parametrize("shift", [-2.0, 0.0, 0.5, 5.0])
def test_the_ends_of_the_interval_invert_the_non_central_t(shift):
    differences = np.random.default_rng(11).normal(shift, 1, 20)
    d_z, low, high = paired_effect_size(differences)
    t = d_z * np.sqrt(20)
    assert t == pytest.approx(stats.ttest_1samp(differences, 0).statistic)
    assert stats.nct.cdf(t, 19, low * np.sqrt(20)) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(t, 19, high * np.sqrt(20)) == pytest.approx(0.025, abs=1e-5)


def test_the_sign_of_the_differences_only_turns_the_interval_round():
    differences = [0.3, -0.1, 0.4, 0.2]
    d_z, low, high = paired_effect_size(differences)
    turned = paired_effect_size([-value for value in differences])
    assert turned == pytest.approx((-d_z, -high, -low), abs=1e-6)


@pytest.mark.parametrize("differences", [[], [1.0], [0.5, 0.5], [1.0, float("nan")]])
def test_what_has_no_effect_size_is_refused(differences):
    with pytest.raises(InputError, match="effect size"):
        paired_effect_size(differences)


def test_d_av_is_the_difference_over_the_average_spread_of_the_scores():
    rng = np.random.default_rng(3)
    first, second = rng.normal(3.4, 1, 15), rng.normal(3, 2, 15)
    d_av, low, high = average_effect_size(first, second)
    spread = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    assert d_av == pytest.approx((first.mean() - second.mean()) / spread)
    # Algina & Keselman (2003): the non-centralities of the paired t, times s_d / (s_av sqrt(n)).
    t = stats.ttest_rel(first, second).statistic
    ratio = (first - second).std(ddof=1) / spread / np.sqrt(15)
    assert stats.nct.cdf(t, 14, low / ratio) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(t, 14, high / ratio) == pytest.approx(0.025, abs=1e-5)
    assert average_effect_size(5 * first + 1, 5 * second + 1) == pytest.approx((d_av, low, high), rel=1e-6)
    assert average_effect_size(second, first) == pytest.approx((-d_av, -high, -low), rel=1e-5)


def test_pairs_that_do_not_match_or_vary_have_no_d_av():
    with pytest.raises(InputError, match="3 and 2 scores"):
        average_effect_size([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InputError, match="effect size"):
        average_effect_size([4.0, 4.0], [4.0, 4.0])
