"""Agreement beyond chance: Cohen's kappa between two, Fleiss' kappa among many, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.result import Estimate

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
