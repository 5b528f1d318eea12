"""Power and sample sizes: published numbers, and other people's code."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from score_tables import golden
from statsmodels.stats.power import TTestPower

from toolkit import stats as ours
from toolkit.stats.power.sample_size import t_power, tost_power

GOLDEN = golden("power")


def test_bases_and_effects_of_the_paired_t_test_are_the_golden_ones():
    """To the printed digits; d = 1.2 has .98 with 14 bases, and more than that with a hundred (DESIGN section 8)."""
    printed = GOLDEN["paired_t_power"]
    for d_z, n in printed["n_for_dz"].items():
        assert ours.bases_needed(float(d_z), 1.0).estimate == pytest.approx(n, abs=0.005)
    assert ours.detectable_effect(100, 1.0).estimate == pytest.approx(printed["mde_dz_at_n100"], abs=0.0005)
    assert t_power(99, 1.2 * math.sqrt(100), 0.05) > 0.9999999
    assert ours.bases_needed(1.2, 1.0, power=0.98).whole == 14


def test_equivalence_has_the_power_that_powertost_prints():
    """Owen's Q there, an integral here."""
    case = GOLDEN["powertost"]
    error = math.sqrt(math.log(case["cv"] ** 2 + 1) * 2 / case["n"])
    found = tost_power(math.log(1.25), math.log(case["ratio"]), error, case["n"] - 2, 0.05)
    assert found == pytest.approx(case["power"], abs=5e-7)


@settings(max_examples=40)
@given(st.floats(0.1, 1.5), st.integers(4, 300), st.sampled_from([0.01, 0.05 / 3, 0.05]))
def test_the_power_of_t_is_that_of_statsmodels(d_z, n, alpha):
    """For every effect, size and level where statsmodels has a number."""
    oracle = TTestPower().power(d_z, n, alpha)
    assume(oracle == oracle)  # it has none far out in the tail
    assert t_power(n - 1, d_z * math.sqrt(n), alpha) == pytest.approx(oracle, abs=1e-7)


@pytest.mark.parametrize(
    ("degrees", "shift"), [(1, 12.0), (1, 400.0), (2, 12.0), (4, 40.0), (99_999, 12.0), (3, 0.0)]
)
def test_the_power_of_t_exists_where_scipys_distribution_is_not_a_number(degrees, shift):
    """Against the integral over the chi distribution, by quadrature."""
    critical = stats.t.isf(0.025, degrees)

    def integrand(q):
        outside = stats.norm.cdf(shift - critical * q) + stats.norm.cdf(-shift - critical * q)
        return outside * stats.chi.pdf(q * math.sqrt(degrees), degrees) * math.sqrt(degrees)

    end = 1 + 12 / math.sqrt(2 * degrees) + 3 / math.sqrt(degrees)
    oracle = integrate.quad(integrand, 0, end, limit=400, points=[max(1 - 6 / math.sqrt(degrees), 0.1), 1])[0]
    assert t_power(degrees, shift, 0.05) == pytest.approx(oracle, abs=1e-7)
