"""The same runs judged with focus sentences and without."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from score_tables import check_shown, crossed, ends, named

from toolkit.stats.comparisons.focus import focus_contrast

JUDGES = ("primary", "secondary", "tertiary")


def judgements(bases=8, seed=1, gain=0.0, l_gain=0.0):
    """Judgements of one run per base, model and bin by three judges; the same truth for every seed of the noise."""
    frame = crossed(base=named("b", bases), model="xy", length_bin="SML", judge=JUDGES)
    frame["run_id"] = frame["base"] + frame["model"] + frame["length_bin"]
    truth = np.random.default_rng(99).normal(3, 0.6, bases)[pd.factorize(frame["base"])[0]]
    noise = np.random.default_rng(seed).normal(0, 0.2, len(frame))
    frame["composite_strict"] = truth + gain + l_gain * (frame["length_bin"] == "L") + noise
    return frame


def test_the_difference_is_the_paired_t_test_over_bases():
    """Estimate, interval and p value of scipy on base means; d_z and g_z from the same."""
    on, off = judgements(seed=2, gain=0.3), judgements(seed=3)
    found = focus_contrast(on, off)
    means = [frame.groupby("base")["composite_strict"].mean() for frame in (on, off)]
    test = stats.ttest_rel(*means)
    interval = test.confidence_interval()
    assert ends(found.difference) == pytest.approx(ends(interval))
    assert found.difference.p_value == pytest.approx(test.pvalue)
    assert found.difference.n == {"bases": 8, "runs": 48, "judgements": 144}
    d = means[0] - means[1]
    unbiased = special.gamma(3.5) / (np.sqrt(3.5) * special.gamma(3))
    assert [one.estimate for one in found.effect_sizes] == pytest.approx(
        [d.mean() / d.std(), unbiased * d.mean() / d.std()]
    )


def test_a_gain_at_one_length_only_is_seen_between_bins():
    """FSP that lifts L alone is not the same instrument for every length."""
    found = focus_contrast(judgements(seed=2, l_gain=0.8), judgements(seed=3))
    by_bin = {one.name: one.estimate for one in found.by_bin.per_bin}
    assert by_bin["L"] == pytest.approx(0.8, abs=0.15)
    assert abs(by_bin["S"]) < 0.15
    assert found.by_bin.contrasts[2].p_value < 0.01
    assert list(found.frame()["name"][-2:]) == ["on - off, L-M", "on - off, L-S"]


def test_a_judge_who_failed_on_one_side_is_no_effect():
    """The strict judge's failures with FSP do not lift the scores; they are counted, and nothing becomes 0."""
    off = judgements(seed=3)
    off.loc[off["judge"] == "tertiary", "composite_strict"] -= 2
    on = off.assign(composite_strict=off["composite_strict"] + 0.1)
    on.loc[(on["judge"] == "tertiary") & (on["length_bin"] == "L"), "composite_strict"] = np.nan
    found = focus_contrast(on, off)
    assert found.difference.estimate == pytest.approx(0.1)
    assert found.difference.missing == 16
    assert "16 of 144 pairs" in found.notes[1]


def test_names_of_judges_change_nothing_and_sides_turn_the_sign():
    on, off = judgements(4, seed=2, gain=0.3), judgements(4, seed=3)
    names = {"judge": dict(zip(JUDGES, JUDGES[1:] + JUDGES[:1], strict=True))}
    first, turned = focus_contrast(on, off).difference, focus_contrast(off, on).difference
    assert focus_contrast(on.replace(names), off.replace(names)).difference.low == pytest.approx(first.low)
    assert ends(turned) == pytest.approx((-first.high, -first.low))


def test_repeats_of_a_judge_are_averaged_first():
    """Twice the same judgement under another repeat changes nothing."""
    on, off = judgements(seed=2).assign(judge_repeat=0), judgements(seed=3).assign(judge_repeat=0)
    more = pd.concat([on, on.assign(judge_repeat=1)])
    assert focus_contrast(more, off).difference == focus_contrast(on, off).difference


def test_what_cannot_be_estimated_says_why():
    """One base, equal differences, no score at all."""
    alone = focus_contrast(judgements(1, seed=2), judgements(1, seed=3))
    assert "1 base " in alone.difference.remarks
    off = judgements(seed=3)
    equal = focus_contrast(off.assign(composite_strict=off["composite_strict"] + 0.25), off)
    assert equal.difference.estimate == pytest.approx(0.25)
    assert equal.difference.p_value is not None
    assert equal.effect_sizes[0].remarks == "not estimable: the differences are all equal"
    nothing = focus_contrast(off.assign(composite_strict=np.nan), off)
    assert nothing.difference.estimate is None
    assert nothing.difference.missing == 144
    check_shown(alone, equal, nothing)
