"""The design of a generalizability study, its table of scores, and the variance components by mean squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, starmap, zip_longest

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.run_table import need_columns, need_labels, numbers_of, share_note
from toolkit.stats.result import ROUNDING, Estimate, Result, Row
from toolkit.words import counted

EMS = "expected mean squares"
UNEQUAL = "expected mean squares of cells of unequal size (Henderson 1953)"
GENERALIZED = "generalized interval from chi-squares of the mean squares (Weerahandi 1993)"
DRAWS = 10_000
SQUARED_POINTS = "squared score points"
_MANY_AT_AN_END = 0.2
_MANY_LEFT_OUT = 0.1


@dataclass(frozen=True)
class Fit:
    """Variance components before truncation, and the mean squares they come from."""

    raw: np.ndarray
    mean_squares: np.ndarray
    degrees: np.ndarray
    coefficients: np.ndarray
    problem: str = ""


def _no_fit(problem: str) -> Fit:
    nothing = np.empty(0)
    return Fit(nothing, nothing, nothing, nothing, problem)


class VarianceComponents(Result):
    """The variance of a score, shared out among the factors of the study."""

    @property
    def problem(self) -> str:
        """Why there are no components, or an empty text."""
        return str(self.fit.problem)

    def rows(self) -> list[Row]:
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

    A reply that lacks a judge is left out and counted. The intervals are generalized ones and rest on the normal
    model: with a quarter of the scores at the ceiling of the scale, lenient judges have less variance left, and three
    judges cannot show how much. A note says so from a fifth on.

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
    varies = not fit.problem and fit.mean_squares.max(initial=0.0) > 0 and fit.mean_squares[-1] > 0
    draws, square = generalized_draws(fit, seed=seed) if varies else None, table.scale**2
    cautions = [] if fit.problem else _cautions(table, design)
    nonnegative = np.maximum(fit.raw, 0.0)

    def component(index: int, name: str) -> Estimate:
        empty = Estimate(name, unit=SQUARED_POINTS, n=table.n, missing=table.missing)
        if fit.problem:
            return empty.not_estimable(fit.problem)
        raw = float(fit.raw[index]) * square
        note = f"the estimate is {raw:.3g} before truncation at 0" if raw < 0 else ""
        estimate = empty.with_value(max(raw, 0.0), method=GENERALIZED, note=note)
        if draws is None:
            return estimate.no_interval("the residual mean square is 0")
        low, high = (max(float(end), 0.0) for end in interval_of(draws[:, index] * square))
        return replace(estimate, low=low, high=high)

    def named(values: np.ndarray) -> dict[str, float | None]:
        return dict(zip_longest(names, map(float, values)))  # None where there is no fit

    return VarianceComponents(
        "variance_components",
        components=[*starmap(component, enumerate(names))],
        raw=named(fit.raw * square),
        shares=named(nonnegative / nonnegative.sum()),
        degrees=named(fit.degrees),
        method=method,
        notes=table.notes if fit.problem else (*_notes(table, fit), *cautions),
        cautions=cautions,
        requested_design=design,
        table=table,
        fit=fit,
        draws=draws,
    )


def fit_components(table: ComponentsTable) -> Fit:
    r"""Return the variance components of a table of scores from its mean squares, all effects random.

    With :math:`T_\alpha` the sum of squared total over size of the cells of effect :math:`\alpha`, the sum of squares
    of an effect is its T less those of all effects within it. In the expected :math:`T_\alpha` stands
    :math:`\sigma^2(\beta)` :math:`\sum n_{\alpha\beta} / n_\alpha` times, over all scores, with n the size of the cell
    that a score is in: linear equations for any numbers of scores (method 1 of Henderson 1953), of a complete table
    the triangular ones of Cornfield & Tukey (1956). Components may turn negative: the estimator is unbiased only so,
    and a negative one is information about the design.
    """
    if table.problem:
        return _no_fit(table.problem)
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
        return _no_fit(f"too few scores are left to distinguish {few} from the rest")
    squares[np.abs(squares) <= ROUNDING * np.abs(squares).sum()] = 0.0
    mean_squares, coefficients = squares / degrees, rows[1:, 2:] / degrees[:, None]
    raw = np.linalg.solve(coefficients, mean_squares)
    # A difference of mean squares that is only rounding is exactly 0.
    raw[np.abs(raw) * np.diag(coefficients) <= ROUNDING * mean_squares.max()] = 0.0
    return Fit(raw, mean_squares, degrees, coefficients)


def generalized_draws(fit: Fit, seed: int = 0) -> np.ndarray:
    r"""Return draws of the components from the generalized pivots of their mean squares.

    Under a normal model :math:`MS\, \nu / \chi^2_\nu` is a pivot for the expectation of a mean square. All factors are
    drawn anew, the judges too, so that three judges give the width that three judges deserve. Weerahandi (1993), J.
    Am. Stat. Assoc. 88, 899-905.
    """
    chance = np.random.default_rng(seed)
    chi_squares = chance.chisquare(fit.degrees, size=(DRAWS, len(fit.degrees)))
    expected = np.maximum(fit.mean_squares, 0.0) * fit.degrees / np.maximum(chi_squares, 1e-300)
    return np.linalg.solve(fit.coefficients, expected.T).T


def effect_names(design: Design) -> tuple[str, ...]:
    """Return the names of the effects of a design, the last one with the error it cannot be told from."""
    names = [design.name(effect) for effect in design.effects]
    return (*names[:-1], f"{names[-1]}, residual")


def interval_of(draws: np.ndarray) -> np.ndarray:
    """Return both ends of the 95 % interval of draws (axis 0), at equal tails; a draw that is none is left out."""
    return np.asarray(np.nanquantile(draws, [0.025, 0.975], axis=0))


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
    single = [name for name in requested.factors if name not in table.design.factors]
    cautions = [f"one {name} only, so what it adds cannot be told" for name in single]
    if judged_again and "repeat" in single:
        once = "each judge judged an answer once, so what judging it again would change cannot be told"
        cautions[single.index("repeat")] = once
    if table.left_out > _MANY_LEFT_OUT:
        cautions.append(f"{table.left_out:.0%} of the replies are left out: the rest may not stand for them")
    values = table.values[np.isfinite(table.values)]
    for word, end in (("highest", values.max()), ("lowest", values.min())):
        share = float(np.isclose(values, end).mean())
        if share >= _MANY_AT_AN_END and np.unique(values).size > 2:
            cautions.append(f"{share:.0%} of the scores are the {word} one: intervals may be too narrow")
    return cautions


Effect = frozenset[str]  # the factors of one effect, with what they are nested in


@dataclass(frozen=True)
class Design:
    """Which factors the scores of a study are crossed over, and which are nested in others.

    Examples
    --------
    >>> design = Design(("base", "judge", "repeat"), {"repeat": ("base",)})
    >>> [design.name(effect) for effect in design.effects]
    ['base', 'judge', 'base x judge', 'repeat:base', 'judge x repeat:base']
    """

    factors: tuple[str, ...]
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = set(self.factors)
        wrong = [name for name, parents in self.nested.items() if not {name, *parents} <= names - {""}]
        if not self.factors or len(names) < len(self.factors) or wrong or self.factors[0] in self.nested:
            raise InputError(
                f"design {' x '.join(self.factors)} with nesting {dict(self.nested)}: name each factor once, "
                "nest factors in factors of the design only, and leave the first one crossed"
            )

    def closure(self, subset: Iterable[str]) -> Effect:
        """Return a set of factors together with everything they are nested in."""
        names = set(subset)
        return frozenset(names.union(*(self.nested.get(name, ()) for name in names)))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All effects that the design has, smaller ones first; the last is confounded with the error."""
        sizes = range(1, len(self.factors) + 1)
        effects = {self.closure(subset) for size in sizes for subset in combinations(self.factors, size)}
        return tuple(sorted(effects, key=lambda e: (len(e), sorted(map(self.factors.index, e)))))

    def heads(self, effect: Effect) -> str:
        """Return the factors of an effect that no other of them is nested in, e.g. ``judge x repeat``."""
        parents = {parent for name in effect for parent in self.nested.get(name, ())}
        return " x ".join(name for name in self.factors if name in effect and name not in parents)

    def name(self, effect: Effect) -> str:
        """Return an effect as it is written, e.g. ``judge x repeat:(base x model)``."""
        parents = {parent for name in effect for parent in self.nested.get(name, ())}
        within, heads = [name for name in self.factors if name in parents], self.heads(effect)
        if not within:
            return heads
        return f"{heads}:{within[0] if len(within) == 1 else '(' + ' x '.join(within) + ')'}"

    def without(self, factors: Iterable[str]) -> Design:
        """Return the design with some factors left out, because they have one level."""
        removed = set(factors)
        nested = {n: parents for n, parents in self.nested.items() if n not in removed}
        remaining = {n: tuple(p for p in parents if p not in removed) for n, parents in nested.items()}
        return Design(tuple(name for name in self.factors if name not in removed), remaining)


