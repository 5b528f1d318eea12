"""What the levels of a factor do to a score within the same items: of prompt length (RQ1) or of anything else."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats import WORDS
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, mean_of_units, over_clusters
from toolkit.stats.inference.means import (
    bias_corrected,
    clustered_slope,
    mean_interval,
    mean_on_scale,
    paired_effect_size,
)
from toolkit.stats.inference.p_values import EQUAL_METHOD, LEVEL, equal_differences, exploratory, with_holm
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result
from toolkit.words import DIMENSIONS, SCORE, choices, counted, joined

_ANOVA = "repeated-measures ANOVA"
ANOVA_METHOD = "repeated-measures ANOVA, Greenhouse-Geisser"
_COUNTED = {"run": "runs", "judge": "judgements"}
"""What is counted where levels are paired within these columns."""
_GROUPS = {"model": "models", "crossed": "levels", "scenario": "scenarios"}
"""What a difference may differ by."""
PAIRED_METHOD = "Student t over bases, paired"
TOST_METHOD = "two one-sided paired t tests over bases (TOST)"
EFFECTS = {
    "d_z": "non-central t over bases",
    "g_z": "non-central t over bases; estimate corrected for bias (Hedges 1981)",
}


def repeated_measures(scores: ArrayLike, missing: int = 0) -> Estimate:
    r"""Return the F test of whether the means of paired columns differ, with the correction of Greenhouse and Geisser.

    Both degrees of freedom are multiplied by their epsilon, because differences of levels need not vary alike. Bases
    that lack a score are left out and counted.

    References
    ----------
    Greenhouse & Geisser (1959), Psychometrika 24, 95-112.

    Examples
    --------
    >>> found = repeated_measures([[3.0, 3.4, 3.9], [2.5, 3.1, 3.0], [3.5, 3.7, 4.2], [2.8, 2.7, 3.3]])
    >>> round(found.estimate, 2), round(found.p_value, 4)
    (11.19, 0.0183)
    """
    x = np.asarray(scores, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise InputError("ANOVA: give a table of bases x levels with two levels or more")
    if np.isinf(x).any():
        raise InputError("ANOVA: a score is infinite; correct it or leave it empty")
    complete = x[~np.isnan(x).any(axis=1)]
    counts = {"bases": len(complete), "levels": x.shape[1]}
    method = (
        ANOVA_METHOD if x.shape[1] > 2 else _ANOVA
    )  # of two levels there is one difference, and nothing to correct
    empty = Estimate("F(levels)", method=method, n=counts, missing=missing + len(x) - len(complete))
    if len(complete) < 3:
        return empty.too_few(len(complete), "bases", "three")
    within = complete - complete.mean(axis=1, keepdims=True)
    if np.abs(within - within.mean(axis=0)).max() <= ROUNDING * np.abs(complete).max():
        return empty.not_estimable("the differences within bases do not vary")
    import pingouin

    with (
        warnings.catch_warnings()
    ):  # of its use of pandas, and of a test of sphericity that nothing here reads
        warnings.simplefilter("ignore")
        row = pingouin.rm_anova(pd.DataFrame(complete), correction=True, effsize="np2").iloc[0]
    size = f"epsilon {row['eps']:.2f}, partial eta squared {row['np2']:.2f}"
    note = f"df {row['ddof1']} and {row['ddof2']}, {size}"
    p_value = float(row["p_GG_corr" if x.shape[1] > 2 else "p_unc"])
    return empty.with_value(float(row["F"]), p_value=p_value, note=note)


@over_clusters
def compare_conditions(
    table: pd.DataFrame,
    score: str = SCORE,
    *,
    factor: str = "level",
    levels: Sequence[Any] | None = None,
    contrasts: Sequence[Sequence[Any]] | None = None,
    primary: str | None = None,
    margin: float | None = None,
    omnibus: bool = False,
    within: Sequence[str] = ("model",),
    crossed: str | None = None,
) -> Result:
    """Compare the scores of the levels of a factor within bases: prompt lengths, or any other column.

    Repeats are averaged first, then what levels are paired within, then bases, so that each base counts once. A
    difference is taken between rows that are alike in all of ``within``, so that a model, run or judge that failed at
    one level does not pass for an effect; what lacks a level is left out of its contrasts and counted. A row without a
    score is missing, never zero.

    Whether the factor works differently by model is the difference of two differences: that of a model less the mean
    of the others' (of two models, less the other's), within the bases in which all models have both levels. For two
    models and complete scores its t squared is the F of the interaction of factor and model. By a second factor it is
    the same of its levels, and by scenario a difference between bases, each of one scenario (CR2).

    Parameters
    ----------
    table
        One row an answer or judgement: base, the factor, the score, and perhaps model, cluster and others to pair by.
    score
        The column that is compared.
    factor
        Column of the levels.
    levels
        Levels in their order: of ``level`` those of ``attrs["levels"]`` (S, M and L without it), those of the table by
        name otherwise. Others are left out.
    contrasts
        Pairs of levels, the second taken from the first: by default each two, neighbours first. Levels that follow a
        pair must have a score too, so that contrasts add up.
    primary
        Name of the one confirmatory contrast, such as ``M-S``, whose P value is unadjusted; without it, or where it is
        an empty text, all are exploratory and adjusted among themselves.
    margin
        That of equivalence in score points, fixed beforehand.
    omnibus
        Whether it is tested first that any level differs.
    within
        Columns within which levels are paired and averaged inside a base, the last one first; model is one of them,
        also where models are the levels.
    crossed
        Column of a second factor, whose levels are averaged inside what is compared, and with which it may interact.

    Returns
    -------
    Result
        Parts ``per_level``, ``contrasts``, ``of_models`` (each model's own), ``by_model``, ``of_levels`` and
        ``by_crossed``, ``of_scenarios`` and ``by_scenario``, ``effect_sizes`` (d_z), ``corrected_effect_sizes`` (g_z),
        ``anova`` and ``equivalence``.

    Raises
    ------
    InputError
        If a column is missing, a score is no number, or a contrast names no level.

    Examples
    --------
    >>> scores = {"zero": [3.0, 2.5, 3.5], "one": [3.4, 3.1, 3.7], "five": [3.9, 3.0, 4.2]}
    >>> rows = [(f"b{i}", shots, value) for shots, values in scores.items() for i, value in enumerate(values)]
    >>> table = pd.DataFrame(rows, columns=["base", "shots", "composite_strict"])
    >>> comparison = compare_conditions(table, factor="shots", levels=list(scores))
    >>> [(contrast.name, round(contrast.estimate, 2)) for contrast in comparison.contrasts]
    [('one - zero', 0.4), ('five - one', 0.3), ('five - zero', 0.7)]
    """
    is_level = factor == "level"
    if not is_level and "level" not in table:
        table = table.assign(level=run_table.WHOLE)
    within = [*within, crossed] if crossed else within
    labels = [name for name in (*within, factor) if name not in ("model", "level")]
    if "scenario" in table and table["scenario"].notna().all():
        labels.append("scenario")
    rows, column = run_table.checked_runs(table, score, labels=labels), factor
    if factor == "model":  # a model is not paired with itself
        rows, column = rows.assign(compared=rows["model"], model=run_table.WHOLE), "compared"
    levels = levels or list(run_table.levels_of(table) if is_level else run_table.in_order(rows[column]))
    pairs = contrasts or successive(levels)
    if unknown := {*chain(*pairs)} - {*levels}:
        raise InputError(f"{factor}: no level {min(unknown, key=str)!r} to compare among {[*levels]}")
    cells, gains = paired(rows, score, column, levels=levels, pairs=pairs, within=within)
    by_name = {contrast.name: pair for (contrast, _), pair in zip(gains, pairs, strict=True)}
    if primary and primary not in by_name:
        raise InputError(f"contrasts of {factor}: none is {primary!r}; {choices(primary, by_name)}")
    bases, unit, scale = rows["unit"].nunique(), run_table.score_unit(score, table), largest(cells)
    title = WORDS["conditions"]["factors"].get(factor, {}).get("title", factor)
    title = table.attrs.get("factor" if is_level else factor, title)
    notes = _notes(rows, cells, score, column, title, within)
    if primary:
        notes.append(
            f"the one confirmatory contrast, which the study file names, is {primary}; all others are exploratory"
        )
    else:
        reason = "no primary contrast was named beforehand, so " if primary is None else ""
        notes.append(f"{reason}all contrasts are exploratory")
    tests = []
    if margin is not None and not isinstance(unit, run_table.Points):
        notes.append(f"equivalence is not tested: the margin is in score points, and {score} is not")
    elif margin is not None:
        for gain, values in gains:
            test = equivalence(gain.name, values, margin, unit=unit, scale=scale)
            tests.append(replace(test, missing=gain.missing, n=gain.n))
    sizes, corrected_sizes = (tuple(effect_size(kind, *gain) for gain in gains) for kind in EFFECTS)
    index = cells.index.to_frame()
    keys = {"model": index["model"]} | ({"crossed": index[crossed]} if crossed else {})
    if "scenario" in rows:
        keys["scenario"] = index["base"].map(rows.drop_duplicates("base").set_index("base")["scenario"])
    groups: dict[str, Any] = {}
    for by, noun in _GROUPS.items():
        compared = _by_group(cells, by_name, by, keys[by], bases, unit, within) if by in keys else ((), ())
        groups[f"of_{noun}"], groups[f"by_{by}"] = compared
    return Result(
        "conditions",
        factor=factor,
        title=title,
        crossed=table.attrs.get("factor" if crossed == "level" else crossed),
        pairs=[tuple(pair[:2]) for pair in pairs],
        per_level=[_level_mean(level, rows[rows[column] == level], unit, within[-1]) for level in levels],
        contrasts=_tested(gains, primary),
        **groups,
        effect_sizes=sizes,
        corrected_effect_sizes=corrected_sizes,
        anova=_omnibus(cells, bases, within) if omnibus else None,
        equivalence=judged_equivalent(tests, margin or 0.0),
        notes=notes,
    )


def explored(rows: pd.DataFrame, score: str) -> Estimates:
    """Return the exploratory contrasts of prompt length alone, of checked rows."""
    levels = run_table.levels_of(rows)
    return _tested(paired(rows, score, levels=levels, pairs=successive(levels))[1], None)


def successive(levels: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return each two levels, the later one first, those of neighbours before the others."""
    steps = range(1, len(levels))
    return [pair for step in steps for pair in zip(levels[step:], levels, strict=False)]


def paired(
    rows: pd.DataFrame,
    score: str,
    factor: str = "level",
    *,
    levels: Iterable[Any],
    pairs: Sequence[Sequence[Any]],
    within: Sequence[str] = ("model",),
) -> tuple[pd.DataFrame, list[tuple[Estimate, pd.Series]]]:
    """Return the cells of checked rows, and each contrast, not yet tested, with its differences by unit."""
    cells = rows.groupby(["unit", "base", *within, factor])["score"].mean().unstack()
    cells = cells.reindex(columns=list(levels)).astype("float64")
    bases, unit, scale = rows["unit"].nunique(), run_table.score_unit(score, rows), largest(cells)
    results, differences, parts = [], [], [cells[list(pair)].dropna() for pair in pairs]
    for (more, less, *_), complete in zip(pairs, parts, strict=True):
        counts, values = _over_bases(complete, within)
        values = mean_of_units(values)
        differences.append(values[more] - values[less])
        mean = mean_over_bases(run_table.contrast_name(more, less), differences[-1], bases, scale, unit=unit)
        if counts:  # what is paired is counted, and not bases alone
            mean = replace(mean, n={**mean.n, **counts}, missing=len(cells) - len(complete))
        results.append(mean)
    return cells, list(zip(on_models(results, parts, rows["model"]), differences, strict=True))


def _over_bases(cells: pd.DataFrame, within: Sequence[str]) -> tuple[dict[str, int], pd.DataFrame]:
    """Return how many runs and judgements cells are of, and the means of bases: the innermost column goes first."""
    counts: dict[str, int] = {}
    for depth in range(len(within), 0, -1):
        if noun := _COUNTED.get(within[depth - 1]):
            counts = {noun: len(cells), **counts}
        cells = cells.groupby(level=list(range(depth + 1))).mean()
    return counts, cells


def on_models(
    numbers: Sequence[Estimate], parts: Iterable[pd.DataFrame], models: Iterable[object]
) -> list[Estimate]:
    """Return compared numbers with what models and bases each rests on (``parts``), where these are not alike."""
    names = sorted(set(models), key=str)
    groups = (part.reset_index().groupby("model")["base"].nunique() for part in parts)
    counts = [count.reindex(names, fill_value=0) for count in groups]
    lacking = any(0 < (count > 0).sum() < len(names) for count in counts)
    results = []
    for number, count in zip(numbers, counts, strict=True):
        used = count[count > 0]
        if len(used) and (lacking or used.nunique() > 1):
            least, most = int(used.min()), int(used.max())
            without = joined(list(map(str, count.index[count == 0])), "or")
            note = f"rests on {f'{least} to ' * (least < most)}{counted(most, 'bases')} of "
            note += joined(list(map(str, used.index))) + (without and f", and on none of {without}")
            number = replace(
                number.with_note(note), n={**number.n, **({"models": len(used)} if lacking else {})}
            )
        results.append(number)
    return results


def largest(cells: pd.DataFrame) -> float:
    """Return the size of the largest score, of which rounding is a share."""
    return float(np.nanmax(np.abs(cells.to_numpy()), initial=0.0))


def mean_over_bases(
    name: str, differences: pd.Series, bases: int, scale: float, needed: str = "a score", **labels: Any
) -> Estimate:
    """Return the mean of one difference a base, of so many bases, with Student's t, or why there is none."""
    n, missing = {"bases": len(differences)}, bases - len(differences)
    empty = replace(Estimate(name, method=PAIRED_METHOD, n=n, missing=missing), **labels)
    if len(differences) < 2:
        return empty.too_few(len(differences), f"bases with {needed}")
    return mean_interval(differences.to_numpy(), scale=scale).of(empty, tested=True)


def effect_size(kind: str, difference: Estimate, values: ArrayLike) -> Estimate:
    """Return the effect size d_z or g_z of paired differences, named after their mean."""
    empty = Estimate(
        f"{kind}({difference.name})", method=EFFECTS[kind], n=difference.n, missing=difference.missing,
        statistic=kind, facets={"contrast": difference.name},
    )  # fmt: skip
    if difference.estimate is None:
        return empty.not_estimable(difference.reason)
    if difference.method == EQUAL_METHOD:
        return empty.not_estimable("the differences are all equal")
    size, low, high = paired_effect_size(values)
    corrected = bias_corrected(size, len(np.asarray(values))) if kind == "g_z" else size
    if corrected is None:
        return empty.not_estimable("two bases leave no degrees of freedom to correct with")
    effect = empty.with_value(corrected, low, high)
    return effect if low is not None else effect.no_interval("its ends were not found")


def _tested(gains: Iterable[tuple[Estimate, pd.Series]], primary: str | None) -> Estimates:
    """Return contrasts with Holm's p values among the exploratory ones, and which of them is confirmatory."""
    contrasts = [contrast for contrast, _ in gains]
    tests = with_holm((c for c in contrasts if c.name != primary), "contrasts")
    others = {test.name: exploratory(test) for test in tests}
    return tuple(others.get(contrast.name) or exploratory(contrast, "confirmatory") for contrast in contrasts)


def _by_group(
    cells: pd.DataFrame,
    pairs: Mapping[str, Sequence[Any]],
    by: str,
    keys: pd.Series,
    bases: int,
    unit: str,
    within: Sequence[str],
) -> tuple[Estimates, Estimates]:
    """Return each contrast in each group of cells, and less the mean of the others'; of two, the first less the second.

    One group has neither. Only what groups differ by is tested, of those that have a score.
    """
    scale, groups = largest(cells), sorted(pd.unique(keys), key=str)
    own, compared = [], []
    for contrast, (more, less, *others) in pairs.items() if len(groups) > 1 else ():
        parts = [cells[keys == group][[more, less, *others]].dropna() for group in groups]
        means = {group: _over_bases(part, within)[1] for group, part in zip(groups, parts, strict=True)}
        gains = {group: values[more] - values[less] for group, values in means.items()}
        scored = {group: values for group, values in gains.items() if len(values)}
        values = mean_of_units(pd.DataFrame(scored).dropna()) if scored else pd.DataFrame()
        for group in groups:
            labels: dict[str, Any] = {"facets": {"contrast": contrast, by: str(group)}, "unit": unit}
            name, units = f"{contrast} of {group}", mean_of_units(means[group])
            mean = mean_over_bases(
                name, units[more] - units[less], bases, scale, statistic=contrast, **labels
            )
            own.append(replace(mean, p_value=None))
            if group in scored and len(scored) > (1 if group == next(iter(scored)) else 2):
                several = f"the other {_GROUPS[by]}" if len(scored) > 2 else list(scored)[1]
                statistic = f"less that of {several}"
                labels["statistic"], name = statistic, f"{name} {statistic}"
                if by == "scenario":  # a base has one, so that they are not compared within bases
                    all_gains = pd.concat(scored, names=[by]).rename("gain").reset_index()
                    inside, units = all_gains[by] == group, all_gains["unit"]
                    slope = clustered_slope(name, inside, all_gains["gain"], units)
                    compared.append(replace(slope, n={"bases": units.nunique()}, **labels))
                    continue
                difference = values[group] - values.drop(columns=group).mean(axis=1)
                needed = f"the scores of all {_GROUPS[by]}"
                compared.append(mean_over_bases(name, difference, bases, scale, needed=needed, **labels))
    return tuple(own), tuple(compared)


def _omnibus(cells: pd.DataFrame, bases: int, within: Sequence[str]) -> Estimate:
    used = cells.dropna(axis="columns", how="all")
    table = mean_of_units(_over_bases(used.dropna(), within)[1])
    if used.shape[1] < 2:
        counts = {"bases": len(table), "levels": used.shape[1]}
        empty = Estimate("F(levels)", method=ANOVA_METHOD, n=counts)
        return empty.too_few(used.shape[1], "levels with a score")
    return repeated_measures(table, bases - len(table))


def _level_mean(level: object, rows: pd.DataFrame, unit: str, innermost: str) -> Estimate:
    """Return the mean of a level over bases."""
    mean = runs_mean(str(level), rows, unit, _COUNTED.get(innermost, rows.attrs.get("rows", "answers")))
    bases = mean.n["bases"]
    return mean if bases > 1 else mean.too_few(bases, "bases with a score")


def runs_mean(name: str, runs: pd.DataFrame, unit: str, rows: str = "answers") -> Estimate:
    """Return the mean of checked runs over bases; repeats, then models are averaged first."""
    labels = {"method": "Student t over bases", "unit": unit}
    empty, scored = complete_rows(name, runs, ["score"], ("bases", rows), **labels)
    bases = mean_of_units(scored.groupby(["unit", "base", "model"])["score"].mean())
    if bases.empty:
        return empty.not_estimable("no answer has a score")
    return mean_on_scale(empty, bases.to_numpy(), range(len(bases)))


def _notes(
    rows: pd.DataFrame, cells: pd.DataFrame, score: str, column: str, title: str, within: Sequence[str]
) -> list[str]:
    paired_within = [name for name in within if name not in ("level", *_COUNTED)]
    notes = run_table.averaged_note(rows, [column, *within], paired_within)
    notes += run_table.left_out_note(rows, score)
    is_alone = len(within) == 1 and rows["model"].nunique() == 1
    unit = "bases" if is_alone else f"pairs of {joined(['base', *within])}"
    lack = f"lack a score at a level of {title} and are left out of its contrasts"
    return notes + run_table.share_note(int(cells.isna().any(axis=1).sum()), len(cells), unit, lack)


def equivalence(
    name: str, differences: ArrayLike, margin: float, *, unit: str = "none", scale: float | None = None
) -> Estimate:
    r"""Test that the mean of paired differences lies within :math:`\pm\delta`, the margin.

    The p value is the larger of those of :math:`t = (\bar d + \delta) / SE` above and of :math:`t = (\bar d - \delta)
    / SE` below zero, with n - 1 degrees of freedom. It is below .05 exactly where the 90 % interval, which is the one
    returned, lies within the margin. Differences that are all equal have the bound of `equal_differences`.

    References
    ----------
    Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680.

    Examples
    --------
    >>> found = equivalence("M-S", [0.1, -0.1, 0.05, 0.0, -0.02, 0.08], margin=0.25)
    >>> round(found.low, 3), round(found.high, 3), round(found.p_value, 5)
    (-0.042, 0.079, 0.0003)
    """
    if not (math.isfinite(margin) and margin > 0):
        raise InputError(f"equivalence: margin {margin!r}; give a difference above 0 as the margin")
    d = np.asarray(differences, dtype=float)
    empty = Estimate(
        name, method=TOST_METHOD, unit=unit, n={"bases": d.size}, confidence=1 - 2 * LEVEL,
        note=f"margin of equivalence ±{margin:g}", facets={"contrast": name},
    )  # fmt: skip
    if d.size < 2:
        return empty.too_few(d.size, "bases with both scores")
    mean = mean_interval(d, confidence=empty.confidence, scale=scale)
    if mean.error is None:
        return equal_differences(empty, mean.mean, d.size, margin)
    # The nearer end of the margin decides: of the two one-sided p values it has the larger.
    p_value = float(special.stdtr(mean.degrees, (abs(mean.mean) - margin) / mean.error))
    return empty.with_value(mean.mean, mean.low, mean.high, p_value=p_value)


def judged_equivalent(tests: Iterable[Estimate], margin: float) -> Estimates:
    """Return tests of equivalence with Holm's P values and verdicts; that *all* are needs none (Berger 1982)."""
    results = []
    for test in with_holm(tests, "tests of equivalence"):
        if test.p_value is not None:
            verdict = "equivalent" if test.p_value < LEVEL else "equivalence not shown"
            if margin < max(test.low or 0.0, -(test.high or 0.0)):
                verdict = "larger than the margin"
            facets = {**test.facets, "verdict": verdict}
            test = replace(test, facets=facets, note=f"{verdict}: {test.note}")
        results.append(test)
    return tuple(results)


@over_clusters
def dimension_profile(runs: pd.DataFrame, dimensions: tuple[str, ...] = DIMENSIONS) -> Result:
    """Return the mean of each dimension, of each model at each prompt length.

    Repeats are averaged within a base first, so that each base counts once, and the interval is that of a mean on the
    scale over bases (`bounded_mean`). There is no correction for the number of means: the intervals describe, they
    test nothing.

    Examples
    --------
    >>> runs = pd.DataFrame({"base": ["b1", "b2"], "level": "S", "model": "m", "clarity": [3.0, 4.0]})
    >>> [(one.facets["dimension"], one.estimate) for one in dimension_profile(runs, ("clarity",)).means]
    [('clarity', 3.5)]
    """
    means = []
    for dimension in dimensions:
        table = run_table.checked_runs(runs, dimension)
        for (model, level), rows in table.groupby(["model", "level"], sort=False):
            name = f"{dimension} of {run_table.at_length(model, level)}"
            mean = runs_mean(name, rows, run_table.score_unit(dimension, runs))
            facets = {"model": str(model), "level": str(level), "dimension": dimension}
            means.append(replace(mean, facets=facets))
    bins = run_table.in_order((mean.facets["level"] for mean in means), run_table.levels_of(runs))
    means.sort(key=lambda mean: (mean.facets["model"], bins.index(mean.facets["level"])))
    return Result("dimension_profile", means=means)
