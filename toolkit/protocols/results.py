"""Results that most tests need: the mean of one measurement over the items of a model, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import InputError
from toolkit.prompt_test import MeasuredTestItem, Result
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.result import Estimate


def one_model(measured_items: Sequence[MeasuredTestItem]) -> None:
    """Raise InputError when items of several models would be aggregated together."""
    if len(models := sorted({measured.model for measured in measured_items})) > 1:
        raise InputError(f"results of {', '.join(models)} are not pooled; aggregate each model alone")


def mean_result(
    name: str,
    measured_items: Sequence[MeasuredTestItem],
    measurement: str,
    unit: str = "none",
    bounds: tuple[float, float] | None = None,
) -> Result:
    """Return the mean of one measurement over items, with a t interval over the items.

    The repeats of an item are one cluster: asking the same thing ten times is not ten items.

    Parameters
    ----------
    name
        Name of the result, as `PromptResponseTest.result_types` promises it.
    measured_items
        The measured items of one model.
    measurement
        Which measurement; missing ones are left out and counted.
    unit
        Unit of the measurement.
    bounds
        Least and greatest value there can be, to which the interval is clamped; 0 and 1 for a share.

    Returns
    -------
    Estimate
        With the numbers of items and replies it rests on, and how many were missing.

    Examples
    --------
    >>> from toolkit.prompt_test import Measurement, TestItem
    >>> items = [MeasuredTestItem(TestItem(n, ()), (Measurement("right", v),), "m") for n, v in (("a", 1), ("b", 0))]
    >>> mean_result("share right", items, "right").estimate
    0.5
    """
    found = [(one.item.item_id, one.value(measurement)) for one in measured_items]
    known = [(item, value) for item, value in found if value is not None]
    counts = {"items": len({item for item, _ in known}), "measurements": len(known)}
    missing = len(found) - len(known)
    if not known:
        reasons = {n.reason for one in measured_items for n in one.measurements if n.name == measurement}
        why = ", ".join(sorted(reason for reason in reasons if reason)) or "there is no measurement"
        return Estimate(name, None, unit=unit, n=counts, missing=missing, note=why)
    mean = clustered_mean([value for _, value in known], [item for item, _ in known])
    low, high, method = mean.low, mean.high, "t over items, clustered (Miller 2024)"
    if bounds is not None and low is not None and high is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
        method += f", clamped to {bounds[0]:g}-{bounds[1]:g}"
    return Estimate(
        name,
        mean.mean,
        low=low,
        high=high,
        method=method if low is not None else "",
        unit=unit,
        n=counts,
        missing=missing,
        note=mean.reason,
    )