@dataclass(frozen=True)
class ComponentsTable:
    """The scores of a study, one axis per factor of its design."""

    values: np.ndarray
    design: Design
    scale: float
    n: Mapping[str, int]
    missing: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""
    left_out: float = 0.0  # share of the replies that lack a judge
    scored: np.ndarray = field(
        default_factory=lambda: np.empty(0)
    )  # cells with a score, also of these replies

    @property
    def complete(self) -> bool:
        """Whether every cell has a score."""
        return bool(np.isfinite(self.values).all())

    @property
    def levels(self) -> dict[str, int]:
        """Levels of each factor of the design."""
        return dict(zip(self.design.factors, self.values.shape, strict=True))


def components_table(frame: pd.DataFrame, design: Design) -> ComponentsTable:
    """Put tidy scores into a table with one axis per factor, saying what had to be left out.

    A reply that some judge did not score is left out, because what judges add would otherwise mix with what replies
    differ by; all its scores count as missing.

    Examples
    --------
    >>> rows = [("t1", "anna", 4.0), ("t1", "ben", 3.0), ("t2", "anna", 2.0), ("t2", "ben", 2.0), ("t3", "anna", 5.0)]
    >>> table = components_table(pd.DataFrame(rows, columns=["answer", "judge", "score"]), Design(("answer", "judge")))
    >>> table.values.shape, table.missing, table.notes
    ((2, 2), 2, ('1 of 3 replies lacks a judge and is left out',))
    """
    need_columns("scores", frame, (*design.factors, "score"))
    if frame.empty:
        raise InputError("scores: there are none; give one row per score")
    need_labels("scores", frame, design.factors)
    codes = _codes(frame, design)
    shape = tuple(int(codes[name].max()) + 1 for name in design.factors)
    cells = np.ravel_multi_index([codes[name] for name in design.factors], shape)
    repeated = pd.Series(cells).duplicated().to_numpy()
    if repeated.any():
        first = frame.iloc[int(repeated.argmax())]
        cell = ", ".join(f"{name} {first[name]}" for name in design.factors)
        raise InputError(
            f"scores: {counted(int(repeated.sum()), 'rows')} of a cell that has one, the first of {cell}; "
            "keep one score per cell, or name the factor that tells them apart"
        )
    values = np.full(shape, np.nan)
    values.flat[cells] = numbers_of("scores", frame, "score")
    all_values, (values, partial, replies) = values, _judged_by_all(values, design)
    missing = int((_expected(design, codes, shape) & np.isnan(values)).sum())
    notes = _silent_levels(frame, design, all_values, codes)
    notes = share_note(partial, replies, "replies", "lack a judge and are left out") + notes
    for axis in range(values.ndim):
        levels_left = _scored_levels(values, axis)
        values, all_values = (table.compress(levels_left, axis) for table in (values, all_values))
    levels = dict(zip(design.factors, values.shape, strict=True))
    n = _counts(design, values)
    single = [name for name, count in levels.items() if count == 1]
    if np.isinf(values).any() or not values.size:
        problem = "no reply was scored by all judges" if partial else "there is no score"
        problem = "a score is infinite" if values.size else problem
        return ComponentsTable(np.empty((0,) * len(shape)), design, 1.0, n, missing, tuple(notes), problem)
    reduced, problem = design, _problem(values, design, levels)
    if not problem:
        values = values.reshape([count for count in values.shape if count > 1])
        reduced = design.without(single)
    scale = float(np.nanmax(np.abs(values))) or 1.0
    values = values / scale
    return ComponentsTable(
        values - np.nanmean(values),
        reduced,
        scale,
        n,
        missing,
        tuple(notes),
        problem,
        partial / max(replies, 1),
        np.isfinite(all_values).reshape(values.shape),
    )


