"""The decision study: how many judges, repeats and prompts a wanted coefficient needs, and what they cost in AUD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.generalizability.g_study import E_RHO2, PHI, Generalizability, coefficients, weights
from toolkit.stats.result import Result, plain
from toolkit.words import counted


@dataclass(frozen=True)
class Costs:
    """What one more run and one more judgement cost."""

    run: float | None = None
    judgement: float | None = None
    runs_per_cell: int = 1
    judgements_per_run: int = 1

    def __post_init__(self) -> None:
        for name, cost in (("run", self.run), ("judgement", self.judgement)):
            if cost is not None and not 0 <= cost < float("inf"):
                raise InputError(f"cost of a {name}: {cost} AUD is not a cost; give a number from 0")
        if min(self.runs_per_cell, self.judgements_per_run) < 1:
            raise InputError("costs: a cell takes one run and a run one judgement at least")


@dataclass(frozen=True)
class DecisionPlan:
    """The cheapest design that reaches a coefficient, or what stands in the way."""

    coefficient: str
    target: float
    counts: Mapping[str, int] = field(default_factory=dict)
    reached: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int | None = None
    judgements: int | None = None
    aud: float | None = None
    note: str = ""

    def sentence(self) -> str:
        """Return the plan in words ready for the thesis."""
        wanted = f"{self.coefficient} of {self.target:.2f}"
        if self.reached is None:
            return f"{wanted}: {self.note}."
        parts = [counted(count, f"{name}s") for name, count in self.counts.items()]
        asked = f"{counted(self.runs or 0, 'runs')} and {counted(self.judgements or 0, 'judgements')}"
        text = f"{wanted} needs {', '.join(parts)}: {asked}"
        if self.aud is not None:
            # A cost that is not nothing does not read 0.00.
            text += f", {self.aud:{'.2f' if self.aud >= 1 or self.aud == 0 else '.3g'}} AUD"
        text += f"; it is then {self.reached:.3f}"
        if self.low is not None and self.high is not None:
            text += f", 95% interval [{self.low:.3f}, {self.high:.3f}]"
        return f"{text}{f' ({self.note})' if self.note else ''}."


@dataclass(frozen=True)
class DecisionStudy(Result):
    """What other designs would give."""

    curves: pd.DataFrame
    plans: tuple[DecisionPlan, ...]

    def sentence(self) -> str:
        """Return the plans in words ready for the thesis."""
        return " ".join(plan.sentence() for plan in self.plans)

    def to_dict(self) -> dict[str, Any]:
        """Return curves and plans as plain JSON types."""
        curves = self.curves.astype(object).where(self.curves.notna(), None)
        return {"curves": curves.to_dict("records"), "plans": plain(self.plans)}


_LIMITS: Final = {"judge": 10, "repeat": 10, "base": 500}
"""Most levels that are looked at."""
_OTHER_LIMIT: Final = 10
_LONGEST_CURVE: Final = 20
_MOST_DESIGNS: Final = 2_000_000


def decision_study(
    result: Generalizability,
    target: float = 0.90,
    *,
    costs: Costs | None = None,
) -> DecisionStudy:
    """Return the coefficients of other designs, and the cheapest one that reaches the target.

    Every design up to the limits is looked at. The cheapest wins; among equals, or where costs are unknown, the
    one with fewest judgements, then fewest runs. The plan holds for the estimate of the coefficient: its
    interval says how sure that is.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.1. Marcoulides & Goldstein (1990), Educational and
    Psychological Measurement 50, 761-768, for the cheapest design.
    """
    if not 0 < target < 1:
        raise InputError(f"target {target}: a coefficient lies between 0 and 1")
    paid = costs or Costs()
    facets = [name for name in result.counts if name not in result.fixed]
    if result.phi.estimate is None:
        plans = tuple(DecisionPlan(name, target, note=result.phi.note) for name in (PHI, E_RHO2))
        return DecisionStudy(pd.DataFrame(columns=list(_COLUMNS)), plans)
    ranges = [np.arange(1, _LIMITS.get(name, _OTHER_LIMIT) + 1) for name in facets]
    if np.prod([float(len(one)) for one in ranges]) > _MOST_DESIGNS:
        raise InputError(f"decision study: more than {_MOST_DESIGNS} designs; study fewer factors")
    grid = np.array(list(product(*ranges)))
    plans = tuple(_plan(result, name, target, facets, grid, paid) for name in (PHI, E_RHO2))
    return DecisionStudy(_curves(result, facets, ranges, paid), plans)


_COLUMNS: Final = ("coefficient", "facet", "count", "estimate", "low", "high", "runs", "judgements", "aud")


def _plan(
    result: Generalizability,
    coefficient: str,
    target: float,
    facets: list[str],
    grid: np.ndarray,
    costs: Costs,
) -> DecisionPlan:
    values = _values(result, coefficient, dict(zip(facets, grid.T, strict=True)))
    good = np.flatnonzero(values >= target)
    if not len(good):
        best = float(values.max())
        highest = ", ".join(f"{count} {name}s" for name, count in zip(facets, grid.max(axis=0), strict=True))
        return DecisionPlan(
            coefficient, target, note=f"not reached with up to {highest}, which give {best:.4f} at most"
        )
    sizes = _sizes(result, facets, grid[good], costs)
    cheapest = np.lexsort((sizes["runs"], sizes["judgements"], sizes["aud"]))[0]
    counts = dict(zip(facets, map(int, grid[good[cheapest]]), strict=True))
    low, high = _interval(result, coefficient, counts)
    aud = float(sizes["aud"][cheapest])
    return DecisionPlan(
        coefficient,
        target,
        counts,
        float(values[good[cheapest]]),
        None if low is None else float(low),
        None if high is None else float(high),
        int(sizes["runs"][cheapest]),
        int(sizes["judgements"][cheapest]),
        None if np.isnan(aud) else aud,
        "no cost, because the price of a run or judgement is not known" if np.isnan(aud) else "",
    )


def _values(result: Generalizability, coefficient: str, counts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return a coefficient for all counts at once; 0 where nothing varies."""
    by = weights(result.components.table.design, result.of, result.fixed, {**result.counts, **counts})
    return np.nan_to_num(coefficients(result.components.fit.raw, by)[coefficient])


