"""Scores by length bin, as the seed describes them; `toolkit.stats.prompt_length.contrasts` draws the conclusions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

from toolkit.errors import InputError
from toolkit.scoring.values import member, number_or_missing


def analyze_length_bias(
    runs_by_length: Mapping[str, Iterable[Any]],
) -> dict[str, dict[str, float | int | None]]:
    """Describe the composite scores of each length bin (seed 002, section 5.1).

    ``std_score`` is the seed's ``np.std`` (ddof = 0, the spread of exactly these runs); ``std_score_sample``
    divides by n - 1. Runs without a score are counted in ``missing`` and enter nothing else.

    Parameters
    ----------
    runs_by_length
        Length bin to its runs: objects with ``scores.composite``, mappings with ``scores`` or ``composite``,
        or plain scores; None and NaN are missing.

    Returns
    -------
    dict
        Per bin ``mean_score``, ``std_score``, ``std_score_sample`` (score points; None where there are too
        few scores), ``count`` and ``missing``.

    Raises
    ------
    InputError
        If a score is not a number, or a run carries no scores at all.

    Examples
    --------
    >>> analyze_length_bias({"S": [3.0, 4.0, None]})["S"]["mean_score"]
    3.5
    >>> analyze_length_bias({"L": []})["L"]["count"]
    0
    """
    described: dict[str, dict[str, float | int | None]] = {}
    for length_bin, runs in runs_by_length.items():
        composites = [_composite_of(run, length_bin) for run in runs]
        scores = [score for score in composites if score is not None]
        described[length_bin] = {
            "mean_score": statistics.fmean(scores) if scores else None,
            "std_score": statistics.pstdev(scores) if scores else None,
            "std_score_sample": statistics.stdev(scores) if len(scores) > 1 else None,
            "count": len(scores),
            "missing": len(composites) - len(scores),
        }
    return described


def _composite_of(run: Any, length_bin: str) -> float | None:
    where = f"length bin {length_bin}"
    if run is None or isinstance(run, (Number, str)) or not _carries_scores(run):
        return number_or_missing(run, where)
    scores = member(run, "scores")
    holder = run if scores is None else scores
    return number_or_missing(member(holder, "composite"), where)


def _carries_scores(run: Any) -> bool:
    if isinstance(run, Mapping):
        if "scores" in run or "composite" in run:
            return True
        raise InputError(f"run {run!r:.60}: has neither 'scores' nor 'composite'; give one of them")
    return hasattr(run, "scores") or hasattr(run, "composite")
