"""Weighted kappa: agreement of two judges on an ordered scale, where a near miss counts as a part of agreement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import Weights, with_jackknife
from toolkit.stats.kappa import COHEN_METHOD, kappa_of_table, on_fisher_scale
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

CLUSTERED: Final = "jackknife over bases, Fisher z scale"
_MOST_VALUES: Final = 200


def weighted_kappa(
    first: ArrayLike,
    second: ArrayLike,
    weights: Literal["linear", "quadratic"] = "quadratic",
    bases: Sequence[Hashable] | None = None,
    *,
    name: str = "",
    confidence: float = 0.95,
) -> Estimate:
    r"""Return Cohen's weighted kappa of two judges who scored the same answers.

    :math:`\kappa_w = 1 - \sum v_{ij} p_{ij} / \sum v_{ij} p_{i+} p_{+j}` with the disagreement
    :math:`v_{ij} = |x_i - x_j|` (linear) or :math:`(x_i - x_j)^2` (quadratic) between the scores themselves, so that
    half steps and scores nobody used need no list of categories. With the large-sample standard error of Fleiss,
    Cohen & Everitt (1969) on Fisher's z scale the answers are independent; with bases the interval is the jackknife
    over bases. Quadratic weights give nearly ICC(A,1) of two judges.

    In 300 simulated studies each of half-step scores with 12 to 100 bases the jackknife covers 93-97 %, and 88-97 %
    with nearly half of the scores at the ceiling. The formula covers 93-96 % with 100 independent answers but 73-90 %
    with 12 of them: where there are few, give bases, ``range(n)`` for answers that stand alone.

    References
    ----------
    Cohen (1968), Psychological Bulletin 70, 213-220. Fleiss, Cohen & Everitt (1969), Psychological Bulletin 72,
    323-327. Fleiss & Cohen (1973), Educational and Psychological Measurement 33, 613-619, for the ICC.

    Examples
    --------
    >>> found = weighted_kappa([1, 2, 2.5, 4, 5, 3], [1, 2.5, 2.5, 4.5, 4.5, None])
    >>> round(found.estimate, 3), found.missing
    (0.961, 1)
    """
    x, y = np.array(first, dtype=float), np.array(second, dtype=float)
    name = name or f"weighted kappa ({weights})"
    if weights not in ("linear", "quadratic"):
        raise InputError(f"{name}: weights {weights!r} are unknown; choose linear or quadratic")
    if x.shape != y.shape or x.ndim != 1 or (bases is not None and len(bases) != len(x)):
        raise InputError(
            f"{name}: give two scores for each answer, and a base for each where bases are known"
        )
    if np.isinf(x).any() or np.isinf(y).any():
        raise InputError(f"{name}: a score is infinite; correct it or leave it empty")
    both = ~(np.isnan(x) | np.isnan(y))
    missing, x, y = int((~both).sum()), x[both], y[both]
    labels = (
        range(len(x)) if bases is None else [base for base, keep in zip(bases, both, strict=True) if keep]
    )
    codes = pd.factorize(pd.Series(list(labels), dtype="object"), use_na_sentinel=False)[0]
    count = int(codes.max()) + 1 if len(codes) else 0
    n = {"answers": len(x), "judges": 2}
    method = COHEN_METHOD if bases is None else CLUSTERED
    n = n if bases is None else {"bases": count, **n}
    empty = Estimate(name, None, method=method, n=n, missing=missing, confidence=confidence)
    if len(x) < 2:
        return replace(
            empty, note=f"not estimable: {counted(len(x), 'answers')} scored by both, and two are needed"
        )
    size = float(max(np.abs(x).max(), np.abs(y).max()))
    for place, side in enumerate((x, y)):
        if np.ptp(side) <= ROUNDING * size:
            return replace(empty, note=f"not estimable: the {('first', 'second')[place]} gave one score only")
    x, y = x / size, y / size
    statistic = _statistic(x, y, codes, 1 if weights == "linear" else 2)
    kappa = float(statistic(np.ones((1, count)))[0])
    if kappa >= 1 - ROUNDING:
        return replace(empty, estimate=1.0, note="no interval: they agree on all answers")
    if bases is not None:
        return with_jackknife(replace(empty, estimate=kappa), statistic, count, np.arctanh, np.tanh)
    values, places = np.unique(np.concatenate([x, y]), return_inverse=True)
    if len(values) > _MOST_VALUES:
        why = f"no interval: {len(values)} unlike scores are too many for a table; give the bases"
        return replace(empty, estimate=kappa, note=why)
    table = np.zeros((len(values), len(values)))
    np.add.at(table, (places[: len(x)], places[len(x) :]), 1.0)
    distance = np.abs(values[:, None] - values[None, :]) ** (1 if weights == "linear" else 2)
    kappa, error, _ = kappa_of_table(table, 1 - distance / distance.max())
    quantile = float(special.ndtri((1 + confidence) / 2))
    return on_fisher_scale(name, kappa, error, quantile, method, dict(n), missing, confidence)


def weighted_kappa_between_judges(
    matrix: RatingMatrix, weights: Literal["linear", "quadratic"] = "quadratic"
) -> tuple[Estimate, ...]:
    """Return weighted kappa of each pair of judges, clustered by base (by answer where no base is known)."""
    found = []
    for first, second in combinations(matrix.pairs.columns, 2):
        bases = range(len(matrix.pairs)) if matrix.pair_bases is None else list(matrix.pair_bases)
        one = weighted_kappa(
            matrix.pairs[first],
            matrix.pairs[second],
            weights,
            bases,
            name=f"weighted kappa({first}, {second})",
        )
        found.append(one)
    return tuple(found)


def _statistic(
    x: np.ndarray, y: np.ndarray, codes: np.ndarray, power: int
) -> Callable[[Weights], np.ndarray]:
    """Return kappa as a function of how often each base counts."""
    if power == 2:  # a sum of squares, which needs no table of bases x distinct scores
        x, y = x - x.mean(), y - x.mean()
        parts = np.stack([np.ones(len(x)), x, y, x * x + y * y, (x - y) ** 2], axis=1)
        sums = np.zeros((codes.max() + 1, parts.shape[1]))
        np.add.at(sums, codes, parts)

        def quadratic(weights: Weights) -> np.ndarray:
            n, one, other, squares, observed = (weights @ sums).T
            expected = n * squares - 2 * one * other
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(expected > ROUNDING * n**2, 1 - n * observed / expected, np.nan)

        return quadratic
    values, places = np.unique(np.concatenate([x, y]), return_inverse=True)
    count = codes.max() + 1
    observed = np.bincount(codes, np.abs(x - y), minlength=count)
    rows, columns = np.zeros((2, count, len(values)))
    np.add.at(rows, (codes, places[: len(x)]), 1.0)
    np.add.at(columns, (codes, places[len(x) :]), 1.0)
    distance = np.abs(values[:, None] - values[None, :])

    def kappa(weights: Weights) -> np.ndarray:
        one, other = weights @ rows, weights @ columns
        expected = ((one @ distance) * other).sum(axis=1)
        n = one.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(expected > ROUNDING * n**2, 1 - n * (weights @ observed) / expected, np.nan)

    return kappa