def _codes(frame: pd.DataFrame, design: Design) -> dict[str, np.ndarray]:
    """Number the levels of each factor; those of a nested factor anew within each of its parents."""
    plain = {name: pd.factorize(frame[name].astype("object"), sort=True)[0] for name in design.factors}
    within = {
        name: pd.Series(plain[name]).groupby([plain[parent] for parent in parents]).rank("dense")
        for name, parents in design.nested.items()
    }
    return plain | {name: rank.to_numpy(dtype=np.int64) - 1 for name, rank in within.items()}


def _judged_by_all(values: np.ndarray, design: Design) -> tuple[np.ndarray, int, int]:
    """Leave out replies that lack one of the judges, and say how many of how many they are."""
    if "judge" not in design.factors or "judge" in design.nested:
        return values, 0, 0
    judge = design.factors.index("judge")
    again = tuple(axis for axis, name in enumerate(design.factors) if "judge" in design.nested.get(name, ()))
    scored = ~np.isnan(values).all(axis=again, keepdims=True)
    silent = ~scored.any(axis=tuple(axis for axis in range(values.ndim) if axis != judge), keepdims=True)
    replies = scored.any(axis=judge, keepdims=True)
    partial = replies & ~(scored | silent).all(axis=judge, keepdims=True)
    return np.where(partial, np.nan, values), int(partial.sum()), int(replies.sum())


