"""How far a mean score generalizes beyond these judges, repeats and bases, and what a wanted coefficient takes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.generalizability.components import (
    SQUARED_POINTS,
    Design,
    VarianceComponents,
    interval_of,
    variance_components,
)
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import need_columns, need_once, numbers_of
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result, Row
from toolkit.words import SCORE, choices, counted

E_RHO2 = "E-rho2"
PHI = "Phi"


def weights(
    design: Design, of: Sequence[str], fixed: Sequence[str], counts: Mapping[str, ArrayLike]
) -> np.ndarray:
    r"""Return the weights of all components in universe score, relative error and absolute error variance (axis 0).

    An effect is divided by the counts of its factors outside the object; arrays of counts are many studies (last axis).
    An effect is universe score variance where it has the object and else fixed factors only, relative error where it
    has the object and a random factor, absolute error where it has a random one (Brennan 2001, 4.1, 4.3).
    """
    objects, not_random = set(of), set(of) | set(fixed)
    ones = np.ones(np.broadcast_shapes(*map(np.shape, counts.values())))
    rows = []
    for effect in design.effects:
        share = ones / math.prod(np.asarray(counts[name]) for name in effect - objects)
        random = bool(effect - not_random)
        has_object = bool(effect & objects)
        rows.append((share * (has_object and not random), share * (has_object and random), share * random))
    return np.stack(rows, axis=1)


def coefficients(estimates: np.ndarray, error_weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return variances and coefficients of components, one set or many; negative ones count as 0."""
    nonnegative = np.maximum(estimates, 0.0)
    universe, relative, absolute = (nonnegative @ weight for weight in error_weights)
    floor, values = ROUNDING * (nonnegative @ np.ones_like(error_weights[0])), {"universe": universe}
    for name, error, coefficient in (("relative", relative, E_RHO2), ("absolute", absolute, PHI)):
        total, nothing = universe + error, np.full(np.shape(universe), np.nan)
        values |= {name: error, f"sem {name}": np.sqrt(error)}
        values[coefficient] = np.divide(universe, total, out=nothing, where=total > floor)
    return values


SEM_UNIT = "score points"
_RESULTS = (
    (PHI, PHI, "none"),
    (E_RHO2, E_RHO2, "none"),
    ("universe score variance", "universe", SQUARED_POINTS),
    ("absolute error variance", "absolute", SQUARED_POINTS),
    ("relative error variance", "relative", SQUARED_POINTS),
    ("SEM of the score", "sem absolute", SEM_UNIT),
    ("SEM of comparisons", "sem relative", SEM_UNIT),
)
"""Name, key in ``coefficients`` and unit of every result."""


class Generalizability(Result):
    """How dependable the mean score of an object of measurement is."""

    def rows(self) -> list[Row]:
        """Return coefficients, error variances, then components."""
        kinds = {"none": "coefficient", SQUARED_POINTS: "variance"}
        rows = [(kinds.get(result.unit, "standard error"), result) for result in self.results]
        return [*rows, *(("component", result) for result in self.components.components)]

    def sentence(self) -> str:
        """Return both coefficients in words ready for the thesis."""
        over = ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in self.counts.items())
        heads = self.components.requested_design.heads(frozenset(self.of))
        subject = f"Mean scores per {heads} over {over or 'nothing else'}"
        return f"{subject}: {self.phi.sentence()} {self.e_rho2.sentence()}"

    @property
    def phi(self) -> Estimate:
        """Dependability of the score as it stands: a judge's leniency is error."""
        return cast(Estimate, self.results[0])

    @property
    def e_rho2(self) -> Estimate:
        """Generalizability of comparisons between objects that the same judges scored."""
        return cast(Estimate, self.results[1])


