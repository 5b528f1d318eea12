"""Intraclass correlations of the judges: F intervals, and intervals by base."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
import pingouin as pg
from scipy import special

from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import FEWEST_BASES, jackknife, jackknife_interval, numbered, sums_by
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

FORMS: Final = ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)")
_GRADES: Final = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"), (np.inf, "excellent"))
F_METHOD: Final = "F distribution, answers independent (McGraw & Wong 1996, by pingouin)"
CLOSED_FORM: Final = "mean squares (McGraw & Wong 1996)"
CLUSTERED_METHOD: Final = "jackknife over bases, ln F scale, for these judges"
NEW_JUDGES: Final = "generalized interval, jackknife over bases, for judges drawn anew"
THESE_JUDGES: Final = ", these judges"
"""Ends the name of a result whose interval takes the judges as fixed, where the first one draws them anew."""
_WIDEST: Final = 300.0  # half a width of ln F beyond which an interval says nothing
_QUANTILES: Final = np.sin(np.pi / 4 * np.arange(161) / 80) ** 2
_CHANCES, _SHARES = _QUANTILES[1::2], np.diff(_QUANTILES[::2])
"""Chances between 0 and 1, closer together towards the ends where an interval ends, and the share each stands for."""
_FARTHEST: Final = 1e6


def base_sums(values: np.ndarray, bases: Sequence[Hashable]) -> np.ndarray:
    """Return what each base adds to the mean squares of a table of answers x judges, bases x (judges + 3)."""
    centred = values - values.mean()
    squares, rows = (centred**2).sum(axis=1), centred.shape[1] * centred.mean(axis=1) ** 2
    return sums_by(numbered(bases), np.column_stack([np.ones(len(values)), centred, squares, rows]))


def mean_squares(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the mean squares between answers, within them, between judges and of the residual.

    With n answers, k judges, judge sums :math:`C_j`, squares :math:`Q` and :math:`R = k \sum_i \bar x_i^2`, the sums
    of squares are :math:`R - (\sum C_j)^2 / kn` between answers,
    :math:`\sum C_j^2 / n - (\sum C_j)^2 / kn` between judges and :math:`Q - R` within answers. One
    that is only rounding is exactly 0.
    """
    k = sums.shape[-1] - 3
    n, columns, squares, rows = sums[..., 0], sums[..., 1 : k + 1], sums[..., k + 1], sums[..., k + 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        grand = columns.sum(axis=-1) ** 2 / (k * n)
        judges = (columns**2).sum(axis=-1) / n - grand
        between, within = rows - grand, squares - rows
        floor = ROUNDING * (between + within)
        between, judges, error = (
            np.where(part > floor, part, 0.0) for part in (between, judges, within - judges)
        )
        residual = error / ((n - 1) * (k - 1))
        return between / (n - 1), (judges + error) / (n * (k - 1)), judges / (k - 1), residual


def forms_of_sums(sums: np.ndarray) -> np.ndarray:
    """Return the six forms of McGraw & Wong (1996), table 4, that sums over answers give, in the order of ``FORMS``.

    A form is NaN where there is one answer, or where its denominator, an estimate of a total variance, is not
    positive; the formula would then give a number that is no correlation.
    """
    n, k = sums[..., 0], sums.shape[-1] - 3
    b, w, j, e = mean_squares(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (
            (b - w, b + (k - 1) * w),
            (b - e, b + (k - 1) * e + k * (j - e) / n),
            (b - e, b + (k - 1) * e),
            (b - w, b),
            (b - e, b + (j - e) / n),
            (b - e, b),
        )
        floor = ROUNDING * np.maximum.reduce([b, w, j, e])
        forms = [np.where((low > floor) & (n > 1), top / low, np.nan) for top, low in fractions]
    return np.stack(forms, axis=-1)


def log_f(single: np.ndarray, k: float) -> np.ndarray:
    r"""Return :math:`\ln F` with :math:`F = (1 + (k-1)\rho) / (1 - \rho)` of a single form, NaN where F is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log((1 + (k - 1) * single) / (1 - single))
    return np.where(np.isfinite(logs), logs, np.nan)


def from_log_f(log: np.ndarray, k: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the single and the average form that belong to ln F (Spearman-Brown)."""
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.exp(-log)  # 1 / F, which underflows to 0 where F would overflow
    return (1 - inverse) / (1 + (k - 1) * inverse), 1 - inverse


def agreement_words(low: float, high: float) -> str:
    """Return the words of Koo & Li (2016) for both ends of the interval of a reliability.

    Examples
    --------
    >>> agreement_words(0.31, 0.68), agreement_words(0.92, 0.97)
    ('poor to moderate (Koo & Li 2016)', 'excellent (Koo & Li 2016)')
    """
    words = (next(word for limit, word in _GRADES if not value >= limit) for value in (low, high))
    return f"{' to '.join(dict.fromkeys(words))} (Koo & Li 2016)"


def with_interval(result: Estimate, low: float, high: float) -> Estimate:
    """Return a result with its interval and the words for it, or without where the ends are no interval."""
    if result.estimate is None or not low <= result.estimate <= high or max(-low, high) == np.inf:
        return replace(result, note="").no_interval("a variance estimate is not positive")
    return replace(result, low=low, high=high, note=agreement_words(low, high))


def icc_estimates(matrix: RatingMatrix, *, intervals: bool = True) -> tuple[Estimate, ...]:
    """Return ICC(1,1), ICC(A,1), ICC(C,1), ICC(1,k), ICC(A,k) and ICC(C,k) of one table of ratings.

    A form is not estimable, or has no interval, where an F ratio is 0 or infinite or a variance estimate is
    not positive; a negative correlation is kept as it is.
    """
    empty = [Estimate(form, None, method=F_METHOD, n=matrix.n, missing=matrix.missing) for form in FORMS]
    if matrix.problem:
        return tuple(estimate.not_estimable(matrix.problem) for estimate in empty)
    sums = base_sums(matrix.values, [0] * len(matrix.values))[0]
    reason = _degenerate_reason(*(float(part) for part in mean_squares(sums)))
    by_pingouin = _pingouin_icc(matrix) if intervals and not reason else None
    lowest = -1 / (len(matrix.judges) - 1) - ROUNDING

    def form(blank: Estimate, closed: float) -> Estimate:
        if np.isnan(closed):
            return blank.not_estimable("the estimate of the total variance is not positive")
        if by_pingouin is None:
            estimate = replace(blank, estimate=closed, method=CLOSED_FORM)
            if not reason:
                return estimate
            estimate = estimate.no_interval(reason)
        else:
            value, low, high = by_pingouin[blank.name]
            estimate = with_interval(replace(blank, estimate=value), low, high)
        below = blank.name.endswith(",1)") and closed < lowest
        return (
            estimate.noted("below -1/(k-1), because a variance estimate is negative") if below else estimate
        )

    return tuple(form(blank, float(closed)) for blank, closed in zip(empty, forms_of_sums(sums), strict=True))


def _pingouin_icc(matrix: RatingMatrix) -> dict[str, tuple[float, float, float]]:
    """Return estimate, low and high of each form; the table is complete, so nothing is dropped in silence."""
    long = pd.DataFrame(matrix.values).rename_axis("target").reset_index()
    long = long.melt("target", var_name="judge", value_name="score")
    rounding = pg.options["round.column.CI95"]
    pg.options["round.column.CI95"] = None  # two digits otherwise
    try:
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", DeprecationWarning)  # pingouin's own use of pandas
            table = pg.intraclass_corr(long, targets="target", raters="judge", ratings="score")
    finally:
        pg.options["round.column.CI95"] = rounding
    rows = zip(table["Type"], table["ICC"], table["CI95"], strict=True)
    return {str(form): (float(icc), float(ends[0]), float(ends[1])) for form, icc, ends in rows}


def _degenerate_reason(between: float, within: float, judges: float, error: float) -> str:
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
    average form (Spearman-Brown).

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11. McGraw & Wong (1996).
    """
    if matrix.problem or matrix.bases is None:
        return ()
    if max(Counter(matrix.bases).values()) < 2 and len(matrix.bases) < FEWEST_BASES:
        return ()
    k, sums = len(matrix.judges), base_sums(matrix.values, matrix.bases)
    singles = [FORMS.index(f"ICC({kind},1)") for kind in "1AC"]
    total = log_f(forms_of_sums(sums.sum(axis=0))[singles], k)
    jackknifed = log_f(forms_of_sums(sums.sum(axis=0) - sums)[:, singles], k)
    bounds = dict(zip("1AC", zip(*jackknife_interval(total, jackknifed), strict=True), strict=True))
    given = sums_by_base(matrix.values, np.ones_like(matrix.values), numbered(matrix.bases))
    new_judge_ends = interval_for_new_judges(given, k, k)

    def bound(form: Estimate, method: str, low: float, high: float, degrees: float | None) -> Estimate:
        bounded = replace(form, method=method, low=None, high=None)
        if not form.estimable:
            return bounded
        if not high - low < 2 * _WIDEST:
            few = counted(form.n["bases"], "bases")
            return replace(bounded, note="").no_interval(
                f"leaving out one of {few} at a time gives no usable spread"
            )
        ends = from_log_f(np.array([low, high]), k)[form.name.endswith(",k)")]
        return with_interval(replace(bounded, degrees=degrees), *map(float, ends))

    fixed_judges = [bound(form, CLUSTERED_METHOD, *map(float, bounds[form.name[4]])) for form in independent]
    agreement = [index for index, form in enumerate(independent) if form.name.startswith("ICC(A,")]
    first = [
        bound(form, NEW_JUDGES, *new_judge_ends, None) if index in agreement else fixed_judges[index]
        for index, form in enumerate(independent)
    ]
    return (
        *first,
        *(
            replace(fixed_judges[index], name=f"{fixed_judges[index].name}{THESE_JUDGES}")
            for index in agreement
        ),
    )


def interval_for_new_judges(sums: np.ndarray, judges: int, k: float) -> tuple[float, float]:
    r"""Return the ends of ln F of ICC(A,.) for judges drawn anew and answers clustered by base; NaN where it has none.

    A generalized interval (Weerahandi 1993). With :math:`s_b^2` the variance of the J judges' effects and :math:`v`
    what of it is noise, :math:`s_b^2 (J-1) / (\sigma_b^2 + v)` is chi squared on J - 1 degrees of freedom over judges
    drawn anew, so that :math:`\sigma_b^2` may be :math:`\max(0, s_b^2 (J-1) / \chi^2 - v)`. For each such
    :math:`\sigma_b^2` the jackknife over bases gives a t distribution of
    :math:`\ln F = \ln[(k \sigma_a^2 + \sigma_e^2 + \sigma_b^2) / (\sigma_e^2 + \sigma_b^2)]`; the ends are quantiles of
    their mixture. The jackknife takes in what answers of one base and judges share with each other, so nothing has to
    be known of the components base, answer in base and base x judge, and bases may differ in size; v is the variance
    of the judges' effects over bases, with G / (G - 1) of G bases.

    References
    ----------
    Weerahandi (1993), Journal of the American Statistical Association 88, 899-905. Gamage & Weerahandi (1998),
    Communications in Statistics B 27, 625-640, for components. Efron & Tibshirani (1993), chapter 11.
    """
    total, bases = sums.sum(axis=0), len(sums)
    products, normal = sums[:, 4 + 2 * judges : 4 + 3 * judges], sums[:, 4 + 3 * judges :]
    inverse = np.linalg.pinv(total[4 + 3 * judges :].reshape(judges, judges), rcond=1e-9, hermitian=True)
    effects = inverse @ products.sum(axis=0)
    influence = (products - normal.reshape(bases, judges, judges) @ effects) @ inverse
    noise = bases / max(bases - 1, 1) * (influence**2).sum() / (judges - 1)
    components = _components(total[None], judges)
    # Judges so unlike leave an ICC of nothing, which no base changes measurably.
    highest = np.nanmax([_FARTHEST * components[0, [0, 2]].sum(), 0.0])
    possible = effects.var() * judges / special.chdtri(judges - 1, 1 - _CHANCES) - noise
    possible = np.clip(possible, 0.0, highest)

    def log_ratio(components: np.ndarray) -> np.ndarray:
        answers, _, error = components.T[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return log_f(answers / (answers + error + possible), k)

    centre, error, degrees = jackknife(log_ratio(components)[0], log_ratio(_components(total - sums, judges)))
    if not np.isfinite(centre).all():
        return np.nan, np.nan
    values = (centre + error * special.stdtrit(degrees, _CHANCES[:, None])).ravel()
    order = np.argsort(values)
    shares = np.outer(_SHARES, _SHARES).ravel()[order]
    low, high = np.interp([0.025, 0.975], np.cumsum(shares) - shares / 2, values[order])
    point = log_f(_single_forms(components)[0, 0], k)
    return float(np.fmin(low, point)), float(np.fmax(high, point))


def sums_by_base(x: np.ndarray, present: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return for each base all that the three fits need; every entry is a sum over answers.

    Columns: answers, ratings, sum of squares, sum of squares within answers, then per judge the ratings, the scores
    and the within-answer products, and the judges' normal matrix after the answers are taken out.
    """
    o = present.astype(float)
    m = o.sum(axis=1)
    mean = x.sum(axis=1) / m
    normal = np.eye(o.shape[1]) * o[:, None, :] - o[:, :, None] * o[:, None, :] / m[:, None, None]
    rows = np.hstack(
        [
            np.ones((len(x), 1)),
            m[:, None],
            (x**2).sum(axis=1, keepdims=True),
            ((x**2).sum(axis=1) - m * mean**2)[:, None],
            o,
            x,
            x - o * mean[:, None],
            normal.reshape(len(x), -1),
        ]
    )
    return sums_by(codes, rows)


def _components(sums: np.ndarray, judges: int) -> np.ndarray:
    """Return the components of answers, judges and residual for each row of sums; NaN where they do not exist."""
    answers, ratings, squares, within = sums[:, :4].T
    counts, scores, products = np.split(sums[:, 4 : 4 + 3 * judges], 3, axis=1)
    normal = sums[:, 4 + 3 * judges :].reshape(-1, judges, judges)
    inverse = np.linalg.pinv(normal, rcond=1e-9, hermitian=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = within - np.einsum("rj,rjk,rk->r", products, inverse, products)
        error = np.where(error > ROUNDING * squares, error, 0.0)
        answer_part = squares - (scores**2 / counts).sum(axis=1) - error
        judge_part = within - error
        degrees = ratings - answers - judges + 1
        e = error / degrees
        a = (answer_part - (answers - 1) * e) / (ratings - judges)
        b = (judge_part - (judges - 1) * e) / (ratings - answers)
    components = np.stack([a, b, e], axis=1)
    # One rank fewer than judges is what a connected design has; a judge without a rating has none.
    connected = np.linalg.matrix_rank(normal, tol=1e-9, hermitian=True) == judges - 1
    usable = connected & (degrees > 0) & (counts > 0).all(axis=1)
    return np.where(usable[:, None], components, np.nan)


def _single_forms(components: np.ndarray) -> np.ndarray:
    a, b, e = components.T
    with np.errstate(divide="ignore", invalid="ignore"):
        forms = [np.where(total > 0, a / total, np.nan) for total in (a + b + e, a + e)]
    return np.stack(forms, axis=1)
