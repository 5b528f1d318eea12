"""Least squares with standard errors that allow for answers of one base being alike, made for few bases (CR2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

CR2_METHOD: Final = "least squares, CR2 clustered by base, Satterthwaite degrees of freedom"
_RANK: Final = 1e-9
"""Directions of the design below this share of the largest are not there."""


@dataclass(frozen=True)
class Coefficient:
    """One linear combination of regression coefficients."""

    estimate: float | None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    degrees: float | None = None
    reason: str = ""

    def of(self, empty: Estimate) -> Estimate:
        """Return the estimate that this coefficient gives."""
        names = ("estimate", "low", "high", "p_value", "degrees")
        return replace(empty, **{name: getattr(self, name) for name in names}, note=self.reason)


def cluster_robust(
    design: ArrayLike,
    outcome: ArrayLike,
    clusters: Sequence[Hashable] | np.ndarray,
    contrasts: Mapping[str, ArrayLike],
    confidence: float = 0.95,
) -> dict[str, Coefficient]:
    r"""Fit least squares and return combinations of its coefficients with cluster-robust intervals.

    With hat matrix H and residuals e, the variance of :math:`c' \hat\beta` is
    :math:`\sum_g (w_g' A_g e_g)^2`, :math:`w = X (X'X)^{-1} c` and :math:`A_g = (I - H_{gg})^{-1/2}`, the symmetric
    pseudo-inverse root (CR2): unbiased where the errors are independent and alike. Student t has
    :math:`(\operatorname{tr} B)^2 / \operatorname{tr} B^2` degrees of freedom with
    :math:`B_{gh} = w_g' A_g (I - H)_{gh} A_h w_h` (Bell & McCaffrey).

    References
    ----------
    Bell & McCaffrey (2002), Survey Methodology 28, 169-181. Pustejovsky & Tipton (2018), Journal of Business &
    Economic Statistics 36, 672-683.

    Examples
    --------
    >>> x, y = [1.0, 2, 3, 4, 5, 6], [1.0, 2.2, 2.8, 4.3, 4.9, 6.1]
    >>> found = cluster_robust(np.column_stack([np.ones(6), x]), y, "aabbcc", {"slope": [0, 1]})["slope"]
    >>> round(found.estimate, 3), round(found.degrees, 2)
    (1.003, 1.24)
    """
    x, y = np.asarray(design, dtype=float), np.asarray(outcome, dtype=float)
    if x.ndim != 2 or not len(x) == len(y) == len(clusters):
        raise InputError(f"regression: {len(x)} rows, {len(y)} values, {len(clusters)} bases; give as many")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("regression: a value is missing or infinite; leave such answers out first")
    if not len(y):
        return dict.fromkeys(contrasts, Coefficient(None, reason="not estimable: no answers"))
    # Columns of one size, so that rank does not depend on whether length is in tokens or in thousands of them.
    scale = np.abs(x).max(axis=0)
    scale[scale == 0] = 1.0
    left, sizes, right = np.linalg.svd(x / scale, full_matrices=False)
    kept = sizes > _RANK * sizes.max(initial=0.0)
    q, inverse = left[:, kept], right[kept].T / sizes[kept]
    residuals = y - q @ (q.T @ y)
    codes, _ = pd.factorize(np.asarray(list(clusters), dtype=object))
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    roots = [_root(q[rows]) for rows in groups]
    size = float(np.abs(y).max())
    found = {}
    for name, weights in contrasts.items():
        c = np.asarray(weights, dtype=float) / scale
        if np.abs(right[kept].T @ (right[kept] @ c) - c).max() > math.sqrt(_RANK) * np.abs(c).max():
            found[name] = Coefficient(None, reason="not estimable: the answers do not determine it")
            continue
        w = q @ (inverse.T @ c)
        found[name] = _coefficient(w, y, residuals, q, groups, roots, size, confidence)
    return found


def _coefficient(
    w: np.ndarray,
    y: np.ndarray,
    residuals: np.ndarray,
    q: np.ndarray,
    groups: list[np.ndarray],
    roots: list[tuple[np.ndarray, np.ndarray]],
    size: float,
    confidence: float,
) -> Coefficient:
    estimate = float(w @ y)
    if len(groups) < 2:
        return Coefficient(estimate, reason=f"no interval: {len(groups)} base, and two are needed")
    adjusted = [
        w[rows] + left @ (more * (left.T @ w[rows])) for (left, more), rows in zip(roots, groups, strict=True)
    ]
    error = math.sqrt(sum(float(a @ residuals[rows]) ** 2 for a, rows in zip(adjusted, groups, strict=True)))
    if error <= ROUNDING * size * float(np.abs(w).sum()):
        return Coefficient(estimate, reason="no interval: the answers lie on the fitted line")
    loadings = np.array([q[rows].T @ a for a, rows in zip(adjusted, groups, strict=True)])
    # B is the diagonal of these less the products of the loadings; the traces need no matrix of bases x bases.
    own, shared = np.array([float(a @ a) for a in adjusted]), (loadings**2).sum(axis=1)
    squared = float((own**2 - 2 * own * shared).sum() + ((loadings.T @ loadings) ** 2).sum())
    degrees = float((own - shared).sum()) ** 2 / squared
    half = float(special.stdtrit(degrees, (1 + confidence) / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(estimate) / error))
    return Coefficient(estimate, error, estimate - half, estimate + half, p_value, degrees)


def _root(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return directions and what the symmetric pseudo-inverse root of I - H adds to the identity along each.

    Of the rows of one cluster; there are no more directions than columns, however many rows.
    """
    left, sizes, _ = np.linalg.svd(q, full_matrices=False)
    rest = 1 - sizes**2
    kept = rest > _RANK
    return left, np.where(kept, 1 / np.sqrt(np.where(kept, rest, 1.0)), 0.0) - 1


def clustered_slope(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    unit: str = "none",
    missing: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Return the slope of y on x by least squares, with a CR2 error clustered by base (`cluster_robust`).

    Where x is 0 or 1 the slope is the difference of two means.

    References
    ----------
    Bell & McCaffrey (2002), Survey Methodology 28, 169-181.

    Examples
    --------
    >>> found = clustered_slope("slope", [1, 2, 3, 4], [1.0, 2.1, 2.9, 4.2], "aabb")
    >>> round(found.estimate, 2), found.n
    (1.04, {'answers': 4, 'bases': 2})
    """
    one, other = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not len(one) == len(other) == len(clusters):
        raise InputError(
            f"slope {name}: {len(one)}, {len(other)} values and {len(clusters)} bases; give as many"
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise InputError(f"slope {name}: a value is missing or infinite; leave such answers out first")
    bases = len(set(clusters))
    empty = Estimate(
        name, None, None, None, CR2_METHOD, unit, {"answers": len(one), "bases": bases}, missing, confidence
    )
    if len(one) < 3:
        return replace(empty, note=f"not estimable: {counted(len(one), 'answers')}, and three are needed")
    z = one - one.mean()
    if float(z @ z) <= (ROUNDING * float(np.abs(one).max())) ** 2 * len(one):
        return replace(empty, note="not estimable: what the slope is on does not vary")
    design = np.column_stack([np.ones(len(z)), z])
    found = cluster_robust(design, other, clusters, {"slope": [0.0, 1.0]}, confidence)["slope"]
    return found.of(empty)
