"""The jackknife over bases: one interval for every smooth statistic, on a scale where it is nearly normal."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import special

from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

ONE_SIDED = "the correction for bias is larger than half the interval, which therefore ends at the estimate"
NO_SPREAD = "leaving out one base at a time gives no usable spread"
FEWEST_BASES = 4  # the kurtosis that sets the degrees of freedom needs four


def numbered(labels: Sequence[Hashable]) -> np.ndarray:
    """Return the number of each label in the order they come; a missing one is a label too."""
    return pd.factorize(pd.Series(list(labels), dtype="object"), use_na_sentinel=False)[0]


def sums_by(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the sums of the rows of each base, one row a base."""
    sums = np.zeros((codes.max(initial=-1) + 1, *rows.shape[1:]))
    np.add.at(sums, codes, rows)
    return sums


def total_and_jackknife(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over all bases, one row, and those without each base, one row a base."""
    total = sums.sum(axis=0, keepdims=True)
    return total, total - sums


def jackknife_interval(
    total: np.ndarray | float, jackknifed: np.ndarray, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the ends of the interval of a statistic from its values without each of the G bases, and its degrees.

    With :math:`z` the statistic of all bases, :math:`z_{(g)}` that without base g and :math:`\bar z` their mean, it is
    :math:`\tilde z \pm t_\nu\, s` with :math:`\tilde z = z - (G-1)(\bar z - z)` and :math:`s^2 = \frac{G-1}{G} \sum_g
    (z_{(g)} - \bar z)^2`. Because few bases carry most of the error where scores pile up at an end, :math:`\nu = 2 /
    \bigl(\frac{2}{G-1} + \frac{\kappa}{G}\bigr)` (Satterthwaite), with the unbiased excess kurtosis :math:`\kappa \ge
    0` of the :math:`z_{(g)}`. It is widened to hold z where the correction leaves it out, so that one end is z.

    References
    ----------
    Efron & Tibshirani (1993), Introduction to the Bootstrap, chapter 11. Satterthwaite (1946), Biometrics Bulletin 2,
    110-114.

    Examples
    --------
    >>> x = np.array([2.0, 3.5, 1.0, 4.0, 2.5])
    >>> low, high, degrees = jackknife_interval(x.mean(), (x.sum() - x) / 4)
    >>> round(float(low), 2), round(float(high), 2)
    (1.12, 4.08)
    """
    z = np.asarray(total, dtype=float)
    centre, error, degrees = jackknife(z, jackknifed)
    half = special.stdtrit(degrees, (1 + confidence) / 2) * error
    # NaN, where there is no spread, stays NaN.
    return np.minimum(centre - half, z), np.maximum(centre + half, z), degrees


def jackknife(total: np.ndarray | float, jackknifed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centre, standard error and degrees of freedom of ``jackknife_interval``; NaN where it has no ends."""
    centre, jackknife_values = np.asarray(total, dtype=float), np.asarray(jackknifed, dtype=float)
    bases = len(jackknife_values)
    usable = np.isfinite(centre) & np.isfinite(jackknife_values).all(axis=0) & (bases >= FEWEST_BASES)
    z, parts = np.where(usable, centre, 0.0), np.where(usable, jackknife_values, 0.0)
    mean = parts.mean(axis=0)
    second = ((parts - mean) ** 2).mean(axis=0)
    usable &= np.sqrt(second) > ROUNDING * np.maximum(1.0, np.abs(z))
    fourth = ((parts - mean) ** 4).mean(axis=0)
    excess = fourth / np.where(usable, second, 1.0) ** 2 - 3
    if bases >= FEWEST_BASES:
        excess = (bases - 1) / ((bases - 2) * (bases - 3)) * ((bases + 1) * excess + 6)
    degrees = 2 / (2 / max(bases - 1, 1) + np.maximum(excess, 0) / max(bases, 1))
    corrected, error = z - (bases - 1) * (mean - z), np.sqrt((bases - 1) * second)
    return np.where(usable, corrected, np.nan), np.where(usable, error, np.nan), degrees


def with_jackknife(
    estimate: Estimate,
    jackknife_values: np.ndarray,
    forward: Callable[[np.ndarray], np.ndarray],
    back: Callable[[np.ndarray], np.ndarray],
    *,
    useless: str = NO_SPREAD,
) -> Estimate:
    """Return a result with the interval that its values without each base give, on the scale of ``forward``."""
    if estimate.estimate is None:
        return estimate
    if len(jackknife_values) < FEWEST_BASES:
        return estimate.no_interval(
            f"{counted(len(jackknife_values), 'bases')}, and {FEWEST_BASES} are needed"
        )
    with np.errstate(all="ignore"):  # what is not finite is caught below
        total = forward(np.array(estimate.estimate))
        *ends, degrees = jackknife_interval(total, forward(jackknife_values), estimate.confidence)
        low, high = (float(back(end)) for end in ends)
    if not (np.isfinite(low) and np.isfinite(high)):
        return estimate.no_interval(useless)
    # The way there and back may round the estimate itself out of its interval.
    low, high = min(low, estimate.estimate), max(high, estimate.estimate)
    estimate = replace(estimate, low=low, high=high, degrees=float(degrees))
    return estimate.with_note(ONE_SIDED) if total in ends else estimate
