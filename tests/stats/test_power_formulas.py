"""Power of paired tests, equivalence, repeated measures and reliability: published numbers, oracles and edges."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from statsmodels.stats.power import TTestPower

from toolkit.errors import InputError
from toolkit.stats.power.answer import f_power, smallest, t_power, whole
from toolkit.stats.power.equivalence import equivalence_bases, equivalence_power, smallest_margin, tost_power
from toolkit.stats.power.icc import answers_for_icc_bound, answers_for_icc_width, icc_bound_power
from toolkit.stats.power.paired import bases_needed, detectable_effect, paired_power, paired_sample_size

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "power.json").read_text("utf-8"))


@pytest.mark.parametrize(("d_z", "n"), GOLDEN["paired_t_power"]["n_for_dz"].items())
def test_bases_for_an_effect_are_the_golden_ones(d_z, n):
    """To the printed hundredth of a base."""
    assert bases_needed(float(d_z), 1.0).estimate == pytest.approx(n, abs=0.005)


def test_the_detectable_effect_of_a_hundred_bases_is_the_golden_one():
    """To the printed third digit."""
    found = detectable_effect(100, 1.0)
    assert found.estimate == pytest.approx(GOLDEN["paired_t_power"]["mde_dz_at_n100"], abs=0.0005)


@pytest.mark.parametrize("case", GOLDEN["sample_size_paired"]["cases"])
def test_millers_sample_sizes_are_the_golden_ones(case):
    """To the digits that the printed variances allow: 0.111111 for 1/9 leaves 0.005 questions."""
    within, repeats = (case["sigma2_a"], case["sigma2_b"]), (case["K"], case["K"])
    found = paired_sample_size(case["delta"], case["omega2"], within, repeats)
    digits = 0.005 if case["n"] % 1 else 0.5
    assert found.estimate == pytest.approx(case["n"], abs=digits)


def test_equivalence_has_the_power_that_powertost_prints():
    """Owen's Q there, an integral here."""
    case = GOLDEN["powertost"]
    error = math.sqrt(math.log(case["cv"] ** 2 + 1) * 2 / case["n"])
    found = tost_power(math.log(1.25), math.log(case["ratio"]), error, case["n"] - 2, 0.05)
    assert found == pytest.approx(case["power"], abs=5e-7)


@pytest.mark.parametrize("case", GOLDEN["bonett_2002"]["cases"])
def test_answers_for_a_width_are_bonetts(case):
    """Whole answers, as printed."""
    assert answers_for_icc_width(case["icc"], case["judges"], case["width"]).whole == case["n"]


def test_answers_with_assurance_are_zous_and_those_for_a_bound_walters():
    """Zou's closed form, and the exact F where Walter, Eliasziw & Donner approximate."""
    zou, walter = GOLDEN["zou_2012"], GOLDEN["walter_1998"]
    found = answers_for_icc_width(zou["icc"], zou["judges"], zou["width"], assurance=zou["assurance"])
    assert found.whole == zou["n"]
    one_sided = answers_for_icc_bound(
        walter["icc"], walter["bound"], walter["judges"], form="ICC(1,1)", confidence=0.9
    )
    assert one_sided.whole == walter["n"]


def test_repeated_measures_have_the_power_that_gpower_prints():
    """To its printed fourth digit."""
    case = GOLDEN["repeated_measures"]
    assert f_power(*case["df"], case["noncentrality"], 0.05) == pytest.approx(case["power"], abs=5e-5)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.floats(0.1, 1.5), st.integers(4, 300), st.sampled_from([0.01, 0.05 / 3, 0.05]))
def test_the_power_of_t_is_that_of_statsmodels(d_z, n, alpha):
    """For every effect, size and level where statsmodels has a number."""
    oracle = TTestPower().power(d_z, n, alpha)
    assume(oracle == oracle)  # it has none far out in the tail
    assert paired_power(d_z, 1.0, n, alpha=alpha).estimate == pytest.approx(oracle, abs=1e-7)


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


def test_without_an_effect_power_is_the_level():
    """Of both tests."""
    assert paired_power(0.0, 1.0, 12).estimate == pytest.approx(0.05)
    assert f_power(2, 22, 0.0, 0.05) == pytest.approx(0.05)
    assert tost_power(0.3, 0.3, 0.05, 400, 0.05) == pytest.approx(0.05, abs=1e-6)  # on the margin


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.floats(0.15, 1.0), st.floats(0.2, 2.0), st.sampled_from([0.8, 0.9, 0.98]))
def test_n_and_effect_are_each_others_inverse_and_the_unit_does_not_matter(d_z, sd, power):
    """What n bases detect needs n bases, in score points as in standard deviations."""
    needed = bases_needed(d_z * sd, sd, power=power)
    assert needed.estimate == pytest.approx(bases_needed(d_z, 1.0, power=power).estimate, rel=1e-9)
    back = detectable_effect(needed.estimate, sd, power=power)
    assert back.estimate == pytest.approx(d_z * sd, rel=1e-6)
    assert paired_power(d_z * sd, sd, needed.whole).estimate >= power - 1e-9
    assert paired_power(-d_z * sd, sd, 20).estimate == paired_power(d_z * sd, sd, 20).estimate