def _expected(design: Design, codes: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Say which cells could have a score: units of nested factors that nobody made are not missing."""
    expected = np.ones(shape, dtype=bool)
    for name, parents in design.nested.items():
        axes = sorted(map(design.factors.index, (*parents, name)))
        factors = [design.factors[axis] for axis in axes]
        exists = np.zeros([shape[axis] for axis in axes], dtype=bool)
        exists[tuple(map(codes.__getitem__, factors))] = True
        # Parents without any unit lack one at least.
        inner = factors.index(name)
        np.moveaxis(exists, inner, 0)[0] |= ~exists.any(axis=inner)
        summed = tuple(axis for axis in range(len(shape)) if axis not in axes)
        expected &= np.expand_dims(exists, summed)
    return expected


def _silent_levels(
    frame: pd.DataFrame, design: Design, values: np.ndarray, codes: Mapping[str, np.ndarray]
) -> list[str]:
    """Say which levels have no score at all, but for nested ones: those were numbered anew."""
    notes: list[str] = []
    for axis, name in enumerate(design.factors):
        silent = ~_scored_levels(values, axis)
        if silent.any() and not silent.all() and name not in design.nested:
            rows = np.isin(codes[name], np.flatnonzero(silent))
            labels = sorted(set(frame.loc[rows, name].astype(str)))
            listing = ", ".join(labels[:3]) + (" and others" if len(labels) > 3 else "")
            notes.append(f"{counted(len(labels), name + 's')} without any score left out: {listing}")
    return notes


def _scored_levels(values: np.ndarray, axis: int) -> np.ndarray:
    return (~np.isnan(np.moveaxis(values, axis, 0))).reshape(values.shape[axis], -1).any(axis=1)


def _counts(design: Design, values: np.ndarray) -> dict[str, int]:
    """Say how many levels each factor has, nested ones within their parents, and how many scores there are."""
    counts = {}
    for axis, name in enumerate(design.factors):
        within = " x ".join(parent for parent in design.factors if parent in design.nested.get(name, ()))
        counts[f"{name}s per {within}" if within else f"{name}s"] = values.shape[axis]
    return {**counts, "scores": int((~np.isnan(values)).sum())}


def _problem(values: np.ndarray, design: Design, levels: Mapping[str, int]) -> str:
    """Say why a table supports no variance component; empty where it does."""
    first = design.factors[0]
    if levels[first] < 2:
        return f"variance between {first}s needs two of them and there is {levels[first]}"
    if sum(count > 1 for count in levels.values()) < 2:
        return f"there is one score per {first}, so nothing tells error from what is to be measured"
    size = float(np.nanmax(np.abs(values)))
    if float(np.nanmax(values) - np.nanmin(values)) <= ROUNDING * size:
        return f"every score is {float(np.nanmax(values)):g}, so there is no variance"
    if not 1e-140 < size < 1e140:
        return f"scores of size {size:g} have no variance that a computer can hold; use another unit"
    return ""
