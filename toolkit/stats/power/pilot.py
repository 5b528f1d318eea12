"""What a study can still detect, and what a larger one would cost, from the variance of its own runs."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from toolkit.stats.conditions.contrasts import successive
from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.means import FEWEST_FOR_SPREAD, clustered_mean, standard_deviation
from toolkit.stats.inference.run_table import checked_runs, contrast_name, item_means, levels_of, score_unit
from toolkit.stats.power.sample_size import PowerAnswer, bases_needed, check_size, detectable_effect, whole
from toolkit.stats.result import Estimate, Result, Row
from toolkit.words import SCORE, agreeing, counted

COSTS = ("aud_cost", "judge_aud_cost")
ALPHA = 0.05


class PilotPower(Result):
    """The power of a study for the contrasts M-S, L-M and L-S, from its own runs.

    A contrast has ``spread``, ``detectable``, ``needed`` and ``cost``, the last two where an effect was asked about.
    ``repeats`` is what the answers are for, ``level`` that of each test after correction for their number.
    """

    def curve(self, bases: Iterable[int]) -> pd.DataFrame:
        """Return what other numbers of bases, 2 or more, would detect and cost; NaN where there is no number."""
        price, rows = self.aud_per_base.estimate, []
        for contrast, n in product(self.contrasts, list(bases)):
            effect = None
            if contrast.sd is not None:
                effect = detectable_effect(n, contrast.sd, power=self.power, alpha=self.level).estimate
            rows.append((contrast.name, int(n), effect, None if price is None else n * price))
        frame = pd.DataFrame(rows, columns=["contrast", "bases", "detectable_effect", "aud"])
        return frame.astype({"detectable_effect": "float64", "aud": "float64"})


def _rows(result: Result) -> Iterator[Row]:
    yield from ((contrast.name, answer) for contrast in result.contrasts for answer in contrast.select())
    yield "all", result.aud_per_base


def _sentence(result: Result) -> str:
    """Return every answer in words."""
    answers = ((contrast.name, answer) for contrast in result.contrasts for answer in contrast.select()[1:])
    parts = [f"{name}: {answer.sentence()}" for name, answer in answers]
    return " ".join([*parts, *(f"{note[0].upper()}{note[1:]}." for note in result.notes)])


@over_clusters
def pilot_power(
    runs: pd.DataFrame, effect: float | None = None, *, score: str = SCORE, repeats: int | None = None
) -> PilotPower:
    r"""Return what the paired contrasts of length bins can detect at this n, and what an effect needs and costs.

    The variance of a base's difference, averaged over its m models with K repeats of each prompt, is :math:`\omega^2 +
    (\sigma_a^2 + \sigma_b^2) / (m K)`: the first part takes bases, the second repeats. Power (.8) is that of the
    paired t test (`bases_needed`) at level .05 / 3 for three contrasts, the level at which Holm's first step tests, so
    that it is a lower bound for the corrected tests. The observed effect enters nowhere: power "at the observed
    effect" is its p value in other words (Hoenig & Heisey 2001).

    Intervals carry the uncertainty of the pilot's standard deviation alone: the upper end is the one to plan with.

    ``effect`` is the difference in score points that matters, ``repeats`` those of each prompt in the study to be
    planned, as in these runs by default.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 5. Hoenig & Heisey (2001), Am. Stat. 55, 19-24.

    Examples
    --------
    >>> scores = {"S": [3.0, 2.5, 3.5, 3.0, 4.0, 2.0], "L": [3.5, 3.0, 3.5, 4.0, 4.5, 2.0]}
    >>> rows = [(f"b{i}", b, value) for b, values in scores.items() for i, value in enumerate(values)]
    >>> found = pilot_power(pd.DataFrame(rows, columns=["base", "level", "composite_strict"]), effect=0.3)
    >>> found.contrasts[0].name, round(found.contrasts[0].detectable.estimate, 2), found.contrasts[0].needed.whole
    ('L-S', 0.54, 15)
    """
    if effect is not None:
        check_size("the effect", abs(effect), 0, above=True)
    if repeats is not None:
        check_size("the number of repeats", repeats, 1)
    costs = [name for name in COSTS if name in runs]
    checked = checked_runs(runs, score, numbers=costs)
    by = ["unit", "base", "model", "level"]
    cells = checked.groupby(by)["score"].agg(["mean", "count", "var"])
    cells = cells[cells["count"] > 0]
    present = set(cells.index.get_level_values("level"))
    pairs = [pair for pair in successive(levels_of(runs)) if {*pair} <= present]
    level = ALPHA / max(len(pairs), 1)
    now = float(checked.groupby(by[1:]).size().mean()) if len(checked) else 1.0
    planned = now if repeats is None else float(repeats)
    price = _price(checked, costs, planned / now)
    total, unit = checked["unit"].nunique(), score_unit(score, runs)
    contrasts = tuple(_contrast(pair, cells, total, unit, effect, level, repeats, price) for pair in pairs)
    return PilotPower(
        "power",
        text=_sentence,
        rows=_rows,
        contrasts=contrasts,
        aud_per_base=price,
        repeats=planned,
        power=0.8,
        level=level,
        notes=_notes(checked, contrasts, costs),
    )


def _contrast(
    pair: tuple[str, str],
    cells: pd.DataFrame,
    total: int,
    unit: str,
    effect: float | None,
    level: float,
    repeats: int | None,
    price: Estimate,
) -> Result:
    b, a = pair
    name = contrast_name(b, a)
    facets = {"contrast": name}
    wide = {column: cells[column].unstack("level") for column in ("mean", "count", "var")}
    paired = wide["mean"][[b, a]].dropna().index
    means = wide["mean"].loc[paired]
    differences = mean_of_units(means[b] - means[a])
    n, missing = len(differences), total - len(differences)
    scale = float(np.abs(cells["mean"].to_numpy()).max())
    spread = standard_deviation(
        f"sd of {name}", differences.to_numpy(), unit=unit, missing=missing, scale=scale
    )
    spread = replace(spread, statistic="sd", facets=facets)
    within = _within(pair, wide, paired)
    once = None if within is None else within[1]
    between = None if spread.estimate is None or within is None else spread.estimate**2 - within[0]
    # What a plan rests on has an interval: a standard deviation of two bases may be a tenth of the true one.
    sd, reason = None if spread.low is None else spread.estimate, spread.reason
    if sd is not None and repeats is not None:
        # A negative component counts as 0; the estimate as it is stays in the result.
        sd = None if within is None else math.sqrt(max(sd**2 - within[0], 0.0) + within[1] / repeats)
        reason = "without repeats of a prompt their share of the variance is unknown; leave `repeats` out"

    def labelled(answer: PowerAnswer, statistic: str, **more: Any) -> PowerAnswer:
        return replace(answer, name=f"{name}: {statistic}", statistic=statistic, facets=facets, **more)

    def answered(ask: Callable[[float], PowerAnswer], statistic: str, kind: str) -> PowerAnswer:
        answer = PowerAnswer("", reason=reason, unit=kind) if sd is None else ask(sd)
        # An interval holds for the variance as it was seen; with other repeats it is only scaled, and is left out.
        if answer.estimate is not None and repeats is None:
            ends = (end for end in (spread.low, spread.high) if end is not None)
            answer = _with_ends(answer, [ask(end).estimate for end in ends])
        return labelled(answer, statistic, n={"bases": n}, missing=missing)

    detectable = answered(
        lambda sd: detectable_effect(n, sd, alpha=level, unit=unit), "detectable effect", unit
    )
    needed = cost = None
    if effect is not None:
        needed = answered(lambda sd: bases_needed(effect, sd, alpha=level), "bases needed", "bases")
        cost = labelled(_cost(needed, price, n), "AUD needed")
    return Result(
        "contrast_power", name=name, spread=spread, between=between, within=once, sd=sd,
        detectable=detectable, needed=needed, cost=cost,
    )  # fmt: skip


def _with_ends(answer: PowerAnswer, ends: list[float | None]) -> PowerAnswer:
    low, high = ends
    if low is None or high is None:
        return answer
    makes = f"{whole(low)} to {whole(high)} bases" if answer.unit == "bases" else f"{low:.3f} to {high:.3f}"
    words = f"{answer.words} The pilot's standard deviation is known to within a 95% interval that makes it {makes}."
    method = f"{answer.method}; interval of the pilot's sd"
    return replace(answer, low=low, high=high, method=method, words=words)


def _within(
    pair: tuple[str, str], wide: dict[str, pd.DataFrame], paired: pd.Index
) -> tuple[float, float] | None:
    """Return the variance that repeats put into a base's difference: as it was, and with one repeat of each prompt."""
    freedom = (wide["count"][list(pair)] - 1).clip(lower=0)
    if not (freedom.sum() > 0).all():
        return None
    pooled = (wide["var"][list(pair)] * freedom).sum() / freedom.sum()
    counts = wide["count"].loc[paired, list(pair)]
    shares = 1.0 / pd.Series(1.0, index=paired).groupby(level="unit").transform("sum") ** 2
    parts = (((pooled / repeats).sum(axis=1) * shares) for repeats in (counts, counts**0))
    observed, once = (float(part.groupby(level="unit").sum().mean()) for part in parts)
    return observed, once


def _price(checked: pd.DataFrame, costs: list[str], more: float) -> Estimate:
    """Return what the planned runs and judgements of one base cost, from the mean of each model and length bin."""
    counts = {"bases": int(checked["unit"].nunique()), "runs": len(checked)}
    unknown = Estimate("AUD per base", unit="AUD", n=counts)
    if "aud_cost" not in costs:
        return unknown.not_estimable("the runs have no aud_cost")
    total = 0.0
    for (model, length), rows in checked.groupby(["model", "level"]):
        if rows["aud_cost"].isna().all():
            return unknown.not_estimable(f"no cost of {str(model)!r} is known at length {length}")
        per_base = len(rows) / max(rows["base"].nunique(), 1)
        total += sum(float(rows[name].mean()) for name in costs if rows[name].notna().any()) * per_base
    missing = int(checked["aud_cost"].isna().sum())
    free = "these models and judges cost nothing" if total == 0 else ""
    method = "mean of runs and judgements"
    return unknown.with_value(total * more, method=method, missing=missing, note=free)


def _cost(needed: PowerAnswer, price: Estimate, n: int) -> PowerAnswer:
    answer = PowerAnswer("", unit="AUD", n={"bases": n})
    if needed.estimate is None or price.estimate is None:
        return answer.not_estimable((needed if needed.estimate is None else price).reason)
    count, base_aud = whole(needed.estimate), price.estimate
    low, high = (None if end is None else whole(end) * base_aud for end in (needed.low, needed.high))
    more = max(count - n, 0)
    between = "" if low is None or high is None else f" (between {low:.2f} and {high:.2f}, by the pilot's sd)"
    free = f"; {price.note}" if price.note else ""
    return answer.with_value(
        count * base_aud,
        low,
        high,
        method=f"{price.method} x bases needed",
        missing=price.missing,
        note=f"{base_aud:.4g} AUD a base; {more} bases more than the {n} there are: {more * base_aud:.4g} AUD{free}",
        words=f"{count} bases cost {count * base_aud:.2f} AUD{between}, {more * base_aud:.2f} AUD of it for {more} "
        f"more than the {n} that there are{free}.",
    )


def _notes(checked: pd.DataFrame, contrasts: Sequence[Result], costs: list[str]) -> tuple[str, ...]:
    notes = ["power is computed from the variance of these runs; the observed differences do not enter"]
    tests = len(contrasts)
    if tests > 1:
        first = f"each contrast is tested at {ALPHA:g} / {tests}, as Holm's first step"
        notes.append(f"{first}: a lower bound of power")
    if not tests:
        notes.append("fewer than two length bins have a score, so there is no contrast")
    notes += [
        f"the variance between bases of {contrast.name} is estimated as {contrast.between:.3g} and taken as 0"
        for contrast in contrasts
        if contrast.between is not None and contrast.between < 0
    ]
    if unscored := int(checked["score"].isna().sum()):
        lost = f"{unscored} of {counted(len(checked), 'runs')} {agreeing(unscored, 'have no score')}"
        notes.append(f"{lost}; plan for as many to be lost again")
    judged = "judge_aud_cost" in costs and checked["judge_aud_cost"].notna().any()
    if "aud_cost" in costs and not judged:
        notes.append("no cost of a judgement is known, so judges are not in the AUD")
    return tuple(notes)


KINDS = ("detectable difference", "bases needed")


@over_clusters
def model_power(runs: pd.DataFrame, *, score: str = SCORE, effect: float | None = None) -> Result:
    r"""Return the smallest difference of two models that the runs can find with a power of .8, and what one needs.

    The difference is taken prompt by prompt, as in `compare_models`. Its clustered standard error times
    :math:`\sqrt{n}`, with n bases, is the standard deviation that `detectable_effect` and `bases_needed` take. The
    level is .05 over the number of pairs, that of Holm's first step. The observed difference enters nowhere.

    Parameters
    ----------
    runs : DataFrame
        One row an answer: base, model, level, the score, and perhaps cluster and prompt_id.
    score : str
        Column of scores.
    effect : float, optional
        The difference that matters, in the unit of the score.

    Returns
    -------
    Result
        One estimate a pair of models, in the unit of the score, and one in bases where an effect is given.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 5.

    Examples
    --------
    >>> rows = [(f"b{i}", "all", m, v) for i in range(40) for m, v in (("x", i % 2), ("y", i % 3 == 0))]
    >>> runs = pd.DataFrame(rows, columns=["base", "level", "model", "right"])
    >>> result = model_power(runs, score="right", effect=0.1)
    >>> round(result.detectable[0].estimate, 2), result.needed[0].whole
    (0.32, 387)
    """
    if effect is not None:
        check_size("the effect", abs(effect), 0, above=True)
    prompts = ["prompt_id"] if "prompt_id" in runs else []
    checked = checked_runs(runs, score, labels=prompts)
    cells = item_means(checked, "model")["score"].unstack("model")
    pairs = list(combinations(cells.columns, 2))
    level, unit = ALPHA / max(len(pairs), 1), score_unit(score, runs)
    detectable: list[Estimate] = []
    needed: list[Estimate] = []
    for first, second in pairs:
        name, difference = f"{first} - {second}", (cells[first] - cells[second]).dropna()
        bases = list(difference.index.get_level_values("unit"))
        answers = _answers(difference, bases, effect, level, unit)
        facets = {"models": name}
        for answer, listed, kind in zip(answers, (detectable, needed), KINDS, strict=False):
            label = f"{kind}, {name}"
            listed.append(replace(answer, name=label, statistic=kind, facets=facets, words=""))
    return Result("model_power", detectable=detectable, needed=needed, level=level, notes=())


def _answers(
    difference: pd.Series, bases: list[str], effect: float | None, level: float, unit: str
) -> list[PowerAnswer]:
    n = len(set(bases))
    none = PowerAnswer("").not_estimable("the answers of both models agree on every item")
    error = clustered_mean(difference, bases).error if n >= FEWEST_FOR_SPREAD else None
    if n < FEWEST_FOR_SPREAD:
        none = none.too_few(n, "bases with both", FEWEST_FOR_SPREAD)
    if not error:
        return [none] * (1 if effect is None else 2)
    sd = error * n**0.5
    answers = [detectable_effect(n, sd, alpha=level, unit=unit)]
    return answers if effect is None else [*answers, bases_needed(effect, sd, alpha=level)]