def generalizability_study(
    components: VarianceComponents, of: str | Sequence[str], *, fixed: Sequence[str] = ()
) -> Generalizability:
    r"""Return E-rho2, Phi, error variances and standard errors of measurement of a mean score.

    :math:`E\rho^2 = \sigma^2(\tau) / (\sigma^2(\tau) + \sigma^2(\delta))` and :math:`\Phi = \sigma^2(\tau) /
    (\sigma^2(\tau) + \sigma^2(\Delta))`, with the relative error :math:`\delta` for comparing objects and the absolute
    error :math:`\Delta` for their scores as they stand (Brennan 2001, equations 4.20, 4.23). Intervals are those of
    the components' draws.

    References
    ----------
    Brennan (2001), Generalizability Theory, chapter 4. Shavelson & Webb (1991), chapters 6-7.

    Examples
    --------
    >>> import pandas as pd
    >>> from toolkit.stats.generalizability.components import variance_components
    >>> from toolkit.stats.generalizability.components import Design
    >>> scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    >>> frame = pd.DataFrame(rows, columns=["answer", "judge", "score"])
    >>> found = generalizability_study(variance_components(frame, Design(("answer", "judge"))), "answer")
    >>> round(found.e_rho2.estimate, 4), round(found.phi.estimate, 4)
    (0.9093, 0.6201)
    """
    objects = _checked_factors(components, (of,) if isinstance(of, str) else of)
    fixed_factors = _checked_factors(components, fixed)
    if set(objects) & set(fixed_factors):
        raise InputError(f"generalizability of {', '.join(objects)}: the object cannot be fixed as well")
    levels = {} if components.problem else components.table.levels
    over = {name: count for name, count in levels.items() if name not in objects}
    reason = _reason(components, objects, fixed_factors)
    table = components.table
    empty = [Estimate(name, unit=unit, n=table.n, missing=table.missing) for name, _, unit in _RESULTS]
    results = tuple(estimate.not_estimable(reason) for estimate in empty)
    if not reason:
        results = _estimates(components, weights(table.design, objects, fixed_factors, over))
    return Generalizability(
        "generalizability_study",
        of=objects,
        fixed=fixed_factors,
        counts=over,
        results=results,
        components=components,
        notes=components.notes,
    )


def _estimates(components: VarianceComponents, error_weights: np.ndarray) -> Estimates:
    """Return every result in its order, from the components and from their draws."""
    draws, scale = components.draws, components.table.scale
    draws_of_coefficients = None if draws is None else coefficients(draws, error_weights)
    point = coefficients(components.fit.raw, error_weights)
    factor = {"none": 1.0, SQUARED_POINTS: scale**2, SEM_UNIT: scale}
    pattern, cautions = components.components[0], "; ".join(components.cautions)

    def filled(name: str, key: str, unit: str) -> Estimate:
        result = replace(
            pattern, name=name, unit=unit, estimate=None, low=None, high=None, note=cautions, reason=""
        )
        if not np.isfinite(point[key]):
            return result.not_estimable("there is no variance to share out")
        result = result.with_value(float(point[key]) * factor[unit])
        if draws_of_coefficients is None:
            return result.no_interval(pattern.reason)
        low, high = map(float, interval_of(draws_of_coefficients[key]))
        return replace(result, low=low * factor[unit], high=high * factor[unit])

    return tuple(filled(*row) for row in _RESULTS)


def _checked_factors(components: VarianceComponents, names: Sequence[str]) -> tuple[str, ...]:
    """Return factors with what they are nested in, refusing those that the study does not have."""
    factors = components.requested_design.factors
    unknown = [name for name in names if name not in factors]
    if unknown:
        raise InputError(
            f"factor {unknown[0]!r}: not in the design; {choices(unknown[0], factors, 'it has')}"
        )
    closed = components.requested_design.closure(names)
    return tuple(name for name in factors if name in closed)


def _reason(components: VarianceComponents, objects: tuple[str, ...], fixed: tuple[str, ...]) -> str:
    if components.problem:
        return components.problem
    present = set(components.table.design.factors)
    if not present & set(objects):
        return f"there is one {' and '.join(objects)} only"
    if not present - set(objects) - set(fixed):
        return "no factor of several levels is left to generalize over"
    return ""


@dataclass(frozen=True)
class Costs:
    """What one more run and one more judgement cost."""

    run: float | None = None
    judgement: float | None = None
    runs_per_cell: int = 1
    judgements_per_run: int = 1


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
        goal = f"{self.coefficient} of {self.target:.2f}"
        if self.reached is None:
            return f"{goal}: {self.note}."
        parts = [counted(count, f"{name}s") for name, count in self.counts.items()]
        effort = f"{counted(self.runs or 0, 'runs')} and {counted(self.judgements or 0, 'judgements')}"
        text = f"{goal} needs {', '.join(parts)}: {effort}"
        if self.aud is not None:
            # A cost that is not nothing does not read 0.00.
            text += f", {self.aud:{'.2f' if self.aud >= 1 or self.aud == 0 else '.3g'}} AUD"
        text += f"; the coefficient is then {self.reached:.3f}"
        if self.low is not None and self.high is not None:
            text += f", 95% interval [{self.low:.3f}, {self.high:.3f}]"
        return f"{text}{f' ({self.note})' if self.note else ''}."


