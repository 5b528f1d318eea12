"""Levels of any factor compared within the same items, on planted effects and by scipy."""

import numpy as np
import pandas as pd
import pytest
from cases import cases
from scipy import special, stats
from score_tables import check_shown, crossed, ends, named

from toolkit.errors import InputError
from toolkit.stats import compare_conditions

JUDGES = ("primary", "secondary", "tertiary")
WITHIN = ("level", "model", "run", "judge")
SHOTS = {"zero-shot": 0.0, "one-shot": 0.3, "five-shot": 0.5}
GAIN = {"S": 0.0, "neutral": 0.1, "M": 0.4}


def shots(bases=12, models="xy", seed=5, **gains):
    """One run of each base, model and level, with the gains above, or none for models that are named."""
    frame = crossed(base=named("b", bases), model=models, shots=SHOTS)
    rng = np.random.default_rng(seed)
    level = rng.normal(3, 0.6, bases)[pd.factorize(frame["base"])[0]]
    gain = frame["shots"].map(SHOTS) * frame["model"].map(gains).fillna(1.0)
    return frame.assign(composite_strict=level + gain + rng.normal(0, 0.1, len(frame)))


def judgements(seed=1, gain=0.0, bases=8):
    """Judgements of one run per base, model and length by three judges; the same truth for every seed of the noise."""
    frame = crossed(base=named("b", bases), model="xy", level="SML", judge=JUDGES)
    frame["run"] = frame["base"] + frame["model"] + frame["level"]
    truth = np.random.default_rng(99).normal(3, 0.6, bases)[pd.factorize(frame["base"])[0]]
    return frame.assign(
        composite_strict=truth + gain + np.random.default_rng(seed).normal(0, 0.2, len(frame))
    )


def focus(on, off):
    """Compare judgements on and off."""
    table = pd.concat([on.assign(focus="on"), off.assign(focus="off")])
    return compare_conditions(table, factor="focus", levels=("off", "on"), within=WITHIN)


def test_levels_of_any_factor_have_their_planted_effects():
    """Each level and the one before it, the last and the first, in the order that is given, under their own names."""
    found = compare_conditions(shots(40), factor="shots", levels=list(SHOTS), primary="five-shot - zero-shot")
    assert [mean.name for mean in found.per_level] == list(SHOTS)
    assert found.pairs == (
        ("one-shot", "zero-shot"), ("five-shot", "one-shot"), ("five-shot", "zero-shot")
    )  # fmt: skip
    for (more, less), contrast in zip(found.pairs, found.contrasts, strict=True):
        assert contrast.low < SHOTS[more] - SHOTS[less] < contrast.high
    assert [contrast.role for contrast in found.contrasts] == ["exploratory", "exploratory", "confirmatory"]
    assert "length" not in repr(found) + str(found.notes)
    numbers = compare_conditions(
        shots().replace({"shots": dict(zip(SHOTS, (0, 1, 5), strict=True))}), factor="shots"
    )
    assert [contrast.name for contrast in numbers.contrasts] == ["1 - 0", "5 - 1", "5 - 0"]
    check_shown(found, numbers)


def test_judgements_are_paired_t_tests_over_bases():
    """Estimate, interval and P value of scipy on base means; d_z and g_z from the same."""
    on, off = judgements(seed=2, gain=0.3), judgements(seed=3)
    found = focus(on, off)
    (contrast,) = found.contrasts
    means = [frame.groupby("base")["composite_strict"].mean() for frame in (on, off)]
    test = stats.ttest_rel(*means)
    assert ends(contrast) == pytest.approx(ends(test.confidence_interval()))
    assert contrast.p_value == pytest.approx(test.pvalue)
    assert contrast.n == {"bases": 8, "runs": 48, "judgements": 144}
    assert found.per_level[0].n == {"bases": 8, "judgements": 144}
    d = means[0] - means[1]
    unbiased = special.gamma(3.5) / (np.sqrt(3.5) * special.gamma(3))
    sizes = [found.effect_sizes[0].estimate, found.corrected_effect_sizes[0].estimate]
    assert sizes == pytest.approx([d.mean() / d.std(), unbiased * d.mean() / d.std()])
    assert ends(focus(off, on).contrasts[0]) == pytest.approx((-contrast.high, -contrast.low))
    more = pd.concat([on.assign(judge_repeat=0), on.assign(judge_repeat=1)])
    assert focus(more, off).contrasts == found.contrasts


def test_a_judge_who_failed_on_one_side_is_no_effect():
    """The strict judge's failures do not lift the scores; they are counted, and nothing becomes 0."""
    off = judgements(seed=3)
    off.loc[off["judge"] == "tertiary", "composite_strict"] -= 2
    on = off.assign(composite_strict=off["composite_strict"] + 0.1)
    on.loc[(on["judge"] == "tertiary") & (on["level"] == "L"), "composite_strict"] = np.nan
    found = focus(on, off)
    assert found.contrasts[0].estimate == pytest.approx(0.1)
    assert found.contrasts[0].missing == 16
    assert (
        "16 of 144 pairs of base, level, model, run and judge lack a score at a level of focus sentences"
        in str(found.notes)
    )


def test_contrasts_that_need_a_third_level_add_up():
    """Whatever has no score at one of the three leaves all of them."""
    frame = crossed(base=named("b", 6), model="xy", text=GAIN)
    noise = np.random.default_rng(4).normal(0, 0.2, len(frame))
    frame["composite_strict"] = 3 + frame["text"].map(GAIN) + noise
    frame.loc[[1, 9], "composite_strict"] = np.nan
    pairs = (("neutral", "S", "M"), ("M", "neutral", "S"), ("M", "S", "neutral"))
    parts = compare_conditions(frame, factor="text", levels=list(GAIN), contrasts=pairs).contrasts
    assert parts[2].estimate == pytest.approx(parts[0].estimate + parts[1].estimate, abs=1e-12)
    assert {str(part.n) for part in parts} == {str(parts[0].n)}


def test_what_cannot_be_estimated_says_why():
    """One base, equal differences, no score at all."""
    alone = focus(judgements(2, bases=1), judgements(3, bases=1))
    assert "1 base " in alone.contrasts[0].remarks
    off = judgements(seed=3)
    equal = focus(off.assign(composite_strict=off["composite_strict"] + 0.25), off)
    assert equal.contrasts[0].estimate == pytest.approx(0.25)
    assert equal.effect_sizes[0].remarks == "not estimable: the differences are all equal"
    nothing = focus(off.assign(composite_strict=np.nan), off)
    assert (nothing.contrasts[0].estimate, nothing.contrasts[0].missing) == (None, 144)
    check_shown(alone, equal, nothing)


@pytest.mark.parametrize(("settings", "words"), cases(__file__)["refused"])
def test_what_is_not_there_is_refused_in_one_line(settings, words):
    with pytest.raises(InputError, match=words):
        compare_conditions(shots(2), **settings)
