"""Error bars of means on a scale that ends, and of models and their differences."""

import math
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from logit_jackknife import logit_jackknife
from scipy import stats
from score_tables import check_shown, crossed, ends, named, numbers, width

from toolkit.prompt_test import MeasuredTestItem, Measurement, TestItem, mean_result
from toolkit.stats.agreement.drift import judge_drift
from toolkit.stats.comparisons.models import accuracy, compare_models, paired_difference, rate_difference
from toolkit.stats.conditions.contrasts import compare_conditions, equivalence
from toolkit.stats.detection.rates import mcnemar
from toolkit.stats.inference.means import BOUNDED, bounded_mean, clustered_mean
from toolkit.stats.inference.p_values import equal_differences
from toolkit.stats.inference.run_table import Points
from toolkit.stats.one_shot.methods import UNIT
from toolkit.stats.result import Estimate

CASES = cases(__file__)

EMPTY = Estimate("mean", None)
SCALE = (0.0, 5.0)


@pytest.mark.parametrize("scale", [(0.0, 5.0), (1.0, 5.0), (0.0, 100.0)])
@pytest.mark.parametrize("sizes", [(1,) * 6, (3, 1, 2, 5, 1, 4, 2)])
def test_a_second_calculation_gives_the_same(scale, sizes):
    rng = np.random.default_rng(7)
    groups = [list(scale[0] + np.ptp(scale) * rng.uniform(0.3, 1.0, size)) for size in sizes]
    labels = [f"b{i}" for i, group in enumerate(groups) for _ in group]
    estimate = bounded_mean(EMPTY, [*chain(*groups)], labels, scale)
    assert numbers(estimate) == pytest.approx((np.mean([*chain(*groups)]), *logit_jackknife(groups, scale)))
    assert estimate.method == BOUNDED


@pytest.mark.parametrize(("scores", "reason"), CASES["no_variance"])
def test_where_there_is_no_variance_it_says_so(scores, reason):
    """Ties have a mean and no interval, never one of no width."""
    estimate = bounded_mean(EMPTY, scores, range(len(scores)), SCALE)
    assert numbers(estimate) == (scores[0], None, None)
    assert reason in estimate.remarks


@pytest.mark.parametrize("scores", CASES["few_bases"])
def test_one_base_apart_and_few_bases_have_a_finite_interval_within_the_scale(scores):
    estimate = bounded_mean(EMPTY, scores, range(len(scores)), SCALE)
    assert 0 <= estimate.low <= estimate.estimate <= estimate.high <= 5
    assert estimate.low < estimate.high


@pytest.mark.parametrize("bases", [12, 30])
def test_near_the_end_of_the_scale_the_interval_holds_where_students_t_does_not(bases):
    """Whole scores with a mean of 4.6, three answers a base whose difficulty is skewed: 600 studies."""
    rng = np.random.default_rng(20261125)

    def studies(count, size):
        level = 4.8 - 0.4 * (rng.exponential(1, (count, size, 1)) - 1)
        return np.clip(np.round(level + rng.normal(0, 0.6, (count, size, 3))), 0, 5).mean(axis=2)

    truth = studies(200_000, 1).mean()
    assert truth == pytest.approx(4.63, abs=0.02)
    drawn = [x for x in studies(600, bases) if np.ptp(x) > 0]
    estimates = [bounded_mean(EMPTY, x, range(bases), SCALE) for x in drawn]
    holds = np.mean([one.low <= truth <= one.high for one in estimates])
    by_t = [stats.t.interval(0.95, bases - 1, x.mean(), stats.sem(x)) for x in drawn]
    assert holds > 0.945
    assert np.mean([low <= truth <= high for low, high in by_t]) < holds


QUICK = settings(max_examples=40)


def runs():
    dice = np.random.default_rng(1)
    frame = crossed(base=named("b", 12), level="SML", model=["m1", "m2", "m3"])
    hard = dice.normal(0, 0.8, 12).repeat(9)
    gain = 0.2 * (frame["model"] != "m1")
    return frame.assign(composite_strict=3 + hard + gain + dice.normal(0, 0.3, len(frame)))


def test_models_are_compared_prompt_by_prompt_and_clustered_by_base():
    """The differences are those of a frame made by hand; what makes prompts hard cancels."""
    frame = runs()
    found = compare_models(frame)
    wide = frame.pivot(index=["base", "level"], columns="model", values="composite_strict")
    by_hand = clustered_mean(wide["m1"] - wide["m2"], list(wide.index.get_level_values(0)))
    first = found.differences[0]
    assert [one.name for one in found.differences] == ["m1 - m2", "m1 - m3", "m2 - m3"]
    assert numbers(first) == pytest.approx((by_hand.mean, by_hand.low, by_hand.high))
    assert dict(first.n) == {"prompts": 36, "bases": 12}
    assert first.correction == "Holm over 3 pairs of models"
    assert first.p_value >= by_hand.p_value
    assert width(first) < 0.6 * width(found.models[0][1])
    assert "m1 - m2 = " in found.sentence()
    check_shown(found)


