"""The table of what every judge scored of one dimension, with what it lacks and why it may support no number."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from toolkit.stats.result import ROUNDING

_FEWEST_RATINGS = 5


@dataclass(frozen=True)
class RatingMatrix:
    """The ratings of one dimension that every counted judge gave."""

    values: np.ndarray
    judges: tuple[str, ...]
    bases: tuple[Any, ...] | None = None
    missing: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""
    pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    pair_bases: np.ndarray | None = None
    scale: float = 1.0

    @property
    def n(self) -> dict[str, int]:
        """What a statistic of this table rests on."""
        counts = {"answers": len(self.values), "judges": len(self.judges)}
        return {"bases": len(set(self.bases)), **counts} if self.bases else counts


def rating_matrix(ratings: pd.DataFrame, targets: list[Any], judges: list[Any]) -> RatingMatrix:
    """Put the ratings of one dimension into a complete table of targets by judges.

    Targets without a score from every judge are left out (complete cases), and so is a judge who gave no
    score at all; both are said. Duplicates and infinite scores are refused, because to average or drop them
    in silence, as a pivot table does, would make up data.
    """

    def refused(problem: str) -> RatingMatrix:
        return RatingMatrix(np.empty((len(targets), 0)), tuple(map(str, judges)), problem=problem)

    duplicated = ratings.duplicated(["target", "judge"], keep="first")
    if duplicated.any():
        first = ratings.loc[duplicated].iloc[0]
        return refused(
            f"{int(duplicated.sum())} duplicate rating(s), the first of target {first['target']} "
            f"by judge {first['judge']}; keep one rating per target and judge"
        )
    wide = ratings.set_index(["target", "judge"])["score"].unstack().reindex(index=targets, columns=judges)
    wide = wide.astype("float64")
    infinite = np.argwhere(np.isinf(wide.to_numpy()))
    if len(infinite):
        row, column = infinite[0]
        return refused(
            f"infinite score of target {targets[row]} by judge {judges[column]}; correct it or leave it empty"
        )
    missing = int(wide.isna().to_numpy().sum())
    notes: list[str] = []
    silent = [judge for judge in judges if wide[judge].isna().all()]
    if silent:
        notes.append(f"judge {', '.join(map(str, silent))} gave no score and was left out")
    counted = wide.drop(columns=silent)
    complete = counted.dropna()
    if len(complete) < len(counted):
        by_judge = counted.isna().sum()
        gaps = ", ".join(f"{judge} {count}" for judge, count in by_judge.items() if count)
        incomplete = len(counted) - len(complete)
        notes.append(f"{incomplete} of {len(counted)} answers left out for a missing score ({gaps} missing)")
    scale = float(np.fmax.reduce(np.abs(counted.to_numpy()), axis=None, initial=0.0)) or 1.0
    values = complete.to_numpy() / scale
    problem = _problem(values, scale)
    notes.extend(
        f"judge {judge} gave the same score to every answer"
        for judge, column in zip(complete.columns, values.T, strict=True)
        if not problem and np.ptp(column) <= ROUNDING
    )
    all_bases = target_bases(ratings, counted.index, [])
    return RatingMatrix(
        values=values - values.mean() if values.size else values,
        judges=tuple(str(judge) for judge in counted.columns),
        bases=target_bases(ratings, complete.index, notes),
        missing=missing,
        notes=tuple(notes),
        problem=problem,
        pairs=counted / scale,
        pair_bases=None if all_bases is None else np.array(all_bases, dtype=object),
        scale=scale,
    )


def _problem(values: np.ndarray, scale: float) -> str:
    """Say why a complete table supports no statistic of agreement; empty where it does."""
    answers, judges = values.shape
    if judges < 2:
        return f"agreement needs two judges and there is {judges}"
    if answers < 2:
        return f"variance between answers needs two answers that every judge scored and there is {answers}"
    if np.ptp(values) <= ROUNDING:
        return f"every score is {values.flat[0] * scale:g}, so there is no variance to divide"
    if np.ptp(values, axis=0).max() <= ROUNDING:
        return "each judge gave the same score to every answer, so nothing tells the answers apart"
    if values.size < _FEWEST_RATINGS:
        return "two answers by two judges leave one degree of freedom, too few to estimate from"
    return ""


def target_bases(ratings: pd.DataFrame, targets: pd.Index, notes: list[str]) -> tuple[Any, ...] | None:
    """Return the base of each target; None, with a note, where one has none or several."""
    if "base" not in ratings:
        return None
    bases = ratings.dropna(subset=["base"]).groupby("target", sort=False)["base"]
    unclear = bases.nunique().reindex(targets).ne(1)
    if unclear.any():
        notes.append(f"bases ignored: target {unclear.index[unclear][0]} has no base, or more than one")
        return None
    return tuple(bases.first().reindex(targets))
