"""How many experiments it takes to tell two methods apart, and what ten can tell apart at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.scoring import one_shot_score
from toolkit.stats.inference.proportions import clopper_pearson
from toolkit.stats.one_shot.compare import outcomes_of, pair_p_value, rejected
from toolkit.stats.one_shot.methods import UNIT, WEIGHTS
from toolkit.stats.result import Estimate

ENUMERATED_UP_TO: Final = 30
"""Experiments up to which every pair of outcomes is enumerated; at 30 that takes half a second."""
DRAWN: Final = 1000
"""Pairs of tests drawn where there are more: a power of 0.8 is then known to within 0.025."""
MOST: Final = 400
"""Experiments of one method beyond which nobody goes on asking."""
STEADY: Final = 3
"""How many further experiments the power must stay where it is wanted: counts are whole, so it saws."""
SHARES: Final = ("expected", "unexpected", "hallucinated")


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
    if not 0 < alpha < 1:
        raise InputError(f"power: alpha is {alpha!r}; give a level between 0 and 1, such as 0.05")
    name = f"power at N = {n}"
    note = f"test of level {alpha:g}; true difference {float((q - p) @ np.array(w)):.3f}"
    counts = {"experiments of each method": n}
    if n <= ENUMERATED_UP_TO:
        power = float(_chances(p, n) @ rejected(n, w, alpha) @ _chances(q, n))
        return Estimate(name, power, method="exact, by enumeration", unit="probability", n=counts, note=note)
    hits = sum(times for times, told in _drawn(p, q, n, w, alpha, seed) if told)
    low, high = clopper_pearson(hits, DRAWN)
    return Estimate(
        name,
        hits / DRAWN,
        low=low,
        high=high,
        method=f"Clopper-Pearson over {DRAWN} pairs of tests drawn with seed {seed}",
        unit="probability",
        n=counts,
        note=note,
    )


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

    Parameters
    ----------
    first, second, weights, alpha, seed
        As in `one_shot_power`.
    power
        Wanted probability of telling them apart.
    start
        Smallest N to consider, in experiments.

    Returns
    -------
    Estimate
        In experiments of each method; None, with a note, when even 400 are too few.

    Raises
    ------
    InputError
        As for `one_shot_power`, and when ``power`` or ``start`` cannot be used.

    Examples
    --------
    >>> experiments_needed((1, 0, 0), (0.5, 0.5, 0)).estimate
    12.0
    """
    if not 0 < power < 1:
        raise InputError(f"experiments needed: power is {power!r}; give a probability between 0 and 1")
    if not (isinstance(start, int) and 1 <= start <= ENUMERATED_UP_TO):
        raise InputError(
            f"experiments needed: start is {start!r}; give a whole number from 1 to {ENUMERATED_UP_TO}"
        )

    name = f"experiments of each method for power {power:g}"
    settled = one_shot_power(first, second, start, weights=weights, alpha=alpha, seed=seed)
    p, q, w = _shares(first), _shares(second), one_shot_score(1, 0, 0, weights).weights

    @cache
    def enough(n: int) -> bool:
        if n > ENUMERATED_UP_TO:
            return _drawn_power_reaches(power, _drawn(p, q, n, w, alpha, seed))
        found = one_shot_power(first, second, n, weights=weights, alpha=alpha, seed=seed).estimate
        return found is not None and found >= power

    n = _smallest(enough, start)
    if n is None:
        note = f"even {MOST} experiments of each method are too few; {settled.note}"
        return Estimate(name, None, unit="experiments", note=note)
    reached = one_shot_power(first, second, n, weights=weights, alpha=alpha, seed=seed)
    note = f"power {reached.estimate:.3f} at {n}, {settled.estimate:.3f} at {start}; {settled.note}"
    return Estimate(name, float(n), method=reached.method, unit="experiments", note=note)


