"""What scores do not show: those that are missing, and those at an end of the scale."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.conditions.contrasts import explored, successive
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import intracluster_correlation, share
from toolkit.stats.result import Estimate, Estimates, Result, rounded
from toolkit.words import SCORE, agreeing, counted

CASES = ("complete cases", "missing = worst", "missing = best", "lowest", "highest")


@over_clusters
def missing_data(runs: pd.DataFrame, judgements: pd.DataFrame | None = None, score: str = SCORE) -> Result:
    """Count what has no score, by model and length bin of the runs and by judge of the judgements.

    Reasons are read from the columns failure and defect, where they exist. Where nothing is missing the count is
    complete, and there is no interval.

    Examples
    --------
    >>> runs = pd.DataFrame({"base": list("aabbcc"), "level": list("SLSLSL"), "model": "m"})
    >>> found = missing_data(runs.assign(composite_strict=[1, None, 2, 3, 4, None]))
    >>> [(one.name, one.estimate) for one in found.shares["level"]]
    [('missing, level S', 0.0), ('missing, level L', 0.6666666666666666)]
    """
    tables: list[tuple[str, pd.DataFrame, tuple[str, ...]]] = [("runs", runs, ("level", "model"))]
    if judgements is not None and len(judgements):
        tables.append(("judgements", judgements, ("judge",)))
    shares: dict[str, list[Estimate]] = {}
    levels = run_table.levels_of(runs)
    reasons: list[str] = []
    for unit, table, columns in tables:
        run_table.need_labelled(f"missing data: {unit}", table, ("base",), score, *columns)
        missing, bases = table[score].isna(), table["unit"].astype(str)
        intracluster, cases = intracluster_correlation(missing, list(bases)), table.assign(of=unit)
        for column in ("of", *run_table.grouping_columns(table, columns)):
            for name in [unit] if column == "of" else run_table.in_order(cases[column], levels):
                member = cases[column].isin([name])
                label = f"missing {unit}" if column == "of" else f"missing, {column} {name}"
                estimate = share(
                    label,
                    list(missing[member]),
                    list(bases[member]),
                    what=unit,
                    intracluster=intracluster,
                    statistic="" if column == "of" else "missing",
                    facets={column: str(name)},
                )
                if not missing.any():  # a complete count is no sample
                    estimate = replace(estimate, low=None, high=None, method="", reason="no score is missing")
                shares.setdefault(column, []).append(estimate)
        reasons += _reasons(table[missing], unit)
    overall = tuple(shares.pop("of"))
    ordered = dict(Counter(sorted(reasons)).most_common())
    bounds = missing_bounds(runs, score)
    by_group = {column: tuple(estimates) for column, estimates in shares.items()}
    return Result("missing", text=_sentence, overall=overall, shares=by_group, reasons=ordered, bounds=bounds)


@over_clusters
def missing_bounds(runs: pd.DataFrame, score: str = SCORE) -> Result:
    """Compare lengths with complete cases, with every missing score at the worst or best, and at the bounds.

    The bounds put the missing scores of one bin at one end of the scale and those of the other at the other end, which
    assumes nothing about why they are missing (Manski 1990, American Economic Review 80 (2), 319-323).
    """
    checked = run_table.checked_runs(runs, score)
    worst, best = run_table.scale_of(runs)
    missing = checked["score"].isna().to_numpy()
    bins = checked["level"].to_numpy()

    def contrasts(fill: np.ndarray | float) -> Estimates:
        return explored(checked.assign(score=np.where(missing, fill, checked["score"])), score)

    def bound(low: bool) -> Estimates:
        # Each contrast has its own filling, so that Holm's p values of that filling would mean nothing here. The third
        # bin, filled like the second, does not count in the contrast.
        pairs = successive(run_table.levels_of(runs))
        fillings = (np.where((bins == b) == low, worst, best) for b, _ in pairs)
        extremes = (contrasts(filling)[index] for index, filling in enumerate(fillings))
        return tuple(replace(estimate, p_value=None, correction="none") for estimate in extremes)

    cases: dict[str, Estimates] = dict.fromkeys(CASES, ())
    if missing.any() and len(set(bins)) > 1:  # else there is nothing to bound
        complete = explored(checked, score)
        bounds = (complete, contrasts(worst), contrasts(best), bound(True), bound(False))
        cases = dict(zip(CASES, bounds, strict=True))
    count, ends = int(missing.sum()), (worst, best)
    return Result("missing_bounds", text=_bounds_sentence, contrasts=cases, missing=count, ends=ends)


def _sentence(result: Result) -> str:
    """Return what is missing, for which reasons, and how far it could matter."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in result.reasons.items())
    shares = " ".join(estimate.sentence() for estimate in result.overall)
    return " ".join(
        filter(None, (shares, f"Reasons: {reasons}." if reasons else "", result.bounds.sentence()))
    )


