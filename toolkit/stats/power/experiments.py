"""How many experiments it takes to tell two methods of the one-shot test apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.scoring import one_shot_score
from toolkit.stats.inference.proportions import clopper_pearson
from toolkit.stats.one_shot.methods import VERDICTS, WEIGHTS, outcomes_of, pair_p_value, rejected
from toolkit.stats.power.sample_size import check_share
from toolkit.stats.result import Estimate

ENUMERATED_UP_TO: Final = 30
"""Experiments up to which every pair of outcomes is enumerated; at 30 that takes half a second."""
DRAWN: Final = 1000  # pairs of tests drawn where there are more: a power of 0.8 is then known to within 0.025
MOST: Final = 400  # experiments of one method beyond which nobody goes on asking
STEADY: Final = 3
"""How many further experiments the power must stay where it is wanted: counts are whole, so it saws."""


def one_shot_power(
    first: Sequence[float],
    second: Sequence[float],
    n: int = 10,
    *,
    weights: Sequence[float] = WEIGHTS,
    alpha: float = 0.05,
    seed: int = 0,
) -> Estimate:
    """Return how likely the exact permutation test tells two methods apart with n experiments of each.

    Examples
    --------
    >>> round(one_shot_power((1, 0, 0), (0.5, 0.5, 0), 10).estimate, 3)
    0.623
    """
    p, q = _shares(first), _shares(second)
    w = one_shot_score(1, 0, 0, weights).weights
    if not (isinstance(n, int) and 1 <= n <= MOST):
        raise InputError(f"power: n is {n!r}; give a whole number of experiments from 1 to {MOST}")
    check_share("alpha", alpha)
    note = f"test of level {alpha:g}; true difference {float((q - p) @ np.array(w)):.3f}"
    low = high = None
    if n <= ENUMERATED_UP_TO:
        power = float(_chances(p, n) @ rejected(n, w, alpha) @ _chances(q, n))
        method = "exact, by enumeration"
    else:
        hits = sum(times for times, differ in _sampled(p, q, n, w, alpha, seed) if differ)
        power, (low, high) = hits / DRAWN, clopper_pearson(hits, DRAWN)
        method = f"Clopper-Pearson over {DRAWN} pairs of tests drawn with seed {seed}"
    counts = {"experiments of each method": n}
    return Estimate(f"power at N = {n}", power, low, high, method, "probability", counts, note=note)


def experiments_needed(
    first: Sequence[float],
    second: Sequence[float],
    *,
    power: float = 0.8,
    start: int = 10,
    weights: Sequence[float] = WEIGHTS,
    alpha: float = 0.05,
    seed: int = 0,
) -> Estimate:
    """Return the smallest number of experiments of each method that tells two methods apart.

    Power does not rise evenly, because counts are whole: up to 30 the smallest N is meant at which, and for three
    more, power is what is wanted; beyond, N is found by bisection over simulated powers, to about 5 %.

    ``first`` and ``second`` are shares (or pilot counts) of expected answers, unexpected answers and hallucinations,
    ``start`` is the smallest N to consider. There is no number, and a note, when even 400 are too few.

    Examples
    --------
    >>> experiments_needed((1, 0, 0), (0.5, 0.5, 0)).estimate
    12.0
    """
    check_share("power", power)
    if not (isinstance(start, int) and 1 <= start <= ENUMERATED_UP_TO):
        raise InputError(
            f"experiments needed: start is {start!r}; give a whole number from 1 to {ENUMERATED_UP_TO}"
        )

    def power_at(n: int) -> Estimate:
        return one_shot_power(first, second, n, weights=weights, alpha=alpha, seed=seed)

    name, at_start = f"experiments of each method for power {power:g}", power_at(start)
    p, q, w = _shares(first), _shares(second), one_shot_score(1, 0, 0, weights).weights

    @cache
    def enough(n: int) -> bool:
        if n <= ENUMERATED_UP_TO:
            return (power_at(n).estimate or 0.0) >= power
        hits, at_most = 0, DRAWN
        for times, differ in _sampled(p, q, n, w, alpha, seed):
            hits, at_most = (hits + times, at_most) if differ else (hits, at_most - times)
            if at_most / DRAWN < power or hits / DRAWN >= power:  # the pairs still to come cannot change it
                break
        return hits / DRAWN >= power

    n = _smallest(enough, start)
    if n is None:
        note = f"even {MOST} experiments of each method are too few; {at_start.note}"
        return Estimate(name, None, unit="experiments", note=note)
    reached = power_at(n)
    note = f"power {reached.estimate:.3f} at {n}, {at_start.estimate:.3f} at {start}; {at_start.note}"
    return Estimate(name, float(n), method=reached.method, unit="experiments", note=note)


def _shares(values: Sequence[float]) -> np.ndarray:
    message = f"power: {values!r} must be three shares or counts of {', '.join(VERDICTS)}, not all 0"
    try:
        shares = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        raise InputError(message) from None
    if shares.shape != (3,) or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() == 0:
        raise InputError(message)
    return shares / shares.sum()


def _chances(shares: np.ndarray, n: int) -> np.ndarray:
    outcomes = outcomes_of(n)
    ways = special.gammaln(n + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    return np.exp(ways + special.xlogy(outcomes, shares[None, :]).sum(axis=1))


def _sampled(
    p: np.ndarray, q: np.ndarray, n: int, w: tuple[float, float, float], alpha: float, seed: int
) -> Iterator[tuple[int, bool]]:
    """Yield how often each pair of tests was drawn, and whether it is told apart; equal pairs are tested once."""
    dice = np.random.default_rng(seed)
    pairs = np.hstack([dice.multinomial(n, p, DRAWN), dice.multinomial(n, q, DRAWN)])
    for pair, times in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
        p_value = pair_p_value(tuple(pair[:3].tolist()), tuple(pair[3:].tolist()), w)
        yield int(times), p_value <= alpha + 1e-12


def _smallest(enough: Callable[[int], bool], start: int) -> int | None:
    if enough(ENUMERATED_UP_TO):
        for n in range(start, ENUMERATED_UP_TO):
            if all(enough(more) for more in range(n, n + STEADY + 1)):
                return n
        return ENUMERATED_UP_TO
    low, high = ENUMERATED_UP_TO, 2 * ENUMERATED_UP_TO
    while not enough(high):
        if high == MOST:
            return None
        low, high = high, min(MOST, 2 * high)
    while high - low > max(1, math.floor(0.05 * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
