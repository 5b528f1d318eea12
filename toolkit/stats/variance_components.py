"""Variance components of a crossed or nested random design: from mean squares where it is balanced, else by REML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from toolkit.stats.components_design import Design, Effect
from toolkit.stats.components_table import ComponentsTable
from toolkit.stats.rating_matrix import NEGLIGIBLE
from toolkit.stats.reml import reml
from toolkit.stats.reml_blocks import blocks

EMS: Final = "expected mean squares"
REML: Final = "REML"


@dataclass(frozen=True)
class Fit:
    """Variance components before truncation, and the mean squares they come from."""

    design: Design
    levels: Mapping[str, int]
    raw: np.ndarray
    mean_squares: np.ndarray
    degrees: np.ndarray
    coefficients: np.ndarray
    method: str
    problem: str = ""


def fit_components(table: ComponentsTable) -> Fit:
    """Return the variance components of a table of scores: by mean squares if it is complete, else by REML.

    On a balanced table both give the same numbers. Neither is kept from turning negative: the ANOVA estimator
    is unbiased only so, and a negative component is information about the design.

    References
    ----------
    Brennan (2001), Generalizability Theory, sections 3.4 and 7.2. Searle, Casella & McCulloch (1992), Variance
    Components, chapters 4 and 6.
    """
    if table.problem:
        return _without(table, EMS, table.problem)
    return ems_fit(table) if table.complete else reml_fit(table)


def ems_fit(table: ComponentsTable) -> Fit:
    r"""Return the ANOVA estimates of a balanced table, all effects random.

    The expected mean square of effect :math:`\alpha` is :math:`\sum_{\beta \supseteq \alpha} \sigma^2(\beta)
    \prod_{f \notin \beta} n_f` (Cornfield & Tukey 1956; Brennan 2001, equation 3.17), a triangular system.
    """
    effects, levels = table.design.effects, table.levels
    squares, degrees = sums_of_squares(table.values, table.design)
    squares[squares <= NEGLIGIBLE * squares.sum()] = 0.0
    mean_squares = squares / degrees
    coefficients = expected_coefficients(effects, levels)
    raw = np.linalg.solve(coefficients, mean_squares)
    # A difference of mean squares that is only rounding is exactly 0.
    raw[np.abs(raw) * np.diag(coefficients) <= NEGLIGIBLE * mean_squares.max()] = 0.0
    return Fit(table.design, levels, raw, mean_squares, degrees, coefficients, EMS)


def sums_of_squares(values: np.ndarray, design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of squares and degrees of freedom of every effect of a balanced design.

    The crossed sums of squares of all subsets of factors are orthogonal; that of a nested effect is the sum of
    those whose closure it is, e.g. repeat:base takes repeat and base x repeat (Brennan 2001, section 3.2).
    """
    effects = design.effects
    where = {effect: index for index, effect in enumerate(effects)}
    squares, degrees = np.zeros(len(effects)), np.zeros(len(effects))
    axes = range(values.ndim)
    parts: dict[tuple[int, ...], np.ndarray] = {(): np.asarray(values.mean(keepdims=True))}
    for size in range(1, values.ndim + 1):
        for kept in combinations(axes, size):
            means = values.mean(axis=tuple(axis for axis in axes if axis not in kept), keepdims=True)
            lower = [part for key, part in parts.items() if set(key) < set(kept)]
            parts[kept] = means - sum(lower[1:], start=lower[0])
            effect = where[design.closure(design.factors[axis] for axis in kept)]
            squares[effect] += float((parts[kept] ** 2).sum()) * values.size / means.size
            degrees[effect] += float(np.prod([values.shape[axis] - 1 for axis in kept]))
    return squares, degrees


def expected_coefficients(effects: tuple[Effect, ...], levels: Mapping[str, int]) -> np.ndarray:
    """Return the matrix that takes components to expected mean squares of a balanced design."""
    cells = [float(np.prod([n for name, n in levels.items() if name not in effect])) for effect in effects]
    return np.array(
        [
            [size if beta >= alpha else 0.0 for beta, size in zip(effects, cells, strict=True)]
            for alpha in effects
        ]
    )


def reml_fit(table: ComponentsTable) -> Fit:
    """Return the REML estimates of a table with gaps, all effects random and independent."""
    effects = table.design.effects
    axes = [tuple(i for i, name in enumerate(table.design.factors) if name in effect) for effect in effects]
    found = reml(blocks(table.values, axes), [table.design.name(effect) for effect in effects])
    if found.problem:
        return _without(table, REML, found.problem)
    forms, degrees, coefficients = independent_forms(found.components, found.covariance)
    whole = np.array([_balanced_degrees(table, effect) for effect in effects])
    # Satterthwaite's formula leaves a form near zero with next to no degrees. Forms of effects over all bases
    # (judges) rest on level means that gaps hardly touch: they keep the degrees of the design.
    over_all = np.array([table.design.factors[0] not in effect for effect in effects])
    degrees = np.where(over_all, whole, np.minimum(degrees, whole))
    return Fit(table.design, table.levels, found.components, forms, degrees, coefficients, REML)


def independent_forms(
    components: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return uncorrelated combinations of REML components that stand for mean squares, and their degrees.

    The covariance of the components is factored as U D U' with U unit upper triangular, so that the forms
    are inv(U) @ components, each with 2 form^2 / variance degrees of freedom (Satterthwaite 1946). In a
    balanced design they are the mean squares, divided by a constant, with their own degrees of freedom.
    """
    lower = np.linalg.cholesky(covariance[::-1, ::-1])[::-1, ::-1]
    coefficients = np.linalg.inv(lower / np.diag(lower))
    forms = coefficients @ components
    return forms, 2 * forms**2 / np.diag(lower) ** 2, coefficients


def _balanced_degrees(table: ComponentsTable, effect: Effect) -> float:
    """Return the degrees of freedom that an effect has where there is no gap."""
    parents = {parent for name in effect for parent in table.design.nested.get(name, ())}
    return float(np.prod([table.levels[name] - (name not in parents) for name in effect]))


def _without(table: ComponentsTable, method: str, problem: str) -> Fit:
    empty = np.empty(0)
    return Fit(table.design, table.levels, empty, empty, empty, np.empty((0, 0)), method, problem)
