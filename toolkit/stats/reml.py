"""Restricted maximum likelihood of variance components, for any crossed and nested design with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from toolkit.stats.reml_blocks import Blocks, State, likelihood_state

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 30
_CONVERGED: Final = 1e-10
"""Largest change of a component, as a share of the total variance, at which scoring stops."""
_UNIDENTIFIED: Final = 1e-9
"""Smallest eigenvalue of the scaled information at which two components cannot be told apart."""


@dataclass(frozen=True)
class Reml:
    """REML components, their covariance, those held at 0, and why there are none."""

    components: np.ndarray
    covariance: np.ndarray
    held: tuple[int, ...] = ()
    problem: str = ""


def reml(
    data: Blocks,
    names: Sequence[str],
    weights: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> Reml:
    """Return the components that maximise the restricted likelihood, by Newton and Fisher scoring with step halving.

    The covariance of the scores is one block per level of the first factor, plus few columns for the effects
    without it, so that a step costs little more than one small matrix per pattern of gaps. Components may turn
    negative as long as the covariance stays positive definite, so on balanced data they are the ANOVA estimates.
    Where the likelihood has no maximum there, negative ones are held at 0, and the result names them.

    References
    ----------
    Patterson & Thompson (1971), Biometrika 58, 545-554. Searle, Casella & McCulloch (1992), Variance Components,
    section 6.6. Gilmour, Thompson & Cullis (1995), Biometrics 51, 1440-1450, for the observed information.

    Examples
    --------
    >>> from toolkit.stats.reml_blocks import blocks
    >>> scores = np.array([[9.0, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    >>> found = reml(blocks(scores, [(0,), (1,), (0, 1)]), ["target", "judge", "residual"])
    >>> [round(float(one), 3) for one in found.components]
    [2.556, 5.244, 1.019]
    """
    counts = np.ones(len(data.values)) if weights is None else np.asarray(weights, dtype=float)
    total = _spread(data, counts)
    even = np.full(len(data.spans), total / len(data.spans))
    state = likelihood_state(data, counts, even)
    if state is None:
        return _failed("the scores leave no variance to share out")
    confounded = _confounded(state.information, names)
    if confounded:
        return _failed(confounded)
    free = np.ones(len(even), dtype=bool)
    point = even if start is None else start
    # With gaps the likelihood may grow without end where a negative component makes the covariance singular;
    # then the most negative one is held at 0, which is REML with that constraint.
    while True:
        found = _climb(data, counts, point, free, total)
        if found is not None:
            point, state, converged = found
            covariance = _inverse(state.information) if converged else None
            if covariance is not None:
                return Reml(point, covariance, tuple(int(one) for one in np.flatnonzero(~free)))
        below = [int(one) for one in np.flatnonzero(free[:-1] & (point[:-1] <= 0))] if found else []
        if not below and (found is not None or start is None):
            return _failed("REML ends where the covariance is singular: no residual variance is left")
        if below:
            free[below[int(np.argmin(point[below]))]] = False
        start, point = None, np.where(free, even, 0.0)


def _climb(
    data: Blocks, counts: np.ndarray, point: np.ndarray, free: np.ndarray, total: float
) -> tuple[np.ndarray, State, bool] | None:
    """Climb the likelihood over the free components; None where the start is not possible."""
    state = likelihood_state(data, counts, point)
    if state is None:
        return None
    for _ in range(_MOST_STEPS):
        change = np.zeros(len(point))
        change[free] = _direction(state, free)
        if float(np.abs(change).max()) <= _CONVERGED * total:
            return point, state, True
        found = _next(data, counts, point, change, state.likelihood)
        if found is None:
            return point, state, False
        point, state = found
    return point, state, False


def _direction(state: State, free: np.ndarray) -> np.ndarray:
    """Return Newton's step where the likelihood is concave, else the step of Fisher scoring."""
    score = state.score[free]
    for matrix in (state.observed, state.information):
        inverse = _inverse(matrix[np.ix_(free, free)])
        if inverse is not None:
            return np.asarray(inverse @ score)
    return np.zeros(len(score))


def _next(
    data: Blocks, counts: np.ndarray, point: np.ndarray, change: np.ndarray, likelihood: float
) -> tuple[np.ndarray, State] | None:
    """Go along a step as far as the likelihood grows."""
    for halving in range(_MOST_HALVINGS):
        candidate = point + change / 2**halving
        state = likelihood_state(data, counts, candidate)
        if state is not None and state.likelihood >= likelihood - 1e-9 * (1 + abs(likelihood)):
            return candidate, state
    return None


def _inverse(matrix: np.ndarray) -> np.ndarray | None:
    """Return the inverse of a positive definite matrix, or None; scaled, so that units do not matter."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not np.isfinite(matrix).all() or size.min() <= 0:
        return None
    scaled = matrix / np.outer(size, size)
    if float(np.linalg.eigvalsh(scaled)[0]) <= _UNIDENTIFIED:
        return None
    return np.asarray(np.linalg.inv(scaled) / np.outer(size, size))


def _confounded(information: np.ndarray, names: Sequence[str]) -> str:
    """Name the components that the data cannot tell apart; empty where they can."""
    size = np.sqrt(np.diag(information))
    if not (np.isfinite(information).all() and size.min() > 0):
        return "the design holds no information on a component"
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    if values[0] > _UNIDENTIFIED:
        return ""
    mixed = [name for name, share in zip(names, np.abs(vectors[:, 0]), strict=True) if share > 0.1]
    return f"the design cannot tell these components apart: {'; '.join(mixed)}"


def _spread(data: Blocks, counts: np.ndarray) -> float:
    there = data.masks[data.pattern] * counts[:, None]
    mean = float((there * data.values).sum() / there.sum())
    return float((there * (data.values - mean) ** 2).sum() / there.sum())


def _failed(problem: str) -> Reml:
    return Reml(np.empty(0), np.empty((0, 0)), (), problem)
