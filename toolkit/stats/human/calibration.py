"""The judges held against people: calibrated means, agreement, the alternative annotator test, and what is needed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.agreement.kappa import weighted_kappa
from toolkit.stats.agreement.reliability import reliability
from toolkit.stats.human.alt_test import AltTest, alternative_annotator_test
from toolkit.stats.human.ppi import CalibratedMean, prediction_powered_contrasts
from toolkit.stats.human.ratings_needed import RatingsNeeded, ratings_for_agreement, ratings_for_mean
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.run_table import in_order, need_columns, score_unit, told_apart
from toolkit.stats.prompt_length.contrasts import CONTRASTS
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE, counted


@dataclass(frozen=True)
class Calibration(Result):
    """What the ratings of people say of the scores of the judges."""

    means: Mapping[str, CalibratedMean]
    differences: tuple[CalibratedMean, ...]
    agreement: tuple[Estimate, ...]
    alt_tests: Mapping[str, AltTest]
    needed: tuple[RatingsNeeded, ...]
    notes: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Return the means, the differences, the agreement and the two numbers of each test."""
        yield from ((f"mean, {group}", mean.calibrated) for group, mean in self.means.items())
        yield from (("difference", found.calibrated) for found in self.differences)
        yield from (("agreement", one) for one in self.agreement)
        for judge, test in self.alt_tests.items():
            for one in (test.winning_rate, test.advantage):
                yield f"alternative annotator test, {judge}", one

    def sentence(self) -> str:
        """Return the calibrated mean, the agreement, the verdict and what is needed, in words ready for the thesis."""
        parts = [self.means["all"].sentence(), *(one.sentence() for one in self.agreement[:2])]
        parts += [self.alt_tests["ensemble"].sentence(), *(one.sentence() for one in self.needed)]
        return " ".join(parts)


