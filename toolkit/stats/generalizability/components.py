"""Variance components by mean squares or REML: before and after truncation, with interval, share and degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import numpy as np
import pandas as pd

from toolkit.stats.generalizability.design import ComponentsTable, Design, components_table
from toolkit.stats.generalizability.reml import NoMaximumError, blocks, reml
from toolkit.stats.result import ROUNDING, Estimate, Result
from toolkit.words import counted

EMS: Final = "expected mean squares"
REML: Final = "REML"
GENERALIZED: Final = "generalized interval from chi-squares of the mean squares (Weerahandi 1993)"
DRAWS: Final = 10_000
UNIT: Final = "squared score points"
_MANY_AT_AN_END: Final = 0.2


@dataclass(frozen=True)
class Fit:
    """Variance components before truncation, and the independent mean squares they come from."""

    method: str
    raw: np.ndarray = field(default_factory=lambda: np.empty(0))
    mean_squares: np.ndarray = field(default_factory=lambda: np.empty(0))
    degrees: np.ndarray = field(default_factory=lambda: np.empty(0))
    coefficients: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    problem: str = ""


@dataclass(frozen=True)
class VarianceComponents(Result):
    """The variance of a score, shared out among the factors of the study."""

    components: tuple[Estimate, ...]
    raw: Mapping[str, float | None]
    shares: Mapping[str, float | None]
    degrees: Mapping[str, float | None]
    method: str
    notes: tuple[str, ...]
    cautions: tuple[str, ...]
    asked: Design = field(repr=False)
    table: ComponentsTable = field(repr=False)
    fit: Fit = field(repr=False)
    draws: np.ndarray | None = field(repr=False, default=None)
    about = "effect"
    apart = ("cautions", "asked", "table", "fit", "draws")

    @property
    def problem(self) -> str:
        """Why there are no components, or an empty text."""
        return self.fit.problem

    def rows(self) -> list[tuple[str, Estimate]]:
        """Return every component with its name."""
        return [(component.name, component) for component in self.components]

    def frame(self) -> pd.DataFrame:
        """Return one row per effect: the columns of ``toolkit.stats.result``, then raw, share and degrees."""
        frame = super().frame()
        for name, values in (("raw", self.raw), ("share", self.shares), ("degrees", self.degrees)):
            frame[name] = frame["effect"].map(values).astype("float64")
        return frame

    def sentence(self) -> str:
        """Return the shares of the components in words ready for the thesis."""
        if self.problem:
            return f"Variance components: not estimable ({self.problem})."
        parts = ", ".join(f"{name} {share:.1%}" for name, share in self.shares.items() if share is not None)
        below = [name for name, value in self.raw.items() if value is not None and value < 0]
        text = f"Of the variance of a single score ({self.method}), {parts}."
        return text + (f" Negative before truncation: {', '.join(below)}." if below else "")


def variance_components(frame: pd.DataFrame, design: Design, *, seed: int = 0) -> VarianceComponents:
    """Estimate the variance components of a design, all factors random.

    A complete table is analysed by its mean squares, one with gaps by REML. The intervals are generalized ones and
    rest on the normal model: with a quarter of the scores at the ceiling of the scale, lenient judges have less
    variance left, and three judges cannot show how much. A note says so from a fifth on.

    References
    ----------
    Brennan (2001), Generalizability Theory, chapters 3 and 6.

    Examples
    --------
    >>> scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    >>> found = variance_components(
    ...     pd.DataFrame(rows, columns=["answer", "judge", "score"]), Design(("answer", "judge"))
    ... )
    >>> {name: round(value, 3) for name, value in found.raw.items()}
    {'answer': 2.556, 'judge': 5.244, 'answer x judge, residual': 1.019}
    """
    table = components_table(frame, design)
    fit = fit_components(table)
    names = effect_names(table.design)
    empty = [Estimate(name, None, unit=UNIT, n=table.n, missing=table.missing) for name in names]
    if fit.problem:
        nothing: dict[str, float | None] = dict.fromkeys(names)
        components = tuple(estimate.not_estimable(fit.problem) for estimate in empty)
        return VarianceComponents(
            components, nothing, nothing, nothing, fit.method, table.notes, (), design, table, fit
        )
    vanishes = fit.mean_squares.max(initial=0.0) <= 0 or fit.mean_squares[-1] <= 0
    draws = None if vanishes else generalized_draws(fit, seed=seed)
    square = table.scale**2
    cautions = _cautions(table, design)
    nonnegative = np.maximum(fit.raw, 0.0)

    def component(index: int) -> Estimate:
        raw = float(fit.raw[index]) * square
        note = f"the estimate is {raw:.3g} before truncation at 0" if raw < 0 else ""
        estimate = replace(empty[index], estimate=max(raw, 0.0), method=GENERALIZED, note=note)
        if draws is None:
            return estimate.no_interval("the residual mean square is 0")
        low, high = (max(end, 0.0) for end in interval_of(draws[:, index] * square))
        return replace(estimate, low=low, high=high)

    def named(values: np.ndarray) -> dict[str, float | None]:
        return dict(zip(names, map(float, values), strict=True))

    return VarianceComponents(
        tuple(map(component, range(len(names)))),
        named(fit.raw * square),
        named(nonnegative / nonnegative.sum()),
        named(fit.degrees),
        fit.method,
        (*_notes(table, fit), *cautions),
        tuple(cautions),
        design,
        table,
        fit,
        draws,
    )


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
        return Fit(EMS, problem=table.problem)
    return ems_fit(table) if table.complete else reml_fit(table)


def ems_fit(table: ComponentsTable) -> Fit:
    r"""Return the ANOVA estimates of a balanced table, all effects random.

    The expected mean square of effect :math:`\alpha` is :math:`\sum_{\beta \supseteq \alpha} \sigma^2(\beta)
    \prod_{f \notin \beta} n_f` (Cornfield & Tukey 1956; Brennan 2001, equation 3.17), a triangular system.
    """
    effects, levels = table.design.effects, table.levels
    squares, degrees = _square_sums(table.values, table.design)
    squares[squares <= ROUNDING * squares.sum()] = 0.0
    mean_squares = squares / degrees
    cells = [float(np.prod([n for name, n in levels.items() if name not in effect])) for effect in effects]
    coefficients = np.array(
        [
            [size if beta >= alpha else 0.0 for beta, size in zip(effects, cells, strict=True)]
            for alpha in effects
        ]
    )
    raw = np.linalg.solve(coefficients, mean_squares)
    # A difference of mean squares that is only rounding is exactly 0.
    raw[np.abs(raw) * np.diag(coefficients) <= ROUNDING * mean_squares.max()] = 0.0
    return Fit(EMS, raw, mean_squares, degrees, coefficients)


def _square_sums(values: np.ndarray, design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of squares and degrees of freedom of every effect of a balanced design.

    The crossed sums of squares of all subsets of factors are orthogonal; that of a nested effect is the sum of
    those whose closure it is, e.g. repeat:base takes repeat and base x repeat (Brennan 2001, section 3.2).
    """
    effects = design.effects
    index_of = {effect: index for index, effect in enumerate(effects)}
    squares, degrees = np.zeros(len(effects)), np.zeros(len(effects))
    axes = range(values.ndim)
    parts: dict[tuple[int, ...], np.ndarray] = {(): np.asarray(values.mean(keepdims=True))}
    for size in range(1, values.ndim + 1):
        for subset in combinations(axes, size):
            means = values.mean(axis=tuple(axis for axis in axes if axis not in subset), keepdims=True)
            lower = [part for key, part in parts.items() if set(key) < set(subset)]
            parts[subset] = means - sum(lower[1:], start=lower[0])
            effect = index_of[design.closure(design.factors[axis] for axis in subset)]
            squares[effect] += float((parts[subset] ** 2).sum()) * values.size / means.size
            degrees[effect] += float(np.prod([values.shape[axis] - 1 for axis in subset]))
    return squares, degrees


