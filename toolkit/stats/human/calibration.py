"""Judges compared with people: calibrated means and agreement."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.agreement.icc import FORMS, icc_estimates
from toolkit.stats.agreement.kappa import weighted_kappa
from toolkit.stats.agreement.ratings import rating_matrix
from toolkit.stats.human.ppi import CalibratedMean, prediction_powered_contrasts
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import mean_estimate
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.inference.run_table import in_order, need_columns, score_unit, told_apart
from toolkit.stats.prompt_length.contrasts import CONTRASTS
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import SCORE, counted


@dataclass(frozen=True)
class Calibration(Result):
    """What the ratings of people say of the scores of the judges."""

    means: Mapping[str, CalibratedMean]
    differences: tuple[CalibratedMean, ...]
    agreement: Estimates
    notes: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Return the means, the differences and the agreement."""
        yield from ((f"mean, {group}", mean.calibrated) for group, mean in self.means.items())
        yield from (("difference", difference.calibrated) for difference in self.differences)
        yield from (("agreement", estimate) for estimate in self.agreement)

    def sentence(self) -> str:
        """Return the calibrated mean and the agreement of the ensemble in words ready for the thesis."""
        return " ".join([self.means["all"].sentence(), *(part.sentence() for part in self.agreement[:2])])


@over_clusters
def calibrate(
    runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str = SCORE
) -> Calibration:
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
    >>> runs = pd.DataFrame({"run_id": range(30), "base": range(30), "length_bin": "S", "model": "m"})
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
    for column in told_apart(table, ("length_bin", "model")):
        if table[column].nunique() > 1:
            by_group, by_pair = _calibrated(table, column, score)
            means, differences = means | by_group, differences + by_pair
    scores = {"ensemble": table.set_index("run_id")["judged"]}
    for judge in in_order(judgements["judge"]):
        scores[str(judge)] = judgements[judgements["judge"] == judge].groupby("run_id")[score].mean()
    shown = table[table["shown"]]
    agreement = [part for judge, values in scores.items() for part in _agreement(judge, values, shown)]
    raters = human["rater"].nunique()
    rated = f"{int(rating.notna().sum())} of {counted(len(runs), 'runs')}"
    notes = [f"{rated} rated by {counted(raters, 'people')}; several ratings are averaged"]
    if unfinished := int(human[score].isna().sum()):
        notes.append(f"{unfinished} ratings are unfinished and left out")
    if raters > 1:
        notes.append("the intervals hold for these people, not for others")
    return Calibration(means, tuple(differences), tuple(agreement), tuple(notes))


def _check(runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str) -> None:
    need_columns("calibration: runs", runs, ("run_id", "base", "length_bin", "model", score))
    need_columns("calibration: judgements", judgements, ("run_id", "base", "judge", score))
    need_columns("calibration: human", human, ("run_id", "base", "rater", score))
    for unit, frame, keys in (("run", runs, ["run_id"]), ("rating", human, ["run_id", "rater"])):
        duplicated = frame.duplicated(keys)
        if duplicated.any():
            name = frame.loc[duplicated, "run_id"].iloc[0]
            raise InputError(f"calibration: a {unit} of {name} is there twice; keep one")
    unknown = human.loc[~human["run_id"].isin(runs["run_id"]), "run_id"]
    if len(unknown):
        raise InputError(f"calibration: rated run {unknown.iloc[0]} is not among the runs; give all runs")