def _interval(
    result: Generalizability, coefficient: str, counts: Mapping[str, ArrayLike]
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    if result.components.draws is None:
        return None, None
    by = weights(result.components.table.design, result.of, result.fixed, {**result.counts, **counts})
    low, high = np.nanquantile(coefficients(result.components.draws, by)[coefficient], [0.025, 0.975], axis=0)
    return low, high


def _sizes(
    result: Generalizability, facets: list[str], grid: np.ndarray, costs: Costs
) -> dict[str, np.ndarray]:
    """Return runs, judgements and AUD of every row of counts; a factor nested in judges takes no new run."""
    nested, table = result.components.asked.nested, result.components.table
    averaged = tuple(i for i, name in enumerate(table.design.factors) if name not in result.of)
    objects = int(np.isfinite(table.values).any(axis=averaged).sum())
    runs = np.full(len(grid), objects * costs.runs_per_cell)
    judgements = np.full(len(grid), costs.judgements_per_run)
    for name, count in result.counts.items():
        many = grid[:, facets.index(name)] if name in facets else count
        if name == "judge" or "judge" in nested.get(name, ()):
            judgements = judgements * many
        else:
            runs = runs * many
    judgements = judgements * runs
    run, judgement = (np.nan if cost is None else cost for cost in (costs.run, costs.judgement))
    return {"runs": runs, "judgements": judgements, "aud": runs * run + judgements * judgement}


def _curves(
    result: Generalizability, facets: list[str], ranges: list[np.ndarray], costs: Costs
) -> pd.DataFrame:
    parts = []
    for axis, facet in enumerate(facets):
        most = len(ranges[axis])
        steps = np.linspace(1, most, min(most, _LONGEST_CURVE)).astype(int)
        steps = np.unique([*steps, result.counts[facet]])
        grid = np.array([[result.counts[name] for name in facets]] * len(steps))
        grid[:, axis] = steps
        sizes = _sizes(result, facets, grid, costs)
        for coefficient in (PHI, E_RHO2):
            low, high = _interval(result, coefficient, {facet: steps})
            values = {"estimate": _values(result, coefficient, {facet: steps}), "low": low, "high": high}
            about = {"coefficient": coefficient, "facet": facet, "count": steps}
            parts.append(pd.DataFrame({**about, **values, **sizes}))
    return pd.concat(parts, ignore_index=True).astype({"low": "float64", "high": "float64"})
