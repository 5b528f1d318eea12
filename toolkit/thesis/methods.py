"""The methods section: what was done, in the sentences of a template, and what it cites: methods and references."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from toolkit.analyses import OWN
from toolkit.errors import InputError, PriceError
from toolkit.files.reading import read_toml
from toolkit.judges.rubric import SEED_RUBRIC
from toolkit.models.base import DEFECTS
from toolkit.models.prices import Price, price_of
from toolkit.prompts.check import KINDS
from toolkit.report import captions
from toolkit.report.blocks import Paragraph, Part, Sentence
from toolkit.report.escape import escape_breaking, latex_templates, readable
from toolkit.runs.decisions import Decisions, decisions_of
from toolkit.runs.provenance import asked_models, rates_sentence
from toolkit.stats import WORDS
from toolkit.stats.inference.clusters import units_words
from toolkit.stats.result import GROUPS, Estimate
from toolkit.words import LENGTH_BINS, agreeing, amount_text, counted, joined, total_aud

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.analyses.answers import Analyses
    from toolkit.models.catalogue import ModelSpec
    from toolkit.plan import Plan
    from toolkit.runs.provenance import Asked
    from toolkit.store.connection import Store

_FIRST_SIGN = 0xF0000  # private use: the first of the signs that stand for references in a template's text
_cite_signs: dict[tuple[str, ...], str] = {}


_UNITS = (GROUPS, "bases", "prompts", "items", "methods")
"""Independent units, of which the first that an n counts is that of its interval."""
_KINDS = {"Statistics": "statistic", "Intervals and tests": "method", "Assumptions": "assumption"}


@dataclass(frozen=True)
class Evidence:
    """Numbers that a bundle shows, each with its place, columns that hold some, and what is true of the runs."""

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
        texts = [("row", f"{place}: {n.name}", n) for place, n in self.numbers if n.estimable]
        texts += [("method", n.method, n) for n in self.calculated]
        texts += [("correction", n.correction, n) for n in self.tested]
        return [n for kind, text, n in texts if any(fnmatchcase(text, sign) for sign in signs.get(kind, ()))]

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
    shown: Iterable[Part], findings: Iterable[Estimate] = (), analyses: Analyses | None = None
) -> Evidence:
    """Return what the figures, tables and findings that were written hold, and what is true of the runs."""
    parts = list(shown)
    numbers = [(part.name, estimate) for part in parts for estimate in part.estimates]
    numbers += [("findings", estimate) for estimate in findings]
    columns = {f"{part.name}.{column}" for part in parts for column in part.columns}
    if analyses is None or analyses.runs.empty:
        return Evidence(numbers, columns)
    runs = analyses.runs
    by = [name for name in ("model", "base", "level", "prompt_id") if name in runs]
    besides = {
        "several models": runs["model"].nunique() > 1,
        "repeats": analyses.methods.empty and runs.duplicated(by).any(),
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
        order = data_file("methods.toml")["bibtex"]["fields"]
        lines = [f"  {name} = {{{fields[name]}}}" for name in order if name in fields]
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


@dataclass(frozen=True)
class Done:
    """What a study did."""

    plan: Plan
    answers: Sequence[Asked]
    paid: Sequence[Asked]
    status: Mapping[str, Any]
    manifest: Mapping[str, Any]
    evidence: Evidence = NO_EVIDENCE
    unscored: int = 0
    zeros: str = ""
    people: tuple[int, int] = (0, 0)
    decisions: Decisions | None = None
    prices: Mapping[str, Price | None] = field(default_factory=dict)
    drift: Mapping[str, Sequence[str]] = field(default_factory=dict)
    votes: Sized = ()
    full: bool = True

    @cached_property
    def asked(self) -> dict[str, str]:
        """Text of each prompt that was asked, by its id."""
        return {prompt.prompt_id: prompt.text for _, prompt in self.plan.runs.prompts}

    @property
    def priced(self) -> dict[str, list[tuple[str, Price]]]:
        """Models that cost something, with their prices, by where these stand."""
        return captions.by_key(
            (price.source, (name, price))
            for name, price in self.prices.items()
            if price is not None and max(price.usd_per_million_input, price.usd_per_million_output) > 0
        )


def what_was_done(
    plan: Plan,
    store: Store,
    of: Analyses,
    status: Mapping[str, Any],
    manifest: Mapping[str, Any],
    evidence: Evidence = NO_EVIDENCE,
    lacking: int = 0,
) -> Done:
    """Return what the methods tell of a study that shows these numbers; so many experiments lack a verdict."""
    specs = (*plan.models.values(), *plan.judge_models.values())
    known: dict[str, Any] = {"decisions": decisions_of(plan, store), "votes": of.hallucination_verdicts}
    known["prices"] = {spec.name: _price(spec) for spec in specs}
    if not plan.test.judged:
        # What judges said in other tests is not kept by call, so that all their calls count.
        paid = asked_models(plan, store)
        answers = [answer for answer in paid if answer.purpose == "judge"]
        answers += [answer for answer in asked_models(plan, store, earlier=False) if answer.purpose == "run"]
        unscored = _unscored(of.runs) if plan.test.keyed else lacking
        return Done(plan, answers, paid, status, manifest, evidence, unscored, **known)
    runs, human, judgements, pairs = map(of.with_arms, ("runs", "human", "judgements", "pairs"))
    rated = human[~human["failed"]]
    calls = [*judgements["call_id"].dropna(), *(pairs["call_id"] if len(pairs) else ())]
    return Done(
        plan,
        asked_models(plan, store, calls, earlier=False),
        asked_models(plan, store, calls),
        status,
        manifest,
        evidence,
        _unscored(runs) if plan.scored else 0,
        captions.zeros_words(captions.judged_runs(runs)),
        (rated["rater"].nunique(), rated["run_id"].nunique()),
        drift=captions.by_key(of.judge_drift()) if len(of.drift) and of.is_judged else {},
        **known,
    )


def _unscored(runs: pd.DataFrame) -> int:
    """Return how many answers that count have no score."""
    return int(((runs["status"] == "succeeded") & ~runs["excluded"] & ~runs["judged"].astype(bool)).sum())


def _price(spec: ModelSpec) -> Price | None:
    """Return the price that is known today; a study whose models have left the table keeps its bundle."""
    try:
        return price_of(spec)
    except PriceError:
        return None


def methods_section(done: Done) -> tuple[Paragraph, ...]:
    """Return the methods section as paragraphs; what the study did not do has none."""
    return _section("study", done)


def scores_section(
    analyses: Analyses, manifest: Mapping[str, Any], evidence: Evidence
) -> tuple[Paragraph, ...]:
    """Return the methods of somebody's scores: what is known of them, the statistics, and what was missing."""
    missing = int((~analyses.runs["judged"]).sum())
    done = SimpleNamespace(of=analyses, manifest=manifest, evidence=evidence, missing=missing)
    return _section("scores", done)