def _calibrated(
    table: pd.DataFrame, column: str, score: str
) -> tuple[dict[str, CalibratedMean], list[CalibratedMean]]:
    names = in_order(table[column])
    pairs = (
        [(b, a) for b, a in CONTRASTS if {a, b} <= {*names}]
        if column == "length_bin"
        else combinations(names, 2)
    )
    prefix, facet = ("", "group") if column == "all" else (f"{column} ", column)
    mean, difference = f"calibrated mean of {score}", f"calibrated difference of {score}"
    contrasts: list[tuple[str, Hashable, Hashable | None]]
    contrasts = [(f"{mean}, {prefix}{name}", name, None) for name in names]
    contrasts += [(f"{difference}, {prefix}{first} - {second}", first, second) for first, second in pairs]
    # A run that was shown and whose rating is unfinished is missing; it is no unrated run.
    rated, others = table[table["shown"]], table[~table["shown"]]
    scores = (rated["rating"], rated["judged"], others["judged"])
    labels = (list(side[name]) for name in (column, "base") for side in (rated, others))
    results = prediction_powered_contrasts(contrasts, *scores, *labels, unit=score_unit(score, table))
    calibrated = [
        _with_facets(result, mean, {facet: str(first)})
        if second is None
        else _with_facets(result, difference, {facet: f"{first} - {second}"})
        for result, (_, first, second) in zip(results, contrasts, strict=True)
    ]
    count = len(names)
    tests = with_holm((difference.calibrated for difference in calibrated[count:]), "calibrated differences")
    corrected = [replace(d, calibrated=test) for d, test in zip(calibrated[count:], tests, strict=True)]
    return {f"{prefix}{n}": m for n, m in zip(names, calibrated[:count], strict=True)}, corrected


def _with_facets(result: CalibratedMean, statistic: str, facets: dict[str, str]) -> CalibratedMean:
    alone = [{**facets, "raters": f"{raters} alone"} for raters in ("people", "judges")]
    parts = zip((result.calibrated, result.people, result.judges), (facets, *alone), strict=True)
    calibrated, people, judges = (replace(part, statistic=statistic, facets=labels) for part, labels in parts)
    return CalibratedMean(calibrated, people, judges, result.tuning)


def _agreement(judge: str, values: pd.Series, shown: pd.DataFrame) -> list[Estimate]:
    scores, ratings = shown["run_id"].map(values).astype("float64"), shown["rating"]
    bases, pair = shown["base"].astype(str), f"{judge} and people"
    paired = scores.notna() & ratings.notna()
    x, y, missing = scores[paired], ratings[paired], int((~paired).sum())
    quadratic = "weighted kappa (quadratic)"
    kappa = weighted_kappa(scores, ratings, bases=list(bases), name=f"{quadratic} of {pair}")
    r = clustered_pearson(f"r of {pair}", x, y, list(bases[paired]), missing=missing)
    return [
        replace(kappa, statistic=quadratic, facets={"pair": pair}),
        replace(r, statistic="r", facets={"pair": pair}),
    ]


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
        scored = paired.dropna(subset=[score, "ensemble"])
        empty = Estimate(
            f"ensemble less {person}",
            method="t over bases, clustered",
            unit=score_unit(score, runs),
            n={"bases": scored["base"].nunique(), "answers": len(scored)},
            missing=len(paired) - len(scored),
        )
        differences, bases = scored["ensemble"] - scored[score], list(scored["base"])
        difference = mean_estimate(empty, differences, bases, "no run was scored by both", tested=True)
        estimates.append(replace(difference, p_value=None))
        estimates += [_icc(person, ratings, judge, by_judge[judge], score) for judge in in_order(by_judge)]
    for (first, ratings), (second, counterparts) in combinations(people.items(), 2):
        estimates.append(_icc(first, ratings, second, counterparts, score))
    return tuple(estimates)


def _run_means(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    by_run = rows.groupby(["run_id", "base"], observed=True, sort=False, dropna=False)
    return by_run[score].mean().reset_index()


def _icc(first: str, ratings: pd.DataFrame, second: str, counterparts: pd.DataFrame, score: str) -> Estimate:
    rated, counterpart = _run_means(ratings, score), _run_means(counterparts, score)
    # What the person has not been shown yet is no missing rating.
    counterpart = counterpart[counterpart["run_id"].isin(rated["run_id"])]
    table = pd.concat([rated.assign(judge=first), counterpart.assign(judge=second)], ignore_index=True)
    table = table.rename(columns={"run_id": "target", score: "score"})
    matrix = rating_matrix(table, sorted(set(table["target"]), key=str), sorted((first, second)))
    icc = icc_estimates(matrix)[FORMS.index("ICC(A,1)")]
    pair = f"{first} and {second}"
    return replace(icc, name=f"{icc.name} of {pair}", statistic=icc.name, facets={"pair": pair})
