"""Two methods with N experiments each: the exact permutation test of the difference of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.scoring import one_shot_score
from toolkit.stats.one_shot_methods import UNIT, WEIGHTS
from toolkit.stats.result import Estimate

PAIR_METHOD: Final = "exact permutation test; interval from the two single ones (MOVER, Zou & Donner 2008)"
_DECIMALS: Final = 10
"""Differences that agree to this many decimals are equal: 0.1 + 0.2 is not 0.3."""

Counts = tuple[int, int, int]
"""Expected answers, unexpected answers, hallucinations."""


def compare_two_methods(
    first: Sequence[int],
    second: Sequence[int],
    weights: Sequence[float] = WEIGHTS,
    confidence: float = 0.95,
    name: str = "second - first",
) -> Estimate:
    r"""Return the difference of two raw scores with its exact p value and interval.

    Were the two methods one, every way of dealing the pooled outcomes out to the two would be equally likely: the p
    value is the multivariate hypergeometric probability of all tables with the same margins whose difference is at
    least as large. With two outcomes and equal N this is Fisher's exact test. The interval puts together the exact
    intervals of the two scores, :math:`d - \sqrt{(r_2 - l_2)^2 + (u_1 - r_1)^2}` and likewise above; enumerating
    every pair of outcomes on a grid of 66 shares with the weights of the seed, it covers at least 95.8 % for N = 10
    and 93.9 % for N = 5.

    Parameters
    ----------
    first, second
        Counts of the three outcomes, of any N.
    weights
        Weight of each outcome.
    confidence
        Coverage of the interval.
    name
        Name of the result.

    Returns
    -------
    Estimate
        Second minus first.

    Raises
    ------
    InputError
        If the counts or the weights cannot be used.

    References
    ----------
    Zou & Donner (2008), Statistics in Medicine 27, 1693-1702.

    Examples
    --------
    >>> found = compare_two_methods((1, 3, 0), (3, 1, 0))
    >>> found.estimate, round(found.p_value, 4)
    (0.5, 0.4857)
    """
    a, b = (one_shot_score(*_three(counts), weights, confidence) for counts in (first, second))
    difference = b.raw - a.raw
    return Estimate(
        name,
        difference,
        low=difference - float(np.hypot(b.raw - b.low, a.high - a.raw)),
        high=difference + float(np.hypot(b.high - b.raw, a.raw - a.low)),
        method=PAIR_METHOD,
        unit=UNIT,
        n={"experiments of the first": a.n, "experiments of the second": b.n},
        confidence=confidence,
        p_value=pair_p_value((a.i1, a.i0, a.h), (b.i1, b.i0, b.h), a.weights),
    )


def outcomes_of(n: int) -> np.ndarray:
    """Return every outcome of n experiments, one a row: I1, I0, H.

    Examples
    --------
    >>> outcomes_of(1).tolist()
    [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    """
    return np.array([(i1, i0, n - i1 - i0) for i1 in range(n + 1) for i0 in range(n + 1 - i1)])


@cache
def rejected(n: int, weights: tuple[float, float, float], alpha: float) -> np.ndarray:
    """Return for every pair of outcomes of n experiments each whether the test tells the two methods apart."""
    outcomes = outcomes_of(n)
    place = {tuple(outcome): index for index, outcome in enumerate(outcomes.tolist())}
    found = np.zeros((len(outcomes), len(outcomes)), dtype=bool)
    for margins in outcomes_of(2 * n):
        tables, p_values = _tables(tuple(margins.tolist()), n, weights)
        rows = [place[tuple(table)] for table in tables.tolist()]
        columns = [place[tuple(table)] for table in (margins - tables).tolist()]
        found[rows, columns] = p_values <= alpha + 1e-12
    found.flags.writeable = False
    return found


def pair_p_value(first: Counts, second: Counts, weights: tuple[float, float, float]) -> float:
    """Return the p value of `compare_two_methods` alone, for counts and weights that are checked.

    Examples
    --------
    >>> round(pair_p_value((10, 0, 0), (5, 5, 0), (1.0, 0.0, -0.5)), 4)
    0.0325
    """
    margins = tuple(a + b for a, b in zip(first, second, strict=True))
    tables, chance, distance = _dealt(margins, sum(first), weights)
    own = distance[(tables[:, 0] == first[0]) & (tables[:, 1] == first[1])][0]
    return min(1.0, float(chance[distance >= own].sum()))


def _tables(
    margins: Sequence[int], n: int, weights: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outcomes the first method can have, given both together, and the p value of each."""
    tables, chance, distance = _dealt(margins, n, weights)
    order = np.argsort(-distance, kind="stable")
    upto = np.cumsum(chance[order])
    last = np.searchsorted(-distance[order], -distance, side="right") - 1  # ties are all as extreme
    return tables, np.minimum(1.0, upto[last])


def _dealt(
    margins: Sequence[int], n: int, weights: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the outcomes the first method can have, the chance of each, and how far apart the methods then are."""
    m = np.asarray(margins)
    total = int(m.sum())
    i1 = np.arange(max(0, n - m[1] - m[2]), min(n, m[0]) + 1)[:, None]
    i0 = np.arange(0, min(n, m[1]) + 1)[None, :]
    rest = n - i1 - i0
    possible = (rest >= 0) & (rest <= m[2])
    hallucinated = rest[possible]
    # The ways of dealing out each outcome by itself: a few hundred logarithms instead of three for every table.
    ways = (_log_choose(m[0], i1) + _log_choose(m[1], i0))[possible]
    ways += _log_choose(m[2], np.arange(min(n, m[2]) + 1))[hallucinated]
    tables = np.stack([(i1 + 0 * i0)[possible], (i0 + 0 * i1)[possible], hallucinated], axis=-1)
    w = np.array(weights)
    distance = np.abs(tables @ w / n - (m - tables) @ w / (total - n)).round(_DECIMALS)
    return tables, np.exp(ways - _log_choose(np.array(total), np.array(n))), distance


def _log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _three(counts: Sequence[int]) -> tuple[int, int, int]:
    if len(counts) != 3:
        raise InputError(f"counts of a method: {counts!r} must be three: expected, unexpected, hallucinated")
    return counts[0], counts[1], counts[2]