def _section(kind: str, done: Done | SimpleNamespace) -> tuple[Paragraph, ...]:
    section: dict[str, tuple[Sentence, ...]] = {}
    for heading, paragraph in data_file("methods.toml")["headings"][kind].items():
        section |= {heading: sentences(paragraph, done)} if paragraph else statistics_used(done.evidence)
    return tuple(Paragraph(texts, heading) for heading, texts in section.items() if texts)


def sentences(paragraph: str, done: Done | SimpleNamespace) -> tuple[Sentence, ...]:
    """Return a paragraph of the template as sentences with their references."""
    text = getattr(templates().get_template("thesis/methods.jinja").module, paragraph)(done)
    lines = text.strip("\n").replace("\n ", " ").splitlines()  # an indented line goes on
    cites = {sign: keys for keys, sign in _cite_signs.items()}
    cited = []
    for line in lines:
        words = " ".join("".join(c for c in line if c not in cites).split())  # text of others: names in it
        if words:
            cited.append(Sentence(words, next((cites[c] for c in line if c in cites), ())))
    return tuple(cited)


@cache
def templates() -> Environment:
    """Return the templates of the bundle, in which no value ends a sentence or cites anything."""
    environment = latex_templates().overlay(finalize=_on_a_line)
    environment.globals |= {
        "agreeing": agreeing, "aud": amount_text, "cite": _cite, "defects": DEFECTS, "counted": counted,
        "escape_breaking": escape_breaking, "flaws": KINDS,
        "joined": joined, "length_bins": LENGTH_BINS, "packages_used": packages_used,
        "parts": parts, "rates_sentence": rates_sentence, "seed_rubric": SEED_RUBRIC,
        "total_aud": total_aud, "units_words": units_words,
    }  # fmt: skip
    return environment


class _Cite(str):
    """A sign that stands for keys of references; it is taken out of names."""


def _cite(*keys: str) -> _Cite:
    return _Cite(_cite_signs.setdefault(keys, chr(_FIRST_SIGN + len(_cite_signs))))


def _on_a_line(value: Any) -> Any:
    """Return a value that ends no sentence and cites nothing, whatever it is called."""
    if isinstance(value, _Cite):
        return value
    categories = ("Cc", "Zl", "Zp")
    return "".join(
        " " if unicodedata.category(c) in categories or ord(c) >= _FIRST_SIGN else c for c in str(value)
    )


def methods_text(paragraphs: Sequence[Paragraph]) -> str:
    """Return the section as plain text with author and year of each reference."""
    lines = []
    for paragraph in paragraphs:
        texts = [f"{paragraph.heading}."]
        for sentence in paragraph.sentences:
            cites = "; ".join(map(short_reference, sentence.cite))
            texts.append(f"{sentence.text}{cites and f' ({cites})'}.")
        lines.append(" ".join(texts))
    return readable("\n\n".join(lines)) + "\n"


def methods_latex(paragraphs: Sequence[Paragraph]) -> str:
    r"""Return the section as LaTeX with ``\cite`` of each reference."""
    parts = [paragraph.latex() for paragraph in paragraphs]
    # Names of files and versions do not break well: lines may be looser here, as narrow as the thesis may be.
    return "\n\n".join([r"\begingroup\emergencystretch=3em", *parts, r"\endgroup"]) + "\n"


def parts(counts: Iterable[tuple[int, str]]) -> list[str]:
    """Return numbers with what they are of; what there is none of is not named, but for the first."""
    return [f"{count} {words}" for index, (count, words) in enumerate(counts) if count or not index]


if TYPE_CHECKING:
    from toolkit.analyses.answers import Analyses
