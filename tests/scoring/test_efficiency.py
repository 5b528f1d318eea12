import pytest

from toolkit.errors import InputError
from toolkit.scoring.efficiency import calculate_efficiency


def test_efficiency_is_quality_over_cost():
    assert calculate_efficiency(4.3, 0.0052) == pytest.approx(826.923, abs=1e-3)


def test_a_true_zero_of_quality_is_a_zero():
    assert calculate_efficiency(0.0, 0.01) == 0.0


@pytest.mark.parametrize(
    ("quality", "cost"), [(4.0, 0.0), (4.0, 0), (4.0, None), (None, 0.01), (float("nan"), 1)]
)
def test_efficiency_is_missing_where_nothing_was_paid_or_known(quality, cost):
    assert calculate_efficiency(quality, cost) is None


@pytest.mark.parametrize("cost", [-0.01, float("nan"), float("inf"), "free"])
def test_a_cost_that_cannot_be_is_refused(cost):
    with pytest.raises(InputError, match="cost"):
        calculate_efficiency(4.0, cost)
