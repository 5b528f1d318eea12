"""Length x scenario x model in one mixed model: which of them matters, with bases as random blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.generalizability.block_reml import BlockFit, fit_blocks
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.run_table import checked_runs
from toolkit.stats.result import ROUNDING
from toolkit.words import agreeing, counted

METHOD: Final = "REML, Wald F with containment degrees of freedom"


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
class MixedModel:
    """A mixed model of the scores.

    Parameters
    ----------
    terms
        One test per term.
    variances
        Variance of the bases, of length and model within bases where there are several models, and of the residual, in
        squared units of the score; one of 0 stands for a singular fit.
    singular
        Names of the variances estimated as 0.
    converged
        Whether the likelihood found its maximum.
    n
        Bases, cells (base x length x model) and answers.
    missing
        Runs without a score.
    notes
        How it was fitted and what was left out.
    note
        Why there is no model; empty where there is one.
    """

    terms: tuple[TermTest, ...]
    variances: Mapping[str, float]
    singular: tuple[str, ...]
    converged: bool
    n: Mapping[str, int]
    missing: int
    notes: tuple[str, ...]
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per term: term, F, df1, df2, p_value, p_holm and note."""
        rows = [vars(term) for term in self.terms]
        frame = pd.DataFrame(rows, columns=["term", "f", "df1", "df2", "p_value", "p_holm", "note"])
        return frame.astype(dict.fromkeys(["f", "p_value", "p_holm"], "float64"))

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON types."""
        return {
            "terms": [dict(vars(term)) for term in self.terms],
            "variances": dict(self.variances),
            "singular": list(self.singular),
            "converged": self.converged,
            "n": dict(self.n),
            "missing": self.missing,
            "notes": list(self.notes),
            "note": self.note,
        }

    def how(self) -> str:
        """Return how it was fitted to how much, or why it was not, for the caption of its table."""
        counts = ", ".join(counted(value, key) for key, value in self.n.items())
        return (
            f"Mixed model: {self.note}; n = {counts}."
            if self.note
            else f"Mixed model ({METHOD}; n = {counts}); its tests are exploratory."
        )

    def sentence(self) -> str:
        """Return the tests in words ready for the thesis."""
        if self.note:
            return self.how()
        singular = f" Singular fit: variance of {', '.join(self.singular)} is 0." if self.singular else ""
        tests = " ".join(term.sentence() for term in self.terms)
        return f"{self.how()} {tests}{singular}"


FACTORS: Final = ("length", "scenario", "model")
_ZERO: Final = 1e-6
"""A variance below this share of the total is estimated as none: the fit is singular."""


@over_clusters
def mixed_model(runs: pd.DataFrame, score: str = "composite") -> MixedModel:
    r"""Fit score ~ length x scenario x model with bases as random blocks and test every term.

    Repeats are averaged first. Fixed: all main effects and interactions of the factors with two levels or more, coded
    to sum to zero, so that each term is tested over the mean of the others (type III). Random: base and, where there
    are several models, base x length and base x model; what is left is base x length x model. Without the two
    interactions, whatever a base does to one length in all models alike would pass for several answers' worth of
    evidence. Degrees of freedom are those of containment: a term is held against the random effect that contains it,
    scenario against bases, length against base x length, model against base x model, the rest against the residual.
    In balanced data with positive variances this is the exact F test of the split-plot ANOVA. Simulated true nulls are
    rejected at .05 in 4.5-6.3 % at 12 bases (three scenarios, one or two models; 1,000 and 800 studies) and in
    4.9-5.8 % at 30 bases with half steps near the ceiling and a twentieth missing (1,600). At 12 bases near the ceiling
    with four models the interactions with scenario are too careful (2.4-4.6 %); where bases truly do the same to every
    length and model, three fits in four are singular, and length and model are (2.0-3.0 %).

    Parameters
    ----------
    runs
        One row per run with base, length_bin, scenario, the score and, where there are several, model. A base has one
        scenario.
    score
        Column to explain.

    Returns
    -------
    MixedModel
        With a note where there are too few bases, no spread, an empty cell of the fixed effects, or no maximum.

    Raises
    ------
    InputError
        As `toolkit.stats.inference.run_table.checked_runs`, or if a base has two scenarios.

    References
    ----------
    Schluchter & Elashoff (1990), Journal of Statistical Computation and Simulation 37, 69-87, for containment. Pinheiro
    & Bates (2000), Mixed-Effects Models in S and S-PLUS, section 2.4.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> rows = [(f"b{b}", "SC"[b % 2], m, s) for b in range(8) for m in "xy" for s in "SML"]
    >>> runs = pd.DataFrame(rows, columns=["base", "scenario", "model", "length_bin"])
    >>> runs["composite"] = 3 + (runs["length_bin"] == "L") + rng.normal(0, 0.3, len(runs))
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
    counts = {
        "bases": cells["base"].nunique(),
        "cells": len(cells),
        "answers": int(table["score"].notna().sum()),
    }
    missing = int(table["score"].isna().sum())
    if missing:
        notes.append(
            f"{missing} of {counted(len(table), 'runs')} {agreeing(missing, f'have no {score} and are left out')}"
        )
    empty = MixedModel((), {}, (), False, counts, missing, tuple(notes))
    levels = {name: sorted(cells[name].unique()) for name in FACTORS}
    factors = [name for name in FACTORS if len(levels[name]) > 1]
    columns = _fixed(cells, levels, factors)
    why = _unfit(cells, levels, factors, columns)
    if why:
        return replace(empty, note=f"not estimable: {why}")
    blocked = ["length", "model"] if "model" in factors else []
    fitted = _fit(cells, levels, np.column_stack(list(columns.values())), blocked)
    if not fitted.converged:
        return replace(empty, note="not estimable: the likelihood found no single maximum")
    names = ["base", *(f"base x {name}" for name in blocked), "residual"]
    total = float(fitted.variances.sum())
    return replace(
        empty,
        terms=_tests(columns, fitted.effects, fitted.covariance, _degrees(cells, levels)),
        variances={name: float(value) for name, value in zip(names, fitted.variances, strict=True)},
        singular=tuple(
            name for name, value in zip(names, fitted.variances, strict=True) if value <= _ZERO * total
        ),
        converged=True,
    )


