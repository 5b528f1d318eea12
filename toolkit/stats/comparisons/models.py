"""Error bars after Miller (2024): means and rates of models, and their paired differences, clustered by base."""

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.inference import proportions
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import CLUSTERED, clustered_mean, equally_long, mean_on_scale
from toolkit.stats.inference.p_values import with_inversion
from toolkit.stats.inference.run_table import (
    checked_runs,
    in_order,
    item_means,
    left_out_note,
    score_unit,
    share_note,
)
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE, joined

RATE_METHOD = "wider of Wilson ends put together (Zou & Donner 2008) and t, clustered by base"
RATE_UNIT = "share of answers"


@over_clusters
def compare_models(runs: pd.DataFrame, score: str = SCORE, *, rate: bool = False) -> Result:
    """Compare models on the prompts that both answered, with error bars clustered by base.

    Repeats of a prompt are averaged first, so that it counts once in means and differences. The difference of two
    models is taken prompt by prompt, which takes out what makes prompts hard for both (Miller 2024, section 4), and
    prompts of one base are one cluster.

    A ``rate`` is the mean of a score that is 0 or 1, which has intervals of its own.

    Examples
    --------
    >>> rows = [(f"b{i}", "S", m, s + i / 4) for i in range(5) for m, s in (("a", 3.5 + i % 2 / 2), ("b", 3.0))]
    >>> found = compare_models(pd.DataFrame(rows, columns=["base", "length_bin", "model", "composite_strict"]))
    >>> [(one.name, round(one.estimate, 2), round(one.low, 2)) for one in found.differences]
    [('a - b', 0.7, 0.36)]
    """
    if "model" not in runs:
        raise InputError("runs: lack the column model; give one row per run with its model")
    prompts = ["prompt_id"] if "prompt_id" in runs else []
    checked = checked_runs(runs, score, labels=prompts)
    if rate and not checked["score"].dropna().isin((0.0, 1.0)).all():
        raise InputError(
            f"runs: {score} holds other values than 0 and 1, so its mean is no rate; use rate=False"
        )
    unit = RATE_UNIT if rate else score_unit(score, runs)
    scored = checked.dropna(subset=["score"])
    hits = scored["score"] == 1
    intracluster = proportions.intracluster_correlation(hits, list(scored["unit"])) if rate else None
    cells = item_means(checked, "model")["score"].unstack("model")
    means = tuple(
        (str(model), _model_mean(str(model), rows, cells[model].dropna(), rate, unit, intracluster))
        for model, rows in checked.groupby("model", sort=True)
    )
    bases = list(cells.index.get_level_values("unit"))
    difference = rate_difference if rate else paired_difference
    differences = tuple(
        difference(f"{a} - {b}", cells[a].to_numpy(), cells[b].to_numpy(), bases, unit=unit)
        for a, b in itertools.combinations(cells.columns, 2)
    )
    return Result(
        "compare_models", models=means, differences=differences, notes=_notes(checked, cells, score)
    )


def paired_difference(
    name: str, first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable], *, unit: str = "none"
) -> Estimate:
    """Return the mean difference of two models over the prompts that both answered (Miller 2024), clustered by base."""
    a, b = equally_long(name, first, second, bases)
    difference = pd.Series(a - b, index=list(bases)).dropna()
    counts = {"prompts": len(difference), "bases": difference.index.nunique()}
    empty = Estimate(name, method=CLUSTERED, unit=unit, n=counts, missing=len(a) - len(difference))
    if difference.empty:
        return empty.not_estimable("there are no prompts")
    mean = clustered_mean(difference, list(difference.index), scale=float(np.nanmax(np.abs(a))))
    estimate = mean.of(empty, tested=True)
    if mean.error is None:
        return estimate
    return replace(estimate, note=f"clustered standard error {mean.error:.4g}", degrees=mean.degrees)


