"""The area under the ROC curve: how often a score puts a case above one that is none, with DeLong's interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.result import Estimate

METHOD: Final = "logit of DeLong, DeLong & Clarke-Pearson (1988)"
CLUSTERED: Final = "logit of DeLong, clustered by base (Obuchowski 1997; CR2), Student t"


def auc(
    labels: Sequence[bool],
    scores: Sequence[float | None],
    confidence: float = 0.95,
    name: str = "AUC",
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return the chance that a case scores higher than a non-case; ties count one half.

    With m cases, n non-cases and :math:`\psi = 1, \tfrac12, 0` for a higher, equal and lower score, the area is the
    mean of :math:`\psi` over all pairs; its variance is that of the cases' means of :math:`\psi` over m plus that
    of the non-cases' over n. The interval is made on the logit scale, which keeps it within 0-1.

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
    if len(labels) != len(scores):
        raise InputError(f"AUC: {len(labels)} labels and {len(scores)} scores; give a score for each label")
    known = [place for place, score in enumerate(scores) if score is not None and not math.isnan(score)]
    truth = np.array([bool(labels[place]) for place in known], dtype=bool)
    values = np.array([scores[place] for place in known], dtype=float)
    cases, others = values[truth], values[~truth]
    n, missing = {"items": len(known)}, len(labels) - len(known)
    if not (len(cases) and len(others)):
        why = "not estimable: there are no scores of both labels"
        return Estimate(name, None, method=METHOD, n=n, missing=missing, confidence=confidence, note=why)
    of_cases = _share_below(cases, others)
    of_others = 1 - _share_below(others, cases)
    area = float(of_cases.mean())
    error, quantile = (
        math.sqrt(_variance_of_mean(of_cases) + _variance_of_mean(of_others)),
        _normal(confidence),
    )
    method = METHOD
    shared = None if clusters is None else [clusters[place] for place in known]
    if shared is not None and len(set(shared)) < len(shared):
        method, n["bases"] = CLUSTERED, len(set(shared))
        pull = np.empty(len(values))
        pull[truth] = (of_cases - area) * len(values) / len(cases)
        pull[~truth] = (of_others - area) * len(values) / len(others)
        mean = clustered_mean(pull, shared, confidence)
        error, quantile = mean.error or 0.0, float(special.stdtrit(mean.degrees, (1 + confidence) / 2))
    if not (0 < area < 1 and error > 0 and min(len(cases), len(others)) > 1):
        why = "no interval: the scores do not vary enough for a standard error"
        return Estimate(name, area, method=method, n=n, missing=missing, confidence=confidence, note=why)
    half = quantile * error / (area * (1 - area))
    middle = special.logit(area)
    low, high = float(special.expit(middle - half)), float(special.expit(middle + half))
    return Estimate(name, area, low, high, method, "none", n, missing, confidence)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each value the share of the others that it exceeds, ties counted one half."""
    ordered = np.sort(others)
    below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return (below + upto) / (2 * len(others))


def _normal(confidence: float) -> float:
    return float(special.ndtri((1 + confidence) / 2))


def _variance_of_mean(values: np.ndarray) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
