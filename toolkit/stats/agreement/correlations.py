"""Pearson, Spearman and Kendall correlations between each pair of judges, clustered by base where bases are known."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.stats.agreement.ratings import RatingMatrix, pairs_of_judges, scored_by_both
from toolkit.stats.inference.jackknife import all_and_without, numbered, sums_by, with_jackknife
from toolkit.stats.inference.means import refuse_unpaired
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

FISHER: Final = "Fisher z, answers independent"
JACKKNIFE: Final = "jackknife over bases, Fisher z scale"
SYMBOLS: Final = {"pearson": "r", "spearman": "rho", "kendall": "tau"}
_Sums = tuple[np.ndarray, np.ndarray, np.ndarray]
_CELLS: Final = 4_000_000
"""Numbers of a block of signs, so that memory does not grow with the square of the answers."""


def pearson_between_judges(matrix: RatingMatrix) -> tuple[Estimate, ...]:
    """Return Pearson's r for each pair of judges, over the answers that both of them scored.

    A correlation ignores how mild or harsh a judge is, and how far it spreads its scores; agreement is what
    ICC(A,.) measures. The interval is the jackknife over bases, or Fisher's where no base is known.
    """
    return _pair_estimates(matrix, ("pearson",))


def ranks_between_judges(matrix: RatingMatrix) -> tuple[Estimate, ...]:
    r"""Return Spearman's rho and Kendall's tau-b for each pair of judges.

    Both look at the order of the answers only. Spearman's rho is Pearson's r of the mid-ranks; Kendall's
    :math:`\tau_b = \sum_{i<j} s_{ij} t_{ij} / \sqrt{\sum s_{ij}^2 \sum t_{ij}^2}` counts pairs of answers that the two
    judges put in the same order, :math:`s` and :math:`t` being the signs of the differences, so that ties count for
    neither. The interval is the jackknife over bases, or over answers where no base is known, because half-step
    scores are full of ties, for which the usual formulas are not made.

    References
    ----------
    Kendall (1945), Biometrika 33, 239-251, for ties. Efron & Tibshirani (1993), chapter 11.
    """
    return _pair_estimates(matrix, ("spearman", "kendall"))


def clustered_pearson(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    missing: int = 0,
) -> Estimate:
    """Return Pearson's r of two sides with the same jackknife over bases as between judges."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    refuse_unpaired(f"correlation {name}", a, b, clusters)
    empty = Estimate(name, None, n={"answers": len(a)}, missing=missing)
    return _pair_estimate(empty, np.column_stack([a, b]), None, "pearson", clusters)


def correlation(
    x: np.ndarray, y: np.ndarray, kind: str, bases: Sequence[Hashable]
) -> tuple[float | None, np.ndarray]:
    """Return a correlation and its values without each base; None and NaN where a side does not vary."""
    sums = {"pearson": _pearson_sums, "spearman": _spearman_sums, "kendall": _kendall_sums}[kind]
    parts = sums(x, y, numbered(bases))
    with np.errstate(divide="ignore", invalid="ignore"):
        xy, xx, yy = parts
        flat = np.minimum(xx, yy) <= ROUNDING * max(float(xx[0]), float(yy[0]))
        r = np.where(flat, np.nan, np.clip(xy / np.sqrt(xx * yy), -1, 1))
    return (float(r[0]) if np.isfinite(r[0]) else None), r[1:]


