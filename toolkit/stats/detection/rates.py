"""How well yes/no decisions match labels, how often they are yes without labels, and ways of deciding compared."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.agreement.coefficients import cohen_kappa, fleiss_kappa
from toolkit.stats.comparisons.models import rate_difference
from toolkit.stats.inference import proportions
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import LEVEL, p_by_inversion, with_holm
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate, Estimates, Result, wide
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
    likewise above.

    References
    ----------
    Lam, Gopal & Qian (2023), arXiv:2309.14621 (the "indirect" Wilson interval of F1). Zou & Donner (2008), Stat. Med.
    27, 1693-1702.

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
        return proportions.share(name + ending, right, groups, what="items", missing=missing)

    sensitivity = rate("sensitivity", [row for row in rows if row[0]])
    specificity = rate("specificity", [row for row in rows if not row[0]])
    precision = rate("precision", [row for row in rows if row[1]])
    # F1 follows from the share that is right among items that are cases or were decided to be.
    jaccard = rate("F1", [row for row in rows if row[0] or row[1]])
    reason = jaccard.reason and "no item is a case, and none was decided to be one"
    method, n = f"{jaccard.method} {F1_METHOD}", {**jaccard.n, "items": len(rows)}
    f1 = replace(jaccard.mapped(lambda end: 2 * end / (1 + end)), method=method, n=n, reason=reason)
    n = {"items": len(rows)}
    balanced = Estimate("balanced accuracy" + ending, method=BALANCED_METHOD, unit=UNIT, n=n, missing=missing)
    values = [(side.estimate, side.low, side.high) for side in (sensitivity, specificity)]
    if None in values[0] + values[1]:
        balanced = balanced.not_estimable("there are items of one label only")
    else:
        (a, *a_ends), (b, b_low, b_high) = np.array(values, dtype=float).tolist()
        low, high = proportions.mover(a, tuple(a_ends), -b, (-b_high, -b_low))
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
    McNemar (1947), Psychometrika 12, 153-157. Newcombe (1998), Stat. Med. 17, 2635-2650.

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
        first_ends, second_ends = (proportions.wilson(right, n, confidence) for right in hits)
        return proportions.mover(hits[0] / n, first_ends, hits[1] / n, second_ends, phi)

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
    DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44, 837-845; Qin & Hotilovac (2008), Stat. Methods Med. Res. 17,
    207-221, for the logit. Obuchowski (1997), Biometrics 53, 567-578, for clusters.

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
        where there is none), and level where there are prompt lengths.

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
    Dean & Pagano (2015), J. Surv. Stat. Methodol. 3, 484-503.

    Examples
    --------
    >>> verdicts = pd.DataFrame({"cluster": list("aabb"), "model": list("xyxy"), "judge": "primary", "mode": "cot"})
    >>> verdicts = verdicts.assign(decision=[True, False, True, None])
    >>> shares = hallucination_shares(verdicts).shares
    >>> [(estimate.label, estimate.estimate, estimate.missing) for estimate in shares[1:]]
    [('judge primary, cot, model x', 1.0, 0), ('judge primary, cot, model y', 0.0, 1)]
    """
    need_columns("shares of hallucination", verdicts, ("cluster", "model", "judge", "mode", "decision"))
    levels = [name for name in ("model", "level") if name in verdicts and verdicts[name].nunique() > 1]
    shares = []
    for level in ((), *zip(levels, strict=True)):
        keys = ["judge", "mode", *level]
        for names, rows in verdicts.groupby(keys, observed=True):
            facets = dict(zip(keys, map(str, names), strict=True))
            decided = rows.dropna(subset="decision")
            yes, clusters = list(decided["decision"]), list(decided["cluster"])
            labels: dict[str, Any] = {"missing": len(rows) - len(yes), "statistic": SHARE, "facets": facets}
            name = ", ".join((SHARE, *facets.values()))
            shares.append(proportions.share(name, yes, clusters, what="answers", **labels))
    return Result("hallucination", shares=shares, verdicts=verdicts)


MAJORITY = "always the majority"
LENGTH = "length alone"


