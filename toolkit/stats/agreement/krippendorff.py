"""Krippendorff's alpha: agreement beyond chance for any number of judges, any gaps, and four levels of measurement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.agreement.icc_forms import from_log_f, log_f
from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import Weights, numbered, sums_by, with_jackknife
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

Level = Literal["nominal", "ordinal", "interval", "ratio"]
METHOD: Final = "jackknife over bases, ln F scale"


def krippendorff_alpha(
    scores: ArrayLike,
    bases: Sequence[Hashable] | None = None,
    level: Level = "interval",
    *,
    confidence: float = 0.95,
) -> Estimate:
    r"""Return Krippendorff's alpha of ratings that may have gaps, for these judges taken as interchangeable.

    :math:`\alpha = 1 - D_o / D_e` with
    :math:`D_o = \frac1n \sum_u \frac{1}{m_u - 1} \sum_{i \ne j} \delta(x_{ui}, x_{uj})` over the :math:`m_u` ratings
    of each answer and :math:`D_e = \frac{1}{n(n-1)} \sum_{c,k} n_c n_k \delta(c, k)` over all n ratings of answers with
    two ratings or more. :math:`\delta` is 1 for two unlike values (nominal), the squared difference (interval), that
    of the mid-ranks (ordinal), or :math:`((c-k)/(c+k))^2` (ratio).

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's alpha-reliability, sections B to E.

    Examples
    --------
    >>> ratings = [[1, 1, None], [2, 2, 3], [3, 3, 3], [1, None, None], [4, 4, 4], [2, 3, 2]]
    >>> found = krippendorff_alpha(ratings, level="nominal")
    >>> round(found.estimate, 3), found.n["ratings"], found.missing
    (0.634, 14, 3)
    """
    x = np.array(scores, dtype=float)
    if level not in get_args(Level):
        raise InputError(
            f"Krippendorff's alpha: level {level!r} is unknown; choose {', '.join(get_args(Level))}"
        )
    if x.ndim != 2 or (bases is not None and len(bases) != len(x)):
        raise InputError("Krippendorff's alpha: give answers x judges, and a base for each answer")
    if np.isinf(x).any():
        raise InputError("Krippendorff's alpha: a score is infinite; correct it or leave it empty")
    if level == "ratio" and (x < 0).any():
        raise InputError("Krippendorff's alpha: the ratio level needs scores of 0 or more; choose interval")
    per_answer = np.isfinite(x).sum(axis=1)
    paired = x[per_answer > 1]
    labels = [base for base, many in zip(bases or range(len(x)), per_answer > 1, strict=True) if many]
    codes = numbered(labels)
    count = int(codes.max()) + 1 if len(codes) else 0
    n = {"answers": len(paired), "judges": x.shape[1], "ratings": int(np.isfinite(paired).sum())}
    name = f"Krippendorff's alpha ({level})"
    missing = int(x.size - np.isfinite(x).sum())
    n = n if bases is None else {"bases": count, **n}
    empty = Estimate(name, None, method=METHOD, n=n, missing=missing, confidence=confidence)
    if not len(paired):
        return empty.not_estimable("no answer has two ratings")
    size = float(np.nanmax(np.abs(paired)))
    if np.nanmax(paired) - np.nanmin(paired) <= ROUNDING * size:
        return empty.not_estimable("every score is the same, so chance agreement is perfect")
    statistic = _statistic(paired / size, codes, level)
    alpha = float(statistic(np.ones((1, count)))[0])
    single = int((per_answer == 1).sum())
    note = f"{counted(single, 'answers')} with a single rating left out" if single else ""
    found = replace(empty, estimate=alpha, note=note)
    if alpha >= 1 - ROUNDING:
        return replace(found, estimate=1.0).no_interval("the judges agree on all")
    k = n["ratings"] / len(paired)
    return with_jackknife(
        found, statistic, count, lambda a: log_f(a, k), lambda z: from_log_f(np.asarray(z), k)[0]
    )


def alpha_of_matrix(matrix: RatingMatrix, level: Level = "interval") -> Estimate:
    """Return Krippendorff's alpha of one dimension, from all its ratings and clustered by base where known."""
    if matrix.pairs.empty:
        n = {"answers": len(matrix.values), "judges": len(matrix.judges)}
        empty = Estimate(f"Krippendorff's alpha ({level})", None, method=METHOD, n=n)
        return empty.not_estimable(matrix.problem or "there is no rating")
    bases = None if matrix.pair_bases is None else list(matrix.pair_bases)
    found = krippendorff_alpha(matrix.pairs.to_numpy(dtype=float), bases, level)
    return replace(found, missing=matrix.missing)


def _statistic(x: np.ndarray, codes: np.ndarray, level: Level) -> Callable[[Weights], np.ndarray]:
    """Return alpha as a function of how often each base counts."""
    given = np.isfinite(x)
    values, places = np.unique(x[given], return_inverse=True)
    place = np.zeros(x.shape, dtype=int)
    place[given] = places
    ratings, of = given.sum(axis=1), np.broadcast_to(codes[:, None], x.shape)[given]

    def by_base(measure: np.ndarray, distance: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the observed disagreement of each base; ``measure`` gives the size of each distinct value."""
        sizes = np.where(given, measure[place], 0.0)
        found = np.zeros(len(x))
        for first in range(x.shape[1]):
            for second in range(first):
                both = given[:, first] & given[:, second]
                found += 2 * np.where(both, distance(sizes[:, first], sizes[:, second]), 0.0)
        return np.bincount(codes, found / (ratings - 1), minlength=codes.max() + 1)

    def alpha(observed: np.ndarray, expected: np.ndarray, n: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            floor = ROUNDING * n**2 * (1.0 if level != "ordinal" else n**2)
            return np.where(expected > floor, 1 - (n - 1) * observed / expected, np.nan)

    if level == "interval":  # sums of squares, which need no table of bases x distinct scores
        own, sizes = by_base(values, _squared), (values - values.mean())[places]
        sums = sums_by(of, np.stack([np.ones(len(sizes)), sizes, sizes**2], axis=1))

        def interval(weights: Weights) -> np.ndarray:
            n, total, squares = (weights @ sums).T
            return alpha(weights @ own, 2 * (n * squares - total**2), n)

        return interval
    counts = np.zeros((codes.max() + 1, len(values)))
    np.add.at(counts, (of, places), 1.0)

    def ordinal(weights: Weights) -> np.ndarray:
        drawn = weights @ counts
        found = []
        for row, total in zip(weights, drawn, strict=True):
            ranks = np.cumsum(total) - total / 2  # mid-ranks depend on which bases were drawn
            expected = 2 * (total.sum() * (total @ ranks**2) - (total @ ranks) ** 2)
            found.append(alpha(row @ by_base(ranks, _squared), expected, total.sum()))
        return np.array(found)

    if level == "ordinal":
        return ordinal
    own = by_base(values, _unlike if level == "nominal" else _relative)

    def fixed(weights: Weights) -> np.ndarray:
        drawn = weights @ counts
        n = drawn.sum(axis=1)
        if level == "nominal":
            expected = n**2 - (drawn**2).sum(axis=1)
        else:
            expected = ((drawn @ _relative(values[:, None], values[None, :])) * drawn).sum(axis=1)
        return alpha(weights @ own, expected, n)

    return fixed


def _unlike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a != b).astype(float)


def _squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a - b) ** 2


def _relative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = a + b
    return np.where(total > 0, (a - b) / np.where(total > 0, total, 1.0), 0.0) ** 2