def test_the_seeds_power_is_computed_and_not_quoted():
    """D = 1.2 with n = 100 has more than .98; .98 takes 14 bases (DESIGN section 8)."""
    assert paired_power(1.2, 1.0, 100).estimate > 0.9999999
    assert bases_needed(1.2, 1.0, power=0.98).whole == 14
    assert "more than 99.9%" in paired_power(1.2, 1.0, 100).sentence()
    assert "needs 14 bases" in bases_needed(1.2, 1.0, power=0.98).sentence()


@pytest.mark.parametrize(("difference", "n"), [(0.0, 12), (0.1, 12), (0.1, 40), (0.25, 40)])
def test_the_power_of_equivalence_is_that_of_simulated_studies(difference, n):
    """40,000 studies, tested by the 90 % interval inside the margin."""
    dice = np.random.default_rng(3)
    means = dice.normal(difference, 0.5 / math.sqrt(n), 40_000)
    errors = 0.5 * np.sqrt(dice.chisquare(n - 1, 40_000) / (n - 1) / n)
    half = stats.t.isf(0.05, n - 1) * errors
    declared = ((means - half > -0.25) & (means + half < 0.25)).mean()
    assert equivalence_power(0.25, 0.5, n, difference=difference).estimate == pytest.approx(
        declared, abs=0.008
    )


def test_bases_and_margin_of_equivalence_are_each_others_inverse():
    """And a difference on the margin is never equivalent."""
    needed = equivalence_bases(0.25, 0.6, difference=0.05)
    margin = smallest_margin(needed.estimate, 0.6, difference=0.05)
    assert margin.estimate == pytest.approx(0.25, rel=1e-6)
    assert equivalence_bases(0.25, 0.6, difference=-0.05).estimate == pytest.approx(needed.estimate)
    assert "is not within" in equivalence_bases(0.25, 0.6, difference=0.25).note


def test_the_power_of_a_bound_is_that_of_simulated_studies():
    """4,000 studies of 30 answers by three judges, F computed from their mean squares."""
    dice = np.random.default_rng(8)
    n, k, icc = 30, 3, 0.85
    scores = math.sqrt(icc) * dice.normal(size=(4000, n, 1)) + math.sqrt(1 - icc) * dice.normal(
        size=(4000, n, k)
    )
    rows, columns = scores.mean(axis=2), scores.mean(axis=1)
    whole_mean = scores.mean(axis=(1, 2))
    between = k * ((rows - whole_mean[:, None]) ** 2).sum(axis=1) / (n - 1)
    residual = scores - rows[:, :, None] - columns[:, None, :] + whole_mean[:, None, None]
    error = (residual**2).sum(axis=(1, 2)) / ((n - 1) * (k - 1))
    low = between / error / stats.f.isf(0.025, n - 1, (n - 1) * (k - 1))
    above = ((low - 1) / (low + k - 1) > 0.75).mean()
    assert icc_bound_power(icc, 0.75, k, n).estimate == pytest.approx(above, abs=0.025)


def test_a_small_n_is_still_enough_where_the_effect_is_huge_and_numbers_never_round_down():
    """Two bases at least, and 12.0000000001 are 12."""
    assert bases_needed(1e6, 1.0).estimate == 2.0
    assert (whole(12.0000000001), whole(12.01)) == (12, 13)
    assert smallest(lambda n: 0.5, 0.8, 2.0, most=1000) is None


def test_what_cannot_be_found_has_no_number_and_a_reason():
    """No effect, equal means, a reliability that is not above its bound."""
    for found in (
        bases_needed(0.0, 1.0),
        bases_needed(1e-6, 1.0),
        paired_sample_size(0.0, 0.1),
        paired_sample_size(0.1, 0.0),
        answers_for_icc_bound(0.7, 0.75, 3),
    ):
        assert found.estimate is None
        assert found.whole is None
        assert found.note.startswith("not estimable: ")
        assert found.note in found.sentence()
        assert found.to_dict()["sentence"] == found.sentence()


@pytest.mark.parametrize(
    "call",
    [
        lambda: paired_power(0.5, 0.0, 10),
        lambda: paired_power(0.5, 1.0, 1),
        lambda: paired_power(float("nan"), 1.0, 10),
        lambda: paired_power(0.5, float("inf"), 10),
        lambda: bases_needed(0.5, 1.0, power=1.0),
        lambda: bases_needed(0.5, 1.0, alpha=0.0),
        lambda: detectable_effect(10, -1.0),
        lambda: paired_sample_size(0.1, -0.1),
        lambda: paired_sample_size(0.1, 0.1, repeats=(0, 1)),
        lambda: equivalence_power(0.0, 1.0, 10),
        lambda: equivalence_power(0.2, 1.0, 10, alpha=0.6),
        lambda: answers_for_icc_width(1.0, 3, 0.2),
        lambda: answers_for_icc_width(0.8, 1, 0.2),
        lambda: answers_for_icc_width(0.8, 3, 0.0),
        lambda: answers_for_icc_width(0.8, 3, 0.2, assurance=0.3),
        lambda: icc_bound_power(0.8, 1.2, 3, 20),
        lambda: icc_bound_power(0.8, 0.7, 3, 20, form="ICC(A,1)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_clear_line(call):
    """The error names the value."""
    with pytest.raises(InputError, match="power: ") as caught:
        call()
    assert "\n" not in str(caught.value)
