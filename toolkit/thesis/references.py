"""What a bundle cites: the methods of the results that it shows, the references of these, and BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.files import read_toml
from toolkit.report.blocks import Sentence, Shown

_FIELDS: Final = (
    "author", "title", "journal", "booktitle", "edition", "publisher", "address", "howpublished", "volume", "number",
    "pages", "year", "note", "doi",
)  # fmt: skip
"""Fields of a BibTeX entry, in their order."""
_KINDS: Final = {"Statistics": "statistic", "Intervals and tests": "method", "Assumptions": "assumption"}


@dataclass(frozen=True)
class Evidence:
    """What the figures and tables of a bundle show was calculated."""

    methods: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()

    def shows(self, signs: Mapping[str, Sequence[str]]) -> bool:
        """Return whether one of the signs of a statistic is there."""
        return (
            any(part in method for part in signs.get("method", ()) for method in self.methods)
            or any(row.startswith(start) for start in signs.get("row", ()) for row in self.rows)
            or not self.columns.isdisjoint(signs.get("column", ()))
        )


def evidence_of(shown: Iterable[Shown]) -> Evidence:
    """Return what was calculated, by the estimates and data of the figures and tables that were written.

    A method that gave neither interval nor P value made nothing.
    """
    methods: dict[str, None] = {}
    rows: dict[str, None] = {}
    columns: set[str] = set()
    for part in shown:
        columns.update(f"{part.name}.{column}" for column in part.columns)
        for estimate in part.estimates:
            is_tested = estimate.p_value is not None
            if estimate.method and (estimate.low is not None or is_tested):
                methods[estimate.method] = None
            if is_tested and estimate.correction != "none":
                methods[estimate.correction] = None
            if estimate.estimable:
                rows[f"{part.name}: {estimate.name}"] = None
    return Evidence(tuple(methods), tuple(rows), frozenset(columns))


def statistics_used(evidence: Evidence) -> dict[str, tuple[Sentence, ...]]:
    """Return what was estimated, how intervals and tests were made, and what they assume, each under its heading."""
    data = data_file("methods.toml")
    section = {
        heading: tuple(
            Sentence(f"{entry['text']}{_listed(entry, evidence)}", tuple(entry.get("cite", ())))
            for entry in data[kind]
            if evidence.shows(entry)
        )
        for heading, kind in _KINDS.items()
    }
    parts = [
        part for kind in ("statistic", "method") for entry in data[kind] for part in entry.get("method", ())
    ]
    further = [name for name in evidence.methods if not any(part in name for part in parts)]
    if further:
        section["Intervals and tests"] += (Sentence(f"Tables also name these methods: {'; '.join(further)}"),)
    return section


def _listed(entry: Mapping[str, Any], evidence: Evidence) -> str:
    names = [name for name in evidence.methods if any(part in name for part in entry.get("method", ()))]
    return f" ({', '.join(names)})" if names and entry.get("listed") else ""


def packages_used(versions: Mapping[str, str | None], evidence: Evidence) -> list[tuple[str, str]]:
    """Return the software that analyses and figures were made with: name and version, and the key of its reference."""
    return [
        (f"{package} {versions[package]}", str(entry["cite"]))
        for package, entry in data_file("methods.toml")["software"].items()
        if versions.get(package) and (entry.keys() == {"cite"} or evidence.shows(entry))
    ]


def bibliography(keys: Iterable[str]) -> str:
    """Return the BibTeX entries of the keys, each once, in the order of the alphabet."""
    return "\n".join(_entry(key, _reference(key)) for key in sorted(set(keys)))


def known_references() -> list[str]:
    """Return the key of every reference that a bundle of any study may cite."""
    return list(data_file("references.toml"))


def short_reference(key: str) -> str:
    """Return a reference as it stands in running text."""
    fields = _reference(key)
    authors = str(fields["author"]).split(" and ")  # text of others: BibTeX
    names = [author.split(",")[0].strip("{}") for author in authors]  # text of others: BibTeX
    if "others" in names or len(names) > 3:
        return f"{names[0]} et al. {fields['year']}"
    *first, last = names
    return f"{', '.join(first)} & {last} {fields['year']}" if first else f"{last} {fields['year']}"


def _entry(key: str, fields: Mapping[str, Any]) -> str:
    lines = [f"  {name} = {{{fields[name]}}}" for name in _FIELDS if name in fields]
    return f"@{fields['type']}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _reference(key: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] | None = data_file("references.toml").get(key)
    if fields is None:
        raise InputError(f"reference {key!r}: is not in toolkit/thesis/references.toml; add it there")
    return fields


@cache
def data_file(name: str) -> dict[str, Any]:
    """Return the content of a data file of this folder."""
    return read_toml(files("toolkit.thesis") / name)
