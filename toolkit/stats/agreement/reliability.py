"""How far the judges agree, each with itself, with the others and with what replies are required to hold."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement import coefficients
from toolkit.stats.agreement import icc as intraclass
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import of_rows, over_clusters
from toolkit.stats.inference.jackknife import numbered, sums_by, total_and_jackknife, with_jackknife
from toolkit.stats.inference.means import CLUSTERED, bounded_mean, clustered_mean, clustered_slope
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result, Row
from toolkit.words import COMPOSITES, DIMENSIONS, SCORE, counted, total_aud

# Leniency of a judge is error here, so absolute agreement leads (DESIGN, section 7).
ROW_ORDER = ("ICC(A,1)", "ICC(A,k)", "ICC(1,1)", "ICC(1,k)", "ICC(C,1)", "ICC(C,k)")
_KEY_ORDER = (*DIMENSIONS, *COMPOSITES)


class Reliability(Result):
    """What is known of the agreement of the judges.

    Each mapping goes from a dimension (``score`` where there is none) to its estimates. ``icc`` has intervals
    clustered by base where bases are known, and F intervals otherwise; those of ICC(A,.) hold for judges drawn anew,
    and ``icc_these_judges`` repeats them for these judges only. ``krippendorff`` is the alpha that also uses answers
    which not all judges scored, ``leniency`` is by judge, ``effective`` how many independent judges they are worth.
    ``retest`` says by dimension and judge how far it repeats
    its own scores, ``notes`` what was left out, refused or unusual.
    """

    def headline(self) -> Iterator[Row]:
        """Return ICC, alpha and Pearson of the composite, or the only dimension, and alpha over dimensions."""
        key = next(name for name in (SCORE, "composite", *self.icc) if name in self.icc)
        over = [] if self.alpha_over_dimensions is None else [self.alpha_over_dimensions]
        icc = sorted(self.icc[key], key=lambda estimate: not estimate.name.startswith("ICC(A"))
        agreements = (*icc, self.alpha_over_judges[key], *over, *self.pearson[key], *self.effective[key])
        return ((key, estimate) for estimate in agreements)

    def rows(self) -> Iterator[Row]:
        """Yield every result with its dimension, ICC(A,.) before other forms."""
        for key, results in self.icc.items():
            for family in (results, self.icc_these_judges[key]):
                # The name may go on: "ICC(A,1), these judges".
                ordered = sorted(family, key=lambda result: ROW_ORDER.index(result.name[:8]))
                yield from ((key, result) for result in ordered)
            yield key, self.alpha_over_judges[key]
            yield key, self.krippendorff[key]
            numbers = (*self.effective[key], *self.pearson[key], *self.leniency[key].values())
            yield from ((key, result) for result in numbers)
        if self.alpha_over_dimensions is not None:
            yield "all dimensions", self.alpha_over_dimensions
        for (key, judge), repeated in self.retest.items():
            yield from ((key, replace(estimate, name=f"{estimate.name}, {judge}")) for estimate in repeated)


@over_clusters
def reliability(ratings: pd.DataFrame, repeats: pd.DataFrame | None = None) -> Reliability:
    """Measure the agreement of the judges, for each dimension apart.

    Answers that not every judge scored are left out of ICC and alpha (complete cases) and counted; a missing rating is
    never a zero. Duplicates and infinite scores are refused with a reason, not averaged or dropped. Where the data
    support no number there is none, and the note says why. P values are left out on purpose: that a reliability is
    zero is nobody's hypothesis.

    Parameters
    ----------
    ratings
        One row per rating with target, judge, score (NaN where missing), and optionally dimension, and base where
        several targets belong together.
    repeats
        The same before a judge's repeats were averaged, with the column repeat, for test-retest.

    References
    ----------
    Shrout & Fleiss (1979), Psychol. Bull. 86, 420-428. McGraw & Wong (1996), Psychol. Methods 1, 30-46. Koo & Li
    (2016), J. Chiropr. Med. 15, 155-163.

    Examples
    --------
    >>> scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    >>> result = reliability(pd.DataFrame(rows, columns=["target", "judge", "score"]))
    >>> [round(one.estimate, 4) for one in result.icc["score"]]
    [0.1657, 0.2898, 0.7148, 0.4428, 0.6201, 0.9093]
    """
    checked = _checked(ratings)
    targets = sorted(checked["target"].unique(), key=str)
    judges = sorted(checked["judge"].unique(), key=str)
    # The rubric's dimensions in its order, then the composites, then others.
    order = {name: position for position, name in enumerate(_KEY_ORDER)}
    by_dimension: dict[object, pd.DataFrame] = {"score": checked}
    if "dimension" in checked:
        by_dimension = {name: checked[checked["dimension"] == name] for name in checked["dimension"].unique()}
    keys = sorted(by_dimension, key=lambda name: (order.get(str(name), len(order)), str(name)))
    matrices = {str(key): intraclass.rating_matrix(by_dimension[key], targets, judges) for key in keys}
    icc = {key: intraclass.icc_estimates(matrix) for key, matrix in matrices.items()}
    return Reliability(
        "reliability",
        icc={key: forms[: len(intraclass.FORMS)] for key, forms in icc.items()},
        icc_these_judges={key: forms[len(intraclass.FORMS) :] for key, forms in icc.items()},
        alpha_over_judges={key: coefficients.alpha_over_judges(matrix) for key, matrix in matrices.items()},
        alpha_over_dimensions=coefficients.alpha_over_dimensions(checked) if "dimension" in checked else None,
        pearson={key: coefficients.pearson_between_judges(matrix) for key, matrix in matrices.items()},
        krippendorff={key: coefficients.alpha_of_matrix(matrix) for key, matrix in matrices.items()},
        leniency={key: judge_leniency(matrix) for key, matrix in matrices.items()},
        effective={key: _effective(matrix) for key, matrix in matrices.items()},
        notes=_notes(
            matrices, is_clustered=any(len(forms) > len(intraclass.FORMS) for forms in icc.values())
        ),
        retest=retest(repeats) if repeats is not None and len(repeats) else {},
    )


def judge_leniency(matrix: intraclass.RatingMatrix) -> dict[str, Estimate]:
    r"""Return how lenient each judge is beside the others.

    The leniency of judge j is the mean of :math:`x_{ij} - \bar x_{i,-j}` over the answers that it and another judge
    scored, with the t interval clustered by base (Miller 2024). These add up to zero: one severe judge makes each of
    the others look lenient (in 30 % of studies of 12 bases where it was severe by half a point), and the difference
    from the mean of all, which is (k - 1) / k of it, has the same P value. Of two judges it is one test.
    """
    scores, bases = matrix.pairs, matrix.pair_bases
    method = "Student t, answers independent" if bases is None else "Student t over bases, clustered"
    estimates = []
    for judge in scores:
        beyond = (scores[judge] - scores.drop(columns=[judge]).mean(axis=1)).to_numpy(dtype=float)
        finite = np.isfinite(beyond)
        clusters = list(range(int(finite.sum())) if bases is None else bases[finite])
        n = {"answers": int(finite.sum())}
        n = n if bases is None else {"bases": len(set(clusters)), **n}
        empty = Estimate(f"leniency of {judge}", method=method, unit="score points", n=n)
        empty = replace(empty, missing=int((~finite).sum()))
        if not finite.any():
            estimates.append(empty.not_estimable("no answer has the ratings it needs"))
            continue
        mean = clustered_mean(beyond[finite], clusters, scale=1.0)
        low, high = (None if end is None else end * matrix.scale for end in (mean.low, mean.high))
        mean = replace(mean, mean=mean.mean * matrix.scale, low=low, high=high)
        estimates.append(mean.of(empty, tested=mean.groups > 1))
    tested = with_holm(estimates, "judges") if len(estimates) > 2 else estimates
    return dict(zip(map(str, scores), tested, strict=True))


EFFECTIVE = "correlations of the judges' errors, jackknife over bases, log scale"


def effective_judges(
    errors: np.ndarray, bases: Sequence[Hashable], *, from_people: bool, missing: int = 0
) -> Estimate:
    r"""Return how many independent judges the judges of an ensemble are worth, by the correlations of their errors.

    With the covariance matrix C of the errors of k judges (answers x judges, in score points) it is, against people,
    :math:`k \, \mathrm{tr}\, C / \mathbf{1}'C\mathbf{1}`, the mean variance of an error over that of their mean, times
    1; k where errors are uncorrelated and 1 where all are the same. Where nobody rated, an error is the
    difference from the mean of all judges, and it is :math:`1 + (\mathrm{tr}\, C)^2 / \mathrm{tr}\, C^2`: k where all
    differ alike, fewer where some go together. What all judges have in common cannot be seen then, and two judges
    say nothing.

    References
    ----------
    Kish (1965), Survey Sampling, section 8.2, for the effective number under correlation; Bretherton et al. (1999),
    Journal of Climate 12, 1990-2009, equation 9, for that of eigenvalues.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> errors = rng.normal(size=(4000, 3))
    >>> round(effective_judges(errors, range(4000), from_people=True).estimate, 1)
    3.0
    >>> twins = errors[:, [0, 0, 1]]
    >>> round(effective_judges(twins - twins.mean(axis=1, keepdims=True), range(4000), from_people=False).estimate, 1)
    2.0
    """
    answers, judges = errors.shape
    n = {"bases": len(set(bases)), "answers": answers, "judges": judges}
    name = f"effective number of judges, {'against people' if from_people else 'against each other'}"
    empty = Estimate(name, method=EFFECTIVE, unit="judges", n=n, missing=missing)
    if judges < (2 if from_people else 3):
        return empty.not_estimable("one judge is one, and two judges differ from each other only")
    if answers < 2:
        return empty.too_few(answers, "answers", "two")
    centred = errors - errors.mean(axis=0)
    centred[np.abs(centred) <= ROUNDING] = 0  # what is left of equal numbers
    rows = np.concatenate([np.ones((answers, 1)), centred], axis=1)
    sums = sums_by(numbered(bases), rows[:, :, None] * rows[:, None, :])
    total, without = total_and_jackknife(sums)

    def number(moments: np.ndarray) -> np.ndarray:
        count, mean = moments[:, :1, :1], moments[:, 0, 1:] / np.maximum(moments[:, :1, 0], 1)
        covariance = moments[:, 1:, 1:] / np.maximum(count, 1) - mean[:, :, None] * mean[:, None, :]
        trace = np.trace(covariance, axis1=1, axis2=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            if from_people:
                return judges * trace / covariance.sum(axis=(1, 2))
            return 1 + trace**2 / (covariance**2).sum(axis=(1, 2))

    (value,) = number(total)
    if not np.isfinite(value):
        return empty.not_estimable("the errors do not vary, or cancel each other")
    most = np.inf if from_people else judges

    def possible(logarithm: np.ndarray) -> np.ndarray:
        return np.clip(np.exp(logarithm), 1, most)

    return with_jackknife(empty.with_value(float(value)), number(without), np.log, possible)


def _effective(matrix: intraclass.RatingMatrix) -> Estimates:
    """Return the effective number of the judges of a table by their differences from their mean; none of two judges."""
    if len(matrix.judges) == 2:
        return ()
    values = matrix.values
    errors = values - values.mean(axis=1, keepdims=True) if values.size else values
    bases = range(len(errors)) if matrix.bases is None else matrix.bases
    number = effective_judges(errors, bases, from_people=False, missing=matrix.missing)
    return (number.not_estimable(matrix.problem) if matrix.problem else number,)


def _checked(ratings: pd.DataFrame) -> pd.DataFrame:
    run_table.need_columns("ratings", ratings, ("target", "judge", "score"))
    if ratings.empty:
        raise InputError("ratings: there are none; give one row per rating")
    names = ("target", "judge", "score", "dimension", "base", "unit")
    checked = ratings[[name for name in names if name in ratings]].reset_index(drop=True)
    run_table.need_labels(
        "ratings", checked, [name for name in ("target", "judge", "dimension") if name in checked]
    )
    return checked.assign(score=run_table.numbers_of("ratings", checked, "score"))


def _notes(matrices: Mapping[str, intraclass.RatingMatrix], is_clustered: bool) -> tuple[str, ...]:
    """Say each thing once, with the dimensions it is true of where it is not true of all."""
    keys_by_note: dict[str, list[str]] = {}
    for key, matrix in matrices.items():
        remarks = (*matrix.notes, f"not estimable: {matrix.problem}" if matrix.problem else "")
        for note in filter(None, remarks):
            keys_by_note.setdefault(note, []).append(key)
    notes = [
        note if len(keys) == len(matrices) else f"in {', '.join(keys)}: {note}"
        for note, keys in keys_by_note.items()
    ]
    if any(len(matrix.judges) > 2 for matrix in matrices.values()):
        notes.append(
            "one severe judge makes each of the others look lenient, for the leniencies add up to zero"
        )
    if is_clustered:
        shared = any(len(set(m.bases)) < len(m.bases) for m in matrices.values() if m.bases is not None)
        reason = "several answers share a base" if shared else "each base has one answer"
        notes.append(
            f"{reason}: intervals leave out one base at a time; that of ICC(A,.) holds for judges drawn anew, and the "
            "others for these judges"
        )
    elif all(matrix.bases is None for matrix in matrices.values()):
        notes.append("no base is known: all intervals take the answers as independent")
    return tuple(notes)


ICC_METHOD = "one-way analysis of variance; jackknife over bases, ln F scale"
SD_METHOD = "one-way analysis of variance; jackknife over bases, log scale"
POINTS = "score points"
_DETECTABLE = "smallest detectable difference"
_KEYS = ("target", "judge", "repeat")
_Squares = tuple[np.ndarray, np.ndarray, np.ndarray]


@over_clusters
def retest(ratings: pd.DataFrame) -> Mapping[tuple[str, str], tuple[Estimate, Estimate, Estimate]]:
    r"""Return for each dimension and judge ICC(1,1), SD and smallest detectable difference of its own repeats.

    With answers :math:`i` scored :math:`m_i` times by the same judge and the mean squares between (b) and within (w)
    answers, :math:`ICC(1,1) = (b - w) / (b + (m_0 - 1) w)`, :math:`m_0 = (N - \sum m_i^2 / N) / (U - 1)`; the standard
    deviation within answers is :math:`\sqrt w`, and the smallest detectable difference :math:`1.96 \sqrt 2 \sqrt w`.
    Repeats have no order, so a drift between them counts as noise. Intervals are the jackknife over bases, of
    :math:`\ln F` and of :math:`\ln w`.

    References
    ----------
    Shrout & Fleiss (1979), Psychol. Bull. 86, 420-428. Bland & Altman (1996), BMJ 313, 744, for the SD. Searle,
    Casella & McCulloch (1992), Variance Components, section 3.6, for unequal numbers.

    Examples
    --------
    >>> rows = [("a", 1, 4.0), ("a", 2, 4.5), ("b", 1, 2.0), ("b", 2, 2.0), ("c", 1, 3.0), ("c", 2, 3.5)]
    >>> frame = pd.DataFrame(rows, columns=["target", "repeat", "score"]).assign(judge="primary")
    >>> icc, sd, detectable = retest(frame)["score", "primary"]
    >>> round(icc.estimate, 3), round(sd.estimate, 3)
    (0.937, 0.289)
    """
    run_table.need_columns("repeated ratings", ratings, (*_KEYS, "score"))
    keys = [*_KEYS, *(["dimension"] if "dimension" in ratings else [])]
    several = counted(int(ratings.duplicated(keys).sum()), "duplicate ratings")
    first = f"retest: {several}, the first of target {{target}} by judge {{judge}}, repeat {{repeat}}"
    run_table.need_once(ratings, keys, f"{first}; keep one rating per target, judge and repeat")
    checked = ratings.assign(score=run_table.numbers_of("repeated ratings", ratings, "score", finite=True))
    named = checked if "dimension" in checked else checked.assign(dimension="score")
    parts = named.groupby("dimension", sort=False, observed=True)
    by_judge = ((key, part.groupby("judge", sort=True, observed=True)) for key, part in parts)
    return {(str(key), str(judge)): _judge_retest(rows) for key, part in by_judge for judge, rows in part}


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
    sd = replace(empty, name="SD within answers", method=SD_METHOD, unit=POINTS)
    if targets < 2:
        few = "answers scored more than once by this judge"
        icc, sd = (estimate.too_few(targets, few) for estimate in (empty, sd))
        return icc, sd, replace(sd, name=_DETECTABLE)
    scale = float(repeated["score"].abs().max()) or 1.0
    table = _sums((repeated["score"] - repeated["score"].mean()) / scale, repeated["target"], codes)
    total, jackknife_values = map(_mean_squares, total_and_jackknife(table))
    within, between = float(total[0][0]), float(total[1][0])
    sd = sd.with_value(scale * math.sqrt(within))
    if max(within, between) <= ROUNDING**2:
        icc = empty.not_estimable("every score is the same")
        sd = sd.no_interval("the judge repeated itself exactly")
    elif within <= ROUNDING * between:
        icc = empty.with_value(1.0).no_interval("the judge repeated itself exactly")
        sd = sd.with_value(0.0).no_interval(icc.reason)
    else:
        icc = _icc(empty, total, jackknife_values)
        sd = with_jackknife(sd, scale * np.sqrt(jackknife_values[0]), np.log, np.exp)
    icc, sd = (replace(estimate, note=note).with_note(estimate.note) for estimate in (icc, sd))
    factor = 1.959963984540054 * math.sqrt(2)
    return icc, sd, replace(sd.mapped(lambda end: factor * end), name=_DETECTABLE)


def _icc(empty: Estimate, total: _Squares, jackknife_values: _Squares) -> Estimate:
    """Return ICC(1,1), whose F is b/w where every answer has as many repeats."""

    def icc(w: np.ndarray, b: np.ndarray, m: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((b - w) / (b + (m - 1) * w))

    k = float(total[2][0])
    estimate = empty.with_value(float(icc(*total)[0]))
    bound = with_jackknife(
        estimate,
        icc(*jackknife_values),
        lambda rho: intraclass.log_f(rho, k),
        lambda z: intraclass.from_log_f(z, k)[0],
    )
    if bound.low is None or bound.high is None:
        return bound
    return intraclass.with_interval(replace(estimate, degrees=bound.degrees), bound.low, bound.high)


def _bases(rows: pd.DataFrame) -> tuple[np.ndarray, int, bool]:
    """Return the base of each row as a number, how many there are, and whether bases are known at all."""
    has_bases = "unit" in rows and bool(
        len(rows) and rows["unit"].notna().all() and rows.groupby("target")["unit"].nunique().eq(1).all()
    )
    codes, names = pd.factorize(rows["unit" if has_bases else "target"].astype(object))
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


PER_TOKENS = 100
COUNTED = "a complete count"
_COLUMNS = ("run_id", "base", "judge", "failed", "aud_cost")


@over_clusters
def compare_judges(
    judgements: pd.DataFrame, replies: pd.DataFrame, *, leniency: Mapping[str, Estimate], score: str = SCORE
) -> Result:
    """Return each judge beside the others, from what all of them gave the same answers.

    ``judgements`` has one row a judgement: where there is a ``judge_repeat``, scores are averaged over the times that
    a judge judged a run, and each time counts for cost and failures. ``replies`` has the length of each judged run in
    output_tokens. ``leniency`` is by judge, as the agreement of the judges has it. The slope on the length of the
    reply is of the score less the mean of the others, so that better replies, which may be longer, are no bias.
    Failures and cost are complete counts and have no interval.
    """
    run_table.need_columns("judgements", judgements, (*_COLUMNS, score))
    run_table.need_columns("replies", replies, ("run_id", "output_tokens"))
    judgements = judgements.assign(judge=judgements["judge"].astype(str))
    # A failed judgement is missing in the mean of the others, never a zero.
    scored = judgements[judgements[score].notna()]
    wide = scored.groupby(["run_id", "judge"])[score].mean().unstack().astype("float64")
    answers = judgements.drop_duplicates("run_id").set_index("run_id")[["unit"]]
    answers = answers.join(replies.drop_duplicates("run_id").set_index("run_id")["output_tokens"])
    unit = f"{run_table.Points(run_table.scale_of(judgements))} per {PER_TOKENS} tokens of reply"
    estimates: list[Estimate] = []
    for judge, rows in judgements.groupby("judge", sort=False):
        name = str(judge)
        others = wide.drop(columns=[name], errors="ignore").mean(axis=1)
        compared = answers.assign(own=wide.get(name), others=others)
        compared = compared.astype({"own": "float64", "others": "float64"})
        compared["beyond"] = compared["own"] - compared["others"]
        complete = compared.dropna(subset=["beyond"])
        measured = complete.dropna(subset=["output_tokens"])
        tokens, missing = measured["output_tokens"].astype(float) / PER_TOKENS, len(compared) - len(measured)
        count = float(rows["failed"].astype(bool).sum())
        # Equal requests are one call, paid for once.
        calls = rows.drop_duplicates("call_id") if "call_id" in rows else rows
        paid = calls["aud_cost"].dropna()
        cost = Estimate(
            f"cost of {name}", total_aud(paid), unit="AUD", n={"calls": len(paid)}, reason=COUNTED
        )
        of_judge = {
            "leniency": leniency.get(name),
            "correlation": coefficients.clustered_pearson(
                f"correlation of {name} with the other judges",
                complete["own"],
                complete["others"],
                list(complete["unit"]),
                missing=len(compared) - len(complete),
            ),
            "slope": clustered_slope(
                f"slope on reply length of {name}, against the other judges",
                tokens,
                measured["beyond"],
                list(measured["unit"]),
                unit=unit,
                missing=missing,
            ),
            "failed": Estimate(
                f"failed judgements of {name}",
                count,
                unit="judgements",
                n={"judgements": len(rows)},
                reason=COUNTED,
            ),
            "cost": cost.not_estimable("no call has a known cost") if paid.empty else cost,
        }
        estimates += [
            replace(estimate, statistic=statistic, facets={"judge": name})
            for statistic, estimate in of_judge.items()
            if estimate is not None
        ]
    return Result("compare_judges", estimates=estimates)


SHARE = "share of required elements"


def required_elements(elements: pd.DataFrame, runs: pd.DataFrame) -> Result:
    r"""Return what the judges found of the required elements, and how far the rubric agrees with it.

    Parameters
    ----------
    elements
        One row a run and judge: run_id, cluster, level, judge, share (0 to 1, NaN where it could not be read).
    runs
        One row a run: run_id, and the rubric's composite and composite_strict.

    Returns
    -------
    Result
        The mean share of each length bin over runs, the judges' mean taken first (Student t, clustered by base);
        Krippendorff's :math:`\alpha` (interval) between the judges' shares; and Pearson's r of a run's share with its
        composite, by the jackknife over bases.

    Raises
    ------
    InputError
        When a column is missing.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for the means. Krippendorff (2011), Computing Krippendorff's alpha-reliability.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("wxyz"), "cluster": list("abcd"), "level": "S", "judge": "primary"})
    >>> runs = runs.assign(share=[0.5, 1.0, 0.75, 0.0], composite=[3.0, 4.5, 4.0, 1.0])
    >>> runs = runs.assign(composite_strict=runs["composite"])
    >>> found = required_elements(runs, runs[["run_id", "composite", "composite_strict"]])
    >>> found.shares[0].estimate, round(found.rubric[0].estimate, 2)
    (0.5625, 0.99)
    """
    run_table.need_columns("required elements", elements, ("run_id", "cluster", "level", "judge", "share"))
    run_table.need_columns("runs", runs, ("run_id", *COMPOSITES))
    wide = elements.pivot_table(index="run_id", columns="judge", values="share", observed=True, dropna=False)
    runs_index = elements.drop_duplicates("run_id").set_index("run_id")[["cluster", "level"]]
    means = runs_index.join(wide.mean(axis=1).rename("share")).join(
        runs.set_index("run_id")[list(COMPOSITES)]
    )
    clusters = runs_index.loc[wide.index, "cluster"].tolist()
    shares: list[Estimate] = []
    for level in run_table.levels_of(runs):
        in_bin = means[means["level"] == level].rename(columns={"cluster": "unit"})
        if len(in_bin):
            mean = of_rows(
                f"{SHARE}, {level}",
                in_bin,
                "share",
                partial(bounded_mean, limits=(0.0, 1.0)),
                counts=("bases", "answers"),
                nothing="no judgement could be read",
                method=CLUSTERED,
                unit="share",
            )
            shares.append(mean)
    rubric: list[Estimate] = []
    for composite in COMPOSITES:
        complete = means.dropna(subset=["share", composite])
        pair, bases = f"{SHARE} with {composite}", complete["cluster"].tolist()
        scores, missing = complete[composite].astype(float), len(means) - len(complete)
        r = coefficients.clustered_pearson(f"r of {pair}", complete["share"], scores, bases, missing=missing)
        rubric.append(replace(r, statistic="r", facets={"pair": pair}))
    alpha = coefficients.krippendorff_alpha(wide.to_numpy(float), clusters)
    return Result("required_elements", shares=shares, alpha=alpha, rubric=rubric)
