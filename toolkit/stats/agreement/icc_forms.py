"""The six intraclass correlations as functions of sums over answers, their scale, and words for their size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from toolkit.errors import InputError
from toolkit.stats.inference.jackknife import numbered, sums_by
from toolkit.stats.result import ROUNDING, Estimate

FORMS: Final = ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)")
_GRADES: Final = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"), (np.inf, "excellent"))


def base_sums(values: np.ndarray, bases: Sequence[Hashable]) -> np.ndarray:
    """Return what each base adds to the mean squares of a table of answers x judges, bases x (judges + 3)."""
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or len(table) != len(bases):
        shape = " x ".join(map(str, table.shape))
        raise InputError(
            f"mean squares: a table of {shape} and {len(bases)} bases; give a base for each target"
        )
    if not np.isfinite(table).all():
        raise InputError("mean squares: a score is missing or infinite; leave such targets out first")
    centred = table - table.mean() if table.size else table
    squares, rows = (centred**2).sum(axis=1), centred.shape[1] * centred.mean(axis=1) ** 2
    return sums_by(numbered(bases), np.column_stack([np.ones(len(table)), centred, squares, rows]))


def mean_squares(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the mean squares between answers, within them, between judges and of the residual.

    With n answers, k judges, judge sums :math:`C_j`, squares :math:`Q` and :math:`R = k \sum_i \bar x_i^2`, the sums
    of squares are :math:`R - (\sum C_j)^2 / kn` between answers,
    :math:`\sum C_j^2 / n - (\sum C_j)^2 / kn` between judges and :math:`Q - R` within answers. One
    that is only rounding is exactly 0.

    Examples
    --------
    >>> table = np.array([[9, 2, 5], [6, 1, 3], [8, 4, 6]])
    >>> between, _, _, error = mean_squares(base_sums(table, "abc").sum(axis=0))
    >>> round(float(between), 4), round(float(error), 4)
    (5.7778, 0.6111)
    """
    k = sums.shape[-1] - 3
    n, columns, squares, rows = sums[..., 0], sums[..., 1 : k + 1], sums[..., k + 1], sums[..., k + 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        grand = columns.sum(axis=-1) ** 2 / (k * n)
        judges = (columns**2).sum(axis=-1) / n - grand
        between, within = rows - grand, squares - rows
        floor = ROUNDING * (between + within)
        between, judges, error = (
            np.where(part > floor, part, 0.0) for part in (between, judges, within - judges)
        )
        residual = error / ((n - 1) * (k - 1))
        return between / (n - 1), (judges + error) / (n * (k - 1)), judges / (k - 1), residual


def icc_of_mean_squares(b: Any, w: Any, j: Any, e: Any, n: Any, k: int) -> np.ndarray:
    """Return the six forms of McGraw & Wong (1996), table 4, numbers or arrays alike, in the order of ``FORMS``.

    A form is NaN where its denominator, an estimate of a total variance, is not positive; the formula would
    then give a number that is no correlation.

    Examples
    --------
    >>> round(float(icc_of_mean_squares(11.2417, 6.2639, 32.4861, 1.0194, n=6, k=4)[1]), 3)
    0.29
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (
            (b - w, b + (k - 1) * w),
            (b - e, b + (k - 1) * e + k * (j - e) / n),
            (b - e, b + (k - 1) * e),
            (b - w, b),
            (b - e, b + (j - e) / n),
            (b - e, b),
        )
        floor = ROUNDING * np.maximum.reduce([b, w, j, e])
        return np.stack([np.where(low > floor, top / low, np.nan) for top, low in fractions], axis=-1)


def forms_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return the six intraclass correlations that sums over answers give; NaN where there is one answer."""
    n = sums[..., 0]
    forms = icc_of_mean_squares(*mean_squares(sums), n, sums.shape[-1] - 3)
    return np.where((n > 1)[..., None], forms, np.nan)


def log_f(single: np.ndarray, k: float) -> np.ndarray:
    r"""Return :math:`\ln F` with :math:`F = (1 + (k-1)\rho) / (1 - \rho)` of a single form, NaN where F is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log((1 + (k - 1) * single) / (1 - single))
    return np.where(np.isfinite(found), found, np.nan)


def from_log_f(log: np.ndarray, k: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the single and the average form that belong to ln F (Spearman-Brown)."""
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.exp(-log)  # 1 / F, which underflows to 0 where F would overflow
    return (1 - inverse) / (1 + (k - 1) * inverse), 1 - inverse


def agreement_words(low: float, high: float) -> str:
    """Return the words of Koo & Li (2016) for both ends of the interval of a reliability.

    Examples
    --------
    >>> agreement_words(0.31, 0.68), agreement_words(0.92, 0.97)
    ('poor to moderate (Koo & Li 2016)', 'excellent (Koo & Li 2016)')
    """
    words = (next(word for limit, word in _GRADES if not value >= limit) for value in (low, high))
    return f"{' to '.join(dict.fromkeys(words))} (Koo & Li 2016)"


def with_interval(result: Estimate, low: float, high: float) -> Estimate:
    """Return a result with its interval and the words for it, or without where the ends are no interval."""
    if result.estimate is None or not low <= result.estimate <= high or max(-low, high) == np.inf:
        return replace(result, note="no interval: a variance estimate is not positive")
    return replace(result, low=low, high=high, note=agreement_words(low, high))