def length_decisions(labels: Sequence[bool], lengths: Sequence[float]) -> tuple[bool | None, ...]:
    r"""Decide every item by the threshold on length that fits all *other* items best.

    "Longer than t" or "not longer than t", whichever threshold half-way between two lengths gives the higher mean of
    sensitivity and specificity on the others. Fitted to all items instead, thresholds look better than they are.
    Balanced accuracy is fitted because the most accurate threshold of equally many cases and others would favour, for
    each item left out, the other label. Where a set was balanced in length on purpose the share of right decisions may
    come out well below one half; the area under the curve of length, which `baselines` gives beside it, does not.
    """
    if len(labels) != len(lengths):
        raise InputError(f"{len(labels)} labels and {len(lengths)} lengths; give a length for each label")
    truth, size = np.asarray(labels, dtype=bool), np.asarray(lengths, dtype=float)
    values, indices = np.unique(size, return_inverse=True)
    counts = np.zeros((2, len(values)), dtype=int)
    np.add.at(counts, (truth.astype(int), indices), 1)

    @cache  # items of the same label and length are left out with the same result
    def decide(label: int, index: int) -> bool | None:
        others = counts.copy()  # no cases and cases of each length
        others[label, index] -= 1
        negatives, cases = others.sum(axis=1)
        if not (negatives and cases):
            return None
        counted = others.sum(axis=0) > 0
        lengths, others = values[counted], others[:, counted]
        thresholds = np.concatenate([[-np.inf], (lengths[1:] + lengths[:-1]) / 2])
        upto = np.concatenate([[[0], [0]], others.cumsum(axis=1)[:, :-1]], axis=1)
        longer = ((cases - upto[1]) / cases + upto[0] / negatives) / 2
        up, down = int(longer.argmax()), int(longer.argmin())
        if longer[up] >= 1 - longer[down]:
            return bool(values[index] > thresholds[up])
        return not values[index] > thresholds[down]

    return tuple(map(decide, truth.astype(int).tolist(), indices.tolist()))


@dataclass(frozen=True)
class Decider:
    """One judge in one mode, or one baseline, on a labelled set."""

    judge: str
    model: str
    mode: str
    decisions: tuple[bool | None, ...]
    found: Classification
    kappa: Estimate
    auc: Estimate | None = None
    agreement: Estimate | None = None
    aud: float | None = None
    replies: int = 0
    unreadable: int = 0
    unasked: int = 0

    @property
    def label(self) -> str:
        """How a figure and a table call it; a baseline asked nobody and has no mode."""
        return f"{self.judge} ({self.model}), {self.mode}" if self.mode else self.judge

    @property
    def aud_per_correct(self) -> float | None:
        """AUD for one correct verdict; None without one, and for a baseline."""
        right = self.found.counts.right
        return self.aud / right if self.aud is not None and right else None

    @property
    def unreadable_share(self) -> float | None:
        """Share of the replies that gave no vote; None where nothing was asked."""
        return self.unreadable / self.replies if self.replies else None

    def estimates(self) -> Estimates:
        """Return everything that has an interval: rates, strict rates, kappa, AUC, agreement."""
        optional = [estimate for estimate in (self.auc, self.agreement) if estimate is not None]
        return (*self.found.rates, *self.found.strict, self.kappa, *optional)


def decider(
    judge: str,
    model: str,
    mode: str,
    *,
    labels: Sequence[bool],
    decisions: Sequence[bool | None],
    asked: Sequence[bool] | None = None,
    bases: Sequence[Hashable] | None = None,
    scores: Sequence[float | None] | None = None,
    votes: Sequence[Sequence[float | None]] | None = None,
    aud: float | None = None,
    unreadable: int = 0,
) -> Decider:
    """Measure one way of deciding on a labelled set.

    Examples
    --------
    >>> judge = decider("primary", "gpt-4o", "cot", labels=[True, False], decisions=[True, False], aud=0.5)
    >>> judge.found.rate("accuracy").estimate, judge.aud_per_correct
    (1.0, 0.25)
    """
    items = [index for index in range(len(labels)) if asked is None or asked[index]]
    truth, decided = [labels[index] for index in items], [decisions[index] for index in items]
    clusters = None if bases is None else [bases[index] for index in items]
    sides = [] if votes is None else [[_side(vote) for vote in votes[index]] for index in items]
    name, raters = "Cohen's kappa with the label", ("label", "judge")
    among = "Fleiss' kappa among the votes"
    return Decider(
        judge,
        model,
        mode,
        tuple(decisions),
        found=classify(truth, decided, clusters),
        kappa=cohen_kappa(truth, decided, name=name, raters=raters, clusters=clusters),
        auc=None if scores is None else auc(truth, [scores[index] for index in items], clusters),
        agreement=None if votes is None else fleiss_kappa(sides, name=among, clusters=clusters),
        aud=aud,
        replies=sum(map(len, sides)),
        unreadable=unreadable,
        unasked=len(labels) - len(items),
    )


