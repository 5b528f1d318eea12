"""The mean over items: repeats are one cluster, what is missing is counted, and a share stays a share."""

from __future__ import annotations

import pytest

from toolkit.prompt_test import MeasuredTestItem, Measurement, TestItem, mean_result
from toolkit.stats.inference.means import clustered_mean


def measured(*values: float | None, repeats: int = 1) -> list[MeasuredTestItem]:
    return [
        MeasuredTestItem(TestItem(f"i{n}", ()), (Measurement("x", value, "points", "no reply"),), "m", repeat)
        for n, value in enumerate(values)
        for repeat in range(repeats)
    ]


def test_repeats_of_an_item_do_not_narrow_the_interval() -> None:
    """Ten equal repeats give the interval of one, because they are one cluster."""
    once = mean_result("mean", measured(1.0, 2.0, 4.0), "x", "points")
    often = mean_result("mean", measured(1.0, 2.0, 4.0, repeats=10), "x", "points")
    expected = clustered_mean([1.0, 2.0, 4.0], ["a", "b", "c"])
    assert (once.estimate, once.low, once.high) == (expected.mean, expected.low, expected.high)
    assert (often.estimate, often.low) == (pytest.approx(once.estimate), pytest.approx(once.low))
    assert dict(often.n) == {"items": 3, "measurements": 30}


@pytest.mark.parametrize(("values", "mean", "says"), [
    ((3.0, None, 5.0), 4.0, ""), ((), None, "there is no measurement"), ((None, None), None, "no reply"),
    ((1.0,), 1.0, ""), ((1.0, 1.0), 1.0, ""),
])  # fmt: skip
def test_missing_measurements_leave_the_mean_and_are_counted(values, mean, says) -> None:
    """Nothing missing becomes a zero; where nothing is left, or nothing varies, the reason stands beside it."""
    result, present = mean_result("mean", measured(*values), "x"), len(values) - values.count(None)
    assert (result.estimate, result.missing) == (mean, values.count(None))
    assert says in result.note
    assert result.n["items"] == result.n["measurements"] == present
    if len(set(values)) == 1:
        assert (result.low, result.high, bool(result.note)) == (None, None, True)


def test_a_share_stays_between_its_bounds() -> None:
    """A t interval of a share leaves 0 to 1; clamped, it says so."""
    free = mean_result("share", measured(0.0, 0.0, 1.0), "x")
    clamped = mean_result("share", measured(0.0, 0.0, 1.0), "x", bounds=(0, 1))
    assert free.low is not None
    assert free.low < 0
    assert (clamped.low, clamped.high) == (0, 1)
    assert "clamped to 0-1" in clamped.method


def test_a_value_that_is_not_finite_is_missing_with_its_reason() -> None:
    for value in (float("nan"), float("inf")):
        number = Measurement("x", value)
        assert (number.value, "not a finite number" in str(number.reason)) == (None, True)
