"""A linear mixed model of blocks that share one covariance: fixed effects and variances by REML."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

_LARGEST: Final = 1 - 1e-8
_STARTS: Final = (0.3, 0.05)
_TOLERANCE: Final = 1e-7


@dataclass(frozen=True)
class BlockFit:
    """A fitted model."""

    effects: np.ndarray
    covariance: np.ndarray
    variances: np.ndarray
    converged: bool


def fit_blocks(values: np.ndarray, here: np.ndarray, design: np.ndarray, kernels: np.ndarray) -> BlockFit:
    r"""Fit :math:`y_b = X_b \beta + u_b`, :math:`u_b \sim N(0, \sigma^2 V_b)` with :math:`V = I + \sum_k \theta_k K_k`.

    Blocks are independent and share V; of a block with gaps the rows and columns of V that it has are used. Beta and
    :math:`\sigma^2` are profiled out, and
    :math:`\sum_b \ln |V_b| + \ln |X' V^{-1} X| + (N - p) \ln r' V^{-1} r` is minimised over
    :math:`\theta_k / (1 + \theta_k) \in [0, 1)`, so that a variance of 0 is a proper end and not a failure.

    References
    ----------
    Patterson & Thompson (1971), Biometrika 58, 545-554. Bates et al. (2015), Journal of Statistical Software 67(1),
    section 3, for the profiled criterion.

    Examples
    --------
    >>> y = np.array([[1.0, 2.0], [2.0, 3.5], [4.0, 4.5], [3.0, 4.0]])
    >>> x = np.tile(np.array([[1.0, 0.0], [1.0, 1.0]]), (4, 1, 1))
    >>> fit = fit_blocks(y, np.ones((4, 2), dtype=bool), x, np.ones((1, 2, 2)))
    >>> fit.effects.round(3).tolist(), fit.variances.round(3).tolist()
    ([2.5, 1.0], [1.333, 0.083])
    """
    from scipy import optimize

    gaps = ~here
    y = np.where(here, values, 0.0)
    x = np.where(here[:, :, None], design, 0.0)
    spread = float(y[here].std()) or 1.0
    y, flat = y / spread, x.reshape(-1, x.shape[2])
    pairs = here[:, :, None] & here[:, None, :]
    degrees = int(here.sum()) - x.shape[2]

    def solve(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:
        full = np.eye(here.shape[1]) + np.tensordot(theta, kernels, axes=1)
        # Cells that are not there become 1 on the diagonal and meet only zeros.
        v = np.where(pairs, full, 0.0) + gaps[:, :, None] * np.eye(here.shape[1])
        inverse = np.linalg.inv(v)
        information = flat.T @ (inverse @ x).reshape(flat.shape)
        effects = np.linalg.solve(information, flat.T @ (inverse @ y[:, :, None]).ravel())
        residual = y - x @ effects
        squares = float(np.einsum("bc,bcd,bd->", residual, inverse, residual))
        return inverse, information, effects, squares, residual

    def criterion(share: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the criterion and its slope; the derivative of an inverse is - inverse K inverse."""
        inverse, information, _, squares, residual = solve(share / (1 - share))
        size = float(np.linalg.slogdet(information)[1]) - float(np.linalg.slogdet(inverse)[1].sum())
        pulled = (inverse @ residual[:, :, None])[:, :, 0]
        whitened = inverse @ x
        spread_x = np.einsum("bcp,bdp->cd", whitened @ np.linalg.inv(information), whitened)
        inside = np.where(pairs, inverse, 0.0).sum(axis=0) - spread_x - degrees / squares * pulled.T @ pulled
        slope = np.tensordot(kernels, inside, axes=2) / (1 - share) ** 2
        return size + degrees * math.log(squares), slope

    bounds = [(0.0, _LARGEST)] * len(kernels)
    found = [
        optimize.minimize(
            criterion,
            np.full(len(kernels), start),
            method="L-BFGS-B",
            bounds=bounds,
            jac=True,
            options={"ftol": 1e-14, "gtol": 1e-9},
        )
        for start in _STARTS
    ]
    best = min(found, key=lambda end: float(end.fun))
    theta = best.x / (1 - best.x)
    _, information, effects, squares, _ = solve(theta)
    variance = squares / degrees
    apart = max(float(end.fun) for end in found) - float(best.fun)
    return BlockFit(
        effects * spread,
        np.linalg.inv(information) * variance * spread**2,
        np.append(theta, 1.0) * variance * spread**2,
        bool(apart <= _TOLERANCE * max(1.0, degrees)),
    )