def _bounds_sentence(bounds: Result) -> str:
    """Return how far the missing scores could matter."""
    if not bounds.missing:
        return "No score is missing, so that no assumption about missing scores is made."
    unscored = f"{counted(bounds.missing, 'runs')} {agreeing(bounds.missing, 'have no score')}."
    if not bounds.contrasts[CASES[0]]:  # scores of one prompt length, or that know none
        return unscored
    parts = []
    for index, name in enumerate(contrast.name for contrast in bounds.contrasts[CASES[0]]):
        complete, low, high = (
            bounds.contrasts[case][index].estimate for case in ("complete cases", "lowest", "highest")
        )
        if complete is None or low is None or high is None:
            parts.append(f"{name} is not estimable")
            continue
        sign = "keeps its sign" if low * high > 0 else "could have either sign"
        parts.append(f"{name} = {rounded(complete)}, between {rounded(low)} and {rounded(high)}, {sign}")
    pronoun = "it" if bounds.missing == 1 else "they"
    scale_ends = f"{bounds.ends[0]:g}-{bounds.ends[1]:g}"
    return f"{unscored} Whatever {pronoun} would have been within {scale_ends}: {'; '.join(parts)}."


def _reasons(blank: pd.DataFrame, unit: str) -> list[str]:
    columns = [name for name in ("failure", "defect") if name in blank]
    if not columns:
        return []
    reasons = blank[columns].astype("object").bfill(axis=1).iloc[:, 0]
    return reasons.where(reasons.notna(), f"{unit} without a reason").astype(str).tolist()


_EQUAL = 1e-9


@over_clusters
def ceiling(scores: pd.DataFrame, score: str = SCORE, *, limit: float = 0.3) -> Result:
    """Return how many scores lie at the ceiling and at the floor, in all and by length bin, model and judge.

    A mean over judges or dimensions is at the ceiling only where all of them are, so give judgements rather than runs.
    Above the limit a difference of means is drawn towards 0, and an interval that holds the mean says little of
    quality.

    Examples
    --------
    >>> frame = pd.DataFrame({"base": list("aabb"), "level": list("SLSL"), "composite_strict": [5, 5, 3, None]})
    >>> found = ceiling(frame)
    >>> round(found.shares["all"][0].estimate, 3), found.shares["all"][0].missing, len(found.warnings)
    (0.667, 1, 3)
    """
    run_table.need_labelled("ceiling: scores", scores, ("base",), score)
    if not 0 < limit <= 1:
        raise InputError(f"ceiling: limit {limit:g} cannot be; give a share")
    values = run_table.numbers_of("ceiling: scores", scores, score)
    missing, (low, high) = np.isnan(values), run_table.scale_of(scores)
    wrong = (values < low - _EQUAL) | (values > high + _EQUAL)
    if wrong.any():
        first = values[wrong.argmax()]
        raise InputError(
            f"ceiling: {score} {first:g} is no score from {low:g} to {high:g}; correct or empty it"
        )
    bases = scores["unit"].astype(str)[~missing]
    ends = {f"ceiling ({high:g})": values >= high - _EQUAL, f"floor ({low:g})": values <= low + _EQUAL}
    likenesses = {end: intracluster_correlation(hits[~missing], list(bases)) for end, hits in ends.items()}
    shares: dict[str, tuple[Estimate, ...]] = {}
    warnings = []
    cases = scores.assign(group="all")
    for column in ("group", *run_table.grouping_columns(scores, ("level", "model", "judge"))):
        for name in run_table.in_order(cases[column], run_table.levels_of(scores)):
            group = "all" if column == "group" else f"{column} {name}"
            member = cases[column].isin([name]).to_numpy()
            for end, hits in ends.items():
                estimate = share(
                    f"{score} at the {end}, {group}",
                    list(hits[member & ~missing]),
                    list(bases[member[~missing]]),
                    what="scores",
                    intracluster=likenesses[end],
                    missing=int((member & missing).sum()),
                    statistic=f"{score} at the {end}",
                    facets={column: str(name)},
                )
                shares[group] = (*shares.get(group, ()), estimate)
                if estimate.estimate is not None and estimate.estimate > limit:
                    lead = f"{estimate.estimate:.0%} of {score} are at the {end}, {group}"
                    warnings.append(f"{lead}, more than {limit:.0%}: means hide differences there.")
    return Result("ceiling", text=_ceiling_sentence, shares=shares, warnings=warnings, limit=limit)


def _ceiling_sentence(result: Result) -> str:
    """Return the shares of all scores, and every warning, in words."""
    return " ".join([*(estimate.sentence() for estimate in result.shares["all"]), *result.warnings])
