"""Means of scores on a scale that ends: near an end, Student's t is too narrow and its interval leaves the scale."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.stats.inference.jackknife import (
    FEWEST_BASES,
    all_and_without,
    jackknife_interval,
    numbered,
    sums_by,
)
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.run_table import Points
from toolkit.stats.result import Estimate

BOUNDED: Final = "jackknife over bases on the logit of the scale, Satterthwaite degrees of freedom"


def mean_on_scale(empty: Estimate, values: ArrayLike, clusters: Sequence[Hashable]) -> Estimate:
    """Return the mean of values: of `bounded_mean` where their unit names a scale, else by Student's t."""
    if isinstance(empty.unit, Points):
        return bounded_mean(empty, values, clusters, empty.unit.scale)
    return clustered_mean(values, clusters).of(empty)


def bounded_mean(
    empty: Estimate, values: ArrayLike, clusters: Sequence[Hashable], ends: tuple[float, float]
) -> Estimate:
    r"""Return the mean of scores on a scale with two ends, with an interval that stays between them.

    With :math:`p` the mean as a share of the scale, the interval is that of the jackknife over clusters of
    :math:`\ln(p / (1 - p))` (`toolkit.stats.inference.jackknife.jackknife_interval`), taken back to the scale. Where
    leaving out a cluster puts the mean on an end, or there are fewer than four clusters, the clustered standard error
    (CR2) of the mean is carried to that scale instead: :math:`s / (p (1 - p))`, with Student's t. In 1,500 simulated
    studies a setting, of whole scores with a mean of 4.63 on 0-5 and 8 to 100 bases, it covered 94.8-98.4 %, Student's
    t 89.5-99.6 %; near the end of the scale its price is width.

    Parameters
    ----------
    empty
        Estimate with name, unit and n; the result is this one with numbers and method.
    values : array of shape (n,)
        Scores, without missing ones.
    clusters : sequence of length n
        The base of each score.
    ends
        Low and high end of the scale, in the unit of the scores.

    Returns
    -------
    Estimate
        Without an interval where there are fewer than two clusters, or all of them are equal.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11. Satterthwaite (1946), Biometrics Bulletin
    2, 110-114. Bell & McCaffrey (2002), Survey Methodology 28, 169-181.

    Examples
    --------
    >>> found = bounded_mean(Estimate("mean", None), [5, 5, 4, 5, 5, 4.5], "abcdef", (0.0, 5.0))
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (4.75, 1.183, 4.992)
    """
    scores, (first, last) = np.asarray(values, dtype=float), ends
    by_t = clustered_mean(scores, clusters)
    if by_t.error is None or scores.min() < first or scores.max() > last:
        return by_t.of(empty)
    sums = sums_by(numbered(clusters), np.column_stack([scores, np.ones(len(scores))]))
    _, without = all_and_without(sums)
    share = (by_t.mean - first) / (last - first)
    low, high, degrees = math.nan, math.nan, by_t.degrees
    with np.errstate(all="ignore"):  # what is not finite is replaced below
        if len(sums) >= FEWEST_BASES:
            parts = special.logit((without[:, 0] / without[:, 1] - first) / (last - first))
            low, high, degrees = map(float, jackknife_interval(special.logit(share), parts, empty.confidence))
    if not (math.isfinite(low) and math.isfinite(high)):
        degrees = by_t.degrees
        half = float(special.stdtrit(degrees, (1 + empty.confidence) / 2)) * by_t.error
        half /= (last - first) * share * (1 - share)
        low, high = special.logit(share) - half, special.logit(share) + half
    low, high = (first + (last - first) * float(special.expit(end)) for end in (low, high))
    # The way there and back may round the mean itself out of its interval.
    low, high = min(low, by_t.mean), max(high, by_t.mean)
    return replace(empty, estimate=by_t.mean, low=low, high=high, degrees=degrees, method=BOUNDED)
