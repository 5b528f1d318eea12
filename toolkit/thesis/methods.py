"""The methods section of a study: what was done, read from plan, ledger and files, in the sentences of a template."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from toolkit.errors import PriceError
from toolkit.models.base import DEFECTS
from toolkit.prompts.check import KINDS
from toolkit.report import captions
from toolkit.report.blocks import Paragraph, Sentence
from toolkit.report.escape import escape_breaking, readable
from toolkit.runs.decisions import Decisions, decisions_of
from toolkit.runs.provenance import asked_models, rates_sentence
from toolkit.stats.inference.clusters import units_words
from toolkit.thesis.references import (
    NO_EVIDENCE,
    Evidence,
    packages_used,
    short_reference,
    statistics_used,
)
from toolkit.words import LENGTH_BINS, agreeing, cents, counted, joined, total_aud

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.analyses import Analyses
    from toolkit.models.catalogue import ModelSpec
    from toolkit.models.prices import Price
    from toolkit.plan import Plan
    from toolkit.runs.provenance import Asked
    from toolkit.store.connection import Store

_FIRST_SIGN = 0xF0000  # private use: the first of the signs that stand for references in a template's text
_cite_signs: dict[tuple[str, ...], str] = {}


@dataclass(frozen=True)
class Done:
    """What a study did."""

    plan: Plan
    answers: Sequence[Asked]
    paid: Sequence[Asked]
    status: Mapping[str, Any]
    manifest: Mapping[str, Any]
    evidence: Evidence = field(default_factory=Evidence)
    unscored: int = 0
    zeros: str = ""
    people: tuple[int, int] = (0, 0)
    decisions: Decisions | None = None
    prices: Mapping[str, Price | None] = field(default_factory=dict)
    drift: Mapping[str, Sequence[str]] = field(default_factory=dict)
    votes: Sized = ()

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
    known: dict[str, Any] = {
        "prices": {spec.name: _price(spec) for spec in specs},
        "decisions": decisions_of(plan, store),
        "votes": of.hallucination_verdicts,
    }
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
    from toolkit.models.prices import price_of

    try:
        return price_of(spec)
    except PriceError:
        return None


def methods_section(done: Done) -> tuple[Paragraph, ...]:
    """Return the methods section as paragraphs; what the study did not do has none."""
    section = {name.capitalize(): sentences(name, done) for name in ("design", "models", "judges", "people")}
    section |= statistics_used(done.evidence)
    section["Multiplicity"] = sentences("multiplicity", done)
    section["Missing and excluded"] = sentences("missing", done)
    section["Deviations from what was decided beforehand"] = sentences("deviations", done)
    section |= {name.capitalize(): sentences(name, done) for name in ("cost", "software")}
    return _paragraphs(section)


def _paragraphs(section: Mapping[str, tuple[Sentence, ...]]) -> tuple[Paragraph, ...]:
    return tuple(Paragraph(texts, heading) for heading, texts in section.items() if texts)


def scores_section(
    analyses: Analyses, manifest: Mapping[str, Any], evidence: Evidence
) -> tuple[Paragraph, ...]:
    """Return the methods of somebody's scores: what is known of them, the statistics, and what was missing."""
    missing = int((~analyses.runs["judged"]).sum())
    done = SimpleNamespace(of=analyses, manifest=manifest, evidence=evidence, missing=missing)
    return _paragraphs(
        {
            "Data": sentences("data", done),
            **statistics_used(evidence),
            "Missing": sentences("unscored", done),
            "Software": sentences("analysed", done),
        }
    )


def sentences(paragraph: str, done: Done | SimpleNamespace) -> tuple[Sentence, ...]:
    """Return a paragraph of the template as sentences with their references."""
    text = getattr(templates().get_template("methods.jinja").module, paragraph)(done)
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
    """Return the templates of the bundle; their tags are none that TeX knows."""
    environment = Environment(
        loader=PackageLoader("toolkit.thesis", ""),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_on_a_line,
    )
    environment.globals |= {
        "agreeing": agreeing, "aud": cents, "cite": _cite, "defects": DEFECTS, "counted": counted,
        "escape_breaking": escape_breaking, "flaws": KINDS,
        "joined": joined, "length_bins": LENGTH_BINS, "packages_used": packages_used,
        "parts": parts, "rates_sentence": rates_sentence,
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
