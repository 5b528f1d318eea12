"""Pearson's correlation between each pair of judges, clustered by base where bases are known."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import all_and_without, numbered, sums_by, with_jackknife
from toolkit.stats.inference.means import paired
from toolkit.stats.result import ROUNDING, Estimate, Estimates
from toolkit.words import counted

FISHER = "Fisher z, answers independent"
JACKKNIFE = "jackknife over bases, Fisher z scale"


def pearson_between_judges(matrix: RatingMatrix) -> Estimates:
    """Return Pearson's r for each pair of judges, over the answers that both of them scored.

    A correlation ignores how mild or harsh a judge is, and how far it spreads its scores; agreement is what
    ICC(A,.) measures. The interval is the jackknife over bases, or Fisher's where no base is known.
    """
    if matrix.pairs.empty:
        n = {"answers": len(matrix.values), "judges": 2}
        return tuple(_named(pair, n).not_estimable(matrix.problem) for pair in combinations(matrix.judges, 2))
    results = []
    for first, second in combinations(matrix.pairs.columns, 2):
        scores = matrix.pairs[[first, second]].to_numpy()
        paired = np.isfinite(scores).all(axis=1)
        bases = None if matrix.pair_bases is None else list(matrix.pair_bases[paired])
        judges, n = (str(first), str(second)), {"answers": int(paired.sum()), "judges": 2}
        empty = replace(_named(judges, n), missing=int((~paired).sum()))
        results.append(_pair_estimate(empty, scores[paired], judges, bases))
    return tuple(results)


def clustered_pearson(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    missing: int = 0,
) -> Estimate:
    """Return Pearson's r of two sides with the same jackknife over bases as between judges."""
    a, b = paired(f"correlation {name}", x, y, clusters)
    empty = Estimate(name, n={"answers": len(a)}, missing=missing)
    return _pair_estimate(empty, np.column_stack([a, b]), None, clusters)


def correlation(x: np.ndarray, y: np.ndarray, bases: Sequence[Hashable]) -> tuple[float | None, np.ndarray]:
    """Return Pearson's r and its values without each base; None and NaN where a side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    sums = sums_by(numbered(bases), np.stack([np.ones(len(x)), x, y, x * y, x * x, y * y], axis=1))
    n, sx, sy, xy, xx, yy = np.vstack(all_and_without(sums)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        xy, xx, yy = xy - sx * sy / n, xx - sx * sx / n, yy - sy * sy / n
        flat = np.minimum(xx, yy) <= ROUNDING * max(float(xx[0]), float(yy[0]))
        r = np.where(flat, np.nan, np.clip(xy / np.sqrt(xx * yy), -1, 1))
    return (float(r[0]) if np.isfinite(r[0]) else None), r[1:]


def _named(judges: tuple[str, str], n: dict[str, int]) -> Estimate:
    facets = dict(zip(("judge", "other_judge"), judges, strict=True))
    return Estimate(f"r({', '.join(judges)})", method=FISHER, n=n, facets=facets)


def _pair_estimate(
    empty: Estimate,
    scores: np.ndarray,
    judges: tuple[str, str] | None,
    bases: Sequence[Hashable] | None,
) -> Estimate:
    answers = len(scores)
    if bases is not None:
        empty = replace(empty, method=JACKKNIFE, n={"bases": len(set(bases)), **empty.n})
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
    r, without = correlation(x, y, range(answers) if bases is None else bases)
    if r is None:
        return empty.not_estimable("the scores of a judge do not vary")
    if abs(r) >= 1 - ROUNDING:
        return empty.valued(math.copysign(1.0, r)).no_interval("the scores lie on a straight line")
    estimate = empty.valued(r)
    if bases is None:
        if answers < 4:
            return estimate.no_interval("Fisher's z needs four answers")
        half = float(special.ndtri((1 + empty.confidence) / 2)) / math.sqrt(answers - 3)
        return replace(estimate, low=math.tanh(math.atanh(r) - half), high=math.tanh(math.atanh(r) + half))
    reason = "one base alone makes or unmakes the correlation"
    return with_jackknife(estimate, without, np.arctanh, np.tanh, useless=reason)
