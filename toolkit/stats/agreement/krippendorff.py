"""Krippendorff's alpha of scores: agreement beyond chance for any number of judges and any gaps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.agreement.icc import from_log_f, log_f
from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import all_and_without, numbered, sums_by, with_jackknife
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

NAME: Final = "Krippendorff's alpha (interval)"
METHOD: Final = "jackknife over bases, ln F scale"


def krippendorff_alpha(scores: ArrayLike, bases: Sequence[Hashable] | None = None) -> Estimate:
    r"""Return Krippendorff's alpha of ratings that may have gaps, for these judges taken as interchangeable.

    :math:`\alpha = 1 - D_o / D_e` with
    :math:`D_o = \frac1n \sum_u \frac{1}{m_u - 1} \sum_{i \ne j} (x_{ui} - x_{uj})^2` over the :math:`m_u` ratings
    of each answer and :math:`D_e = \frac{1}{n(n-1)} \sum_{c,k} n_c n_k (c - k)^2` over all n ratings of answers with
    two ratings or more.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's alpha-reliability, sections B to E.

    Examples
    --------
    >>> ratings = [[1, 1, None], [2, 2, 3], [3, 3, 3], [1, None, None], [4, 4, 4], [2, 3, 2]]
    >>> found = krippendorff_alpha(ratings)
    >>> round(found.estimate, 3), found.n["ratings"], found.missing
    (0.859, 14, 3)
    """
    x = np.array(scores, dtype=float)
    if x.ndim != 2 or (bases is not None and len(bases) != len(x)):
        raise InputError("Krippendorff's alpha: give answers x judges, and a base for each answer")
    if np.isinf(x).any():
        raise InputError("Krippendorff's alpha: a score is infinite; correct it or leave it empty")
    per_answer = np.isfinite(x).sum(axis=1)
    paired = x[per_answer > 1]
    labels = [base for base, many in zip(bases or range(len(x)), per_answer > 1, strict=True) if many]
    codes = numbered(labels)
    count = int(codes.max(initial=-1)) + 1
    n = {"answers": len(paired), "judges": x.shape[1], "ratings": int(np.isfinite(paired).sum())}
    n = n if bases is None else {"bases": count, **n}
    missing = int(np.isnan(x).sum())
    empty = Estimate(NAME, None, method=METHOD, n=n, missing=missing)
    if not len(paired):
        return empty.not_estimable("no answer has two ratings")
    size = float(np.nanmax(np.abs(paired)))
    if np.nanmax(paired) - np.nanmin(paired) <= ROUNDING * size:
        return empty.not_estimable("every score is the same, so chance agreement is perfect")
    sums = _sums(paired / size, codes)
    whole, without = all_and_without(sums)
    alpha = float(_alpha(whole)[0])
    single = int((per_answer == 1).sum())
    note = f"{counted(single, 'answers')} with a single rating left out" if single else ""
    found = replace(empty, estimate=alpha, note=note)
    if alpha >= 1 - ROUNDING:
        return replace(found, estimate=1.0).no_interval("the judges agree on all")
    k = n["ratings"] / len(paired)
    return with_jackknife(found, _alpha(without), lambda a: log_f(a, k), lambda z: from_log_f(z, k)[0])


def alpha_of_matrix(matrix: RatingMatrix) -> Estimate:
    """Return Krippendorff's alpha of one dimension, from all its ratings and clustered by base where known."""
    if matrix.pairs.empty:
        n = {"answers": len(matrix.values), "judges": len(matrix.judges)}
        return Estimate(NAME, None, method=METHOD, n=n).not_estimable(matrix.problem or "there is no rating")
    bases = None if matrix.pair_bases is None else list(matrix.pair_bases)
    return replace(krippendorff_alpha(matrix.pairs.to_numpy(dtype=float), bases), missing=matrix.missing)


def _sums(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return per base: observed disagreement, ratings, their sum and their sum of squares."""
    given = np.isfinite(x)
    m, z = given.sum(axis=1), np.where(given, x - np.unique(x[given]).mean(), 0.0)
    total, squares = z.sum(axis=1), (z**2).sum(axis=1)
    observed = 2 * (m * squares - total**2) / (m - 1)
    return sums_by(codes, np.column_stack([observed, m, total, squares]))


def _alpha(sums: np.ndarray) -> np.ndarray:
    observed, n, total, squares = sums.T
    expected = 2 * (n * squares - total**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > ROUNDING * n**2, 1 - (n - 1) * observed / expected, np.nan)
