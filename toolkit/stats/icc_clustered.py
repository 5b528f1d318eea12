"""Intervals of the intraclass correlations when several answers share a base: the jackknife over bases."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
from scipy import stats

from toolkit.stats.icc import with_interval
from toolkit.stats.mean_squares import icc_from_mean_squares, mean_squares
from toolkit.stats.rating_matrix import RatingMatrix
from toolkit.stats.result import Estimate

CLUSTERED_METHOD: Final = "jackknife over bases, Student t on the log F scale, for these judges"
_FEWEST_BASES: Final = 3
_WIDEST: Final = 300.0
"""Half a width of ln F beyond which the interval says nothing and its ends overflow."""


def clustered_icc(matrix: RatingMatrix, independent: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    r"""Return the six intraclass correlations with intervals that allow for answers of one base being alike.

    Each base is left out in turn. With :math:`F = (1 + (k-1)\rho) / (1 - \rho)` for the single form
    :math:`\rho`, the interval is :math:`\ln F \pm t_{G-1}\, s`, where s is the jackknife standard error over
    the G bases, carried back to the single and the average form (Spearman-Brown). In simulations of 12 bases
    of three answers by three judges it covered 90-95 %, where the percentile bootstrap over bases covered
    80-91 % and the F interval as little as 81.5 %. It holds for these judges: unlike the F interval of
    ICC(A,.), it does not draw new ones.

    Parameters
    ----------
    matrix
        Complete ratings with the base of each target.
    independent
        The six results of ``icc_estimates`` for the same table.

    Returns
    -------
    tuple of Estimate
        The same estimates with clustered intervals; empty where no base is known or none has several answers.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11. McGraw & Wong (1996).
    """
    if matrix.problem or matrix.bases is None or max(Counter(matrix.bases).values()) < 2:
        return ()
    ends = _intervals(matrix)
    results = []
    for result in independent:
        clustered = replace(result, method=CLUSTERED_METHOD, low=None, high=None)
        if not result.estimable:
            results.append(clustered)
        elif ends.get(result.name) is None:
            reason = f"leaving out one of {matrix.n['bases']} bases at a time gives no usable spread"
            results.append(replace(clustered, note=f"no interval: {reason}"))
        else:
            results.append(with_interval(clustered, *ends[result.name]))
    return tuple(results)


def _intervals(matrix: RatingMatrix) -> dict[str, tuple[float, float]]:
    bases = np.array([str(base) for base in matrix.bases or ()])
    names = np.unique(bases)
    k = matrix.values.shape[1]
    left_out = [matrix.values[bases != name] for name in names]
    if len(names) < _FEWEST_BASES or min(len(values) for values in left_out) < 2:
        return {}
    whole = icc_from_mean_squares(mean_squares(matrix.values))
    partial = [icc_from_mean_squares(mean_squares(values)) for values in left_out]
    quantile = float(stats.t.ppf(0.975, len(names) - 1))
    ends = {}
    for kind in "1AC":
        single = f"ICC({kind},1)"
        centre = _log_f(whole[single], k)
        replicates = [_log_f(entry[single], k) for entry in partial]
        if centre is None or None in replicates:
            continue
        z = np.array(replicates, dtype=float)
        error = math.sqrt((len(z) - 1) / len(z) * float(((z - z.mean()) ** 2).sum()))
        half = quantile * error
        if not 0 < half < _WIDEST:
            continue
        f_low, f_high = math.exp(centre - half), math.exp(centre + half)
        ends[single] = ((f_low - 1) / (f_low + k - 1), (f_high - 1) / (f_high + k - 1))
        ends[f"ICC({kind},k)"] = (1 - 1 / f_low, 1 - 1 / f_high)
    return ends


def _log_f(icc: float | None, k: int) -> float | None:
    """Return ln F for a single form, or None where F is not a positive number."""
    if icc is None or not -1 / (k - 1) < icc < 1:
        return None
    return math.log((1 + (k - 1) * icc) / (1 - icc))
