"""The judges held against people: calibrated means, agreement, the alternative annotator test, and what is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.agreement.kappa import weighted_kappa
from toolkit.stats.human.alt_test import AltTest, alternative_annotator_test
from toolkit.stats.human.ppi import CalibratedMean, prediction_powered_mean
from toolkit.stats.human.ratings_needed import RatingsNeeded, ratings_for_agreement, ratings_for_mean
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import in_order, score_unit
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import counted


@dataclass(frozen=True)
class Calibration:
    """What the ratings of people say of the scores of the judges.

    Parameters
    ----------
    means
        ``all``, each length bin and each model to the mean that people would give.
    agreement
        Quadratic weighted kappa and Pearson's r of the ensemble, and of each judge, with the people.
    alt_tests
        Ensemble and judges to the alternative annotator test.
    needed
        How many answers people must still rate for the widths that were asked for.
    notes
        What the numbers rest on.
    """

    means: Mapping[str, CalibratedMean]
    agreement: tuple[Estimate, ...]
    alt_tests: Mapping[str, AltTest]
    needed: tuple[RatingsNeeded, ...]
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with what it is about."""
        rows = [(f"mean, {group}", one.calibrated) for group, one in self.means.items()]
        rows += [("agreement", one) for one in self.agreement]
        for judge, test in self.alt_tests.items():
            rows += [
                (f"alternative annotator test, {judge}", one) for one in (test.winning_rate, test.advantage)
            ]
        return estimates_frame(rows, "about")

    def sentence(self) -> str:
        """Return the calibrated mean, the agreement, the verdict and what is needed, in words ready for the thesis."""
        parts = [self.means["all"].sentence(), *(one.sentence() for one in self.agreement[:2])]
        parts += [self.alt_tests["ensemble"].sentence(), *(one.sentence() for one in self.needed)]
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "means": {group: one.to_dict() for group, one in self.means.items()},
            "agreement": [one.to_dict() for one in self.agreement],
            "alt_tests": {judge: one.to_dict() for judge, one in self.alt_tests.items()},
            "needed": [one.to_dict() for one in self.needed],
            "notes": list(self.notes),
        }


@over_clusters
def calibrate(
    runs: pd.DataFrame,
    judgements: pd.DataFrame,
    human: pd.DataFrame,
    score: str = "composite",
    *,
    width: float = 0.5,
    agreement_width: float = 0.2,
    epsilon: float = 0.2,
    confidence: float = 0.95,
) -> Calibration:
    """Hold the judges against the people who rated some of the same answers.

    An answer that several people rated counts with the mean of their ratings. The calibrated means take the rated
    answers as a random part of all that were judged, which the rounds of `toolkit.people.rating` draw, balanced over
    bin and model.

    Parameters
    ----------
    runs
        One row a run with run_id, base, length_bin, model and the mean of the judges under ``score``.
    judgements
        One row a judgement with run_id, base, judge and ``score``.
    human
        One row a rating with run_id, base, rater and ``score``; missing where unfinished.
    score
        The column that is compared.
    width, agreement_width
        Widths wanted of the intervals of the mean, in score points, and of the kappa.
    epsilon
        Of the alternative annotator test: .2 where the people are experts.
    confidence
        Coverage of the intervals.

    Returns
    -------
    Calibration
        With nothing estimable, and the reason, where nobody has rated.

    Raises
    ------
    InputError
        If a column is missing, a run is there twice, or a person rated a run twice.

    References
    ----------
    See `prediction_powered_mean`, `weighted_kappa`, `alternative_annotator_test` and `ratings_for_mean`.

    Examples
    --------
    >>> scores = [3.0, 4.0, 2.5, 4.5, 3.5] * 6
    >>> runs = pd.DataFrame({"run_id": range(30), "base": range(30), "length_bin": "S", "model": "m"})
    >>> runs = runs.assign(composite=scores)
    >>> human = runs.iloc[:15].assign(rater="anna", composite=[s - 0.5 for s in scores[:15]])
    >>> found = calibrate(runs, runs.assign(judge="primary"), human)
    >>> found.means["all"].calibrated.estimate
    3.0
    """
    _check(runs, judgements, human, score)
    people = human.groupby("run_id")[score].mean()
    rating = runs["run_id"].map(people).astype("float64")
    judged = pd.to_numeric(runs[score], errors="coerce").astype("float64")
    table = runs.assign(judged=judged, rating=rating, shown=runs["run_id"].isin(human["run_id"]))
    groups = {"all": table}
    for column in ("length_bin", "model"):
        if table[column].nunique() > 1:
            groups |= {f"{column} {name}": table[table[column] == name] for name in in_order(table[column])}
    means = {group: _mean(group, rows, score, confidence) for group, rows in groups.items()}
    scores = {"ensemble": table.set_index("run_id")["judged"]}
    for judge in in_order(judgements["judge"]):
        scores[str(judge)] = judgements[judgements["judge"] == judge].groupby("run_id")[score].mean()
    agreement: list[Estimate] = []
    alt_tests = {}
    shown = table[table["shown"]]
    for judge, values in scores.items():
        agreement += _agreement(judge, values, shown, confidence)
        alt_tests[judge] = alternative_annotator_test(
            values.rename(score).rename_axis("run_id").reset_index(),
            human,
            score,
            epsilon=epsilon,
            confidence=confidence,
        )
    raters = human["rater"].nunique()
    unfinished = int(human[score].isna().sum())
    notes = [
        f"{int(rating.notna().sum())} of {counted(len(runs), 'runs')} rated by {counted(raters, 'people')}; "
        "several ratings are averaged"
    ]
    if unfinished:
        notes.append(f"{unfinished} ratings are unfinished and left out")
    if raters > 1:
        notes.append("the intervals hold for these people, not for others")
    return Calibration(
        means,
        tuple(agreement),
        alt_tests,
        (ratings_for_mean(means["all"], width), ratings_for_agreement(agreement[0], agreement_width)),
        tuple(notes),
    )


