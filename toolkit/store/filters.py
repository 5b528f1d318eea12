"""The frames of a planned study, filtered: names and values are checked against the plan and become a query."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.plan import Plan
from toolkit.store.connection import Store, windows
from toolkit.store.documents import FIELDS, Annotation, Call, Run
from toolkit.store.frame_files import typed, types_of
from toolkit.store.frames import COLUMNS_OF_RUN, judgements_frame, runs_frame
from toolkit.store.writer import Document, Fields
from toolkit.words import CROSSED, choices, suggestion

CALL_TYPES = types_of("calls")
_UNREAD, PLANNED = FIELDS["not_of_call"], FIELDS["planned"]
_SHOWN = 12  # values that an error names


def planned_runs(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a run that the store has; no others are read than those that the filters name."""
    allowed = {"status": FIELDS["allowed"]["status"], "judged": bool}
    planned = _planned_rows(plan) if filters.keys() & {*PLANNED} else []
    chosen = _chosen("runs", filters, {name: [row[name] for row in planned] for name in PLANNED} | allowed)
    judged = chosen.pop("judged", None)
    where = {"status": {"$in": chosen.pop("status")}} if "status" in chosen else {}
    ids: Iterable[str] = plan.call_ids
    if chosen:
        ids = [
            call_id
            for call_id, row in zip(plan.call_ids, planned, strict=True)
            if all(row[name] in values for name, values in chosen.items())
        ]
    study, clusters = plan.study.name, plan.clusters
    runs = runs_frame(
        store, ids, study=study, clusters=clusters, where=where, judged=judged, scheme=plan.rubric.scheme
    )
    others = runs.loc[runs["dataset_version"] != plan.dataset.version, "dataset_version"]
    if len(others) and not plan.study.mix_versions:
        raise InputError(
            f"study {study}: {len(others)} of {len(runs)} runs were asked from dataset version {others.iloc[0]}, "
            f"the study names {plan.dataset.version}; see `toolkit prompts diff`, then say mix_versions = true or "
            "rename the study"
        )
    return _at_levels(runs, plan)


