"""The six intraclass correlations of a complete table: F intervals by pingouin, and intervals by base."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
import pingouin as pg

from toolkit.stats.agreement.icc_forms import (
    FORMS,
    base_sums,
    forms_of_sums,
    from_log_f,
    log_f,
    mean_squares,
    with_interval,
)
from toolkit.stats.agreement.incomplete_icc import (
    NEW_JUDGES,
    THESE_JUDGES,
    interval_for_new_judges,
    sums_by_base,
)
from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import FEWEST_BASES, jackknife_interval, numbered
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

F_METHOD: Final = "F distribution, answers independent (McGraw & Wong 1996, by pingouin)"
CLOSED_FORM: Final = "mean squares (McGraw & Wong 1996)"
CLUSTERED_METHOD: Final = "jackknife over bases, ln F scale, for these judges"
_WIDEST: Final = 300.0
"""Half a width of ln F beyond which an interval says nothing."""


def icc_estimates(matrix: RatingMatrix, *, intervals: bool = True) -> tuple[Estimate, ...]:
    """Return ICC(1,1), ICC(A,1), ICC(C,1), ICC(1,k), ICC(A,k) and ICC(C,k) of one table of ratings.

    A form is not estimable, or has no interval, where an F ratio is 0 or infinite or a variance estimate is
    not positive; a negative correlation is kept as it is.
    """
    empty = [Estimate(form, None, method=F_METHOD, n=matrix.n, missing=matrix.missing) for form in FORMS]
    if matrix.problem:
        return tuple(one.not_estimable(matrix.problem) for one in empty)
    sums = base_sums(matrix.values, [0] * len(matrix.values))[0]
    why = _why_degenerate(*(float(part) for part in mean_squares(sums)))
    by_pingouin = _pingouin_icc(matrix) if intervals and not why else None
    lowest = -1 / (len(matrix.judges) - 1) - ROUNDING

    def form(blank: Estimate, closed: float) -> Estimate:
        if np.isnan(closed):
            return blank.not_estimable("the estimate of the total variance is not positive")
        if by_pingouin is None:
            found = replace(blank, estimate=closed, method=CLOSED_FORM)
            if not why:
                return found
            found = found.no_interval(why)
        else:
            value, low, high = by_pingouin[blank.name]
            found = with_interval(replace(blank, estimate=value), low, high)
        below = blank.name.endswith(",1)") and closed < lowest
        return found.noted("below -1/(k-1), because a variance estimate is negative") if below else found

    return tuple(form(blank, float(closed)) for blank, closed in zip(empty, forms_of_sums(sums), strict=True))


def _pingouin_icc(matrix: RatingMatrix) -> dict[str, tuple[float, float, float]]:
    """Return estimate, low and high of each form; the table is complete, so nothing is dropped in silence."""
    long = pd.DataFrame(matrix.values).rename_axis("target").reset_index()
    long = long.melt("target", var_name="judge", value_name="score")
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


def _why_degenerate(between: float, within: float, judges: float, error: float) -> str:
    """Say why an F ratio would be 0 or infinite, so that no F interval exists; empty where it does."""
    if within == 0:
        return "the judges agree exactly, so F is infinite"
    if error == 0:
        return "the judges differ by a constant only, so F is infinite"
    return "the answers have the same mean, so F is 0" if between == 0 else ""


def clustered_icc(matrix: RatingMatrix, independent: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    r"""Return the six intraclass correlations with intervals that allow for answers of one base being alike.

    ICC(A,1) and ICC(A,k) speak of judges as a sample, so their first interval holds for judges drawn anew
    (``interval_for_new_judges``); "these judges" stands second. ICC(C,.) leaves the judges' leniency out, and ICC(1,.)
    does not know who judged, so there is no judge to draw and their interval is the one for these judges.

    For these judges each base is left out in turn: the interval is that of ``jackknife_interval`` for :math:`\ln F`,
    where :math:`F = (1 + (k-1)\rho) / (1 - \rho)` for the single form :math:`\rho`, carried back to the single and the
    average form (Spearman-Brown). It misses with nearly half of the scores at the ceiling: 90-97 % at 12 bases.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11. McGraw & Wong (1996).
    """
    if matrix.problem or matrix.bases is None:
        return ()
    if max(Counter(matrix.bases).values()) < 2 and len(matrix.bases) < FEWEST_BASES:
        return ()
    (ends, degrees), k, given = _intervals(matrix), len(matrix.judges), np.ones_like(matrix.values)
    sums = sums_by_base(matrix.values, given, numbered(matrix.bases))
    new = _both_forms("A", *interval_for_new_judges(sums, k, k), k)
    these = tuple(_with_ends(one, CLUSTERED_METHOD, ends, degrees) for one in independent)
    agreement = [place for place, one in enumerate(independent) if one.name.startswith("ICC(A,")]
    return (
        *(
            _with_ends(one, NEW_JUDGES, new) if place in agreement else these[place]
            for place, one in enumerate(independent)
        ),
        *(replace(these[place], name=f"{these[place].name}{THESE_JUDGES}") for place in agreement),
    )


def _with_ends(
    result: Estimate,
    method: str,
    ends: dict[str, tuple[float, float]],
    degrees: Mapping[str, float] = MappingProxyType({}),
) -> Estimate:
    clustered = replace(result, method=method, low=None, high=None)
    if not result.estimable:
        return clustered
    if result.name not in ends:
        reason = f"leaving out one of {counted(result.n['bases'], 'bases')} at a time gives no usable spread"
        return replace(clustered, note=f"no interval: {reason}")
    return with_interval(replace(clustered, degrees=degrees.get(result.name)), *ends[result.name])


def _intervals(matrix: RatingMatrix) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Return the ends of each form, and its degrees of freedom."""
    sums, k = base_sums(matrix.values, matrix.bases or ()), len(matrix.judges)
    singles = [FORMS.index(f"ICC({kind},1)") for kind in "1AC"]
    whole = log_f(forms_of_sums(sums.sum(axis=0))[singles], k)
    left_out = log_f(forms_of_sums(sums.sum(axis=0) - sums)[:, singles], k)
    ends: dict[str, tuple[float, float]] = {}
    degrees: dict[str, float] = {}
    for kind, low, high, own in zip("1AC", *jackknife_interval(whole, left_out), strict=True):
        both = _both_forms(kind, low, high, k)
        ends |= both
        degrees |= dict.fromkeys(both, float(own))
    return ends, degrees


def _both_forms(kind: str, low: float, high: float, k: int) -> dict[str, tuple[float, float]]:
    """Return the ends of the single and the average form from those of ln F; nothing where they say nothing."""
    if not high - low < 2 * _WIDEST:
        return {}
    (single_low, mean_low), (single_high, mean_high) = (from_log_f(np.array(end), k) for end in (low, high))
    return {
        f"ICC({kind},1)": (float(single_low), float(single_high)),
        f"ICC({kind},k)": (float(mean_low), float(mean_high)),
    }
