"""How many items really are cases, when the judge that counted them is known to err."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from scipy import special

from toolkit.errors import InputError
from toolkit.stats.detection.rates import Confusion
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.proportions import effective_cases, share
from toolkit.stats.result import Estimate

METHOD: Final = "Lang & Reiczigel (2014)"
APPARENT: Final = "share decided yes"
CORRECTED: Final = "prevalence, corrected for the judge"


@dataclass(frozen=True)
class Prevalence:
    """What a judge said of unlabelled items, and what is left of it when its errors are allowed for."""

    apparent: Estimate
    corrected: Estimate
    raw: float | None
    sensitivity: Estimate
    specificity: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            name: value.to_dict() if isinstance(value, Estimate) else value
            for name, value in vars(self).items()
        }


def corrected_prevalence(
    decisions: Sequence[bool | None],
    judge: Confusion,
    confidence: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Prevalence:
    r"""Return the prevalence behind a judge's decisions, corrected for its sensitivity and specificity.

    With the apparent share :math:`a`, :math:`\hat\pi = (a + Sp - 1) / (Se + Sp - 1)` (Rogan & Gladen), clipped to
    0-1. The interval adds :math:`z^2/2` yes and no to the n decisions and one right and one wrong to each half of
    the labelled set; with these values (primed) it is
    :math:`\pi' + d \pm z s`, :math:`d = 2 z^2 [\pi' Se'(1 - Se')/n'_{Se} - (1 - \pi') Sp'(1 - Sp')/n'_{Sp}]`,
    :math:`s^2 = [a'(1 - a')/n' + \pi'^2 Se'(1 - Se')/n'_{Se} + (1 - \pi')^2 Sp'(1 - Sp')/n'_{Sp}]
    / (Se' + Sp' - 1)^2`, clipped to 0-1 and, where rounding of small samples puts the estimate outside, extended to it.

    Share of 20,000 simulated studies whose interval holds the true prevalence, for a judge of sensitivity .9 and
    specificity .7 (``python tests/benchmarks/prevalence_coverage.py``; "delta" is the plain large-sample
    interval):

    ======================  ======  =====  =====  =====  =====  =====  =====  =====
    labelled, unlabelled    method    0     .02    .1     .3     .6     .9      1
    ======================  ======  =====  =====  =====  =====  =====  =====  =====
    100 + 100, 300          L & R   0.969  0.954  0.954  0.952  0.953  0.957  0.968
    100 + 100, 300          delta   0.957  0.949  0.950  0.952  0.957  0.954  0.946
    100 + 100, 100          L & R   0.969  0.955  0.954  0.953  0.952  0.959  0.965
    36 + 36, 300            L & R   0.967  0.964  0.961  0.957  0.961  0.969  0.973
    36 + 36, 300            delta   0.933  0.935  0.937  0.948  0.973  0.928  0.906
    30 + 30, 300            L & R   0.968  0.965  0.962  0.958  0.964  0.972  0.971
    30 + 30, 300            delta   0.929  0.932  0.931  0.947  0.978  0.922  0.893
    30 + 30, 100            L & R   0.965  0.964  0.961  0.958  0.961  0.972  0.973
    ======================  ======  =====  =====  =====  =====  =====  =====  =====

    At 0 and 1 an interval can miss on one side only, so that 97.5 % are right there.

    References
    ----------
    Rogan & Gladen (1978), American Journal of Epidemiology 107, 71-76. Lang & Reiczigel (2014), Preventive
    Veterinary Medicine 113, 13-22. Lee et al. (2025), arXiv:2511.21140, use the same interval for judges.

    Examples
    --------
    >>> judge = Confusion(tp=180, fn=20, tn=140, fp=60)
    >>> found = corrected_prevalence([True] * 400 + [False] * 600, judge)
    >>> round(found.corrected.estimate, 4), round(found.corrected.low, 4), round(found.corrected.high, 4)
    (0.1667, 0.0564, 0.2627)
    """
    if clusters is not None and len(clusters) != len(decisions):
        raise InputError(f"prevalence: {len(decisions)} decisions and {len(clusters)} bases; give as many")
    made = [bool(decision) for decision in decisions if decision is not None]
    missing = len(decisions) - len(made)
    bases = None
    if clusters is not None:
        bases = [base for base, decision in zip(clusters, decisions, strict=True) if decision is not None]
    positives, negatives = judge.tp + judge.fn, judge.tn + judge.fp

    def labelled(name: str, right: int, of: int) -> Estimate:
        hits = [True] * right + [False] * (of - right)
        return share(name, hits, what="items", confidence=confidence)

    sensitivity = labelled("sensitivity", judge.tp, positives)
    specificity = labelled("specificity", judge.tn, negatives)
    apparent = share(APPARENT, made, bases, what="items", missing=missing, confidence=confidence)
    empty = Estimate(
        CORRECTED,
        None,
        method=METHOD,
        unit="share of items",
        n={**apparent.n, "labelled yes": positives, "labelled no": negatives},
        missing=missing,
        confidence=confidence,
    )
    reason = _reason(judge, len(made))
    if reason:
        why = replace(empty, note=f"not estimable: {reason}")
        return Prevalence(apparent, why, None, sensitivity, specificity)
    se, sp = judge.tp / positives, judge.tn / negatives
    raw = (sum(made) / len(made) + sp - 1) / (se + sp - 1)
    estimate = min(1.0, max(0.0, raw))
    worth = float(len(made))
    if bases is not None:
        error = clustered_mean([float(yes) for yes in made], bases).error or 0.0
        worth = effective_cases(apparent.estimate or 0.0, error, len(made), len(set(bases)), confidence)
    low, high = lang_reiczigel(sum(made) / len(made) * worth, worth, judge, confidence)
    corrected = replace(
        empty,
        estimate=estimate,
        low=min(low, estimate),
        high=max(high, estimate),
        note=f"clipped from {raw:.3f}" if raw != estimate else "",
    )
    return Prevalence(apparent, corrected, raw, sensitivity, specificity)


def lang_reiczigel(yes: float, n: float, judge: Confusion, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of `corrected_prevalence` alone, within 0-1.

    Examples
    --------
    >>> low, high = lang_reiczigel(400, 1000, Confusion(tp=180, fn=20, tn=140, fp=60))
    >>> round(low, 5), round(high, 5)
    (0.05635, 0.26273)
    """
    z = float(special.ndtri((1 + confidence) / 2))
    se, n_se = _one_more(judge.tp, judge.fn)
    sp, n_sp = _one_more(judge.tn, judge.fp)
    whole = n + z * z
    apparent = (yes + z * z / 2) / whole
    youden = se + sp - 1
    if youden <= 0:  # better than guessing by less than one item: nothing is known
        return 0.0, 1.0
    prevalence = (apparent + sp - 1) / youden
    of_se, of_sp = se * (1 - se) / n_se, sp * (1 - sp) / n_sp
    shift = 2 * z * z * (prevalence * of_se - (1 - prevalence) * of_sp)
    variance = apparent * (1 - apparent) / whole + prevalence**2 * of_se + (1 - prevalence) ** 2 * of_sp
    half = z * math.sqrt(variance) / youden
    low, high = prevalence + shift - half, prevalence + shift + half
    return min(1.0, max(0.0, low)), min(1.0, max(0.0, high))


def _one_more(right: int, wrong: int) -> tuple[float, int]:
    n = right + wrong + 2
    return (right + 1) / n, n


def _reason(judge: Confusion, decided: int) -> str:
    """Return why there can be no estimate; empty where there can."""
    if not decided:
        return "the judge decided no unlabelled item"
    for label, right, wrong in (("yes", judge.tp, judge.fn), ("no", judge.tn, judge.fp)):
        if not right + wrong:
            return f"the judge decided no item labelled {label}"
    # In whole numbers, because .7 + .3 is not 1.
    if judge.tp * judge.tn <= judge.fn * judge.fp:
        return "sensitivity + specificity is 1 or less, so its decisions say nothing of the labels"
    return ""
