"""Pearson's correlation when the answers of one base belong together: the jackknife over bases."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.counting import counted
from toolkit.errors import InputError
from toolkit.stats.rating_matrix import NEGLIGIBLE
from toolkit.stats.result import Estimate

METHOD: Final = "Fisher z, jackknife over bases"
FEWEST_BASES: Final = 4


def clustered_pearson(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    missing: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    r"""Return Pearson's r with the interval :math:`\tanh(\operatorname{artanh} r \pm t_{G-1}\, s)`.

    s is the jackknife standard error of :math:`\operatorname{artanh} r` with each of the G bases left out in turn, so
    that answers of one base may be alike.

    Parameters
    ----------
    name
        Name of the result.
    x, y
        Finite values of the answers.
    clusters
        Base of each answer.
    missing
        Answers that were left out.
    confidence
        Coverage of the interval.

    Returns
    -------
    Estimate
        Not estimable where there are fewer than three answers or a side does not vary; without an interval where
        there are fewer than four bases, or one of them decides whether there is a correlation.

    Raises
    ------
    InputError
        If the lengths differ, or a value is missing or infinite.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11.

    Examples
    --------
    >>> x, y = [1, 2, 3, 4, 5, 6], [1.2, 1.9, 3.3, 3.8, 5.4, 5.5]
    >>> found = clustered_pearson("r", x, y, "abcdef")
    >>> round(found.estimate, 3), found.low < found.estimate < found.high
    (0.984, True)
    """
    one, other = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not len(one) == len(other) == len(clusters):
        raise InputError(
            f"correlation {name}: {len(one)}, {len(other)} values and {len(clusters)} bases; give as many"
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise InputError(f"correlation {name}: a value is missing or infinite; leave such answers out first")
    labels = np.array([str(cluster) for cluster in clusters])
    bases = np.unique(labels)
    counts = {"answers": len(one), "bases": len(bases)}
    empty = Estimate(name, None, method=METHOD, n=counts, missing=missing, confidence=confidence)
    r = _pearson(one, other)
    if r is None:
        why = (
            "one of the two sides does not vary"
            if len(one) > 2
            else f"{counted(len(one), 'answers')}, three are needed"
        )
        return replace(empty, note=f"not estimable: {why}")
    found = replace(empty, estimate=r)
    if abs(r) >= 1 - NEGLIGIBLE:
        return replace(found, note="no interval: the scores lie on a straight line")
    if len(bases) < FEWEST_BASES:
        return replace(
            found, note=f"no interval: {counted(len(bases), 'bases')}, and {FEWEST_BASES} are needed"
        )
    partial = [_pearson(one[labels != base], other[labels != base]) for base in bases]
    if any(part is None or abs(part) >= 1 - NEGLIGIBLE for part in partial):
        return replace(found, note="no interval: one base alone makes or unmakes the correlation")
    z = np.arctanh(np.array(partial, dtype=float))
    error = math.sqrt((len(z) - 1) / len(z) * float(((z - z.mean()) ** 2).sum()))
    half = float(special.stdtrit(len(bases) - 1, (1 + confidence) / 2)) * error
    centre = math.atanh(r)
    return replace(found, low=math.tanh(centre - half), high=math.tanh(centre + half))


def _pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 3 or min(np.ptp(x), np.ptp(y)) <= NEGLIGIBLE:
        return None
    x, y = x - x.mean(), y - y.mean()
    r = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
    return max(-1.0, min(1.0, r))