def reml_fit(table: ComponentsTable) -> Fit:
    """Return the REML estimates of a table with gaps, and uncorrelated combinations that stand for mean squares.

    The covariance of the components is factored as U D U' with U unit upper triangular, so that the forms
    are inv(U) @ components, each with 2 form^2 / variance degrees of freedom (Satterthwaite 1946). In a
    balanced design they are the mean squares, divided by a constant, with their own degrees of freedom.
    """
    design = table.design
    axes = [tuple(i for i, name in enumerate(design.factors) if name in effect) for effect in design.effects]
    try:
        components, covariance = reml(
            blocks(table.values, axes), [design.name(effect) for effect in design.effects]
        )
    except NoMaximumError as error:
        return Fit(REML, problem=str(error))
    lower = np.linalg.cholesky(covariance[::-1, ::-1])[::-1, ::-1]
    coefficients = np.linalg.inv(lower / np.diag(lower))
    forms = coefficients @ components
    degrees = 2 * forms**2 / np.diag(lower) ** 2
    counts = []
    for effect in design.effects:
        parents = {parent for name in effect for parent in design.nested.get(name, ())}
        counts.append(float(np.prod([table.levels[name] - (name not in parents) for name in effect])))
    # Satterthwaite's formula leaves a form near zero with next to no degrees. Forms of effects over all bases
    # (judges) rest on level means that gaps hardly touch: they keep the degrees of the design.
    over_all = np.array([design.factors[0] not in effect for effect in design.effects])
    degrees = np.where(over_all, counts, np.minimum(degrees, counts))
    return Fit(REML, components, forms, degrees, coefficients)