def _plans_sentence(result: Result) -> str:
    return " ".join(plan.sentence() for plan in result.plans)


_LEVEL_LIMITS = {"base": 500}  # most levels tried of a facet; 10 (_FACET_LIMIT) for every other facet
_FACET_LIMIT = 10
_LONGEST_CURVE = 20
_COLUMNS = ("coefficient", "facet", "count", "estimate", "low", "high", "runs", "judgements", "aud")


def decision_study(result: Generalizability, target: float = 0.90, *, costs: Costs | None = None) -> Result:
    """Return the coefficients of other designs, and the cheapest one that reaches the target.

    The cheapest of all designs up to the limits wins; among equals, or where costs are unknown, the one with fewest
    judgements, then fewest runs.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.1. Marcoulides & Goldstein (1990), Educ. Psychol. Meas. 50,
    761-768, for the cheapest design.

    Examples
    --------
    >>> import pandas as pd
    >>> from toolkit.stats import Design, variance_components
    >>> scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    >>> frame = pd.DataFrame(rows, columns=["answer", "judge", "score"])
    >>> study = generalizability_study(variance_components(frame, Design(("answer", "judge"))), "answer")
    >>> plans = decision_study(study, target=0.95).plans
    >>> [(plan.coefficient, dict(plan.counts)) for plan in plans]
    [('Phi', {}), ('E-rho2', {'judge': 8})]
    """
    if not 0 < target < 1:
        raise InputError(f"target {target}: a coefficient lies between 0 and 1")
    facets = [name for name in result.counts if name not in result.fixed]
    designs = _Designs(result, facets, costs or Costs())
    plans = [DecisionPlan(name, target, note=result.phi.remarks) for name in (PHI, E_RHO2)]
    curves = pd.DataFrame(columns=list(_COLUMNS))
    if result.phi.estimate is not None:
        ranges = [np.arange(1, _LEVEL_LIMITS.get(name, _FACET_LIMIT) + 1) for name in facets]
        grid = np.array(list(product(*ranges)))
        plans = [designs.cheapest(name, target, grid) for name in (PHI, E_RHO2)]
        curves = designs.curves(ranges)
    return Result("decision_study", text=_plans_sentence, curves=curves, plans=plans)


@dataclass(frozen=True)
class _Designs:
    """Designs with other counts of the facets that are generalized over, and what they cost."""

    result: Generalizability
    facets: list[str]
    costs: Costs

    def weights(self, counts: Mapping[str, ArrayLike]) -> np.ndarray:
        design, result = self.result.components.table.design, self.result
        return weights(design, result.of, result.fixed, {**result.counts, **counts})

    def values(self, coefficient: str, counts: Mapping[str, ArrayLike]) -> np.ndarray:
        """Return a coefficient for all counts at once; 0 where nothing varies."""
        return np.nan_to_num(coefficients(self.result.components.fit.raw, self.weights(counts))[coefficient])

    def interval(self, coefficient: str, counts: Mapping[str, ArrayLike]) -> Iterable[np.ndarray | None]:
        draws = self.result.components.draws
        if draws is None:
            return None, None
        return interval_of(coefficients(draws, self.weights(counts))[coefficient])

    def sizes(self, grid: np.ndarray) -> dict[str, np.ndarray]:
        """Return runs, judgements and AUD of every row of counts; a factor nested in judges takes no new run."""
        nested, table = self.result.components.requested_design.nested, self.result.components.table
        averaged = tuple(i for i, name in enumerate(table.design.factors) if name not in self.result.of)
        objects = int(table.scored.any(axis=averaged).sum())
        runs = np.full(len(grid), objects * self.costs.runs_per_cell)
        judgements = np.full(len(grid), self.costs.judgements_per_run)
        for name, count in self.result.counts.items():
            many = grid[:, self.facets.index(name)] if name in self.facets else count
            if name == "judge" or "judge" in nested.get(name, ()):
                judgements = judgements * many
            else:
                runs = runs * many
        judgements = judgements * runs
        prices = (self.costs.run, self.costs.judgement)
        run, judgement = (np.nan if price is None else price for price in prices)
        return {"runs": runs, "judgements": judgements, "aud": runs * run + judgements * judgement}

    def cheapest(self, coefficient: str, target: float, grid: np.ndarray) -> DecisionPlan:
        """Return the cheapest of all designs in a grid that reaches a coefficient, or that none does."""
        values = self.values(coefficient, dict(zip(self.facets, grid.T, strict=True)))
        good = np.flatnonzero(values >= target)
        if not len(good):
            most = zip(self.facets, grid.max(axis=0), strict=True)
            highest = ", ".join(f"{count} {name}s" for name, count in most)
            note = f"not reached with up to {highest}, which give {float(values.max()):.4f} at most"
            return DecisionPlan(coefficient, target, note=note)
        sizes = self.sizes(grid[good])
        place = np.lexsort((sizes["runs"], sizes["judgements"], sizes["aud"]))[0]
        runs, judgements, aud = (sizes[name][place] for name in ("runs", "judgements", "aud"))
        counts = dict(zip(self.facets, map(int, grid[good[place]]), strict=True))
        low, high = (None if end is None else float(end) for end in self.interval(coefficient, counts))
        unknown = "no cost, because the price of a run or judgement is not known" if np.isnan(aud) else ""
        reached = float(values[good[place]])
        price = None if unknown else float(aud)
        effort = int(runs), int(judgements)
        return DecisionPlan(coefficient, target, counts, reached, low, high, *effort, price, unknown)

    def curves(self, ranges: list[np.ndarray]) -> pd.DataFrame:
        """Return both coefficients by the count of each facet, the others as in the study."""
        parts = []
        for axis, facet in enumerate(self.facets):
            most, now = len(ranges[axis]), self.result.counts
            # Where not every count is looked at, those of few levels are closer, because there the curve bends.
            few = most <= _LONGEST_CURVE
            steps = (
                np.arange(1, most + 1) if few else np.geomspace(1, most, _LONGEST_CURVE).round().astype(int)
            )
            steps = np.unique([*steps, now[facet]])
            grid = np.array([[now[name] for name in self.facets]] * len(steps))
            grid[:, axis] = steps
            sizes = self.sizes(grid)
            for coefficient in (PHI, E_RHO2):
                low, high = self.interval(coefficient, {facet: steps})
                values = {"estimate": self.values(coefficient, {facet: steps}), "low": low, "high": high}
                columns = {"coefficient": coefficient, "facet": facet, "count": steps}
                parts.append(pd.DataFrame({**columns, **values, **sizes}))
        return pd.concat(parts, ignore_index=True).astype({"low": "float64", "high": "float64"})