def _fixed(cells: pd.DataFrame, levels: dict[str, list[Any]], factors: list[str]) -> dict[str, np.ndarray]:
    """Return the columns of every term, coded to sum to zero, the intercept first."""
    coded = {}
    for name in factors:
        first, last = levels[name][:-1], levels[name][-1]
        own = cells[name].to_numpy()
        coded[name] = np.column_stack([(own == level) * 1.0 - (own == last) for level in first])
    columns = {"": np.ones((len(cells), 1))}
    for size in range(1, len(factors) + 1):
        for names in combinations(factors, size):
            product = coded[names[0]]
            for name in names[1:]:
                product = (product[:, :, None] * coded[name][:, None, :]).reshape(len(cells), -1)
            columns[":".join(names)] = product
    return columns


def _unfit(
    cells: pd.DataFrame, levels: dict[str, list[Any]], factors: list[str], columns: dict[str, np.ndarray]
) -> str:
    """Return why there can be no model; empty where there can."""
    bases = cells["base"].nunique()
    if "length" not in factors:
        return f"{counted(len(levels['length']), 'length bins')} with a score, and two are needed"
    if bases - len(levels["scenario"]) < 2:
        return (
            f"{counted(bases, 'bases')} in {counted(len(levels['scenario']), 'scenarios')}, and two more than "
            "scenarios are needed"
        )
    found = cells.groupby(factors).ngroups
    wanted = int(np.prod([len(levels[name]) for name in factors]))
    if found < wanted:
        return f"{wanted - found} of {wanted} combinations of {', '.join(factors)} have no score at all"
    y = cells["score"].to_numpy()
    design = np.column_stack(list(columns.values()))
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    if np.abs(residual).max() <= ROUNDING**0.5 * max(np.abs(y).max(), ROUNDING):
        return "bases of one kind do not differ at all"
    own = pd.Series(residual)
    within = own - own.groupby(cells["base"].to_numpy()).transform("mean")
    if within.abs().max() <= ROUNDING**0.5 * np.abs(y).max():
        return "the differences within bases do not vary"
    return ""


def _fit(
    cells: pd.DataFrame, levels: dict[str, list[Any]], design: np.ndarray, blocked: list[str]
) -> BlockFit:
    """Lay the cells out as bases x (length x model) and fit."""
    lengths, models = levels["length"], levels["model"]
    base, bases = pd.factorize(cells["base"], sort=True)
    place = np.array([lengths.index(name) for name in cells["length"]]) * len(models)
    place += np.array([models.index(name) for name in cells["model"]])
    size = len(lengths) * len(models)
    values, here = np.zeros((len(bases), size)), np.zeros((len(bases), size), dtype=bool)
    laid = np.zeros((len(bases), size, design.shape[1]))
    values[base, place], here[base, place], laid[base, place] = cells["score"], True, design
    alike = {
        "length": np.kron(np.eye(len(lengths)), np.ones((len(models), len(models)))),
        "model": np.kron(np.ones((len(lengths), len(lengths))), np.eye(len(models))),
    }
    kernels = [np.ones((size, size)), *(alike[name] for name in blocked)]
    return fit_blocks(values, here, laid, np.array(kernels))


def _degrees(cells: pd.DataFrame, levels: dict[str, list[Any]]) -> dict[str, int]:
    """Return the degrees of freedom of what bases do to each effect; balanced: (bases - scenarios) times its own."""
    bases, scenarios = cells["base"].nunique(), len(levels["scenario"])
    lengths, models = (len(levels[name]) - 1 for name in ("length", "model"))
    of_length, of_model = (cells.groupby(["base", name]).ngroups for name in ("length", "model"))
    residual = len(cells) - of_length - of_model + bases - scenarios * lengths * models
    if not models:
        return {"": bases - scenarios, "length": len(cells) - bases - scenarios * lengths}
    return {
        "": bases - scenarios,
        "length": of_length - bases - scenarios * lengths,
        "model": of_model - bases - scenarios * models,
        "length:model": residual,
    }


def _tests(
    columns: dict[str, np.ndarray], effects: np.ndarray, covariance: np.ndarray, degrees: dict[str, int]
) -> tuple[TermTest, ...]:
    tests, start = [], 1
    for term, own in list(columns.items())[1:]:
        place = slice(start, start + own.shape[1])
        start = place.stop
        df1 = own.shape[1]
        df2 = degrees[":".join(name for name in term.split(":") if name != "scenario")]
        if df2 < 1:
            tests.append(
                TermTest(term, None, df1, df2, None, note="not estimable: too few bases for this term")
            )
            continue
        b = effects[place]
        f = float(b @ np.linalg.solve(covariance[place, place], b)) / df1
        tests.append(TermTest(term, f, df1, df2, float(special.fdtrc(df1, df2, f))))
    corrected = holm([test.p_value for test in tests])
    return tuple(replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True))