def generalized_draws(fit: Fit, seed: int = 0) -> np.ndarray:
    r"""Return draws of the components from the generalized pivots of their mean squares.

    Under a normal model each mean square is an independent :math:`\lambda \chi^2_\nu / \nu`, so
    :math:`MS\, \nu / \chi^2_\nu` is a pivot for its expectation; the components are their linear
    combinations, and the quantiles of any function of them are its generalized interval. All factors are
    drawn anew, the judges too, so that three judges give the width that three judges deserve.

    References
    ----------
    Weerahandi (1993), Journal of the American Statistical Association 88, 899-905. Hannig, Iyer & Patterson
    (2006), ibid. 101, 254-269. Burdick, Borror & Montgomery (2005), Design and Analysis of Gauge R&R Studies.
    """
    chance = np.random.default_rng(seed)
    chi_squares = chance.chisquare(fit.degrees, size=(DRAWS, len(fit.degrees)))
    expected = np.maximum(fit.mean_squares, 0.0) * fit.degrees / np.maximum(chi_squares, 1e-300)
    return np.linalg.solve(fit.coefficients, expected.T).T


def effect_names(design: Design) -> tuple[str, ...]:
    """Return the names of the effects of a design, the last one with the error it cannot be told from."""
    names = [design.name(effect) for effect in design.effects]
    return (*names[:-1], f"{names[-1]}, residual")


def interval_of(draws: np.ndarray) -> tuple[float, float]:
    """Return the ends of the 95 % interval of draws, at equal tails."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _notes(table: ComponentsTable, fit: Fit) -> tuple[str, ...]:
    notes = list(table.notes)
    if fit.method == REML:
        notes.append(
            f"{counted(table.missing, 'scores')} missing or cells unequal in number, so REML was used"
        )
    below = [name for name, value in zip(effect_names(table.design), fit.raw, strict=True) if value < 0]
    if below:
        notes.append(f"negative before truncation at 0: {', '.join(below)}")
    return tuple(notes)


def _cautions(table: ComponentsTable, requested: Design) -> list[str]:
    """Say what no number of this table shows: factors of one level, and scores at an end of the scale."""
    single = [name for name in requested.factors if name not in table.design.factors]
    # What repeats within a judge are its judgements of one answer, and not the runs of the study.
    judged_again = "judge" in requested.nested.get("repeat", ())
    cautions = [
        "each judge judged an answer once, so what judging it again would change cannot be told"
        if name == "repeat" and judged_again
        else f"one {name} only, so what it adds cannot be told"
        for name in single
    ]
    values = table.values[np.isfinite(table.values)]
    for word, end in (("highest", values.max()), ("lowest", values.min())):
        share = float(np.isclose(values, end).mean())
        if share >= _MANY_AT_AN_END and np.unique(values).size > 2:
            cautions.append(f"{share:.0%} of the scores are the {word} one: intervals may be too narrow")
    return cautions