def baselines(
    labels: Sequence[bool], lengths: Sequence[float], bases: Sequence[Hashable] | None = None
) -> tuple[Decider, Decider]:
    """Return what a judge must beat on the same items: "always the majority" and "length alone".

    Examples
    --------
    >>> majority, length = baselines([True, True, False, False, False], [9, 8, 3, 2, 1])
    >>> majority.found.rate("accuracy").estimate, length.found.rate("accuracy").estimate
    (0.6, 1.0)
    """
    yes = sum(map(bool, labels))
    frequent = (2 * yes > len(labels),) * len(labels)  # "no" where both are as frequent
    by_length = length_decisions(labels, lengths)
    return (
        decider(MAJORITY, "", "", labels=labels, decisions=frequent, bases=bases),
        decider(LENGTH, "", "", labels=labels, decisions=by_length, scores=lengths, bases=bases),
    )


def compare_deciders(
    labels: Sequence[bool],
    deciders: Sequence[Decider],
    against: Sequence[Decider] = (),
    bases: Sequence[Hashable] | None = None,
) -> Estimates:
    """Return which of two is right more often, for every pair, with p values corrected for the number of pairs.

    Examples
    --------
    >>> truth = [True] * 6 + [False] * 4
    >>> first = decider("primary", "m", "cot", labels=truth, decisions=truth)
    >>> second = decider("secondary", "m", "cot", labels=truth, decisions=[True] * 10)
    >>> [(pair.name, pair.estimate, pair.p_value) for pair in compare_deciders(truth, [first, second])]
    [('accuracy: primary (m), cot - secondary (m), cot', 0.4, 0.125)]
    """
    pairs = [(a, b) for a in deciders for b in against] if against else list(combinations(deciders, 2))
    tests = [
        mcnemar(labels, a.decisions, b.decisions, name=f"accuracy: {a.label} - {b.label}", clusters=bases)
        for a, b in pairs
    ]
    return with_holm(tests, "tests")


def deciders_frame(deciders: Sequence[Decider]) -> pd.DataFrame:
    """Return one row per judge and mode, and per baseline.

    Examples
    --------
    >>> judge = decider("primary", "gpt-4o", "cot", labels=[True, False], decisions=[True, False], aud=0.5)
    >>> deciders_frame([judge])[["judge", "mode", "accuracy", "aud"]].to_dict("records")
    [{'judge': 'primary', 'mode': 'cot', 'accuracy': 1.0, 'aud': 0.5}]
    """
    rows = []
    for decider in deciders:
        counts = decider.found.counts
        row: dict[str, Any] = {name: getattr(decider, name) for name in ("judge", "model", "mode")}
        row |= {"n": counts.items, "decided": counts.decided, "undecided": counts.undecided}
        row["unasked"] = decider.unasked
        estimates = {rate.replace(" ", "_").lower(): decider.found.rate(rate) for rate in RATES}
        estimates["accuracy_undecided_wrong"] = decider.found.rate("accuracy", strict=True)
        optional = {name: getattr(decider, name) for name in ("kappa", "agreement", "auc")}
        row |= wide(estimates | optional)
        names = ("aud", "aud_per_correct", "replies", "unreadable", "unreadable_share")
        row |= {name: getattr(decider, name) for name in names}
        rows.append({name: math.nan if value is None else value for name, value in row.items()})
    return pd.DataFrame(rows)


def _side(vote: float | None) -> bool | None:
    return None if vote is None or abs(vote - 0.5) < 1e-9 else vote > 0.5
