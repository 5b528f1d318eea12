"""Power: what paired tests, equivalence and a pilot's own runs can tell apart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import check_shown, crossed, named

from toolkit.stats import (
    bases_needed,
    compare_conditions,
    detectable_effect,
    equivalence_bases,
    pilot_power,
    standard_deviation,
)
from toolkit.stats.power.sample_size import t_power, tost_power

PAIRS = (("M", "S"), ("L", "M"), ("L", "S"))


@settings(max_examples=30)
@given(st.floats(0.15, 1.0), st.floats(0.2, 2.0), st.sampled_from([0.8, 0.9, 0.98]))
def test_n_and_effect_are_each_others_inverse_and_the_unit_does_not_matter(d_z, sd, power):
    """What n bases detect needs n bases, in score points as in standard deviations; without effect it is the level."""
    needed = bases_needed(d_z * sd, sd, power=power)
    assert needed.estimate == pytest.approx(bases_needed(d_z, 1.0, power=power).estimate, rel=1e-9)
    assert detectable_effect(needed.estimate, sd, power=power).estimate == pytest.approx(d_z * sd, rel=1e-6)
    assert t_power(needed.whole - 1, d_z * math.sqrt(needed.whole), 0.05) >= power - 1e-9
    assert bases_needed(-d_z * sd, sd, power=power).estimate == needed.estimate
    assert t_power(11, 0.0, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize(("difference", "power"), [(0.0, 0.5), (0.1, 0.8)])
def test_the_bases_of_equivalence_are_the_first_that_have_their_power(difference, power):
    """The sign of the difference does not matter."""
    found = equivalence_bases(0.25, 0.5, difference=difference, power=power)
    other = equivalence_bases(0.25, 0.5, difference=-difference, power=power)
    assert found.estimate == pytest.approx(other.estimate)
    less, enough = (
        tost_power(0.25, difference, 0.5 / math.sqrt(n), n - 1, 0.05) for n in (found.whole - 1, found.whole)
    )
    assert less < power <= enough


def test_what_cannot_be_found_has_no_number_and_a_reason_and_nothing_is_rounded_down():
    """No effect, equal means, a difference on the margin; two bases at least."""
    for found in (
        bases_needed(0.0, 1.0),
        bases_needed(1e-6, 1.0),
        equivalence_bases(0.25, 0.6, difference=0.25),
    ):
        assert (found.estimate, found.whole) == (None, None)
        assert found.remarks.startswith("not estimable: ")
        assert found.remarks in found.sentence() == found.to_dict()["sentence"]
    assert bases_needed(1e6, 1.0).estimate == 2.0


def pilot(bases=20, repeats=2, models=2, seed=1):
    """Runs whose differences have the variance .3**2 x 2 between bases and .4**2 of a repeat."""
    dice = np.random.default_rng(seed)
    levels = {"model": named("m", models), "repeat": range(repeats)}
    frame = crossed(base=named("b", bases), level="SML", **levels)
    prompts = np.array([3.2, 3.4, 3.5]) + dice.normal(0, 0.7, (bases, 1)) + dice.normal(0, 0.3, (bases, 3))
    scores = prompts.repeat(models * repeats) + dice.normal(0, 0.4, len(frame))
    return frame.assign(composite_strict=scores, aud_cost=0.01, judge_aud_cost=0.02)


def test_the_spread_is_that_of_the_contrast_power_is_at_holms_first_level_and_cost_that_of_the_runs():
    """The same differences as in the comparison of lengths, tested at .05 / 3; 12 runs a base at 3 cents each."""
    frame = pilot()
    found, compared = pilot_power(frame, 0.3), compare_conditions(frame).contrasts
    cells = frame.groupby(["base", "level"])["composite_strict"].mean().unstack()
    assert found.aud_per_base.estimate == pytest.approx(12 * 0.03)
    for one, contrast, (b, a) in zip(found.contrasts, compared, PAIRS, strict=True):
        sd = (cells[b] - cells[a]).std(ddof=1)
        assert one.name == contrast.name
        assert one.spread.estimate == pytest.approx(sd)
        assert one.detectable.estimate == pytest.approx(detectable_effect(20, sd, alpha=0.05 / 3).estimate)
        assert one.needed.estimate == pytest.approx(bases_needed(0.3, sd, alpha=0.05 / 3).estimate)
        assert one.needed.low < one.needed.estimate < one.needed.high
        assert one.detectable.low < one.detectable.estimate < one.detectable.high
        assert one.cost.estimate == pytest.approx(one.needed.whole * 0.36)
        assert f"{one.needed.whole} bases cost {one.cost.estimate:.2f} AUD" in one.cost.sentence()


def test_more_repeats_take_from_the_variance_only_what_is_theirs():
    """With two repeats as in the pilot the answer is the same; the parts are those of the formula."""
    frame = pilot(bases=400)
    one = pilot_power(frame, 0.1).contrasts[2]
    assert one.within == pytest.approx(2 * 0.4**2 / 2, rel=0.1)
    assert one.between == pytest.approx(2 * 0.3**2, rel=0.15)
    assert one.between + one.within / 2 == pytest.approx(one.spread.estimate**2)
    same, more = (pilot_power(frame, 0.1, repeats=k) for k in (2, 10))
    assert same.contrasts[2].needed.estimate == pytest.approx(one.needed.estimate)
    assert more.contrasts[2].sd == pytest.approx(math.sqrt(one.between + one.within / 10))
    assert more.contrasts[2].needed.low is None
    assert more.aud_per_base.estimate == pytest.approx(5 * same.aud_per_base.estimate)


def test_a_negative_component_counts_as_nothing_and_an_unknown_one_has_no_number():
    """Repeats that vary more than bases do, and no repeats at all."""
    frame = pilot(bases=6)
    noise = np.random.default_rng(2).normal(0, 0.01, len(frame))
    found = pilot_power(frame.assign(composite_strict=3.0 + frame["repeat"] * 2.0 + noise), repeats=5)
    one = found.contrasts[0]
    assert one.between < 0
    assert one.sd == pytest.approx(math.sqrt(one.within / 5))
    assert "taken as 0" in str(found.notes)
    once = pilot(repeats=1)
    assert pilot_power(once, 0.3).contrasts[0].needed.estimable
    one = pilot_power(once, 0.3, repeats=3).contrasts[0]
    assert (one.between, one.needed.estimate, one.cost.estimate) == (None, None, None)
    assert "without repeats" in one.needed.remarks


def test_a_missing_score_is_no_zero_and_a_base_without_a_bin_is_counted():
    """All runs of one base and bin fail."""
    frame = pilot()
    lost = (frame["base"] == "b0") & (frame["level"] == "L")
    found, dropped = (
        pilot_power(frame.assign(composite_strict=frame["composite_strict"].mask(lost))),
        pilot_power(frame[~lost]),
    )
    assert [one.spread.missing for one in found.contrasts] == [0, 1, 1]
    assert found.contrasts[2].detectable.estimate == pytest.approx(dropped.contrasts[2].detectable.estimate)
    assert "4 of 240 runs have no score" in str(found.notes)


def test_costs_that_are_nothing_or_unknown_are_named():
    """Local models cost nothing; a frame without costs has no AUD."""
    free = pilot_power(pilot().assign(aud_cost=0.0, judge_aud_cost=0.0), 0.3).contrasts[0].cost
    assert free.estimate == 0
    assert "cost nothing" in free.sentence()
    unknown = pilot_power(pilot().drop(columns=["aud_cost", "judge_aud_cost"]), 0.3).contrasts[0].cost
    assert unknown.estimate is None
    assert "no aud_cost" in unknown.remarks
    assert "no cost of 'm0'" in pilot_power(pilot().assign(aud_cost=math.nan), 0.3).contrasts[0].cost.remarks
    unjudged = pilot_power(pilot().assign(judge_aud_cost=math.nan), 0.3)
    assert unjudged.aud_per_base.estimate == pytest.approx(0.12)
    assert "judges are not in the AUD" in str(unjudged.notes)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (pilot(bases=1), "two are needed"),
        (pilot(bases=2), "2 bases, and 5 are needed"),
        (pilot(bases=4), "4 bases, and 5 are needed"),
        (pilot(bases=5).assign(composite_strict=3.0), "are equal"),
        (pilot(bases=5).assign(composite_strict=lambda f: f["composite_strict"] * 1e-13 + 4), "are equal"),
        (pilot().assign(composite_strict=math.nan), None),
        (pilot().query("level == 'S'"), None),
        (pilot().head(0), None),
    ],
)
def test_what_a_pilot_cannot_tell_has_its_reason(frame, why):
    """One base, constant scores, rounding; no score and one bin have no contrast."""
    found = pilot_power(frame, 0.3)
    assert bool(found.contrasts) == (why is not None)
    assert why or any("no contrast" in note for note in found.notes)
    for one in found.contrasts:
        assert one.detectable.estimate is None
        assert why in one.detectable.remarks
        assert why in one.cost.remarks
    check_shown(found)
    assert found.curve([10])["detectable_effect"].isna().all()


def test_the_curve_falls_with_the_bases_and_costs_rise():
    """One row a contrast and number."""
    found = pilot_power(pilot())
    curve = found.curve([10, 20, 40])
    first = curve[curve["contrast"] == "M-S"]
    assert len(curve) == 9
    assert first["detectable_effect"].is_monotonic_decreasing
    assert first["aud"].tolist() == pytest.approx([3.6, 7.2, 14.4])
    assert first["detectable_effect"].iloc[1] == found.contrasts[0].detectable.estimate


@pytest.mark.parametrize("n", [12, 60])
def test_the_interval_of_a_standard_deviation_holds_for_scores_at_the_ceiling(n):
    """1,000 samples of differences of clipped half-step means: within three Monte-Carlo errors of 95 %."""
    dice = np.random.default_rng(6)

    def draw(count):
        scores = 4.4 + dice.normal(0, 0.6, (count, 1, 1)) + dice.normal(0, 0.7, (count, 2, 3))
        means = np.clip(np.round(scores * 2) / 2, 0, 5).mean(axis=2)
        return means[:, 0] - means[:, 1]

    truth = draw(200_000).std()
    found = [standard_deviation("sd", draw(n)) for _ in range(1000)]
    assert 0.925 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.97


def test_four_values_have_a_standard_deviation_without_an_interval():
    few = standard_deviation("sd", [1.0, 2.0, 3.0, 4.0])
    assert (few.estimate, few.low) == (pytest.approx(np.std([1, 2, 3, 4], ddof=1)), None)
