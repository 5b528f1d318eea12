"""One rule for a score that may be missing: a number, or None, and never a silent zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.words import SCALE


def number_or_missing(value: Any, where: str = "score") -> float | None:
    """Return a value as a float, or None where it is missing (None, NaN or pandas NA).

    Parameters
    ----------
    value
        A number or a marker of a missing value.
    where
        What the value is, for the message of the error.

    Returns
    -------
    float or None

    Raises
    ------
    InputError
        If the value is text, a truth value, infinite or anything else that is not a number.

    Examples
    --------
    >>> number_or_missing(4), number_or_missing(float("nan"))
    (4.0, None)
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {value!r} is not a number; give a number or leave it missing") from None
    if number != number:
        return None
    if abs(number) == float("inf"):
        raise InputError(f"{where}: an infinite value is not a score; give a number or leave it missing")
    return number


def on_scale(value: Any, where: str = "score") -> float | None:
    """Return a score of the rubric as a float, or None where it is missing.

    Raises
    ------
    InputError
        If the value is not a number or lies outside the scale of the rubric, 0 to 5.
    """
    number = number_or_missing(value, where)
    low, high = SCALE
    if number is not None and not low <= number <= high:
        raise InputError(
            f"{where}: {number:g} is outside the scale {low:g}-{high:g}; such a judgement counts as missing"
        )
    return number


def member(holder: Any, name: str) -> Any:
    """Return an entry of a mapping or an attribute of an object; None where it is absent."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
