"""What quality costs: quality per AUD, and which model at which prompt length no other beats on both."""

from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.scoring import calculate_efficiency
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.jackknife import with_jackknife
from toolkit.stats.inference.means import mean_interval, mean_on_scale
from toolkit.stats.inference.run_table import at_length, checked_runs, in_order, levels_of, score_unit
from toolkit.stats.result import ROUNDING, Estimate, Result, wide
from toolkit.words import SCORE

MEAN_METHOD = "Student t over bases"
RATIO_METHOD = "ratio of means over bases, jackknife of its logarithm"
RESAMPLES = 2000
_COST_UNITS = {"aud_cost": "AUD", "total_tokens": "tokens"}
_NUMBERS = ("quality", "cost", "per_aud")


class Pareto(Result):
    """The points of a study in the plane of cost and quality: model, level, three estimates, and the front."""

    def frame(self) -> pd.DataFrame:
        """Return one row per point: estimates with their ends, front, probability and note; never rounded."""
        ends = list(wide(dict.fromkeys(_NUMBERS)))
        counts = ["bases", "answers", "missing", "on_front", "probability", "note"]
        rows = []
        for point in self.points:
            row = wide({name: point.values[name] for name in _NUMBERS})
            row |= {"bases": point.quality.bases, "answers": point.quality.n["answers"]}
            row |= {"missing": point.quality.missing, "note": point.per_aud.remarks}
            rows.append(point.values | row)
        frame = pd.DataFrame(rows, columns=["model", "level", *ends, *counts])
        return frame.astype(dict.fromkeys([*ends, "probability"], "float64"))


def _front_sentence(result: Result) -> str:
    return " ".join(point.sentence() for point in result.points if point.on_front)


def _point_sentence(point: Result) -> str:
    verb = "is" if point.on_front else "is not"
    certainty = "too few bases to say how firmly"
    if point.probability is not None:
        certainty = f"on it in {point.probability:.1%} of the resamples of bases"
    numbers = " ".join(getattr(point, name).sentence() for name in _NUMBERS)
    return f"{at_length(point.model, point.level)} {verb} on the cost-quality front ({certainty}). {numbers}"


def cost_column(runs: pd.DataFrame) -> str:
    """Return the column of cost that tells runs apart: tokens where every scored run was free, else AUD."""
    if not {SCORE, "aud_cost", "total_tokens"} <= set(runs):
        return "aud_cost"
    costs = runs.loc[runs[SCORE].notna(), "aud_cost"].dropna()
    return "total_tokens" if len(costs) and (costs == 0).all() else "aud_cost"


@over_clusters
def pareto(
    runs: pd.DataFrame,
    score: str = SCORE,
    cost: str = "aud_cost",
    *,
    resamples: int = RESAMPLES,
    seed: int = 20250107,
) -> Pareto:
    r"""Return quality, cost and quality per AUD of each model and length bin, and who is on the front.

    A point is on the front if no other has :math:`q_j \ge q_i` and :math:`c_j \le c_i` with one of the two strict. Its
    probability is the share of resamples of bases, drawn whole and with replacement for all points at once, in which
    it is on the front. Quality per AUD is the ratio of the two means; its interval is the jackknife over bases of
    :math:`\ln(\bar q / \bar c)`.

    Runs that lack score or cost are left out and counted.

    References
    ----------
    Efron & Tibshirani (1993), Introduction to the Bootstrap, chapters 8 and 11.

    Examples
    --------
    >>> rows = [(f"b{i}", m, "S", 3 + q + i % 2, c) for i in range(6) for m, q, c in [("x", 0, 0.1), ("y", -1, 0.2)]]
    >>> runs = pd.DataFrame(rows, columns=["base", "model", "level", "composite_strict", "aud_cost"])
    >>> [(p.model, p.on_front, p.probability) for p in pareto(runs).points]
    [('x', True, 1.0), ('y', False, 0.0)]
    """
    if resamples < 1:
        raise InputError(f"pareto: {resamples} resamples; give one or more")
    table = checked_runs(runs, score, numbers=(cost,))
    if (table[cost] < 0).any():
        raise InputError(f"runs: {cost} {table[cost].min():g} is below 0; a run costs nothing or more")
    used = table.dropna(subset=["score", cost])
    by = ["model", "level"]
    means = used.groupby([*by, "unit", "base"])[["score", cost]].mean()
    means = means.groupby(level=[*by, "unit"]).mean()  # see `mean_of_units`
    bins = in_order(used["level"], levels_of(runs))
    keys = sorted({key[:2] for key in means.index}, key=lambda key: (str(key[0]), bins.index(key[1])))
    bases = used["unit"].unique()
    quality, price = (
        means[name].unstack("unit").reindex(keys).reindex(columns=bases).to_numpy(float).T
        for name in ("score", cost)
    )
    front = on_front(np.ones((1, len(quality))), quality, price)[0]
    probabilities = front_probabilities(quality, price, resamples, seed)
    counts, answers = table.groupby(by).size(), used.groupby(by).size()
    units, points = (score_unit(score, runs), _COST_UNITS.get(cost, cost)), []
    for index, key in enumerate(keys):
        missing = int(counts[key] - answers[key])
        empty = Estimate(at_length(*key), n={"answers": int(answers[key])}, missing=missing)
        estimates = _numbers(empty, quality[:, index], price[:, index], *units)
        point = Result(
            "pareto_point", text=_point_sentence, model=str(key[0]), level=key[1],
            quality=estimates[0], cost=estimates[1], per_aud=estimates[2],
            on_front=bool(front[index]), probability=probabilities[index],
        )  # fmt: skip
        points.append(point)
    notes = _notes(table, used, cost, quality, score)
    return Pareto(
        "pareto",
        text=_front_sentence,
        points=points,
        resamples=resamples,
        seed=seed,
        notes=notes,
        cost=cost,
    )


