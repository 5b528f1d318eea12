"""Restricted maximum likelihood of variance components, for any crossed and nested design with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_CHUNK: Final = 2_000_000  # numbers held at once while patterns of gaps are gone through
_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 30
_CONVERGED: Final = 1e-10
"""Largest change of a component, as a share of the total variance, at which scoring stops."""
_UNIDENTIFIED: Final = 1e-9
"""Smallest eigenvalue of the scaled information at which two components cannot be told apart."""


@dataclass(frozen=True)
class Blocks:
    """A table of scores as independent blocks, one per level of the first factor."""

    values: np.ndarray
    pattern: np.ndarray
    masks: np.ndarray
    within: tuple[np.ndarray, ...]
    across: np.ndarray
    spans: tuple[slice | None, ...]


@dataclass(frozen=True)
class State:
    """Log-likelihood, score, and expected and observed information at one point."""

    likelihood: float
    score: np.ndarray
    information: np.ndarray
    observed: np.ndarray


class NoMaximumError(ValueError):
    """The restricted likelihood has no maximum, or the design cannot tell its components apart."""


def reml(data: Blocks, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the components that maximise the restricted likelihood, and their covariance.

    They are found by Newton and Fisher scoring with step halving.

    The covariance of the scores is one block per level of the first factor, plus few columns for the effects
    without it, so that a step costs little more than one small matrix per pattern of gaps. Components may turn
    negative as long as the covariance stays positive definite, so on balanced data they are the ANOVA estimates.
    Where the likelihood has no maximum there, negative ones are held at 0.

    References
    ----------
    Patterson & Thompson (1971), Biometrika 58, 545-554. Searle, Casella & McCulloch (1992), Variance Components,
    section 6.6. Gilmour, Thompson & Cullis (1995), Biometrics 51, 1440-1450, for the observed information.
    """
    observed = data.masks[data.pattern]
    mean = float((observed * data.values).sum() / observed.sum())
    total = float((observed * (data.values - mean) ** 2).sum() / observed.sum())
    point = even = np.full(len(data.spans), total / len(data.spans))
    state = _state(data, even)
    if state is None:
        raise NoMaximumError("the scores leave no variance to share out")
    _refuse_confounded(state.information, names)
    free = np.ones(len(even), dtype=bool)
    # With gaps the likelihood may grow without end where a negative component makes the covariance singular;
    # then the most negative one is held at 0, which is REML with that constraint.
    while True:
        climbed = _climb(data, point, free, total)
        if climbed is not None:
            point, state, converged = climbed
            covariance = _inverse(state.information) if converged else None
            if covariance is not None:
                return point, covariance
        below = [int(index) for index in np.flatnonzero(free[:-1] & (point[:-1] <= 0))] if climbed else []
        if not below:
            raise NoMaximumError("REML ends where the covariance is singular: no residual variance is left")
        free[below[int(np.argmin(point[below]))]] = False
        point = np.where(free, even, 0.0)


def _climb(
    data: Blocks, point: np.ndarray, free: np.ndarray, total: float
) -> tuple[np.ndarray, State, bool] | None:
    """Climb the likelihood over the free components, as far as each step lets it grow; None for no start."""
    state = _state(data, point)
    if state is None:
        return None
    for _ in range(_MOST_STEPS):
        change = np.zeros(len(point))
        change[free] = _direction(state, free)
        if float(np.abs(change).max()) <= _CONVERGED * total:
            return point, state, True
        floor = state.likelihood - 1e-9 * (1 + abs(state.likelihood))
        for halving in range(_MOST_HALVINGS):
            candidate = point + change / 2**halving
            further = _state(data, candidate)
            if further is not None and further.likelihood >= floor:
                break
        else:
            return point, state, False
        point, state = candidate, further
    return point, state, False


def _direction(state: State, free: np.ndarray) -> np.ndarray:
    """Return Newton's step where the likelihood is concave, else the step of Fisher scoring."""
    score = state.score[free]
    for matrix in (state.observed, state.information):
        inverse = _inverse(matrix[np.ix_(free, free)])
        if inverse is not None:
            return np.asarray(inverse @ score)
    return np.zeros(len(score))


