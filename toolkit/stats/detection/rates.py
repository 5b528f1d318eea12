"""How well yes/no decisions match labels, and how often they are yes where there are no labels."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.comparisons.models import rate_difference
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import LEVEL, p_by_inversion
from toolkit.stats.inference.proportions import mover, share, wilson
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import choices

MCNEMAR_METHOD = "exact McNemar test; interval of Newcombe (1998), method 10"
AUC_METHOD = "logit of DeLong, DeLong & Clarke-Pearson (1988)"
AUC_CLUSTERED = "logit of DeLong, clustered by base (Obuchowski 1997; CR2), Student t"
F1_METHOD = "of F1 / (2 - F1) (Lam, Gopal & Qian 2023)"
BALANCED_METHOD = "MOVER of two Wilson intervals (Zou & Donner 2008)"
RATES = ("accuracy", "sensitivity", "specificity", "precision", "F1", "balanced accuracy")
"""Names of the rates, in the order in which they are reported."""
STRICT = "undecided counted as wrong"  # ends the name of a rate of the second reading
UNIT = "share of items"
SHARE = "share of yes"


@dataclass(frozen=True)
class Confusion:
    """How often labels and decisions met; a decision that is missing is neither right nor wrong."""

    tp: int
    fn: int
    tn: int
    fp: int
    undecided_yes: int = 0
    undecided_no: int = 0

    @property
    def decided(self) -> int:
        """Items with a decision."""
        return self.tp + self.fn + self.tn + self.fp

    @property
    def undecided(self) -> int:
        """Items without a decision."""
        return self.undecided_yes + self.undecided_no

    @property
    def items(self) -> int:
        """All items."""
        return self.decided + self.undecided

    @property
    def right(self) -> int:
        """Items decided as their label says."""
        return self.tp + self.tn


@dataclass(frozen=True)
class Classification:
    """Every rate of one set of decisions, and again with what is undecided counted as wrong."""

    counts: Confusion
    rates: Estimates
    strict: Estimates

    def rate(self, name: str, *, strict: bool = False) -> Estimate:
        """Return one rate by its name, e.g. ``"sensitivity"``; of the second reading where ``strict``."""
        if name not in RATES:
            raise InputError(f"rate {name!r}: {choices(name, RATES)}")
        return (self.strict if strict else self.rates)[RATES.index(name)]


def confusion(labels: Sequence[bool], decisions: Sequence[bool | None]) -> Confusion:
    """Count how labels and decisions meet."""
    _equally_long(labels, "decisions", decisions)
    if any(label is None for label in labels):
        raise InputError("an item has no label; decisions can be compared with labels only, so leave it out")
    counts = Counter(
        (bool(label), None if decision is None else bool(decision))
        for label, decision in zip(labels, decisions, strict=True)
    )
    yes, no = ([counts[label, decision] for decision in (True, False, None)] for label in (True, False))
    return Confusion(tp=yes[0], fn=yes[1], tn=no[1], fp=no[0], undecided_yes=yes[2], undecided_no=no[2])


def classify(
    labels: Sequence[bool], decisions: Sequence[bool | None], clusters: Sequence[Hashable] | None = None
) -> Classification:
    r"""Return accuracy, sensitivity, specificity, precision, F1 and balanced accuracy with their intervals.

    Rates are shares with Wilson's interval, which allows for clusters where items share a question. F1 is a monotone
    function of the share :math:`F^* = TP / (TP + FP + FN) = F_1 / (2 - F_1)`, whose Wilson interval is carried over.
    Balanced accuracy is :math:`(Se + Sp) / 2` with :math:`\tfrac12 \sqrt{(Se - l_{Se})^2 + (Sp - l_{Sp})^2}` below and
    likewise above. In simulated sets of 36 + 36 and 100 + 100 items the intervals cover 93-97 %; where the numbers of
    each label are fixed, those of F1 and precision are too wide and never too short.

    References
    ----------
    Lam, Gopal & Qian (2023), arXiv:2309.14621 (the "indirect" Wilson interval of F1). Zou & Donner (2008), Statistics
    in Medicine 27, 1693-1702.

    Examples
    --------
    >>> found = classify([True] * 4 + [False] * 4, [True, True, True, False, False, False, False, None])
    >>> found.rate("sensitivity").estimate, found.rate("specificity").estimate
    (0.75, 1.0)
    >>> found.rate("specificity", strict=True).estimate
    0.75
    """
    counts = confusion(labels, decisions)
    groups: Sequence[Hashable] = range(len(labels)) if clusters is None else clusters
    _equally_long(labels, "clusters", groups)
    rows = list(zip(map(bool, labels), decisions, groups, strict=True))
    decided = [(label, bool(decision), group) for label, decision, group in rows if decision is not None]
    strict = [(label, (not label) if d is None else bool(d), group) for label, d, group in rows]
    clustered = clusters is not None
    rates = _rates(decided, "", counts.undecided, clustered)
    return Classification(counts, rates, _rates(strict, f", {STRICT}", 0, clustered))


def _rates(
    rows: Sequence[tuple[bool, bool, Hashable]], ending: str, missing: int, clustered: bool
) -> Estimates:
    def rate(name: str, cases: Sequence[tuple[bool, bool, Hashable]]) -> Estimate:
        right = [label == decision for label, decision, _ in cases]
        groups = [group for _, _, group in cases] if clustered else None
        return share(name + ending, right, groups, what="items", missing=missing)

    sensitivity = rate("sensitivity", [row for row in rows if row[0]])
    specificity = rate("specificity", [row for row in rows if not row[0]])
    precision = rate("precision", [row for row in rows if row[1]])
    # F1 follows from the share that is right among items that are cases or were decided to be.
    jaccard = rate("F1", [row for row in rows if row[0] or row[1]])
    limits = (jaccard.estimate, jaccard.low, jaccard.high)
    middle, low, high = (None if end is None else 2 * end / (1 + end) for end in limits)
    reason = jaccard.reason and "no item is a case, and none was decided to be one"
    method, n = f"{jaccard.method} {F1_METHOD}", {**jaccard.n, "items": len(rows)}
    f1 = replace(jaccard, estimate=middle, low=low, high=high, method=method, n=n, reason=reason)
    n = {"items": len(rows)}
    balanced = Estimate("balanced accuracy" + ending, method=BALANCED_METHOD, unit=UNIT, n=n, missing=missing)
    values = [(side.estimate, side.low, side.high) for side in (sensitivity, specificity)]
    if None in values[0] + values[1]:
        balanced = balanced.not_estimable("there are items of one label only")
    else:
        (a, *a_ends), (b, b_low, b_high) = np.array(values, dtype=float).tolist()
        low, high = mover(a, tuple(a_ends), -b, (-b_high, -b_low))
        balanced = balanced.with_value((a + b) / 2, max(0.0, low / 2), min(1.0, high / 2))
    return rate("accuracy", rows), sensitivity, specificity, precision, f1, balanced


def mcnemar(
    labels: Sequence[bool],
    first: Sequence[bool | None],
    second: Sequence[bool | None],
    name: str = "accuracy: first - second",
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return the difference of two accuracies on the same items, with McNemar's exact p value.

    Of the :math:`b + c` items that one of the two has right and the other wrong, b is binomial with share 1/2 where
    the two are equally good; p is two-sided. The interval puts the two Wilson intervals together and allows for the
    correlation of the two (Newcombe's hybrid score interval without continuity correction), and reaches 0 where the
    exact test does not reject it; P is the larger of that test's and the interval's. Where items share clusters both
    are those of `toolkit.stats.comparisons.models`.

    References
    ----------
    McNemar (1947), Psychometrika 12, 153-157. Newcombe (1998), Statistics in Medicine 17, 2635-2650.

    Examples
    --------
    >>> truth = [True] * 10
    >>> found = mcnemar(truth, [True] * 9 + [False], [True] * 3 + [False] * 7)
    >>> found.estimate, found.p_value
    (0.6, 0.03125)
    """
    _equally_long(labels, "decisions", first)
    _equally_long(labels, "decisions", second)
    items = [index for index, pair in enumerate(zip(first, second, strict=True)) if None not in pair]
    pairs = [(bool(first[i]) == bool(labels[i]), bool(second[i]) == bool(labels[i])) for i in items]
    n, missing = len(pairs), len(labels) - len(pairs)
    empty = Estimate(name, method=MCNEMAR_METHOD, unit=UNIT, n={"items": n}, missing=missing)
    if not n:
        return empty.not_estimable("no item is decided by both")
    bases = None if clusters is None else [clusters[index] for index in items]
    if bases is not None and len(set(bases)) < n:
        difference = rate_difference(name, [a for a, _ in pairs], [b for _, b in pairs], bases, unit=UNIT)
        return replace(difference, n={"items": n, "bases": len(set(bases))}, missing=missing)
    b, c = pairs.count((True, False)), pairs.count((False, True))
    right, wrong = pairs.count((True, True)), pairs.count((False, False))
    margins = (right + b) * (c + wrong) * (right + c) * (b + wrong)
    determinant = float(right * wrong - b * c)
    if determinant > 0:  # the continuity correction of phi alone, as method 10 has it
        determinant = max(determinant - n / 2, 0.0)
    phi = determinant / math.sqrt(margins) if margins else 0.0
    hits = right + b, right + c

    def limits(confidence: float) -> tuple[float, float]:
        first_ends, second_ends = (wilson(right, n, confidence) for right in hits)
        return mover(hits[0] / n, first_ends, hits[1] / n, second_ends, phi)

    counts = {"items": n, "items only one has right": b + c}
    exact = min(1.0, 2 * float(special.bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0
    low, high = limits(empty.confidence)
    if exact >= LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    return empty.with_value((b - c) / n, low, high, n=counts, p_value=max(exact, p_by_inversion(limits)))


def auc(
    labels: Sequence[bool], scores: Sequence[float | None], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    r"""Return the chance that a case scores higher than a non-case; ties count one half.

    With m cases, n non-cases and :math:`\psi = 1, \tfrac12, 0` for a higher, equal and lower score, the area is the
    mean of :math:`\psi` over all pairs; its variance is that of the cases' means of :math:`\psi` over m plus that of
    the non-cases' over n. The interval is made on the logit scale, which keeps it within 0-1.

    References
    ----------
    DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44, 837-845; Qin & Hotilovac (2008), Statistical Methods in
    Medical Research 17, 207-221, for the logit. Obuchowski (1997), Biometrics 53, 567-578, for clusters.

    Examples
    --------
    >>> found = auc([True, True, True, False, False, False], [0.8, 0.6, 0.4, 0.6, 0.2, 0.0])
    >>> round(found.estimate, 4)
    0.8333
    """
    _equally_long(labels, "scores", scores)
    items = [index for index, score in enumerate(scores) if score is not None and not math.isnan(score)]
    truth = np.array([bool(labels[index]) for index in items], dtype=bool)
    values = np.array([scores[index] for index in items], dtype=float)
    cases, others = values[truth], values[~truth]
    n, missing = {"items": len(items)}, len(labels) - len(items)
    empty = Estimate("AUC", method=AUC_METHOD, n=n, missing=missing)
    if not (len(cases) and len(others)):
        return empty.not_estimable("there are no scores of both labels")
    case_means, other_means = _share_below(cases, others), 1 - _share_below(others, cases)
    area = float(case_means.mean())
    level = (1 + empty.confidence) / 2
    variances = [means.var(ddof=1) / len(means) for means in (case_means, other_means) if len(means) > 1]
    error = math.sqrt(sum(variances))
    quantile = float(special.ndtri(level))
    bases = None if clusters is None else [clusters[index] for index in items]
    if bases is not None and len(set(bases)) < len(bases):
        empty = replace(empty, method=AUC_CLUSTERED, n={**empty.n, "bases": len(set(bases))})
        influence = np.empty(len(values))
        influence[truth] = (case_means - area) * len(values) / len(cases)
        influence[~truth] = (other_means - area) * len(values) / len(others)
        mean = clustered_mean(influence, bases)
        error, quantile = mean.error or 0.0, float(special.stdtrit(mean.degrees, level))
    empty = empty.with_value(area)
    if not (0 < area < 1 and error > 0 and min(len(cases), len(others)) > 1):
        return empty.no_interval("the scores do not vary enough for a standard error")
    half = quantile * error / (area * (1 - area))
    low, high = (float(special.expit(special.logit(area) + end)) for end in (-half, half))
    return replace(empty, low=low, high=high)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each value the share of the others that it exceeds, ties counted one half."""
    ordered = np.sort(others)
    below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return (below + upto) / (2 * len(others))


def _equally_long(labels: Sequence[bool], name: str, values: Sequence[object]) -> None:
    if len(labels) != len(values):
        raise InputError(f"{len(labels)} labels and {len(values)} {name}; give one for each label")


def hallucination_shares(verdicts: pd.DataFrame) -> Result:
    """Return the share of answers that each judge calls a hallucination, with an interval that allows for clusters.

    Parameters
    ----------
    verdicts
        One row an answer, judge and prompt (``mode``): cluster, model, judge, mode, decision (True for yes, missing
        where there is none), and length_bin where there are prompt lengths.

    Returns
    -------
    Result
        Shares of the decided answers (0 to 1) with Wilson's interval for what their clusters are worth. Models, and
        lengths, are told apart where there are two. An answer without a decision is missing, never a no.

    Raises
    ------
    InputError
        When a column is missing.

    References
    ----------
    Dean & Pagano (2015), Journal of Survey Statistics and Methodology 3, 484-503.

    Examples
    --------
    >>> verdicts = pd.DataFrame({"cluster": list("aabb"), "model": list("xyxy"), "judge": "primary", "mode": "cot"})
    >>> verdicts = verdicts.assign(decision=[True, False, True, None])
    >>> shares = hallucination_shares(verdicts).shares
    >>> [(estimate.label, estimate.estimate, estimate.missing) for estimate in shares[1:]]
    [('judge primary, cot, model x', 1.0, 0), ('judge primary, cot, model y', 0.0, 1)]
    """
    need_columns("shares of hallucination", verdicts, ("cluster", "model", "judge", "mode", "decision"))
    levels = [name for name in ("model", "length_bin") if name in verdicts and verdicts[name].nunique() > 1]
    shares = []
    for level in ((), *zip(levels, strict=True)):
        keys = ["judge", "mode", *level]
        for names, rows in verdicts.groupby(keys, observed=True):
            facets = dict(zip(keys, map(str, names), strict=True))
            decided = rows.dropna(subset="decision")
            yes, clusters = list(decided["decision"]), list(decided["cluster"])
            labels: dict[str, Any] = {"missing": len(rows) - len(yes), "statistic": SHARE, "facets": facets}
            shares.append(
                share(", ".join((SHARE, *facets.values())), yes, clusters, what="answers", **labels)
            )
    return Result("hallucination", shares=tuple(shares), verdicts=verdicts)
