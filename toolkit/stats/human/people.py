"""How far the judges agree with people: each person against the ensemble, against each judge, and against others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pandas as pd

from toolkit.stats.agreement.reliability import reliability
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.result import Estimate
from toolkit.words import JUDGE_ROLES

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
    judges = {role: given[role] for role in sorted(given, key=_place)}
    found: list[Estimate] = []
    for person, rows in people.items():
        found.append(_agreement(person, rows, "ensemble", runs, score))
        found.append(_difference(person, rows, runs, score))
        found += [_agreement(person, rows, judge, said, score) for judge, said in judges.items()]
    for (one, rows), (other, theirs) in combinations(people.items(), 2):
        found.append(_agreement(one, rows, other, theirs, score))
    return tuple(found)


def _place(role: str) -> tuple[int, str]:
    return (JUDGE_ROLES.index(role) if role in JUDGE_ROLES else len(JUDGE_ROLES), role)


def _once(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return one score a run: a judge that judged it several times counts with the mean of what can be read."""
    return rows.groupby(_KEYS, observed=True, sort=False, dropna=False)[score].mean().reset_index()


def _agreement(one: str, rows: pd.DataFrame, other: str, theirs: pd.DataFrame, score: str) -> Estimate:
    mine, counterpart = _once(rows, score), _once(theirs, score)
    # What the person has not been shown yet is no missing rating.
    counterpart = counterpart[counterpart["run_id"].isin(mine["run_id"])]
    ratings = pd.DataFrame(_long(one, mine, score) + _long(other, counterpart, score))
    found = next(result for result in reliability(ratings).icc["score"] if result.name == "ICC(A,1)")
    return replace(found, name=f"ICC(A,1) of {one} and {other}")


def _long(judge: str, rows: pd.DataFrame, score: str) -> list[dict[str, object]]:
    return [
        {"target": row["run_id"], "base": row["base"], "judge": judge, "score": row[score]}
        for row in rows.to_dict("records")
    ]


def _difference(person: str, rows: pd.DataFrame, runs: pd.DataFrame, score: str) -> Estimate:
    both = _once(rows, score).merge(
        runs[["run_id", score]], on="run_id", how="left", suffixes=("", "_ensemble")
    )
    scored = both.dropna(subset=[score, f"{score}_ensemble"])
    about = Estimate(
        f"ensemble less {person}",
        None,
        method="t over bases, clustered",
        unit="score points (0-5)",
        n={"bases": int(scored["base"].nunique()), "answers": len(scored)},
        missing=len(both) - len(scored),
        note="no run was scored by both",
    )
    if scored.empty:
        return about
    mean = clustered_mean(scored[f"{score}_ensemble"] - scored[score], list(scored["base"]))
    note = f"no interval: {mean.reason}" if mean.reason else ""
    return replace(about, estimate=mean.mean, low=mean.low, high=mean.high, p_value=None, note=note)
