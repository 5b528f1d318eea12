"""Judges compared with people: means that few ratings of people correct (prediction-powered), and agreement."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.agreement.coefficients import clustered_pearson, weighted_kappa
from toolkit.stats.agreement.icc import icc_estimates, rating_matrix
from toolkit.stats.agreement.reliability import effective_judges
from toolkit.stats.conditions.contrasts import successive
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, over_clusters
from toolkit.stats.inference.jackknife import FEWEST_BASES, jackknife, sums_by, total_and_jackknife
from toolkit.stats.inference.means import clustered_slope, mean_estimate, mean_on_scale, student
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result, Row
from toolkit.words import SCORE, counted


@over_clusters
def calibrate(
    runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str = SCORE
) -> Result:
    """Compare the judges with the people who rated some of the same answers.

    An answer that several people rated counts with the mean of their ratings. The calibrated means take the rated
    answers as a random part of all that were judged, which the rounds of `toolkit.people.rating` draw, balanced over
    bin and model. Length bins, and models, are compared in pairs; means and differences of one kind share the judges'
    weight.

    ``human`` has one row a rating with run_id, base, rater and the score, missing where unfinished. See
    `prediction_powered_contrasts` and `weighted_kappa`.

    Examples
    --------
    >>> scores = [3.0, 4.0, 2.5, 4.5, 3.5] * 6
    >>> runs = pd.DataFrame({"run_id": range(30), "base": range(30), "level": "S", "model": "m"})
    >>> runs = runs.assign(composite_strict=scores)
    >>> human = runs.iloc[:15].assign(rater="anna", composite_strict=[s - 0.5 for s in scores[:15]])
    >>> found = calibrate(runs, runs.assign(judge="primary"), human)
    >>> found.means["all"].calibrated.estimate
    3.0
    """
    _check(runs, judgements, human, score)
    rating = runs["run_id"].map(human.groupby("run_id")[score].mean()).astype("float64")
    judged = pd.to_numeric(runs[score], errors="coerce").astype("float64")
    table = runs.assign(judged=judged, rating=rating, shown=runs["run_id"].isin(human["run_id"]))
    means, differences = _calibrated(table.assign(all="all"), "all", score)
    for column in run_table.grouping_columns(table, ("level", "model")):
        if table[column].nunique() > 1:
            by_group, by_pair = _calibrated(table, column, score)
            means, differences = means | by_group, differences + by_pair
    scores = {"ensemble": table.set_index("run_id")["judged"]}
    for judge in run_table.in_order(judgements["judge"]):
        scores[str(judge)] = judgements[judgements["judge"] == judge].groupby("run_id")[score].mean()
    shown = table[table["shown"]]
    agreement = [part for judge, values in scores.items() for part in _agreement(judge, values, shown)]
    agreement.append(_effective(scores, shown))
    raters = human["rater"].nunique()
    rated = f"{int(rating.notna().sum())} of {counted(len(runs), 'runs')}"
    notes = [f"{rated} rated by {counted(raters, 'people')}; several ratings are averaged"]
    if unfinished := int(human[score].isna().sum()):
        notes.append(f"{unfinished} ratings are unfinished and left out")
    if raters > 1:
        notes.append("the intervals hold for these people, not for others")
    return Result(
        "calibration",
        text=_sentence,
        rows=_rows,
        means=means,
        differences=differences,
        agreement=agreement,
        notes=notes,
    )


def _rows(result: Result) -> Iterator[Row]:
    yield from ((f"mean, {group}", mean.calibrated) for group, mean in result.means.items())
    yield from (("difference", difference.calibrated) for difference in result.differences)
    yield from (("agreement", estimate) for estimate in result.agreement)


def _sentence(result: Result) -> str:
    """Return the calibrated mean and the agreement of the ensemble in words."""
    return " ".join([result.means["all"].sentence(), *(part.sentence() for part in result.agreement[:2])])


def _check(runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str) -> None:
    run_table.need_columns("calibration: runs", runs, ("run_id", "base", "level", "model", score))
    run_table.need_columns("calibration: judgements", judgements, ("run_id", "base", "judge", score))
    run_table.need_columns("calibration: human", human, ("run_id", "base", "rater", score))
    run_table.need_once(runs, ["run_id"], "calibration: a run of {run_id} is there twice; keep one")
    run_table.need_once(
        human, ["run_id", "rater"], "calibration: a rating of {run_id} is there twice; keep one"
    )
    unknown = human.loc[~human["run_id"].isin(runs["run_id"]), "run_id"]
    if len(unknown):
        raise InputError(f"calibration: rated run {unknown.iloc[0]} is not among the runs; give all runs")


def _calibrated(table: pd.DataFrame, column: str, score: str) -> tuple[dict[str, Result], list[Result]]:
    names = run_table.in_order(table[column], run_table.levels_of(table))
    pairs = successive(names) if column == "level" else combinations(names, 2)
    prefix, facet = ("", "group") if column == "all" else (f"{column} ", column)
    mean, difference = f"calibrated mean of {score}", f"calibrated difference of {score}"
    contrasts: list[Contrast] = [(f"{mean}, {prefix}{name}", name, None) for name in names]
    contrasts += [(f"{difference}, {prefix}{first} - {second}", first, second) for first, second in pairs]
    # A run that was shown and whose rating is unfinished is missing; it is no unrated run.
    rated, others = table[table["shown"]], table[~table["shown"]]
    scores = (rated["rating"], rated["judged"], others["judged"])
    labels = (list(side[name]) for name in (column, "unit") for side in (rated, others))
    results = prediction_powered_contrasts(
        contrasts, *scores, *labels, unit=run_table.score_unit(score, table)
    )
    calibrated = []
    for result, (_, first, second) in zip(results, contrasts, strict=True):
        facets = {facet: str(first) if second is None else f"{first} - {second}"}
        named = {
            part: replace(
                result.values[part],
                statistic=mean if second is None else difference,
                facets=facets if part == "calibrated" else {**facets, "raters": f"{part} alone"},
            )
            for part in ("calibrated", "people", "judges")
        }
        calibrated.append(result.replace(**named))
    count = len(names)
    tests = with_holm((result.calibrated for result in calibrated[count:]), "calibrated differences")
    corrected = [d.replace(calibrated=test) for d, test in zip(calibrated[count:], tests, strict=True)]
    return {f"{prefix}{n}": m for n, m in zip(names, calibrated[:count], strict=True)}, corrected


def _agreement(judge: str, values: pd.Series, shown: pd.DataFrame) -> list[Estimate]:
    scores, ratings = shown["run_id"].map(values).astype("float64"), shown["rating"]
    bases, pair = shown["unit"].astype(str), f"{judge} and people"
    paired = scores.notna() & ratings.notna()
    x, y, missing = scores[paired], ratings[paired], int((~paired).sum())
    quadratic = "weighted kappa (quadratic)"
    kappa = weighted_kappa(scores, ratings, bases=list(bases), name=f"{quadratic} of {pair}")
    r = clustered_pearson(f"r of {pair}", x, y, list(bases[paired]), missing=missing)
    named = (quadratic, kappa), ("r", r)
    return [replace(estimate, statistic=statistic, facets={"pair": pair}) for statistic, estimate in named]


def _effective(scores: dict[str, pd.Series], rated: pd.DataFrame) -> Estimate:
    """Return how many independent judges the judges are worth by their errors against the people."""
    judges = {judge: rated["run_id"].map(values) for judge, values in scores.items() if judge != "ensemble"}
    errors = pd.DataFrame(judges).astype("float64").sub(rated["rating"].to_numpy(), axis=0)
    whole = errors.notna().all(axis=1)
    bases, missing = list(rated.loc[whole, "unit"].astype(str)), int((~whole).sum())
    number = effective_judges(errors[whole].to_numpy(float), bases, from_people=True, missing=missing)
    return replace(number, statistic=number.name, facets={"pair": "all judges and people"})


@over_clusters
def compare_with_people(
    runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str = SCORE
) -> Estimates:
    """Return what the ratings of people say of the judges, for each rater apart.

    For each rater: ICC(A,1) with the ensemble, the mean difference ensemble less person in score points, and ICC(A,1)
    with each judge; then ICC(A,1) of each pair of raters. Empty where nobody has rated.

    ICC(A,1) treats the two that are compared as if one of them were to stand in for the other: how lenient each is
    counts. The mean difference says how lenient the ensemble is beside the person, clustered by base. Both rest on the
    runs that both scored; a rating that is unfinished and a run that is unjudged are missing.

    ``runs`` has one row a run with run_id, base and the mean of the judges under ``score`` (0-5), ``judgements`` one
    row a judgement with judge besides, and ``human`` one row a rating with rater besides.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("abcd"), "base": list("abcd"), "composite_strict": [1.0, 2.0, 3.0, 4.5]})
    >>> human = runs.assign(rater="anna", composite_strict=[1.5, 2.5, 3.5, 5.0])
    >>> icc, difference = compare_with_people(runs, runs.assign(judge="primary").iloc[:0], human)
    >>> difference.name, difference.estimate
    ('ensemble less human:anna', -0.5)
    """
    people = {f"human:{rater}": rows for rater, rows in human.groupby("rater", sort=True)}
    by_judge = {str(role): rows for role, rows in judgements.groupby("judge", observed=True)}
    estimates: list[Estimate] = []
    for person, ratings in people.items():
        estimates.append(_icc(person, ratings, "ensemble", runs, score))
        ensemble = runs[["run_id", score]].rename(columns={score: "ensemble"})
        paired = _run_means(ratings, score).merge(ensemble, on="run_id", how="left")
        empty, scored = complete_rows(
            f"ensemble less {person}",
            paired,
            [score, "ensemble"],
            ("bases", "answers"),
            method="t over bases, clustered",
            unit=run_table.score_unit(score, runs),
        )
        differences, bases = scored["ensemble"] - scored[score], list(scored["unit"])
        difference = mean_estimate(empty, differences, bases, "no run was scored by both", tested=True)
        estimates.append(replace(difference, p_value=None))
        judges = run_table.in_order(by_judge)
        estimates += [_icc(person, ratings, judge, by_judge[judge], score) for judge in judges]
    for (first, ratings), (second, counterparts) in combinations(people.items(), 2):
        estimates.append(_icc(first, ratings, second, counterparts, score))
    return tuple(estimates)


@over_clusters
def judges_and_people(judgements: pd.DataFrame, human: pd.DataFrame, scores: Sequence[str]) -> Estimates:
    """Return ICC(A,1) of each judge with the people, score by score, over the replies that people rated.

    It is what a gate (`[judges.gate]` of a study file) looks at. A reply that several people rated counts with their
    mean; a score that nobody gave, such as that of a dimension that applies to no rated task, is left out.

    ``judgements`` has one row a judgement with run_id, base, judge and the scores, ``human`` one row a rating with
    rater in the place of judge.

    Examples
    --------
    >>> human = pd.DataFrame({"run_id": list("abcd"), "base": list("abcd"), "rater": "anna", "clarity": [1.0, 2, 4, 5]})
    >>> (icc,) = judges_and_people(human.assign(judge="primary"), human, ["clarity"])
    >>> icc.name, icc.estimate
    ('ICC(A,1) of people and primary, clarity', 1.0)
    """
    estimates = []
    for judge, rows in judgements.groupby("judge", observed=True, sort=True):
        for score in scores:
            if human[score].notna().any():
                # Of this judge, who is no sample of others.
                icc = _icc("people", human, str(judge), rows, score, anew=False)
                facets = {"judge": str(judge), "dimension": score}
                estimates.append(replace(icc, name=f"{icc.name}, {score}", facets=facets))
    return tuple(estimates)


def _run_means(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    by_run = rows.groupby(["run_id", "unit"], observed=True, sort=False, dropna=False)
    return by_run[score].mean().reset_index()


def _icc(
    first: str, ratings: pd.DataFrame, second: str, counterparts: pd.DataFrame, score: str, anew: bool = True
) -> Estimate:
    """Return ICC(A,1) of two raters, whose interval holds for raters drawn anew, or for these two."""
    rated, counterpart = _run_means(ratings, score), _run_means(counterparts, score)
    # What the person has not been shown yet is no missing rating.
    counterpart = counterpart[counterpart["run_id"].isin(rated["run_id"])]
    table = pd.concat([rated.assign(judge=first), counterpart.assign(judge=second)], ignore_index=True)
    table = table.rename(columns={"run_id": "target", score: "score"})
    matrix = rating_matrix(table, sorted(set(table["target"]), key=str), sorted((first, second)))
    forms = [form for form in icc_estimates(matrix) if form.name.startswith(FORM)]
    icc, pair = forms[0 if anew else -1], f"{first} and {second}"
    return replace(icc, name=f"{FORM} of {pair}", statistic=FORM, facets={"pair": pair})


FORM = "ICC(A,1)"
JACKKNIFE = "PPI++ with a pooled weight, jackknife over bases, Student t, Satterthwaite degrees of freedom"
ALONE = "Student t over bases, clustered"
Contrast = tuple[str, Hashable, Hashable | None]
"""The name of a result with its group and None, or with two groups of which the second is subtracted."""
VERIFIED = 8  # rated bases from which simulations show that the interval has its level


def calibrated_contrasts(sums: np.ndarray, contrasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return contrasts (R x K) and the judges' weight (R) from sums (R x 7 x C): n, y, f, yf, ff rated; n, f others."""
    n, y, f, yf, ff, others, f_others = sums.swapaxes(0, 1)
    count, many = np.maximum(n, 1), np.maximum(others, 1)
    tuned = (n > 0) & (others > 0)
    spread = ff - f**2 / count
    # A spread that is rounding of the sums it is left over from is none.
    spread = np.where(spread > ROUNDING**1.5 * count, spread, 0.0)
    share = (contrasts**2).sum(axis=0) * tuned / count**2
    variance = (share * (1 + n / many) * spread).sum(axis=1)
    covariance = (share * (yf - y * f / count)).sum(axis=1)
    weight = np.divide(covariance, variance, out=np.zeros(len(n)), where=variance > 0)
    means = y / count + weight[:, None] * np.where(tuned, f_others / many - f / count, 0.0)
    unrated = (n == 0).astype(float) @ (contrasts != 0).T
    return np.where(unrated > 0, np.nan, means @ contrasts.T), weight


