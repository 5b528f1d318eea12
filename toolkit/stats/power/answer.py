"""What a question of power is answered with, and what all such questions share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.result import Estimate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANELS: Final = 24


def t_power(degrees: float, shift: float, alpha: float) -> float:
    """Return the power of a two-sided t test with a non-centrality, for any degrees of freedom.

    `scipy.special.nctdtr` is NaN for large non-centralities with few degrees of freedom, so the distribution is
    integrated over the estimated spread; the two agree to 1e-9 where both exist.

    Examples
    --------
    >>> round(t_power(99, 2.8, 0.05), 4)
    0.7918
    """
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))

    def outside(q: np.ndarray) -> np.ndarray:
        return special.ndtr(shift - critical * q) + special.ndtr(-shift - critical * q)

    return over_spread(outside, degrees, [(shift + z) / critical for z in (-9, 0, 9)])


def over_spread(chance: Callable[[np.ndarray], np.ndarray], degrees: float, edges: Sequence[float]) -> float:
    r"""Return the mean of a chance over :math:`q = s / \sigma`, the estimated standard deviation over the true one."""
    half = degrees / 2
    low = math.sqrt(float(special.gammaincinv(half, 1e-16)) / half)
    high = math.sqrt(float(special.gammainccinv(half, 1e-16)) / half)
    bends = np.unique(np.clip([low, 1.0, *edges, high], low, high))
    total = 0.0
    constant = math.log(2.0) + half * math.log(half) - float(special.gammaln(half))
    for start, end in itertools.pairwise(bends):
        starts = np.linspace(start, end, _PANELS + 1)
        width = (end - start) / _PANELS
        q = (starts[:-1, None] + width * (_NODES[None, :] + 1) / 2).ravel()
        density = np.exp(constant + special.xlogy(degrees - 1, q) - half * q * q)
        total += width / 2 * float(np.tile(_WEIGHTS, _PANELS) @ (density * chance(q)))
    return float(min(1.0, max(0.0, total)))


def f_power(top: float, bottom: float, shift: float, alpha: float) -> float:
    """Return the power of an F test with a non-centrality, as a Poisson mixture of beta distributions.

    Examples
    --------
    >>> round(f_power(2, 78, 9.0, 0.05), 4)
    0.7535
    """
    critical = float(special.fdtri(top, bottom, 1 - alpha))
    middle = shift / 2
    reach = 12 * math.sqrt(middle) + 40
    j = np.arange(max(0.0, math.floor(middle - reach)), math.ceil(middle + reach) + 1)
    chances = np.exp(special.xlogy(j, middle) - middle - special.gammaln(j + 1))
    x = top * critical / (top * critical + bottom)
    return float(min(1.0, chances @ special.betaincc(top / 2 + j, bottom / 2, x)))


MOST: Final = 1e7
"""Numbers beyond which nobody goes on asking."""
_SLACK: Final = 1e-9


@dataclass(frozen=True)
class PowerAnswer(Estimate):
    """A number that was computed from what is assumed, with a sentence that says both."""

    words: str = ""

    def sentence(self) -> str:
        """Return the result in words ready for the thesis, rounded only here."""
        if self.words and self.estimable:
            return self.words
        return f"{self.name}: {self.note}." if not self.estimable else super().sentence()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types, with its sentence."""
        return {**super().to_dict(), "sentence": self.sentence()}

    @property
    def whole(self) -> int | None:
        """The next whole number, where the answer is a number of things to ask for."""
        return None if self.estimate is None else whole(self.estimate)


def unanswerable(name: str, reason: str, **fields: Any) -> PowerAnswer:
    """Return an answer without a number, and the reason.

    Examples
    --------
    >>> unanswerable("bases needed", "the effect is 0").note
    'not estimable: the effect is 0'
    """
    return replace(PowerAnswer(name, None, note=f"not estimable: {reason}"), **fields)


def whole(number: float) -> int:
    """Return the smallest whole number that is not below, rounding aside.

    Examples
    --------
    >>> whole(198.15), whole(12.0000000001)
    (199, 12)
    """
    return math.ceil(number - _SLACK * max(1.0, abs(number)))


def percent(share: float) -> str:
    """Return a probability for a sentence; one that is not 1 never reads as 100%.

    Examples
    --------
    >>> percent(0.8), percent(0.99999)
    ('80.0%', 'more than 99.9%')
    """
    return "more than 99.9%" if share > 0.9995 else f"{share:.1%}"


def check_share(what: str, value: float) -> None:
    """Refuse a level, power or confidence that is not between 0 and 1."""
    if not (isinstance(value, int | float) and 0 < value < 1):
        raise InputError(f"power: {what} is {value!r}; give a number between 0 and 1, such as 0.05 or 0.8")


def check_size(what: str, value: float, *, least: float = 0.0) -> None:
    """Refuse a size, margin or count that is not a finite number above its least value."""
    if not (isinstance(value, int | float) and math.isfinite(value) and value > least):
        raise InputError(f"power: {what} is {value!r}; give a finite number above {least:g}")


def check_count(what: str, value: float, *, least: int = 2) -> None:
    """Refuse a number of bases, judges or levels that is not finite or too small."""
    if not (isinstance(value, int | float) and math.isfinite(value) and value >= least):
        raise InputError(f"power: {what} is {value!r}; give {least} or more")


def smallest(
    chance: Callable[[float], float], wanted: float, least: float, most: float = MOST
) -> float | None:
    """Return the smallest number at which a chance that rises with it is what is wanted; None where it never is.

    Examples
    --------
    >>> round(smallest(lambda n: 1 - 0.5**n, 0.8, 1.0), 4)
    2.3219
    """
    from scipy import optimize

    if chance(least) >= wanted:
        return least
    low, high = least, 2 * max(least, 1.0)
    while chance(high) < wanted:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    return float(optimize.brentq(lambda n: chance(n) - wanted, low, high, xtol=1e-10, rtol=1e-12))
