"""Prediction-powered means: published numbers, coverage at small n, and what cannot be estimated."""

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from score_tables import width

from toolkit.stats.human.calibration import (
    prediction_powered_contrasts,
    prediction_powered_mean,
)
from toolkit.stats.inference.means import clustered_mean, clustered_slope

TRIPLE = cases(__file__)["triple"]


def simulated(rng, bases, rated, top, answers=300):
    """Return ratings, judges' scores, bases and who is rated; people and judges correlate .7 and share a ceiling."""
    base = np.arange(answers) % bases
    quality = rng.normal(size=answers)
    middle = (4.3 if top else 3.2) + 0.4 * rng.normal(size=bases)[base]
    people = np.clip(np.round((middle + 0.8 * quality) * 2) / 2, 0, 5)
    judges = np.clip(middle + 0.3 + 0.8 * (0.7 * quality + 0.714 * rng.normal(size=answers)), 0, 5)
    shown = np.zeros(answers, dtype=bool)
    shown[rng.choice(answers, rated, replace=False)] = True
    return people, judges, base, shown


def calibrated(people, judges, base, shown):
    return prediction_powered_mean(
        "m", people[shown], judges[shown], judges[~shown], list(base[shown]), list(base[~shown])
    )


def test_without_the_judges_it_is_the_clustered_mean_of_the_people():
    """Lambda 0 and bases of equal size: the jackknife of a mean is its clustered error."""
    rng = np.random.default_rng(3)
    ratings, base = rng.normal(3, 1, 36), [f"b{i}" for i in range(12) for _ in range(3)]
    found = prediction_powered_mean("m", ratings, ratings, [], base, []).calibrated
    oracle = clustered_mean(ratings, base)
    error = width(found) / 2 / stats.t.ppf(0.975, found.degrees)
    assert (found.estimate, error) == pytest.approx((oracle.mean, oracle.error))
    assert found.degrees <= 11


def test_the_jackknife_is_that_of_leaving_out_each_base_and_tuning_again():
    """Against a plain loop over bases, those with a rating and those without as two strata."""
    data = simulated(np.random.default_rng(5), 20, 14, top=False)
    people, judges, base, shown = data
    found = calibrated(*data)
    parts = [calibrated(*(values[base != one] for values in data)).calibrated.estimate for one in range(20)]
    rated = np.isin(np.arange(20), base[shown])
    variances, degrees = [], []
    for part in (np.array(parts)[rated], np.array(parts)[~rated]):
        size = len(part)
        variances.append((size - 1) ** 2 / size * part.var(ddof=1))
        degrees.append(2 / (2 / (size - 1) + max(stats.kurtosis(part, bias=False), 0) / size))
    joint = sum(variances) ** 2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True))
    half = stats.t.ppf(0.975, min(joint, rated.sum() - 1)) * np.sqrt(sum(variances))
    assert found.calibrated.high - found.calibrated.estimate == pytest.approx(half)
    assert found.calibrated.n == {
        "rated answers": 14,
        "unrated answers": 286,
        "bases": 20,
        "rated bases": rated.sum(),
    }
    assert found.people.estimate == pytest.approx(people[shown].mean())
    assert found.judges.estimate == pytest.approx(judges.mean())


def test_a_biased_judge_is_put_right_and_a_good_one_narrows_the_interval():
    rng = np.random.default_rng(2)
    quality = rng.normal(3, 0.8, 400)
    shown = np.arange(400) < 40
    rng.shuffle(shown)
    found = calibrated(quality, quality + 0.7 + 0.2 * rng.normal(size=400), np.arange(400), shown)
    assert found.judges.estimate > quality.mean() + 0.6
    assert found.calibrated.low < quality.mean() < found.calibrated.high
    assert found.tuning > 0.8
    assert width(found.calibrated) < 0.6 * width(found.people)
    assert "judges' weight" in found.sentence()


@settings(max_examples=20)
@given(st.integers(0, 2**16), st.floats(-3, 3), st.floats(0.1, 10))
def test_order_shift_and_scale(seed, shift, scale):
    """Rows in another order change nothing; another scale of both gives the same in that scale."""
    rng = np.random.default_rng(seed)
    data = simulated(rng, 15, 30, top=False, answers=90)
    found = calibrated(*data)
    order = rng.permutation(90)
    again = calibrated(*(values[order] for values in data))
    people, judges, base, shown = data
    other = calibrated(people * scale + shift, judges * scale + shift, base, shown)
    for one, by, plus in ((again, 1.0, 0.0), (other, scale, shift)):
        assert one.tuning == pytest.approx(found.tuning, abs=1e-8)
        for end in ("estimate", "low", "high"):
            assert getattr(one.calibrated, end) == pytest.approx(
                getattr(found.calibrated, end) * by + plus, abs=1e-7
            )


def test_a_missing_rating_is_left_out_and_counted_never_zero():
    human, same, other = TRIPLE
    found = prediction_powered_mean("m", [*human, None], [*same, 4], [*other, np.nan])
    whole = prediction_powered_mean("m", *TRIPLE)
    assert found.calibrated.missing == 2
    assert found.calibrated.estimate == whole.calibrated.estimate
    assert found.calibrated.low == pytest.approx(whole.calibrated.low)