def _mean_sentence(result: Result) -> str:
    """Return the calibrated mean in words, beside what people and judges alone say."""
    text = result.calibrated.sentence()
    if result.tuning is None:
        return text
    alone = (("people", result.people.estimate), ("judges", result.judges.estimate))
    parts = [f"{raters} alone {mean:.3f}" for raters, mean in alone if mean is not None]
    return f"{text} For comparison: {', '.join(parts)}; the judges' weight is {result.tuning:.2f}."


def prediction_powered_mean(
    name: str,
    human: ArrayLike,
    judged: ArrayLike,
    unrated: ArrayLike,
    bases: Sequence[Hashable] | None = None,
    unrated_bases: Sequence[Hashable] | None = None,
) -> Result:
    """Return the mean that people would give to all answers, where they rated a few and the judges scored all.

    That of `prediction_powered_contrasts` with a single group.

    Examples
    --------
    >>> people, same = [4, 3, 5, 2, 4, 3, 5, 4], [4.5, 3.5, 4.5, 3, 4, 3.5, 5, 4.5]
    >>> others = [4, 4.5, 3.5, 5, 3, 4, 4.5, 3.5, 4, 4.5, 5, 3, 4, 3.5, 4.5, 4]
    >>> round(prediction_powered_mean("mean", people, same, others).calibrated.estimate, 6)
    3.720065
    """
    y, f, u = (np.asarray(values, dtype=float) for values in (human, judged, unrated))
    groups = ["all"] * len(y), ["all"] * len(u)
    return prediction_powered_contrasts([(name, "all", None)], y, f, u, *groups, bases, unrated_bases)[0]


