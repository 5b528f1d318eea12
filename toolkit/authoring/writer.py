"""Has a model of a study write bases from documents: it extracts facts with quotes, unsupported facts are dropped.

Facts are placed in S, M and L by counting tokens, in the model's order of importance. Text of documents and models is
data: it is compared, counted, escaped and written, never executed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.authoring.documents import Document, clean, read_documents, specifics
from toolkit.errors import BudgetReached, InputError
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import read_json, read_toml
from toolkit.files.strict import Strict, checked
from toolkit.files.writing import write_atomically
from toolkit.judges.parse import Unreadable, one_object, quote
from toolkit.judges.request import JudgeSpec, ask_and_read, fence_code, object_schema
from toolkit.judges.rubric import shipped_words
from toolkit.models.base import Ask, ModelRequest
from toolkit.models.tokens import ENCODINGS, count_all
from toolkit.pipeline import ask_study
from toolkit.plan import Plan
from toolkit.prompts.check import check_summary
from toolkit.prompts.dataset import CSF, FACT_KINDS, INDEX, Prompt, base_files, compose, load_dataset
from toolkit.prompts.similarity import NEAR, jaccard
from toolkit.runs.execution import each
from toolkit.words import LENGTH_BINS, SCENARIOS, VERSION, Summary, counted, one_line, template

if TYPE_CHECKING:
    from toolkit.store.connection import Store

MAX_TOKENS = 8000
"""Longest reply of a writer, in tokens: forty facts with their quotes take some 4,000."""
ELEMENTS = (5, 10)  # least and most elements of a base
LONGEST_FACT = 60  # words: a longer fact fills a length bin alone
AIM = 0.75  # position in a length bin that a prompt aims at: facts need room beside a long task
FOCUS = "prompts from documents"
PROVENANCE = ".provenance.json"
_WORDS = shipped_words("writer", "authoring")
_ORDER = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b[^.]{0,40}\b(?:instructions?|prompts?|rules|the above)\b|"
    r"\byou are now\b|<\||</?(?:system|user|assistant|document|task|answer|instructions?)\b|```"
)
"""Text that instructs a model or closes its fence, instead of stating a fact."""


class Fact(Strict):
    """One fact, its kind, and the quote of the document that supports it."""

    kind: str
    fact: str
    quote: str


class _Reply(Strict):
    scenario: str
    category: str
    csf: str
    opening: str
    task: str
    elements: list[str]
    facts: list[Fact]


class Extract(_Reply):
    """The checked extract of a document: its supported facts, and the dropped ones with a reason each."""

    dropped: list[tuple[str, Fact]]

    def texts(self) -> list[str]:
        """Return its facts without their quotes."""
        return [fact.fact for fact in self.facts]


NOTHING = Extract.model_construct(opening="", task="", facts=[], dropped=[])  # type: ignore[call-arg]


@dataclass(frozen=True)
class Draft:
    """The outcome of one document: the number of facts in S, M and L (``sizes``), or why there is no base."""

    document: Document
    base: str
    model: Mapping[str, str]
    call_id: str
    extract: Extract = NOTHING
    sizes: tuple[int, ...] = ()
    reason: str = ""

    def texts(self) -> dict[str, str]:
        """Return the prompt of each length bin."""
        facts = self.extract.texts()
        opening, task = self.extract.opening, self.extract.task
        return {name: compose(opening, facts[:last], task) for name, _, last in self.spans()}

    def spans(self) -> Iterable[tuple[str, int, int]]:
        """Return the length bins, each with the first of the facts that it adds and the first that it has not."""
        return zip(LENGTH_BINS, (0, *self.sizes), self.sizes, strict=False)


def prompt_digest() -> str:
    """Return the SHA-256 of the writer's prompt."""
    return sha256_hex(json.dumps(_WORDS, sort_keys=True))