def test_every_answer_rated_and_all_unrated_in_one_base_work():
    whole = prediction_powered_mean("m", [1.0, 2, 3, 5], [1.0, 2, 4, 5], [])
    assert (whole.calibrated.estimate, whole.tuning) == (2.75, 0.0)
    assert whole.calibrated.low < 2.75 < whole.calibrated.high
    one = prediction_powered_mean("m", [1.0, 2, 3, 5], [1.0, 2, 4, 5], [3.0, 4.0], "abcd", "zz")
    assert one.calibrated.low < one.calibrated.estimate < one.calibrated.high


PAIRS = {"M - S": ("M", "S"), "L - M": ("L", "M"), "L - S": ("L", "S")}


def few_rated(seed, rated, noise=0.35):
    """Return ratings, judges' scores, bin, base and who is rated: S, M and L of 36 bases, some bases rated whole."""
    rng = np.random.default_rng(seed)
    base, side = np.repeat(np.arange(36), 3), np.array(list("SML") * 36)
    quality = 3.2 + rng.normal(0, 0.5, 36)[base] + rng.normal(0, 0.47, 108) + 0.15 * (side == "M")
    people = np.clip(np.round((quality + rng.normal(0, 0.4, 108)) * 2) / 2, 0, 5)
    judges = np.clip(quality + 0.4 + rng.normal(0, noise, 108), 0, 5)
    return people, judges, side, base, base < rated


def contrasted(contrasts, people, judges, side, base, shown):
    rows = people[shown], judges[shown], judges[~shown], side[shown], side[~shown], base[shown], base[~shown]
    named = [(name, *pair) for name, pair in contrasts.items()]
    return dict(zip(contrasts, prediction_powered_contrasts(named, *rows), strict=True))


def test_a_difference_is_that_of_the_means_at_one_weight_of_all_rated_answers():
    """The weight by its formula, from rated answers alone; each contrast by hand; people alone by CR2."""
    people, judges, side, base, shown = few_rated(3, 9)
    found = contrasted({"S": ("S", None), **PAIRS}, people, judges, side, base, shown)
    above = below = 0.0
    times = {"S": 3, "M": 2, "L": 2}
    for bin_, count in times.items():
        y, f = people[shown & (side == bin_)], judges[shown & (side == bin_)]
        above += count * ((y - y.mean()) * (f - f.mean())).sum()
        below += count * (1 + 9 / 27) * ((f - f.mean()) ** 2).sum()
    weight = above / below
    means = {
        bin_: people[shown & (side == bin_)].mean()
        + weight * (judges[~shown & (side == bin_)].mean() - judges[shown & (side == bin_)].mean())
        for bin_ in "SML"
    }
    assert [one.tuning for one in found.values()] == pytest.approx([weight] * 4)
    assert found["S"].calibrated.estimate == pytest.approx(means["S"])
    for name, (first, second) in PAIRS.items():
        assert found[name].calibrated.estimate == pytest.approx(means[first] - means[second])
        rows = shown & np.isin(side, (first, second))
        oracle = clustered_slope("d", side[rows] == first, people[rows], list(base[rows]))
        assert (found[name].people.estimate, found[name].people.low) == pytest.approx(
            (oracle.estimate, oracle.low)
        )
    assert found["M - S"].calibrated.n == {
        "rated answers": 18, "unrated answers": 54, "bases": 36, "rated bases": 9,
    }  # fmt: skip


def test_few_rated_bases_give_no_wider_interval_than_people_alone_and_say_that_they_are_few():
    """At 6 rated bases the published weight was wider than people alone; a weight above 1 is taken."""
    ratios = []
    for seed in range(60):
        people, judges, _, base, shown = few_rated(seed, 6)
        found = calibrated(people, judges, base, shown).calibrated
        alone = clustered_mean(people[shown], base[shown])
        assert found.remarks == "6 rated bases: coverage of the interval is verified from 8 on"
        assert found.degrees <= 5
        difference = contrasted(PAIRS, *few_rated(seed, 12))["M - S"]
        widths = [width(one) for one in (found, alone, difference.calibrated, difference.people)]
        ratios.append((widths[0] / widths[1], widths[2] / widths[3]))
    mean, difference = np.median(ratios, axis=0)
    assert mean < 0.8
    assert difference < 0.95
    assert not contrasted(PAIRS, *few_rated(1, 8))["M - S"].calibrated.remarks
    rng = np.random.default_rng(4)
    quality = rng.normal(size=200)
    shy = calibrated(
        3 + quality, 3 + 0.3 * quality + 0.05 * rng.normal(size=200), np.arange(200), np.arange(200) < 20
    )
    assert shy.tuning > 2
    assert width(shy.calibrated) < 0.5


def test_a_side_that_nobody_rated_or_one_base_rated_has_no_difference_and_says_why():
    people, judges, side, base, shown = few_rated(2, 9)
    for rated, says in (
        (side != "M", "not estimable: no answer of M was rated by people and by the judges"),
        ((side != "M") | (base == 0), "no interval: all ratings of M are of one base, and two are needed"),
    ):
        found = contrasted(PAIRS, people, judges, side, base, shown & rated)
        assert found["M - S"].calibrated.remarks == says
        assert found["L - S"].calibrated.low is not None
