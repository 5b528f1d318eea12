"""A share and its interval, with cases that stand alone or that come in clusters."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import p_by_inversion
from toolkit.stats.result import Estimate

METHOD = "Wilson"
CLUSTERED_METHOD = "Wilson, effective n (Dean & Pagano 2015)"


def wilson(hits: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share, which exists for 0 and for 1 too.

    References
    ----------
    Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.

    Examples
    --------
    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    from statsmodels.stats.proportion import proportion_confint

    _check(hits, n)
    low, high = map(float, proportion_confint(hits, n, 1 - confidence, "wilson"))
    # At 0 and 1 the end is exact; rounding must not put the share outside of its own interval.
    return min(hits / n, max(0.0, low)), max(hits / n, min(1.0, high))


def clopper_pearson(hits: int, n: int) -> tuple[float, float]:
    """Return the exact interval of a share of independent cases.

    It covers at least what it says, and mostly more, so `wilson` is the default where no guarantee is asked for.

    References
    ----------
    Clopper & Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> low, high = clopper_pearson(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.555, 0.997)
    """
    from statsmodels.stats.proportion import proportion_confint

    _check(hits, n)
    if hits != int(hits) or n != int(n):
        raise InputError(f"share: {hits:g} hits of {n:g} cases; an exact interval needs whole numbers")
    low, high = proportion_confint(hits, n, 0.05, "beta")
    return float(low), float(high)


def share(
    name: str,
    hits: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    *,
    what: str = "pairs",
    intracluster: float | None = None,
    **labels: Any,
) -> Estimate:
    """Return the share of hits with an interval that allows for cases that come in clusters (`wilson_ends`).

    ``labels`` are other fields of the estimate, such as missing and facets.

    Examples
    --------
    >>> found = share("moved", [True, True, False, False, False, True], ["a", "a", "b", "b", "c", "c"])
    >>> found.estimate, round(found.low, 2), found.n
    (0.5, 0.04, {'pairs': 6, 'bases': 3})
    """
    groups: list[Hashable] = list(range(len(hits)) if clusters is None else clusters)
    if len(groups) != len(hits):
        raise InputError(f"share: {len(hits)} cases and {len(groups)} clusters; give a cluster for each case")
    counts = {what: len(hits)} | ({"bases": len(set(groups))} if clusters is not None else {})
    empty = Estimate(name, method=METHOD, unit=f"share of {what}", n=counts, **labels)
    if not len(hits):
        return empty.not_estimable("there is no case")
    return _with_wilson(empty, np.asarray(hits, dtype=bool).astype(float), groups, intracluster)


def rate_mean(
    empty: Estimate,
    values: ArrayLike,
    clusters: Sequence[Hashable],
    intracluster: float | None = None,
    *,
    nothing: str = "no answer has a score",
    reference: float | None = None,
) -> Estimate:
    """Return the mean of scores from 0 to 1 with Wilson's interval for what its clusters are worth (`wilson_ends`).

    With a ``reference`` it has the P value of that mean, by inversion of the interval (`p_by_inversion`).

    Examples
    --------
    >>> estimate = rate_mean(Estimate("accuracy", None), [1, 1, 0.5, 0, 1, 1], list("aabbcc"))
    >>> estimate.estimate, round(estimate.low, 2), round(estimate.high, 2)
    (0.75, 0.1, 0.99)
    """
    scores = np.asarray(values, dtype=float)
    if not len(scores):
        return empty.not_estimable(nothing)
    if len(set(clusters)) < 2:
        return clustered_mean(scores, clusters).of(empty)
    return _with_wilson(empty, scores, list(clusters), intracluster, reference)


def _with_wilson(
    empty: Estimate,
    scores: np.ndarray,
    labels: list[Hashable],
    intracluster: float | None,
    reference: float | None = None,
) -> Estimate:
    cases = max(len(scores), empty.n.get("answers", 0))
    limits = wilson_ends(scores, labels, intracluster, cases)
    method = METHOD if len(set(labels)) == cases else CLUSTERED_METHOD
    p_value = None if reference is None else p_by_inversion(limits, reference)
    return empty.with_value(float(scores.mean()), *limits(empty.confidence), method=method, p_value=p_value)


def mover(
    p1: float, ends1: tuple[float, float], p2: float, ends2: tuple[float, float], r: float = 0.0
) -> tuple[float, float]:
    """Return the ends of p1 - p2 from the ends of both, which correlate by r (Zou & Donner 2008)."""
    (l1, u1), (l2, u2) = ends1, ends2
    below = (p1 - l1) ** 2 - 2 * r * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    above = (u1 - p1) ** 2 - 2 * r * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return p1 - p2 - math.sqrt(max(below, 0.0)), p1 - p2 + math.sqrt(max(above, 0.0))


def between_clusters(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """Return how the sums of two scores in their clusters correlate; 0 where those of one are all alike."""
    scores = pd.DataFrame({"first": first, "second": second})
    sums = (scores - scores.mean()).groupby(list(clusters), sort=False).sum().to_numpy()
    size = float(np.sqrt((sums**2).sum(axis=0).prod()))
    return float(sums[:, 0] @ sums[:, 1]) / size if size > 0 else 0.0


def intracluster_correlation(hits: ArrayLike, clusters: Sequence[Hashable]) -> float | None:
    """Return the correlation within clusters, from 0 to 1, by the design effect; None where all cases agree."""
    scores, sizes = np.asarray(hits, dtype=float), pd.Series(list(clusters)).value_counts()
    p = float(scores.mean()) if len(scores) else 0.0
    if p in (0.0, 1.0) or len(sizes) in (1, len(scores)):
        return None
    error = clustered_mean(scores, list(clusters)).error or 0.0
    effect = error**2 * len(scores) / (p * (1 - p))
    return min(max((effect - 1) / (float((sizes**2).sum()) / len(scores) - 1), 0.0), 1.0)


def wilson_ends(
    values: ArrayLike, clusters: Sequence[Hashable], intracluster: float | None = None, answers: int = 0
) -> Callable[[float], tuple[float, float]]:
    r"""Return Wilson's interval of the mean of clustered scores from 0 to 1, as a function of its confidence.

    It is that of as many independent cases of 0 or 1 as the scores are worth. They are (Dean & Pagano 2015) :math:`p
    (1 - p) / SE^2` with the error of `clustered_mean` (CR2), at most the n cases and at least Kish's (1965) :math:`K =
    (\sum n_g)^2 / \sum n_g^2`, what clusters of equal cases are worth, divided by :math:`(t_\nu / z)^2`. :math:`\nu =
    2 / (2 / \nu_{CR2} + \kappa / G)`, because clusters that are rarely wrong make the error itself uncertain:
    :math:`\kappa \ge 0` is the excess kurtosis of the sums of the G clusters. Scores between 0 and 1 vary less than
    those of 0 and 1, so that n and K are times :math:`p (1 - p) / s^2`; means of the repeats of an item vary by
    chance, and are worth at most their ``answers``. Where all cases agree, their error says nothing: with
    ``intracluster``, the correlation r within clusters of a larger set that these are a part of, they count as
    :math:`n / (1 + (n / K - 1) r)`, and without it as K.

    Examples
    --------
    >>> ends = wilson_ends([1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1], list("aaabbbcccddd"))
    >>> [round(end, 2) for end in ends(0.95)]
    [0.07, 0.87]
    """
    scores, labels = np.asarray(values, dtype=float), list(clusters)
    mean, p, n = clustered_mean(scores, labels), float(scores.mean()), len(scores)
    deviations = pd.Series(scores - p).groupby(labels, sort=False)
    sizes, sums, uniform = deviations.size().to_numpy(), deviations.sum().to_numpy(), np.ptp(scores) == 0
    kish, groups = n**2 / float((sizes**2).sum()), len(sizes)
    alone = groups == n and bool(np.isin(scores, (0.0, 1.0)).all())
    excess = max(float((sums**4).mean() / (sums**2).mean() ** 2) - 3, 0.0) if mean.error else 0.0
    degrees = 2 / (2 / max(mean.degrees, 1.0) + excess / groups)
    least, effective, cases = kish, kish, max(n, answers)
    if uniform and intracluster is not None:
        effective = cases / (1 + (cases / kish - 1) * intracluster)
    elif not (uniform or alone or groups == 1):
        size = p * (1 - p) / float(scores.var())  # 1 for scores of 0 and 1
        by_error = p * (1 - p) / mean.error**2 if mean.error else math.inf
        least, effective = 0.0, min(max(kish * size, by_error), n * size if cases == n else cases)

    def limits(confidence: float) -> tuple[float, float]:
        cases = max(least, effective / inflation(degrees, confidence))
        return wilson(p * cases, cases, confidence)

    return limits


def inflation(degrees: float, confidence: float) -> float:
    """Return by how much fewer cases Wilson's interval has the width that Student's t would give it."""
    level = (1 + confidence) / 2
    return (float(special.stdtrit(degrees, level)) / float(special.ndtri(level))) ** 2


def _check(hits: float, n: float) -> None:
    if not (n > 0 and 0 <= hits <= n):
        raise InputError(f"share: {hits:g} hits of {n:g} cases is no share; give 0 <= hits <= n and n > 0")