@over_clusters
def calibrate(
    runs: pd.DataFrame,
    judgements: pd.DataFrame,
    human: pd.DataFrame,
    score: str = SCORE,
    *,
    width: float = 0.5,
) -> Calibration:
    """Hold the judges against the people who rated some of the same answers.

    An answer that several people rated counts with the mean of their ratings. The calibrated means take the rated
    answers as a random part of all that were judged, which the rounds of `toolkit.people.rating` draw, balanced over
    bin and model. Length bins, and models, are compared in pairs; means and differences of one kind share the judges'
    weight.

    ``human`` has one row a rating with run_id, base, rater and the score, missing where unfinished. ``width`` is that
    wanted of the interval of the mean, in score points; that of kappa is .2.

    References
    ----------
    See `prediction_powered_contrasts`, `weighted_kappa`, `alternative_annotator_test` and `ratings_for_mean`.

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
    agreement: list[Estimate] = []
    alt_tests = {}
    shown = table[table["shown"]]
    for judge, values in scores.items():
        agreement += _agreement(judge, values, shown)
        frame = values.rename(score).rename_axis("run_id").reset_index()
        alt_tests[judge] = alternative_annotator_test(frame, human, score)
    raters = human["rater"].nunique()
    rated = f"{int(rating.notna().sum())} of {counted(len(runs), 'runs')}"
    notes = [f"{rated} rated by {counted(raters, 'people')}; several ratings are averaged"]
    if unfinished := int(human[score].isna().sum()):
        notes.append(f"{unfinished} ratings are unfinished and left out")
    if raters > 1:
        notes.append("the intervals hold for these people, not for others")
    needed = ratings_for_mean(means["all"], width), ratings_for_agreement(agreement[0], 0.2)
    return Calibration(means, tuple(differences), tuple(agreement), alt_tests, needed, tuple(notes))


def _check(runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str) -> None:
    for what, frame, needed in (
        ("runs", runs, ("run_id", "base", "length_bin", "model", score)),
        ("judgements", judgements, ("run_id", "base", "judge", score)),
        ("human", human, ("run_id", "base", "rater", score)),
    ):
        need_columns(f"calibration: {what}", frame, needed)
    for what, frame, keys in (("run", runs, ["run_id"]), ("rating", human, ["run_id", "rater"])):
        twice = frame.duplicated(keys)
        if twice.any():
            name = frame.loc[twice, "run_id"].iloc[0]
            raise InputError(f"calibration: a {what} of {name} is there twice; keep one")
    unknown = human.loc[~human["run_id"].isin(runs["run_id"]), "run_id"]
    if len(unknown):
        raise InputError(f"calibration: rated run {unknown.iloc[0]} is not among the runs; give all runs")


def _calibrated(
    table: pd.DataFrame, column: str, score: str
) -> tuple[dict[str, CalibratedMean], list[CalibratedMean]]:
    """Return the calibrated means of the groups in a column, and their differences in pairs."""
    names = in_order(table[column])
    pairs = (
        [(b, a) for b, a in CONTRASTS if {a, b} <= {*names}]
        if column == "length_bin"
        else combinations(names, 2)
    )
    prefix, facet = ("", "group") if column == "all" else (f"{column} ", column)
    means = [f"{prefix}{name}" for name in names]
    mean, difference = f"calibrated mean of {score}", f"calibrated difference of {score}"
    contrasts: list[tuple[str, Hashable, Hashable | None]] = []
    contrasts += [(f"{mean}, {prefix}{name}", name, None) for name in names]
    contrasts += [(f"{difference}, {prefix}{first} - {second}", first, second) for first, second in pairs]
    # A run that was shown and whose rating is unfinished is missing; it is no unrated run.
    rated, others = table[table["shown"]], table[~table["shown"]]
    results = prediction_powered_contrasts(
        contrasts,
        rated["rating"],
        rated["judged"],
        others["judged"],
        list(rated[column]),
        list(others[column]),
        list(rated["base"]),
        list(others["base"]),
        unit=score_unit(score, table),
    )
    placed = [
        _with_facets(result, mean, {facet: str(first)})
        if second is None
        else _with_facets(result, difference, {facet: f"{first} - {second}"})
        for result, (_, first, second) in zip(results, contrasts, strict=True)
    ]
    return dict(zip(means, placed, strict=False)), placed[len(means) :]


def _with_facets(result: CalibratedMean, statistic: str, facets: dict[str, str]) -> CalibratedMean:
    """Return a result whose parts say what they are of."""
    alone = {who: facets | {"raters": f"{who} alone"} for who in ("people", "judges")}
    parts = {
        part: replace(getattr(result, part), statistic=statistic, facets=its)
        for part, its in {"calibrated": facets, **alone}.items()
    }
    return replace(result, **parts)


def _agreement(judge: str, values: pd.Series, shown: pd.DataFrame) -> list[Estimate]:
    theirs = shown["run_id"].map(values).astype("float64")
    bases = shown["base"].astype(str)
    names, pair = ("weighted kappa (quadratic)", "r"), f"{judge} and people"
    kappa, r = (f"{statistic} of {pair}" for statistic in names)
    both = theirs.notna() & shown["rating"].notna()
    x, y, missing = theirs[both], shown["rating"][both], int((~both).sum())
    return [
        replace(one, statistic=statistic, facets={"pair": pair})
        for statistic, one in zip(
            names,
            (
                weighted_kappa(theirs, shown["rating"], bases=list(bases), name=kappa),
                clustered_pearson(r, x, y, list(bases[both]), missing=missing),
            ),
            strict=True,
        )
    ]


@over_clusters
def compare_with_people(
    runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str = SCORE
) -> tuple[Estimate, ...]:
    """Return what the ratings of people say of the judges, for each rater apart.

    ICC(A,1) treats the two that are compared as if one of them were to stand in for the other: how lenient each is
    counts. The mean difference says how lenient the ensemble is beside the person, clustered by base. Both rest on the
    runs that both scored; a rating that is unfinished and a run that is unjudged are missing.

    Parameters
    ----------
    runs, judgements, human
        One row a run with run_id, base and the mean of the judges under ``score`` (0-5); one row a judgement with
        run_id, base, judge and ``score``; one row a judgement of a person with run_id, base, rater and ``score``.
    score
        The column that is compared.

    Returns
    -------
    tuple of Estimate
        For each rater: ICC(A,1) with the ensemble, the mean difference ensemble less person in score points, and
        ICC(A,1) with each judge; then ICC(A,1) of each pair of raters. Empty where nobody has rated.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("abcd"), "base": list("abcd"), "composite_strict": [1.0, 2.0, 3.0, 4.5]})
    >>> human = runs.assign(rater="anna", composite_strict=[1.5, 2.5, 3.5, 5.0])
    >>> icc, difference = compare_with_people(runs, runs.assign(judge="primary").iloc[:0], human)
    >>> difference.name, difference.estimate
    ('ensemble less human:anna', -0.5)
    """
    people = {f"human:{rater}": rows for rater, rows in human.groupby("rater", sort=True)}
    given = {str(role): rows for role, rows in judgements.groupby("judge", observed=True)}
    found: list[Estimate] = []
    for person, rows in people.items():
        found.append(_icc(person, rows, "ensemble", runs, score))
        found.append(_difference(person, rows, runs, score))
        found += [_icc(person, rows, judge, given[judge], score) for judge in in_order(given)]
    for (one, rows), (other, theirs) in combinations(people.items(), 2):
        found.append(_icc(one, rows, other, theirs, score))
    return tuple(found)


def _once(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return one score a run: a judge that judged it several times counts with the mean of what can be read."""
    return (
        rows.groupby(["run_id", "base"], observed=True, sort=False, dropna=False)[score].mean().reset_index()
    )


def _icc(one: str, rows: pd.DataFrame, other: str, theirs: pd.DataFrame, score: str) -> Estimate:
    mine, counterpart = _once(rows, score), _once(theirs, score)
    # What the person has not been shown yet is no missing rating.
    counterpart = counterpart[counterpart["run_id"].isin(mine["run_id"])]
    both = pd.concat([mine.assign(judge=one), counterpart.assign(judge=other)], ignore_index=True)
    ratings = both.rename(columns={"run_id": "target", score: "score"})
    found = next(result for result in reliability(ratings).icc["score"] if result.name == "ICC(A,1)")
    pair = f"{one} and {other}"
    return replace(found, name=f"{found.name} of {pair}", statistic=found.name, facets={"pair": pair})


def _difference(person: str, rows: pd.DataFrame, runs: pd.DataFrame, score: str) -> Estimate:
    ensemble = runs[["run_id", score]].rename(columns={score: "ensemble"})
    both = _once(rows, score).merge(ensemble, on="run_id", how="left")
    scored = both.dropna(subset=[score, "ensemble"])
    n, missing = {"bases": int(scored["base"].nunique()), "answers": len(scored)}, len(both) - len(scored)
    name, method = f"ensemble less {person}", "t over bases, clustered"
    empty = Estimate(name, None, None, None, method, score_unit(score, runs), n, missing)
    if scored.empty:
        return replace(empty, note="no run was scored by both")
    return clustered_mean(scored["ensemble"] - scored[score], list(scored["base"])).of(empty)
