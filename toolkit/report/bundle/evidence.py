"""What was calculated for a bundle, as its files show it: methods that gave a number, never the names of models."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolkit.stats.inference.clusters import GROUPS

_INTERVALS: Final = re.compile(r"\d+(?:\.\d+)?% intervals?: ([^.]*)")
"""Where `toolkit.report.captions.interval_words` names the methods of the intervals that a figure draws."""
_NEXT: Final = re.compile(r"; \d+(?:\.\d+)?% intervals?: ")
_OF_ESTIMATES: Final = frozenset({"name", "estimate", "low", "p_value", "method", "correction"})
"""Columns that make a table one of results (`toolkit.stats.result`); elsewhere ``method`` may be a prompt."""


@dataclass(frozen=True)
class Evidence:
    """What the files of a bundle show was calculated."""

    methods: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()

    def shows(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Return whether one of the signs of a statistic is there."""
        return (
            any(part in method for part in wanted.get("method", ()) for method in self.methods)
            or any(row.startswith(start) for start in wanted.get("row", ()) for row in self.rows)
            or not self.columns.isdisjoint(wanted.get("column", ()))
        )


def evidence_of(files: Iterable[Path]) -> Evidence:
    """Read from figures, tables and statistics what was calculated.

    Only fields count that the toolkit writes itself: methods of results that have an interval or a P value, names of
    results, columns, and the words in which a caption names the methods of its intervals.
    """
    methods: dict[str, list[float]] = {}
    rows: dict[str, None] = {}
    columns: set[str] = set()
    for path in files:
        if path.suffix == ".txt":
            for told in _INTERVALS.findall(path.read_text(encoding="utf-8")):
                for method in _NEXT.split(told):
                    methods.setdefault(_of_bases(method), [])
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as lines:
                for row in csv.DictReader(lines):
                    columns.update(f"{path.stem}.{name}" for name, value in row.items() if _says(value))
                    if row.keys() >= _OF_ESTIMATES:
                        for method in _methods(row):
                            found = methods.setdefault(method, [])
                            if row.get("degrees") and method == _of_bases(row["method"]):
                                found.append(float(row["degrees"]))
                        rows.update(dict.fromkeys([f"{path.stem}: {row['name']}"] if row["estimate"] else []))
    named = tuple(method + _degrees_words(found) for method, found in methods.items())
    return Evidence(named, tuple(rows), frozenset(columns))


def _degrees_words(degrees: list[float]) -> str:
    if not degrees:
        return ""
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(degrees), max(degrees)))
    return f" (here {' to '.join(ends)} degrees of freedom)"


def _methods(row: Mapping[str, str]) -> list[str]:
    """Return how a result was made; a method that gave neither interval nor P value made nothing."""
    made = [_of_bases(row["method"])] if row["method"] and (row["low"] or row["p_value"]) else []
    corrected = row["p_value"] and row["correction"] != "none"
    return made + ([row["correction"].partition(";")[0]] if corrected else [])


def _of_bases(method: str) -> str:
    """Return the name of a method where bases share no text: the same statistics rest on groups of them."""
    return method.replace(GROUPS, "bases").replace(GROUPS.removesuffix("s"), "base")


def _says(value: str | None) -> bool:
    try:
        return float(value or 0) != 0
    except ValueError:
        return True
