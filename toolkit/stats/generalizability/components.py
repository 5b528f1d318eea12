"""Variance components by mean squares: before and after truncation, with interval, share and degrees."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from toolkit.stats.generalizability.design import ComponentsTable, Design, Effect, components_table
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result

EMS = "expected mean squares"
UNEQUAL = "expected mean squares of cells of unequal size (Henderson 1953)"
GENERALIZED = "generalized interval from chi-squares of the mean squares (Weerahandi 1993)"
DRAWS = 10_000
UNIT = "squared score points"
_MANY_AT_AN_END = 0.2
_MANY_LEFT_OUT = 0.1


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True)
class Fit:
    """Variance components before truncation, and the mean squares they come from."""

    raw: np.ndarray = field(default_factory=_nothing)
    mean_squares: np.ndarray = field(default_factory=_nothing)
    degrees: np.ndarray = field(default_factory=_nothing)
    coefficients: np.ndarray = field(default_factory=_nothing)
    problem: str = ""


@dataclass(frozen=True)
class VarianceComponents(Result):
    """The variance of a score, shared out among the factors of the study."""

    components: Estimates
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

    A reply that lacks a judge is left out and counted. The intervals are generalized ones and rest on the normal model:
    with a quarter of the scores at the ceiling of the scale, lenient judges have less variance left, and three judges
    cannot show how much. A note says so from a fifth on.

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
    fit, method = fit_components(table), EMS if table.complete else UNEQUAL
    names = effect_names(table.design)
    empty = [Estimate(name, unit=UNIT, n=table.n, missing=table.missing) for name in names]
    if fit.problem:
        nothing: dict[str, float | None] = dict.fromkeys(names)
        components = tuple(estimate.not_estimable(fit.problem) for estimate in empty)
        return VarianceComponents(
            components, nothing, nothing, nothing, method, table.notes, (), design, table, fit
        )
    vanishes = fit.mean_squares.max(initial=0.0) <= 0 or fit.mean_squares[-1] <= 0
    draws = None if vanishes else generalized_draws(fit, seed=seed)
    square = table.scale**2
    cautions = _cautions(table, design)
    nonnegative = np.maximum(fit.raw, 0.0)

    def component(index: int) -> Estimate:
        raw = float(fit.raw[index]) * square
        note = f"the estimate is {raw:.3g} before truncation at 0" if raw < 0 else ""
        estimate = empty[index].valued(max(raw, 0.0), method=GENERALIZED, note=note)
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
        method,
        (*_notes(table, fit), *cautions),
        tuple(cautions),
        design,
        table,
        fit,
        draws,
    )


def fit_components(table: ComponentsTable) -> Fit:
    r"""Return the variance components of a table of scores from its mean squares, all effects random.

    With :math:`T_\alpha` the sum of squared total over size of the cells of effect :math:`\alpha`, the sum of squares
    of an effect is its T less those of all effects within it. In the expected :math:`T_\alpha` stands
    :math:`\sigma^2(\beta)` :math:`\sum n_{\alpha\beta} / n_\alpha` times, over all scores, with n the size of the cell
    that a score is in: linear equations for any numbers of scores (Henderson's method 1), of a complete table the
    triangular ones of Cornfield & Tukey (1956). Components may turn negative: the estimator is unbiased only so, and a
    negative one is information about the design.

    References
    ----------
    Henderson (1953), Biometrics 9, 226-252. Brennan (2001), Generalizability Theory, sections 3.4 and 7.1. Searle,
    Casella & McCulloch (1992), Variance Components, section 5.3.
    """
    if table.problem:
        return Fit(problem=table.problem)
    design, scored = table.design, np.isfinite(table.values)
    y, places = table.values[scored], np.nonzero(scored)
    subsets: list[Effect] = [frozenset(), *design.effects]
    totals, sizes, counts = [], {}, []
    for subset in subsets:
        cell = np.zeros(len(y), dtype=np.int64)
        for name, place, levels in zip(design.factors, places, scored.shape, strict=True):
            if name in subset:
                cell = cell * levels + place
        cell = np.unique(cell, return_inverse=True)[1]
        size = np.bincount(cell)
        totals.append(float((np.bincount(cell, y) ** 2 / size).sum()))
        counts.append(len(size))
        sizes[subset] = size[cell].astype(float)
    shares = [[(sizes[a | b] / sizes[a]).sum() for b in subsets[1:]] for a in subsets]
    rows = np.column_stack([totals, counts, shares])
    for index, subset in enumerate(subsets):
        rows[index] -= rows[[i for i in range(index) if subsets[i] < subset]].sum(axis=0)
    squares, degrees = rows[1:, 0], rows[1:, 1]
    if degrees.min() < 1 or np.linalg.matrix_rank(rows[1:, 2:]) < len(degrees):
        few = design.name(design.effects[int(np.argmin(degrees))])
        return Fit(problem=f"too few scores are left to distinguish {few} from the rest")
    squares[np.abs(squares) <= ROUNDING * np.abs(squares).sum()] = 0.0
    mean_squares, coefficients = squares / degrees, rows[1:, 2:] / degrees[:, None]
    raw = np.linalg.solve(coefficients, mean_squares)
    # A difference of mean squares that is only rounding is exactly 0.
    raw[np.abs(raw) * np.diag(coefficients) <= ROUNDING * mean_squares.max()] = 0.0
    return Fit(raw, mean_squares, degrees, coefficients)


def generalized_draws(fit: Fit, seed: int = 0) -> np.ndarray:
    r"""Return draws of the components from the generalized pivots of their mean squares.

    Under a normal model :math:`MS\, \nu / \chi^2_\nu` is a pivot for the expectation of a mean square. All factors are
    drawn anew, the judges too, so that three judges give the width that three judges deserve. Weerahandi (1993),
    Journal of the American Statistical Association 88, 899-905.
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
    if not table.complete:
        notes.append("cells are of unequal size, so mean squares have the weights of Henderson's method 1")
    below = [name for name, value in zip(effect_names(table.design), fit.raw, strict=True) if value < 0]
    return (*notes, *([f"negative before truncation at 0: {', '.join(below)}"] if below else []))


def _cautions(table: ComponentsTable, requested: Design) -> list[str]:
    """Say what no number of this table shows: replies left out, factors of one level, scores at an end of the scale."""
    # What repeats within a judge are its judgements of one answer, and not the runs of the study.
    judged_again = "judge" in requested.nested.get("repeat", ())
    cautions = [
        "each judge judged an answer once, so what judging it again would change cannot be told"
        if name == "repeat" and judged_again
        else f"one {name} only, so what it adds cannot be told"
        for name in requested.factors
        if name not in table.design.factors
    ]
    if table.left_out > _MANY_LEFT_OUT:
        cautions.append(f"{table.left_out:.0%} of the replies are left out: the rest may not stand for them")
    values = table.values[np.isfinite(table.values)]
    for word, end in (("highest", values.max()), ("lowest", values.min())):
        share = float(np.isclose(values, end).mean())
        if share >= _MANY_AT_AN_END and np.unique(values).size > 2:
            cautions.append(f"{share:.0%} of the scores are the {word} one: intervals may be too narrow")
    return cautions
