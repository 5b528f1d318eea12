"""Intraclass correlations of the judges, by F or by base, and the table of ratings that agreement is made from."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pingouin as pg
from scipy import special

from toolkit.stats.inference.jackknife import FEWEST_BASES, jackknife, jackknife_interval, numbered, sums_by
from toolkit.stats.result import ROUNDING, Estimate, Estimates
from toolkit.words import counted

FORMS = ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)")
_GRADES = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"), (np.inf, "excellent"))
F_METHOD = "F distribution, answers independent (McGraw & Wong 1996, by pingouin)"
CLOSED_FORM = "mean squares (McGraw & Wong 1996)"
CLUSTERED_METHOD = "jackknife over bases, ln F scale, for these judges"
NEW_JUDGES = "generalized interval, jackknife over bases, for judges drawn anew"
THESE_JUDGES = ", these judges"
"""Ends the name of a result whose interval takes the judges as fixed, where the first one draws them anew."""
_WIDEST = 300.0  # half a width of ln F beyond which an interval says nothing
_QUANTILES = np.sin(np.pi / 4 * np.arange(161) / 80) ** 2
_CHANCES, _SHARES = _QUANTILES[1::2], np.diff(_QUANTILES[::2])
"""Chances between 0 and 1, closer together towards the ends where an interval ends, and the share each stands for."""
_FARTHEST = 1e6


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

    Targets without a score from every judge are left out (complete cases), and so is a judge who gave no score at all;
    both are said. Duplicates and infinite scores are refused, because to average or drop them in silence, as a pivot
    table does, would make up data.

    Examples
    --------
    >>> rows = [("t1", "anna", 4.0), ("t1", "ben", 3.0), ("t2", "anna", 2.0), ("t2", "ben", 2.0), ("t3", "anna", 5.0)]
    >>> table = pd.DataFrame(rows, columns=["target", "judge", "score"])
    >>> matrix = rating_matrix(table, ["t1", "t2", "t3"], ["anna", "ben"])
    >>> matrix.judges, matrix.values.shape, matrix.missing
    (('anna', 'ben'), (2, 2), 1)
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
    """Return the base or unit of each target; None, with a note, where one has none or several."""
    column = "unit" if "unit" in ratings else "base"
    if column not in ratings:
        return None
    bases = ratings.dropna(subset=[column]).groupby("target", sort=False)[column]
    unclear = bases.nunique().reindex(targets).ne(1)
    if unclear.any():
        notes.append(f"bases ignored: target {unclear.index[unclear][0]} has no base, or more than one")
        return None
    return tuple(bases.first().reindex(targets))


def base_sums(values: np.ndarray, bases: Sequence[Hashable]) -> np.ndarray:
    """Return what each base adds to the mean squares of a table of answers x judges, bases x (judges + 3)."""
    centred = values - values.mean()
    squares, rows = (centred**2).sum(axis=1), centred.shape[1] * centred.mean(axis=1) ** 2
    return sums_by(numbered(bases), np.column_stack([np.ones(len(values)), centred, squares, rows]))


def mean_squares(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the mean squares between answers, within them, between judges and of the residual.

    With n answers, k judges, judge sums :math:`C_j`, squares :math:`Q` and :math:`R = k \sum_i \bar x_i^2`, the sums
    of squares are :math:`R - (\sum C_j)^2 / kn` between answers, :math:`\sum C_j^2 / n - (\sum C_j)^2 / kn` between
    judges and :math:`Q - R` within answers. One that is only rounding is exactly 0.
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
    """Return the six forms of McGraw & Wong (1996, table 4); NaN where a total variance is not positive."""
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


def icc_estimates(matrix: RatingMatrix) -> Estimates:
    r"""Return ICC(1,1), ICC(A,1), ICC(C,1), ICC(1,k), ICC(A,k) and ICC(C,k) of one table of ratings.

    Where bases are known, intervals allow for answers of one base being alike, and ICC(A,1) and ICC(A,k) follow again
    for these judges: they speak of judges as a sample, so their first interval holds for judges drawn anew
    (``interval_for_new_judges``). ICC(C,.) leaves the judges' leniency out, and ICC(1,.) does not know who judged, so
    there is no judge to draw and their interval is the one for these judges. For these judges each base is left out in
    turn: the interval is that of ``jackknife_interval`` for :math:`\ln F`, where :math:`F = (1 + (k-1)\rho) / (1 -
    \rho)` for the single form :math:`\rho`, carried back to the single and the average form (Spearman-Brown). Where no
    base is known, or too few, intervals are pingouin's of the F distribution.

    A form is not estimable, or has no interval, where an F ratio is 0 or infinite or a variance estimate is not
    positive; a negative correlation is kept as it is.

    References
    ----------
    Efron & Tibshirani (1993), Introduction to the Bootstrap, chapter 11. McGraw & Wong (1996).

    Examples
    --------
    >>> scores = {"anna": (1, 3, 4, 2), "ben": (2, 3, 5, 2)}
    >>> rows = [(f"t{i}", judge, score) for judge in scores for i, score in enumerate(scores[judge])]
    >>> table = pd.DataFrame(rows, columns=["target", "judge", "score"])
    >>> matrix = rating_matrix(table, ["t0", "t1", "t2", "t3"], ["anna", "ben"])
    >>> [(icc.name, round(icc.estimate, 2)) for icc in icc_estimates(matrix)[:3]]
    [('ICC(1,1)', 0.87), ('ICC(A,1)', 0.87), ('ICC(C,1)', 0.91)]
    """
    empty = [Estimate(form, method=F_METHOD, n=matrix.n, missing=matrix.missing) for form in FORMS]
    if matrix.problem:
        return tuple(estimate.not_estimable(matrix.problem) for estimate in empty)
    sums = base_sums(matrix.values, [0] * len(matrix.values))[0]
    between, within, _, error = mean_squares(sums)
    reason = "the answers have the same mean, so F is 0" if between == 0 else ""
    if within == 0:
        reason = "the judges agree exactly, so F is infinite"
    elif error == 0:
        reason = "the judges differ by a constant only, so F is infinite"
    bases = matrix.bases
    clustered = bases is not None and (len(set(bases)) < len(bases) or len(bases) >= FEWEST_BASES)
    by_pingouin = {} if reason or clustered else _pingouin_icc(matrix)
    lowest = -1 / (len(matrix.judges) - 1) - ROUNDING
    forms = []
    for blank, closed in zip(empty, map(float, forms_of_sums(sums)), strict=True):
        if np.isnan(closed):
            forms.append(blank.not_estimable("the estimate of the total variance is not positive"))
            continue
        if by_pingouin:
            value, low, high = by_pingouin[blank.name]
            form = with_interval(blank.with_value(value), low, high)
        else:
            form = blank.with_value(closed, method=CLOSED_FORM)
            form = form.no_interval(reason) if reason else form
        below = blank.name.endswith(",1)") and closed < lowest
        forms.append(
            form.with_note("below -1/(k-1), because a variance estimate is negative") if below else form
        )
    return _clustered(matrix, forms) if clustered else tuple(forms)


def _clustered(matrix: RatingMatrix, forms: list[Estimate]) -> Estimates:
    k, sums = len(matrix.judges), base_sums(matrix.values, matrix.bases or ())
    singles = [FORMS.index(f"ICC({kind},1)") for kind in "1AC"]
    total = log_f(forms_of_sums(sums.sum(axis=0))[singles], k)
    jackknifed = log_f(forms_of_sums(sums.sum(axis=0) - sums)[:, singles], k)
    bounds = dict(zip("1AC", zip(*jackknife_interval(total, jackknifed), strict=True), strict=True))
    new_judge_ends = interval_for_new_judges(sums)

    def bound(form: Estimate, method: str, low: float, high: float, degrees: float | None) -> Estimate:
        bounded = replace(form, method=method)
        if not form.estimable:
            return bounded
        if not high - low < 2 * _WIDEST:
            few = counted(form.n["bases"], "bases")
            return replace(bounded, note="").no_interval(
                f"leaving out one of {few} at a time gives no usable spread"
            )
        ends = from_log_f(np.array([low, high]), k)[form.name.endswith(",k)")]
        return with_interval(replace(bounded, degrees=degrees), *map(float, ends))

    first, fixed_judges = [], []
    for form in forms:
        fixed = bound(form, CLUSTERED_METHOD, *map(float, bounds[form.name[4]]))
        if form.name.startswith("ICC(A,"):
            fixed_judges.append(replace(fixed, name=f"{fixed.name}{THESE_JUDGES}"))
            fixed = bound(form, NEW_JUDGES, *new_judge_ends, None)
        first.append(fixed)
    return (*first, *fixed_judges)


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


def interval_for_new_judges(sums: np.ndarray) -> tuple[float, float]:
    r"""Return the ends of ln F of ICC(A,.) for judges drawn anew and answers clustered by base; NaN where it has none.

    A generalized interval (Weerahandi 1993; of components Gamage & Weerahandi 1998). With :math:`s_b^2` the variance
    of the J judges' effects and :math:`v` what of it is noise, :math:`s_b^2 (J-1) / (\sigma_b^2 + v)` is chi squared
    on J - 1 degrees of freedom over judges drawn anew, so that :math:`\sigma_b^2` may be :math:`\max(0, s_b^2 (J-1) /
    \chi^2 - v)`. For each such :math:`\sigma_b^2` the jackknife over bases gives a t distribution of :math:`\ln F =
    \ln[(k \sigma_a^2 + \sigma_e^2 + \sigma_b^2) / (\sigma_e^2 + \sigma_b^2)]`; the ends are quantiles of their
    mixture. The jackknife takes in what answers of one base and judges share with each other, so nothing has to be
    known of the components base, answer in base and base x judge, and bases may differ in size; v is the variance of
    the judges' effects over bases, with G / (G - 1) of G bases.
    """
    k, bases, total = sums.shape[1] - 3, len(sums), sums.sum(axis=0)
    n, columns = total[0], sums[:, 1 : k + 1]
    beside_answers = columns - columns.mean(axis=1, keepdims=True)
    effects = beside_answers.sum(axis=0) / n
    influence = (beside_answers - sums[:, :1] * effects) / n
    noise = bases / max(bases - 1, 1) * (influence**2).sum() / (k - 1)
    between, _, _, error = mean_squares(total)
    # Judges so unlike leave an ICC of nothing, which no base changes measurably.
    highest = np.nanmax([_FARTHEST * ((between - error) / k + error), 0.0])
    possible = effects.var() * k / special.chdtri(k - 1, 1 - _CHANCES) - noise
    possible = np.clip(possible, 0.0, highest)

    def log_ratio(sums: np.ndarray) -> np.ndarray:
        between, _, _, error = (part[..., None] for part in mean_squares(sums))
        answers = (between - error) / k
        with np.errstate(divide="ignore", invalid="ignore"):
            return log_f(answers / (answers + error + possible), k)

    centre, error, degrees = jackknife(log_ratio(total), log_ratio(total - sums))
    if not np.isfinite(centre).all():
        return np.nan, np.nan
    values = (centre + error * special.stdtrit(degrees, _CHANCES[:, None])).ravel()
    order = np.argsort(values)
    shares = np.outer(_SHARES, _SHARES).ravel()[order]
    low, high = np.interp([0.025, 0.975], np.cumsum(shares) - shares / 2, values[order])
    point = log_f(forms_of_sums(total)[FORMS.index("ICC(A,1)")], k)
    return float(np.fmin(low, point)), float(np.fmax(high, point))
