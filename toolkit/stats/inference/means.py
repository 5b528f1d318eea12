"""The mean and its t interval, with answers that stand alone or that come in clusters."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

Correction = Literal["CR0", "CR1", "CR2"]
"""Small-sample correction of a clustered standard error: none, G / (G - 1), or Bell & McCaffrey's."""
CLUSTERED: Final = "Student t, standard error clustered by base (CR2, Bell & McCaffrey 2002)"


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its standard error and t interval."""

    mean: float
    error: float | None
    low: float | None
    high: float | None
    p_value: float | None
    degrees: float
    reason: str = ""

    def of(self, empty: Estimate, *, tested: bool = False) -> Estimate:
        """Return the estimate that this mean gives, with its p value where a test is wanted."""
        what = "interval or p value" if tested else "interval"
        return replace(
            empty,
            estimate=self.mean,
            low=self.low,
            high=self.high,
            p_value=self.p_value if tested else None,
            note=f"no {what}: {self.reason}" if self.reason else "",
        )


def mean_interval(values: ArrayLike, confidence: float = 0.95, scale: float | None = None) -> MeanInterval:
    r"""Return the mean of independent values with :math:`\bar x \pm t_{n-1}\, s / \sqrt n`.

    Examples
    --------
    >>> interval = mean_interval([4.3, 4.1, 4.5])
    >>> round(interval.low, 3), round(interval.high, 3)
    (3.803, 4.797)
    """
    x = _finite(values)
    error = float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else 0.0
    size = float(np.abs(x).max()) if scale is None else scale
    return _t_interval(float(x.mean()), error, len(x), size, confidence, "values")


def clustered_mean(
    values: ArrayLike,
    clusters: Sequence[Hashable],
    confidence: float = 0.95,
    correction: Correction = "CR2",
) -> MeanInterval:
    r"""Return the mean of values that come in clusters, with a standard error that allows for it.

    With :math:`s_g = \sum_{i \in g} (x_i - \bar x)` over the :math:`n_g` of n values in cluster g, CR0 is
    :math:`SE^2 = n^{-2} \sum_g s_g^2` and CR1 that times G / (G - 1), both with Student t of G - 1 degrees of freedom.
    CR2 is :math:`n^{-2} \sum_g s_g^2 / (1 - n_g / n)` with Satterthwaite degrees of freedom
    :math:`(\mathrm{tr}\,\Omega)^2 / \mathrm{tr}\,\Omega^2`, where :math:`\Omega_{gg} = n_g` and
    :math:`\Omega_{gh} = -n_g n_h / (n \sqrt{(1 - n_g / n)(1 - n_h / n)})`. Clusters of one size make CR1 and CR2 equal.

    In 4,000 simulated studies of 12 bases with a correlation of .3 within them, 95 % intervals covered 95.2 % with
    3 values in each base; with 1 to 5, 93.4 % by CR1 and 94.5 % by CR2; with one base of 21, 84.6 % and 95.2 %. With
    scores in half steps that pile up at the ceiling CR2 covered 94.5, 93.8 and 94.1 %.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640. Cameron & Miller (2015), Journal of Human
    Resources 50, 317-372, for CR1. Bell & McCaffrey (2002), Survey Methodology 28, 169-181, for CR2 and its degrees
    of freedom; Pustejovsky & Tipton (2018), Journal of Business & Economic Statistics 36, 672-683.

    Examples
    --------
    >>> scores, bases = [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0], "aaabbbcccddd"
    >>> round(clustered_mean(scores, bases, correction="CR0").error, 6)
    0.186339
    """
    x = _finite(values)
    if len(x) != len(clusters):
        raise InputError(f"mean: {len(x)} values and {len(clusters)} clusters; give a cluster for each value")
    if correction not in get_args(Correction):
        raise InputError(
            f"mean: correction {correction!r} is not known; use {', '.join(get_args(Correction))}"
        )
    groups = pd.Series(x - x.mean()).groupby(list(clusters), sort=False)
    sums, sizes = groups.sum().to_numpy(), groups.size().to_numpy(dtype=float)
    count = len(sums)
    degrees: float = count - 1
    if count > 1 and correction == "CR1":
        sums = sums * math.sqrt(count / (count - 1))
    elif count > 1 and correction == "CR2":
        sums = sums / np.sqrt(1 - sizes / len(x))
        degrees = _satterthwaite(sizes)
    error = math.sqrt(float((sums**2).sum())) / len(x)
    return _t_interval(float(x.mean()), error, count, float(np.abs(x).max()), confidence, "clusters", degrees)


def _satterthwaite(sizes: np.ndarray) -> float:
    """Return the degrees of freedom of Bell & McCaffrey for a mean, in as many steps as there are clusters."""
    total = float(sizes.sum())
    squares = sizes**2 / (1 - sizes / total)
    off_diagonal = (float(squares.sum()) ** 2 - float((squares**2).sum())) / total**2
    return total**2 / (float((sizes**2).sum()) + off_diagonal)


def _t_interval(
    mean: float,
    error: float,
    count: int,
    size: float,
    confidence: float,
    what: str,
    degrees: float | None = None,
) -> MeanInterval:
    degrees = count - 1 if degrees is None else degrees
    if count < 2:
        return MeanInterval(mean, None, None, None, None, 0, f"{counted(count, what)}, and two are needed")
    if error <= ROUNDING * size:
        return MeanInterval(mean, None, None, None, None, degrees, f"all {count} {what} are equal")
    half = float(special.stdtrit(degrees, (1 + confidence) / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(mean) / error))
    return MeanInterval(mean, error, mean - half, mean + half, p_value, degrees)


def _finite(values: ArrayLike) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if not x.size or not np.isfinite(x).all():
        raise InputError(
            "mean: there is no value, or one is missing or infinite; leave such values out first"
        )
    return x


SD_METHOD: Final = "log variance with its kurtosis (Bonett 2006)"
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
    empty = Estimate(name, None, None, None, SD_METHOD, unit, {what: n}, missing, confidence)
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
