"""The aggregate of several judges on one answer: mean, spread, interval, and how many judges it rests on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scipy import special

from toolkit.errors import InputError
from toolkit.scoring.composite import calculate_composite_score
from toolkit.scoring.values import member, number_or_missing
from toolkit.words import DIMENSIONS, SCALE


def aggregate_ensemble_scores(judge_results: Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Aggregate the composites of several judges on one answer, as seed 002 (section 2.2) names it.

    A judge is missing when it failed, gave no composite, or gave one outside the scale; a missing judge never
    counts as zero. With fewer than two judges the answer is unjudged: all but the number of judges is None.

    Parameters
    ----------
    judge_results
        Objects or mappings with ``composite`` and, where the judge may have failed, ``evaluation_failed`` or
        ``failed``; a mapping from judge to such a result is read by its values.

    Returns
    -------
    dict
        ``mean``, ``std`` (sample standard deviation, ddof = 1), ``confidence_interval`` (95 % Student t over
        judges, low and high, clamped to 0-5) and ``judge_count`` (judges that count).

    Raises
    ------
    InputError
        If a composite is not a number.

    Examples
    --------
    >>> aggregated = aggregate_ensemble_scores([{"composite": 4.3}, {"composite": 4.1}, {"composite": None}])
    >>> round(aggregated["mean"], 2), aggregated["judge_count"]
    (4.2, 2)
    """
    results = judge_results.values() if isinstance(judge_results, Mapping) else judge_results
    composites = [_composite_of(result) for result in results]
    return _aggregate([score for score in composites if score is not None])


def calculate_ci(
    scores: Sequence[Any], confidence: float = 0.95, bounds: tuple[float, float] = SCALE
) -> tuple[float, float] | None:
    r"""Return the Student t interval of the mean over judges, clamped to the scale.

    :math:`\bar x \pm t_{1-\alpha/2,\,k-1}\, s / \sqrt k` for k judges; for three judges the half width is
    2.484 s. The interval is wide because three judges say little about judges at large, and it has no width
    when they agree to the digit, which is a statement about these judges only.

    Parameters
    ----------
    scores
        One score per judge; None and NaN are missing.
    confidence
        Coverage, between 0 and 1.
    bounds
        Ends of the scale to which the interval is clamped.

    Returns
    -------
    tuple of float or None
        Low and high; None with fewer than two scores, because one judge has no interval.

    Raises
    ------
    InputError
        If a score is not a number or the confidence is not between 0 and 1.

    Examples
    --------
    >>> low, high = calculate_ci([4.3, 4.1, 4.5])
    >>> round(low, 3), round(high, 3)
    (3.803, 4.797)
    >>> calculate_ci([4.3]) is None
    True
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence: {confidence!r} is not between 0 and 1; 0.95 is usual")
    present = [score for score in (number_or_missing(value) for value in scores) if score is not None]
    if len(present) < 2:
        return None
    mean = statistics.fmean(present)
    quantile = float(special.stdtrit(len(present) - 1, (1 + confidence) / 2))
    half = quantile * statistics.stdev(present) / math.sqrt(len(present))
    low, high = bounds
    return min(max(mean - half, low), high), max(min(mean + half, high), low)


def aggregate_dimensions(judge_scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Aggregate the seven dimensions and the composite over judges, in the form the run document stores.

    A dimension with fewer than two scores has None everywhere. The composite of a judge is its own
    ``composite`` where the mapping has one, and is calculated from its dimensions where it has none.

    Parameters
    ----------
    judge_scores
        One mapping per judge that counts: dimension to score (0-5) or None.

    Returns
    -------
    dict
        ``mean_scores``, ``std_scores`` (ddof = 1) and ``confidence_intervals`` (``[low, high]``, 95 % Student
        t over judges), each with the seven dimensions and ``composite``: the ``aggregated`` of seed 002,
        section 3.1.

    Raises
    ------
    InputError
        If a score is not a number, or a dimension lies outside 0-5.

    Examples
    --------
    >>> judges = [{"clarity": 4.0, "relevance": 5.0}, {"clarity": 5.0, "relevance": 5.0}]
    >>> aggregated = aggregate_dimensions(judges)
    >>> aggregated["mean_scores"]["clarity"], aggregated["mean_scores"]["actionability"]
    (4.5, None)
    """
    columns: dict[str, list[float]] = {name: [] for name in (*DIMENSIONS, "composite")}
    for scores in judge_scores:
        dimensions = {name: scores.get(name) for name in DIMENSIONS}
        composite = scores["composite"] if "composite" in scores else calculate_composite_score(dimensions)
        for name, value in (*dimensions.items(), ("composite", composite)):
            score = _missing_outside(value, name)
            if score is not None:
                columns[name].append(score)
    aggregates = {name: _aggregate(scores) for name, scores in columns.items()}
    return {
        "mean_scores": {name: entry["mean"] for name, entry in aggregates.items()},
        "std_scores": {name: entry["std"] for name, entry in aggregates.items()},
        "confidence_intervals": {
            name: None if entry["confidence_interval"] is None else list(entry["confidence_interval"])
            for name, entry in aggregates.items()
        },
    }


def _aggregate(scores: list[float]) -> dict[str, Any]:
    enough = len(scores) >= 2
    return {
        "mean": statistics.fmean(scores) if enough else None,
        "std": statistics.stdev(scores) if enough else None,
        "confidence_interval": calculate_ci(scores),
        "judge_count": len(scores),
    }


def _composite_of(result: Any) -> float | None:
    if member(result, "evaluation_failed") or member(result, "failed"):
        return None
    return _missing_outside(member(result, "composite"), "composite")


def _missing_outside(value: Any, where: str) -> float | None:
    """Return a score, or None where it is missing or off the scale (DESIGN, decision 2)."""
    score = number_or_missing(value, where)
    return score if score is not None and SCALE[0] <= score <= SCALE[1] else None
