"""The independent unit of every interval and test: the cluster, bases that share a text or a call."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeGuard, TypeVar

import pandas as pd

from toolkit.stats.result import GROUPS
from toolkit.words import counted

_OF_GROUPS = {"bases": GROUPS, "rated bases": f"rated {GROUPS}"}
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", pd.Series, pd.DataFrame)


def over_clusters(analysis: Callable[P, R]) -> Callable[P, R]:
    """Make an analysis of frames by base one of independent clusters, where several bases are one.

    The analysis finds the cluster in ``base`` and the base itself in ``situation``, within which S, M and L are paired
    (`mean_of_units`). What it returns counts independent groups in place of bases. Without a column ``cluster``, or
    where every base is its own, nothing changes.
    """

    @wraps(analysis)
    def clustered(*args: P.args, **kwargs: P.kwargs) -> R:
        frames: list[pd.DataFrame] = [value for value in (*args, *kwargs.values()) if _has_units(value)]
        # Each may have a cluster of another name, such as its own address, or be the only answered one of its cluster.
        counts = [count for count in map(unit_counts, frames) if GROUPS in count]
        if not counts:
            return analysis(*args, **kwargs)
        by_name = {name: _by_cluster(value) for name, value in kwargs.items()}
        units = counts[0]
        result: R = in_groups(analysis(*map(_by_cluster, args), **by_name), units)
        notes = getattr(result, "notes", None)
        if not (is_dataclass(result) and isinstance(notes, tuple)):
            return result
        note = (
            f"{counted(units['bases'], 'bases')} are {counted(units[GROUPS], GROUPS)}, because bases share texts or "
            "sources: intervals and tests rest on groups, each counting once where bases would"
        )
        return replace(result, notes=(*notes, note))  # type: ignore[type-var]

    return clustered


def mean_of_units(values: V) -> V:
    """Return one row a unit of values with ``base`` and ``situation`` in their index.

    Bases are averaged within their cluster, so that each cluster counts once, however often its texts are listed: a
    copy says nothing new. What is left is one independent value a unit, for which Student's t and the
    repeated-measures ANOVA are made.
    """
    return values.groupby(level=["base", "situation"]).mean().groupby(level="base").mean()


def unit_counts(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many bases a frame has, and how many independent groups where these are fewer."""
    bases = int(frame["base"].nunique())
    groups = int(frame["cluster"].nunique()) if "cluster" in frame else bases
    return {"bases": bases, **({GROUPS: groups} if groups != bases else {})}


def units_words(clusters: Mapping[str, str], bases: Collection[str]) -> str:
    """Say how many bases there are, and how many independent groups where these are fewer."""
    groups = len({clusters[base] for base in bases})
    clause = (
        f" in {counted(groups, GROUPS)} (bases that share texts or sources)" if groups != len(bases) else ""
    )
    return f"{counted(len(bases), 'bases')}{clause}"


def in_groups(result: Any, units: Mapping[str, int]) -> Any:
    """Return a result whose ``n`` counts independent groups, where its analysis counted clusters as bases.

    Bases stand beside the groups where all groups are used; how many there are in a part of the groups is not known.
    """
    if type(result) is tuple:
        return tuple(in_groups(part, units) for part in result)
    if isinstance(result, Mapping):
        return {key: in_groups(part, units) for key, part in result.items()}
    if not is_dataclass(result) or isinstance(result, type):
        return result
    new = {
        field.name: in_groups(getattr(result, field.name), units) for field in fields(result) if field.init
    }
    if isinstance(n := new.get("n"), Mapping):
        every = {"bases": units["bases"]} if n.get("bases") == units.get(GROUPS) else {}
        new["n"] = every | {_OF_GROUPS.get(unit, unit): count for unit, count in n.items()}
    return replace(result, **new)


def _has_units(value: Any) -> TypeGuard[pd.DataFrame]:
    return isinstance(value, pd.DataFrame) and "cluster" in value and "base" in value


def _by_cluster(value: Any) -> Any:
    if not _has_units(value):
        return value
    return value.assign(situation=value["base"], base=value["cluster"]).drop(columns="cluster")
