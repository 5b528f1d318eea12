"""Sums over bases from which the prediction-powered mean is made again without any one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toolkit.stats.result import ROUNDING
from toolkit.words import counted


@dataclass(frozen=True)
class BaseSums:
    """What the estimator needs of each base: one row a base, so that leaving a base out is a subtraction."""

    n: np.ndarray
    y: np.ndarray
    f: np.ndarray
    yf: np.ndarray
    ff: np.ndarray
    n_other: np.ndarray
    f_other: np.ndarray
    ff_other: np.ndarray

    def total(self) -> BaseSums:
        """Return the sums over all bases, as one row."""
        return BaseSums(*(part.sum(keepdims=True) for part in vars(self).values()))

    def without_each(self) -> BaseSums:
        """Return the sums over all bases but one, one row for each that is left out."""
        whole = self.total()
        pairs = zip(vars(whole).values(), vars(self).values(), strict=True)
        return BaseSums(*(all_ - part for all_, part in pairs))


def base_sums(y: np.ndarray, f: np.ndarray, u: np.ndarray, rated: np.ndarray, other: np.ndarray) -> BaseSums:
    """Return the sums of each base."""
    bases = int(max(rated.max(initial=-1), other.max(initial=-1))) + 1
    of_rated = [np.bincount(rated, weights, bases) for weights in (np.ones(len(y)), y, f, y * f, f * f)]
    of_other = [np.bincount(other, weights, bases) for weights in (np.ones(len(u)), u, u * u)]
    return BaseSums(*of_rated, *of_other)


def tuned_mean(sums: BaseSums, tuning: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimate and its lambda for each row of sums."""
    mean, scored = sums.y / sums.n, sums.f / sums.n
    others = np.divide(sums.f_other, sums.n_other, out=scored.copy(), where=sums.n_other > 0)
    if tuning is None:
        every = sums.n + sums.n_other
        spread = sums.ff + sums.ff_other - (sums.f + sums.f_other) ** 2 / every
        # A spread that is rounding of the sums it is left over from is none.
        varies = (spread > ROUNDING * (sums.ff + sums.ff_other)) & (every > 1) & (sums.n_other > 0)
        together = sums.yf / sums.n - mean * scored
        ratio = 1 + np.divide(sums.n, sums.n_other, out=np.zeros_like(mean), where=varies)
        variance = ratio * spread / np.maximum(every - 1, 1)
        weight = np.clip(np.divide(together, variance, out=np.zeros_like(mean), where=varies), 0, 1)
    else:
        weight = np.full_like(mean, tuning)
    return mean + weight * (others - scored), weight


def jackknife_error(sums: BaseSums, tuning: float | None) -> tuple[float, int, str]:
    """Return jackknife standard error, degrees of freedom, and why there is none."""
    rated = int((sums.n > 0).sum())
    if rated < 3:
        return 0.0, 0, f"{counted(rated, 'rated bases')}, and three are needed"
    replicates = tuned_mean(sums.without_each(), tuning)[0]
    bases = len(replicates)
    variance = (bases - 1) / bases * float(((replicates - replicates.mean()) ** 2).sum())
    return math.sqrt(variance), rated - 1, ""
