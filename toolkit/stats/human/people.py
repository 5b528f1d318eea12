"""How far the judges agree with people: each person against the ensemble, against each judge, and against others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pandas as pd

from toolkit.stats.agreement.reliability import reliability
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.run_table import SCORE_UNIT, in_order
from toolkit.stats.result import Estimate

_KEYS = ["run_id", "base"]


@over_clusters
def compare_with_people(
    runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str = "composite"
) -> tuple[Estimate, ...]:
    """Return what the ratings of people say of the judges, for each rater apart.

    ICC(A,1) treats the two that are compared as if one of them were to stand in for the other: how lenient each is
    counts. The mean difference says how lenient the ensemble is beside the person, clustered by base. Both rest on the
    runs that both scored; a rating that is unfinished and a run that is unjudged are missing.

    Parameters
    ----------
    runs
        One row a run with run_id, base and the mean of the judges under ``score`` (0-5).
    judgements
        One row a judgement with run_id, base, judge and ``score``.
    human
        One row a judgement of a person with run_id, base, rater and ``score``.
    score
        The column that is compared.

    Returns
    -------
    tuple of Estimate
        For each rater: ICC(A,1) with the ensemble, the mean difference ensemble less person in score points, and
        ICC(A,1) with each judge; then ICC(A,1) of each pair of raters. Empty where nobody has rated.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("abcd"), "base": list("abcd"), "composite": [1.0, 2.0, 3.0, 4.5]})
    >>> human = runs.assign(rater="anna", composite=[1.5, 2.5, 3.5, 5.0])
    >>> icc, difference = compare_with_people(runs, runs.assign(judge="primary").iloc[:0], human)
    >>> difference.name, difference.estimate
    ('ensemble less human:anna', -0.5)
    """
    people = {f"human:{rater}": rows for rater, rows in human.groupby("rater", sort=True)}
    given = {str(role): rows for role, rows in judgements.groupby("judge", observed=True)}
    found: list[Estimate] = []
    for person, rows in people.items():
        found.append(_agreement(person, rows, "ensemble", runs, score))
        found.append(_difference(person, rows, runs, score))
        found += [_agreement(person, rows, judge, given[judge], score) for judge in in_order(given)]
    for (one, rows), (other, theirs) in combinations(people.items(), 2):
        found.append(_agreement(one, rows, other, theirs, score))
    return tuple(found)


def _once(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return one score a run: a judge that judged it several times counts with the mean of what can be read."""
    return rows.groupby(_KEYS, observed=True, sort=False, dropna=False)[score].mean().reset_index()


def _agreement(one: str, rows: pd.DataFrame, other: str, theirs: pd.DataFrame, score: str) -> Estimate:
    mine, counterpart = _once(rows, score), _once(theirs, score)
    # What the person has not been shown yet is no missing rating.
    counterpart = counterpart[counterpart["run_id"].isin(mine["run_id"])]
    both = pd.concat([mine.assign(judge=one), counterpart.assign(judge=other)], ignore_index=True)
    ratings = both.rename(columns={"run_id": "target", score: "score"})
    found = next(result for result in reliability(ratings).icc["score"] if result.name == "ICC(A,1)")
    return replace(found, name=f"ICC(A,1) of {one} and {other}")


def _difference(person: str, rows: pd.DataFrame, runs: pd.DataFrame, score: str) -> Estimate:
    ensemble = runs[["run_id", score]].rename(columns={score: "ensemble"})
    both = _once(rows, score).merge(ensemble, on="run_id", how="left")
    scored = both.dropna(subset=[score, "ensemble"])
    n, missing = {"bases": int(scored["base"].nunique()), "answers": len(scored)}, len(both) - len(scored)
    name, method = f"ensemble less {person}", "t over bases, clustered"
    empty = Estimate(name, None, None, None, method, SCORE_UNIT, n, missing)
    if scored.empty:
        return replace(empty, note="no run was scored by both")
    return clustered_mean(scored["ensemble"] - scored[score], list(scored["base"])).of(empty)
