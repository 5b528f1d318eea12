"""Pearson correlation between each pair of judges, with the interval of Fisher's z."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Final

import numpy as np
from scipy import stats

from toolkit.stats.rating_matrix import NEGLIGIBLE, RatingMatrix
from toolkit.stats.result import Estimate

FISHER: Final = "Fisher z, answers independent"


def pearson_between_judges(matrix: RatingMatrix) -> tuple[Estimate, ...]:
    """Return Pearson's r for each pair of judges, over the answers that both of them scored.

    A correlation ignores how mild or harsh a judge is, and how far it spreads its scores; agreement is what
    ICC(A,.) measures.

    Parameters
    ----------
    matrix
        Ratings of one dimension; ``matrix.pairs`` holds them with their gaps.

    Returns
    -------
    tuple of Estimate
        One result per pair, without unit, named ``r(judge, judge)``; ``missing`` counts the answers that one
        of the two did not score. Empty where there are not two judges.
    """
    if matrix.pairs.empty:
        return tuple(
            _without_estimate(f"r({first}, {second})", len(matrix.values), 0, matrix.problem)
            for first, second in combinations(matrix.judges, 2)
        )
    results = []
    for first, second in combinations(matrix.pairs.columns, 2):
        both = matrix.pairs[[first, second]].dropna().to_numpy()
        missing = len(matrix.pairs) - len(both)
        results.append(_pearson(f"r({first}, {second})", both, (str(first), str(second)), missing))
    return tuple(results)


def _pearson(name: str, both: np.ndarray, judges: tuple[str, str], missing: int) -> Estimate:
    answers = len(both)
    if answers < 3:
        return _without_estimate(
            name, answers, missing, f"{answers} answer(s) scored by both, and three are needed"
        )
    spreads = np.ptp(both, axis=0)
    if spreads.min() <= NEGLIGIBLE:
        constant = judges[int(spreads.argmin())]
        return _without_estimate(
            name, answers, missing, f"judge {constant} gave the same score to every answer"
        )
    x, y = ((both - both.mean(axis=0)) / spreads).T
    r = float((x @ y) / math.sqrt(float(x @ x) * float(y @ y)))
    counts = {"answers": answers, "judges": 2}
    if abs(r) >= 1 - NEGLIGIBLE:
        note = "no interval: the scores lie on a straight line"
        return Estimate(name, math.copysign(1.0, r), method=FISHER, n=counts, missing=missing, note=note)
    if answers < 4:
        note = "no interval: Fisher's z needs four answers"
        return Estimate(name, r, method=FISHER, n=counts, missing=missing, note=note)
    half = float(stats.norm.ppf(0.975)) / math.sqrt(answers - 3)
    low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    return Estimate(name, r, low, high, method=FISHER, n=counts, missing=missing)


def _without_estimate(name: str, answers: int, missing: int, reason: str) -> Estimate:
    counts = {"answers": answers, "judges": 2}
    return Estimate(name, None, method=FISHER, n=counts, missing=missing, note=f"not estimable: {reason}")
