"""The six intraclass correlations with their F intervals, through pingouin, and words for the intervals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
import pingouin as pg

from toolkit.stats.mean_squares import FORMS, MeanSquares, icc_from_mean_squares, mean_squares
from toolkit.stats.rating_matrix import NEGLIGIBLE, RatingMatrix
from toolkit.stats.result import Estimate

F_METHOD: Final = "F distribution, answers independent (McGraw & Wong 1996, by pingouin)"
CLOSED_FORM: Final = "mean squares (McGraw & Wong 1996)"
_GRADES: Final = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"))


def icc_estimates(matrix: RatingMatrix, *, intervals: bool = True) -> tuple[Estimate, ...]:
    """Return ICC(1,1), ICC(A,1), ICC(C,1), ICC(1,k), ICC(A,k) and ICC(C,k) of one table of ratings.

    A form is not estimable, or has no interval, where an F ratio is 0 or infinite or a variance estimate is
    not positive; a negative correlation is kept as it is.
    """
    if matrix.problem:
        return tuple(_without_estimate(form, matrix, matrix.problem) for form in FORMS)
    ms = mean_squares(matrix.values)
    closed = icc_from_mean_squares(ms)
    if not (intervals or ms.degenerate):
        forms = (_one_form(form, closed[form], None, ms, matrix) for form in FORMS)
        return tuple(replace(one, note="") if one.estimable else one for one in forms)
    by_pingouin = None if ms.degenerate else _pingouin_icc(matrix)
    return tuple(_one_form(form, closed[form], by_pingouin, ms, matrix) for form in FORMS)


def agreement_words(low: float, high: float) -> str:
    """Return the words of Koo & Li (2016) for both ends of the interval of a reliability.

    Below .50 is poor, to .75 moderate, to .90 good, and excellent above.

    Examples
    --------
    >>> agreement_words(0.31, 0.68)
    'poor to moderate (Koo & Li 2016)'
    >>> agreement_words(0.92, 0.97)
    'excellent (Koo & Li 2016)'
    """
    first, last = _grade(low), _grade(high)
    return f"{first if first == last else f'{first} to {last}'} (Koo & Li 2016)"


def with_interval(result: Estimate, low: float, high: float) -> Estimate:
    """Return a result with its interval and the words for it, or without where the ends are no interval."""
    if result.estimate is None or not low <= result.estimate <= high or max(-low, high) == float("inf"):
        return replace(result, note="no interval: a variance estimate is not positive")
    return replace(result, low=low, high=high, note=agreement_words(low, high))


def _one_form(
    form: str,
    closed: float | None,
    by_pingouin: dict[str, tuple[float, float, float]] | None,
    ms: MeanSquares,
    matrix: RatingMatrix,
) -> Estimate:
    if closed is None:
        return _without_estimate(form, matrix, "the estimate of the total variance is not positive")
    result = Estimate(form, closed, method=F_METHOD, n=matrix.n, missing=matrix.missing)
    if by_pingouin is None:
        result = replace(result, method=CLOSED_FORM, note=f"no interval: {_why_degenerate(ms)}")
    else:
        value, low, high = by_pingouin[form]
        result = with_interval(replace(result, estimate=value), low, high)
    if form.endswith(",1)") and closed < -1 / (ms.k - 1) - NEGLIGIBLE:
        return replace(result, note=f"{result.note}; below -1/(k-1), because a variance estimate is negative")
    return result


def _pingouin_icc(matrix: RatingMatrix) -> dict[str, tuple[float, float, float]]:
    """Return estimate, low and high of each form; the table is complete, so nothing is dropped in silence."""
    long = (
        pd.DataFrame(matrix.values)
        .rename_axis("target")
        .reset_index()
        .melt("target", var_name="judge", value_name="score")
    )
    with _unrounded_intervals(), warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DeprecationWarning)  # pingouin's own use of pandas
        table = pg.intraclass_corr(long, targets="target", raters="judge", ratings="score")
    rows = zip(table["Type"], table["ICC"], table["CI95"], strict=True)
    return {str(form): (float(icc), float(ends[0]), float(ends[1])) for form, icc, ends in rows}


@contextmanager
def _unrounded_intervals() -> Iterator[None]:
    """Keep pingouin from rounding intervals to two digits, which is its default, and put the default back."""
    before = pg.options["round.column.CI95"]
    pg.options["round.column.CI95"] = None
    try:
        yield
    finally:
        pg.options["round.column.CI95"] = before


def _why_degenerate(ms: MeanSquares) -> str:
    if ms.within == 0:
        return "the judges agree exactly, so F is infinite"
    if ms.error == 0:
        return "the judges differ by a constant only, so F is infinite"
    return "the answers have the same mean, so F is 0"


def _without_estimate(form: str, matrix: RatingMatrix, reason: str) -> Estimate:
    return Estimate(
        form, None, method=F_METHOD, n=matrix.n, missing=matrix.missing, note=f"not estimable: {reason}"
    )


def _grade(value: float) -> str:
    return next((word for limit, word in _GRADES if value < limit), "excellent")
