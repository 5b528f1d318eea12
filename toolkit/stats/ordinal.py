"""Proportional odds: what the length of a prompt does to a score of which only the order is taken seriously."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.counting import counted
from toolkit.stats.clusters import over_clusters
from toolkit.stats.cumulative_logit import WIDEST, fit_cumulative_logit
from toolkit.stats.length import CONTRASTS
from toolkit.stats.multiplicity import holm
from toolkit.stats.result import Estimate
from toolkit.stats.run_table import checked_runs
from toolkit.stats.tables import estimates_frame
from toolkit.words import LENGTH_BINS

METHOD: Final = "proportional odds (logit), jackknife over bases, Student t"
FEWEST_BASES: Final = 3
MOST_CATEGORIES: Final = 20


@dataclass(frozen=True)
class OrdinalComparison:
    """Length contrasts of an ordered score, as odds ratios.

    Parameters
    ----------
    odds_ratios
        Odds of a higher score in the first bin over those in the second, M-S, L-M and L-S, with Holm's p values.
    categories
        How many ordered categories there are.
    notes
        What the model holds and what was left out.
    """

    odds_ratios: tuple[Estimate, ...]
    categories: int
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.tables``)."""
        return estimates_frame((("odds ratio", one) for one in self.odds_ratios), "comparison")

    def sentence(self) -> str:
        """Return the results in words ready for the thesis."""
        return " ".join(one.sentence() for one in self.odds_ratios)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "odds_ratios": [one.to_dict() for one in self.odds_ratios],
            "categories": self.categories,
            "notes": list(self.notes),
        }


@over_clusters
def proportional_odds(
    runs: pd.DataFrame, score: str = "composite", confidence: float = 0.95
) -> OrdinalComparison:
    r"""Compare S, M and L by the odds of a higher score, whatever the distances between scores.

    :math:`\operatorname{logit} P(Y \le k) = \theta_k - x'\beta` with the length bin, and the model where there are
    several, as factors. Every different score is its own category, up to 20; more of them are put into 20 groups of
    about equal size, which keeps their order. The odds ratio of two bins is :math:`e^{\beta_b - \beta_a}`. Its
    interval is made on the log scale, :math:`t_{G-1}` times the jackknife error over the G bases, so that the runs of
    a base may be alike in any way; the odds ratio is that over all bases (marginal).

    In 300-400 simulated studies each of 12 and 30 bases with one or three answers a bin, odds ratios of 1 and 3.1, half
    steps or not, a third of the scores at the ceiling or few, the interval covers in 93.3-97.7 % and the single test
    rejects a true null in 2.7-6.3 %: with 12 bases of one answer a bin it is a little too careful (96.5-97.7 %).

    Parameters
    ----------
    runs
        One row a run with base, length_bin and the score, and model where there are several; a run without a score
        is left out and counted.
    score
        Column to compare.
    confidence
        Coverage of the intervals.

    Returns
    -------
    OrdinalComparison
        Not estimable where fewer than two different scores or bins exist, or where one bin lies above another
        altogether; `toolkit.stats.superiority` has an answer there too.

    Raises
    ------
    InputError
        If a column is missing, a run is there twice, a base is empty, a length bin is unknown or a score is not a
        finite number.

    References
    ----------
    McCullagh (1980), Journal of the Royal Statistical Society B 42, 109-142. Liu, Shepherd, Li & Harrell (2017),
    Statistics in Medicine 36, 4316-4335, for scores with many values. Bell & McCaffrey (2002), Survey Methodology
    28, 169-181, for the jackknife over clusters.

    Examples
    --------
    >>> scores = {"S": [3, 2, 4, 3, 3], "M": [4, 3, 4, 3, 5], "L": [4, 5, 3, 5, 4]}
    >>> rows = [(f"b{i}", b, value) for b, values in scores.items() for i, value in enumerate(values)]
    >>> found = proportional_odds(pd.DataFrame(rows, columns=["base", "length_bin", "composite"]))
    >>> [(one.name, round(one.estimate, 2)) for one in found.odds_ratios]
    [('odds ratio M-S', 8.26), ('odds ratio L-M', 2.73), ('odds ratio L-S', 22.52)]
    """
    checked = checked_runs(runs, score)
    table = checked.dropna(subset="score")
    missing = len(checked) - len(table)
    values = table["score"].to_numpy(dtype=float)
    base = pd.factorize(table["base"])[0]
    present = [name for name in LENGTH_BINS if (table["length_bin"] == name).any()]
    models = sorted(table["model"].unique(), key=str)
    category = _categories(values)
    categories = int(category.max(initial=-1)) + 1
    notes = [f"{len(np.unique(values))} different scores in {categories} ordered categories"]
    if len(models) > 1:
        notes.append(f"adjusted for {counted(len(models), 'models')}")
    factors = [table["length_bin"].to_numpy() == name for name in present[1:]]
    factors += [table["model"].to_numpy() == name for name in models[1:]]
    design = np.column_stack([*factors, np.zeros((len(table), 0))]).astype(float)
    problem, slopes = "", None
    if len(present) < 2:
        problem = f"{counted(len(present), 'length bins')} with a score, and two are needed"
    elif categories < 2:
        problem = "every score is the same"
    else:
        slopes, partial = _fits(category, design, base)
        if slopes is None:
            problem = "one bin or model lies above another altogether, so that the odds ratio has no limit"
    empty = Estimate(
        "",
        None,
        method=METHOD,
        unit="odds ratio",
        n={"bases": len(set(base)), "answers": len(table)},
        missing=missing,
        confidence=confidence,
    )
    results = []
    for b, a in CONTRASTS:
        named = replace(empty, name=f"odds ratio {b}-{a}")
        if slopes is None or not {a, b} <= set(present):
            results.append(
                replace(named, note=f"not estimable: {problem or 'one of the two bins has no score'}")
            )
            continue
        weights = np.zeros(len(slopes))
        for name, sign in ((b, 1.0), (a, -1.0)):
            if name != present[0]:
                weights[present.index(name) - 1] += sign
        results.append(_odds_ratio(named, slopes, partial, weights))
    corrected = holm([one.p_value for one in results])
    tests = sum(p is not None for p in corrected)
    correction = f"Holm over {tests} contrasts" if tests > 1 else "none"
    return OrdinalComparison(
        tuple(
            replace(one, p_value=p, correction=correction) for one, p in zip(results, corrected, strict=True)
        ),
        categories,
        tuple(notes),
    )


