"""How far the judges agree: ICC, Cronbach's alpha and Pearson, with intervals and what was left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.alpha import alpha_of_matrix, alpha_over_dimensions, alpha_over_judges
from toolkit.stats.agreement.correlations import pearson_between_judges
from toolkit.stats.agreement.icc import FORMS, icc_estimates
from toolkit.stats.agreement.ratings import RatingMatrix, rating_matrix
from toolkit.stats.agreement.retest import retest
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.inference.run_table import need_columns, need_labels, numbers_of
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import COMPOSITES, DIMENSIONS, SCORE

# Leniency of a judge is error here, so absolute agreement leads (DESIGN, section 7).
ROW_ORDER = ("ICC(A,1)", "ICC(A,k)", "ICC(1,1)", "ICC(1,k)", "ICC(C,1)", "ICC(C,k)")
_KEY_ORDER = (*DIMENSIONS, *COMPOSITES)


@dataclass(frozen=True)
class Reliability(Result):
    """What is known of the agreement of the judges.

    Each mapping goes from a dimension (``score`` where there is none) to its results. ``icc`` has intervals clustered
    by base where bases are known, and F intervals otherwise; those of ICC(A,.) hold for judges drawn anew, and
    ``icc_these_judges`` repeats them for these judges only. ``krippendorff`` is the alpha that also uses answers which
    not all judges scored, ``leniency`` is by judge. ``retest`` says by dimension and judge how far it repeats its own
    scores, ``notes`` what was left out, refused or unusual.
    """

    icc: Mapping[str, Estimates]
    icc_these_judges: Mapping[str, Estimates]
    alpha_over_judges: Mapping[str, Estimate]
    alpha_over_dimensions: Estimate | None
    pearson: Mapping[str, Estimates]
    krippendorff: Mapping[str, Estimate]
    leniency: Mapping[str, Mapping[str, Estimate]]
    notes: tuple[str, ...]
    retest: Mapping[tuple[str, str], Estimates] = field(default_factory=dict)
    about = "dimension"

    def headline(self) -> Iterator[tuple[str, Estimate]]:
        """Return ICC, alpha and Pearson of the composite, or the only dimension, and alpha over dimensions."""
        key = next(name for name in (SCORE, "composite", *self.icc) if name in self.icc)
        over = [] if self.alpha_over_dimensions is None else [self.alpha_over_dimensions]
        icc = sorted(self.icc[key], key=lambda estimate: not estimate.name.startswith("ICC(A"))
        return (
            (key, estimate) for estimate in (*icc, self.alpha_over_judges[key], *over, *self.pearson[key])
        )

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Yield every result with its dimension, ICC(A,.) before other forms."""
        for key, results in self.icc.items():
            for family in (results, self.icc_these_judges[key]):
                # The name may go on: "ICC(A,1), these judges".
                ordered = sorted(family, key=lambda result: ROW_ORDER.index(result.name[:8]))
                yield from ((key, result) for result in ordered)
            yield key, self.alpha_over_judges[key]
            yield key, self.krippendorff[key]
            yield from ((key, result) for result in (*self.pearson[key], *self.leniency[key].values()))
        if self.alpha_over_dimensions is not None:
            yield "all dimensions", self.alpha_over_dimensions
        for (key, judge), repeated in self.retest.items():
            yield from ((key, replace(estimate, name=f"{estimate.name}, {judge}")) for estimate in repeated)


@over_clusters
def reliability(ratings: pd.DataFrame, repeats: pd.DataFrame | None = None) -> Reliability:
    """Measure the agreement of the judges, for each dimension apart.

    Answers that not every judge scored are left out of ICC and alpha (complete cases) and counted; a missing
    rating is never a zero. Duplicates and infinite scores are refused with a reason, not averaged or dropped.
    Where the data support no number there is none, and the note says why. P values are left out on purpose:
    that a reliability is zero is nobody's hypothesis.

    Parameters
    ----------
    ratings
        One row per rating with target, judge, score (NaN where missing), and optionally dimension, and base
        where several targets belong together.
    repeats
        The same before a judge's repeats were averaged, with the column repeat, for test-retest.

    References
    ----------
    Shrout & Fleiss (1979), Psychological Bulletin 86, 420-428. McGraw & Wong (1996), Psychological Methods 1,
    30-46. Koo & Li (2016), Journal of Chiropractic Medicine 15, 155-163.

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
    matrices = {str(key): rating_matrix(by_dimension[key], targets, judges) for key in keys}
    icc = {key: icc_estimates(matrix) for key, matrix in matrices.items()}
    return Reliability(
        icc={key: forms[: len(FORMS)] for key, forms in icc.items()},
        icc_these_judges={key: forms[len(FORMS) :] for key, forms in icc.items()},
        alpha_over_judges={key: alpha_over_judges(matrix) for key, matrix in matrices.items()},
        alpha_over_dimensions=alpha_over_dimensions(checked) if "dimension" in checked else None,
        pearson={key: pearson_between_judges(matrix) for key, matrix in matrices.items()},
        krippendorff={key: alpha_of_matrix(matrix) for key, matrix in matrices.items()},
        leniency={key: judge_leniency(matrix) for key, matrix in matrices.items()},
        notes=_notes(matrices, is_clustered=any(len(forms) > len(FORMS) for forms in icc.values())),
        retest=retest(repeats) if repeats is not None and len(repeats) else {},
    )


def judge_leniency(matrix: RatingMatrix) -> dict[str, Estimate]:
    r"""Return how lenient each judge is beside the others.

    The leniency of judge j is the mean of :math:`x_{ij} - \bar x_{i,-j}` over the answers that it and another
    judge scored, with the t interval clustered by base (Miller 2024). These add up to zero: one severe judge makes each
    of the others look lenient (in 30 % of studies of 12 bases where it was severe by half a point), and the difference
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


def _checked(ratings: pd.DataFrame) -> pd.DataFrame:
    need_columns("ratings", ratings, ("target", "judge", "score"))
    if ratings.empty:
        raise InputError("ratings: there are none; give one row per rating")
    names = ("target", "judge", "score", "dimension", "base", "situation")
    checked = ratings[[name for name in names if name in ratings]].reset_index(drop=True)
    need_labels("ratings", checked, [name for name in ("target", "judge", "dimension") if name in checked])
    return checked.assign(score=numbers_of("ratings", checked, "score"))


def _notes(matrices: Mapping[str, RatingMatrix], is_clustered: bool) -> tuple[str, ...]:
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