def _inverse(matrix: np.ndarray) -> np.ndarray | None:
    """Return the inverse of a positive definite matrix, or None; scaled, so that units do not matter."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not np.isfinite(matrix).all() or size.min() <= 0:
        return None
    scaled = matrix / np.outer(size, size)
    if float(np.linalg.eigvalsh(scaled)[0]) <= _UNIDENTIFIED:
        return None
    return np.asarray(np.linalg.inv(scaled) / np.outer(size, size))


def _refuse_confounded(information: np.ndarray, names: Sequence[str]) -> None:
    """Name the components that the data cannot tell apart."""
    size = np.sqrt(np.diag(information))
    if not (np.isfinite(information).all() and size.min() > 0):
        raise NoMaximumError("the design holds no information on a component")
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    if values[0] <= _UNIDENTIFIED:
        mixed = [name for name, share in zip(names, np.abs(vectors[:, 0]), strict=True) if share > 0.1]
        raise NoMaximumError(f"the design cannot tell these components apart: {'; '.join(mixed)}")


def blocks(values: np.ndarray, effects: Sequence[tuple[int, ...]]) -> Blocks:
    """Return a table of scores as blocks for ``reml``."""
    table = values.reshape(len(values), -1)
    observed = ~np.isnan(table)
    masks, pattern = np.unique(observed, axis=0, return_inverse=True)
    cells = np.indices(values.shape[1:]).reshape(values.ndim - 1, -1)
    within: list[np.ndarray] = []
    columns: list[np.ndarray] = [np.ones((cells.shape[1], 1))]
    spans: list[slice | None] = []
    for effect in effects:
        crossed = cells[[axis - 1 for axis in effect if axis > 0]]
        if 0 in effect:
            within.append((crossed[:, :, None] == crossed[:, None, :]).all(axis=0).astype(float))
            spans.append(None)
            continue
        _, level = np.unique(crossed, axis=1, return_inverse=True)
        start = sum(column.shape[1] for column in columns)
        columns.append(np.eye(int(level.max()) + 1)[level.ravel()])
        spans.append(slice(start, start + columns[-1].shape[1]))
    return Blocks(
        np.where(observed, table, 0.0),
        pattern.ravel(),
        masks,
        tuple(within),
        np.hstack(columns),
        tuple(spans),
    )


def _state(data: Blocks, point: np.ndarray) -> State | None:
    """Return likelihood, score and information; None where the covariance is not positive definite.

    With D the block-diagonal part, W the columns across blocks (the mean first) and P the projected inverse
    covariance, P = D^-1 - D^-1 W C W' D^-1, because the effects across blocks are a low-rank update of D.
    """
    inverses, logs = _inverses(data, point)
    if inverses is None or logs is None:
        return None
    repeats = np.bincount(data.pattern, minlength=len(data.masks)).astype(float)
    weighted = np.einsum("bij,bj->bi", inverses[data.pattern], data.values)
    across = data.across
    inner = np.einsum("p,pij->ij", repeats, inverses)
    s = across.T @ inner @ across
    core = _core(data, point, s)
    if core is None:
        return None
    c, log_across = core
    u = across.T @ weighted.sum(axis=0)
    quadratic = float((weighted * data.values).sum()) - float(u @ c @ u)
    likelihood = -0.5 * (float(repeats @ logs) + log_across + quadratic)
    residuals = weighted - np.einsum("bij,j->bi", inverses[data.pattern], across @ (c @ u))
    score, information = _derivatives(data, repeats, inverses, s, c, residuals)
    average = _average_information(data, inverses, c, residuals)
    return State(likelihood, score, information, 2 * average - information)


def _inverses(data: Blocks, point: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the inverse and log determinant of the block of every pattern of gaps."""
    diagonal = [value for value, span in zip(point, data.spans, strict=True) if span is None]
    total = sum(
        (value * share for value, share in zip(diagonal, data.within, strict=True)), start=np.zeros(1)
    )
    pairs = data.masks[:, :, None] & data.masks[:, None, :]
    # Cells without a score get variance 1 and no covariance, which adds nothing to the determinant.
    matrices = np.where(pairs, total, 0.0) + np.einsum("pi,ij->pij", ~data.masks, np.eye(data.masks.shape[1]))
    try:
        lower = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return None, None
    logs = 2 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return np.where(pairs, np.linalg.inv(matrices), 0.0), logs