def _check(runs: pd.DataFrame, judgements: pd.DataFrame, human: pd.DataFrame, score: str) -> None:
    for what, frame, needed in (
        ("runs", runs, ("run_id", "base", "length_bin", "model", score)),
        ("judgements", judgements, ("run_id", "base", "judge", score)),
        ("human", human, ("run_id", "base", "rater", score)),
    ):
        absent = [name for name in needed if name not in frame]
        if absent:
            raise InputError(f"calibration: {what} lack the column {', '.join(absent)}; add it")
    for what, frame, keys in (("run", runs, ["run_id"]), ("rating", human, ["run_id", "rater"])):
        twice = frame.duplicated(keys)
        if twice.any():
            name = frame.loc[twice, "run_id"].iloc[0]
            raise InputError(f"calibration: a {what} of {name} is there twice; keep one")
    if not human["run_id"].isin(runs["run_id"]).all():
        name = human.loc[~human["run_id"].isin(runs["run_id"]), "run_id"].iloc[0]
        raise InputError(f"calibration: rated run {name} is not among the runs; give all runs")


def _mean(group: str, rows: pd.DataFrame, score: str, confidence: float) -> CalibratedMean:
    # A run that was shown and whose rating is unfinished is missing; it is no unrated run.
    rated, others = rows[rows["shown"]], rows[~rows["shown"]]
    return prediction_powered_mean(
        f"calibrated mean of {score}, {group}",
        rated["rating"],
        rated["judged"],
        others["judged"],
        list(rated["base"]),
        list(others["base"]),
        unit=score_unit(score),
        confidence=confidence,
    )


def _agreement(judge: str, values: pd.Series, shown: pd.DataFrame, confidence: float) -> list[Estimate]:
    theirs = shown["run_id"].map(values).astype("float64")
    bases = list(shown["base"].astype(str))
    kappa = weighted_kappa(
        theirs,
        shown["rating"],
        bases=bases,
        name=f"weighted kappa (quadratic) of {judge} and people",
        confidence=confidence,
    )
    both = (theirs.notna() & shown["rating"].notna()).to_numpy()
    r = clustered_pearson(
        f"r of {judge} and people",
        theirs[both],
        shown["rating"][both],
        [base for base, keep in zip(bases, both, strict=True) if keep],
        missing=int((~both).sum()),
        confidence=confidence,
    )
    return [kappa, r]