ANSWER_DESIGN = Design(
    ("base", "answer", "judge", "repeat"), {"answer": ("base",), "repeat": ("base", "answer", "judge")}
)
"""Answers within bases, judged by every judge, perhaps several times: how far a score of one answer holds."""
BASE_DESIGN = Design(("base", "model", "judge", "repeat"), {"repeat": ("base", "model")})
"""Bases by models, each asked several times, by judges: how far the mean of a model or a base holds."""
_OBJECTS = ("answer", "model", "base")


class StudyGeneralizability(Result):
    """Coefficients and components of a study (``result``), and what other designs would give (``decision``)."""

    def rows(self) -> Iterable[Row]:
        """Return coefficients, error variances, then components."""
        return cast(Generalizability, self.result).rows()

    def figure_frame(self) -> pd.DataFrame:
        """Return what the figure of variance components and decision-study curves draws."""
        bars = self.result.components.frame()
        bars = bars.assign(part="component", name=bars["effect"], present=True)
        lines = self.decision.curves.assign(part="curve", name=self.decision.curves["coefficient"])
        levels = zip(lines["facet"], lines["count"], strict=True)
        lines["present"] = [self.result.counts.get(facet) == count for facet, count in levels]
        numbers = ["estimate", "low", "high", "raw", "share", "aud"]
        columns = ["part", "name", "facet", "count", *numbers, "present"]
        parts = [part.reindex(columns=columns).astype(object) for part in (bars, lines) if len(part)]
        frame = pd.concat(parts, ignore_index=True)
        return frame.astype({**dict.fromkeys(numbers, "float64"), "count": "Int64", "present": "bool"})

    def sentence(self) -> str:
        """Return coefficients, shares and plans in words ready for the thesis."""
        parts = (self.result.sentence(), self.result.components.sentence(), self.decision.sentence())
        return f"{self.score}: {' '.join(parts)}"