def rate_difference(
    name: str, first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable], *, unit: str = "none"
) -> Estimate:
    r"""Return the difference of two rates over the prompts that both models answered, clustered by base.

    For rates near 0 or 1 t is too narrow (12 bases, rates .97 and .9: it covered 73-93 %). The hybrid interval,
    :math:`d - \sqrt{(p_1 - l_1)^2 - 2 r (p_1 - l_1)(u_2 - p_2) + (u_2 - p_2)^2}` below and likewise above, from
    Wilson's ends of each rate with its effective number of answers and the correlation r of the two over bases, is too
    narrow elsewhere (rates .5: 92 %). Each end is the wider of the two: 95 % intervals covered 94.3-97.4 %, and up to
    99.7 % for rates of .9 and more. The p value is the inversion of the interval (`p_by_inversion`).

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 4. Zou & Donner (2008), Statistics in Medicine
    27, 1693-1702.

    Examples
    --------
    >>> found = rate_difference("a - b", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0], list("uvwxyz"))
    >>> round(found.estimate, 2), round(found.low, 2), round(found.high, 2), round(found.p_value, 3)
    (0.5, -0.07, 1.0, 0.076)
    """
    a, b = equally_long(name, first, second, bases)
    answered = ~(np.isnan(a) | np.isnan(b))
    a, b = a[answered], b[answered]
    if not ((a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)).all():
        raise InputError(f"{name}: a rate is not between 0 and 1; give shares of answers")
    labels = [base for base, usable in zip(bases, answered, strict=True) if usable]
    groups = len(set(labels))
    counts, missing = {"prompts": len(labels), "bases": groups}, int((~answered).sum())
    empty = Estimate(name, method=RATE_METHOD, unit=unit, n=counts, missing=missing)
    if not labels:
        return empty.not_estimable("no prompt was answered by both")
    difference = empty.with_value(float((a - b).mean()))
    if groups < 2:
        return difference.no_interval("one base, and two are needed", "interval or p value")
    by_t = clustered_mean(a - b, labels)
    first_ends, second_ends = proportions.wilson_ends(a, labels), proportions.wilson_ends(b, labels)
    r = proportions.between_clusters(a, b, labels)
    if not by_t.error and r > 0:
        r *= 1 - 2 / groups  # r = 1 and rates of .5 leave no width: Newcombe (1998) corrects r for continuity

    def limits(confidence: float) -> tuple[float, float]:
        sides = first_ends(confidence), second_ends(confidence)
        low, high = proportions.mover(float(a.mean()), sides[0], float(b.mean()), sides[1], r)
        by_t_low, by_t_high = by_t.limits(confidence)
        return max(-1.0, min(low, by_t_low)), min(1.0, max(high, by_t_high))

    return with_inversion(difference, limits)


def _model_mean(
    model: str, rows: pd.DataFrame, items: pd.Series, rate: bool, unit: str, intracluster: float | None
) -> Estimate:
    bases, answers = list(items.index.get_level_values("unit")), int(rows["score"].count())
    counts = {"answers": answers, "prompts": len(items), "bases": len(set(bases))}
    empty = Estimate(model, method=CLUSTERED, unit=unit, n=counts, missing=len(rows) - answers)
    if rate:
        return proportions.rate_mean(empty, items, bases, intracluster)
    if items.empty:
        return empty.not_estimable("there are no answers")
    return mean_on_scale(empty, items, bases)


def _notes(checked: pd.DataFrame, cells: pd.DataFrame, score: str) -> tuple[str, ...]:
    repeated = checked["score"].notna().sum() > cells.notna().to_numpy().sum()
    notes = ["answers of one model to one prompt are averaged before models are compared"] if repeated else []
    notes += left_out_note(checked, score)
    lengths = cells.index.get_level_values("length_bin")
    for pair in itertools.combinations(cells, 2):
        both = in_order(lengths[cells[list(pair)].notna().all(axis=1)])
        if 0 < len(both) < lengths.nunique():
            notes.append(f"{pair[0]} - {pair[1]} rests on {joined(both)} prompts alone")
    incomplete = int(cells.isna().any(axis=1).sum())
    return (*notes, *share_note(incomplete, len(cells), "prompts", "lack an answer of some model"))
