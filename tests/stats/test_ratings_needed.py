"""How many ratings are still needed: against plain formulas, and where no number is enough."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from toolkit.stats.human.ppi import prediction_powered_mean
from toolkit.stats.human.ratings_needed import ratings_for_agreement, ratings_for_mean
from toolkit.stats.result import Estimate, plain


def mean_of(rated=30, answers=300, follows=0.7, bases=None, between=0.0, seed=4):
    rng = np.random.default_rng(seed)
    base = np.arange(answers) % (bases or answers)
    quality = rng.normal(size=answers)
    people = 3 + 0.8 * quality + between * rng.normal(size=base.max() + 1)[base]
    judges = people + 0.8 * math.sqrt(1 / follows**2 - 1) * rng.normal(size=answers)
    shown = np.arange(answers) < rated
    order = rng.permutation(answers)
    shown = shown[order]
    found = prediction_powered_mean(
        "m", people[shown], judges[shown], judges[~shown], list(base[shown]), list(base[~shown])
    )
    return found, (people, judges, base, shown)


def width(found) -> float:
    return found.calibrated.high - found.calibrated.low


def test_with_as_many_ratings_as_said_the_interval_is_about_as_narrow_as_wanted():
    """Asking for three quarters of the width, over 25 studies."""
    reached = []
    for seed in range(25):
        found, (people, judges, base, shown) = mean_of(seed=seed)
        asked = ratings_for_mean(found, 0.75 * width(found))
        more = np.flatnonzero(~shown)[: asked.more]
        shown[more] = True
        again = prediction_powered_mean(
            "m", people[shown], judges[shown], judges[~shown], list(base[shown]), list(base[~shown])
        )
        reached.append(width(again) / width(found))
    assert 0.65 <= np.mean(reached) <= 0.82


def test_a_judge_that_says_nothing_leaves_the_formula_of_a_mean():
    """Without the judges the error falls with the root of n: half the width takes about four times as many."""
    rng = np.random.default_rng(1)
    people = rng.normal(3, 1, 40)
    found = prediction_powered_mean("m", people, np.full(40, 3.0), np.full(2000, 3.0))
    assert found.tuning == 0.0
    assert ratings_for_mean(found, width(found) / 2).needed == pytest.approx(4 * 40, rel=0.1)
    assert "correlation of people and judges of 0.00" in ratings_for_mean(found, 0.1).sentence()


def test_what_is_narrow_enough_needs_no_more_and_what_is_out_of_reach_says_so():
    found, _ = mean_of()
    enough = ratings_for_mean(found, 10.0)
    assert (enough.more, enough.needed) == (0, 30)
    assert "already" in enough.sentence()
    never = ratings_for_mean(found, 0.001)
    assert (never.more, never.needed) == (None, None)
    assert "rating all 300 answers gives" in never.sentence()
    assert never.width_then > 0.001


def test_narrower_takes_more_and_alike_bases_set_a_limit():
    found, _ = mean_of()
    asked = [ratings_for_mean(found, share * width(found)).needed for share in (0.95, 0.8, 0.65, 0.6)]
    assert asked == sorted(asked)
    assert len(set(asked)) == 4
    clustered, _ = mean_of(rated=60, bases=12, between=1.0)
    limited = ratings_for_mean(clustered, width(clustered) / 2)
    assert limited.needed is None
    assert "more bases" in limited.note


@pytest.mark.parametrize("low_high", [(0.2652, 0.8060), (-0.3, 0.4)])
def test_a_correlation_needs_what_fishers_z_says(low_high):
    """Half the interval of r on the z scale is 1.96 / sqrt(n - 3): the n of a plain search, to within the 3."""
    low, high = low_high
    z, half = (math.atanh(low) + math.atanh(high)) / 2, (math.atanh(high) - math.atanh(low)) / 2
    n = round((1.959964 / half) ** 2 + 3)
    oracle = next(
        m
        for m in range(n, 10_000)
        if math.tanh(z + 1.959964 / math.sqrt(m - 3)) - math.tanh(z - 1.959964 / math.sqrt(m - 3)) <= 0.2
    )
    found = ratings_for_agreement(Estimate("r", math.tanh(z), low, high, n={"answers": n}), 0.2)
    assert found.needed == pytest.approx(oracle, rel=0.15)
    assert found.width_then <= 0.2
    assert found.more == found.needed - n


@pytest.mark.parametrize(
    "agreement",
    [
        Estimate("k", None, n={"answers": 3}, note="not estimable: one score only"),
        Estimate("k", 1.0, n={"answers": 30}, note="no interval: they agree on all"),
        Estimate("k", 0.5, 0.5, 0.5, n={"answers": 30}),
        Estimate("k", 0.9, 0.2, 1.0, n={"answers": 30}),
    ],
)
def test_without_an_interval_there_is_no_number(agreement):
    found = ratings_for_agreement(agreement, 0.2)
    assert (found.needed, found.more) == (None, None)
    assert found.note
    assert json.dumps(plain(found), allow_nan=False)


def test_without_a_calibrated_mean_there_is_no_number():
    found = ratings_for_mean(prediction_powered_mean("m", [], [], [1.0, 2.0]), 0.5)
    assert found.needed is None
    assert "no answer was rated" in found.sentence()
