"""What the length of a prompt does to a score, paired by base (research question 1), and the dimensions' profile."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, mean_of_units, over_clusters
from toolkit.stats.inference.means import bias_corrected, mean_interval, mean_on_scale, paired_effect_size
from toolkit.stats.inference.p_values import EQUAL_METHOD, LEVEL, equal_differences, exploratory, with_holm
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result
from toolkit.words import DIMENSIONS, LENGTH_BINS, SCORE, counted, joined

_ANOVA = "repeated-measures ANOVA"
ANOVA_METHOD = "repeated-measures ANOVA, Greenhouse-Geisser"
CONTRASTS = (("M", "S"), ("L", "M"), ("L", "S"))
"""Pairs of length bins: the second is taken from the first."""
PAIRED_METHOD = "Student t over bases, paired"
TOST_METHOD = "two one-sided paired t tests over bases (TOST)"
EFFECTS = {
    "d_z": "non-central t over bases",
    "g_z": "non-central t over bases; estimate corrected for bias (Hedges 1981)",
}


def repeated_measures(scores: ArrayLike, missing: int = 0) -> Estimate:
    r"""Return the F test of whether the means of paired columns differ, with the correction of Greenhouse and Geisser.

    Both degrees of freedom are multiplied by their epsilon, because differences of bins need not vary alike. Bases
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
        raise InputError("ANOVA: give a table of bases x length bins with two bins or more")
    if np.isinf(x).any():
        raise InputError("ANOVA: a score is infinite; correct it or leave it empty")
    complete = x[~np.isnan(x).any(axis=1)]
    counts = {"bases": len(complete), "bins": x.shape[1]}
    method = (
        ANOVA_METHOD if x.shape[1] > 2 else _ANOVA
    )  # of two bins there is one difference, and nothing to correct
    empty = Estimate("F(bins)", method=method, n=counts, missing=missing + len(x) - len(complete))
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
def compare_lengths(
    runs: pd.DataFrame,
    score: str = SCORE,
    *,
    omnibus: bool = False,
    margin: float | None = None,
    primary: str | None = None,
) -> Result:
    """Compare the scores of S, M and L prompts within bases.

    Repeats are averaged first, then models, so that each base counts once; a difference is taken within a base and
    model before models are averaged, so that a model that failed in one bin does not pass for an effect of length.
    Bases that lack one of the two bins are left out of that contrast and counted. A run without a score is missing,
    never zero.

    Whether length works differently by model is the difference of two differences: that of a model less the mean of
    the others' (of two models, less the other's), within the bases in which all models have both bins. For two models
    and complete scores its t squared is the F of the interaction of length and model.

    ``runs`` has one row per run with base, length_bin (S, M or L), the score and, where there are several, model.
    ``omnibus`` tests first if any bin differs. ``margin`` is that of equivalence in score points, as the study file
    fixed it beforehand. ``primary`` is the one confirmatory contrast, ``M-S``, ``L-M`` or ``L-S``, whose p value is
    unadjusted; without it, or where it is an empty text, all are exploratory and adjusted among themselves.

    Examples
    --------
    >>> scores = {"S": [3.0, 2.5, 3.5], "M": [3.4, 3.1, 3.7], "L": [3.9, 3.0, 4.2]}
    >>> rows = [(f"b{i}", b, value) for b, values in scores.items() for i, value in enumerate(values)]
    >>> comparison = compare_lengths(pd.DataFrame(rows, columns=["base", "length_bin", "composite_strict"]))
    >>> [(one.name, round(one.estimate, 2)) for one in comparison.contrasts]
    [('M-S', 0.4), ('L-M', 0.3), ('L-S', 0.7)]
    """
    runs = run_table.checked_runs(runs, score)
    cells, differences, contrasts = _paired(runs, score)
    unit, scale = run_table.score_unit(score, runs), largest(cells)
    gains = list(zip(contrasts, differences, strict=True))
    notes = [*_notes(runs, cells, score)]
    if primary:
        notes.append(
            f"the one confirmatory contrast, which the study file names, is {primary}; all others are exploratory"
        )
    else:
        reason = "no primary contrast was named beforehand, so " if primary is None else ""
        notes.append(f"{reason}all contrasts are exploratory")
    if margin is not None and not isinstance(unit, run_table.Points):
        notes.append(f"equivalence is not tested: the margin is in score points, and {score} is not")
    sizes, corrected_sizes = (tuple(effect_size(kind, *gain) for gain in gains) for kind in EFFECTS)
    return Result(
        "length",
        per_bin=[bin_mean(name, runs, unit) for name in LENGTH_BINS],
        contrasts=_tested(contrasts, primary),
        by_model=_by_model(cells, unit, scale),
        effect_sizes=sizes,
        corrected_effect_sizes=corrected_sizes,
        anova=_omnibus(cells, runs["unit"].nunique()) if omnibus else None,
        equivalence=equivalences(gains, margin, unit, scale),
        notes=notes,
    )


