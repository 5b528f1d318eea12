"""The plan of a dry run: two items of a study, answered and judged by scripts at the study's prices.

What has no result there would have none after all of it was paid for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import price_of
from toolkit.plan import Plan, make_plan
from toolkit.study_file import Budget
from toolkit.study_models import ModelEntry, Sampling

if TYPE_CHECKING:
    from toolkit.keyed.keyed_test import KeyedTest

Entry = TypeVar("Entry", bound=ModelEntry)
MOST: Final = 3
"""Independent items, and repeats, of a dry run: an analysis of three lengths needs three."""


def scripted_plan(plan: Plan, folder: Path) -> Plan:
    """Return what a plan asks for on two of its items, of scripts in place of its models and judges."""
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
            "judges": settings.model_copy(update={**judges, "repeats": min(settings.repeats, MOST)}),
            "repeats": min(study.repeats, MOST),
            "mode": "single",
            "limits": {},
            "budget": Budget(),
            "output": folder,
        }
    )
    dry = make_plan(changed, plan.folder)
    base_of = {prompt.prompt_id: prompt.base for prompt in dry.dataset.prompts}
    sizes = Counter(base_of[prompt.prompt_id] for _, prompt in dry.runs.prompts)
    largest: dict[str, str] = {}
    for base, _ in sizes.most_common():  # those with length arms before those without
        largest.setdefault(dry.clusters[base], base)
    bases = [*largest.values()][:MOST]
    return replace(dry, runs=dry.runs.of_prompts({name for name, base in base_of.items() if base in bases}))


def _readable_replies(plan: Plan) -> Sequence[str]:
    """Return replies that a test with a key can read; other tests have those that scripts give to anything."""
    test = cast("KeyedTest", plan.test)
    if not test.keyed:
        return ()
    keys = ("A", "B") if test.has_options else [item.answer for item in test.table.items[:MOST]]
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
