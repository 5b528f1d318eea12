import numpy as np
import pytest
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.effect_size import paired_effect_size


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
