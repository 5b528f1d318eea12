"""Read ratings that someone wrote down elsewhere: one row per target and judge."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.result import ROUNDING
from toolkit.table_files import MISSING, number_of, read_texts

REQUIRED = ("target", "judge", "score")
OPTIONAL = ("dimension", "base")
_SMALLEST, _LARGEST = 1e-9, 1e9
"""Beyond these the sums of squares lose the differences between scores, or overflow."""


def read_ratings(path: str | Path) -> pd.DataFrame:
    r"""Read a CSV file of ratings into a frame, and refuse what cannot be read as it stands.

    An empty score (or NA, NaN, null, None) is a missing rating and stays in the frame as NaN. Duplicates are
    kept: ``toolkit.stats.agreement.reliability`` finds them, says so and averages nothing.

    The file is UTF-8 with a header: ``target``, ``judge``, ``score`` and, where there are several, ``dimension`` and
    ``base``; other columns are ignored. A refusal names the line and the value.
    """
    file = Path(path)
    rows = [_row(file, line, cells) for line, cells in read_texts(file) if any(cells.values())]
    if not rows:
        raise InputError(
            f"{file}: has no ratings; it needs a header {','.join(REQUIRED)} and a row per rating"
        )
    return pd.DataFrame(rows)


def _row(file: Path, line: int, cells: dict[str, str]) -> dict[str, str | float]:
    if absent := [name for name in REQUIRED if name not in cells]:
        raise InputError(f"{file}: lacks the column {', '.join(absent)}; add to the header what is missing")
    names = [name for name in (*REQUIRED, *OPTIONAL) if name in cells]
    if empty := [name for name in names if name != "score" and not cells[name]]:
        raise InputError(f"{file}, line {line}: the {empty[0]} is empty; every rating needs one")
    return {name: _score(file, line, cells[name]) if name == "score" else cells[name] for name in names}


def _score(file: Path, number: int, cell: str) -> float:
    if cell.lower() in MISSING:
        return float("nan")
    score = number_of(cell)
    if score is None:
        raise InputError(
            f"{file}, line {number}: score {cell!r} is not a number; write it like 4.5 or leave it empty"
        )
    if score and not _SMALLEST <= abs(score) <= _LARGEST:
        raise InputError(
            f"{file}, line {number}: score {cell} cannot be calculated with, its size must be 0 or from {_SMALLEST:g} "
            f"to {_LARGEST:g}; give the scores in another unit, or less a constant"
        )
    return score


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
    all_bases = _target_bases(ratings, counted.index, [])
    return RatingMatrix(
        values=values - values.mean() if values.size else values,
        judges=tuple(str(judge) for judge in counted.columns),
        bases=_target_bases(ratings, complete.index, notes),
        missing=missing,
        notes=tuple(notes),
        problem=problem,
        pairs=counted / scale,
        pair_bases=None if all_bases is None else np.array(all_bases, dtype=object),
        scale=scale,
    )


def scored_by_both(
    name: str, first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable] | None
) -> tuple[np.ndarray, np.ndarray, list[Hashable], int]:
    """Return the scores of the answers that both scored, the base of each (itself where unknown), and the missing."""
    x, y = np.array(first, dtype=float), np.array(second, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or (bases is not None and len(bases) != len(x)):
        raise InputError(
            f"{name}: give two scores for each answer, and a base for each where bases are known"
        )
    if np.isinf(x).any() or np.isinf(y).any():
        raise InputError(f"{name}: a score is infinite; correct it or leave it empty")
    rows = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    labels: list[Hashable] = [row if bases is None else bases[row] for row in rows.tolist()]
    return x[rows], y[rows], labels, len(x) - len(rows)


def pairs_of_judges(
    matrix: RatingMatrix,
) -> Iterator[tuple[tuple[str, str], np.ndarray, np.ndarray, list[Hashable] | None]]:
    """Yield the names of each two judges, all that each of them scored, and the base of each answer where known."""
    bases = None if matrix.pair_bases is None else list(matrix.pair_bases)
    for first, second in combinations(matrix.pairs.columns, 2):
        yield (
            (str(first), str(second)),
            matrix.pairs[first].to_numpy(),
            matrix.pairs[second].to_numpy(),
            bases,
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
    if np.ptp(values) <= ROUNDING:
        return f"every score is {values.flat[0] * scale:g}, so there is no variance to divide"
    if np.ptp(values, axis=0).max() <= ROUNDING:
        return "each judge gave the same score to every answer, so nothing tells the answers apart"
    if values.size < _FEWEST_RATINGS:
        return "two answers by two judges leave one degree of freedom, too few to estimate from"
    return ""


def _target_bases(ratings: pd.DataFrame, targets: pd.Index, notes: list[str]) -> tuple[Any, ...] | None:
    if "base" not in ratings:
        return None
    bases = ratings.dropna(subset=["base"]).groupby("target", sort=False)["base"]
    unclear = bases.nunique().reindex(targets).ne(1)
    if unclear.any():
        notes.append(f"bases ignored: target {unclear.index[unclear][0]} has no base, or more than one")
        return None
    return tuple(bases.first().reindex(targets))
