"""The runs of a study as the comparisons use them: checked, with plain columns, one row a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS, agreeing, counted

SCORE_UNIT = "score points (0-5)"


def score_unit(score: str) -> str:
    """Return the unit of a column of scores: points for a dimension or composite, else its own name.

    Examples
    --------
    >>> score_unit("clarity"), score_unit("latency_ms")
    ('score points (0-5)', 'latency_ms')
    """
    return SCORE_UNIT if score in DIMENSIONS or score.startswith("composite") else score


def checked_runs(
    runs: pd.DataFrame, score: str, *, numbers: Sequence[str] = (), labels: Sequence[str] = ()
) -> pd.DataFrame:
    """Return base, situation, model, length_bin and score of every run, or say what cannot be used.

    Base is the independent unit, situation that within which length bins are paired: they differ where bases share
    texts (`toolkit.stats.inference.clusters.over_clusters`).

    Examples
    --------
    >>> runs = pd.DataFrame({"base": ["b1", "b1"], "length_bin": ["S", "L"], "composite": [3, None]})
    >>> checked_runs(runs, "composite")["score"].tolist()
    [3.0, nan]
    """
    needed = ["base", "length_bin", *labels, score, *numbers]
    absent = [name for name in needed if name not in runs]
    if absent:
        raise InputError(f"runs: lack the column {', '.join(absent)}; give {', '.join(needed)}")
    _refuse_twice(runs)
    checked = pd.DataFrame(
        {
            "base": runs["base"].to_numpy(),
            "situation": runs["situation" if "situation" in runs else "base"].to_numpy(),
            "model": runs["model"].to_numpy() if "model" in runs else "all",
            "length_bin": runs["length_bin"].astype("object").to_numpy(),
            "score": _numbers(runs, score),
            **{name: _numbers(runs, name) for name in numbers},
            **{name: runs[name].astype("object").to_numpy() for name in labels},
        }
    )
    for name in ("base", "model", *labels):
        if checked[name].isna().any():
            raise InputError(f"runs: a {name} is empty; every run needs one")
    unknown = checked.loc[~checked["length_bin"].isin(LENGTH_BINS), "length_bin"]
    if len(unknown):
        raise InputError(f"runs: length bin {unknown.iloc[0]!r} is not known; use {', '.join(LENGTH_BINS)}")
    return checked


def left_out_note(checked: pd.DataFrame, score: str, count: int | None = None) -> list[str]:
    """Return a note of how many runs have no score; none where all have one."""
    missing = int(checked["score"].isna().sum()) if count is None else count
    lack = agreeing(missing, f"have no {score} and are left out")
    return [f"{missing} of {counted(len(checked), 'runs')} {lack}"] if missing else []


def _numbers(runs: pd.DataFrame, name: str) -> np.ndarray:
    numbers = pd.to_numeric(runs[name], errors="coerce").astype("float64").to_numpy()
    wrong = (np.isnan(numbers) & runs[name].notna().to_numpy()) | np.isinf(numbers)
    if wrong.any():
        value = runs[name].iloc[int(wrong.argmax())]
        raise InputError(f"runs: {name} {value!r} is not a finite number; give a number or leave it missing")
    return numbers


def _refuse_twice(runs: pd.DataFrame) -> None:
    """Refuse a run that is there twice: it would narrow every interval that counts runs."""
    if "run_id" in runs and runs["run_id"].notna().all():
        twice = runs["run_id"].duplicated()
        if twice.any():
            name = runs["run_id"][twice].iloc[0]
            raise InputError(
                f"runs: run {name!r} is there {int((runs['run_id'] == name).sum())} times; keep one"
            )


_KNOWN = (*LENGTH_BINS, *JUDGE_ROLES)


def in_order(names: Iterable[Any]) -> list[Any]:
    """Return each name once: length bins from short to long, judges by role, then all others by name.

    Examples
    --------
    >>> in_order(["L", "m2", "S", "m1", "S", None])
    ['S', 'L', 'm1', 'm2']
    """
    there = {name for name in names if name is not None and name == name}
    known = [name for name in _KNOWN if name in there]
    return [*known, *sorted(there - set(known), key=str)]
