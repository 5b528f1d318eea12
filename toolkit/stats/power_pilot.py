"""What a study can still detect and what a larger one would cost, from the variance components of its own runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from toolkit.counting import agreeing, counted
from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.effect_size import standard_deviation
from toolkit.stats.inference.run_table import checked_runs, score_unit
from toolkit.stats.length import CONTRASTS
from toolkit.stats.pilot_result import ContrastPower, PilotPower
from toolkit.stats.power_answer import PowerAnswer, check_count, check_share, check_size, unanswerable, whole
from toolkit.stats.power_paired import bases_needed, detectable_effect
from toolkit.stats.result import Estimate

COSTS: Final = ("aud_cost", "judge_aud_cost")


@over_clusters
def pilot_power(
    runs: pd.DataFrame,
    effect: float | None = None,
    *,
    score: str = "composite",
    power: float = 0.8,
    alpha: float = 0.05,
    repeats: int | None = None,
    aud_per_base: float | None = None,
) -> PilotPower:
    r"""Return what the paired contrasts of length bins can detect at this n, and what an effect needs and costs.

    The variance of a base's difference, averaged over its m models with K repeats of each prompt, is
    :math:`\omega^2 + (\sigma_a^2 + \sigma_b^2) / (m K)`: the first part takes bases, the second repeats. Power is that
    of the paired t test (`toolkit.stats.power_paired`) at level alpha / 3 for three contrasts, the level at which
    Holm's first step tests, so that it is a lower bound for the corrected tests. The observed effect enters nowhere:
    power "at the observed effect" is its p value in other words (Hoenig & Heisey 2001).

    Intervals carry the uncertainty of the pilot's standard deviation alone (94-95.4 % coverage
    from 12 bases); of a small pilot they are wide, and the upper end is the one to plan with.

    Parameters
    ----------
    runs
        One row per run with base, length_bin, the score and, where there are several, model; aud_cost and
        judge_aud_cost (AUD) where costs are known.
    effect
        Difference in score points that matters; None for what is detectable only.
    score
        Column to compare.
    power, alpha
        Wanted power, and level before correction.
    repeats
        Repeats of each prompt in the study to be planned; as in these runs by default.
    aud_per_base
        Cost of all runs and judgements of one base, in AUD; from the runs by default.

    Returns
    -------
    PilotPower

    Raises
    ------
    InputError
        If a column is missing, a run is there twice, or a number cannot be used.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 5. Hoenig & Heisey (2001), The American
    Statistician 55, 19-24.

    Examples
    --------
    >>> scores = {"S": [3.0, 2.5, 3.5, 3.0, 4.0, 2.0], "L": [3.5, 3.0, 3.5, 4.0, 4.5, 2.0]}
    >>> rows = [(f"b{i}", b, value) for b, values in scores.items() for i, value in enumerate(values)]
    >>> found = pilot_power(pd.DataFrame(rows, columns=["base", "length_bin", "composite"]), effect=0.3)
    >>> found.contrasts[0].name, round(found.contrasts[0].detectable.estimate, 2), found.contrasts[0].needed.whole
    ('L-S', 0.54, 15)
    """
    check_share("power", power)
    check_share("alpha", alpha)
    if effect is not None:
        check_size("the effect", abs(effect))
    if repeats is not None:
        check_count("the number of repeats", repeats, least=1)
    costs = [name for name in COSTS if name in runs]
    checked = checked_runs(runs, score, numbers=costs)
    cells = checked.groupby(["base", "situation", "model", "length_bin"])["score"].agg(
        ["mean", "count", "var"]
    )
    cells = cells[cells["count"] > 0]
    there = set(cells.index.get_level_values("length_bin"))
    pairs = [(b, a) for b, a in CONTRASTS if b in there and a in there]
    level = alpha / max(len(pairs), 1)
    asked = (
        float(checked.groupby(["situation", "model", "length_bin"]).size().mean()) if len(checked) else 1.0
    )
    planned = asked if repeats is None else float(repeats)
    price = _price(checked, costs, planned / asked, aud_per_base)
    total = checked["base"].nunique()
    contrasts = tuple(
        _contrast(pair, cells, total, score_unit(score), effect, power, level, repeats, price)
        for pair in pairs
    )
    notes = _notes(checked, contrasts, costs, alpha, aud_per_base)
    return PilotPower(contrasts, price, planned, power, level, notes)


def _contrast(
    pair: tuple[str, str],
    cells: pd.DataFrame,
    total: int,
    unit: str,
    effect: float | None,
    power: float,
    level: float,
    repeats: int | None,
    price: Estimate,
) -> ContrastPower:
    b, a = pair
    name = f"{b}-{a}"
    wide = {column: cells[column].unstack("length_bin") for column in ("mean", "count", "var")}
    both = wide["mean"][[b, a]].dropna().index
    means = wide["mean"].loc[both]
    differences = mean_of_units(means[b] - means[a])
    scale = float(np.abs(cells["mean"].to_numpy()).max())
    spread = standard_deviation(
        f"sd of {name}", differences.to_numpy(), unit=unit, missing=total - len(differences), scale=scale
    )
    n = len(differences)
    within = _within(pair, wide, both)
    observed = None if spread.estimate is None else spread.estimate**2
    between = None if observed is None or within is None else observed - within[0]
    sd, reason = spread.estimate, spread.note.removeprefix("not estimable: ")
    if sd is not None and repeats is not None:
        # A negative component counts as 0; the estimate as it is stays in the result.
        sd = None if within is None else math.sqrt(max(sd**2 - within[0], 0.0) + within[1] / repeats)
        reason = "without repeats of a prompt their share of the variance is unknown; leave `repeats` out"
    once = None if within is None else within[1]
    named = f"{name}: detectable effect"
    if sd is None:
        detectable = unanswerable(named, reason, unit=unit, n={"bases": n})
        nothing = None if effect is None else unanswerable(f"{name}: bases needed", reason, unit="bases")
        cost = None if effect is None else unanswerable(f"{name}: AUD needed", reason, unit="AUD")
        return ContrastPower(name, spread, between, once, None, detectable, nothing, cost)
    # An interval holds for the variance as it was seen; with other repeats it is only scaled, and is left out.
    ends = (spread.low, spread.high) if repeats is None else (None, None)
    found = detectable_effect(n, sd, power=power, alpha=level, unit=unit)
    if found.estimate is not None:
        found = _with_ends(found, [None if end is None else found.estimate * end / sd for end in ends])
    detectable = replace(found, name=named, missing=spread.missing)
    if effect is None:
        return ContrastPower(name, spread, between, once, sd, detectable, None, None)
    needed = bases_needed(effect, sd, power=power, alpha=level)
    if needed.estimate is not None:
        at_ends = [
            None if end is None else bases_needed(effect, end, power=power, alpha=level).estimate
            for end in ends
        ]
        needed = _with_ends(needed, at_ends)
    needed = replace(needed, name=f"{name}: bases needed", n={"bases": n}, missing=spread.missing)
    return ContrastPower(name, spread, between, once, sd, detectable, needed, _cost(name, needed, price, n))


def _with_ends(found: PowerAnswer, ends: list[float | None]) -> PowerAnswer:
    low, high = ends
    if low is None or high is None:
        return found
    said = f"{whole(low)} to {whole(high)} bases" if found.unit == "bases" else f"{low:.3f} to {high:.3f}"
    words = f"{found.words} The pilot's standard deviation is known to within a 95% interval that makes it {said}."
    return replace(
        found, low=low, high=high, method=f"{found.method}; interval of the pilot's sd", words=words
    )


def _within(
    pair: tuple[str, str], wide: dict[str, pd.DataFrame], both: pd.Index
) -> tuple[float, float] | None:
    """Return the variance that repeats put into a base's difference: as it was, and with one repeat of each prompt."""
    pooled = []
    for length in pair:
        freedom = (wide["count"][length] - 1).clip(lower=0)
        if not freedom.sum() > 0:
            return None
        pooled.append(float((wide["var"][length] * freedom).sum() / freedom.sum()))
    counts = wide["count"].loc[both, list(pair)]
    models = pd.Series(1.0, index=both).groupby(level="base").transform("sum")
    shares = 1.0 / models**2
    as_it_was = (
        ((pooled[0] / counts[pair[0]] + pooled[1] / counts[pair[1]]) * shares).groupby(level="base").sum()
    )
    once = ((pooled[0] + pooled[1]) * shares).groupby(level="base").sum()
    return float(as_it_was.mean()), float(once.mean())


