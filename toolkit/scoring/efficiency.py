"""Quality for money: composite per Australian dollar."""

from __future__ import annotations

import math
from typing import Any

from toolkit.errors import InputError
from toolkit.scoring.values import number_or_missing


def calculate_efficiency(quality_score: Any, cost: Any) -> float | None:
    """Return quality per Australian dollar, quality / cost (seed 002, section 5.1).

    The seed returns 0.0 for a cost of zero, which would rank a free local model last. The ruling here is
    None: quality per dollar does not exist where nothing was paid, nor where there is no quality score or no
    known cost.

    Parameters
    ----------
    quality_score
        Composite (0-5); None or NaN is missing.
    cost
        Cost in AUD; None where it is not known.

    Returns
    -------
    float or None
        Score points per AUD; None where it does not exist.

    Raises
    ------
    InputError
        If the cost is negative, NaN or infinite, or a value is not a number.

    Examples
    --------
    >>> round(calculate_efficiency(4.3, 0.0052), 1)
    826.9
    >>> calculate_efficiency(4.3, 0.0) is None
    True
    """
    quality = number_or_missing(quality_score, "quality_score")
    if isinstance(cost, float) and math.isnan(cost):
        raise InputError(
            "cost: NaN is not an amount of AUD; give a number, or None where the cost is not known"
        )
    aud = number_or_missing(cost, "cost")
    if aud is None or quality is None:
        return None
    if aud < 0:
        raise InputError(f"cost: {aud:g} AUD is negative; a cost is zero or more")
    return quality / aud if aud > 0 else None
