"""From long ratings to a complete table of targets by judges, saying what had to be left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

_FEWEST_RATINGS = 5
NEGLIGIBLE = 1e-12
"""What is smaller than this share of the whole is rounding, not data."""


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
    labels = tuple(str(judge) for judge in judges)
    duplicated = ratings.duplicated(["target", "judge"], keep="first")
    if duplicated.any():
        first = ratings.loc[duplicated].iloc[0]
        problem = (
            f"{int(duplicated.sum())} duplicate rating(s), the first of target {first['target']} "
            f"by judge {first['judge']}; keep one rating per target and judge"
        )
        return RatingMatrix(np.empty((len(targets), 0)), labels, problem=problem)
    wide = ratings.set_index(["target", "judge"])["score"].unstack().reindex(index=targets, columns=judges)
    wide = wide.astype("float64")
    infinite = np.argwhere(np.isinf(wide.to_numpy()))
    if len(infinite):
        row, column = infinite[0]
        problem = (
            f"infinite score of target {targets[row]} by judge {judges[column]}; correct it or leave it empty"
        )
        return RatingMatrix(np.empty((len(targets), 0)), labels, problem=problem)
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
        left_out = len(counted) - len(complete)
        notes.append(f"{left_out} of {len(counted)} answers left out for a missing score ({gaps} missing)")
    scale = _magnitude(counted.to_numpy())
    values = complete.to_numpy() / scale
    problem = _problem(values, scale)
    notes.extend(
        f"judge {judge} gave the same score to every answer"
        for judge, column in zip(complete.columns, values.T, strict=True)
        if not problem and np.ptp(column) <= NEGLIGIBLE
    )
    all_bases = _bases_of(ratings, counted.index, [])
    return RatingMatrix(
        values=values - values.mean() if values.size else values,
        judges=tuple(str(judge) for judge in counted.columns),
        bases=_bases_of(ratings, complete.index, notes),
        missing=missing,
        notes=tuple(notes),
        problem=problem,
        pairs=counted / scale,
        pair_bases=None if all_bases is None else np.array(all_bases, dtype=object),
        scale=scale,
    )


def submatrix(matrix: RatingMatrix, judges: list[Any]) -> RatingMatrix:
    """Return the table of some of the judges; answers that only others left out come back in."""
    wide = (matrix.pairs[judges] * matrix.scale).rename_axis(index="target", columns="judge")
    targets = list(wide.index)
    ratings = wide.reset_index().melt("target", var_name="judge", value_name="score")
    if matrix.pair_bases is not None:
        ratings["base"] = np.tile(matrix.pair_bases, len(judges))
    return rating_matrix(ratings, targets, judges)


def _problem(values: np.ndarray, scale: float) -> str:
    """Say why a complete table supports no statistic of agreement; empty where it does."""
    answers, judges = values.shape
    if judges < 2:
        return f"agreement needs two judges and there is {judges}"
    if answers < 2:
        return f"variance between answers needs two answers that every judge scored and there is {answers}"
    if np.ptp(values) <= NEGLIGIBLE:
        return f"every score is {values.flat[0] * scale:g}, so there is no variance to divide"
    if np.ptp(values, axis=0).max() <= NEGLIGIBLE:
        return "each judge gave the same score to every answer, so nothing tells the answers apart"
    if values.size < _FEWEST_RATINGS:
        return "two answers by two judges leave one degree of freedom, too few to estimate from"
    return ""


def _magnitude(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _bases_of(ratings: pd.DataFrame, targets: pd.Index, notes: list[str]) -> tuple[Any, ...] | None:
    if "base" not in ratings:
        return None
    bases = ratings.dropna(subset=["base"]).groupby("target", sort=False)["base"]
    unclear = bases.nunique().reindex(targets).ne(1)
    if unclear.any():
        notes.append(f"bases ignored: target {unclear.index[unclear][0]} has no base, or more than one")
        return None
    return tuple(bases.first().reindex(targets))
