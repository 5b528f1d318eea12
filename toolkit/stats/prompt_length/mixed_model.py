"""Length x scenario x model in one mixed model: which of them matters, with bases as random blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.p_values import holm
from toolkit.stats.inference.run_table import checked_runs, left_out_note
from toolkit.stats.result import ROUNDING, Result
from toolkit.words import SCORE, counted

METHOD: Final = "REML, Wald F with containment degrees of freedom"
FACTORS: Final = ("length", "scenario", "model")
Term = tuple[str, ...]  # the factors that it crosses; none is the intercept
_ZERO: Final = 1e-6  # a variance below this share of the total is estimated as none: the fit is singular
_LARGEST: Final = 1 - 1e-8
_STARTS: Final = (0.3, 0.05)
_TOLERANCE: Final = 1e-7


@dataclass(frozen=True)
class TermTest:
    """The F test of one term of the model."""

    term: str
    f: float | None
    df1: int
    df2: int
    p_value: float | None
    p_holm: float | None = None
    note: str = ""

    def sentence(self) -> str:
        """Return the test in words ready for the thesis, rounded only here."""
        if self.f is None:
            return f"{self.term}: {self.note}."
        return (
            f"{self.term}: F({self.df1}, {self.df2}) = {self.f:.2f}, p = {self.p_value:.3g} "
            f"({self.p_holm:.3g} by Holm over all terms)."
        )


@dataclass(frozen=True)
class MixedModel(Result):
    """A mixed model of the scores."""

    terms: tuple[TermTest, ...]
    variances: Mapping[str, float]
    singular: tuple[str, ...]
    converged: bool
    n: Mapping[str, int]
    missing: int
    notes: tuple[str, ...]
    note: str = ""

    def frame(self) -> pd.DataFrame:
        """Return one row per term: term, F, df1, df2, p_value, p_holm and note."""
        columns = ["term", "f", "df1", "df2", "p_value", "p_holm", "note"]
        frame = pd.DataFrame([vars(term) for term in self.terms], columns=columns)
        return frame.astype(dict.fromkeys(["f", "p_value", "p_holm"], "float64"))

    def how(self) -> str:
        """Return how it was fitted to how much, or why it was not, for the caption of its table."""
        n = f"n = {', '.join(counted(value, key) for key, value in self.n.items())}"
        if self.note:
            return f"Mixed model: {self.note}; {n}"
        return f"Mixed model ({METHOD}; {n}); its tests are exploratory"

    def sentence(self) -> str:
        """Return the tests in words ready for the thesis."""
        if self.note:
            return f"{self.how()}."
        singular = f" Singular fit: variance of {', '.join(self.singular)} is 0." if self.singular else ""
        return f"{self.how()}. {' '.join(term.sentence() for term in self.terms)}{singular}"


@over_clusters
def mixed_model(runs: pd.DataFrame, score: str = SCORE) -> MixedModel:
    r"""Fit score ~ length x scenario x model with bases as random blocks and test every term.

    Repeats are averaged first. Fixed: all main effects and interactions of the factors with two levels or more, coded
    to sum to zero, so that each term is tested over the mean of the others (type III). Random: base and, where there
    are several models, base x length and base x model; what is left is base x length x model. Without the two
    interactions, whatever a base does to one length in all models alike would pass for several answers' worth of
    evidence. Degrees of freedom are those of containment: a term is held against the random effect that contains it,
    scenario against bases, length against base x length, model against base x model, the rest against the residual.
    In balanced data with positive variances this is the exact F test of the split-plot ANOVA. Simulated true nulls are
    rejected at .05 in 4.5-6.3 %; at 12 bases near the ceiling with four models the interactions with scenario are too
    careful (2.4-4.6 %), and so are length and model where the fit is singular (2.0-3.0 %).

    Too few bases, no spread, an empty cell of the fixed effects and no maximum are said in the note; a base with two
    scenarios is refused.

    References
    ----------
    Schluchter & Elashoff (1990), Journal of Statistical Computation and Simulation 37, 69-87, for containment. Pinheiro
    & Bates (2000), Mixed-Effects Models in S and S-PLUS, section 2.4.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> rows = [(f"b{b}", "SC"[b % 2], m, s) for b in range(8) for m in "xy" for s in "SML"]
    >>> runs = pd.DataFrame(rows, columns=["base", "scenario", "model", "length_bin"])
    >>> runs["composite_strict"] = 3 + (runs["length_bin"] == "L") + rng.normal(0, 0.3, len(runs))
    >>> found = mixed_model(runs)
    >>> [(term.term, term.df1, term.df2) for term in found.terms][:3]
    [('length', 2, 12), ('scenario', 1, 6), ('model', 1, 6)]
    """
    table = checked_runs(runs, score, labels=("scenario",)).rename(columns={"length_bin": "length"})
    several = table.groupby("situation")["scenario"].nunique()
    if (several > 1).any():
        raise InputError(
            f"mixed model: base {several.idxmax()!r} has two scenarios; a base belongs to one, correct the frame"
        )
    notes = ["repeats are averaged first"]
    if (table.groupby("base")["scenario"].nunique() > 1).any():
        table = table.assign(scenario="all")
        notes.append("scenario is left out: an independent group has bases of several")
    # Blocks are clusters, and a cell of one is the mean of its bases (`mean_of_units`): bases of one cluster as blocks
    # of their own gave false interactions in 62-87 % of simulated studies.
    of_bases = table.groupby(["base", "situation", "scenario", "model", "length"])["score"].mean().dropna()
    cells = of_bases.groupby(level=["base", "scenario", "model", "length"]).mean().reset_index()
    answers = int(table["score"].notna().sum())
    counts = {"bases": cells["base"].nunique(), "cells": len(cells), "answers": answers}
    notes += left_out_note(table, score)
    empty = MixedModel((), {}, (), False, counts, len(table) - answers, tuple(notes))
    levels = {name: sorted(cells[name].unique()) for name in FACTORS}
    factors = [name for name in FACTORS if len(levels[name]) > 1]
    columns = _fixed(cells, levels, factors)
    if reason := _unfit(cells, levels, factors, columns):
        return replace(empty, note=f"not estimable: {reason}")
    blocked = ["length", "model"] if "model" in factors else []
    fitted = _fit(cells, levels, np.column_stack(list(columns.values())), blocked)
    if not fitted.converged:
        return replace(empty, note="not estimable: the likelihood found no single maximum")
    names = ["base", *(f"base x {name}" for name in blocked), "residual"]
    variances = {name: float(value) for name, value in zip(names, fitted.variances, strict=True)}
    none = _ZERO * sum(variances.values())
    return replace(
        empty,
        terms=_tests(columns, fitted.effects, fitted.covariance, _degrees(cells, levels)),
        variances=variances,
        singular=tuple(name for name, value in variances.items() if value <= none),
        converged=True,
    )


def _fixed(cells: pd.DataFrame, levels: dict[str, list[Any]], factors: list[str]) -> dict[Term, np.ndarray]:
    """Return the columns of every term, coded to sum to zero, the intercept first."""
    coded = {}
    for name in factors:
        first, last = levels[name][:-1], levels[name][-1]
        column = cells[name].to_numpy()
        coded[name] = np.column_stack([(column == level) * 1.0 - (column == last) for level in first])
    columns: dict[Term, np.ndarray] = {}
    for term in chain.from_iterable(combinations(factors, size) for size in range(len(factors) + 1)):
        columns[term] = np.ones((len(cells), 1))
        for name in term:
            columns[term] = (columns[term][:, :, None] * coded[name][:, None, :]).reshape(len(cells), -1)
    return columns


def _unfit(
    cells: pd.DataFrame, levels: dict[str, list[Any]], factors: list[str], columns: dict[Term, np.ndarray]
) -> str:
    """Return the reason why there can be no model; empty where there can."""
    bases, scenarios = cells["base"].nunique(), len(levels["scenario"])
    if "length" not in factors:
        return f"{counted(len(levels['length']), 'length bins')} with a score, and two are needed"
    if bases - scenarios < 2:
        counts = f"{counted(bases, 'bases')} in {counted(scenarios, 'scenarios')}"
        return f"{counts}, and two more than scenarios are needed"
    scored, total = cells.groupby(factors).ngroups, int(np.prod([len(levels[name]) for name in factors]))
    if scored < total:
        return f"{total - scored} of {total} combinations of {', '.join(factors)} have no score at all"
    y = cells["score"].to_numpy()
    design = np.column_stack(list(columns.values()))
    residual = pd.Series(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])
    if residual.abs().max() <= ROUNDING**0.5 * max(np.abs(y).max(), ROUNDING):
        return "bases of one kind do not differ at all"
    within = residual - residual.groupby(cells["base"].to_numpy()).transform("mean")
    if within.abs().max() <= ROUNDING**0.5 * np.abs(y).max():
        return "the differences within bases do not vary"
    return ""


def _degrees(cells: pd.DataFrame, levels: dict[str, list[Any]]) -> dict[Term, int]:
    """Return the degrees of freedom of what bases do to each effect; balanced: (bases - scenarios) times its own."""
    bases, scenarios = cells["base"].nunique(), len(levels["scenario"])
    lengths, models = (len(levels[name]) - 1 for name in ("length", "model"))
    of_length, of_model = (cells.groupby(["base", name]).ngroups for name in ("length", "model"))
    if not models:
        return {(): bases - scenarios, ("length",): len(cells) - bases - scenarios * lengths}
    return {
        (): bases - scenarios,
        ("length",): of_length - bases - scenarios * lengths,
        ("model",): of_model - bases - scenarios * models,
        ("length", "model"): len(cells) - of_length - of_model + bases - scenarios * lengths * models,
    }


def _tests(
    columns: dict[Term, np.ndarray], effects: np.ndarray, covariance: np.ndarray, degrees: dict[Term, int]
) -> tuple[TermTest, ...]:
    tests, start = [], 1
    for term, columns_of_term in list(columns.items())[1:]:
        name, df1 = ":".join(term), columns_of_term.shape[1]
        rows = slice(start, start + df1)
        start = rows.stop
        df2 = degrees[tuple(factor for factor in term if factor != "scenario")]
        test = TermTest(name, None, df1, df2, None, note="not estimable: too few bases for this term")
        if df2 >= 1:
            b = effects[rows]
            f = float(b @ np.linalg.solve(covariance[rows, rows], b)) / df1
            test = TermTest(name, f, df1, df2, float(special.fdtrc(df1, df2, f)))
        tests.append(test)
    corrected = holm([test.p_value for test in tests])
    return tuple(replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True))


@dataclass(frozen=True)
class BlockFit:
    """Fixed effects with their covariance, and variances: those of the kernels, then the residual."""

    effects: np.ndarray
    covariance: np.ndarray
    variances: np.ndarray
    converged: bool


def _fit(
    cells: pd.DataFrame, levels: dict[str, list[Any]], design: np.ndarray, blocked: list[str]
) -> BlockFit:
    lengths, models = levels["length"], levels["model"]
    base, bases = pd.factorize(cells["base"], sort=True)
    column = np.array([lengths.index(name) for name in cells["length"]]) * len(models)
    column += np.array([models.index(name) for name in cells["model"]])
    size = len(lengths) * len(models)
    values, occupied = np.zeros((len(bases), size)), np.zeros((len(bases), size), dtype=bool)
    designs = np.zeros((len(bases), size, design.shape[1]))
    values[base, column], occupied[base, column], designs[base, column] = cells["score"], True, design
    kernels_by_name = {
        "length": np.kron(np.eye(len(lengths)), np.ones((len(models), len(models)))),
        "model": np.kron(np.ones((len(lengths), len(lengths))), np.eye(len(models))),
    }
    kernels = [np.ones((size, size)), *(kernels_by_name[name] for name in blocked)]
    return fit_blocks(values, occupied, designs, np.array(kernels))


def fit_blocks(values: np.ndarray, occupied: np.ndarray, design: np.ndarray, kernels: np.ndarray) -> BlockFit:
    r"""Fit :math:`y_b = X_b \beta + u_b`, :math:`u_b \sim N(0, \sigma^2 V_b)` with :math:`V = I + \sum_k \theta_k K_k`.

    Blocks are independent and share V; of a block with gaps the rows and columns of V that it has are used. Beta and
    :math:`\sigma^2` are profiled out, and
    :math:`\sum_b \ln |V_b| + \ln |X' V^{-1} X| + (N - p) \ln r' V^{-1} r` is minimised over
    :math:`\theta_k / (1 + \theta_k) \in [0, 1)`, so that a variance of 0 is a proper end and not a failure.

    References
    ----------
    Patterson & Thompson (1971), Biometrika 58, 545-554. Bates et al. (2015), Journal of Statistical Software 67(1),
    section 3, for the profiled criterion.
    """
    from scipy import optimize

    gaps = ~occupied
    y = np.where(occupied, values, 0.0)
    x = np.where(occupied[:, :, None], design, 0.0)
    spread = float(y[occupied].std()) or 1.0
    y, flat = y / spread, x.reshape(-1, x.shape[2])
    pairs = occupied[:, :, None] & occupied[:, None, :]
    degrees = int(occupied.sum()) - x.shape[2]

    def solve(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:
        full = np.eye(occupied.shape[1]) + np.tensordot(theta, kernels, axes=1)
        # Cells that are not there become 1 on the diagonal and meet only zeros.
        v = np.where(pairs, full, 0.0) + gaps[:, :, None] * np.eye(occupied.shape[1])
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

    bounds, options = [(0.0, _LARGEST)] * len(kernels), {"ftol": 1e-14, "gtol": 1e-9}
    search = partial(
        optimize.minimize, criterion, method="L-BFGS-B", bounds=bounds, jac=True, options=options
    )
    fits = [search(np.full(len(kernels), start)) for start in _STARTS]
    best = min(fits, key=lambda fit: float(fit.fun))
    theta = best.x / (1 - best.x)
    _, information, effects, squares, _ = solve(theta)
    variance = squares / degrees * spread**2
    disagreement = max(float(fit.fun) for fit in fits) - float(best.fun)
    return BlockFit(
        effects * spread,
        np.linalg.inv(information) * variance,
        np.append(theta, 1.0) * variance,
        bool(disagreement <= _TOLERANCE * max(1.0, degrees)),
    )