def _categories(values: np.ndarray) -> np.ndarray:
    """Return the ordered category of each value, counted from 0, with no category empty."""
    levels, category = np.unique(values, return_inverse=True)
    if len(levels) <= MOST_CATEGORIES:
        return category
    ranks = np.searchsorted(np.sort(values), values, side="left")
    return np.unique(ranks * MOST_CATEGORIES // len(values), return_inverse=True)[1]


def _fits(
    category: np.ndarray, design: np.ndarray, base: np.ndarray
) -> tuple[np.ndarray | None, list[np.ndarray | None]]:
    """Return the slopes of all answers, and those without each base; None where there is no maximum."""
    # Answers of equal category and factors are one cell, so that leaving a base out is a subtraction of counts.
    cells, cell = np.unique(np.column_stack([category, design]), axis=0, return_inverse=True)
    bases = int(base.max()) + 1
    counts = np.bincount(base * len(cells) + cell.ravel(), minlength=bases * len(cells)).reshape(
        bases, len(cells)
    )
    kinds, factors = cells[:, 0].astype(int), cells[:, 1:]

    def slopes(weights: np.ndarray) -> np.ndarray | None:
        there = weights > 0
        kept = np.unique(kinds[there], return_inverse=True)[1]
        left = factors[there]
        if kept.max() < 1 or np.ptp(left, axis=0).min(initial=1) == 0:
            return None
        found = fit_cumulative_logit(kept, left, weights[there].astype(float))
        return None if found is None or np.abs(found[1]).max() > WIDEST else found[1]

    whole = counts.sum(axis=0)
    found = slopes(whole)
    partial = [] if found is None or bases < FEWEST_BASES else [slopes(whole - one) for one in counts]
    return found, partial


def _odds_ratio(
    named: Estimate, slopes: np.ndarray, partial: list[np.ndarray | None], weights: np.ndarray
) -> Estimate:
    slope = float(weights @ slopes)
    found = replace(named, estimate=math.exp(slope))
    bases = named.n["bases"]
    if bases < FEWEST_BASES:
        return replace(found, note=f"no interval: {counted(bases, 'bases')}, and {FEWEST_BASES} are needed")
    if any(one is None for one in partial):
        why = "one base alone keeps two bins or models from lying apart altogether"
        return replace(found, note=f"no interval: {why}")
    replicates = np.array([weights @ one for one in partial if one is not None])
    error = math.sqrt((bases - 1) / bases * float(((replicates - replicates.mean()) ** 2).sum()))
    if error <= 1e-9:
        return replace(found, note="no interval: every base says the same")
    half = float(special.stdtrit(bases - 1, (1 + named.confidence) / 2)) * error
    p_value = 2 * float(special.stdtr(bases - 1, -abs(slope) / error))
    return replace(found, low=math.exp(slope - half), high=math.exp(slope + half), p_value=p_value)
