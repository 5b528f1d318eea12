"""Run a study to the end on a few of its items, by scripts, to say before anything is paid what will have no result."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from toolkit.analyses.answers import Analyses
from toolkit.models.catalogue import ModelSpec
from toolkit.models.entries import ModelEntry, Sampling
from toolkit.models.prices import price_of
from toolkit.plan import Plan, make_plan
from toolkit.stats.result import Estimate, estimates_of
from toolkit.study_file import Budget

Entry = TypeVar("Entry", bound=ModelEntry)
MOST_SCRIPTED = 5
"""Independent items, and repeats, of a dry run: power needs five of a pilot."""


def scripted_plan(plan: Plan, output: Path | None) -> Plan:
    """Return what a plan asks for on a few of its items, of scripts in place of its models and judges."""
    study, settings, replies = plan.study, plan.study.judges, _readable_replies(plan)
    entries = settings.by_role()
    judges = {role: _scripted(entries[role], spec) for role, spec in plan.judge_models.items()}
    changed = study.model_copy(
        update={
            "models": tuple(
                _scripted(entry, spec, replies)
                for entry, spec in zip(study.under_test, plan.models.values(), strict=True)
            ),
            "sampling": Sampling(),
            "judges": settings.model_copy(
                # Nobody rates what scripts reply.
                update={
                    **judges,
                    "repeats": min(settings.repeats, MOST_SCRIPTED),
                    "weights": "equal",
                    "gate": None,
                }
            ),
            "repeats": min(study.repeats, MOST_SCRIPTED),
            "mode": "single",
            "budget": Budget(),
            "output": output,
        }
    )
    dry = make_plan(changed, plan.folder)
    base_of = {prompt.prompt_id: prompt.base for prompt in dry.dataset.prompts}
    sizes = Counter(base_of[prompt.prompt_id] for _, prompt in dry.runs.prompts)
    # Of each independent unit the largest base: one with length arms before one without.
    largest = {dry.clusters[base]: base for base in sorted(sizes, key=sizes.__getitem__)}
    bases = list(largest.values())[-MOST_SCRIPTED:]
    return replace(dry, runs=dry.runs.of_prompts({name for name, base in base_of.items() if base in bases}))


def _readable_replies(plan: Plan) -> Sequence[str]:
    """Return replies that a test with a key can read; other tests have those that scripts give to anything."""
    test: Any = plan.test
    if not test.keyed:
        return ()
    keys = ("A", "B") if test.has_options else [item.answer for item in test.table.items[:MOST_SCRIPTED]]
    return [json.dumps({"answer": key}) for key in keys]


def _scripted(entry: Entry, spec: ModelSpec, replies: Sequence[str] = ()) -> Entry:
    price = price_of(spec)
    return type(entry)(
        name=entry.label,
        provider="scripted",
        family=spec.family,
        structured=True,
        replies=spec.replies or replies or None,
        usd_per_million_input=price.usd_per_million_input,
        usd_per_million_output=price.usd_per_million_output,
    )


def lines_without_result(
    plan: Plan,
    results: Iterable[tuple[str, Estimate]],
    frames: Analyses,
    questions: Iterable[tuple[str, str, bool, str]],
) -> list[str]:
    """Return a line for each reason why models or questions have no result: their names and the reason."""
    parts = [
        (f"{model} (by {len(plan.judges_of(model))} of {len(plan.judges)} judges)", [number])
        for model, number in results
    ]
    names_by_reason: dict[str, dict[str, None]] = defaultdict(dict)
    for title, name, answerable, reason in questions:
        if answerable:
            groups = groupby(estimates_of(getattr(frames, name)()), itemgetter(0))
            parts += [(title, [number for _, number in group]) for _, group in groups]
        else:
            names_by_reason[reason][title] = None
    for name, numbers in parts:
        if not any(number.estimable for number in numbers):
            names_by_reason[numbers[0].reason or numbers[0].note][name] = None
    return [f"{'; '.join(names)}: {reason}" for reason, names in names_by_reason.items()]