def prediction_powered_contrasts(
    contrasts: Sequence[Contrast],
    human: ArrayLike,
    judged: ArrayLike,
    unrated: ArrayLike,
    groups: Sequence[Hashable],
    unrated_groups: Sequence[Hashable],
    bases: Sequence[Hashable] | None = None,
    unrated_bases: Sequence[Hashable] | None = None,
    *,
    unit: str | None = None,
) -> list[Result]:
    r"""Return means of groups of answers, and differences of two, as people would give them to all answers.

    With people's ratings y, judges' scores f, and n rated and N other answers of group c, :math:`\hat\theta_c = \bar
    y_c + \lambda (\bar f_{c,unrated} - \bar f_{c,rated})`; a contrast is :math:`\sum_c w_c \hat\theta_c`. It is
    unbiased for every :math:`\lambda` if the rated answers are a random part of all. One :math:`\lambda` serves all
    contrasts, because few ratings do not determine several: :math:`\hat\lambda = \frac{\sum_c W_c S_{yf,c} /
    n_c^2}{\sum_c W_c (1 + n_c/N_c) S_{ff,c} / n_c^2}` with :math:`W_c` the squares of :math:`w_c` summed over the
    contrasts, and S the sums of products about the means of the rated answers of a group. It is not held within 0-1
    (PPI++: Angelopoulos, Duchi & Zrnic 2024, arXiv:2311.01453).

    The interval leaves out each base in turn, tunes again, and is :math:`\hat\theta \pm t_\nu\, s`; :math:`s^2 = s_r^2
    + s_u^2` is the sum of the jackknife variances of the bases with and without ratings (of all together where fewer
    than four have none), :math:`\nu = s^4 / (s_r^4 / \nu_r + s_u^4 / \nu_u)`, each with the degrees of freedom of
    `toolkit.stats.inference.jackknife.jackknife_interval`, at most :math:`G_r - 1` with :math:`G_r` rated bases. With
    fewer than 8 rated bases the result says that its interval is not verified.

    An answer that lacks a score is missing; without bases every answer is its own.
    """
    y, f, u = (np.asarray(values, dtype=float) for values in (human, judged, unrated))
    labels = _labels(len(y), len(f), len(u), bases, unrated_bases)
    table = pd.DataFrame({"people": np.concatenate([y, np.zeros(len(u))]), "judges": np.concatenate([f, u])})
    table = table.assign(rated=np.arange(len(table)) < len(y), base=labels)
    table["group"] = pd.Series([*groups, *unrated_groups], dtype=object)
    absent = table[table[["people", "judges"]].isna().any(axis=1)]
    table = table.drop(absent.index)
    finite = bool(np.isfinite(table[["people", "judges"]].to_numpy()).all())
    fit = _fit(table, [pair for _, *pair in contrasts]) if finite and table["rated"].any() else None
    unit, results = run_table.Points() if unit is None else unit, list[Result]()
    for index, (name, first, second) in enumerate(contrasts):
        sides = [first] if second is None else [first, second]
        part = table[table["group"].isin(sides)]
        rated = part[part["rated"]]
        by_group = rated.groupby("group")["base"].nunique()
        bases_rated, bases_scored = int(rated["base"].nunique()), int(part["base"].nunique())
        n = {"rated answers": len(rated), "unrated answers": len(part) - len(rated)}
        if bases is not None:
            n |= {"bases": bases_scored, "rated bases": bases_rated}
        empty = Estimate(
            name, method=JACKKNIFE, unit=unit, n=n, missing=int(absent["group"].isin(sides).sum())
        )
        people = replace(empty, name=f"{name}, people alone", n={"answers": len(rated)}, method=ALONE)
        judges = replace(empty, name=f"{name}, judges alone", n={"answers": len(part)}, method=ALONE)
        lacking, tuning = [side for side in sides if side not in by_group], None
        if fit is None or lacking:
            group = f" of {lacking[0]}" if lacking and second is not None else ""
            reason = f"no answer{group} was rated by people and by the judges"
            reason = reason if lacking else "a score is infinite; correct it or leave it empty"
            calibrated, people, judges = (mean.not_estimable(reason) for mean in (empty, people, judges))
        else:
            estimate, error, degrees = (float(values[index]) for values in fit[:3])
            calibrated = empty.with_value(estimate)
            reason = "" if math.isfinite(error) else "the ratings do not vary"
            if bases_rated < FEWEST_BASES:
                reason = f"{counted(bases_rated, 'rated bases')}, and {FEWEST_BASES} are needed"
            elif by_group.min() < 2:
                reason = f"all ratings of {by_group.idxmin()} are of one base, and two are needed"
            if reason:
                calibrated = calibrated.no_interval(reason)
            else:
                degrees = min(degrees, bases_rated - 1.0)
                low, high, p_value = student(estimate, error, degrees)
                few = f"{bases_rated} rated bases: coverage of the interval is verified from {VERIFIED} on"
                more = {"degrees": degrees, "note": few if bases_rated < VERIFIED else ""}
                more |= {} if second is None else {"p_value": p_value}
                calibrated = empty.with_value(estimate, low, high, **more)
            people, judges = _alone(people, rated, "people", sides), _alone(judges, part, "judges", sides)
            tuning = fit[3]
        parts: dict[str, Any] = {
            "calibrated": calibrated,
            "people": people,
            "judges": judges,
            "tuning": tuning,
        }
        results.append(Result("calibrated_mean", text=_mean_sentence, **parts))
    return results


