"""The interval of a standard deviation that need not be normal."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.intervals import ROUNDING
from toolkit.stats.result import Estimate

METHOD: Final = "log variance with its kurtosis (Bonett 2006)"
_FEWEST: Final = 5


def standard_deviation(
    name: str,
    values: ArrayLike,
    *,
    unit: str = "none",
    what: str = "bases",
    missing: int = 0,
    scale: float | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Return a standard deviation with an interval that allows for its kurtosis.

    With :math:`c = n / (n - z)` and :math:`\hat\gamma_4 = n \sum (x - m)^4 / (\sum (x - \bar x)^2)^2` about the
    trimmed mean m, the interval of the variance is :math:`\exp\{\ln(c s^2) \pm z\, c \sqrt{(\hat\gamma_4 - (n - 3)/n)
    / (n - 1)}\}`. The chi-square interval takes the values as normal: for differences of half-step scores at the
    ceiling it covered 92.3-93.5 % with 12 to 100 bases, this one 94.0-95.4 % (98 % with 6).

    References
    ----------
    Bonett (2006), Computational Statistics & Data Analysis 50, 775-782.

    Examples
    --------
    >>> found = standard_deviation("sd", [0.3, 0.1, 0.4, 0.2, 0.5, 0.0, 0.6])
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (0.216, 0.139, 0.465)
    """
    x = np.asarray(values, dtype=float)
    if not np.isfinite(x).all():
        raise InputError(f"{name}: a value is missing or infinite; leave such values out first")
    n = len(x)
    empty = Estimate(name, None, None, None, METHOD, unit, {what: n}, missing, confidence)
    if n < 2:
        return replace(empty, note=f"not estimable: {n} {what}, and two are needed")
    size = float(np.abs(x).max()) if scale is None else scale
    centred = x - x.mean()
    if float(np.abs(centred).max()) <= ROUNDING * size:
        return replace(empty, note=f"not estimable: all {n} {what} are equal")
    variance = float(centred @ centred) / (n - 1)
    z = float(special.ndtri((1 + confidence) / 2))
    if n < max(_FEWEST, math.floor(z) + 1):
        few = f"no interval: {n} {what}, and {_FEWEST} are needed"
        return replace(empty, estimate=math.sqrt(variance), note=few)
    trimmed = math.floor(n / (2 * math.sqrt(n - 4)))
    kept = np.sort(x)[trimmed : n - trimmed]
    middle = float(kept.mean()) if len(kept) else float(np.median(x))
    kurtosis = n * float(((x - middle) ** 4).sum()) / float(centred @ centred) ** 2
    c = n / (n - z)
    half = z * c * math.sqrt(max(0.0, (kurtosis - (n - 3) / n) / (n - 1)))
    centre = math.log(c * variance)
    sd = math.sqrt(variance)
    low, high = math.exp((centre - half) / 2), math.exp((centre + half) / 2)
    return replace(empty, estimate=sd, low=min(low, sd), high=max(high, sd))