def _core(data: Blocks, point: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Return the matrix C of the low-rank part and its share of the log determinant."""
    size = len(s) - 1
    prior = np.zeros(size)
    for value, span in zip(point, data.spans, strict=True):
        if span is not None:
            prior[span.start - 1 : span.stop - 1] = value
    update = np.eye(size) + s[1:, 1:] * prior
    values = np.linalg.eigvals(update).real if size else np.ones(1)
    if values.min() <= 0:
        return None
    c_levels = prior[:, None] * np.linalg.inv(update)
    t = np.concatenate([[1.0], -c_levels @ s[1:, 0]])
    a = float(s[0] @ t)
    if a <= 0:
        return None
    c = np.outer(t, t) / a
    c[1:, 1:] += (c_levels + c_levels.T) / 2
    return c, float(np.log(values).sum()) + float(np.log(a))


def _derivatives(
    data: Blocks,
    repeats: np.ndarray,
    inverses: np.ndarray,
    s: np.ndarray,
    c: np.ndarray,
    residuals: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the score and Fisher's information of the components (Searle et al. 1992, equations 6.90, 6.92)."""
    k = len(data.within)
    f, traces, pairs = _pattern_sums(data, repeats, inverses, c)
    diagonal = [index for index, span in enumerate(data.spans) if span is None]
    score, information = np.zeros(len(data.spans)), np.zeros((len(data.spans),) * 2)
    projected = s - s @ c @ s
    residual = np.eye(len(s)) - c @ s
    sums = data.across.T @ residuals.sum(axis=0)
    for i in range(k):
        fitted = float(((residuals @ data.within[i]) * residuals).sum())
        score[diagonal[i]] = fitted - (traces[i] - float(np.trace(c @ f[i])))
        for j in range(k):
            information[diagonal[i], diagonal[j]] = pairs[i, j] + float(np.trace(c @ f[i] @ c @ f[j]))
    for index, span in enumerate(data.spans):
        if span is None:
            continue
        score[index] = float((sums[span] ** 2).sum()) - float(np.trace(projected[span, span]))
        for j in range(k):
            crossed = float(np.trace((residual.T @ f[j] @ residual)[span, span]))
            information[index, diagonal[j]] = information[diagonal[j], index] = crossed
        for column_effect, columns in enumerate(data.spans):
            if columns is not None:
                information[index, column_effect] = float((projected[span, columns] ** 2).sum())
    return score / 2, information / 2


def _average_information(
    data: Blocks, inverses: np.ndarray, c: np.ndarray, residuals: np.ndarray
) -> np.ndarray:
    """Return y'P A_i P A_j P y / 2, of which twice less Fisher's is the observed information (Gilmour et al. 1995)."""
    sums, within = data.across.T @ residuals.sum(axis=0), iter(data.within)
    vectors = [
        residuals @ next(within)
        if span is None
        else np.broadcast_to(data.across[:, span] @ sums[span], residuals.shape)
        for span in data.spans
    ]
    block_inverses = inverses[data.pattern]
    weighted = [np.einsum("bij,bj->bi", block_inverses, vector) for vector in vectors]
    low = np.array([data.across.T @ part.sum(axis=0) for part in weighted])
    plain = [[float((v * w).sum()) for w in weighted] for v in vectors]
    return (np.array(plain) - low @ c @ low.T) / 2


def _pattern_sums(
    data: Blocks, repeats: np.ndarray, inverses: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum over the patterns of gaps what the score and the information need, some patterns at a time."""
    k, (cells, columns) = len(data.within), data.across.shape
    f, traces, pairs = np.zeros((k, columns, columns)), np.zeros(k), np.zeros((k, k))
    at_once = max(1, _CHUNK // (cells * cells * (k + 2)))
    for first in range(0, len(inverses), at_once):
        inverse, times = inverses[first : first + at_once], repeats[first : first + at_once]
        halves = inverse @ data.across
        shared = [inverse @ share for share in data.within]
        reached = [share @ halves for share in data.within]
        for i in range(k):
            f[i] += np.tensordot(times, halves.swapaxes(1, 2) @ reached[i], 1)
            traces[i] += float(times @ np.trace(shared[i], axis1=1, axis2=2))
            for j in range(i, k):
                total = float(times @ (shared[i] * shared[j].swapaxes(1, 2)).sum(axis=(1, 2)))
                low = np.tensordot(times, reached[i].swapaxes(1, 2) @ (shared[j] @ halves), 1)
                pairs[i, j] += total - 2 * float((c * low.T).sum())
                pairs[j, i] = pairs[i, j]
    return f, traces, pairs