def _price(checked: pd.DataFrame, costs: list[str], more: float, given: float | None) -> Estimate:
    """Return what the planned runs and judgements of one base cost, from the mean of each model and length bin."""
    name, bases = "AUD per base", int(checked["base"].nunique())
    if given is not None:
        check_size("AUD per base", given, least=-1e-300)
        return Estimate(name, given, method="as given", unit="AUD", n={"bases": bases})
    unknown = Estimate(name, None, unit="AUD", n={"bases": bases, "runs": len(checked)})
    if "aud_cost" not in costs:
        return replace(unknown, note="not estimable: the runs have no aud_cost; give aud_per_base")
    total = 0.0
    for (model, length), rows in checked.groupby(["model", "length_bin"]):
        if rows["aud_cost"].isna().all():
            return replace(unknown, note=f"not estimable: no cost of {model} is known at length {length}")
        per_base = len(rows) / max(rows["situation"].nunique(), 1)
        total += sum(float(rows[name].mean()) for name in costs if rows[name].notna().any()) * per_base
    missing = int(checked["aud_cost"].isna().sum())
    free = "these models and judges cost nothing" if total == 0 else ""
    return replace(
        unknown, estimate=total * more, method="mean of runs and judgements", missing=missing, note=free
    )


def _cost(name: str, needed: PowerAnswer, price: Estimate, n: int) -> PowerAnswer:
    named = f"{name}: AUD needed"
    if needed.estimate is None or price.estimate is None:
        reason = (needed if needed.estimate is None else price).note.removeprefix("not estimable: ")
        return unanswerable(named, reason, unit="AUD", n={"bases": n})
    count, each = whole(needed.estimate), price.estimate
    low, high = (None if end is None else whole(end) * each for end in (needed.low, needed.high))
    more = max(count - n, 0)
    between = "" if low is None or high is None else f" (between {low:.2f} and {high:.2f}, by the pilot's sd)"
    free = f"; {price.note}" if price.note else ""
    return PowerAnswer(
        named,
        count * each,
        low=low,
        high=high,
        method=f"{price.method} x bases needed",
        unit="AUD",
        n={"bases": n},
        missing=price.missing,
        note=f"{each:.4g} AUD a base; {more} bases more than the {n} there are: {more * each:.4g} AUD{free}",
        words=f"{count} bases cost {count * each:.2f} AUD{between}, {more * each:.2f} AUD of it for {more} more "
        f"than the {n} that there are{free}.",
    )


def _notes(
    checked: pd.DataFrame,
    contrasts: tuple[ContrastPower, ...],
    costs: list[str],
    alpha: float,
    given: float | None,
) -> tuple[str, ...]:
    notes = ["power is computed from the variance of these runs; the observed differences do not enter"]
    tests = len(contrasts)
    if tests > 1:
        notes.append(
            f"each contrast is tested at {alpha:g} / {tests}, as Holm's first step: a lower bound of power"
        )
    if not tests:
        notes.append("fewer than two length bins have a score, so there is no contrast")
    for one in contrasts:
        if one.between is not None and one.between < 0:
            notes.append(
                f"the variance between bases of {one.name} is estimated as {one.between:.3g} and taken as 0"
            )
    unscored = int(checked["score"].isna().sum())
    if unscored:
        notes.append(
            f"{unscored} of {counted(len(checked), 'runs')} {agreeing(unscored, 'have no score')}; "
            "plan for as many to be lost again"
        )
    judged = "judge_aud_cost" in costs and checked["judge_aud_cost"].notna().any()
    if given is None and "aud_cost" in costs and not judged:
        notes.append("no cost of a judgement is known, so judges are not in the AUD")
    return tuple(notes)