def writer_request(writer: JudgeSpec, document: Document) -> ModelRequest:
    """Return the request that has a model extract the facts of one document."""
    values = {
        "nonce": fence_code("", document.text, writer.seed),
        "document": document.text,
        "scenarios": ", ".join(SCENARIOS),
        "csf": ", ".join(CSF),
        "kinds": ", ".join(FACT_KINDS),
    }
    text = {"type": "string"}
    scenarios, csf, kinds = (text | {"enum": list(names)} for names in (SCENARIOS, CSF, FACT_KINDS))
    fact = object_schema({"kind": kinds, "fact": text, "quote": text})
    schema = object_schema(
        {"scenario": scenarios, "category": text, "csf": csf, "opening": text, "task": text}
        | {"elements": {"type": "array", "items": text}, "facts": {"type": "array", "items": fact}}
    )
    return writer.worded(_WORDS, values, schema)


def parse_extract(text: str, finish_reason: str, document: Document) -> Extract:
    """Read a model's extract of a document, or raise `Unreadable`; unsupported facts are dropped."""
    try:
        reply = checked(_Reply, one_object(text, finish_reason), "reply")
    except InputError as error:
        raise Unreadable("malformed", quote(str(error), 120)) from None
    for name, value, allowed in (("scenario", reply.scenario, SCENARIOS), ("csf", reply.csf, CSF)):
        if value not in allowed:
            raise Unreadable(f"unknown {name}", quote(value))
    texts = {name: _line(getattr(reply, name)) for name in ("category", "opening", "task")}
    elements = list(dict.fromkeys(line for item in reply.elements if (line := _line(item))))
    if not ELEMENTS[0] <= len(elements) <= ELEMENTS[1]:
        raise Unreadable("elements", f"{len(elements)}, {ELEMENTS[0]} to {ELEMENTS[1]} are wanted")
    for name, value in (*texts.items(), *(("elements", element) for element in elements)):
        if not value or _ORDER.search(value):
            raise Unreadable(name, "speaks to a model" if value else "empty")
    if invented := sorted(specifics(texts["opening"]) - specifics(document.text)):
        raise Unreadable("opening", f"says {', '.join(invented)}, the document does not")
    facts: dict[str, Fact] = {}
    dropped = []
    for entry in reply.facts:
        line = re.sub(r"^(?:[-*\u2022>|]\s+)+", "", _line(entry.fact))
        line += "" if not line or line[-1] in ".?!:;)]`\"'" else "."
        fact, key = Fact(kind=entry.kind, fact=line, quote=_line(entry.quote)), line.casefold()
        if fact.kind not in FACT_KINDS:
            reason: str | None = f"unknown kind {one_line(fact.kind, 20)}"
        elif _ORDER.search(line):
            reason = "speaks to a model"
        elif not 3 <= len(line.split()) <= LONGEST_FACT:
            reason = f"has not 3 to {LONGEST_FACT} words"
        else:
            reason = document.fault(line, fact.quote) or ("said before" if key in facts else None)
        if reason:
            dropped.append((reason, fact))
        else:
            facts[key] = fact
    checked_texts = {**texts, "elements": elements, "facts": list(facts.values()), "dropped": dropped}
    return Extract.model_construct(**dict(reply) | checked_texts)


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def bin_sizes(opening: str, facts: Sequence[str], task: str) -> tuple[int, ...]:
    """Return how many of the first facts make S, M and L: in range under both encodings, and near ``AIM``."""
    texts = [compose(opening, facts[: number + 1], task) for number in range(len(facts))]
    counts = np.array([count_all(texts, encoding) for encoding in ENCODINGS]).reshape(len(ENCODINGS), -1)
    sizes: list[int] = []
    for length_bin, (low, high) in LENGTH_BINS.items():
        inside = ((counts >= low) & (counts <= high)).all(axis=0)
        fits = [size for size in np.flatnonzero(inside) + 1 if not sizes or size > sizes[-1]]
        if not fits:
            most = int(counts[:, -1].min()) if len(facts) else 0
            supported = counted(len(facts), "facts")
            fault = f"the document is too thin: the {supported} that rest on it make {most}"
            if most >= low:
                fault = "opening, task and facts are too long: no number of facts fits"
            raise InputError(f"{fault}, length bin {length_bin} has {low} to {high} tokens")
        aim = low + AIM * (high - low)
        sizes.append(int(min(fits, key=lambda size: abs(counts[:, size - 1].mean() - aim))))
    return tuple(sizes)


