"""Agreement of two raters or many: Pearson's correlation, kappas, and the alphas of Cronbach and Krippendorff."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pingouin as pg
from numpy.typing import ArrayLike
from scipy import special, stats

from toolkit.errors import InputError
from toolkit.stats.agreement import icc
from toolkit.stats.agreement.icc import RatingMatrix
from toolkit.stats.inference.jackknife import numbered, sums_by, total_and_jackknife, with_jackknife
from toolkit.stats.inference.means import clustered_mean, paired
from toolkit.stats.result import ROUNDING, Estimate, Estimates
from toolkit.words import COMPOSITES, counted

FISHER = "Fisher z, answers independent"
JACKKNIFE = "jackknife over bases, Fisher z scale"


def pearson_between_judges(matrix: RatingMatrix) -> Estimates:
    """Return Pearson's r for each pair of judges, over the answers that both of them scored.

    A correlation ignores how mild or harsh a judge is, and how far it spreads its scores; agreement is what ICC(A,.)
    measures. The interval is the jackknife over bases, or Fisher's where no base is known.

    Examples
    --------
    >>> from toolkit.stats import rating_matrix
    >>> scores = {"anna": (1, 3, 4, 2), "ben": (2, 3, 5, 2)}
    >>> rows = [(f"t{i}", judge, score) for judge in scores for i, score in enumerate(scores[judge])]
    >>> table = pd.DataFrame(rows, columns=["target", "judge", "score"])
    >>> matrix = rating_matrix(table, ["t0", "t1", "t2", "t3"], ["anna", "ben"])
    >>> [(r.name, round(r.estimate, 2)) for r in pearson_between_judges(matrix)]
    [('r(anna, ben)', 0.91)]
    """
    if matrix.pairs.empty:
        n = {"answers": len(matrix.values), "judges": 2}
        return tuple(_named(pair, n).not_estimable(matrix.problem) for pair in combinations(matrix.judges, 2))
    results = []
    for first, second in combinations(matrix.pairs.columns, 2):
        scores = matrix.pairs[[first, second]].to_numpy()
        paired = np.isfinite(scores).all(axis=1)
        bases = None if matrix.pair_bases is None else list(matrix.pair_bases[paired])
        judges, n = (str(first), str(second)), {"answers": int(paired.sum()), "judges": 2}
        empty = replace(_named(judges, n), missing=int((~paired).sum()))
        results.append(_pair_estimate(empty, scores[paired], judges, bases))
    return tuple(results)


def clustered_pearson(
    name: str, x: ArrayLike, y: ArrayLike, clusters: Sequence[Hashable], *, missing: int = 0
) -> Estimate:
    """Return Pearson's r of two sides with the same jackknife over bases as between judges.

    Examples
    --------
    >>> r = clustered_pearson("r", [1, 2, 3, 4, 5], [1, 3, 2, 5, 4], clusters="abcde")
    >>> round(r.estimate, 2), r.n
    (0.8, {'bases': 5, 'answers': 5})
    """
    a, b = paired(f"correlation {name}", x, y, clusters)
    empty = Estimate(name, n={"answers": len(a)}, missing=missing)
    return _pair_estimate(empty, np.column_stack([a, b]), None, clusters)


def correlation(x: np.ndarray, y: np.ndarray, bases: Sequence[Hashable]) -> tuple[float | None, np.ndarray]:
    """Return Pearson's r and its values without each base; None and NaN where a side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    sums = sums_by(numbered(bases), np.stack([np.ones(len(x)), x, y, x * y, x * x, y * y], axis=1))
    n, sx, sy, xy, xx, yy = np.vstack(total_and_jackknife(sums)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        xy, xx, yy = xy - sx * sy / n, xx - sx * sx / n, yy - sy * sy / n
        flat = np.minimum(xx, yy) <= ROUNDING * max(float(xx[0]), float(yy[0]))
        r = np.where(flat, np.nan, np.clip(xy / np.sqrt(xx * yy), -1, 1))
    return (float(r[0]) if np.isfinite(r[0]) else None), r[1:]


def _named(judges: tuple[str, str], n: dict[str, int]) -> Estimate:
    facets = dict(zip(("judge", "other_judge"), judges, strict=True))
    return Estimate(f"r({', '.join(judges)})", method=FISHER, n=n, facets=facets)


def _pair_estimate(
    empty: Estimate, scores: np.ndarray, judges: tuple[str, str] | None, bases: Sequence[Hashable] | None
) -> Estimate:
    answers = len(scores)
    if bases is not None:
        empty = replace(empty, method=JACKKNIFE, n={"bases": len(set(bases)), **empty.n})
    if answers < 3:
        return empty.too_few(answers, "answers scored by both" if judges else "answers", "three")
    spreads = np.ptp(scores, axis=0)
    if spreads.min() <= ROUNDING:
        if judges is None:
            return empty.not_estimable("one of the two sides does not vary")
        constant = judges[int(spreads.argmin())]
        return empty.not_estimable(f"judge {constant} gave the same score to every answer")
    x, y = ((scores - scores.mean(axis=0)) / spreads).T
    r, jackknife_values = correlation(x, y, range(answers) if bases is None else bases)
    if r is None:
        return empty.not_estimable("the scores of a judge do not vary")
    if abs(r) >= 1 - ROUNDING:
        return empty.with_value(math.copysign(1.0, r)).no_interval("the scores lie on a straight line")
    estimate = empty.with_value(r)
    if bases is None:
        if answers < 4:
            return estimate.no_interval("Fisher's z needs four answers")
        half = float(special.ndtri((1 + empty.confidence) / 2)) / math.sqrt(answers - 3)
        return replace(estimate, low=math.tanh(math.atanh(r) - half), high=math.tanh(math.atanh(r) + half))
    reason = "one base alone makes or unmakes the correlation"
    return with_jackknife(estimate, jackknife_values, np.arctanh, np.tanh, useless=reason)


COHEN_METHOD = "Fisher z, standard error of Fleiss, Cohen & Everitt (1969)"
FLEISS_METHOD = "Fisher z, standard error over items of Gwet (2021), Student t"
LINEARISED = "Fisher z, linearised, standard error clustered by base (CR2), Student t"


def weighted_kappa(
    first: ArrayLike,
    second: ArrayLike,
    bases: Sequence[Hashable] | None = None,
    *,
    name: str = "weighted kappa (quadratic)",
) -> Estimate:
    r"""Return Cohen's weighted kappa of two judges who scored the same answers; without bases each answer is one.

    :math:`\kappa_w = 1 - \sum v_{ij} p_{ij} / \sum v_{ij} p_{i+} p_{+j}` with the disagreement :math:`v_{ij} = (x_i -
    x_j)^2` between the scores themselves, so that half steps and scores nobody used need no list of categories. It is
    nearly ICC(A,1) of two judges.

    References
    ----------
    Cohen (1968), Psychol. Bull. 70, 213-220. Fleiss & Cohen (1973), Educ. Psychol. Meas. 33, 613-619, for the ICC.

    Examples
    --------
    >>> found = weighted_kappa([1, 2, 2.5, 4, 5, 3], [1, 2.5, 2.5, 4.5, 4.5, None])
    >>> round(found.estimate, 3), found.missing
    (0.961, 1)
    """
    x, y = np.array(first, dtype=float), np.array(second, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or (bases is not None and len(bases) != len(x)):
        raise InputError(
            f"{name}: give two scores for each answer, and a base for each where bases are known"
        )
    if np.isinf(x).any() or np.isinf(y).any():
        raise InputError(f"{name}: a score is infinite; correct it or leave it empty")
    paired = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    missing, x, y = len(x) - len(paired), x[paired], y[paired]
    codes = numbered([row if bases is None else bases[row] for row in paired.tolist()])
    n = {"bases": int(codes.max(initial=-1)) + 1, "answers": len(x), "judges": 2}
    empty = Estimate(name, method=JACKKNIFE, n=n, missing=missing)
    if len(x) < 2:
        return empty.too_few(len(x), "answers scored by both")
    size = float(max(np.abs(x).max(), np.abs(y).max()))
    for rater, side in (("first", x), ("second", y)):
        if np.ptp(side) <= ROUNDING * size:
            return empty.not_estimable(f"the {rater} gave one score only")
    x, y = x / size, y / size
    x, y = x - x.mean(), y - x.mean()
    sums = sums_by(codes, np.stack([np.ones(len(x)), x, y, x * x + y * y, (x - y) ** 2], axis=1))
    total, jackknife_values = total_and_jackknife(sums)

    def statistic(sums: np.ndarray) -> np.ndarray:
        n, a, b, squares, observed = sums.T
        expected = n * squares - 2 * a * b
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(expected > ROUNDING * n**2, 1 - n * observed / expected, np.nan)

    kappa = float(statistic(total)[0])
    if kappa >= 1 - ROUNDING:
        return empty.with_value(1.0).no_interval("they agree on all answers")
    return with_jackknife(empty.with_value(kappa), statistic(jackknife_values), np.arctanh, np.tanh)


def cohen_kappa(
    first: Sequence[Hashable | None],
    second: Sequence[Hashable | None],
    name: str = "Cohen's kappa",
    raters: tuple[str, str] = ("first", "second"),
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return Cohen's kappa between two who put the same items into categories.

    :math:`\kappa = (p_o - p_e) / (1 - p_e)` with the observed agreement :math:`p_o` and :math:`p_e = \sum_i p_{i+}
    p_{+i}`. Its large-sample variance times :math:`n (1 - p_e)^2` is :math:`\sum_{ij} p_{ij} [1_{i=j} - (p_{+i} +
    p_{j+})(1 - \kappa)]^2 - [\kappa - p_e (1 - \kappa)]^2`. The interval is made on Fisher's z scale.

    References
    ----------
    Cohen (1960), Educ. Psychol. Meas. 20, 37-46. Fleiss, Cohen & Everitt (1969), Psychol. Bull. 72, 323-327, equation
    14.

    Examples
    --------
    >>> found = cohen_kappa([1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, None])
    >>> round(found.estimate, 3), found.missing
    (0.615, 1)
    """
    from statsmodels.stats.inter_rater import cohens_kappa

    if len(first) != len(second):
        raise InputError(f"kappa: {len(first)} and {len(second)} categories; give two for each item")
    paired = [index for index, pair in enumerate(zip(first, second, strict=True)) if None not in pair]
    pairs = [(first[index], second[index]) for index in paired]
    n, missing = {"items": len(pairs)}, len(first) - len(pairs)
    empty = Estimate(name, method=COHEN_METHOD, n=n, missing=missing)
    for index, rater in enumerate(raters):
        if len({pair[index] for pair in pairs}) < 2:
            return empty.not_estimable(f"the {rater} gave one category at most")
    codes = numbered([category for pair in pairs for category in pair])
    rows, columns = codes[::2], codes[1::2]
    table = np.zeros((codes.max() + 1,) * 2)
    np.add.at(table, (rows, columns), 1)
    kappa = float(cohens_kappa(table, return_results=False))
    by_first, by_second = table.sum(axis=1) / len(pairs), table.sum(axis=0) / len(pairs)
    chance = float(by_first @ by_second)
    means = by_second[rows] + by_first[columns]
    influence_of_items = ((rows == columns) - means * (1 - kappa) - (kappa - chance * (1 - kappa))) / (
        1 - chance
    )
    error = math.sqrt(float((influence_of_items**2).sum())) / len(pairs)
    shared = None if clusters is None else [clusters[index] for index in paired]
    quantile = float(special.ndtri(0.975))
    return _on_fisher_scale(empty.with_value(kappa), error, quantile, influence_of_items, shared)


def fleiss_kappa(
    votes: Sequence[Sequence[Hashable | None]],
    name: str = "Fleiss' kappa",
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return Fleiss' kappa: how far votes on the same item agree beyond chance, whoever gave them.

    With :math:`r_i` votes on item i, :math:`r_{iq}` of them for category q, :math:`p_a` is the mean of :math:`\sum_q
    r_{iq}(r_{iq} - 1) / r_i(r_i - 1)` over items with two votes or more, and :math:`p_e = \sum_q \pi_q^2` where
    :math:`\pi_q` is the mean of :math:`r_{iq} / r_i`. The standard error is that of the linearised kappa over items,
    so it needs no more than independent items.

    References
    ----------
    Fleiss (1971), Psychol. Bull. 76, 378-382. Gwet (2021), Educ. Psychol. Meas. 81, 781-790, and Gwet (2014), Handbook
    of Inter-Rater Reliability, for items with fewer votes.

    Examples
    --------
    >>> found = fleiss_kappa([[1, 1, 1], [0, 0, 0], [1, 1, 0], [0, None, 0]])
    >>> round(found.estimate, 4), found.missing
    (0.6571, 1)
    """
    items = [[vote for vote in item if vote is not None] for item in votes]
    missing = sum(map(len, votes)) - sum(map(len, items))
    shared = None if clusters is None else [clusters[index] for index, item in enumerate(items) if item]
    items = [item for item in items if item]
    n = {"items": len(items), "votes": sum(map(len, items))}
    empty = Estimate(name, method=FLEISS_METHOD, n=n, missing=missing)
    categories = list(dict.fromkeys(vote for item in items for vote in item))
    counts = np.array([[item.count(category) for category in categories] for item in items], dtype=float)
    counts = counts.reshape(len(items), len(categories))
    total = counts.sum(axis=1)
    several = total > 1
    if not several.any():
        return empty.not_estimable("no item has two votes")
    if len(categories) < 2:
        return empty.not_estimable("every vote is the same")
    shares = counts / total[:, None]
    overall = shares.mean(axis=0)
    chance = float(overall @ overall)
    agreement = np.zeros(len(items))
    agreement[several] = (counts * (counts - 1)).sum(axis=1)[several] / (total * (total - 1))[several]
    kappa = (float(agreement[several].mean()) - chance) / (1 - chance)
    influence = len(items) / several.sum() * (agreement - chance * several) / (1 - chance)
    influence_of_items = influence - 2 * (1 - kappa) * (shares @ overall - chance) / (1 - chance) - kappa
    error, quantile = 0.0, 0.0
    if len(items) > 1:
        error = math.sqrt(float((influence_of_items**2).sum()) / (len(items) * (len(items) - 1)))
        quantile = float(special.stdtrit(len(items) - 1, 0.975))
    return _on_fisher_scale(empty.with_value(kappa), error, quantile, influence_of_items, shared)


def _on_fisher_scale(
    estimate: Estimate,
    error: float,
    quantile: float,
    influence_of_items: np.ndarray,
    clusters: Sequence[Hashable] | None,
) -> Estimate:
    """Return kappa with its interval: where items share clusters, by the clustered error of its linear form."""
    if clusters is not None and len(set(clusters)) < len(clusters):
        estimate = replace(estimate, n={**estimate.n, "bases": len(set(clusters))}, method=LINEARISED)
        mean = clustered_mean(influence_of_items, clusters)
        error = mean.error or 0.0
        quantile = float(special.stdtrit(mean.degrees, 0.975)) if error else 0.0
    kappa = estimate.estimate or 0.0
    half = quantile * error / (1 - kappa**2) if abs(kappa) < 1 - ROUNDING else 0.0
    if not half:
        return estimate.no_interval("they agree on all items" if kappa > 0 else "nothing varies")
    middle = math.atanh(kappa)
    return replace(estimate, low=math.tanh(middle - half), high=math.tanh(middle + half))


OVER_JUDGES = "alpha over judges"
OVER_DIMENSIONS = "alpha over dimensions"
KRIPPENDORFF = "Krippendorff's alpha (interval)"
FELDT = "F distribution, rows independent (Feldt, Woodruff & Salih 1987)"
LN_F_JACKKNIFE = "jackknife over bases, ln F scale"
_LOG_SCALE = (lambda a: -np.log1p(-a), lambda z: -np.expm1(-z))
"""There and back: of alpha it is ln F, since alpha is 1 - 1/F."""


def alpha_over_judges(matrix: icc.RatingMatrix) -> Estimate:
    """Return Cronbach's alpha with the judges as items and the answers as rows.

    It says how consistently the judges rank the answers; it equals ICC(C,k) and ignores that one judge is milder than
    another.

    Examples
    --------
    >>> from toolkit.stats import rating_matrix
    >>> scores = {"anna": (1, 3, 4, 2), "ben": (2, 3, 5, 2)}
    >>> rows = [(f"t{i}", judge, score) for judge in scores for i, score in enumerate(scores[judge])]
    >>> table = pd.DataFrame(rows, columns=["target", "judge", "score"])
    >>> matrix = rating_matrix(table, ["t0", "t1", "t2", "t3"], ["anna", "ben"])
    >>> round(alpha_over_judges(matrix).estimate, 2)
    0.95
    """
    empty = Estimate(OVER_JUDGES, method=FELDT, n=matrix.n, missing=matrix.missing)
    if matrix.problem:
        return empty.not_estimable(matrix.problem)
    return _alpha(empty, matrix.values, matrix.bases)


def alpha_over_dimensions(ratings: pd.DataFrame) -> Estimate | None:
    """Return Cronbach's alpha with the dimensions as items and every judgement (answer x judge) as a row.

    It says how far the dimensions of the rubric measure one thing. The interval is clustered by base, or by answer
    where no base is known, because several judges score one answer.

    Examples
    --------
    >>> rows = [("t1", "anna", 4, 3), ("t2", "anna", 2, 2), ("t3", "anna", 5, 4), ("t1", "ben", 3, 3)]
    >>> table = pd.DataFrame(rows, columns=["target", "judge", "clarity", "relevance"])
    >>> ratings = table.melt(["target", "judge"], var_name="dimension", value_name="score")
    >>> round(alpha_over_dimensions(ratings).estimate, 2)
    0.92
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
    note = (
        f"{incomplete} of {len(wide)} judgements lack some dimension and are left out" if incomplete else ""
    )
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
        return with_jackknife(empty.with_value(alpha, method=LN_F_JACKKNIFE), jackknife_values, *_LOG_SCALE)
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
    empty = Estimate(KRIPPENDORFF, method=LN_F_JACKKNIFE, n=n, missing=missing)
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
        estimate,
        _krippendorff(jackknife_values),
        lambda a: icc.log_f(a, k),
        lambda z: icc.from_log_f(z, k)[0],
    )


def alpha_of_matrix(matrix: icc.RatingMatrix) -> Estimate:
    """Return Krippendorff's alpha of one dimension, from all its ratings and clustered by base where known."""
    if matrix.pairs.empty:
        empty = Estimate(KRIPPENDORFF, method=LN_F_JACKKNIFE, n=matrix.n)
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
