"""The references of the methods: which a bundle cites, and how they are written for BibTeX and for plain text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.report.bundle.evidence import Evidence

_ORDER: Final = (
    "author",
    "title",
    "journal",
    "booktitle",
    "edition",
    "publisher",
    "address",
    "howpublished",
    "volume",
    "number",
    "pages",
    "year",
    "note",
    "doi",
)
HASH: Final = 12
"""Characters of a hash that the text shows; the manifest has all."""
_ALWAYS: Final = {"package", "cite"}
"""Fields of a package that every bundle names."""


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
        shown = Evidence(methods=(method,))
        keys = dict.fromkeys(key for one in cites if shown.shows(one) for key in one["cite"])
        told.append(Sentence(method[:1].upper() + method[1:], tuple(keys)))
    return told


def packages_used(
    versions: Mapping[str, str | None], evidence: Evidence
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, version and reference of the software that analyses and figures were made with."""
    return [
        (one["package"], str(versions[one["package"]]), (str(one["cite"]),))
        for one in _data("methods.toml")["software"]
        if versions.get(one["package"]) and (one.keys() == _ALWAYS or evidence.shows(one))
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
        raise InputError(f"reference {key!r}: is not in toolkit/report/bundle/references.toml; add it there")
    return found


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((files("toolkit.report.thesis") / name).read_text(encoding="utf-8"))