async def write_draft(document: Document, base: str, *, writer: JudgeSpec, ask: Ask) -> Draft:
    """Have a model extract the facts of one document, and place them; ask once more where it cannot be read."""
    request = writer_request(writer, document)
    outcome = await ask_and_read(request, lambda text, end: parse_extract(text, end, document), ask)
    model = {"name": writer.name, "provider": writer.provider, "model": writer.model}
    draft = Draft(
        document, base, model, outcome.call_id, outcome.read or NOTHING, reason=outcome.reason or ""
    )
    if outcome.read is None:
        return draft
    try:
        return replace(
            draft, sizes=bin_sizes(draft.extract.opening, draft.extract.texts(), draft.extract.task)
        )
    except InputError as error:
        return replace(draft, reason=str(error))


def base_names(documents: Sequence[Document]) -> list[str]:
    """Return a unique name, safe as a path, for the base of each document."""
    stems = (unicodedata.normalize("NFKD", Path(document.name).stem) for document in documents)
    plain = (stem.encode("ascii", "ignore").decode().lower() for stem in stems)
    slugs = [re.sub(r"[^a-z0-9]+", "_", stem).strip("_")[:60] for stem in plain]
    counts, names = Counter(slugs), []
    for document, slug in zip(documents, slugs, strict=True):
        suffix = "" if slug and counts[slug] == 1 else sha256_hex(document.name)[:8]
        names.append("_".join(part for part in ("doc", slug, suffix) if part))
    return names


def without_copies(drafts: Iterable[Draft], prompts: Iterable[Prompt]) -> list[Draft]:
    """Return the drafts; a near-copy of a known base or of an earlier draft gets no sizes."""
    known: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for prompt in prompts:
        known[prompt.level].append((prompt.base, prompt.text))
    checked = []
    for draft in drafts:
        shares = [(0.0, "")]
        for length_bin, text in draft.texts().items():
            others = [pair for pair in known[length_bin] if pair[0] != draft.base]
            similar = jaccard([text, *(other for _, other in others)])[0, 1:].tolist()
            shares += zip(similar, (base for base, _ in others), strict=True)
        share, base = max(shares)
        if share > NEAR:
            reason = f"is a near-copy of base {base}: shares {share:.0%} of its word 5-grams"
            draft = replace(draft, sizes=(), reason=reason)
        for length_bin, text in draft.texts().items():
            known[length_bin].append((draft.base, text))
        checked.append(draft)
    return checked


def save_bases(drafts: Iterable[Draft], folder: Path) -> list[Path]:
    """Write every base with its provenance and the index of the dataset, each file whole or not at all."""
    written = []
    for draft in drafts:
        if not draft.sizes:
            continue
        # Provenance first: a base without it counts as the user's own.
        facts, document = draft.extract.facts, draft.document
        content = {
            "base": draft.base,
            "document": {"name": document.name, "sha256": document.sha256},
            "model": dict(draft.model),
            "call_id": draft.call_id,
            "prompt": prompt_digest(),
            "toolkit": VERSION,
            "facts": [
                {"length_bin": name} | dict(fact)
                for name, first, last in draft.spans()
                for fact in facts[first:last]
            ],
            "dropped": [
                {"reason": reason} | fact.model_dump(exclude={"kind"})
                for reason, fact in draft.extract.dropped
            ],
        }
        provenance = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        write_atomically(folder / f"{draft.base}{PROVENANCE}", provenance.encode())
        written.append(write_atomically(folder / f"{draft.base}.toml", base_toml(draft).encode()))
    if not written:
        return []
    # The index has the version of its bases; its other keys are kept.
    path, name = folder / INDEX, folder.resolve().name
    digests = b"".join(hashlib.sha256(file.read_bytes()).digest() for file in base_files(folder))
    version = f"{name}_{hashlib.sha256(digests).hexdigest()[:12]}"
    index = read_toml(path) if path.is_file() else {"name": name, "focus": FOCUS}
    if index.get("version") != version:
        index |= {"version": version, "date": datetime.date.today()}
    lines = ""
    for key, value in index.items():
        lines += f"{key} = {value if isinstance(value, datetime.date) else _toml(str(value))}\n"
    return [*written, write_atomically(path, lines.encode())]


def base_toml(draft: Draft) -> str:
    """Return a base as TOML; every text is an escaped basic string."""
    return template("authoring", "base.jinja").render(draft=draft, extract=draft.extract, toml=_toml)


