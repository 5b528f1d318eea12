"""How many bases the paired tests of two length bins or models take, and what so many can detect."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.result import Estimate

MOST = 1e7  # numbers beyond which nobody goes on asking
_SLACK = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANELS = 24
EXACT = "exact, non-central t distribution"
EXACT_TOST = "exact, bivariate non-central t distribution (Phillips 1990)"


@dataclass(frozen=True)
class PowerAnswer(Estimate):
    """A number that was computed from what is assumed, with a sentence that says both."""

    words: str = ""

    def sentence(self) -> str:
        """Return the result in words ready for the thesis, rounded only here."""
        if self.words and self.estimable:
            return self.words
        return f"{self.name}: {self.remarks}." if not self.estimable else super().sentence()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types, with its sentence."""
        return {**super().to_dict(), "sentence": self.sentence()}

    @property
    def whole(self) -> int | None:
        """The next whole number, where the answer is a number of things to ask for."""
        return None if self.estimate is None else whole(self.estimate)


def whole(number: float) -> int:
    """Return the smallest whole number that is not below, rounding aside.

    Examples
    --------
    >>> whole(198.15), whole(12.0000000001)
    (199, 12)
    """
    return math.ceil(number - _SLACK * max(1.0, abs(number)))


def percent(share: float) -> str:
    """Return a probability for a sentence; one that is not 1 never reads as 100%."""
    return "more than 99.9%" if share > 0.9995 else f"{share:.1%}"


def check_share(quantity: str, value: float) -> None:
    """Refuse a level, power or confidence that is not between 0 and 1."""
    if not (isinstance(value, int | float) and 0 < value < 1):
        raise InputError(
            f"power: {quantity} is {value!r}; give a number between 0 and 1, such as 0.05 or 0.8"
        )


def check_size(quantity: str, value: float, least: float, *, above: bool = False) -> None:
    """Refuse a size or count that is not a finite number from its least value on, or above it."""
    finite = isinstance(value, int | float) and math.isfinite(value)
    if not finite or value < least or (above and value == least):
        raise InputError(f"power: {quantity} is {value!r}; give {least:g} or more{', but not 0' * above}")


def smallest(chance: Callable[[float], float], target: float, least: float) -> float | None:
    """Return the smallest number at which a chance that rises with it is what is wanted; None where it never is."""
    from scipy import optimize

    if chance(least) >= target:
        return least
    low, high = least, 2 * max(least, 1.0)
    while chance(high) < target:
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    return float(optimize.brentq(lambda n: chance(n) - target, low, high, xtol=1e-10, rtol=1e-12))


def over_spread(chance: Callable[[np.ndarray], np.ndarray], degrees: float, edges: Sequence[float]) -> float:
    r"""Return the mean of a chance over :math:`q = s / \sigma`, the estimated standard deviation over the true one."""
    half = degrees / 2
    low = math.sqrt(float(special.gammaincinv(half, 1e-16)) / half)
    high = math.sqrt(float(special.gammainccinv(half, 1e-16)) / half)
    total = 0.0
    constant = math.log(2.0) + half * math.log(half) - float(special.gammaln(half))
    for start, end in itertools.pairwise(np.unique(np.clip([low, 1.0, *edges, high], low, high))):
        width = (end - start) / _PANELS
        starts = np.linspace(start, end, _PANELS + 1)[:-1, None]
        q = (starts + width * (_NODES[None, :] + 1) / 2).ravel()
        density = np.exp(constant + special.xlogy(degrees - 1, q) - half * q * q)
        total += width / 2 * float(np.tile(_WEIGHTS, _PANELS) @ (density * chance(q)))
    return float(min(1.0, max(0.0, total)))


def t_power(degrees: float, shift: float, alpha: float) -> float:
    """Return the power of a two-sided t test over the estimated spread: scipy's noncentral t lacks some numbers."""
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))

    def outside(q: np.ndarray) -> np.ndarray:
        return special.ndtr(shift - critical * q) + special.ndtr(-shift - critical * q)

    return over_spread(outside, degrees, [(shift + z) / critical for z in (-9, 0, 9)])


def tost_power(margin: float, difference: float, error: float, degrees: float, alpha: float) -> float:
    """Return the exact power of two one-sided t tests for any design (Phillips 1990)."""
    critical = float(special.stdtrit(degrees, 1 - alpha))
    above, below = (margin - difference) / error, (margin + difference) / error

    def declared(q: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, special.ndtr(above - critical * q) - special.ndtr(critical * q - below))

    bends = [(end - z) / critical for end in (above, below) for z in (-9, 0, 9)]
    return over_spread(declared, degrees, [(above + below) / (2 * critical), *bends])


