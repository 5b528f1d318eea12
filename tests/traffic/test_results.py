"""The mean over items: repeats are one cluster, what is missing is counted, and a share stays a share."""

import numpy as np
import pytest
from cases import cases

from toolkit.errors import InputError
from toolkit.prompt_test import MeasuredTestItem, Measurement, TestItem, mean_result
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.proportions import rate_mean
from toolkit.stats.result import Estimate

CASES = cases(__file__)


def measured(*values, repeats=1):
    return [
        MeasuredTestItem(TestItem(f"i{n}", ()), (Measurement("x", value, "points", "no reply"),), "m", repeat)
        for n, value in enumerate(values)
        for repeat in range(repeats)
    ]


def test_repeats_of_an_item_do_not_narrow_the_interval():
    """Ten equal repeats give the interval of one, because they are one cluster."""
    once = mean_result("mean", measured(1.0, 2.0, 4.0), "x", "points")
    often = mean_result("mean", measured(1.0, 2.0, 4.0, repeats=10), "x", "points")
    expected = clustered_mean([1.0, 2.0, 4.0], ["a", "b", "c"])
    assert (once.estimate, once.low, once.high) == (expected.mean, expected.low, expected.high)
    assert (often.estimate, often.low) == (pytest.approx(once.estimate), pytest.approx(once.low))
    assert dict(often.n) == {"items": 3, "measurements": 30}


@pytest.mark.parametrize(("values", "mean", "says"), CASES["missing"])  # fmt: skip
def test_missing_measurements_leave_the_mean_and_are_counted(values, mean, says):
    """Nothing missing becomes a zero; where nothing is left, or nothing varies, the reason stands beside it."""
    result, present = mean_result("mean", measured(*values), "x"), len(values) - values.count(None)
    assert (result.estimate, result.missing) == (mean, values.count(None))
    assert says in result.reason
    assert result.n["items"] == result.n["measurements"] == present
    if len(set(values)) == 1:
        assert (result.low, result.high, bool(result.reason)) == (None, None, True)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 5), (-1, 1)])
@pytest.mark.parametrize("shares", CASES["shares"])
def test_a_mean_with_bounds_is_a_share_of_them_and_has_an_interval_at_their_ends(shares, low, high):
    """That of `rate_mean` of items, on any scale; Student's t, cut off at the bounds, has none where all are equal."""
    values = [low + (high - low) * share for share in shares]
    found = mean_result("share", measured(*values, repeats=3), "x", bounds=(low, high))
    oracle = rate_mean(Estimate("", None), shares, range(len(shares)))
    ends = [low + (high - low) * end for end in (oracle.estimate, oracle.low, oracle.high)]
    assert [found.estimate, found.low, found.high] == pytest.approx(ends)
    assert low <= found.low < found.high <= high


def test_the_interval_of_a_share_holds_near_an_end_as_it_says():
    """One question of twenty unread, 12 questions in 3 repeats: of 400 studies; Student's t, cut off, held in 77 %."""
    rng = np.random.default_rng(7)
    chances = rng.beta(0.05 * 4, 0.95 * 4, (400, 12))
    found = [
        mean_result(
            "unread", [item for k in range(3) for item in measured(*map(float, hits[k]))], "x", bounds=(0, 1)
        )
        for hits in rng.random((400, 3, 12)) < chances[:, None, :]
    ]
    assert np.mean([one.low is not None and one.low <= 0.05 <= one.high for one in found]) > 0.935


def test_a_value_beyond_the_bounds_is_refused():
    with pytest.raises(InputError, match=r"share: x 1\.5 is not between 0 and 1"):
        mean_result("share", measured(0.0, 1.5), "x", bounds=(0, 1))


def test_a_value_that_is_not_finite_is_missing_with_its_reason():
    for value in (float("nan"), float("inf")):
        number = Measurement("x", value)
        assert (number.value, "not a finite number" in str(number.reason)) == (None, True)
