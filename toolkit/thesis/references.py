"""What a bundle cites: the methods of the results that it shows, the references of these, and BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from toolkit.analyses import OWN
from toolkit.errors import InputError
from toolkit.files import read_toml
from toolkit.report.blocks import Sentence, Shown
from toolkit.stats import WORDS
from toolkit.stats.result import GROUPS, Estimate
from toolkit.words import joined

if TYPE_CHECKING:
    from toolkit.analyses import Analyses

_FIELDS = (
    "author", "title", "journal", "booktitle", "edition", "publisher", "address", "howpublished", "volume", "number",
    "pages", "year", "note", "doi",
)  # fmt: skip
"""Fields of a BibTeX entry, in their order."""
_UNITS = (GROUPS, "bases", "items", "questions", "methods")
"""Independent units, of which the first that an n counts is that of its interval."""
_KINDS = {"Statistics": "statistic", "Intervals and tests": "method", "Assumptions": "assumption"}


@dataclass(frozen=True)
class Evidence:
    """The numbers that a bundle shows, each with the table, figure or text where it stands.

    ``columns`` are those of data that hold a number, ``besides`` is what is true of the runs: ``several models``,
    ``repeats`` of a prompt by a model, ``missing scores``.
    """

    numbers: Sequence[tuple[str, Estimate]] = ()
    columns: Set[str] = frozenset()
    besides: Set[str] = frozenset()
    seed: int = 0

    @property
    def tested(self) -> list[Estimate]:
        """Numbers that have a P value."""
        return [number for _, number in self.numbers if number.p_value is not None]

    @property
    def calculated(self) -> list[Estimate]:
        """Numbers that have an interval or a P value: a method without a result made none."""
        return [number for _, number in self.numbers if number.low is not None or number.p_value is not None]

    def matching(self, signs: Mapping[str, Sequence[str]]) -> list[Estimate]:
        """Return the numbers that have one of the signs of a sentence."""
        texts = [
            ("row", f"{place}: {number.name}", number) for place, number in self.numbers if number.estimable
        ]
        texts += [("method", number.method, number) for number in self.calculated]
        texts += [("correction", number.correction, number) for number in self.tested]
        return [
            number
            for kind, text, number in texts
            if any(fnmatchcase(text, sign) for sign in signs.get(kind, ()))
        ]

    def shows(self, signs: Mapping[str, Sequence[str]]) -> bool:
        """Return whether a number bears a sentence out."""
        is_shown = not self.columns.isdisjoint(signs.get("column", ())) or bool(self.matching(signs))
        return is_shown and self.besides >= set(signs.get("besides", ()))

    def sentence(self, entry: Mapping[str, Any]) -> Sentence:
        """Return a sentence of the methods with what is known of the numbers that bear it out."""
        numbers = self.matching(entry)
        units = dict.fromkeys(unit for n in numbers for unit in [u for u in _UNITS if u in n.n][:1])
        made = ["intervals"] * any(n.low is not None for n in numbers)
        made += ["tests"] * any(n.p_value is not None for n in numbers)
        families = dict.fromkeys(n.correction for n in numbers)
        words = {"units": joined([*units]), "made": joined(made), "families": joined([*families])}
        return Sentence(entry["text"].format(**words, seed=self.seed), tuple(entry.get("cite", ())))


NO_EVIDENCE = Evidence()


def evidence_of(
    shown: Iterable[Shown], findings: Iterable[Estimate] = (), analyses: Analyses | None = None
) -> Evidence:
    """Return what the figures, tables and findings that were written hold, and what is true of the runs."""
    numbers: list[tuple[str, Estimate]] = []
    columns: set[str] = set()
    for part in shown:
        numbers += [(part.name, estimate) for estimate in part.estimates]
        columns |= {f"{part.name}.{column}" for column in part.columns}
    numbers += [("findings", estimate) for estimate in findings]
    if analyses is None or analyses.runs.empty:
        return Evidence(numbers, columns)
    runs = analyses.runs
    by = [name for name in ("model", "base", "length_bin", "prompt_id") if name in runs]
    besides = {
        "several models": runs["model"].nunique() > 1,
        "repeats": runs.duplicated(by).any(),
        "missing scores": analyses.is_judged and not runs["judged"].all(),
    }
    return Evidence(numbers, columns, {name for name in besides if besides[name]}, analyses.seed)


def statistics_used(evidence: Evidence) -> dict[str, tuple[Sentence, ...]]:
    """Return what was estimated, how intervals and tests were made, and what they assume, each under its heading."""
    own = [{"text": WORDS[n]["method"], "cite": WORDS[n].get("cite", ()), "row": [f"{n}: *"]} for n in OWN]
    data = data_file("methods.toml")
    data = {**data, "statistic": [*data["statistic"], *own]}
    section = {
        heading: tuple(evidence.sentence(entry) for entry in data[kind] if evidence.shows(entry))
        for heading, kind in _KINDS.items()
    }
    signs = [sign for entry in data["method"] for sign in entry.get("method", ())]
    names = dict.fromkeys(number.method for number in evidence.calculated)
    if further := [name for name in names if name and not any(fnmatchcase(name, sign) for sign in signs)]:
        section["Intervals and tests"] += (
            Sentence(f"Results also name these methods: {'; '.join(further)}"),
        )
    return section


def packages_used(versions: Mapping[str, str | None], evidence: Evidence) -> list[tuple[str, str]]:
    """Return the software that analyses and figures were made with: name and version, and the key of its reference."""
    return [
        (f"{package} {versions[package]}", str(entry["cite"]))
        for package, entry in data_file("methods.toml")["software"].items()
        if versions.get(package) and (entry.keys() == {"cite"} or evidence.shows(entry))
    ]


def bibliography(keys: Iterable[str]) -> str:
    """Return the BibTeX entries of the keys, each once, in the order of the alphabet."""
    entries = []
    for key in sorted(set(keys)):
        fields = _reference(key)
        lines = [f"  {name} = {{{fields[name]}}}" for name in _FIELDS if name in fields]
        entries.append(f"@{fields['type']}{{{key},\n" + ",\n".join(lines) + "\n}\n")
    return "\n".join(entries)


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


def _reference(key: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] | None = data_file("references.toml").get(key)
    if fields is None:
        raise InputError(f"reference {key!r}: is not in toolkit/thesis/references.toml; add it there")
    return fields


@cache
def data_file(name: str) -> dict[str, Any]:
    """Return the content of a data file of this folder."""
    return read_toml(files("toolkit.thesis") / name)
