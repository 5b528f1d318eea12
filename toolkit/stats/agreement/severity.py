"""Severity of each judge, and what the agreement and the mean become without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from toolkit.stats.agreement.alpha import OVER_JUDGES, alpha_over_judges
from toolkit.stats.agreement.icc import clustered_icc, icc_estimates
from toolkit.stats.agreement.ratings import RatingMatrix, submatrix
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.result import Estimate, Result

UNIT: Final = "score points"
METHOD: Final = "Student t over bases, clustered"
INDEPENDENT: Final = "Student t, answers independent"


@dataclass(frozen=True)
class Severity(Result):
    """What each judge does to the scores and to the agreement."""

    leniency: Mapping[str, Estimate]
    without: Mapping[str, tuple[Estimate, ...]]
    about = "judge"
    kinds = dict.fromkeys(("leniency", "without"), "judge")


def judge_severity(matrix: RatingMatrix) -> Severity:
    r"""Return how lenient each judge is beside the others, and the agreement without each judge.

    The leniency of judge j is the mean of :math:`x_{ij} - \bar x_{i,-j}` over the answers that it and another
    judge scored, with the t interval clustered by base.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for the clustered error. Holm (1979).

    Examples
    --------
    >>> from toolkit.stats.agreement.ratings import rating_matrix
    >>> table = {"t1": [4, 3.5, 3], "t2": [3, 2, 2.5], "t3": [5, 4, 4.5], "t4": [2, 2, 1]}
    >>> rows = [(t, f"j{j}", x) for t, row in table.items() for j, x in enumerate(row)]
    >>> frame = pd.DataFrame(rows, columns=["target", "judge", "score"])
    >>> found = judge_severity(rating_matrix(frame, list(table), ["j0", "j1", "j2"]))
    >>> round(found.leniency["j0"].estimate, 4)
    0.6875
    """
    scores = matrix.pairs * matrix.scale
    beyond = {judge: scores[judge] - scores.drop(columns=[judge]).mean(axis=1) for judge in scores}
    leniency = with_holm(
        _mean(f"leniency of {judge}", beyond[judge], matrix, tested=True) for judge in scores
    )
    without = {str(judge): _without(matrix, judge) for judge in scores}
    return Severity(dict(zip(without, leniency, strict=True)), without)


def _mean(name: str, scores: pd.Series, matrix: RatingMatrix, *, tested: bool = False) -> Estimate:
    values = scores.to_numpy(dtype=float)
    finite = np.isfinite(values)
    bases = None if matrix.pair_bases is None else matrix.pair_bases[finite]
    n = {"answers": int(finite.sum())}
    n = n if bases is None else {"bases": len(set(bases)), **n}
    method = INDEPENDENT if bases is None else METHOD
    empty = Estimate(name, None, method=method, unit=UNIT, n=n, missing=int((~finite).sum()))
    if not finite.any():
        return empty.not_estimable("no answer has the ratings it needs")
    mean = clustered_mean(values[finite], list(range(int(finite.sum())) if bases is None else bases))
    return replace(mean.of(empty), p_value=mean.p_value if tested else None)


def _without(matrix: RatingMatrix, judge: object) -> tuple[Estimate, ...]:
    remaining = submatrix(matrix, [name for name in matrix.pairs.columns if name != judge])
    # The clustered interval needs no F interval, which costs most of the time.
    forms = clustered_icc(remaining, icc_estimates(remaining, intervals=False)) or icc_estimates(remaining)
    selected = [form for form in forms if form.name in ("ICC(A,1)", "ICC(A,k)")]
    agreement = [*selected, replace(alpha_over_judges(remaining), name=OVER_JUDGES)]
    mean = _mean("mean score", (remaining.pairs * matrix.scale).mean(axis=1), matrix)
    return tuple(replace(form, name=f"{form.name} without {judge}") for form in (*agreement, mean))