def test_a_missing_score_is_no_zero_and_is_counted():
    """The prompt leaves the pair, and the model counts its missing answer."""
    frame = runs()
    found = compare_models(frame.assign(composite_strict=frame["composite_strict"].mask(frame.index == 0)))
    assert dict(found.models)["m1"].missing == 1
    assert [one.missing for one in found.differences] == [1, 1, 0]
    left = compare_models(frame.drop(index=0)).differences[0].estimate
    assert found.differences[0].estimate == pytest.approx(left)
    assert "1 of 108 runs" in str(found.notes)


def test_rates_have_intervals_of_their_own():
    """Inside the scale, and never without width where models do not differ on any prompt."""
    frame = runs()
    frame["right"] = (frame["composite_strict"] > 3.0).astype(float)
    found = compare_models(frame, "right", rate=True)
    model = dict(found.models)["m1"]
    rows = frame[frame["model"] == "m1"]
    alone = accuracy(rows, score="right").accuracies[0]
    assert numbers(model) == numbers(alone)
    perfect = rate_difference("a - b", [1.0] * 12, [1.0] * 12, list(range(12)))
    assert (perfect.estimate, perfect.p_value) == (0.0, 1.0)
    assert -0.35 < perfect.low < -0.2
    assert perfect.high == pytest.approx(-perfect.low)
    half = rate_difference("a - b", [0.0, 1.0] * 6, [0.0, 1.0] * 6, list(range(12)))
    assert (half.estimate, half.low) == (0.0, pytest.approx(-half.high))
    assert 0.1 < half.high < 0.3


@QUICK
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abcdef")
        ),
        min_size=2,
        max_size=25,
    )
)
def test_a_difference_of_rates_lies_in_its_interval_and_turns_with_the_models(rows):
    """Exchanging the models turns the sign of everything."""
    first, second, bases = (list(column) for column in zip(*rows, strict=True))
    found, turned = rate_difference("d", first, second, bases), rate_difference("d", second, first, bases)
    assert turned.estimate == pytest.approx(-found.estimate)
    if found.low is None:
        assert "two are needed" in found.remarks
        return
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    assert width(found) > 0
    assert ends(turned) == pytest.approx((-found.high, -found.low), abs=1e-12)
    assert turned.p_value == pytest.approx(found.p_value)
    assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)


def test_all_right_against_all_wrong_is_decided_in_five_clusters():
    """By Wilson: the ends of 5 of 5 and of 0 of 5, put together; P is the level at which they reach 0."""
    found = rate_difference("d", [1.0] * 25, [0.0] * 25, [*range(5)] * 5)
    bound = (1.959964**2) / (5 + 1.959964**2)
    assert ends(found) == (pytest.approx(1 - math.sqrt(2) * bound), 1.0)
    z = math.sqrt(5 / (math.sqrt(2) - 1))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(z))


def gained(gain, bases):
    """Return the estimates that rest on a score which is higher by as much in every base."""
    names, level = named("b", bases), np.arange(bases) / 7
    runs = crossed(base=names, level="SM").assign(model="m")
    runs["composite_strict"] = 2 + level.repeat(2) + gain * (runs["level"] == "M")
    methods = runs.rename(columns={"level": "variant", "composite_strict": "raw"})
    methods.attrs["units"] = {"raw": Points((-0.5, 1.0), UNIT)}
    then = runs[runs["level"] == "S"].assign(target=names, judge="j", dimension="composite_strict")
    then = then.rename(columns={"composite_strict": "score"})
    drift = judge_drift(then, then.assign(score=then["score"] + gain))
    return {
        "lengths": compare_conditions(runs).contrasts[0],
        "models": paired_difference("d", level + gain, level, names),
        "one shot": compare_conditions(methods, "raw", factor="variant").contrasts[0],
        "drift": drift.drifts[0].shift,
    }