@over_clusters
def compare_lengths_by_model(
    runs: pd.DataFrame, score: str = SCORE, *, margin: float | None = None, primary: str | None = None
) -> dict[str, Result]:
    """Return `compare_lengths` of each model by itself: exploratory, with Holm's correction within the model."""
    return {
        str(model): compare_lengths(rows, score, margin=margin, primary=primary and "")
        for model, rows in runs.groupby(run_table.checked_runs(runs, score)["model"].to_numpy(), sort=True)
    }


def _paired(runs: pd.DataFrame, score: str) -> tuple[pd.DataFrame, list[pd.Series], list[Estimate]]:
    """Return the cells of checked runs, the differences of each contrast by base, and the contrasts."""
    cells = length_cells(runs, LENGTH_BINS)
    bases, unit = runs["unit"].nunique(), run_table.score_unit(score, runs)
    complete = [cells[list(pair)].dropna() for pair in CONTRASTS]
    differences = [pair.iloc[:, 0] - pair.iloc[:, 1] for pair in map(mean_of_units, complete)]
    contrasts = [
        mean_over_bases(f"{b}-{a}", values, bases, largest(cells), unit=unit)
        for (b, a), values in zip(CONTRASTS, differences, strict=True)
    ]
    return cells, differences, on_models(contrasts, complete, runs["model"])


