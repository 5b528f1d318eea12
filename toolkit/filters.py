"""Filters of a study's frames: names and values are checked against the plan, and become a query of the store."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from toolkit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

PLANNED: Final = ("model", "scenario", "category", "base", "length_bin", "prompt_id", "repeat")
OF_RUNS: Final = (*PLANNED, "status", "judged")
OF_JUDGEMENTS: Final = ("judge", "judge_model", "failed")
OF_CALLS: Final = ("purpose", "state", "model", "role")
_STATUSES: Final = ("succeeded", "failed")
_PURPOSES: Final = ("run", "judge")
_STATES: Final = ("done", "failed", "claimed")
_SHOWN: Final = 12  # values that an error names


@dataclass(frozen=True)
class CallsOf(Collection[str]):
    """The identities of a plan's calls, computed when they are gone through: while the store reads."""

    plan: Plan

    def __len__(self) -> int:
        return len(self.plan.runs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.plan.call_ids)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self.plan.call_ids


@dataclass(frozen=True)
class Selection:
    """Which runs of a plan are asked for.

    Parameters
    ----------
    call_ids
        Identities of the calls that answer them.
    where
        What their documents must match, as a query of the store.
    judged
        Only those that are judged, or only those that are not.
    """

    call_ids: Collection[str]
    where: Mapping[str, Any] = field(default_factory=dict)
    judged: bool | None = None


@dataclass(frozen=True)
class CallSelection:
    """Which calls of a study are asked for.

    Parameters
    ----------
    where
        What their documents must match, as a query of the store.
    models, roles
        Names in the study and roles of judges; ``None`` for all.
    """

    where: Mapping[str, Any]
    models: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None


def select_runs(plan: Plan, filters: Mapping[str, Any]) -> Selection:
    """Return which runs of a plan some filters ask for.

    Parameters
    ----------
    plan
        The planned study.
    filters
        A value, or several in a list, by name: those of ``OF_RUNS``.

    Raises
    ------
    InputError
        When a name or a value is unknown; the line names those that are not.
    """
    _refuse_unknown("runs", filters, OF_RUNS)
    where: dict[str, Any] = {}
    if "status" in filters:
        where["status"] = {"$in": list(_values("status", filters["status"], _STATUSES))}
    judged = _yes_or_no("judged", filters["judged"]) if "judged" in filters else None
    wanted = [name for name in PLANNED if name in filters]
    if not wanted:
        return Selection(CallsOf(plan), where, judged)
    planned = _planned(plan)
    chosen = {name: _values(name, filters[name], [row[name] for row in planned]) for name in wanted}
    ids = tuple(
        call_id
        for call_id, row in zip(plan.call_ids, planned, strict=True)
        if all(row[name] in values for name, values in chosen.items())
    )
    return Selection(ids, where, judged)


def planned_runs(plan: Plan, store: Store, **filters: Any) -> pd.DataFrame:
    """Return one row a run of a plan that the store has, of all or of those that filters name."""
    from toolkit.store.frames import runs_frame

    chosen = select_runs(plan, filters)
    return runs_frame(
        store,
        chosen.call_ids,
        study=plan.study.name,
        clusters=plan.clusters,
        where=chosen.where,
        judged=chosen.judged,
    )


