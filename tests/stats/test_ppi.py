"""Prediction-powered means: published numbers, coverage at small n, and what cannot be estimated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.stats.human.ppi import CalibratedMean, prediction_powered_mean
from toolkit.stats.inference.means import clustered_mean

TRIPLE = ([4, 3, 5, 2, 4, 3, 5, 4], [4.5, 3.5, 4.5, 3, 4, 3.5, 5, 4.5], [4, 4.5, 3.5, 5, 3, 4, 4.5, 3.5])


def simulated(rng: np.random.Generator, bases: int, rated: int, top: bool, answers: int = 300):
    """Return ratings, judges' scores, bases and who is rated; people and judges correlate .7 and share a ceiling."""
    base = np.arange(answers) % bases
    quality = rng.normal(size=answers)
    middle = (4.3 if top else 3.2) + 0.4 * rng.normal(size=bases)[base]
    people = np.clip(np.round((middle + 0.8 * quality) * 2) / 2, 0, 5)
    judges = np.clip(middle + 0.3 + 0.8 * (0.7 * quality + 0.714 * rng.normal(size=answers)), 0, 5)
    shown = np.zeros(answers, dtype=bool)
    shown[rng.choice(answers, rated, replace=False)] = True
    return people, judges, base, shown


def calibrated(people, judges, base, shown, **options) -> CalibratedMean:
    return prediction_powered_mean(
        "m", people[shown], judges[shown], judges[~shown], list(base[shown]), list(base[~shown]), **options
    )


def test_without_the_judges_it_is_the_clustered_mean_of_the_people() -> None:
    """Lambda 0 and bases of equal size: the jackknife of a mean is its clustered error."""
    rng = np.random.default_rng(3)
    ratings, base = rng.normal(3, 1, 36), [f"b{i}" for i in range(12) for _ in range(3)]
    found = prediction_powered_mean("m", ratings, ratings, [], base, [], tuning=0.0).calibrated
    oracle = clustered_mean(ratings, base)
    assert (found.estimate, found.low, found.high) == pytest.approx((oracle.mean, oracle.low, oracle.high))


def test_the_jackknife_is_that_of_leaving_out_each_base_and_tuning_again() -> None:
    """The closed form against a plain loop over bases."""
    data = simulated(np.random.default_rng(5), 20, 40, top=False)
    people, judges, base, shown = data
    found = calibrated(*data)
    parts = []
    for one in range(20):
        kept = base != one
        parts.append(calibrated(*(values[kept] for values in data)).calibrated.estimate)
    spread = np.sqrt(19 / 20 * ((np.array(parts) - np.mean(parts)) ** 2).sum())
    rated = len(set(base[shown]))
    half = stats.t.ppf(0.975, rated - 1) * spread
    assert found.calibrated.high - found.calibrated.estimate == pytest.approx(half)
    assert found.calibrated.n == {
        "rated answers": 40,
        "unrated answers": 260,
        "bases": 20,
        "rated bases": rated,
    }
    assert found.people.estimate == pytest.approx(people[shown].mean())
    assert found.judges.estimate == pytest.approx(judges.mean())
    assert found.correlation == pytest.approx(np.corrcoef(people[shown], judges[shown])[0, 1])


def test_a_biased_judge_is_put_right_and_a_good_one_narrows_the_interval() -> None:
    rng = np.random.default_rng(2)
    quality = rng.normal(3, 0.8, 400)
    shown = np.arange(400) < 40
    rng.shuffle(shown)
    found = calibrated(quality, quality + 0.7 + 0.2 * rng.normal(size=400), np.arange(400), shown)
    assert found.judges.estimate > quality.mean() + 0.6
    assert found.calibrated.low < quality.mean() < found.calibrated.high
    assert found.tuning > 0.8
    assert found.calibrated.high - found.calibrated.low < 0.6 * (found.people.high - found.people.low)
    assert "judges' weight" in found.sentence()


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 2**16), st.floats(-3, 3), st.floats(0.1, 10))
def test_order_shift_and_scale(seed: int, shift: float, scale: float) -> None:
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


def test_a_missing_rating_is_left_out_and_counted_never_zero() -> None:
    human, same, other = TRIPLE
    found = prediction_powered_mean("m", [*human, None], [*same, 4], [*other, np.nan])
    whole = prediction_powered_mean("m", *TRIPLE)
    assert found.calibrated.missing == 2
    assert found.calibrated.estimate == whole.calibrated.estimate
    assert found.calibrated.low == pytest.approx(whole.calibrated.low)


def test_every_answer_rated_and_all_unrated_in_one_base_work() -> None:
    whole = prediction_powered_mean("m", [1.0, 2, 3, 5], [1.0, 2, 4, 5], [])
    assert (whole.calibrated.estimate, whole.tuning) == (2.75, 0.0)
    assert whole.calibrated.low < 2.75 < whole.calibrated.high
    one = prediction_powered_mean("m", [1.0, 2, 3, 5], [1.0, 2, 4, 5], [3.0, 4.0], "abcd", "zz")
    assert one.calibrated.low < one.calibrated.estimate < one.calibrated.high
