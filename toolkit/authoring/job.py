"""Has a model of a study write prompts from documents, through the study's gateway, and saves them as a dataset."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolkit.authoring.documents import Document, read_documents
from toolkit.authoring.writer import (
    Draft,
    base_names,
    refuse_foreign_bases,
    save_bases,
    without_copies,
    write_draft,
    writer_request,
)
from toolkit.errors import BudgetReached, InputError
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan
from toolkit.prompts.check import check_summary
from toolkit.prompts.dataset import INDEX, load_dataset
from toolkit.runs.execution import each
from toolkit.words import Summary, counted

if TYPE_CHECKING:
    from toolkit.store.connection import Store

MAX_TOKENS: Final = 8000
"""Longest reply of a writer, in tokens: forty facts with their quotes take some 4,000."""


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
        names = ", ".join(plan.models)
        raise InputError(
            f"study {plan.study.name}: has no model {name!r}, only {names}; name it under models"
        )
    documents = read_documents(folder)
    writer = JudgeSpec(
        role="writer",
        name=name,
        provider=spec.provider,
        model=spec.model,
        endpoint=spec.endpoint,
        temperature=plan.study.sampling.temperature if spec.sampling_supported else None,
        max_tokens=max_tokens,
        structured=spec.structured,
        seed=plan.study.seed,
        seed_supported=spec.seed_supported,
    )
    return Job(documents, tuple(base_names(documents)), writer)


def write_prompts(plan: Plan, store: Store, job: Job, out: Path, *, progress: bool = True) -> Summary:
    """Have a base written from every document and save the complete ones; replies in the ledger are used again.

    The summary has the outcome of each document and the problems of the dataset. The exit code is 1 where a document
    gave no base or the dataset has a problem, 3 where the budget was reached.
    """
    refuse_foreign_bases(out, job.documents, job.bases)
    prompts = list(plan.dataset.prompts)
    if any(path.name != INDEX for path in out.glob("*.toml")):
        prompts += load_dataset(out, check_ranges=False).prompts
    prompts = [prompt for prompt in prompts if prompt.base not in job.bases]
    drafts: dict[str, Draft] = {}

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def write(pair: tuple[Document, str]) -> None:
            drafts[pair[1]] = await write_draft(*pair, writer=job.writer, ask=ask)

        pairs = zip(job.documents, job.bases, strict=True)
        return await each([pairs], write, at_once=plan.study.concurrency, stop=stop)

    reached = ask_study(
        plan, store, work, requests=job.requests(), label="documents", purpose="write", progress=progress
    )
    # In the order of the documents and not of the replies, so that always the same one of two copies is kept.
    ordered = without_copies([drafts[base] for base in job.bases if base in drafts], prompts)
    lines, rows = [], []
    for draft in ordered:
        supported = len(draft.extract.facts) if draft.extract else 0
        dropped = [reason for reason, _ in draft.extract.dropped] if draft.extract else []
        reasons = Counter(reason.partition(",")[0] if "quote is" in reason else reason for reason in dropped)
        sizes = "/".join(map(str, draft.sizes))
        result = f"base {draft.base}, facts {sizes} in S/M/L" if draft.sizes else f"no base: {draft.reason}"
        kept = f"{counted(supported, 'facts')} kept, {len(dropped)} dropped"
        lines.append(f"{draft.document.name}: {result}; {kept}")
        lines += [f"  dropped {count} x {reason}" for reason, count in reasons.most_common(3)]
        row = {
            "document": draft.document.name,
            "base": draft.base if draft.sizes else None,
            "sizes": draft.sizes,
        }
        rows.append(
            row | {"facts": supported, "dropped": dropped, "reason": draft.reason, "call_id": draft.call_id}
        )
    written, documents = sum(bool(draft.sizes) for draft in ordered), len(job.documents)
    saved_in = str(out) if save_bases(ordered, out) else None
    checks = check_summary(out) if saved_in else None
    total = f"written  {counted(written, 'bases')} from {counted(documents, 'documents')}"
    lines += [checks.text] if checks else []
    lines.append(f"{total} in {saved_in}" if saved_in else total)
    lines += [str(reached)] if reached else []
    fields = {
        "documents": rows,
        "bases": written,
        "out": saved_in,
        "checks": checks.fields if checks else None,
    }
    failed = written < documents or (checks is not None and checks.exit_code != 0)
    summary_fields = fields | {"budget": str(reached) if reached else None}
    return Summary(summary_fields, "\n".join(lines), 3 if reached else int(failed))
