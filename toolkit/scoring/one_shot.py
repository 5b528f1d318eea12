"""The score of a one-shot test, with an interval that is honest about ten experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from scipy import optimize, special, stats

from toolkit.errors import InputError
from toolkit.words import counted, coverage

METHOD: Final = (
    "Clopper-Pearson carried to three outcomes by Dirichlet quantiles (Learned-Miller & Thomas 2019)"
)


@dataclass(frozen=True)
class OneShotScore:
    """The score of one one-shot test.

    Parameters
    ----------
    i1, i0, h, n
        Expected answers, unexpected answers, hallucinations, and experiments in all.
    raw
        The weighted mean of the shares, without unit.
    score
        ``max(0, raw)``.
    low, high
        Interval of ``raw``.
    confidence
        Coverage of the interval.
    method
        How the interval was made.
    weights
        Weight of an expected answer, an unexpected answer and a hallucination.
    """

    i1: int
    i0: int
    h: int
    n: int
    raw: float
    score: float
    low: float
    high: float
    confidence: float
    method: str
    weights: tuple[float, float, float]

    def sentence(self) -> str:
        """Return the score in words ready for the thesis, rounded only here."""
        return (
            f"score {self.score:.3f}, raw {self.raw:.3f} with {coverage(self.confidence)} interval "
            f"[{self.low:.3f}, {self.high:.3f}], {self.method}; n = {counted(self.n, 'experiments')}: "
            f"{self.i1} expected, {self.i0} unexpected, {self.h} hallucinated."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain JSON types."""
        return {
            "i1": self.i1,
            "i0": self.i0,
            "h": self.h,
            "n": self.n,
            "raw": self.raw,
            "score": self.score,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "method": self.method,
            "weights": list(self.weights),
        }


def one_shot_score(
    expected: int,
    unexpected: int,
    hallucinated: int,
    weights: Sequence[float] = (1.0, 0.0, -0.5),
    confidence: float = 0.95,
) -> OneShotScore:
    r"""Score a one-shot test: :math:`raw = (w_0 I_1 + w_1 I_0 + w_2 H) / N`, :math:`score = \max(0, raw)`.

    Seed 000 writes the third term with :math:`I_1`; by the ruling of the design it is H / N.

    The interval belongs to :math:`\theta = \sum_c w_c p_c`, where p are the unknown shares of the three
    outcomes. Its upper end is the :math:`1 - \alpha/2` quantile of :math:`\sum_c w_c q_c` with q from a
    Dirichlet distribution whose parameters are the counts, plus one for the outcome of the highest weight;
    its lower end is the :math:`\alpha/2` quantile with the one added to the outcome of the lowest weight.
    With two outcomes this is the Clopper-Pearson interval. Unlike a bootstrap of the counts, which resamples
    ten equal answers into ten equal answers, it keeps its width for 10 / 0 / 0. For two outcomes its coverage
    is proven, for three it is conjectured; enumerating every outcome of N = 1, 2, 3, 5, 10 and 20 on a grid
    of 1,891 shares with the weights of the seed, it covers at least 95.8 % and misses at most 2.5 % on either
    side.

    Parameters
    ----------
    expected, unexpected, hallucinated
        Counts of the three outcomes, together N.
    weights
        Weight of each outcome, in the same order.
    confidence
        Coverage of the interval, between 0 and 1.

    Returns
    -------
    OneShotScore

    Raises
    ------
    InputError
        If a count is negative or no whole number, N is 0, or the weights are not three finite numbers.

    References
    ----------
    Learned-Miller & Thomas (2019), A new confidence interval for the mean of a bounded random variable,
    arXiv:1905.06208. Clopper & Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> result = one_shot_score(6, 1, 3)
    >>> round(result.raw, 2), round(result.low, 3), round(result.high, 3)
    (0.45, -0.046, 0.835)
    >>> one_shot_score(0, 0, 10).score
    0.0
    """
    counts = [
        _count("expected", expected),
        _count("unexpected", unexpected),
        _count("hallucinated", hallucinated),
    ]
    total = sum(counts)
    if total == 0:
        raise InputError("one-shot score: N is 0; give at least one experiment")
    if not 0 < confidence < 1:
        raise InputError(f"confidence: {confidence!r} is not between 0 and 1; 0.95 is usual")
    w = _weights(weights)
    raw = sum(weight * count for weight, count in zip(w, counts, strict=True)) / total
    tail = (1 - confidence) / 2
    return OneShotScore(
        i1=counts[0],
        i0=counts[1],
        h=counts[2],
        n=total,
        raw=raw,
        score=max(0.0, raw),
        low=_weighted_dirichlet_quantile(w, _add_one(counts, w.index(min(w))), tail),
        high=_weighted_dirichlet_quantile(w, _add_one(counts, w.index(max(w))), 1 - tail),
        confidence=confidence,
        method=METHOD,
        weights=w,
    )


def _count(name: str, value: Any) -> int:
    whole = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if not whole or not math.isfinite(value) or value < 0 or value != int(value):
        raise InputError(f"one-shot score: {name} is {value!r}; give a whole number, 0 or more")
    return int(value)


def _weights(weights: Sequence[float]) -> tuple[float, float, float]:
    message = f"one-shot score: weights are {weights!r}; give three finite numbers"
    try:
        w0, w1, w2 = (float(weight) for weight in weights)
    except (TypeError, ValueError):
        raise InputError(message) from None
    if not all(map(math.isfinite, (w0, w1, w2))):
        raise InputError(message)
    return w0, w1, w2


def _add_one(counts: Sequence[int], position: int) -> list[int]:
    return [count + (index == position) for index, count in enumerate(counts)]


def _weighted_dirichlet_quantile(weights: Sequence[float], counts: Sequence[int], share: float) -> float:
    """Return the quantile of the weighted sum of Dirichlet shares; an outcome with parameter 0 has share 0.

    With the weights in rising order the sum is w_a + (w_b - w_a) Q1 + (w_c - w_b) Q1 R, where Q1 (not the
    lowest outcome) and R (the highest among the rest) are independent beta variables, so its distribution is
    one integral.
    """
    parameters: dict[float, int] = {}
    for weight, count in sorted(zip(weights, counts, strict=True)):
        if count:
            parameters[weight] = parameters.get(weight, 0) + count
    values, a = list(parameters), list(parameters.values())
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        return values[0] + (values[1] - values[0]) * float(stats.beta.ppf(share, a[1], a[0]))
    nodes, node_weights = _quadrature()
    q1 = special.betaincinv(a[1] + a[2], a[0], nodes)
    low, middle, high = values

    def excess(threshold: float) -> float:
        rest = np.clip((threshold - low - (middle - low) * q1) / ((high - middle) * q1), 0, 1)
        return float(node_weights @ special.betainc(a[2], a[1], rest)) - share

    return float(optimize.brentq(excess, low, high, xtol=1e-10))


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights on (0, 1); 400 of them place a bound within 0.00001."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return (nodes + 1) / 2, weights / 2
