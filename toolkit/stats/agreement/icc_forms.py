"""The mean squares of a two-way table without replication, and the six intraclass correlations they give."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.result import ROUNDING, Estimate

_GRADES: Final = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"))
FORMS: Final = ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)")


@dataclass(frozen=True)
class MeanSquares:
    """Mean squares of n targets by k judges; a mean square that is only rounding is exactly 0."""

    between: float
    within: float
    judges: float
    error: float
    n: int
    k: int

    @property
    def degenerate(self) -> bool:
        """Whether an F ratio would be 0 or infinite, so that no F interval exists."""
        return 0 in (self.between, self.within, self.error)


def mean_squares(values: np.ndarray) -> MeanSquares:
    """Return the mean squares of a complete table, targets x judges (at least 2 x 2).

    Examples
    --------
    >>> ms = mean_squares(np.array([[9, 2, 5], [6, 1, 3], [8, 4, 6]]))
    >>> round(ms.between, 4), round(ms.error, 4)
    (5.7778, 0.6111)
    """
    n, k = values.shape
    centred = values - values.mean()
    rows, columns = centred.mean(axis=1), centred.mean(axis=0)
    residual = centred - rows[:, None] - columns[None, :]
    total = float((centred**2).sum())
    between, judges, error = (
        _unless_rounding(float(part), total)
        for part in (k * (rows**2).sum(), n * (columns**2).sum(), (residual**2).sum())
    )
    return MeanSquares(
        between=between / (n - 1),
        within=(judges + error) / (n * (k - 1)),
        judges=judges / (k - 1),
        error=error / ((n - 1) * (k - 1)),
        n=n,
        k=k,
    )


def icc_from_mean_squares(ms: MeanSquares) -> dict[str, float | None]:
    """Return the six intraclass correlations of McGraw & Wong (1996), table 4.

    A form is None where its denominator, an estimate of a total variance, is not positive; the formula would
    then give a number that is no correlation.

    Examples
    --------
    >>> icc = icc_from_mean_squares(MeanSquares(11.2417, 6.2639, 32.4861, 1.0194, n=6, k=4))
    >>> round(icc["ICC(A,1)"], 3)
    0.29
    """
    fractions = icc_fractions(ms.between, ms.within, ms.judges, ms.error, ms.n, ms.k)
    floor = ROUNDING * max(ms.between, ms.within, ms.judges, ms.error)
    return {
        form: top / bottom if bottom > floor else None
        for form, (top, bottom) in zip(FORMS, fractions, strict=True)
    }


def icc_fractions(b: Any, w: Any, j: Any, e: Any, n: Any, k: int) -> tuple[tuple[Any, Any], ...]:
    """Return numerator and denominator of the six forms (McGraw & Wong 1996, table 4), numbers or arrays alike."""
    return (
        (b - w, b + (k - 1) * w),
        (b - e, b + (k - 1) * e + k * (j - e) / n),
        (b - e, b + (k - 1) * e),
        (b - w, b),
        (b - e, b + (j - e) / n),
        (b - e, b),
    )


def _unless_rounding(part: float, total: float) -> float:
    return part if part > ROUNDING * total else 0.0


@dataclass(frozen=True)
class BaseSums:
    """Sums over the answers of each base, from which every mean square follows."""

    sums: np.ndarray

    @property
    def bases(self) -> int:
        """Number of bases."""
        return len(self.sums)

    @property
    def whole(self) -> np.ndarray:
        """Sums of all bases, shape (scales, judges + 3)."""
        return np.asarray(self.sums.sum(axis=0))

    @property
    def left_out(self) -> np.ndarray:
        """Sums without each base, shape (bases, scales, judges + 3)."""
        return np.asarray(self.whole - self.sums)

    def drawn(self, counts: np.ndarray) -> np.ndarray:
        """Return the sums when base g is taken ``counts[r, g]`` times, shape (resamples, scales, judges + 3)."""
        flat = counts @ self.sums.reshape(self.bases, -1)
        return np.asarray(flat.reshape(-1, *self.sums.shape[1:]))


def base_sums(values: np.ndarray, bases: Sequence[Hashable]) -> BaseSums:
    """Return what each base adds to the mean squares."""
    table = np.asarray(values, dtype=float)
    table = table[:, :, None] if table.ndim == 2 else table
    if table.ndim != 3 or len(table) != len(bases):
        shape = " x ".join(map(str, table.shape))
        raise InputError(
            f"mean squares: a table of {shape} and {len(bases)} bases; give targets x judges (x scales) and a base "
            "for each target"
        )
    if not np.isfinite(table).all():
        raise InputError("mean squares: a score is missing or infinite; leave such targets out first")
    codes, names = pd.factorize(pd.Series(list(bases), dtype="object"), use_na_sentinel=False)
    centred = table - table.mean(axis=(0, 1)) if table.size else table
    answers, judges, scales = centred.shape
    rows = np.concatenate(
        [
            np.ones((answers, 1, scales)),
            centred,
            (centred**2).sum(axis=1, keepdims=True),
            judges * centred.mean(axis=1, keepdims=True) ** 2,
        ],
        axis=1,
    )
    sums = np.zeros((len(names), judges + 3, scales))
    np.add.at(sums, codes, rows)
    return BaseSums(sums.transpose(0, 2, 1))


def forms_of_sums(sums: np.ndarray) -> np.ndarray:
    r"""Return the six intraclass correlations that sums over answers give, in the order of ``FORMS``.

    With n answers, k judges, judge sums :math:`C_j`, squares :math:`Q` and :math:`R = k \sum_i \bar x_i^2`, the sums
    of squares are :math:`R - (\sum C_j)^2 / kn` between answers,
    :math:`\sum C_j^2 / n - (\sum C_j)^2 / kn` between judges and :math:`Q - R` within answers.
    """
    k = sums.shape[-1] - 3
    n, columns, squares, rows = sums[..., 0], sums[..., 1 : k + 1], sums[..., k + 1], sums[..., k + 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        grand = columns.sum(axis=-1) ** 2 / (k * n)
        judges = (columns**2).sum(axis=-1) / n - grand
        between, within = rows - grand, squares - rows
        total = between + within
        between, judges, error = (
            np.where(part > ROUNDING * total, part, 0.0) for part in (between, judges, within - judges)
        )
        b, j, e = between / (n - 1), judges / (k - 1), error / ((n - 1) * (k - 1))
        w = (judges + error) / (n * (k - 1))
        floor = ROUNDING * np.maximum.reduce([b, w, j, e])
        forms = [
            np.where(bottom > floor, top / bottom, np.nan) for top, bottom in icc_fractions(b, w, j, e, n, k)
        ]
    return np.where((n > 1)[..., None], np.stack(forms, axis=-1), np.nan)


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

    Below .50 is poor, to .75 moderate, to .90 good, and excellent above.

    Examples
    --------
    >>> agreement_words(0.31, 0.68)
    'poor to moderate (Koo & Li 2016)'
    >>> agreement_words(0.92, 0.97)
    'excellent (Koo & Li 2016)'
    """
    first, last = _grade(low), _grade(high)
    return f"{first if first == last else f'{first} to {last}'} (Koo & Li 2016)"


def with_interval(result: Estimate, low: float, high: float) -> Estimate:
    """Return a result with its interval and the words for it, or without where the ends are no interval."""
    if result.estimate is None or not low <= result.estimate <= high or max(-low, high) == float("inf"):
        return replace(result, note="no interval: a variance estimate is not positive")
    return replace(result, low=low, high=high, note=agreement_words(low, high))


def _grade(value: float) -> str:
    return next((word for limit, word in _GRADES if value < limit), "excellent")
