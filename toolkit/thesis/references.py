"""What a bundle cites: what its files show was calculated, the references of that, and BibTeX."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import GROUPS

_INTERVAL: Final = r"\d+(?:\.\d+)?% intervals?(?: of [^:;]+)?: "
_INTERVALS: Final = re.compile(rf"{_INTERVAL}([^.]*)")
"""Where `toolkit.report.captions.interval_words` names the methods of the intervals that a figure draws."""
_NEXT: Final = re.compile(rf"; {_INTERVAL}")
_OF_ESTIMATES: Final = frozenset({"name", "estimate", "low", "p_value", "method", "correction"})
"""Columns that make a table one of results (`toolkit.stats.result`); elsewhere ``method`` may be a prompt."""
_ORDER: Final = (
    *("author", "title", "journal", "booktitle", "edition", "publisher", "address", "howpublished", "volume"),
    *("number", "pages", "year", "note", "doi"),
)


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


@dataclass(frozen=True)
class Sentence:
    """One sentence of the methods, without its full stop."""

    text: str
    cite: tuple[str, ...] = ()


def statistics_used(evidence: Evidence) -> list[Sentence]:
    """Return a sentence with its references for every statistic that was calculated."""
    told = [
        Sentence(str(one["text"]), tuple(one["cite"]))
        for one in _data("methods.toml")["statistic"]
        if evidence.shows(one)
    ]
    if evidence.methods:
        told.append(Sentence("Intervals, tests and corrections are named as in the tables of the results"))
    cites = _data("methods.toml")["method"]
    for method in evidence.methods:
        keys = dict.fromkeys(key for part, some in cites.items() if part in method for key in some)
        told.append(Sentence(method[:1].upper() + method[1:], tuple(keys)))
    return told


def packages_used(versions: Mapping[str, str | None], evidence: Evidence) -> list[tuple[str, str]]:
    """Return the software that analyses and figures were made with: name and version, and the key of its reference."""
    return [
        (f"{package} {versions[package]}", str(one["cite"]))
        for package, one in _data("methods.toml")["software"].items()
        if versions.get(package) and (one.keys() == {"cite"} or evidence.shows(one))
    ]


def bibliography(keys: Iterable[str]) -> str:
    """Return the BibTeX entries of the keys, each once, in the order of the alphabet."""
    return "\n".join(_entry(key, _reference(key)) for key in sorted(set(keys)))


def known_references() -> list[str]:
    """Return the key of every reference that a bundle of any study may cite."""
    return list(_data("references.toml"))


def short_reference(key: str) -> str:
    """Return a reference as it stands in running text."""
    fields = _reference(key)
    names = [re.sub(r"[{}]", "", one.split(",")[0]) for one in str(fields["author"]).split(" and ")]
    if "others" in names or len(names) > 3:
        who = f"{names[0]} et al."
    else:
        who = " & ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{who} {fields['year']}"


def _entry(key: str, fields: Mapping[str, Any]) -> str:
    lines = [f"  {name} = {{{fields[name]}}}" for name in _ORDER if name in fields]
    return f"@{fields['type']}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _reference(key: str) -> Mapping[str, Any]:
    found = _data("references.toml").get(key)
    if found is None:
        raise InputError(f"reference {key!r}: is not in toolkit/thesis/references.toml; add it there")
    return found


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((files("toolkit.thesis") / name).read_text(encoding="utf-8"))
