"""The order in which groups of answers are listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolkit.words import JUDGE_ROLES, LENGTH_BINS

_KNOWN = (*LENGTH_BINS, *JUDGE_ROLES)


def in_order(names: Iterable[Any]) -> list[Any]:
    """Return each name once: length bins from short to long, judges by role, then all others by name.

    Examples
    --------
    >>> in_order(["L", "m2", "S", "m1", "S", None])
    ['S', 'L', 'm1', 'm2']
    """
    there = {name for name in names if name is not None and name == name}
    known = [name for name in _KNOWN if name in there]
    return [*known, *sorted(there - set(known), key=str)]
