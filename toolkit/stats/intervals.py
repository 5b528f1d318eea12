"""The mean and its t interval, with answers that stand alone or that come in clusters."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError

ROUNDING = 1e-12
"""A spread below this share of the size of the numbers is rounding, not data."""


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its standard error and t interval.

    Parameters
    ----------
    mean
        The mean, in the unit of the values.
    error, low, high
        Standard error and interval, in the same unit; None where the values do not vary or are fewer than
        two.
    p_value
        Two-sided p value of the t test that the mean is 0; None where there is no interval.
    degrees
        Degrees of freedom: values, or clusters, less one.
    reason
        Why there is no interval; empty where there is one.
    """

    mean: float
    error: float | None
    low: float | None
    high: float | None
    p_value: float | None
    degrees: int
    reason: str = ""


def mean_interval(values: ArrayLike, confidence: float = 0.95, scale: float | None = None) -> MeanInterval:
    r"""Return the mean of independent values with :math:`\bar x \pm t_{n-1}\, s / \sqrt n`.

    Parameters
    ----------
    values
        Finite values, one at least.
    confidence
        Coverage of the interval.
    scale
        Size of the numbers the values were made from, where they are differences; spread below a tiny share
        of it is rounding. The largest magnitude of the values by default.

    Returns
    -------
    MeanInterval

    Raises
    ------
    InputError
        If there is no value, or one is missing or infinite.

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
    values: ArrayLike, clusters: Sequence[Hashable], confidence: float = 0.95, small_sample: bool = True
) -> MeanInterval:
    r"""Return the mean of values that come in clusters, with a standard error that allows for it.

    :math:`SE^2 = n^{-2} \sum_g \bigl(\sum_{i \in g} (x_i - \bar x)\bigr)^2`, times G / (G - 1) for the small
    sample, and Student t with G - 1 degrees of freedom over the G clusters.

    Parameters
    ----------
    values
        Finite values, one at least.
    clusters
        Cluster (base) of each value.
    confidence
        Coverage of the interval.
    small_sample
        Whether to apply the factor G / (G - 1).

    Returns
    -------
    MeanInterval

    Raises
    ------
    InputError
        If there is no value, one is missing or infinite, or the lengths differ.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640. Cameron & Miller (2015), Journal of Human
    Resources 50, 317-372, for the small sample.

    Examples
    --------
    >>> scores, bases = [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0], "aaabbbcccddd"
    >>> round(clustered_mean(scores, bases, small_sample=False).error, 6)
    0.186339
    """
    x = _finite(values)
    if len(x) != len(clusters):
        raise InputError(f"mean: {len(x)} values and {len(clusters)} clusters; give a cluster for each value")
    sums = pd.Series(x - x.mean()).groupby(list(clusters), sort=False).sum().to_numpy()
    count = len(sums)
    error = math.sqrt(float((sums**2).sum())) / len(x)
    if small_sample and count > 1:
        error *= math.sqrt(count / (count - 1))
    return _t_interval(float(x.mean()), error, count, float(np.abs(x).max()), confidence, "clusters")


def _t_interval(
    mean: float, error: float, count: int, size: float, confidence: float, what: str
) -> MeanInterval:
    if count < 2:
        return MeanInterval(mean, None, None, None, None, 0, f"{count} of the {what}, and two are needed")
    if error <= ROUNDING * size:
        return MeanInterval(mean, None, None, None, None, count - 1, f"all {count} {what} are equal")
    half = float(special.stdtrit(count - 1, (1 + confidence) / 2)) * error
    p_value = 2 * float(special.stdtr(count - 1, -abs(mean) / error))
    return MeanInterval(mean, error, mean - half, mean + half, p_value, count - 1)


def _finite(values: ArrayLike) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if not x.size or not np.isfinite(x).all():
        raise InputError(
            "mean: there is no value, or one is missing or infinite; leave such values out first"
        )
    return x