def bases_needed(effect: float, sd: float, *, power: float = 0.8, alpha: float = 0.05) -> PowerAnswer:
    r"""Return how many bases a two-sided paired t test needs to find an effect.

    The statistic has a non-central t distribution with n - 1 degrees of freedom and non-centrality :math:`\delta =
    \sqrt n\, |\Delta| / \sigma_d`; power is :math:`P(|T| > t_{n-1, 1-\alpha/2})`. ``effect`` and ``sd``, of the
    differences, are in one unit. The answer is in bases, at least 2 and not rounded: ``whole`` is the number to ask
    for. It is None for an effect of 0, or one that more than ten million bases would not show.

    References
    ----------
    Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, 2nd edition, section 2.3.

    Examples
    --------
    >>> needed = bases_needed(0.5, 1.0)
    >>> round(needed.estimate, 2), needed.whole
    (33.37, 34)

    A d_z of 1.2 with 100 bases does not have the power of .98 that one reads; that takes 14 bases:

    >>> bases_needed(1.2, 1.0, power=0.98).whole
    14
    """
    _check(effect, sd, alpha, power)
    answer = PowerAnswer(f"bases needed for power {power:g}", method=EXACT, unit="bases")
    d_z = abs(effect) / sd
    n = smallest(lambda m: t_power(m - 1, d_z * math.sqrt(m), alpha), power, 2.0) if effect else None
    if n is None:
        small = f"d_z = {d_z:.3g} is too small for any study"
        return answer.not_estimable(small if effect else "an effect of 0 is found by no number of bases")
    reached = t_power(whole(n) - 1, d_z * math.sqrt(whole(n)), alpha)
    effect_words = f"d_z = {d_z:.3f}" if sd == 1 else f"a difference of {abs(effect):g} (d_z = {d_z:.3f})"
    return answer.with_value(
        n,
        note=f"effect {effect:g}, standard deviation of the differences {sd:g}, alpha {alpha:g}; power "
        f"{reached:.3f} at {whole(n)}",
        words=f"To find {effect_words} with a power of {power:.0%}, a two-sided paired t test (alpha = "
        f"{alpha:.3g}) needs {whole(n)} bases, which have {percent(reached)}.",
    )


def detectable_effect(
    n: float, sd: float, *, power: float = 0.8, alpha: float = 0.05, unit: str = "none"
) -> PowerAnswer:
    """Return the smallest effect that a two-sided paired t test over n bases finds with the wanted power.

    Examples
    --------
    >>> round(detectable_effect(100, 1.0).estimate, 4)
    0.2829
    """
    _check(0.0, sd, alpha, power)
    check_size("n", n, 2)
    answer = PowerAnswer(f"detectable effect at power {power:g}", method=EXACT, unit=unit)
    shift = smallest(lambda delta: t_power(n - 1, delta, alpha), power, 0.0)
    if shift is None:
        return answer.not_estimable(f"{n:g} bases cannot reach power {power:g}")
    d_z, unit_text = shift / math.sqrt(n), "" if unit == "none" else f" {unit}"
    return answer.with_value(
        d_z * sd,
        n={"bases": whole(n)},
        note=f"standard deviation of the differences {sd:g}, alpha {alpha:g}; d_z {d_z:.3f}",
        words=f"With {n:g} bases a two-sided paired t test (alpha = {alpha:.3g}) finds a difference of "
        f"{d_z * sd:.3f}{unit_text} (d_z = {d_z:.3f}) with a power of {power:.0%}; smaller ones are likely to be "
        "missed.",
    )


def equivalence_bases(
    margin: float, sd: float, *, difference: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> PowerAnswer:
    """Return how many bases, not rounded, the two one-sided paired t tests of level ``alpha`` need for equivalence.

    ``margin``, ``sd`` of the differences and the true ``difference`` are in one unit; where that is not inside the
    margin there is no number.

    Examples
    --------
    >>> equivalence_bases(0.25, 0.6).whole
    51
    """
    check_size("the margin", margin, 0, above=True)
    _check(difference, sd, alpha, power)
    if alpha >= 0.5:
        raise InputError(f"power: alpha is {alpha!r}; a one-sided test needs a level below 0.5, such as 0.05")
    name = f"bases needed for equivalence with power {power:g}"
    answer, within = PowerAnswer(name, method=EXACT_TOST, unit="bases"), abs(difference) < margin

    def chance(bases: float) -> float:
        return tost_power(margin, difference, sd / math.sqrt(bases), bases - 1, alpha)

    n = smallest(chance, power, 2.0) if within else None
    if n is None:
        outside = f"a true difference of {difference:g} is not within ±{margin:g}"
        return answer.not_estimable(
            f"no study is large enough for a margin of {margin:g}" if within else outside
        )
    return answer.with_value(
        n,
        note=f"margin {margin:g}, true difference {difference:g}, standard deviation of the differences {sd:g}, "
        f"alpha {alpha:g} for each test; power {chance(whole(n)):.3f} at {whole(n)}",
        words=f"To declare equivalence within ±{margin:g} with a probability of {power:.0%}, where the true "
        f"difference is {difference:g} and the standard deviation of the differences {sd:.3g}, two one-sided paired "
        f"t tests (alpha = {alpha:.3g}) need {whole(n)} bases.",
    )


def _check(effect: float, sd: float, alpha: float, power: float = 0.8) -> None:
    check_size("the effect", abs(effect), 0)
    check_size("the standard deviation", sd, 0, above=True)
    check_share("alpha", alpha)
    check_share("power", power)
