"""The mean squares of a two-way table without replication, and the six intraclass correlations they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from toolkit.stats.rating_matrix import NEGLIGIBLE

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
    floor = NEGLIGIBLE * max(ms.between, ms.within, ms.judges, ms.error)
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
    return part if part > NEGLIGIBLE * total else 0.0
