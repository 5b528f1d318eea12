"""What longer prompts cost, and what each score point that they gain costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import pandas as pd

from toolkit.stats.comparisons.cost_quality import MEAN_METHOD, RATIO_METHOD, ratio_interval
from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.means import mean_interval
from toolkit.stats.inference.run_table import checked_runs
from toolkit.stats.result import Estimate, Result
from toolkit.words import LENGTH_BINS, SCORE

_STEPS: Final = (("M", "S"), ("L", "M"))
_UNITS: Final = {"aud_cost": "AUD", "total_tokens": "tokens"}


@dataclass(frozen=True)
class GainCost(Result):
    """The cost of a run at each length, and of each score point gained from S to M and from M to L."""

    about: ClassVar[str] = "cost"
    kinds: ClassVar[Mapping[str, str]] = {"per_run": "a run", "per_point": "a score point gained"}
    first: ClassVar[tuple[str, ...]] = ("per_point", "per_run")
    per_run: tuple[Estimate, ...]
    per_point: tuple[Estimate, ...]


@over_clusters
def gain_cost(runs: pd.DataFrame, score: str = SCORE, cost: str = "aud_cost") -> GainCost:
    r"""Return what a run costs at each prompt length, and what a score point costs that a longer prompt gains.

    The cost of a point is the ratio of two mean differences within bases, :math:`\bar{\Delta c} / \bar{\Delta q}`, with
    the jackknife over bases of its logarithm. There is none where the gain is not shown to be above 0: a point that may
    not be gained at all has no price.

    Parameters
    ----------
    runs
        One row a run with base, length_bin, the score, the cost and, where there are several, model. A run without a
        score or a cost is left out.
    score, cost
        Columns of quality and of cost: ``aud_cost``, or ``total_tokens``.

    Returns
    -------
    GainCost
        Costs of runs, and costs of points from S to M and from M to L.

    Examples
    --------
    >>> score, cost = {"S": 3.0, "M": 3.4}, {"S": 0.01, "M": 0.02}
    >>> rows = [(f"b{i}", b, score[b] + 0.1 * (i % 2) * (b == "M"), cost[b]) for i in range(6) for b in score]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "composite_strict", "aud_cost"])
    >>> point = gain_cost(runs).per_point[0]
    >>> round(point.estimate, 4), point.unit
    (0.0222, 'AUD per score point')
    """
    table = checked_runs(runs, score, numbers=(cost,)).dropna(subset=["score", cost])
    cells = table.groupby(["base", "situation", "model", "length_bin"])[["score", cost]].mean().unstack()
    unit, bases = _UNITS.get(cost, cost), table["base"].nunique()
    present = [name for name in LENGTH_BINS if name in set(table["length_bin"])]
    per_run = []
    for name in present:
        costs = mean_of_units(cells[cost][name].dropna())
        n = {"bases": len(costs), "answers": int((table["length_bin"] == name).sum())}
        per_run.append(
            mean_interval(costs.to_numpy()).of(Estimate(name, None, None, None, MEAN_METHOD, unit, n))
        )
    per_point = []
    for longer, shorter in _STEPS:
        if not {longer, shorter} <= set(present):
            continue
        sides = ["score", cost]
        pair = cells[[(side, name) for side in sides for name in (longer, shorter)]].dropna()
        gain, extra = (mean_of_units(pair[side][longer] - pair[side][shorter]).to_numpy() for side in sides)
        point = Estimate(
            f"{unit} per point gained, {shorter} to {longer}", None, method=RATIO_METHOD,
            unit=f"{unit} per score point", n={"bases": len(gain)}, missing=bases - len(gain),
            statistic="cost of a point gained", facets={"step": f"{shorter} to {longer}"},
        )  # fmt: skip
        low = mean_interval(gain).low if len(gain) > 1 else None
        if low is None or low <= 0:
            point = point.not_estimable(f"it is not shown that {longer} gains points over {shorter}")
        elif extra.mean() <= 0:
            point = point.not_estimable(f"{longer} costs no more than {shorter}")
        else:
            point = ratio_interval(point.valued(float(extra.mean() / gain.mean())), extra, gain)
        per_point.append(point)
    return GainCost(tuple(per_run), tuple(per_point))