def on_models(
    numbers: Sequence[Estimate], parts: Iterable[pd.DataFrame | pd.Series], models: Iterable[object]
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


def length_cells(runs: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return the mean score of each base and model (rows) in each length bin, or other text of a base (columns)."""
    cells = runs.groupby(["unit", "base", "model", "length_bin"])["score"].mean().unstack()
    return cells.reindex(columns=list(names)).astype("float64")


def largest(cells: pd.DataFrame) -> float:
    """Return the size of the largest score, of which rounding is a share."""
    return float(np.nanmax(np.abs(cells.to_numpy()), initial=0.0))


def length_contrasts(runs: pd.DataFrame, score: str) -> Estimates:
    """Return the exploratory contrasts of `compare_lengths` alone, of checked runs."""
    return _tested(_paired(runs, score)[2], None)


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


def _tested(contrasts: list[Estimate], primary: str | None) -> Estimates:
    """Return the contrasts with Holm's p values among the exploratory ones, and which of them is confirmatory."""
    tests = with_holm((c for c in contrasts if c.name != primary), "contrasts")
    others = {test.name: exploratory(test) for test in tests}
    return tuple(others.get(contrast.name) or exploratory(contrast, "confirmatory") for contrast in contrasts)


def _by_model(cells: pd.DataFrame, unit: str, scale: float) -> Estimates:
    """Return each contrast of each model less the mean of the others; of two models, of the first less the second."""
    models = sorted(cells.index.get_level_values("model").unique(), key=str)
    bases, results = cells.index.get_level_values("unit").nunique(), []
    for longer, shorter in CONTRASTS if len(models) > 1 else ():
        values = mean_of_units((cells[longer] - cells[shorter]).unstack("model").dropna())
        for model in models if len(models) > 2 else models[:1]:
            others = "the other models" if len(models) > 2 else str(models[1])
            contrast, statistic = f"{longer}-{shorter}", f"less that of {others}"
            difference = values[model] - values.drop(columns=model).mean(axis=1)
            facets = {"contrast": contrast, "model": str(model)}
            labels = {"statistic": statistic, "facets": facets, "unit": unit}
            name, needed = f"{contrast} of {model} {statistic}", "the scores of all models"
            results.append(mean_over_bases(name, difference, bases, scale, needed, **labels))
    return tuple(results)


def _omnibus(cells: pd.DataFrame, bases: int) -> Estimate:
    used = cells.dropna(axis="columns", how="all")
    table = mean_of_units(used.dropna())
    if used.shape[1] < 2:
        counts = {"bases": len(table), "bins": used.shape[1]}
        empty = Estimate("F(bins)", method=ANOVA_METHOD, n=counts)
        return empty.too_few(used.shape[1], "length bins with a score")
    return repeated_measures(table, bases - len(table))


def bin_mean(name: str, runs: pd.DataFrame, unit: str) -> Estimate:
    """Return the mean of a length bin, or of another group in ``length_bin``, over bases."""
    mean = runs_mean(name, runs[runs["length_bin"] == name], unit)
    bases = mean.n["bases"]
    return mean if bases > 1 else mean.too_few(bases, "bases with a score")


def runs_mean(name: str, runs: pd.DataFrame, unit: str) -> Estimate:
    """Return the mean of checked runs over bases; repeats, then models are averaged first."""
    labels = {"method": "Student t over bases", "unit": unit}
    empty, scored = complete_rows(name, runs, ["score"], ("bases", "answers"), **labels)
    bases = mean_of_units(scored.groupby(["unit", "base", "model"])["score"].mean())
    if bases.empty:
        return empty.not_estimable("no answer has a score")
    return mean_on_scale(empty, bases.to_numpy(), range(len(bases)))


def _notes(runs: pd.DataFrame, cells: pd.DataFrame, score: str) -> list[str]:
    notes = [*run_table.averaged_note(runs), *run_table.left_out_note(runs, score)]
    unit = "bases" if runs["model"].nunique() == 1 else "pairs of base and model"
    lack = "lack a length bin and are left out of its contrasts"
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


def equivalences(
    gains: Iterable[tuple[Estimate, pd.Series]], margin: float | None, unit: str, scale: float
) -> Estimates:
    """Return the tests of differences, each with its values by base; none without a margin, or of another unit."""
    if margin is None or not isinstance(unit, run_table.Points):
        return ()
    tests = ((g, equivalence(g.name, values, margin, unit=unit, scale=scale)) for g, values in gains)
    return judged_equivalent(replace(test, missing=gain.missing, n=gain.n) for gain, test in tests)


def judged_equivalent(tests: Iterable[Estimate]) -> Estimates:
    """Return tests of equivalence with Holm's P values and verdicts; that *all* are needs none (Berger 1982)."""
    results = []
    for test in with_holm(tests, "tests of equivalence"):
        if test.p_value is not None:
            verdict = "equivalent" if test.p_value < LEVEL else "equivalence not shown"
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
    >>> runs = pd.DataFrame({"base": ["b1", "b2"], "length_bin": "S", "model": "m", "clarity": [3.0, 4.0]})
    >>> [(one.facets["dimension"], one.estimate) for one in dimension_profile(runs, ("clarity",)).means]
    [('clarity', 3.5)]
    """
    means = []
    for dimension in dimensions:
        table = run_table.checked_runs(runs, dimension)
        for (model, length_bin), rows in table.groupby(["model", "length_bin"], sort=False):
            name = f"{dimension} of {run_table.at_length(model, length_bin)}"
            mean = runs_mean(name, rows, run_table.score_unit(dimension, runs))
            facets = {"model": str(model), "length_bin": str(length_bin), "dimension": dimension}
            means.append(replace(mean, facets=facets))
    bins = run_table.in_order(mean.facets["length_bin"] for mean in means)
    means.sort(key=lambda mean: (mean.facets["model"], bins.index(mean.facets["length_bin"])))
    return Result("dimension_profile", means=means)
