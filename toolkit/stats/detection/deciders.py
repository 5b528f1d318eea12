"""What each way of deciding made of one labelled set: rates, agreement, cost, and who is right more often."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.kappa import cohen_kappa, fleiss_kappa
from toolkit.stats.detection.rates import RATES, Classification, auc, classify, mcnemar
from toolkit.stats.inference.multiplicity import with_holm
from toolkit.stats.result import Estimate

MAJORITY: Final = "always the majority"
LENGTH: Final = "length alone"


def majority_decisions(labels: Sequence[bool]) -> tuple[bool, ...]:
    """Return the more frequent label as the decision for every item; "no" where both are as frequent."""
    yes = sum(map(bool, labels))
    return (2 * yes > len(labels),) * len(labels)


def length_decisions(labels: Sequence[bool], lengths: Sequence[float]) -> tuple[bool | None, ...]:
    r"""Decide every item by the threshold on length that fits all *other* items best.

    "Longer than t" or "not longer than t", whichever threshold half-way between two lengths gives the higher mean
    of sensitivity and specificity on the others. Fitted to all items instead, thresholds look better than they are.
    Balanced accuracy is fitted because the most accurate threshold of equally many cases and others would favour,
    for each item left out, the other label. Where a set was balanced in length on purpose the share of right decisions
    may come out well below one half; the area under the curve of length, which `baselines` gives beside it, does not.

    Examples
    --------
    >>> length_decisions([True, True, True, False, False, False], [9, 8, 7, 3, 2, 1])
    (True, True, True, False, False, False)
    """
    if len(labels) != len(lengths):
        raise InputError(f"{len(labels)} labels and {len(lengths)} lengths; give a length for each label")
    truth, size = np.asarray(labels, dtype=bool), np.asarray(lengths, dtype=float)
    values, places = np.unique(size, return_inverse=True)
    counts = np.zeros((2, len(values)), dtype=int)
    np.add.at(counts, (truth.astype(int), places), 1)
    # Items of the same label and length are left out with the same result.
    found: dict[tuple[bool, int], bool | None] = {}
    for label, place in zip(truth.tolist(), places.tolist(), strict=True):
        if (label, place) not in found:
            others = counts.copy()
            others[int(label), place] -= 1
            found[label, place] = _decide(values, others, place)
    return tuple(found[key] for key in zip(truth.tolist(), places.tolist(), strict=True))


def _decide(values: np.ndarray, counts: np.ndarray, place: int) -> bool | None:
    """Decide a length by the best threshold on what is counted: others and cases of each length."""
    others, cases = counts.sum(axis=1)
    if not (others and cases):
        return None
    there = counts.sum(axis=0) > 0
    kept, counted = values[there], counts[:, there]
    thresholds = np.concatenate([[-np.inf], (kept[1:] + kept[:-1]) / 2])
    upto = np.concatenate([[[0], [0]], counted.cumsum(axis=1)[:, :-1]], axis=1)
    longer = ((cases - upto[1]) / cases + upto[0] / others) / 2
    up, down = int(longer.argmax()), int(longer.argmin())
    if longer[up] >= 1 - longer[down]:
        return bool(values[place] > thresholds[up])
    return not values[place] > thresholds[down]


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
    def is_baseline(self) -> bool:
        """Whether it asked nobody."""
        return not self.mode

    @property
    def label(self) -> str:
        """How a figure and a table call it."""
        return self.judge if self.is_baseline else f"{self.judge} ({self.model}), {self.mode}"

    @property
    def aud_per_correct(self) -> float | None:
        """AUD for one correct verdict; None without one, and for a baseline."""
        right = self.found.counts.right
        return self.aud / right if self.aud is not None and right else None

    @property
    def unreadable_share(self) -> float | None:
        """Share of the replies that gave no vote; None where nothing was asked."""
        return self.unreadable / self.replies if self.replies else None

    def estimates(self) -> tuple[Estimate, ...]:
        """Return everything that has an interval: rates, strict rates, kappa, AUC, agreement."""
        more = [one for one in (self.kappa, self.auc, self.agreement) if one is not None]
        return (*self.found.rates, *self.found.strict, *more)


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
    >>> one = decider("primary", "gpt-4o", "cot", labels=[True, False], decisions=[True, False], aud=0.5)
    >>> one.found.rate("accuracy").estimate, one.aud_per_correct
    (1.0, 0.25)
    """
    here = [place for place in range(len(labels)) if asked is None or asked[place]]
    truth, made = [labels[place] for place in here], [decisions[place] for place in here]
    shared = [bases[place] for place in here] if bases is not None else None
    given = None if votes is None else [votes[place] for place in here]
    sides = None if given is None else [[_side(vote) for vote in item] for item in given]
    kappa = cohen_kappa(
        truth, made, name="Cohen's kappa with the label", raters=("label", "judge"), clusters=shared
    )
    return Decider(
        judge,
        model,
        mode,
        tuple(decisions),
        classify(truth, made, shared),
        kappa,
        None if scores is None else auc(truth, [scores[place] for place in here], shared),
        None if sides is None else fleiss_kappa(sides, name="Fleiss' kappa among the votes", clusters=shared),
        aud,
        sum(map(len, given or ())),
        unreadable,
        len(labels) - len(here),
    )


