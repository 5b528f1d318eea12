"""Agreement beyond chance: Cohen's kappa between two, Fleiss' kappa among many, each with its interval."""

from __future__ import annotations

import math
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
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

WEIGHTED_CLUSTERED: Final = "jackknife over bases, Fisher z scale"
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
    method = COHEN_METHOD if bases is None else WEIGHTED_CLUSTERED
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


COHEN_METHOD: Final = "Fisher z, standard error of Fleiss, Cohen & Everitt (1969)"
FLEISS_METHOD: Final = "Fisher z, standard error over items of Gwet (2021), Student t"
CLUSTERED: Final = "Fisher z, linearised, standard error clustered by base (CR2), Student t"


def cohen_kappa(
    first: Sequence[Hashable | None],
    second: Sequence[Hashable | None],
    confidence: float = 0.95,
    name: str = "Cohen's kappa",
    raters: tuple[str, str] = ("first", "second"),
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return Cohen's kappa between two who put the same items into categories.

    :math:`\kappa = (p_o - p_e) / (1 - p_e)` with the observed agreement :math:`p_o` and
    :math:`p_e = \sum_i p_{i+} p_{+i}`. Its large-sample variance times
    :math:`n (1 - p_e)^2` is :math:`\sum_i p_{ii} [1 - (p_{i+} + p_{+i})(1 - \kappa)]^2
    + (1 - \kappa)^2 \sum_{i \ne j} p_{ij} (p_{+i} + p_{j+})^2 - [\kappa - p_e (1 - \kappa)]^2`. The interval is made
    on Fisher's z scale: in 4,000 simulations each of 72 to 200 items with kappa .1 to .9 it covers 94-98 %, where
    the plain one covers 90-97 %.

    References
    ----------
    Cohen (1960), Educational and Psychological Measurement 20, 37-46. Fleiss, Cohen & Everitt (1969),
    Psychological Bulletin 72, 323-327.

    Examples
    --------
    >>> found = cohen_kappa([1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, None])
    >>> round(found.estimate, 3), found.missing
    (0.615, 1)
    """
    if len(first) != len(second):
        raise InputError(f"kappa: {len(first)} and {len(second)} categories; give two for each item")
    both = [place for place, pair in enumerate(zip(first, second, strict=True)) if None not in pair]
    pairs = [(first[place], second[place]) for place in both]
    n, missing = {"items": len(pairs)}, len(first) - len(pairs)
    for place, who in enumerate(raters):
        if len({pair[place] for pair in pairs}) < 2:
            return _without(
                name, COHEN_METHOD, n, missing, confidence, f"the {who} gave one category at most"
            )
    found = {
        category: place for place, category in enumerate(dict.fromkeys(x for pair in pairs for x in pair))
    }
    table = np.zeros((len(found), len(found)))
    cells = ([found[a] for a, _ in pairs], [found[b] for _, b in pairs])
    np.add.at(table, cells, 1)
    kappa, error, pull = kappa_of_table(table, np.eye(len(found)))
    shared = None if clusters is None else [clusters[place] for place in both]
    if shared is not None and len(set(shared)) < len(shared):
        n["bases"] = len(set(shared))
        error, quantile = _clustered(pull[cells], shared, confidence)
        return on_fisher_scale(name, kappa, error, quantile, CLUSTERED, n, missing, confidence)
    quantile = float(special.ndtri((1 + confidence) / 2))
    return on_fisher_scale(name, kappa, error, quantile, COHEN_METHOD, n, missing, confidence)


def kappa_of_table(table: np.ndarray, weights: np.ndarray) -> tuple[float, float, np.ndarray]:
    r"""Return kappa of a table of counts, weighted by agreement, its large-sample error and each cell's influence.

    With shares :math:`p_{ij}`, weights :math:`w_{ij}` of agreement, :math:`p_o = \sum w_{ij} p_{ij}`,
    :math:`p_e = \sum w_{ij} p_{i+} p_{+j}`, :math:`\bar w_{i+} = \sum_j w_{ij} p_{+j}` and
    :math:`\bar w_{+j} = \sum_i w_{ij} p_{i+}`, the variance times :math:`n (1 - p_e)^2` is
    :math:`\sum p_{ij} [w_{ij} - (\bar w_{i+} + \bar w_{+j})(1 - \kappa)]^2 - [\kappa - p_e (1 - \kappa)]^2` (Fleiss,
    Cohen & Everitt 1969, equation 14); with the identity as weights it is Cohen's kappa.

    Examples
    --------
    >>> kappa, error, _ = kappa_of_table(np.array([[20, 5], [10, 15]]), np.eye(2))
    >>> round(kappa, 3), round(error, 3)
    (0.4, 0.127)
    """
    n = float(table.sum())
    p = table / n
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    chance = float(rows @ weights @ columns)
    kappa = (float((weights * p).sum()) - chance) / (1 - chance)
    means = (weights @ columns)[:, None] + (rows @ weights)[None, :]
    pull = (weights - means * (1 - kappa) - (kappa - chance * (1 - kappa))) / (1 - chance)
    return kappa, math.sqrt(float((p * pull**2).sum()) / n), pull


def fleiss_kappa(
    votes: Sequence[Sequence[Hashable | None]],
    confidence: float = 0.95,
    name: str = "Fleiss' kappa",
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return Fleiss' kappa: how far votes on the same item agree beyond chance, whoever gave them.

    With :math:`r_i` votes on item i, :math:`r_{iq}` of them for category q, :math:`p_a` is the mean of
    :math:`\sum_q r_{iq}(r_{iq} - 1) / r_i(r_i - 1)` over items with two votes or more, and
    :math:`p_e = \sum_q \pi_q^2` where :math:`\pi_q` is the mean of :math:`r_{iq} / r_i`. The standard error is that
    of the linearised kappa over items, so it needs no more than independent items. On Fisher's z scale the interval
    covers 94-97 % in 1,500 simulations each of 36 to 300 items with five votes and kappa .29 to .89.

    References
    ----------
    Fleiss (1971), Psychological Bulletin 76, 378-382. Gwet (2021), Educational and Psychological Measurement 81,
    781-790, and Gwet (2014), Handbook of Inter-Rater Reliability, for items with fewer votes.

    Examples
    --------
    >>> found = fleiss_kappa([[1, 1, 1], [0, 0, 0], [1, 1, 0], [0, None, 0]])
    >>> round(found.estimate, 4), found.missing
    (0.6571, 1)
    """
    given = [[vote for vote in item if vote is not None] for item in votes]
    missing = sum(len(item) for item in votes) - sum(len(item) for item in given)
    shared = None if clusters is None else [clusters[place] for place, item in enumerate(given) if item]
    given = [item for item in given if item]
    n = {"items": len(given), "votes": sum(len(item) for item in given)}
    places = {
        vote: place for place, vote in enumerate(dict.fromkeys(vote for item in given for vote in item))
    }
    counts = np.zeros((len(given), len(places)))
    for row, item in zip(counts, given, strict=True):
        for vote in item:
            row[places[vote]] += 1
    total = counts.sum(axis=1)
    several = total > 1
    if not several.any():
        return _without(name, FLEISS_METHOD, n, missing, confidence, "no item has two votes")
    if len(places) < 2:
        return _without(name, FLEISS_METHOD, n, missing, confidence, "every vote is the same")
    shares = counts / total[:, None]
    overall = shares.mean(axis=0)
    chance = float(overall @ overall)
    agreement = np.zeros(len(given))
    agreement[several] = (counts * (counts - 1)).sum(axis=1)[several] / (total * (total - 1))[several]
    kappa = (float(agreement[several].mean()) - chance) / (1 - chance)
    weight = len(given) / several.sum()
    own = weight * (agreement - chance * several) / (1 - chance)
    linear = own - 2 * (1 - kappa) * (shares @ overall - chance) / (1 - chance)
    error, quantile = 0.0, 0.0
    if shared is not None and len(set(shared)) < len(shared):
        n["bases"] = len(set(shared))
        error, quantile = _clustered(linear - kappa, shared, confidence)
        return on_fisher_scale(name, kappa, error, quantile, CLUSTERED, n, missing, confidence)
    if len(given) > 1:
        error = math.sqrt(float(((linear - kappa) ** 2).sum()) / (len(given) * (len(given) - 1)))
        quantile = float(special.stdtrit(len(given) - 1, (1 + confidence) / 2))
    return on_fisher_scale(name, kappa, error, quantile, FLEISS_METHOD, n, missing, confidence)


def _clustered(pull: np.ndarray, clusters: Sequence[Hashable], confidence: float) -> tuple[float, float]:
    """Return the clustered error of a linearised kappa and the quantile that goes with it; zeros for one cluster."""
    mean = clustered_mean(pull, clusters, confidence)
    if not mean.error:
        return 0.0, 0.0
    return mean.error, float(special.stdtrit(mean.degrees, (1 + confidence) / 2))


def on_fisher_scale(
    name: str,
    kappa: float,
    error: float,
    quantile: float,
    method: str,
    n: dict[str, int],
    missing: int,
    confidence: float,
) -> Estimate:
    """Return kappa with the interval of artanh kappa, or without where they agree on all or nothing varies."""
    inside = abs(kappa) < 1 - 1e-12
    half = quantile * error / (1 - kappa**2) if inside else 0.0
    if not half:
        return Estimate(
            name,
            kappa,
            method=method,
            n=n,
            missing=missing,
            confidence=confidence,
            note="no interval: they agree on all items" if kappa > 0 else "no interval: nothing varies",
        )
    middle = math.atanh(kappa)
    low, high = math.tanh(middle - half), math.tanh(middle + half)
    return Estimate(name, kappa, low, high, method, "none", n, missing, confidence)


def _without(
    name: str, method: str, n: dict[str, int], missing: int, confidence: float, reason: str
) -> Estimate:
    note = f"not estimable: {reason}"
    return Estimate(name, None, method=method, n=n, missing=missing, confidence=confidence, note=note)
