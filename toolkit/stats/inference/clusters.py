"""The independent unit of every interval and test: the cluster, bases that share a text or a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import pandas as pd
from pandas.api.types import is_numeric_dtype

from toolkit.words import counted

GROUPS: Final = "independent groups"
_WORDS: Final = r"(?<![\w'-])(bases?|clusters?)(?![\w'-])"
_TEXT_FIELDS: Final = ("method", "note", "reason", "words")
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", pd.Series, pd.DataFrame)


def over_clusters(analysis: Callable[P, R]) -> Callable[P, R]:
    """Make an analysis of frames by base one of independent clusters, where several bases are one.

    The analysis finds the cluster in ``base``, which it resamples, jackknifes, blocks and clusters by, and the base
    itself in ``situation``, within which S, M and L are paired (`mean_of_units`). What it returns counts independent
    groups in place of bases, in ``n``, methods and notes. Without a column ``cluster``, or where every base is its own,
    nothing changes.
    """

    @wraps(analysis)
    def clustered(*args: P.args, **kwargs: P.kwargs) -> R:
        frames = [value for value in (*args, *kwargs.values()) if isinstance(value, pd.DataFrame)]
        frames = [frame for frame in frames if _has_units(frame)]
        if not any((frame["cluster"] != frame["base"]).any() for frame in frames):
            return analysis(*args, **kwargs)
        result = analysis(
            *(_by_cluster(value) for value in args),
            **{name: _by_cluster(value) for name, value in kwargs.items()},
        )
        reworded: R = in_groups(result, *frames)
        notes = getattr(reworded, "notes", None)
        if not (is_dataclass(reworded) and isinstance(notes, tuple)):
            return reworded
        units = unit_counts(frames[0])
        note = (
            f"{counted(units['bases'], 'bases')} are {counted(units[GROUPS], GROUPS)}, because bases share texts: "
            "intervals and tests rest on groups, each counting once where bases would"
        )
        return replace(reworded, notes=(*notes, note))  # type: ignore[type-var]

    return clustered


def mean_of_units(values: V) -> V:
    """Return one row a unit of values with ``base`` and ``situation`` in their index.

    Bases are averaged within their cluster, so that each cluster counts once, however often its texts are listed: a
    copy says nothing new. What is left is one independent value a unit, for which Student's t, the repeated-measures
    ANOVA, Friedman's test and the mixed model are made, and no random effect of clusters is to be estimated from the
    few that hold several bases.
    """
    return values.groupby(level=["base", "situation"]).mean().groupby(level="base").mean()


def unit_counts(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many bases a frame has, and how many independent groups where these are fewer."""
    bases = int(frame["base"].nunique())
    groups = int(frame["cluster"].nunique()) if "cluster" in frame else bases
    return {"bases": bases, **({GROUPS: groups} if groups != bases else {})}


def units_words(clusters: Mapping[str, str], bases: Collection[str]) -> str:
    """Say how many bases there are, and how many independent groups where these are fewer.

    Examples
    --------
    >>> units_words({"a": "a", "b": "a", "c": "c"}, {"a", "b", "c"}), units_words({"a": "a"}, {"a"})
    ('3 bases in 2 independent groups (bases that share texts)', '1 base')
    """
    groups = len({clusters[base] for base in bases})
    clause = f" in {counted(groups, GROUPS)} (bases that share texts)" if groups != len(bases) else ""
    return f"{counted(len(bases), 'bases')}{clause}"


def in_groups(result: Any, *frames: pd.DataFrame) -> Any:
    """Return a result with its units called independent groups: numbers in ``n``, and words of methods and notes.

    All bases are counted beside the groups where all groups of the first frame are used; how many there are in a part
    of the groups no result says. Names in the frames are left as they are.
    """
    counts = unit_counts(frames[0])
    words = re.compile("|".join([*map(re.escape, _names_with_words(frames)), _WORDS]))

    def said(value: Any) -> Any:
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(said(part) for part in value)
        if isinstance(value, Mapping):
            return {key: said(part) for key, part in value.items()}
        if not is_dataclass(value) or isinstance(value, type):
            return value
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {
            name: _counts(part, counts, words) if name == "n" and isinstance(part, Mapping) else said(part)
            for name, part in old.items()
        }
        if "n" in old:
            new |= {
                name: words.sub(_group, old[name]) for name in _TEXT_FIELDS if isinstance(old.get(name), str)
            }
        return replace(value, **new)

    return said(result)


def _names_with_words(frames: Iterable[pd.DataFrame]) -> list[str]:
    """Return the names in frames that hold a word for units and more, the longest first."""
    columns = [frame[name] for frame in frames for name in frame if not is_numeric_dtype(frame[name])]
    names = {str(name) for column in columns for name in column.unique()}
    return sorted(
        (
            name
            for name in names
            if re.search(r"\b(bases?|clusters?)\b", name) and not re.fullmatch(_WORDS, name)
        ),
        key=len,
        reverse=True,
    )


def _counts(n: Mapping[str, int], group_counts: Mapping[str, int], words: re.Pattern[str]) -> dict[str, int]:
    renamed: dict[str, int] = {}
    for unit, count in n.items():
        if unit == "bases":
            renamed |= {"bases": group_counts["bases"]} if count == group_counts[GROUPS] else {}
        renamed[words.sub(_group, unit)] = count
    return renamed


def _group(match: re.Match[str]) -> str:
    if match[1] is None:  # a name
        return match[0]
    return GROUPS if match[1].endswith("s") else GROUPS.removesuffix("s")


def _has_units(frame: pd.DataFrame) -> bool:
    return "cluster" in frame and "base" in frame


def _by_cluster(value: Any) -> Any:
    if not (isinstance(value, pd.DataFrame) and _has_units(value)):
        return value
    return value.assign(situation=value["base"], base=value["cluster"]).drop(columns="cluster")
