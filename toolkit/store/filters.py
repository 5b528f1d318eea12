"""The frames of a planned study, filtered: names and values are checked against the plan and become a query."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from toolkit.errors import InputError
from toolkit.words import choices, suggestion

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

PLANNED: Final = ("model", "scenario", "category", "base", "length_bin", "prompt_id", "repeat")
OF_RUNS: Final = (*PLANNED, "status", "judged")
OF_JUDGEMENTS: Final = ("judge", "judge_model", "failed")
OF_CALLS: Final = ("purpose", "state", "model", "role")
_ALLOWED: Final = {
    "status": ("succeeded", "failed"),
    "purpose": ("run", "judge", "write"),
    "state": ("done", "failed", "claimed"),
}
_SHOWN: Final = 12  # values that an error names


def planned_runs(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a run that the store has; no others are read than those that the filters name."""
    from toolkit.store.frames import runs_frame

    _refuse_unknown("runs", filters, OF_RUNS)
    judged = _yes_or_no("judged", filters["judged"]) if "judged" in filters else None
    where = {"status": _one_of("status", filters["status"])} if "status" in filters else {}
    ids: Iterable[str] = plan.call_ids
    if names := [name for name in PLANNED if name in filters]:
        planned = _planned(plan)
        chosen = {name: _values(name, filters[name], [row[name] for row in planned]) for name in names}
        ids = [
            call_id
            for call_id, row in zip(plan.call_ids, planned, strict=True)
            if all(row[name] in values for name, values in chosen.items())
        ]
    study, clusters = plan.study.name, plan.clusters
    runs = runs_frame(store, ids, study=study, clusters=clusters, where=where, judged=judged)
    others = runs.loc[runs["dataset_version"] != plan.dataset.version, "dataset_version"]
    if len(others) and not plan.study.mix_versions:
        raise InputError(
            f"study {study}: {len(others)} of {len(runs)} runs were asked from dataset version {others.iloc[0]}, "
            f"the study names {plan.dataset.version}; see `toolkit prompts diff`, then say mix_versions = true or "
            "rename the study"
        )
    return runs


def planned_judgements(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a judgement of the plan's ensemble and rubric, of the runs that the filters name."""
    from toolkit.store.frames import judgements_frame

    _refuse_unknown("judgements", filters, (*OF_RUNS, *OF_JUDGEMENTS))
    judges = {role: judge.name for role, judge in plan.judges.items()}
    where: dict[str, Any] = {}
    if "judge" in filters:
        where["judge"] = _one_of("judge", filters["judge"], judges)
    if "judge_model" in filters:
        where["model"] = _one_of("judge_model", filters["judge_model"], judges.values())
    if "failed" in filters:
        where["failed"] = _yes_or_no("failed", filters["failed"])
    runs = planned_runs(plan, store, **{name: filters[name] for name in OF_RUNS if name in filters})
    return judgements_frame(store, runs, rubric_hash=plan.rubric.digest, judges=judges, where=where)


def planned_calls(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a call that the study paid for or rests on."""
    from toolkit.store.calls import calls_frame

    _refuse_unknown("calls", filters, OF_CALLS)
    judges = {judge.name: judge for judge in plan.judges.values()}
    where: dict[str, Any] = {
        name: _one_of(name, filters[name]) for name in ("purpose", "state") if name in filters
    }
    named = [(name, spec.model) for name, spec in plan.models.items()]
    named += [(name, judge.model) for name, judge in judges.items()]
    models = _values("model", filters["model"], [name for name, _ in named]) if "model" in filters else None
    roles = _values("role", filters["role"], plan.judges) if "role" in filters else None
    # A call has the provider's name of its model; the frame tells apart two models of the study that share one.
    names = [{model for name, model in named if name in models}] if models else []
    names += [{plan.judges[role].model for role in roles}] if roles else []
    if names:
        where["model"] = {"$in": sorted(set.intersection(*names))}
    by_purpose = [
        ((purpose, spec.provider, spec.model), name)
        for name, spec in plan.models.items()
        for purpose in ("run", "write")
    ]
    by_purpose += [(("judge", judge.provider, judge.model), name) for name, judge in judges.items()]
    return calls_frame(
        store,
        study=plan.study.name,
        names=_unambiguous(by_purpose),
        roles=_unambiguous(((judge.provider, judge.model), role) for role, judge in plan.judges.items()),
        where=where,
        models=models,
        judges=roles,
    )


def _unambiguous(named: Iterable[tuple[Any, str]]) -> dict[Any, str]:
    """Leave out what has two names: a call does not tell which of them it was."""
    by_key: dict[Any, list[str]] = {}
    for key, name in named:
        by_key.setdefault(key, []).append(name)
    return {key: names[0] for key, names in by_key.items() if len(names) == 1}


def _planned(plan: Plan) -> list[dict[str, Any]]:
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for run in plan.runs:
        prompt = prompts[run.prompt.prompt_id]
        fields = {name: getattr(prompt, name) for name in ("prompt_id", "scenario", "category", "base")}
        length_bin = getattr(run.item.context, "length_bin", None)
        rows.append({**fields, "length_bin": length_bin, "model": run.model, "repeat": run.repeat})
    return rows


def _refuse_unknown(frame: str, filters: Mapping[str, Any], allowed: Iterable[str]) -> None:
    for name in filters:
        if name not in allowed:
            raise InputError(f"{frame}: there is no filter {name!r}; {choices(name, allowed)}")


def _one_of(name: str, filtered: Any, allowed: Iterable[Any] | None = None) -> dict[str, Any]:
    return {"$in": list(_values(name, filtered, _ALLOWED[name] if allowed is None else allowed))}


def _values(name: str, filtered: Any, allowed: Iterable[Any]) -> tuple[Any, ...]:
    # A column of a frame, an array or a range is several values, too.
    many = isinstance(filtered, Iterable) and not isinstance(filtered, str | bytes | Mapping)
    choosable = {value: value for value in allowed if value not in (None, "")}
    chosen: dict[Any, None] = {}
    for value in filtered if many else (filtered,):
        # Looked up and not compared: pandas' word for missing answers no comparison.
        if not isinstance(value, Hashable) or isinstance(value, bool | np.bool_) or value not in choosable:
            names = ", ".join(str(choice) for choice in list(choosable)[:_SHOWN])
            more = f" and {len(choosable) - _SHOWN} more" if len(choosable) > _SHOWN else ""
            raise InputError(
                f"filter {name}: this study has no {value!r}; {suggestion(value, choosable)}"
                f"use {names + more or 'no such filter'}"
            )
        chosen[choosable[value]] = None
    if not chosen:
        raise InputError(
            f"filter {name}: the list is empty; name at least one value, or leave the filter out"
        )
    return tuple(chosen)


def _yes_or_no(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"filter {name}: {value!r} is neither True nor False")
    return bool(value)
