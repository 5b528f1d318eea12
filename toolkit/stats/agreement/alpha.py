"""Cronbach's alpha over judges and over dimensions, and Krippendorff's alpha of the judges."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pingouin as pg
from numpy.typing import ArrayLike
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.agreement import icc
from toolkit.stats.inference.jackknife import numbered, sums_by, total_and_jackknife, with_jackknife
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import COMPOSITES, counted

OVER_JUDGES = "alpha over judges"
OVER_DIMENSIONS = "alpha over dimensions"
KRIPPENDORFF = "Krippendorff's alpha (interval)"
FELDT = "F distribution, rows independent (Feldt, Woodruff & Salih 1987)"
JACKKNIFE = "jackknife over bases, ln F scale"
_LOG_SCALE = (lambda a: -np.log1p(-a), lambda z: -np.expm1(-z))
"""There and back: of alpha it is ln F, since alpha is 1 - 1/F."""


def alpha_over_judges(matrix: icc.RatingMatrix) -> Estimate:
    """Return Cronbach's alpha with the judges as items and the answers as rows.

    It says how consistently the judges rank the answers; it equals ICC(C,k) and ignores that one judge is milder than
    another.
    """
    empty = Estimate(OVER_JUDGES, method=FELDT, n=matrix.n, missing=matrix.missing)
    if matrix.problem:
        return empty.not_estimable(matrix.problem)
    return _alpha(empty, matrix.values, matrix.bases)


def alpha_over_dimensions(ratings: pd.DataFrame) -> Estimate | None:
    """Return Cronbach's alpha with the dimensions as items and every judgement (answer x judge) as a row.

    It says how far the dimensions of the rubric measure one thing. The interval is clustered by base, or by answer
    where no base is known, because several judges score one answer.
    """
    items = ratings[~ratings["dimension"].isin(COMPOSITES)]
    if items["dimension"].nunique() < 2:
        return None
    keys = ["target", "judge", "dimension"]
    judgements, dimensions = len(items.drop_duplicates(keys[:2])), items["dimension"].nunique()
    counts = {"judgements": judgements, "dimensions": dimensions}
    empty = Estimate(OVER_DIMENSIONS, method=FELDT, n=counts)
    if duplicated := int(items.duplicated(keys).sum()):
        return empty.not_estimable(
            f"{counted(duplicated, 'duplicate ratings')}; keep one per target, judge and dimension"
        )
    wide = items.set_index(keys)["score"].unstack().astype("float64")
    if np.isinf(wide.to_numpy()).any():
        return empty.not_estimable("there is an infinite score")
    complete = wide.dropna()
    counts = {**counts, "judgements": len(complete)}
    empty = replace(empty, n=counts, missing=int(wide.isna().to_numpy().sum()))
    if len(complete) < 2:
        return empty.too_few(len(complete), "judgements with every dimension")
    values = complete.to_numpy() / (np.abs(complete.to_numpy()).max() or 1.0)
    if np.ptp(values) <= ROUNDING:
        return empty.not_estimable("every score is the same")
    targets = complete.index.get_level_values("target")
    base_of_target = icc.target_bases(ratings, targets, [])
    bases = tuple(targets) if base_of_target is None else base_of_target
    n = {"answers" if base_of_target is None else "bases": len(set(bases)), **counts}
    incomplete = len(wide) - len(complete)
    note = f"{incomplete} of {len(wide)} judgements left out for a missing dimension" if incomplete else ""
    return _alpha(replace(empty, n=n, note=note), values, bases)


def _alpha(empty: Estimate, values: np.ndarray, bases: tuple[Any, ...] | None) -> Estimate:
    """Return alpha by pingouin, with the jackknife over bases or, where none is known, Feldt's interval unrounded."""
    between, _, _, error = icc.mean_squares(icc.base_sums(values, [0] * len(values))[0])
    if between == 0:
        return empty.not_estimable("the rows have the same mean, so alpha would be minus infinity")
    if error == 0:
        reason = "the items differ by a constant at most, so F is infinite"
        return empty.with_value(1.0).no_interval(reason)
    alpha = float(pg.cronbach_alpha(pd.DataFrame(values))[0])
    if bases is not None:
        jackknife_values = icc.forms_of_sums(total_and_jackknife(icc.base_sums(values, bases))[1])[
            :, icc.FORMS.index("ICC(C,k)")
        ]
        return with_jackknife(empty.with_value(alpha, method=JACKKNIFE), jackknife_values, *_LOG_SCALE)
    rows, items = values.shape
    quantiles = stats.f.ppf((0.975, 0.025), rows - 1, (rows - 1) * (items - 1))
    low, high = (1 - (1 - alpha) * float(quantile) for quantile in quantiles)
    return empty.with_value(alpha, low, high)