@pytest.mark.parametrize("bases", [2, 5, 6, 20])
@pytest.mark.parametrize("gain", [0.0, 0.1, 0.25, 1.0, -2.0])
def test_a_gain_that_is_equal_in_all_bases_has_the_p_value_and_the_interval_of_one_test(gain, bases):
    """The larger P of the sign test and of Wilson's bound of 0 in G, which is searched on a grid."""
    signs = stats.binomtest(bases, bases).pvalue if gain else 0.0
    grid = np.linspace(1e-5, 1, 20_001)[::-1]
    z2 = stats.norm.isf(grid / 2) ** 2
    for kind, estimate in gained(gain, bases).items():
        step = max(0.3 if kind == "one shot" else 1.0, abs(gain))  # a fifth of the scale
        kept, bound = (step * square / (bases + square) for square in (z2, 3.841459))
        kept = kept >= abs(gain) - 1e-12
        assert estimate.estimate == pytest.approx(gain), kind
        assert estimate.p_value == pytest.approx(max(signs, grid[kept].max(initial=0.0)), abs=1e-4), kind
        if signs >= 0.05:
            assert ends(estimate) == (None, None), kind
            assert f"no P value below {signs:g}" in estimate.reason
        else:
            assert ends(estimate) == pytest.approx((gain - bound, gain + bound)), kind
            assert (estimate.p_value < 0.05) == (bound < abs(gain)), kind


@pytest.mark.parametrize(("bases", "margin"), CASES["equal"])
@pytest.mark.parametrize("gain", [0.0, 0.1, 0.3])
def test_equal_differences_are_equivalent_where_the_bound_lies_within_the_margin(gain, bases, margin):
    test = equivalence("M-S", [gain] * bases, margin)
    bound = stats.norm.isf(0.05) ** 2
    bound /= bases + bound
    assert ends(test) == pytest.approx((gain - bound, gain + bound))
    assert (test.p_value < 0.05) == (gain + bound < margin)
    assert (test.p_value < 0.5) == (gain < margin)


def test_a_bound_is_a_fifth_of_a_long_scale():
    """Equal scores on 0 to 100 are no surer than those on 0 to 5."""
    long, short = (
        equal_differences(Estimate("d", None, unit=Points((0.0, top))), 0.0, 10) for top in (100.0, 5.0)
    )
    assert long.high == pytest.approx(20 * short.high)


@QUICK
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 5))
def test_of_two_deciders_interval_and_p_value_agree(b, c, right, wrong):
    """Whatever the counts, P is below .05 exactly where the interval leaves out 0."""
    first = [True] * (right + b) + [False] * (c + wrong)
    second = [True] * right + [False] * b + [True] * c + [False] * wrong
    test = mcnemar([True] * len(first), first, second)
    if test.p_value is not None:
        assert (test.p_value < 0.05) == (not test.low <= 0 <= test.high)


@st.composite
def uneven(draw):
    """Return two models that answered the same items, each as often as it happened to."""
    rows = []
    for base in range(draw(st.integers(2, 6))):
        for length in draw(st.sampled_from(["S", "SM", "SML"])):
            for model in "ab":
                scores = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4))
                rows += [(f"b{base}", length, model, score) for score in scores]
                rows += [(f"b{base}", length, model, None)] * draw(st.integers(0, 2))
    frame = pd.DataFrame(rows, columns=["base", "level", "model", "composite_strict"])
    return frame.astype({"composite_strict": float})


@QUICK
@given(uneven(), st.sampled_from([True, False]), st.booleans())
def test_a_mean_weighs_items_as_the_difference_does(frame, rate, share_cluster):
    """However unevenly repeats are missing: the difference of the means is the mean difference."""
    frame = frame.assign(cluster="c" if share_cluster else frame["base"])
    compared = compare_models(frame, rate=rate)
    a, b = (dict(compared.models)[name] for name in "ab")
    assert a.estimate - b.estimate == pytest.approx(compared.differences[0].estimate, abs=1e-12)
    items = frame.groupby(["model", "base", "level"])["composite_strict"].mean()
    assert a.estimate == pytest.approx(items["a"].mean())
    answers = frame["composite_strict"][frame["model"] == "a"]
    assert (a.n["answers"], a.n["prompts"]) == (answers.count(), len(items["a"]))
    assert a.missing == answers.isna().sum()
    alone = accuracy(frame, score="composite_strict", chance=0.25)
    assert [rate.estimate for rate in alone.accuracies] == pytest.approx([a.estimate, b.estimate])
    assert alone.above_chance[0].estimate == pytest.approx(a.estimate - 0.25)
    by_item = [
        MeasuredTestItem(TestItem(f"{base} {length}", ()), (Measurement("x", score),), "a", repeat)
        for repeat, (base, length, model, score) in enumerate(frame.iloc[:, :4].itertuples(index=False))
        if model == "a"
    ]
    assert mean_result("mean", by_item, "x").estimate == pytest.approx(a.estimate)