def told_apart(
    n: int = 10, *, power: float = 0.8, weights: Sequence[float] = WEIGHTS, alpha: float = 0.05
) -> tuple[Estimate, ...]:
    """Return what n experiments of each of two methods can tell apart at all.

    Examples
    --------
    >>> [round(one.estimate, 3) for one in told_apart(10)]
    [0.25, 0.419]
    """
    if not (isinstance(n, int) and 1 <= n <= ENUMERATED_UP_TO):
        raise InputError(f"told apart: n is {n!r}; give a whole number from 1 to {ENUMERATED_UP_TO}")
    if not 0 < power < 1:
        raise InputError(f"told apart: power is {power!r}; give a probability between 0 and 1")
    w = one_shot_score(1, 0, 0, weights).weights
    matrix, raw = rejected(n, w, alpha), outcomes_of(n) @ np.array(w) / n
    counts = {"experiments of each method": n}
    about = f"exact permutation test of level {alpha:g}"
    gaps = np.abs(raw[:, None] - raw[None, :])[matrix]
    name = "smallest difference that can be significant"
    note = "" if gaps.size else f"no two outcomes of {n} experiments are told apart"
    smallest = Estimate(
        name, float(gaps.min()) if gaps.size else None, method=about, unit=UNIT, n=counts, note=note
    )

    always = _chances(np.array([1.0, 0.0, 0.0]), n) @ matrix

    def enough(share: float) -> bool:
        return float(always @ _chances(np.array([share, 1 - share, 0.0]), n)) >= power

    name = "largest share of expected answers told from 1"
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    found = enough(0.0)
    note = f"power {power:g}" if found else f"not even a share of 0 is, with power {power:g}"
    largest = Estimate(
        name, low if found else None, method=about, unit="share of experiments", n=counts, note=note
    )
    return smallest, largest


def _shares(values: Sequence[float]) -> np.ndarray:
    message = f"power: {values!r} must be three shares or counts of {', '.join(SHARES)}, not all 0"
    try:
        found = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        raise InputError(message) from None
    if found.shape != (3,) or not np.isfinite(found).all() or (found < 0).any() or found.sum() == 0:
        raise InputError(message)
    return found / found.sum()


def _chances(shares: np.ndarray, n: int) -> np.ndarray:
    """Return the multinomial probability of every outcome of n experiments."""
    outcomes = outcomes_of(n)
    ways = special.gammaln(n + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    return np.exp(ways + special.xlogy(outcomes, shares[None, :]).sum(axis=1))


def _drawn(
    p: np.ndarray, q: np.ndarray, n: int, w: tuple[float, float, float], alpha: float, seed: int
) -> Iterator[tuple[int, bool]]:
    """Yield how often each pair of tests was drawn, and whether it is told apart; equal pairs are tested once."""
    dice = np.random.default_rng(seed)
    pairs = np.hstack([dice.multinomial(n, p, DRAWN), dice.multinomial(n, q, DRAWN)])
    for pair, times in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
        p_value = pair_p_value(tuple(pair[:3].tolist()), tuple(pair[3:].tolist()), w)
        yield int(times), p_value <= alpha + 1e-12


def _drawn_power_reaches(power: float, drawn: Iterable[tuple[int, bool]]) -> bool:
    """Return whether the share that is told apart is what is wanted, as soon as the rest cannot change that."""
    hits, at_most = 0, DRAWN
    for times, told in drawn:
        hits, at_most = (hits + times, at_most) if told else (hits, at_most - times)
        if at_most / DRAWN < power:
            return False
        if hits / DRAWN >= power:
            return True
    return False


def _smallest(enough: Callable[[int], bool], start: int) -> int | None:
    if enough(ENUMERATED_UP_TO):
        steady = (
            all(enough(more) for more in range(n, n + STEADY + 1)) for n in range(start, ENUMERATED_UP_TO)
        )
        return start + next((steps for steps, found in enumerate(steady) if found), ENUMERATED_UP_TO - start)
    low, high = ENUMERATED_UP_TO, 2 * ENUMERATED_UP_TO
    while not enough(high):
        if high == MOST:
            return None
        low, high = high, min(MOST, 2 * high)
    while high - low > max(1, math.floor(0.05 * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
