"""Two ways of deciding the same items: which is right more often, by McNemar's exact test."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.proportions import wilson
from toolkit.stats.rate_difference import rate_difference
from toolkit.stats.result import Estimate

METHOD: Final = "exact McNemar test; interval of Newcombe (1998), method 10"


def mcnemar(
    labels: Sequence[bool],
    first: Sequence[bool | None],
    second: Sequence[bool | None],
    confidence: float = 0.95,
    name: str = "accuracy: first - second",
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    r"""Return the difference of two accuracies on the same items, with McNemar's exact p value.

    Of the :math:`b + c` items that one of the two has right and the other wrong, b is binomial with share 1/2 where
    the two are equally good; p is two-sided. The interval puts the two Wilson intervals together and allows for
    the correlation of the two (Newcombe's hybrid score interval without continuity correction). Where items share
    clusters both are those of `toolkit.stats.rate_difference`, whose exact test flips whole clusters.

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
    if not len(labels) == len(first) == len(second):
        raise InputError(
            f"{len(labels)} labels, {len(first)} and {len(second)} decisions; give one for each label"
        )
    made = [place for place, pair in enumerate(zip(first, second, strict=True)) if None not in pair]
    both = [(bool(first[at]) == bool(labels[at]), bool(second[at]) == bool(labels[at])) for at in made]
    n, missing = len(both), len(labels) - len(both)
    if not n:
        why = "not estimable: no item is decided by both"
        return Estimate(
            name, None, method=METHOD, unit="share of items", n={"items": 0}, missing=missing, note=why
        )
    shared = None if clusters is None else [clusters[at] for at in made]
    if shared is not None and len(set(shared)) < n:
        one, other = zip(*both, strict=True)
        found = rate_difference(name, one, other, shared, unit="share of items", confidence=confidence)
        return replace(found, n={"items": n, "bases": len(set(shared))}, missing=missing)
    right = both.count((True, True))
    b, c = both.count((True, False)), both.count((False, True))
    wrong = n - right - b - c
    low, high = _newcombe(right, b, c, wrong, confidence)
    return Estimate(
        name,
        (b - c) / n,
        low,
        high,
        method=METHOD,
        unit="share of items",
        n={"items": n, "items only one has right": b + c},
        missing=missing,
        confidence=confidence,
        p_value=min(1.0, 2 * float(special.bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0,
    )


def _newcombe(right: int, b: int, c: int, wrong: int, confidence: float) -> tuple[float, float]:
    n = right + b + c + wrong
    p1, p2 = (right + b) / n, (right + c) / n
    (l1, u1), (l2, u2) = (wilson(hits, n, confidence) for hits in (right + b, right + c))
    margins = (right + b) * (c + wrong) * (right + c) * (b + wrong)
    determinant = float(right * wrong - b * c)
    if determinant > 0:  # the continuity correction of phi alone, as method 10 has it
        determinant = max(determinant - n / 2, 0.0)
    phi = determinant / math.sqrt(margins) if margins else 0.0
    below = (p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    above = (p2 - l2) ** 2 - 2 * phi * (p2 - l2) * (u1 - p1) + (u1 - p1) ** 2
    difference = (b - c) / n
    return difference - math.sqrt(max(below, 0.0)), difference + math.sqrt(max(above, 0.0))