def _numbers(
    point: Estimate, quality: np.ndarray, price: np.ndarray, unit: str, currency: str
) -> tuple[Estimate, Estimate, Estimate]:
    available = np.isfinite(quality)
    q, c = quality[available], price[available]
    empty = replace(point, method=MEAN_METHOD, n={"bases": len(q), **point.n}, facets={"point": point.name})
    units = {"quality": unit, f"{currency} per run": currency}
    units[f"quality per {currency}"] = f"{unit} per {currency}"
    mean_quality, mean_cost, per_aud = (
        replace(empty, name=f"{statistic} of {point.name}", statistic=statistic, unit=measure)
        for statistic, measure in units.items()
    )
    efficiency = calculate_efficiency(float(q.mean()), float(c.mean()))
    per_aud = replace(per_aud, method=RATIO_METHOD, estimate=efficiency)
    nothing = "the runs cost nothing, so there is no quality per AUD"
    per_aud = per_aud.not_estimable(nothing) if efficiency is None else ratio_interval(per_aud, q, c)
    return mean_on_scale(mean_quality, q, range(len(q))), mean_interval(c).of(mean_cost), per_aud


def ratio_interval(ratio: Estimate, quality: np.ndarray, price: np.ndarray) -> Estimate:
    """Return a ratio of means with the jackknife over bases of its logarithm, or why there is no interval."""
    if len(quality) < 2:
        return ratio.no_interval("one base")
    quality_without, price_without = quality.sum() - quality, price.sum() - price
    if min(quality_without.min(), price_without.min()) <= 0:
        return ratio.no_interval("without one of the bases quality or cost is 0")
    return with_jackknife(
        ratio, quality_without / price_without, np.log, np.exp, useless="all bases are alike"
    )


def on_front(weights: np.ndarray, quality: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return which points no other point beats, for each row of weights over bases."""
    total = weights @ np.isfinite(quality).astype(float)
    absent, drawn = total == 0, np.where(total > 0, total, 1.0)
    q = np.where(absent, -np.inf, weights @ np.nan_to_num(quality) / drawn)
    c = np.where(absent, np.inf, weights @ np.nan_to_num(price) / drawn)
    # Means that differ by rounding only are equal, or the order of summation would decide who is on the front.
    slack_q = ROUNDING * np.abs(np.nan_to_num(quality)).max(initial=0.0)
    slack_c = ROUNDING * np.nan_to_num(price).max(initial=0.0)
    undominated = ~absent
    for other in range(q.shape[1]):
        # Two absent points: infinity less infinity is no reason to dominate.
        with np.errstate(invalid="ignore"):
            better, cheaper = q[:, [other]] - q, c - c[:, [other]]
        undominated &= ~(
            (better >= -slack_q) & (cheaper >= -slack_c) & ((better > slack_q) | (cheaper > slack_c))
        )
    return np.asarray(undominated)


def front_probabilities(
    quality: np.ndarray, price: np.ndarray, resamples: int, seed: int
) -> list[float | None]:
    """Return the share of resamples of whole bases, drawn for all points at once, that have each point on the front."""
    bases, points = quality.shape
    if bases < 2:
        return [None] * points
    drawn = np.random.default_rng(seed).multinomial(bases, np.full(bases, 1 / bases), size=resamples)
    shares = on_front(drawn.astype(float), quality, price).mean(axis=0)
    enough = np.isfinite(quality).sum(axis=0) >= 2
    return [float(share) if estimable else None for share, estimable in zip(shares, enough, strict=True)]


def _notes(
    table: pd.DataFrame, used: pd.DataFrame, cost: str, quality: np.ndarray, score: str
) -> tuple[str, ...]:
    notes = ["the cost is that of the run, not of its judges"]
    if table.duplicated(["base", "model", "level"]).any():
        notes.insert(0, "repeats are averaged first, so each base counts once")
    if incomplete := len(table) - len(used):
        spent = f"{_COST_UNITS.get(cost, cost)} {float(table[cost].sum() - used[cost].sum()):g}"
        lack = f"have no {score} or no {cost} and are left out; they cost {spent}"
        notes.append(f"{incomplete} of {len(table)} runs {lack}")
    if np.isnan(quality).any():
        notes.append("not every point has every base, so points are compared over partly different bases")
    if len(used) and not used[cost].any():
        free = "every run was free: the front is the best quality alone, and there is no quality per AUD"
        notes.append(free)
    return tuple(notes)
