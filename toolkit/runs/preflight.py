"""What would stop a study halfway is found before anything is sent: models that are retired, and keys that are missing.

Without this a study pays for the answers of one model, and finds afterwards that another cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import InputError, StudyError
from toolkit.models.catalogue import ModelSpec
from toolkit.models.registry import key_fault, read_environment
from toolkit.runs.estimate import estimate_frame

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store


def refuse_unreachable(plan: Plan, store: Store, *, only_judge: bool = False) -> None:
    """Refuse to ask models that are retired or lack their key; what they answered before stays as good as it was."""
    named: Mapping[tuple[str, str], ModelSpec] = {
        **({} if only_judge else {("model", name): spec for name, spec in plan.models.items()}),
        **{(role, plan.judges[role].name): spec for role, spec in plan.judge_models.items()},
    }
    env = read_environment(plan.folder)
    if not any(spec.is_retired() or key_fault(spec, env) for spec in named.values()):
        return
    frame = estimate_frame(plan, store)
    ahead = {(row.who, row.model) for row in frame[frame["calls"] > 0].itertuples()}
    told = [
        f"{who} {name} ({spec.provider} {spec.model}) since {spec.retired}"
        for (who, name), spec in named.items()
        if spec.is_retired() and (who, name) in ahead
    ]
    if told:
        raise StudyError(
            f"study {plan.study.name}: retired by their providers: {'; '.join(told)}. Nothing was sent: name models "
            'that are served, or give the id of one, as in { name = "NAME", model = "ID" }'
        )
    if not (plan.test.judged or any(who == "model" for who, _ in ahead)):
        return  # what such a test has still to ask its judges only its annotators know
    refuse_keyless((spec for key, spec in named.items() if key in ahead), plan.folder)


def refuse_keyless(specs: Iterable[ModelSpec], folder: Path) -> None:
    """Refuse to ask models without their keys, all of them in one line."""
    env = read_environment(folder)
    faults = dict.fromkeys(f"{spec.provider} {fault}" for spec in specs if (fault := key_fault(spec, env)))
    if faults:
        raise InputError(
            f"{', '.join(faults)}. Nothing was sent: export what is missing, or write NAME=... into a .env file in the "
            "working folder or beside the study"
        )