def _pearson_sums(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> _Sums:
    """Return sums of products about the means: of all answers, then without each base."""
    x, y = x - x.mean(), y - y.mean()
    sums = sums_by(codes, np.stack([np.ones(len(x)), x, y, x * y, x * x, y * y], axis=1))
    n, sx, sy, xy, xx, yy = np.vstack(all_and_without(sums)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return xy - sx * sy / n, xx - sx * sx / n, yy - sy * sy / n


def _spearman_sums(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> _Sums:
    """Return sums of products of centred mid-ranks; without a base the ranks are those of the other answers.

    The centred mid-rank of answer i is half the sum of sign(x_i - x_j) over j, so leaving a base out subtracts its
    part.
    """
    bases = codes.max() + 1
    cells, cell, weight = _cells(x, y)
    a, b = (_signs(values, weight)[:, None] / 2 for values in cells)
    sums = [np.array([weight @ products for products in (a * b, a * a, b * b)])]
    block = max(1, _CELLS // len(weight))
    for start in range(0, bases, block):
        mine = (codes >= start) & (codes < start + block)
        counts = np.zeros((len(weight), min(block, bases - start)))
        np.add.at(counts, (cell[mine], codes[mine] - start), 1.0)
        s, t = (rank - _signs(values, counts) / 2 for rank, values in zip((a, b), cells, strict=True))
        remaining = weight[:, None] - counts
        sums.append(np.stack([(remaining * products).sum(axis=0) for products in (s * t, s * s, t * t)]))
    xy, xx, yy = np.hstack(sums)
    return xy, xx, yy


def _kendall_sums(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> _Sums:
    """Return sums of products of signs over ordered pairs of answers: of all answers, then without each base.

    A pair is lost with either of its answers, so a base takes away twice what its answers have with all, less what they
    have among themselves.
    """
    count = codes.max() + 1
    with_all, among = np.zeros((3, count)), np.zeros((3, count))
    (a, b), cell, weight = _cells(x, y)
    block = max(1, _CELLS // len(weight))
    for start in range(0, len(weight), block):
        rows = slice(start, start + block)
        products = _sign_products(a[rows], b[rows], a, b, weight)
        mine = (cell >= start) & (cell < start + block)
        np.add.at(with_all.T, codes[mine], products.T[cell[mine] - start])
    for own in np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1]):
        if len(own) > 1:
            (a, b), _, times = _cells(x[own], y[own])
            among[:, codes[own[0]]] = _sign_products(a, b, a, b, times) @ times
    total = with_all.sum(axis=1)[:, None]
    xy, xx, yy = np.hstack([total, total - 2 * with_all + among])
    return xy, xx, yy


def _cells(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct pairs of scores, 2 x cells, the cell of each answer, and how many answers each cell has.

    Scores of a scale have few distinct pairs, however many answers there are.
    """
    cells, cell, weight = np.unique(np.stack([x, y]), axis=1, return_inverse=True, return_counts=True)
    return cells, cell.ravel(), weight.astype(float)


def _sign_products(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return for each pair (a, b) the weighted sums over (x, y) of st, ss and tt, the signs of the differences."""
    s, t = np.sign(a[:, None] - x), np.sign(b[:, None] - y)
    return np.stack([(one * other) @ weight for one, other in ((s, t), (s, s), (t, t))])


def _signs(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sum of sign(value_i - value_j) over j, each counted as often as its weight (or column of weights)."""
    distinct, ranks = np.unique(values, return_inverse=True)
    counts = np.zeros((len(distinct), *weights.shape[1:]))
    np.add.at(counts, ranks, weights)
    up_to = np.cumsum(counts, axis=0)
    # Those below less those above.
    return np.asarray((2 * up_to - counts - up_to[-1])[ranks])


def _pair_estimates(matrix: RatingMatrix, kinds: tuple[str, ...]) -> tuple[Estimate, ...]:
    if matrix.pairs.empty:
        n = {"answers": len(matrix.values), "judges": 2}
        return tuple(
            _named(kind, pair, n).not_estimable(matrix.problem)
            for pair in combinations(matrix.judges, 2)
            for kind in kinds
        )
    results = []
    for judges, x, y, bases in pairs_of_judges(matrix):
        first, second, labels, missing = scored_by_both("correlation", x, y, bases)
        scores, n = np.column_stack([first, second]), {"answers": len(first), "judges": 2}
        for kind in kinds:
            empty = replace(_named(kind, judges, n), method="", missing=missing)
            results.append(_pair_estimate(empty, scores, judges, kind, None if bases is None else labels))
    return tuple(results)


def _named(kind: str, judges: tuple[str, str], n: dict[str, int]) -> Estimate:
    facets = dict(zip(("judge", "other_judge"), judges, strict=True))
    return Estimate(f"{SYMBOLS[kind]}({', '.join(judges)})", None, method=FISHER, n=n, facets=facets)


def _pair_estimate(
    empty: Estimate,
    scores: np.ndarray,
    judges: tuple[str, str] | None,
    kind: str,
    bases: Sequence[Hashable] | None,
) -> Estimate:
    answers = len(scores)
    independent = kind == "pearson" and bases is None
    empty = replace(empty, method=FISHER if independent else JACKKNIFE)
    if bases is not None:
        empty = replace(empty, n={"bases": len(set(bases)), **empty.n})
    if answers < 3:
        scored = " scored by both" if judges else ""
        return empty.not_estimable(f"{counted(answers, 'answers')}{scored}, and three are needed")
    spreads = np.ptp(scores, axis=0)
    if spreads.min() <= ROUNDING:
        if judges is None:
            return empty.not_estimable("one of the two sides does not vary")
        constant = judges[int(spreads.argmin())]
        return empty.not_estimable(f"judge {constant} gave the same score to every answer")
    x, y = ((scores - scores.mean(axis=0)) / spreads).T
    r, without = correlation(x, y, kind, range(answers) if bases is None else bases)
    if r is None:
        return empty.not_estimable("the scores of a judge do not vary")
    if abs(r) >= 1 - ROUNDING:
        order = "are in the same order, or in the opposite one"
        line = "lie on a straight line" if kind == "pearson" else order
        return replace(empty, estimate=math.copysign(1.0, r)).no_interval(f"the scores {line}")
    estimate = replace(empty, estimate=r)
    if independent:
        if answers < 4:
            return estimate.no_interval("Fisher's z needs four answers")
        half = float(special.ndtri((1 + empty.confidence) / 2)) / math.sqrt(answers - 3)
        return replace(estimate, low=math.tanh(math.atanh(r) - half), high=math.tanh(math.atanh(r) + half))
    unit_word = "answers" if bases is None else "bases"
    reason = "one base alone makes or unmakes the correlation"
    return with_jackknife(estimate, without, np.arctanh, np.tanh, what=unit_word, useless=reason)
