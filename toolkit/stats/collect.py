"""Every estimate inside a result, however it is built, with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any

from toolkit.stats.anova import RepeatedMeasures
from toolkit.stats.result import Estimate

_EMPTY = ("result", "results")
"""Names of fields that say nothing of what is in them."""


def estimates_of(result: Any) -> list[tuple[str, Estimate]]:
    """Return all estimates of a result with the names of what holds them, in the order of its fields.

    Examples
    --------
    >>> [(where, one.name) for where, one in estimates_of({"by_judge": (Estimate("ICC(A,1)", 0.5),)})]
    [('by judge', 'ICC(A,1)')]
    """
    return [
        (" ".join(part for part, _ in groupby(part for part in place if part not in _EMPTY)), found)
        for place, found in _walk(result, ())
    ]


def _walk(result: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate]]:
    if isinstance(result, Estimate):
        yield place, result
    elif isinstance(result, RepeatedMeasures):
        yield place, result.as_estimate()
    elif is_dataclass(result) and not isinstance(result, type):
        for field in fields(result):
            yield from _walk(getattr(result, field.name), (*place, _said(field.name)))
    elif isinstance(result, Mapping):
        for key, value in result.items():
            yield from _walk(value, (*place, _said(key)))
    elif isinstance(result, tuple | list):
        for value in result:
            yield from _walk(value, place)


def _said(name: Any) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    return " ".join(str(part).replace("_", " ") for part in parts)
