"""What each way of deciding made of one labelled set: rates, agreement, cost, and who is right more often."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import cohen_kappa, fleiss_kappa
from toolkit.stats.detection.rates import RATES, Classification, auc, classify, mcnemar
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.result import Estimate, Estimates, wide

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
        judge, model, mode, tuple(decisions), found=classify(truth, decided, clusters),
        kappa=cohen_kappa(truth, decided, name=name, raters=raters, clusters=clusters),
        auc=None if scores is None else auc(truth, [scores[index] for index in items], clusters),
        agreement=None if votes is None else fleiss_kappa(sides, name=among, clusters=clusters), aud=aud,
        replies=sum(map(len, sides)), unreadable=unreadable, unasked=len(labels) - len(items),
    )  # fmt: skip


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
    """Return which of two is right more often, for every pair, with p values corrected for the number of pairs."""
    pairs = [(a, b) for a in deciders for b in against] if against else list(combinations(deciders, 2))
    tests = [
        mcnemar(labels, a.decisions, b.decisions, name=f"accuracy: {a.label} - {b.label}", clusters=bases)
        for a, b in pairs
    ]
    return with_holm(tests, "tests")


def deciders_frame(deciders: Sequence[Decider]) -> pd.DataFrame:
    """Return one row per judge and mode, and per baseline."""
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
