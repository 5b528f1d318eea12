"""How many experiments tell two methods apart: exact where it can be, simulated where not, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.one_shot.compare import pair_p_value, rejected
from toolkit.stats.power import experiments as one_shot_power_module
from toolkit.stats.power.experiments import (
    DRAWN,
    ENUMERATED_UP_TO,
    MOST,
    experiments_needed,
    one_shot_power,
    told_apart,
)

W = (1.0, 0.0, -0.5)
ALWAYS, HALF = (1, 0, 0), (0.5, 0.5, 0)


def test_power_with_one_certain_method_is_a_binomial_sum():
    """Ten of ten beside k of ten is significant up to k = 5, so power is the chance of at most 5."""
    assert pair_p_value((10, 0, 0), (5, 5, 0), W) <= 0.05 < pair_p_value((10, 0, 0), (6, 4, 0), W)
    assert one_shot_power(ALWAYS, HALF, 10).estimate == pytest.approx(stats.binom.cdf(5, 10, 0.5))


def test_power_agrees_with_a_simulation():
    """20,000 pairs of tests, drawn and tested one by one."""
    first, second = (0.7, 0.2, 0.1), (0.3, 0.3, 0.4)
    dice = np.random.default_rng(11)
    a, b = (dice.multinomial(8, p, 20_000).tolist() for p in (first, second))
    pairs = list(zip(map(tuple, a), map(tuple, b), strict=True))
    known = {pair: pair_p_value(*pair, W) for pair in set(pairs)}
    simulated = np.mean([known[pair] <= 0.05 + 1e-12 for pair in pairs])
    assert one_shot_power(first, second, 8).estimate == pytest.approx(simulated, abs=0.012)


def test_two_equal_methods_are_told_apart_at_most_as_often_as_the_level_says():
    """The test is exact, so its size stays below 5 %."""
    for shares in ((0.5, 0.5, 0), (0.4, 0.3, 0.3), (0.1, 0.1, 0.8)):
        assert 0 <= one_shot_power(shares, shares, 10).estimate <= 0.05


def test_pilot_counts_are_read_as_shares():
    """Seven, two and one of ten are 0.7, 0.2 and 0.1."""
    counts = one_shot_power((7, 2, 1), (3, 3, 4), 10)
    assert counts.estimate == pytest.approx(one_shot_power((0.7, 0.2, 0.1), (0.3, 0.3, 0.4), 10).estimate)
    assert "true difference -0.550" in counts.note


def test_beyond_enumeration_power_is_simulated_with_its_interval_and_the_same_for_the_same_seed():
    """The simulation continues where the enumeration ends."""
    shares = (0.8, 0.1, 0.1), (0.5, 0.2, 0.3)
    exact = one_shot_power(*shares, ENUMERATED_UP_TO)
    drawn = one_shot_power(*shares, ENUMERATED_UP_TO + 1)
    assert exact.low is None
    assert drawn.low - 0.02 <= exact.estimate <= drawn.high + 0.03
    assert drawn == one_shot_power(*shares, ENUMERATED_UP_TO + 1)
    assert "seed 0" in drawn.method


def test_the_smallest_number_is_the_first_that_reaches_the_power_and_keeps_it():
    """Checked against the powers themselves."""
    found = experiments_needed(ALWAYS, HALF)
    n = int(found.estimate)
    powers = {m: one_shot_power(ALWAYS, HALF, m).estimate for m in range(10, n + 4)}
    assert all(powers[m] >= 0.8 for m in range(n, n + 4))
    assert powers[n - 1] < 0.8
    assert f"{powers[10]:.3f} at 10" in found.note


def test_ten_are_enough_for_methods_that_differ_in_everything():
    """The smallest number considered is the start."""
    assert experiments_needed(ALWAYS, (0, 0, 1)).estimate == 10
    assert experiments_needed(ALWAYS, (0, 0, 1), start=3).estimate == 4  # 3 + 3 experiments cannot reach 5 %


def test_methods_that_need_more_than_enumeration_are_found_by_bisection():
    """Close methods take tens of experiments more, and the power there is what was wanted."""
    shares = (0.9, 0.05, 0.05), (0.6, 0.2, 0.2)
    found = experiments_needed(*shares)
    assert ENUMERATED_UP_TO < found.estimate < 80
    assert one_shot_power(*shares, int(found.estimate)).estimate >= 0.8
    assert one_shot_power(*shares, int(found.estimate * 0.8)).estimate < 0.8


def test_looking_for_a_number_draws_no_more_than_the_answer_takes(monkeypatch):
    """That 400 are too few for two methods that hardly differ is said after a quarter of the pairs."""
    tested = []

    def counted(first, second, w):
        tested.append(sum(first))
        return pair_p_value(first, second, w)

    monkeypatch.setattr(one_shot_power_module, "pair_p_value", counted)
    assert experiments_needed((0.9, 0.05, 0.05), (0.88, 0.06, 0.06)).estimate is None
    assert set(tested) == {60, 120, 240, MOST}
    assert len(tested) < 0.3 * 4 * DRAWN


@pytest.mark.parametrize("power", [0.001, 0.5, 0.75, 0.9, 0.999])
@pytest.mark.parametrize("shares", [((0.9, 0.05, 0.05), (0.6, 0.2, 0.2)), ((0.7, 0.2, 0.1), (0.5, 0.3, 0.2))])
def test_a_decision_made_early_is_the_one_made_late(power, shares):
    """Whatever the power wanted, the search says of N what the whole simulation says of it."""
    p, q = map(np.array, shares)
    drawn = list(one_shot_power_module._drawn(p, q, 45, W, 0.05, 3))
    whole = one_shot_power(*shares, 45, seed=3).estimate
    for wanted in (power, whole, np.nextafter(whole, 1)):
        assert one_shot_power_module._drawn_power_reaches(wanted, drawn) == (whole >= wanted)


def test_equal_methods_are_never_told_apart():
    """There is no number, and the note says so."""
    found = experiments_needed(ALWAYS, ALWAYS)
    assert found.estimate is None
    assert "even 400" in found.note


def test_ten_experiments_can_tell_apart_only_so_much():
    """The smallest gap is looked up in the rejections; the largest share has just the power."""
    gap, share = told_apart(10)
    assert rejected(10, W, 0.05).any()
    assert gap.estimate == pytest.approx(0.25)  # 0/10/0 and 0/5/5
    assert pair_p_value((0, 10, 0), (0, 5, 5), W) <= 0.05
    q = share.estimate
    assert one_shot_power(ALWAYS, (q, 1 - q, 0), 10).estimate == pytest.approx(0.8, abs=1e-6)
    assert one_shot_power(ALWAYS, (q, 0, 1 - q), 10).estimate == pytest.approx(0.8, abs=1e-6)


def test_three_experiments_tell_nothing_apart():
    """No two outcomes differ enough, and both results say so."""
    gap, share = told_apart(3)
    assert (gap.estimate, share.estimate) == (None, None)
    assert "no two outcomes of 3" in gap.note
    assert "not even a share of 0" in share.note


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: one_shot_power((1, 0), HALF), "three shares"),
        (lambda: one_shot_power((0, 0, 0), HALF), "not all 0"),
        (lambda: one_shot_power((-1, 1, 1), HALF), "three shares"),
        (lambda: one_shot_power(("a", 1, 1), HALF), "three shares"),
        (lambda: one_shot_power((float("nan"), 1, 1), HALF), "three shares"),
        (lambda: one_shot_power(ALWAYS, HALF, 0), "from 1 to 400"),
        (lambda: one_shot_power(ALWAYS, HALF, 10.5), "from 1 to 400"),
        (lambda: one_shot_power(ALWAYS, HALF, alpha=1.5), "alpha"),
        (lambda: one_shot_power(ALWAYS, HALF, weights=(1, 0)), "weights"),
        (lambda: experiments_needed(ALWAYS, HALF, power=1), "power"),
        (lambda: experiments_needed(ALWAYS, HALF, start=0), "start"),
        (lambda: told_apart(31), "from 1 to 30"),
        (lambda: told_apart(10, power=0), "power"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(call, said):
    """The error says what to give."""
    with pytest.raises(InputError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
