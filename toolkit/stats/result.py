"""The frozen result every statistic returns: estimate, interval, method, n, what was missing, and its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from toolkit.words import counted, coverage

NOISE: Final = 1e-12
"""What is smaller is a zero of the arithmetic of floating numbers."""


def rounded(value: float) -> str:
    """Return a number for a sentence: three decimals, or three digits where those would show next to nothing.

    Examples
    --------
    >>> rounded(2.3456), rounded(-0.0), rounded(-7e-17), rounded(0.000041234)
    ('2.346', '0.000', '0.000', '0.0000412')
    """
    if abs(value) < NOISE:
        return "0.000"
    return f"{Decimal(f'{value:.3g}'):f}" if abs(value) < 0.01 else f"{value:.3f}"


def digits_apart(values: Iterable[float | None], decimals: int, most: int = 12) -> int:
    """Return the decimals at which numbers that differ are printed differently, ``decimals`` at least.

    Examples
    --------
    >>> digits_apart((0.005, 0.0048, 0.0052), 3), digits_apart((3.1, 2.9, None), 3)
    (4, 3)
    """
    given = {value for value in values if value is not None and isfinite(value)}
    size = max(map(abs, given), default=0.0)
    distinct = sorted(value for value in given)
    apart = [a for a, b in pairwise(distinct) if b - a > NOISE * max(1.0, size)]
    wanted = len(apart) + 1 if distinct else 0
    places = decimals
    while places < most and len({f"{value:.{places}f}" for value in given}) < wanted:
        places += 1
    return places


def rounded_apart(values: Sequence[float | None]) -> list[str]:
    """Return numbers for a sentence, with as many digits as print those apart that differ.

    Examples
    --------
    >>> rounded_apart([0.0200004, 0.0200001, 0.0200007]), rounded_apart([2.5, None, None])
    (['0.0200004', '0.0200001', '0.0200007'], ['2.500', '', ''])
    """
    texts = ["" if value is None else rounded(value) for value in values]
    given = [value for value in values if value is not None]
    if digits_apart(given, 3) == 3 or len({rounded(value) for value in given}) == len(set(given)):
        return texts
    places = digits_apart(given, 3)
    return ["" if value is None else f"{value:.{places}f}" for value in values]


@dataclass(frozen=True)
class Estimate:
    """One number about a study with everything a reader needs to trust it; never rounded."""

    name: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    method: str = ""
    unit: str = "none"
    n: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0
    confidence: float = 0.95
    correction: str = "none"
    p_value: float | None = None
    note: str = ""
    degrees: float | None = None

    @property
    def estimable(self) -> bool:
        """Whether there is a number at all."""
        return self.estimate is not None

    @property
    def adjusted(self) -> str:
        """What was adjusted for several tests and that the interval was not; ``none`` where nothing was."""
        beside = "; interval unadjusted" if self.correction != "none" and self.low is not None else ""
        return self.correction + beside

    def sentence(self) -> str:
        """Return the result in words ready for the thesis, rounded only here."""
        counts = ", ".join(counted(value, key) for key, value in self.n.items())
        counts = f"; n = {counts}" if counts else ""
        if self.estimate is None:
            why = self.note.removeprefix("not estimable: ")
            return f"{self.name}: not estimable ({why}){counts}."
        unit = "" if self.unit in ("", "none") else f" {self.unit}"
        estimate, low, high = rounded_apart((self.estimate, self.low, self.high))
        text = f"{self.name} = {estimate}{unit}"
        degrees = "" if self.degrees is None else f", {self.degrees:.1f} degrees of freedom"
        if self.low is not None and self.high is not None:
            text += f", {coverage(self.confidence)} interval [{low}, {high}] ({self.method}{degrees})"
        if self.p_value is not None:
            text += f", p = {self.p_value:.3g}"
            if self.correction != "none":
                text += f" ({self.adjusted})"
        text += counts
        if self.missing:
            text += f"; {self.missing} missing"
        note = f". {self.note[:1].upper()}{self.note[1:]}" if self.note else ""
        return text + note + ("" if note.endswith(".") else ".")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        return {
            "name": self.name,
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "method": self.method,
            "degrees": self.degrees,
            "unit": self.unit,
            "n": dict(self.n),
            "missing": self.missing,
            "correction": self.adjusted,
            "p_value": self.p_value,
            "note": self.note,
        }
