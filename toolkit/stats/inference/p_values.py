"""P values: by inversion of an interval, of differences that are equal, and of several tests, corrected for that."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from scipy import optimize, special

from toolkit.errors import InputError
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import SCALE

LEVEL = 0.05  # at which a test rejects; one less the confidence of the intervals
EQUAL_METHOD = "Wilson's bound of the share of bases that move, by a point each; sign test"
_LEAST_Z, _MOST_Z = 1e-6, 8.0  # between which intervals are inverted: P values of 1 and 1e-15


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return Holm's step-down p values, which bound the chance of one false finding among all tests.

    A test without a p value (None) is not counted and keeps None.

    References
    ----------
    Holm (1979), Scand. J. Stat. 6, 65-70.
    """
    tested = {index: p for index, p in enumerate(p_values) if p is not None and p == p}
    if outside := [p for p in tested.values() if not 0 <= p <= 1]:
        raise InputError(f"Holm: p value {outside[0]:g} is not between 0 and 1; correct it")
    corrected: list[float | None] = [None] * len(p_values)
    # statsmodels' multipletests collects garbage at each call, which took two fifths of the figures of a study.
    largest = 0.0
    for step, (index, p) in enumerate(sorted(tested.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(tested) - step) * float(p)))
        corrected[index] = largest
    return tuple(corrected)


def p_by_inversion(limits: Callable[[float], tuple[float, float]], value: float = 0.0) -> float:
    r"""Return the smallest :math:`\alpha` at which the interval ``ends(1 - alpha)`` leaves out a value: its P value.

    It is below .05 exactly where the 95 % interval leaves the value out (Lehmann & Romano 2005, Testing Statistical
    Hypotheses, section 3.5).

    Examples
    --------
    >>> from toolkit.stats.inference.proportions import wilson
    >>> round(p_by_inversion(lambda confidence: wilson(8, 10, confidence), 0.5), 4)
    0.0578
    """

    def outside(z: float) -> float:
        low, high = limits(1 - 2 * float(special.ndtr(-z)))
        return max(low - value, value - high)

    bounds = _LEAST_Z, float(-special.ndtri(LEVEL / 2)), _MOST_Z
    distances = list(map(outside, bounds))
    if distances[0] <= 0:
        return 1.0
    place = int(distances[1] > 0)
    if distances[place + 1] > 0:
        return 2 * float(special.ndtr(-_MOST_Z))
    return 2 * float(special.ndtr(-optimize.brentq(outside, *bounds[place : place + 2], xtol=1e-9)))


def with_inversion(
    estimate: Estimate, limits: Callable[[float], tuple[float, float]], **more: Any
) -> Estimate:
    """Return a result with an interval, as a function of its confidence, and the P value that inverts it."""
    low, high = limits(estimate.confidence)
    return replace(estimate, low=low, high=high, p_value=p_by_inversion(limits), **more)


def equal_differences(empty: Estimate, mean: float, groups: int, margin: float = 0.0) -> Estimate:
    r"""Return the mean of differences that are equal in all G bases, with P and an interval where t has none.

    The interval is :math:`\bar d \pm u s`, :math:`u = z^2 / (G + z^2)`: Wilson's (1927) bound of the share of bases
    that none of G has shown to move otherwise, by s each, which is a fifth of the scale (a point of 0 to 5) or
    :math:`|\bar d|`, whichever is more. The P value is the larger of that of the sign test, :math:`2^{1 - G}` (1 where
    no base moved), and of the interval's inversion. With a ``margin`` both are one-sided, for a mean within it.
    """
    (first, last), sides = getattr(empty.unit, "scale", SCALE), 1 if margin else 2
    step = max((last - first) / 5, abs(mean))
    room = min(abs(abs(mean) - margin) / step, 1.0)
    tail = float(special.ndtr(-math.sqrt(groups * room / (1 - room)))) if room < 1 else 0.0
    signs = 2.0**-groups * sides if mean else 0.0
    p_value = max(sides * tail if abs(mean) < margin or not margin else 1 - tail, signs)
    estimate = empty.with_value(mean, p_value=p_value, method=EQUAL_METHOD)
    if signs >= LEVEL:
        reason = f"{groups} are too few: their signs allow no P value below {signs:g}"
        return estimate.no_interval(reason)
    square = float(special.ndtri((1 + empty.confidence) / 2)) ** 2
    share = square / (groups + square)
    note = f"all are equal; the interval allows for {share:.0%} moving otherwise, which {groups} may not show"
    return replace(estimate, low=mean - share * step, high=mean + share * step).with_note(note)


def with_holm(results: Iterable[Estimate], over: str) -> Estimates:
    """Return results with Holm's p values and the word for it, ``Holm over 3 contrasts``, where several have one."""
    tests = tuple(results)
    count = sum(test.p_value is not None for test in tests)
    word, family = (f"Holm over {count} {over}", count) if count > 1 else ("none", 1)
    return tuple(
        test if p is None else replace(test, p_value=p, correction=word, family=family)
        for test, p in zip(tests, holm([test.p_value for test in tests]), strict=True)
    )


def exploratory(result: Estimate, role: str = "exploratory") -> Estimate:
    """Return a result with its role: ``confirmatory`` is the one that the study file named beforehand."""
    return replace(result, role=role) if result.estimable else result


def corrected(result: Any) -> Any:
    """Return a result with Holm's P values and roles in the parts that the words of its analysis name."""
    if not isinstance(result, Result):
        return result
    values = dict(result.values)
    for over, *parts in result.words.get("families", ()):
        tests = iter(with_holm((test for part in parts for test in values[part]), over))
        values |= {part: tuple(islice(tests, len(values[part]))) for part in parts}
    for part in result.words.get("exploratory", ()):
        tests = values[part]
        values[part] = exploratory(tests) if isinstance(tests, Estimate) else tuple(map(exploratory, tests))
    return result.replace(**values)