def _toml(text: str) -> str:
    """Return a text as a basic string of TOML: escaped as in JSON, and DEL."""
    return json.dumps(clean(text), ensure_ascii=False).replace("\x7f", "\\u007f")


# --- the job of a study -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Documents, the name of the base of each, and the model that writes them."""

    documents: tuple[Document, ...]
    bases: tuple[str, ...]
    writer: JudgeSpec

    def requests(self) -> list[ModelRequest]:
        """Return the requests, one for each document."""
        return [writer_request(self.writer, document) for document in self.documents]


def writer_job(plan: Plan, folder: Path, *, model: str | None = None, max_tokens: int = MAX_TOKENS) -> Job:
    """Read the documents of a folder, for a model of a study, by default its first; no model is called."""
    name = model or next(iter(plan.models))
    spec = plan.models.get(name)
    if spec is None:
        others = f"only {', '.join(plan.models)}; name it under models"
        raise InputError(f"study {plan.study.name}: has no model {name!r}, {others}")
    documents = read_documents(folder)
    names = ("provider", "model", "endpoint", "structured", "seed_supported", "options")
    shared: dict[str, Any] = {attribute: getattr(spec, attribute) for attribute in names}
    shared["temperature"] = plan.study.sampling.temperature if spec.takes_sampling else None
    writer = JudgeSpec("writer", name, max_tokens=max_tokens, seed=plan.study.seed, **shared)
    return Job(documents, tuple(base_names(documents)), writer)


def write_prompts(plan: Plan, store: Store, job: Job, out: Path, *, progress: bool = True) -> Summary:
    """Have a base written from every document and save the complete ones; replies in the ledger are used again.

    The summary has the outcome of each document and the problems of the dataset. The exit code is 1 where a document
    gave no base or the dataset has a problem, 3 where the budget was reached.
    """
    for document, base in zip(job.documents, job.bases, strict=True):
        path, provenance = out / f"{base}.toml", out / f"{base}{PROVENANCE}"
        if not path.exists():
            continue
        content = read_json(provenance) if provenance.exists() else None
        source = content.get("document") if isinstance(content, dict) else None
        if not (isinstance(source, dict) and source.get("name") == document.name):
            raise InputError(f"{path}: exists and was not written from {document.name}; choose another --out")
    prompts = list(plan.dataset.prompts)
    if base_files(out):
        prompts += load_dataset(out, check_ranges=False).prompts
    prompts = [prompt for prompt in prompts if prompt.base not in job.bases]
    drafts: dict[str, Draft] = {}

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def write(pair: tuple[Document, str]) -> None:
            drafts[pair[1]] = await write_draft(*pair, writer=job.writer, ask=ask)

        pairs = zip(job.documents, job.bases, strict=True)
        return await each([pairs], write, at_once=plan.study.concurrency, stop=stop)

    reached, _ = ask_study(
        plan, store, work, requests=job.requests(), label="documents", purpose="write", progress=progress
    )
    # In the order of the documents and not of the replies, so that always the same one of two copies is kept.
    ordered = without_copies([drafts[base] for base in job.bases if base in drafts], prompts)
    rows = [
        {
            "document": draft.document.name,
            "base": draft.base if draft.sizes else None,
            "sizes": draft.sizes,
            "facts": len(draft.extract.facts),
            "dropped": [reason for reason, _ in draft.extract.dropped],
            "reason": draft.reason,
            "call_id": draft.call_id,
        }
        for draft in ordered
    ]
    saved = save_bases(ordered, out)
    checks = check_summary(out) if saved else None
    written = sum(bool(draft.sizes) for draft in ordered)
    fields = {"documents": rows, "bases": written, "out": str(out) if saved else None}
    fields |= {"checks": checks and checks.fields, "budget": str(reached) if reached else None}
    words = {"checked": checks and checks.text, "asked": len(job.documents), "common": _most_common}
    failed = written < len(job.documents) or bool(checks and checks.exit_code)
    text = template("authoring", "written.jinja").render(fields | words)
    return Summary(fields, text, 3 if reached else int(failed))


def _most_common(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """Return the three most frequent reasons of dropped facts with their counts; a quote is not told from another."""
    counts = Counter(reason.partition(",")[0] if "quote is" in reason else reason for reason in reasons)
    return counts.most_common(3)
