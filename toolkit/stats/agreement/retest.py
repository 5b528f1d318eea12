"""Test-retest: how far a judge repeats its own scores when it is asked the same again."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.icc import from_log_f, log_f, with_interval
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.jackknife import all_and_without, with_jackknife
from toolkit.stats.inference.run_table import need_columns, numbers_of
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

ICC_METHOD = "one-way analysis of variance; jackknife over bases, ln F scale"
SD_METHOD = "one-way analysis of variance; jackknife over bases, log scale"
UNIT = "score points"
_DETECTABLE = "smallest detectable difference"
_KEYS = ("target", "judge", "repeat")
_Squares = tuple[np.ndarray, np.ndarray, np.ndarray]


@over_clusters
def retest(ratings: pd.DataFrame) -> Mapping[tuple[str, str], tuple[Estimate, Estimate, Estimate]]:
    r"""Return for each dimension and judge ICC(1,1), SD and smallest detectable difference of its own repeats.

    With answers :math:`i` scored :math:`m_i` times by the same judge and the mean squares between (b) and within (w)
    answers, :math:`ICC(1,1) = (b - w) / (b + (m_0 - 1) w)`, :math:`m_0 = (N - \sum m_i^2 / N) / (U - 1)`; the standard
    deviation within answers is :math:`\sqrt w`, and the smallest detectable difference
    :math:`1.96 \sqrt 2 \sqrt w`. Repeats have no order, so a drift between them counts as noise. Intervals are
    the jackknife over bases, of :math:`\ln F` and of :math:`\ln w`.

    References
    ----------
    Shrout & Fleiss (1979), Psychological Bulletin 86, 420-428. Bland & Altman (1996), BMJ 313, 744, for the SD. Searle,
    Casella & McCulloch (1992), Variance Components, section 3.6, for unequal numbers.

    Examples
    --------
    >>> rows = [("a", 1, 4.0), ("a", 2, 4.5), ("b", 1, 2.0), ("b", 2, 2.0), ("c", 1, 3.0), ("c", 2, 3.5)]
    >>> frame = pd.DataFrame(rows, columns=["target", "repeat", "score"]).assign(judge="primary")
    >>> icc, sd, detectable = retest(frame)["score", "primary"]
    >>> round(icc.estimate, 3), round(sd.estimate, 3)
    (0.937, 0.289)
    """
    need_columns("repeated ratings", ratings, (*_KEYS, "score"))
    keys = [*_KEYS, *(["dimension"] if "dimension" in ratings else [])]
    twice = ratings.duplicated(keys)
    if twice.any():
        first = ratings.loc[twice].iloc[0]
        raise InputError(
            f"retest: {counted(int(twice.sum()), 'duplicate ratings')}, the first of target {first['target']} by judge "
            f"{first['judge']}, repeat {first['repeat']}; keep one rating per target, judge and repeat"
        )
    checked = ratings.assign(score=numbers_of("repeated ratings", ratings, "score", finite=True))
    named = checked if "dimension" in checked else checked.assign(dimension="score")
    return {
        (str(dimension), str(judge)): _judge_retest(rows)
        for dimension, part in named.groupby("dimension", sort=False, observed=True)
        for judge, rows in part.groupby("judge", sort=True, observed=True)
    }


def _judge_retest(rows: pd.DataFrame) -> tuple[Estimate, Estimate, Estimate]:
    scored = rows.dropna(subset=["score"])
    size = scored.groupby("target", observed=True)["score"].transform("size")
    repeated, once = scored[size > 1], int((size == 1).sum())
    codes, bases, clustered = _bases(repeated)
    targets = repeated["target"].nunique()
    n = {"answers": targets, "ratings": len(repeated)}
    n = {"bases": bases, **n} if clustered else n
    note = f"{counted(once, 'answers')} scored once left out" if once else ""
    empty = Estimate("ICC(1,1) of repeats", method=ICC_METHOD, n=n, missing=int(rows["score"].isna().sum()))
    sd = replace(empty, name="SD within answers", method=SD_METHOD, unit=UNIT)
    if targets < 2:
        reason = f"{counted(targets, 'answers')} scored more than once by this judge, and two are needed"
        sd = sd.not_estimable(reason)
        return empty.not_estimable(reason), sd, replace(sd, name=_DETECTABLE)
    scale = float(repeated["score"].abs().max()) or 1.0
    table = _sums((repeated["score"] - repeated["score"].mean()) / scale, repeated["target"], codes)
    total, without = map(_mean_squares, all_and_without(table))
    within, between = float(total[0][0]), float(total[1][0])
    sd = sd.valued(scale * math.sqrt(within))
    if max(within, between) <= ROUNDING**2:
        icc = empty.not_estimable("every score is the same")
        sd = sd.no_interval("the judge repeated itself exactly")
    elif within <= ROUNDING * between:
        icc = empty.valued(1.0).no_interval("the judge repeated itself exactly")
        sd = sd.valued(0.0).no_interval(icc.reason)
    else:
        icc = _icc(empty, total, without)
        sd = with_jackknife(sd, scale * np.sqrt(without[0]), np.log, np.exp)
    icc, sd = (replace(estimate, note=note).noted(estimate.note) for estimate in (icc, sd))
    factor = 1.959963984540054 * math.sqrt(2)
    middle, low, high = (None if end is None else factor * end for end in (sd.estimate, sd.low, sd.high))
    return icc, sd, replace(sd, name=_DETECTABLE, estimate=middle, low=low, high=high)


def _icc(empty: Estimate, total: _Squares, without: _Squares) -> Estimate:
    """Return ICC(1,1), whose F is b/w where every answer has as many repeats."""

    def icc(w: np.ndarray, b: np.ndarray, m: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((b - w) / (b + (m - 1) * w))

    k = float(total[2][0])
    estimate = empty.valued(float(icc(*total)[0]))
    bound = with_jackknife(estimate, icc(*without), lambda rho: log_f(rho, k), lambda z: from_log_f(z, k)[0])
    if bound.low is None or bound.high is None:
        return bound
    return with_interval(replace(estimate, degrees=bound.degrees), bound.low, bound.high)


def _bases(rows: pd.DataFrame) -> tuple[np.ndarray, int, bool]:
    """Return the base of each row as a number, how many there are, and whether bases are known at all."""
    has_bases = "base" in rows and bool(
        len(rows) and rows["base"].notna().all() and rows.groupby("target")["base"].nunique().eq(1).all()
    )
    codes, names = pd.factorize(rows["base" if has_bases else "target"].astype(object))
    return codes, len(names), has_bases


def _sums(x: pd.Series, targets: pd.Series, codes: np.ndarray) -> np.ndarray:
    """Return per base: answers, ratings, squared sizes, sum, sum of squares, and sums of answers squared over m."""
    rows_table = pd.DataFrame(
        {"x": x.to_numpy(), "t": targets.to_numpy(), "b": codes, "xx": x.to_numpy() ** 2}
    )
    answers = rows_table.groupby(["b", "t"], sort=False, observed=True).agg(
        m=("x", "size"), s=("x", "sum"), q=("xx", "sum")
    )
    answers = answers.assign(u=1.0, mm=answers["m"] ** 2.0, r=answers["s"] ** 2 / answers["m"])
    return np.asarray(answers.groupby("b")[["u", "m", "mm", "s", "q", "r"]].sum().sort_index(), dtype=float)


def _mean_squares(sums: np.ndarray) -> _Squares:
    """Return the mean squares within and between answers, and the mean number of repeats m_0."""
    answers, ratings, squared, total, squares, rows = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.maximum(squares - rows, 0) / (ratings - answers)
        between = (rows - total**2 / ratings) / (answers - 1)
        return within, between, (ratings - squared / ratings) / (answers - 1)
