"""Power from a study's own runs, and by simulation."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from toolkit.errors import InputError
from toolkit.stats.inference.effect_size import standard_deviation
from toolkit.stats.length import compare_lengths
from toolkit.stats.power_paired import bases_needed, detectable_effect
from toolkit.stats.power_pilot import pilot_power


def pilot(bases: int = 20, repeats: int = 2, models: int = 2, seed: int = 1) -> pd.DataFrame:
    """Runs whose differences have the variance .3**2 x 2 between bases and .4**2 of a repeat."""
    dice = np.random.default_rng(seed)
    rows = []
    for b in range(bases):
        base = dice.normal(0, 0.7)
        for length, mean in (("S", 3.2), ("M", 3.4), ("L", 3.5)):
            prompt = base + mean + dice.normal(0, 0.3)
            for model in range(models):
                for repeat in range(repeats):
                    rows.append((f"b{b}", f"m{model}", length, repeat, prompt + dice.normal(0, 0.4)))
    frame = pd.DataFrame(rows, columns=["base", "model", "length_bin", "repeat", "composite"])
    return frame.assign(aud_cost=0.01, judge_aud_cost=0.02)


def test_the_spread_is_that_of_the_contrast_and_power_is_at_holms_first_level():
    """The same differences as in the comparison of lengths, tested at .05 / 3."""
    frame = pilot()
    found = pilot_power(frame, 0.3)
    cells = frame.groupby(["base", "length_bin"])["composite"].mean().unstack()
    for one, contrast, (b, a) in zip(
        found.contrasts, compare_lengths(frame).contrasts, (("M", "S"), ("L", "M"), ("L", "S")), strict=True
    ):
        sd = (cells[b] - cells[a]).std(ddof=1)
        assert one.name == contrast.name
        assert one.spread.estimate == pytest.approx(sd)
        assert one.detectable.estimate == pytest.approx(detectable_effect(20, sd, alpha=0.05 / 3).estimate)
        assert one.needed.estimate == pytest.approx(bases_needed(0.3, sd, alpha=0.05 / 3).estimate)
        assert one.needed.low < one.needed.estimate < one.needed.high
        assert one.detectable.low < one.detectable.estimate < one.detectable.high


def test_the_cost_is_that_of_the_runs_and_judgements_of_the_bases():
    """12 runs a base at 3 cents each."""
    found = pilot_power(pilot(), 0.3)
    assert found.aud_per_base.estimate == pytest.approx(12 * 0.03)
    one = found.contrasts[0]
    assert one.cost.estimate == pytest.approx(one.needed.whole * 0.36)
    assert f"{one.needed.whole} bases cost {one.cost.estimate:.2f} AUD" in one.cost.sentence()
    assert pilot_power(pilot(), 0.3, aud_per_base=2.0).contrasts[0].cost.estimate == one.needed.whole * 2


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


def test_a_negative_component_is_shown_and_counts_as_nothing():
    """Repeats that vary more than bases do."""
    frame = pilot(bases=6)
    dice = np.random.default_rng(2)
    frame["composite"] = 3.0 + frame["repeat"] * 2.0 + dice.normal(0, 0.01, len(frame))
    found = pilot_power(frame, repeats=5)
    one = found.contrasts[0]
    assert one.between < 0
    assert one.sd == pytest.approx(math.sqrt(one.within / 5))
    assert any("taken as 0" in note for note in found.notes)


def test_without_repeats_their_share_is_unknown_and_said_so():
    """Only the number of bases can then be planned."""
    frame = pilot(repeats=1)
    assert pilot_power(frame, 0.3).contrasts[0].needed.estimable
    one = pilot_power(frame, 0.3, repeats=3).contrasts[0]
    assert (one.between, one.needed.estimate, one.cost.estimate) == (None, None, None)
    assert "without repeats" in one.needed.note


def test_shifting_scores_changes_nothing_and_stretching_them_stretches_what_is_detectable():
    """Nor do the order of rows and the observed effect matter."""
    frame = pilot()
    found = pilot_power(frame, 0.3)
    moved = frame.assign(composite=frame["composite"] * 2 + (frame["length_bin"] == "L") * 5.0)
    other = pilot_power(moved.sample(frac=1, random_state=3), 0.6)
    for one, two in zip(found.contrasts, other.contrasts, strict=True):
        assert two.detectable.estimate == pytest.approx(2 * one.detectable.estimate)
        assert two.needed.estimate == pytest.approx(one.needed.estimate)


def test_a_missing_score_is_no_zero_and_a_base_without_a_bin_is_counted():
    """All runs of one base and bin fail."""
    frame = pilot()
    lost = (frame["base"] == "b0") & (frame["length_bin"] == "L")
    found = pilot_power(frame.assign(composite=frame["composite"].mask(lost)))
    dropped = pilot_power(frame[~lost])
    assert [one.spread.missing for one in found.contrasts] == [0, 1, 1]
    assert found.contrasts[2].detectable.estimate == pytest.approx(dropped.contrasts[2].detectable.estimate)
    assert any("4 of 240 runs have no score" in note for note in found.notes)


def test_costs_that_are_nothing_or_unknown_are_said():
    """Local models cost nothing; a frame without costs has no AUD."""
    free = pilot_power(pilot().assign(aud_cost=0.0, judge_aud_cost=0.0), 0.3)
    assert free.contrasts[0].cost.estimate == 0
    assert "cost nothing" in free.contrasts[0].cost.sentence()
    unknown = pilot_power(pilot().drop(columns=["aud_cost", "judge_aud_cost"]), 0.3).contrasts[0].cost
    assert unknown.estimate is None
    assert "no aud_cost" in unknown.note
    unpaid = pilot_power(pilot().assign(aud_cost=math.nan), 0.3).contrasts[0].cost
    assert "no cost of m0" in unpaid.note
    unjudged = pilot_power(pilot().assign(judge_aud_cost=math.nan), 0.3)
    assert unjudged.aud_per_base.estimate == pytest.approx(0.12)
    assert any("judges are not in the AUD" in note for note in unjudged.notes)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pilot(bases=1), "two are needed"),
        (pilot(bases=5).assign(composite=3.0), "are equal"),
        (
            pilot(bases=5).query("length_bin != 'L'").assign(composite=lambda f: f["composite"] * 1e-13 + 4),
            "are equal",
        ),
    ],
)
def test_what_a_pilot_cannot_tell_has_its_reason(frame, said):
    """One base, constant scores, rounding."""
    found = pilot_power(frame, 0.3)
    for one in found.contrasts:
        assert one.detectable.estimate is None
        assert said in one.detectable.note
        assert said in one.cost.note
    assert found.sentence()
    json.dumps(found.to_dict())
    assert found.curve([10])["detectable_effect"].isna().all()


def test_no_scores_and_one_bin_have_no_contrast():
    """And say so."""
    for frame in (pilot().assign(composite=math.nan), pilot().query("length_bin == 'S'"), pilot().head(0)):
        found = pilot_power(frame)
        assert found.contrasts == ()
        assert any("no contrast" in note for note in found.notes)


def test_the_curve_falls_with_the_bases_and_costs_rise():
    """One row a contrast and number."""
    found = pilot_power(pilot())
    curve = found.curve([10, 20, 40])
    assert len(curve) == 9
    first = curve[curve["contrast"] == "M-S"]
    assert first["detectable_effect"].is_monotonic_decreasing
    assert first["aud"].tolist() == pytest.approx([3.6, 7.2, 14.4])
    assert first["detectable_effect"].iloc[1] == found.contrasts[0].detectable.estimate
    assert set(found.frame()["contrast"]) == {"M-S", "L-M", "L-S", "all"}


def test_bad_input_is_refused():
    """In one line that names it."""
    for call in (
        lambda: pilot_power(pilot(), 0.0),
        lambda: pilot_power(pilot(), 0.3, power=2),
        lambda: pilot_power(pilot(), 0.3, repeats=0),
        lambda: pilot_power(pilot(), 0.3, aud_per_base=-1.0),
        lambda: pilot_power(pilot().drop(columns="base")),
        lambda: pilot_power(pilot().assign(composite=math.inf)),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)


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


def test_a_standard_deviation_that_cannot_be_known_says_why():
    """One value, equal values, four values."""
    assert "two are needed" in standard_deviation("sd", [1.0]).note
    assert "are equal" in standard_deviation("sd", [0.1 + 0.2, 0.3]).note
    few = standard_deviation("sd", [1.0, 2.0, 3.0, 4.0])
    assert (few.estimate, few.low) == (pytest.approx(np.std([1, 2, 3, 4], ddof=1)), None)
    with pytest.raises(InputError, match="infinite"):
        standard_deviation("sd", [1.0, math.inf])


def t_test(values):
    """Scipy's one-sample t test without its half a millisecond of checks."""
    n = len(values)
    return 2 * special.stdtr(n - 1, -abs(values.mean()) / values.std(ddof=1) * math.sqrt(n))


def paired_p(runs):
    cells = runs.groupby(["length_bin", "base"])["composite"].mean()
    return t_test((cells["L"] - cells["S"]).to_numpy())


def test_the_quick_t_test_is_scipys():
    """Or the simulations below would prove nothing."""
    values = np.random.default_rng(1).normal(0.3, 1, 20)
    assert t_test(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_a_study_answers_from_its_own_judged_runs(demo_like_study):
    """`Study.power()` on a finished study of scripted models."""
    from toolkit.study import Study

    study = Study.load(demo_like_study)
    found = study.power(0.5)
    cells = study.runs().groupby(["base", "length_bin"], observed=True)["composite"].mean().unstack()
    assert [one.name for one in found.contrasts] == ["M-S", "L-M", "L-S"]
    assert found.contrasts[2].spread.estimate == pytest.approx((cells["L"] - cells["S"]).std(ddof=1))
    assert found.contrasts[2].detectable.estimable
    assert "computed from the variance of these runs" in found.sentence()
    study.store.close()