def select_judgements(plan: Plan, filters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the filters that are of the runs, and what the documents of judgements must match.

    Parameters
    ----------
    plan
        The planned study.
    filters
        Those of ``OF_RUNS`` and ``OF_JUDGEMENTS``.

    Raises
    ------
    InputError
        As `select_runs`.
    """
    _refuse_unknown("judgements", filters, (*OF_RUNS, *OF_JUDGEMENTS))
    where: dict[str, Any] = {}
    if "judge" in filters:
        where["judge"] = {"$in": list(_values("judge", filters["judge"], plan.judges))}
    if "judge_model" in filters:
        names = [judge.name for judge in plan.judges.values()]
        where["model"] = {"$in": list(_values("judge_model", filters["judge_model"], names))}
    if "failed" in filters:
        where["failed"] = _yes_or_no("failed", filters["failed"])
    return {name: value for name, value in filters.items() if name in OF_RUNS}, where


def select_calls(plan: Plan, filters: Mapping[str, Any]) -> CallSelection:
    """Return which calls some filters ask for.

    Parameters
    ----------
    plan
        The planned study.
    filters
        Those of ``OF_CALLS``.

    Raises
    ------
    InputError
        As `select_runs`.
    """
    _refuse_unknown("calls", filters, OF_CALLS)
    where: dict[str, Any] = {
        name: {"$in": list(_values(name, filters[name], allowed))}
        for name, allowed in (("purpose", _PURPOSES), ("state", _STATES))
        if name in filters
    }
    named = [(name, spec.model) for name, spec in plan.models.items()]
    named += [(judge.name, judge.model) for judge in plan.judges.values()]
    models = _values("model", filters["model"], [name for name, _ in named]) if "model" in filters else None
    roles = _values("role", filters["role"], plan.judges) if "role" in filters else None
    # A call knows the provider's own name of its model; which of two that share one it was, the frame tells.
    own = [{model for name, model in named if name in models}] if models else []
    own += [{plan.judges[role].model for role in roles}] if roles else []
    if own:
        where["model"] = {"$in": sorted(set.intersection(*own))}
    return CallSelection(where, models, roles)


def names_of_models(plan: Plan) -> dict[tuple[str, str, str], str]:
    """Return the study's name of each model by purpose of a call, provider and the provider's name of the model.

    A model that the study has twice under one purpose is left out: a call does not tell which it was.
    """
    named = [(("run", spec.provider, spec.model), name) for name, spec in plan.models.items()]
    judges = {judge.name: judge for judge in plan.judges.values()}
    named += [(("judge", judge.provider, judge.model), name) for name, judge in judges.items()]
    return _unambiguous(named)


def roles_of_models(plan: Plan) -> dict[tuple[str, str], str]:
    """Return the role of each judge by provider and the provider's name of the model, where only one judge has it."""
    return _unambiguous(((judge.provider, judge.model), role) for role, judge in plan.judges.items())


def _unambiguous(named: Iterable[tuple[Any, str]]) -> dict[Any, str]:
    by_key: dict[Any, list[str]] = {}
    for key, name in named:
        by_key.setdefault(key, []).append(name)
    return {key: names[0] for key, names in by_key.items() if len(names) == 1}


def _planned(plan: Plan) -> list[dict[str, Any]]:
    """Return what is known of every planned run before it is asked, in the order of the plan."""
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for run in plan.runs:
        prompt = prompts[run.prompt.prompt_id]
        about = {name: getattr(prompt, name) for name in ("prompt_id", "scenario", "category", "base")}
        length_bin = getattr(run.item.context, "length_bin", None)
        rows.append({**about, "length_bin": length_bin, "model": run.model, "repeat": run.repeat})
    return rows


def _refuse_unknown(frame: str, filters: Mapping[str, Any], allowed: Iterable[str]) -> None:
    for name in filters:
        if name not in allowed:
            raise InputError(f"{frame}: there is no filter {name!r}; use {', '.join(allowed)}")


def _values(name: str, given: Any, allowed: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values of a filter, one or several; each must be one that the study has."""
    # A column of a frame, an array or a range is several, too.
    many = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    known = {value: value for value in allowed if value not in (None, "")}
    chosen: dict[Any, None] = {}
    for value in given if many else (given,):
        # Looked up and not compared: pandas' word for missing answers no comparison.
        if not isinstance(value, Hashable) or isinstance(value, bool | np.bool_) or value not in known:
            shown = ", ".join(str(one) for one in list(known)[:_SHOWN])
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            raise InputError(
                f"filter {name}: {value!r} is nothing this study has; use {shown + more or 'no such filter'}"
            )
        chosen[known[value]] = None
    if not chosen:
        raise InputError(
            f"filter {name}: the list is empty; name at least one value, or leave the filter out"
        )
    return tuple(chosen)


def _yes_or_no(name: str, given: Any) -> bool:
    if not isinstance(given, bool | np.bool_):
        raise InputError(f"filter {name}: {given!r} is neither True nor False")
    return bool(given)
