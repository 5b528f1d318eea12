"""What a study decided before its first reply, kept with its time, and what was changed after it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd
from pymongo.errors import DuplicateKeyError

from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.documents import Run
from toolkit.words import counted

_NOT_DECIDED: Final = {
    "name": True, "output": True, "dataset": True, "models": True, "judges": True, "concurrency": True,
    "mode": True, "batch_poll_seconds": True, "timeout_seconds": True, "note": True, "limits": True, "budget": True,
    "license": True,
}  # fmt: skip
"""How a study is carried out, and what it may cost at most: neither changes what is measured."""
_JUDGES: Final = ("primary", "secondary", "tertiary", "rubric")
_WORDS: Final = {
    "analysis.primary": "primary contrast", "analysis.equivalence_margin": "margin of equivalence",
    "analysis.ceiling_share": "share at an end of the scale that is warned of", "dataset": "version of the dataset",
    "dataset_sha256": "content of the dataset", "judges.rubric": "rubric", "rubric_sha256": "content of the rubric",
    "bases": "bases asked", "planned_bases": "bases of the study", "repeats": "repeats", "seed": "seed",
    "bias_controls.fsp_enabled": "focus sentences", "length_bins": "prompt lengths", "scenarios": "scenarios",
}  # fmt: skip
_NOTHING: Final = "none"
COLUMNS: Final = ("at", "what", "before", "after")


@dataclass(frozen=True)
class Decisions:
    """What was decided before the first reply, when, and what differs from it since; None where nothing was kept."""

    content: Mapping[str, str]
    at: datetime | None
    changes: pd.DataFrame

    def sentences(self) -> list[str]:
        """Return each change as a sentence without its full stop."""
        return [
            f"{_when(moment)} {what} was changed from {before} to {after}"
            for moment, what, before, after in self.changes.itertuples(index=False)
        ]


def _when(moment: Any) -> str:
    return f"On {moment:%Y-%m-%d %H:%M} UTC" if pd.notna(moment) else "In the study file as it is now"


def decided(plan: Plan) -> dict[str, str]:
    """Return what a plan decides beforehand, as flat text; it holds no key and no path of the machine."""
    study = plan.study
    told = study.model_dump(mode="json", exclude=_NOT_DECIDED)
    judges = study.judges.model_dump(mode="json", exclude=set(_JUDGES))
    named = {role: judge.model_dump(mode="json") for role, judge in study.judges.by_role().items()}
    content = {
        **told,
        "dataset": plan.dataset.version,
        "dataset_sha256": plan.dataset.digest,
        "rubric_sha256": plan.rubric.digest,
        "models": {name: f"{spec.provider}:{spec.model}" for name, spec in plan.models.items()},
        "judges": {
            **judges,
            "rubric": plan.rubric.name,
            **{role: f"{spec.provider}:{spec.model}" for role, spec in plan.judge_models.items()},
        },
        "specializations": {role: one.get("specialization") or "" for role, one in named.items()},
    }
    if study.selection == "all":  # an adaptive one decides by its rule how many
        content["planned_bases"] = len(bases_of(plan))
    return dict(sorted(_flat(content)))


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value not in (None, "", [], ()):
            yield before + name, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def bases_of(plan: Plan) -> set[str]:
    """Return the bases that a plan asks."""
    asked = {run.prompt.prompt_id for run in plan.runs}
    return {prompt.base for prompt in plan.dataset.prompts if prompt.prompt_id in asked}


def digest_of(content: Mapping[str, str]) -> str:
    """Return the SHA-256 of what was decided."""
    return hashlib.sha256(json.dumps(dict(content), sort_keys=True).encode()).hexdigest()


def keep_decision(plan: Plan, store: Store) -> None:
    """Keep what a plan decides, once for each content and before anything is asked of it; nothing is overwritten."""
    content, study = decided(plan), plan.study.name
    name = hashlib.sha256(f"{study}\n{digest_of(content)}".encode()).hexdigest()
    kept = store.database["decisions"]
    if kept.find_one({"_id": name}, {"_id": 1}) is not None:
        return
    # The ledger, which is written first: after a kill it may know a reply of which no run says anything yet. A run rests
    # on a call of another study where that has paid for it.
    answered = {"calls": {"purpose": "run", "state": "done"}, "runs": {"status": "succeeded"}}
    replied = any(
        store.database[name].find_one({"study": study, **where}, {"_id": 1}) is not None
        for name, where in answered.items()
    )
    entry = {"_id": name, "study": study, "at": datetime.now(UTC), "replied": replied}
    entry["content"] = json.dumps(content, sort_keys=True)
    with contextlib.suppress(DuplicateKeyError):  # another process decided the same at the same moment
        kept.insert_one(entry)


def decisions_of(plan: Plan, store: Store) -> Decisions:
    """Return what a study decided before its first reply, and every difference since, with its time.

    What counts is the last decision before the first reply. A study whose first replies were made by a toolkit that
    kept none has none, and lists nothing.
    """
    entries = sorted(store.database["decisions"].find({"study": plan.study.name}), key=lambda one: one["at"])
    before = [one for one in entries if not one["replied"]]
    if not before:
        return Decisions({}, None, pd.DataFrame(columns=list(COLUMNS)))
    first = json.loads(before[-1]["content"])
    rows: list[tuple[Any, ...]] = []
    seen: set[tuple[str, str]] = set()
    later = [(_utc(one["at"]), json.loads(one["content"])) for one in entries if one["replied"]]
    for at, content in [*later, (pd.NaT, decided(plan))]:
        for key in sorted({*first, *content}):
            was, now = first.get(key, _NOTHING), content.get(key, _NOTHING)
            if was != now and (key, now) not in seen:
                seen.add((key, now))
                rows.append((at, _what(key), was, now))
    if out := _left_out(plan, store):
        rows.append((pd.NaT, "answered runs that count", "all", f"all but {out}"))
    changes = pd.DataFrame(rows, columns=list(COLUMNS))
    return Decisions(first, _utc(before[-1]["at"]), changes)


def _left_out(plan: Plan, store: Store) -> str:
    """Return how many answered runs the plan no longer has, by model; nothing where it has all."""
    if plan.study.selection == "adaptive":
        return ""  # it asks what its rule chooses; what it asked once counts as long as it is in the dataset
    asked = set(plan.call_ids)
    found = store.find_where(
        Run, {"study": plan.study.name, "status": "succeeded"}, only=("call_id", "model")
    )
    gone = [run["model"] for run in found if run["call_id"] not in asked]
    if not gone:
        return ""
    models = sorted(set(gone))
    told = ", ".join(f"{gone.count(model)} of {model}" for model in models)
    return f"{counted(len(gone), 'runs')} ({told})"


def _what(key: str) -> str:
    return _WORDS.get(key, key.replace(".", " ").replace("_", " "))


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
