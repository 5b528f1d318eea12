"""The cost-quality front: which points no other beats on both, and how firmly."""

from __future__ import annotations

import numpy as np

from toolkit.stats.result import ROUNDING


def on_front(weights: np.ndarray, quality: np.ndarray, price: np.ndarray) -> np.ndarray:
    r"""Return which points no other point beats, for each row of weights over bases.

    Point i is beaten by j if :math:`q_j \ge q_i` and :math:`c_j \le c_i` with one of the two strict, where q and c are
    weighted means over the bases that have the point.

    Examples
    --------
    >>> on_front(np.ones((1, 2)), np.array([[3.0, 4.0, 3.5], [4.0, 4.0, 3.5]]), np.array([[1.0, 2.0, 2.0]] * 2))
    array([[ True,  True, False]])
    """
    here = np.isfinite(quality).astype(float)
    total = weights @ here
    drawn = np.where(total > 0, total, 1.0)
    absent = total == 0
    q = np.where(absent, -np.inf, weights @ np.nan_to_num(quality) / drawn)
    c = np.where(absent, np.inf, weights @ np.nan_to_num(price) / drawn)
    # Means that differ by rounding only are equal, or the order of summation would decide who is on the front.
    slack_q = ROUNDING * np.abs(np.nan_to_num(quality)).max(initial=0.0)
    slack_c = ROUNDING * np.nan_to_num(price).max(initial=0.0)
    kept = ~absent
    for other in range(q.shape[1]):
        qo, co = q[:, [other]], c[:, [other]]
        with np.errstate(
            invalid="ignore"
        ):  # two absent points: infinity less infinity is no reason to dominate
            better, cheaper = qo - q, c - co
        beats = (better >= -slack_q) & (cheaper >= -slack_c) & ((better > slack_q) | (cheaper > slack_c))
        kept &= ~beats
    return np.asarray(kept)


def front_probabilities(
    quality: np.ndarray, price: np.ndarray, resamples: int, seed: int
) -> list[float | None]:
    """Return the share of resamples of bases in which each point is on the front.

    Bases are drawn whole, with replacement, and for all points at once, so that what a base does to two points alike
    does not part them.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 8.

    Examples
    --------
    >>> front_probabilities(np.array([[3.0, 2.0], [4.0, 3.0]]), np.ones((2, 2)), resamples=200, seed=1)
    [1.0, 0.0]
    """
    bases, points = quality.shape
    if bases < 2:
        return [None] * points
    drawn = np.random.default_rng(seed).multinomial(bases, np.full(bases, 1 / bases), size=resamples)
    shares = on_front(drawn.astype(float), quality, price).mean(axis=0)
    enough = np.isfinite(quality).sum(axis=0) >= 2
    return [float(share) if known else None for share, known in zip(shares, enough, strict=True)]