def _fit(
    table: pd.DataFrame, contrasts: Sequence[Sequence[Hashable | None]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return estimate, error and degrees of freedom of each contrast, and the judges' weight."""
    groups = list(dict.fromkeys(side for pair in contrasts for side in pair if side is not None))
    signs = np.array([[float(group == a) - float(group == b) for group in groups] for a, b in contrasts])
    rated, judges, people = (table[name].to_numpy(float) for name in ("rated", "judges", "people"))
    # Centred and of one size first: neither a constant in all scores nor their unit may cost precision.
    size = float(np.abs(np.concatenate([people, judges])).max()) or 1.0
    middle = float(people @ rated / rated.sum())
    y, f = (people - middle) / size, (judges - float(judges.mean())) / size
    parts = (rated, rated * y, rated * f, rated * y * f, rated * f * f, 1 - rated, (1 - rated) * f)
    member = np.array([(table["group"] == group).to_numpy(float) for group in groups]).T
    rows = np.stack(parts, axis=1)[:, :, None] * member[:, None, :]
    codes = pd.factorize(table["base"])[0]
    total, jackknife_values = total_and_jackknife(sums_by(codes, rows))
    (estimates,), (weight,) = calibrated_contrasts(total, signs)
    replicates = calibrated_contrasts(jackknife_values, signs)[0]
    errors, degrees = _jackknife(estimates, replicates, np.bincount(codes, rated) > 0)
    return middle * signs.sum(axis=1) + size * estimates, size * errors, degrees, float(weight)


def _jackknife(
    estimates: np.ndarray, replicates: np.ndarray, rated: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return error (NaN without one) and degrees of each contrast; bases without ratings are a stratum of their own."""
    two_strata = min(rated.sum(), (~rated).sum()) >= FEWEST_BASES
    strata = (rated, ~rated) if two_strata else (np.ones_like(rated),)
    parts = [jackknife(estimates, replicates[stratum])[1:] for stratum in strata]
    errors, degrees = (np.nan_to_num(np.stack(part)) for part in zip(*parts, strict=True))
    variance = (errors**2).sum(axis=0)
    usable = np.isfinite(replicates).all(axis=0) & (variance > 0)
    below = np.where(usable, (errors**4 / degrees).sum(axis=0), 1.0)
    return np.where(usable, np.sqrt(variance), np.nan), variance**2 / below


def _alone(empty: Estimate, rows: pd.DataFrame, scores: str, sides: Sequence[Hashable]) -> Estimate:
    if len(sides) == 1:
        return mean_on_scale(empty, rows[scores], list(rows["base"]))
    difference = clustered_slope(empty.name, rows["group"] == sides[0], rows[scores], list(rows["base"]))
    return replace(difference, unit=empty.unit, missing=empty.missing)


def _labels(
    n: int, judged: int, unrated: int, bases: Sequence[Hashable] | None, others: Sequence[Hashable] | None
) -> np.ndarray:
    problem = ""
    if n != judged:
        problem = f"{n} ratings by people and {judged} by judges; give two for each answer"
    elif bases is others is None:
        return np.arange(n + unrated)
    elif bases is None or others is None:
        problem = "only one side has bases; give them for rated and unrated answers"
    elif len(bases) != n or len(others) != unrated:
        problem = f"{n} and {unrated} answers, {len(bases)} and {len(others)} bases; give as many"
    else:
        return np.array([str(base) for base in (*bases, *others)], dtype=object)
    raise InputError(f"calibrated mean: {problem}")