def baselines(
    labels: Sequence[bool], lengths: Sequence[float], bases: Sequence[Hashable] | None = None
) -> tuple[Decider, Decider]:
    """Return what a judge must beat on the same items: "always the majority" and "length alone".

    Examples
    --------
    >>> most, length = baselines([True, True, False, False, False], [9, 8, 3, 2, 1])
    >>> most.found.rate("accuracy").estimate, length.found.rate("accuracy").estimate
    (0.6, 1.0)
    """
    most = decider(MAJORITY, "", "", labels=labels, decisions=majority_decisions(labels), bases=bases)
    decided = length_decisions(labels, lengths)
    length = decider(LENGTH, "", "", labels=labels, decisions=decided, scores=lengths, bases=bases)
    return most, length


def compare_deciders(
    labels: Sequence[bool],
    deciders: Sequence[Decider],
    against: Sequence[Decider] = (),
    bases: Sequence[Hashable] | None = None,
) -> tuple[Estimate, ...]:
    """Return which of two is right more often, for every pair, with p values corrected for the number of pairs."""
    pairs = [(a, b) for a in deciders for b in against] if against else list(combinations(deciders, 2))
    found = [
        mcnemar(labels, a.decisions, b.decisions, name=f"accuracy: {a.label} - {b.label}", clusters=bases)
        for a, b in pairs
    ]
    return with_holm(found, "tests")


def deciders_frame(deciders: Sequence[Decider]) -> pd.DataFrame:
    """Return one row per judge and mode, and per baseline."""
    return pd.DataFrame([_row(one) for one in deciders])


def _row(one: Decider) -> dict[str, Any]:
    counts = one.found.counts
    shown: dict[str, Estimate | None] = {
        **{rate.replace(" ", "_").lower(): one.found.rate(rate) for rate in RATES},
        "accuracy_undecided_wrong": one.found.rate("accuracy", strict=True),
        "kappa": one.kappa,
        "agreement": one.agreement,
        "auc": one.auc,
    }
    row: dict[str, Any] = {"judge": one.judge, "model": one.model, "mode": one.mode, "n": counts.items}
    row |= {"decided": counts.decided, "undecided": counts.undecided, "unasked": one.unasked}
    for name, found in shown.items():
        values = (None,) * 3 if found is None else (found.estimate, found.low, found.high)
        row |= {
            f"{name}{end}": _number(value) for end, value in zip(("", "_low", "_high"), values, strict=True)
        }
    row |= {"aud": _number(one.aud), "aud_per_correct": _number(one.aud_per_correct)}
    row |= {"replies": one.replies, "unreadable": one.unreadable}
    return row | {"unreadable_share": _number(one.unreadable_share)}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _side(vote: float | None) -> bool | None:
    return None if vote is None or abs(vote - 0.5) < 1e-9 else vote > 0.5