def _at_levels(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return a frame that knows the factors of its study, and their levels in order."""
    if factor := plan.study.factor:
        levels = pd.CategoricalDtype([*factor.levels], ordered=True)
        frame = frame.astype({"level": levels})
        frame.attrs |= {"factor": factor.noun, "levels": [*factor.levels]}
    if crossed := plan.crossed:
        names = {prompt.prompt_id: prompt.metadata[CROSSED] for prompt in plan.dataset.prompts}
        frame[CROSSED] = pd.Categorical(frame["prompt_id"].map(names), [*crossed.levels], ordered=True)
        frame.attrs[CROSSED] = crossed.noun
    return frame


def _planned_rows(plan: Plan) -> list[Document]:
    """Return what filters know of each planned run."""
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for run in plan.runs:
        prompt = prompts[run.prompt.prompt_id]
        row = {name: getattr(prompt, name) for name in ("prompt_id", "scenario", "category", "base")}
        rows.append({**row, "level": run.level, "model": run.model, "repeat": run.repeat})
    return rows


def planned_judgements(
    plan: Plan, store: Store, runs: pd.DataFrame | None = None, **filters: Any
) -> pd.DataFrame:
    """Return one row a judgement of the plan's ensemble and rubric, of some runs or those that the filters name."""
    judges = {role: judge.name for role, judge in plan.judges.items()}
    of_runs = {name: filters[name] for name in FIELDS["of_runs"] if name in filters}
    allowed = {"judge": judges, "judge_model": judges.values(), "failed": bool}
    chosen = _chosen("judgements", filters, dict.fromkeys(FIELDS["of_runs"]) | allowed)
    where = {"failed": chosen["failed"]} if "failed" in chosen else {}
    fields = (("judge", "judge"), ("judge_model", "model"))
    where |= {field: {"$in": chosen[name]} for name, field in fields if name in chosen}
    if runs is None:
        runs = planned_runs(plan, store, **of_runs)
        # The other columns of a large study are as large as what follows.
        runs = runs[["run_id", "excluded", *COLUMNS_OF_RUN]]
    frame = judgements_frame(
        store, runs, rubric_hash=plan.rubric.digest, judges=judges, where=where, scheme=plan.rubric.scheme
    )
    return _at_levels(frame, plan)


def judgements_otherwise(plan: Plan, store: Store, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a judgement of runs on the other side of focus sentences, or of reference answers."""
    manner, rubric = plan.manner, plan.rubric
    alike, otherwise = (True, {"$ne": True}) if manner.reference else ({"$ne": True}, True)
    other_focus = {"$in": ["listed", "per_sentence"]} if manner.focus == "off" else "off"
    sides: list[Document] = [{"focus": other_focus, "reference": alike}]
    if any("reference" in prompt.metadata for prompt in plan.dataset.prompts):
        sides.append({"focus": manner.focus, "reference": otherwise})
    judges = {role: judge.name for role, judge in plan.judges.items()}
    frames = [
        judgements_frame(
            store,
            runs,
            rubric_hash=rubric.digest,
            judges=judges,
            scheme=rubric.scheme,
            where=side,
            counting_only=False,
        )
        for side in sides
    ]
    return _at_levels(pd.concat(frames, ignore_index=True), plan)


def planned_calls(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a call that the study paid for, or that answers one of its runs or judges; without texts."""
    judges = {judge.name: judge for judge in plan.judges.values()}
    allowed = FIELDS["allowed"] | {"model": [*plan.models, *judges], "role": plan.judges}
    chosen = _chosen("calls", filters, {name: allowed[name] for name in FIELDS["of_calls"]})
    where: Document = {name: {"$in": chosen[name]} for name in ("purpose", "state") if name in chosen}
    leads, shared = leads_and_shared(plan, store)
    calls = chain(
        store.each_where(Call, {**where, "study": plan.study.name}, _UNREAD),
        store.find_by(Call, "_id", shared, _UNREAD, query=where),
    )
    rows = (
        row
        for row in map(_row_of_call(plan, judges, leads), calls)
        if all(row[name] in values for name, values in chosen.items())
    )
    parts = [typed(some, CALL_TYPES) for some in windows(rows)] or [typed((), CALL_TYPES)]
    return pd.concat(parts).sort_values(["created_at", "call_id"], ignore_index=True)


def leads_and_shared(plan: Plan, store: Store) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
    """Return by call the run that rests on it and its model, judge and repeat; and the calls that others paid for."""
    study = {"study": plan.study.name}
    leads: dict[str, tuple[Any, ...]] = {}
    further: set[str] = set()
    for kind in (Run, Annotation):
        for record in store.each_where(kind, study, only=FIELDS["of_lead"]):
            call_id, run_id = record["call_id"], record["run_id"]
            # One call judges all replies with the same text.
            if call_id not in leads or run_id < leads[call_id][0]:
                leads[call_id] = (run_id, *map(record.get, ("model", "judge", "judge_repeat")))
            further.update(record.get("call_ids", ()))
    # Studies of one results folder share calls: another one may have paid for an answer that this one rests on, and for
    # the same with more tokens where a reply was cut off.
    paid_ids = {call["_id"] for call in store.each_where(Call, study, only=("study",))}
    shared = {*leads, *further} - paid_ids
    for run in plan.runs if shared else ():
        request = run.request
        for _ in range(plan.study.replies.retries if run.call_id in shared else 0):
            request = replace(request, max_tokens=2 * request.max_tokens)
            shared.add(request.identity())
    return leads, sorted(shared - paid_ids)


def _row_of_call(
    plan: Plan, judges: Fields, leads: Mapping[str, tuple[Any, ...]]
) -> Callable[[Fields], Document]:
    judging = ("judge", "drift", "hallucination")
    by_name = [(judging, spec, name) for name, spec in judges.items()]
    names = _unambiguous([*((("run", "write"), spec, name) for name, spec in plan.models.items()), *by_name])
    roles = _unambiguous((judging, spec, role) for role, spec in plan.judges.items())

    def row_of(call: Fields) -> Document:
        key, failure = (call["purpose"], call["provider"], call["model"]), call.get("failure") or {}
        lead = leads.get(call["_id"])
        run_id, model, role, repeat = lead or (None, names.get(key), roles.get(key), None)
        return {
            **{name: call.get(name) for name in CALL_TYPES},
            "call_id": call["_id"],
            "paid_by": call["study"],
            "leads": lead is not None,
            "run_id": run_id,
            "role": role,
            "judge_repeat": repeat or 0 if lead and role else None,
            "model": model,
            "provider_model": call["model"],
            "unsure_aud": call.get("unsure_aud") or 0.0,
            "attempts": len(call.get("attempts") or ()),
            "failure": f"{failure.get('reason')}: {failure.get('message')}" if failure else None,
        }

    return row_of


def _unambiguous(named: Iterable[tuple[Iterable[str], Any, str]]) -> dict[Any, str]:
    """Return names by purpose and model, without what has two names: a call does not tell which of them it was."""
    by_key: dict[Any, list[str]] = defaultdict(list)
    for purposes, spec, name in named:
        for purpose in purposes:
            by_key[purpose, spec.provider, spec.model].append(name)
    return {key: names[0] for key, names in by_key.items() if len(names) == 1}


def _chosen(frame: str, filters: Fields, allowed: Fields) -> Document:
    """Return by filter the values that it names of those allowed, or whether it says so; those without any are left."""
    for name in filters:
        if name not in allowed:
            raise InputError(f"{frame}: there is no filter {name!r}; {choices(name, allowed)}")
    chosen: Document = {}
    for name, value in filters.items():
        if allowed[name] is bool:
            if not isinstance(value, bool | np.bool_):
                raise InputError(f"filter {name}: {value!r} is neither True nor False")
            chosen[name] = bool(value)
        elif allowed[name] is not None:
            chosen[name] = _values(name, value, allowed[name])
    return chosen


def _values(name: str, filtered: Any, allowed: Iterable[Any]) -> list[Any]:
    # A column of a frame, an array or a range is several values, too.
    many = isinstance(filtered, Iterable) and not isinstance(filtered, str | bytes | Mapping)
    choosable = {value: value for value in allowed if value not in (None, "")}
    chosen: dict[Any, None] = {}
    for value in filtered if many else (filtered,):
        # Looked up and not compared: pandas' word for missing answers no comparison.
        if not isinstance(value, Hashable) or isinstance(value, bool | np.bool_) or value not in choosable:
            names = ", ".join(map(str, [*choosable][:_SHOWN]))
            names += f" and {len(choosable) - _SHOWN} more" if len(choosable) > _SHOWN else ""
            advice = f"{suggestion(value, choosable)}use {names or 'no such filter'}"
            raise InputError(f"filter {name}: this study has no {value!r}; {advice}")
        chosen[choosable[value]] = None
    if not chosen:
        message = f"filter {name}: the list is empty; name at least one value, or leave the filter out"
        raise InputError(message)
    return [*chosen]