@over_clusters  # adds the column "unit": the cluster of a base, or the base
def study_generalizability(
    judgements: pd.DataFrame,
    *,
    score: str = SCORE,
    of: str = "answer",
    target: float = 0.90,
    run_aud: float | None = None,
    judgement_aud: float | None = None,
) -> StudyGeneralizability:
    """Return how far the scores of a study generalize, and what a wanted coefficient would take.

    Of an answer (one reply): answers within bases x judges x times judged. Of a model: bases x models x judges, with
    runs repeated within base and model. Of a base: the same with the models fixed. For these scores are means over the
    length bins, which are fixed (Brennan 2001, section 4.3), and over the times a judge judged a reply.

    ``judgements`` has one row per judgement with base, model, repeat, judge, the score and, where there are several,
    run_id, level and judge_repeat; ``target`` is the wanted coefficient, and a run and a judgement cost
    ``run_aud`` and ``judgement_aud`` (None where unknown).

    Examples
    --------
    >>> import pandas as pd
    >>> scores = {"mild": [4.0, 3.5, 5.0, 4.5], "fair": [3.5, 3.0, 4.0, 4.5]}
    >>> rows = [(f"b{i}", "m", 0, judge, score) for judge in scores for i, score in enumerate(scores[judge])]
    >>> table = pd.DataFrame(rows, columns=["base", "model", "repeat", "judge", "composite_strict"])
    >>> study = study_generalizability(table, of="base").result
    >>> round(study.e_rho2.estimate, 2), round(study.phi.estimate, 2)
    (0.89, 0.78)
    """
    if of not in _OBJECTS:
        raise InputError(f"generalizability of {of!r} is not known; {choices(of, _OBJECTS)}")
    need_columns("judgements", judgements, ("base", "model", "repeat", "judge", score))
    notes: list[str] = []
    frame, costs = _answers(judgements, score), Costs(run_aud, judgement_aud)
    if of != "answer":
        frame, costs, notes = _bases(judgements, score, costs)
    components = variance_components(frame, ANSWER_DESIGN if of == "answer" else BASE_DESIGN)
    result = generalizability_study(components, of, fixed=("model",) if of == "base" else ())
    decision = decision_study(result, target, costs=costs)
    notes += result.notes
    return StudyGeneralizability(
        "generalizability", score=score, result=result, decision=decision, notes=notes
    )


def mean_cost(costs: pd.Series) -> float | None:
    """Return the mean of what calls cost in AUD, or None where no cost is known."""
    numbers = pd.to_numeric(costs, errors="coerce").dropna()
    return float(numbers.mean()) if len(numbers) else None


def _answers(judgements: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return base, answer, judge, repeat and score; an answer is a run."""
    if "run_id" in judgements:
        answer = judgements["run_id"]
    else:
        names = [name for name in ("model", "level", "repeat") if name in judgements]
        answer = judgements[names].astype("string").agg(" / ".join, axis=1)
    judge, repeat = judgements["judge"].astype("object"), judgements.get("judge_repeat", 0)
    scores = pd.DataFrame({"base": judgements["unit"], "answer": answer, "judge": judge, "repeat": repeat})
    return scores.assign(score=judgements[score])


def _bases(judgements: pd.DataFrame, score: str, costs: Costs) -> tuple[pd.DataFrame, Costs, list[str]]:
    """Return scores averaged over times judged and length bins, what a cell costs, and how it was averaged."""
    keys = ["unit", "base", "model", "judge", "repeat"]
    frame = judgements.assign(score=numbers_of("judgements", judgements, score))
    frame = frame.astype({"judge": "object"})
    within = [name for name in ("level", "judge_repeat") if name in frame]
    frame[within] = frame[within].astype("object")
    twice = "are there twice, the first of base {base}; keep one per run, judge and time judged"
    need_once(frame, [*keys, *within], f"judgements: {{count}} {twice}")
    notes, bins, times = [], 1, 1

    def cells(by: list[str]) -> Any:
        return frame.groupby(by, sort=False, observed=True, dropna=False)["score"]

    if "judge_repeat" in frame:
        times = int(frame["judge_repeat"].nunique())
        by = [*keys, *(name for name in within if name == "level")]
        frame = cells(by).mean().reset_index()
        if times > 1:
            notes.append(f"scores are means over up to {times} times a judge judged a reply")
    if "level" in frame:
        bins = int(frame["level"].nunique())
        frame = cells(keys).mean().where(cells(keys).count() == bins).reset_index()
        if bins > 1:
            notes.append(
                f"scores are means over the {bins} length bins, which are fixed; a mean needs all of them"
            )
    costs = replace(costs, runs_per_cell=bins, judgements_per_run=max(times, 1))
    keys.remove("base")  # bases of one cluster are averaged, so that each cluster counts once
    frame = cells(keys).mean().reset_index()
    return frame.assign(base=frame["unit"]), costs, notes
