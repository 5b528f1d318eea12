"""One number from the dimensions of one judgement, as the seed writes it and strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.scoring.values import on_scale


def calculate_composite_score(dimension_scores: Mapping[str, Any]) -> float | None:
    """Return the mean of the dimension scores above zero, as seed 002 (section 2.2) defines the composite.

    A missing score (None, NaN) is ignored, like a zero. The seed returns 0.0 when nothing is left; the ruling
    here keeps that for a judgement whose scores are true zeros and returns None when every score is missing,
    because a judgement that does not exist is not a bad one. ``composite_strict`` counts the zeros.

    Parameters
    ----------
    dimension_scores
        Score (0-5) or None per dimension.

    Returns
    -------
    float or None
        Composite, 0-5; None when every score is missing.

    Raises
    ------
    InputError
        If a score is not a number or lies outside 0-5.

    Examples
    --------
    >>> calculate_composite_score({"clarity": 4.0, "relevance": 5.0, "completeness": 0.0})
    4.5
    >>> calculate_composite_score({"clarity": 0.0, "relevance": None})
    0.0
    >>> calculate_composite_score({"clarity": None}) is None
    True
    """
    scores = _present(dimension_scores)
    if not scores:
        return None
    above_zero = [score for score in scores if score > 0]
    return sum(above_zero) / len(above_zero) if above_zero else 0.0


def composite_strict(dimension_scores: Mapping[str, Any]) -> float | None:
    """Return the mean of all dimension scores that exist, so that a true zero counts.

    Parameters
    ----------
    dimension_scores
        Score (0-5) or None per dimension.

    Returns
    -------
    float or None
        Strict composite, 0-5; None when every score is missing.

    Raises
    ------
    InputError
        If a score is not a number or lies outside 0-5.

    Examples
    --------
    >>> composite_strict({"clarity": 4.0, "relevance": 5.0, "completeness": 0.0})
    3.0
    """
    scores = _present(dimension_scores)
    return sum(scores) / len(scores) if scores else None


def count_zeros(dimension_scores: Mapping[str, Any]) -> int:
    """Return how many true zeros the composite of the seed leaves out; a missing score is not a zero.

    Parameters
    ----------
    dimension_scores
        Score (0-5) or None per dimension.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If a score is not a number or lies outside 0-5.

    Examples
    --------
    >>> count_zeros({"clarity": 0.0, "relevance": None, "completeness": 3.0})
    1
    """
    return sum(score == 0 for score in _present(dimension_scores))


def _present(dimension_scores: Mapping[str, Any]) -> list[float]:
    scores = (on_scale(value, name) for name, value in dimension_scores.items())
    return [score for score in scores if score is not None]
