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

MOST: Final = 1e7  # numbers beyond which nobody goes on asking
_SLACK: Final = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANELS: Final = 24


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


def unanswerable(name: str, reason: str, **fields: Any) -> PowerAnswer:
    """Return an answer without a number, and the reason."""
    return replace(PowerAnswer(name, None, reason=reason), **fields)


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
    """Return the smallest number at which a chance that rises with it is what is wanted; None where it never is.

    Examples
    --------
    >>> round(smallest(lambda n: 1 - 0.5**n, 0.8, 1.0), 4)
    2.3219
    """
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