def krippendorff_alpha(scores: ArrayLike, bases: Sequence[Hashable] | None = None) -> Estimate:
    r"""Return Krippendorff's alpha of ratings that may have gaps, for these judges taken as interchangeable.

    :math:`\alpha = 1 - D_o / D_e` with :math:`D_o = \frac1n \sum_u \frac{1}{m_u - 1} \sum_{i \ne j} (x_{ui} -
    x_{uj})^2` over the :math:`m_u` ratings of each answer and :math:`D_e = \frac{1}{n(n-1)} \sum_{c,k} n_c n_k (c -
    k)^2` over all n ratings of answers with two ratings or more.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's alpha-reliability, sections B to E.

    Examples
    --------
    >>> ratings = [[1, 1, None], [2, 2, 3], [3, 3, 3], [1, None, None], [4, 4, 4], [2, 3, 2]]
    >>> found = krippendorff_alpha(ratings)
    >>> round(found.estimate, 3), found.n["ratings"], found.missing
    (0.859, 14, 3)
    """
    x = np.array(scores, dtype=float)
    if x.ndim != 2 or (bases is not None and len(bases) != len(x)):
        raise InputError("Krippendorff's alpha: give answers x judges, and a base for each answer")
    if np.isinf(x).any():
        raise InputError("Krippendorff's alpha: a score is infinite; correct it or leave it empty")
    per_answer = np.isfinite(x).sum(axis=1)
    paired = x[per_answer > 1]
    labels = [base for base, many in zip(bases or range(len(x)), per_answer > 1, strict=True) if many]
    codes = numbered(labels)
    count = int(codes.max(initial=-1)) + 1
    n = {"answers": len(paired), "judges": x.shape[1], "ratings": int(np.isfinite(paired).sum())}
    n = n if bases is None else {"bases": count, **n}
    missing = int(np.isnan(x).sum())
    empty = Estimate(KRIPPENDORFF, method=JACKKNIFE, n=n, missing=missing)
    if not len(paired):
        return empty.not_estimable("no answer has two ratings")
    size = float(np.nanmax(np.abs(paired)))
    if np.nanmax(paired) - np.nanmin(paired) <= ROUNDING * size:
        return empty.not_estimable("every score is the same, so chance agreement is perfect")
    sums = _disagreements(paired / size, codes)
    total, jackknife_values = total_and_jackknife(sums)
    alpha = float(_krippendorff(total)[0])
    single = int((per_answer == 1).sum())
    note = f"{counted(single, 'answers')} with a single rating left out" if single else ""
    estimate = empty.with_value(alpha, note=note)
    if alpha >= 1 - ROUNDING:
        return estimate.with_value(1.0).no_interval("the judges agree on all")
    k = n["ratings"] / len(paired)
    return with_jackknife(
        estimate, _krippendorff(jackknife_values), lambda a: icc.log_f(a, k), lambda z: icc.from_log_f(z, k)[0],
    )  # fmt: skip


def krippendorff_difference(first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable]) -> Estimate:
    """Return Krippendorff's alpha of the first ratings less that of the second, by a jackknife of both at once."""
    first, second = np.array(first, dtype=float), np.array(second, dtype=float)
    complete = np.isfinite(first) & np.isfinite(second)
    first, second = (np.where(complete, x, np.nan) for x in (first, second))
    several = complete.sum(axis=1) > 1
    codes = numbered([base for base, is_paired in zip(bases, several, strict=True) if is_paired])
    n = {"bases": int(codes.max(initial=-1)) + 1, "answers": int(several.sum()), "judges": first.shape[1]}
    empty = Estimate(f"{KRIPPENDORFF}, on - off", method="jackknife over bases, paired", n=n)
    if not several.any():
        return empty.not_estimable("no answer has two ratings on both sides")
    size = float(np.nanmax(np.abs([first[several], second[several]]))) or 1.0
    parts = [total_and_jackknife(_disagreements(x[several] / size, codes)) for x in (first, second)]
    (alpha, jackknife_values), (other, other_without) = [tuple(map(_krippendorff, part)) for part in parts]
    difference = float(alpha[0] - other[0])
    if not np.isfinite(difference):
        return empty.not_estimable("every score is the same on one side, so chance agreement is perfect")
    estimate = empty.with_value(difference)
    return with_jackknife(estimate, jackknife_values - other_without, np.asarray, np.asarray)


def alpha_of_matrix(matrix: icc.RatingMatrix) -> Estimate:
    """Return Krippendorff's alpha of one dimension, from all its ratings and clustered by base where known."""
    if matrix.pairs.empty:
        empty = Estimate(KRIPPENDORFF, method=JACKKNIFE, n=matrix.n)
        return empty.not_estimable(matrix.problem or "there is no rating")
    bases = None if matrix.pair_bases is None else list(matrix.pair_bases)
    return replace(krippendorff_alpha(matrix.pairs.to_numpy(dtype=float), bases), missing=matrix.missing)


def _disagreements(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return per base: observed disagreement, ratings, their sum and their sum of squares."""
    present = np.isfinite(x)
    m, z = present.sum(axis=1), np.where(present, x - np.unique(x[present]).mean(), 0.0)
    total, squares = z.sum(axis=1), (z**2).sum(axis=1)
    observed = 2 * (m * squares - total**2) / (m - 1)
    return sums_by(codes, np.column_stack([observed, m, total, squares]))


def _krippendorff(sums: np.ndarray) -> np.ndarray:
    observed, n, total, squares = sums.T
    expected = 2 * (n * squares - total**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > ROUNDING * n**2, 1 - (n - 1) * observed / expected, np.nan)
