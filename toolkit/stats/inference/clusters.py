"""The independent unit of every interval and test: the cluster, bases that share a text; and estimates over units."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeGuard, TypeVar, cast

import pandas as pd

from toolkit.stats.inference.means import mean_on_scale
from toolkit.stats.inference.p_values import corrected
from toolkit.stats.inference.run_table import WHOLE
from toolkit.stats.result import GROUPS, Estimate, Estimates, Result
from toolkit.words import counted

_is_part: ContextVar[bool] = ContextVar("_is_part", default=False)
"""Whether an analysis is made, so that one inside of it is a part."""
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", pd.Series, pd.DataFrame)


def over_clusters(analysis: Callable[P, R]) -> Callable[P, R]:
    """Give an analysis frames with a column ``unit``: what is independent, the cluster of a base or the base itself.

    Intervals, tests and their n are over units; S, M and L are paired within the base (`mean_of_units`). Where several
    bases are one unit, what the analysis returns counts independent groups in place of bases. An analysis that another
    one makes takes the units of that. Holm's families, and what is exploratory, are those of its words.

    Examples
    --------
    >>> def units(runs):
    ...     return runs["unit"].nunique()
    >>> over_clusters(units)(pd.DataFrame({"base": ["a", "b", "c"], "cluster": ["a", "a", "c"]}))
    2
    """

    @wraps(analysis)
    def clustered(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_part.get():
            return cast(R, corrected(analysis(*args, **kwargs)))
        frames = [value for value in (*args, *kwargs.values()) if _has_bases(value)]
        # Each may have a cluster of another name, such as its own address, or be the only answered one of its cluster.
        counts = [count for count in map(unit_counts, frames) if GROUPS in count]

        def with_unit(value: Any) -> Any:
            if not _has_bases(value):
                return value
            return value.assign(unit=value["cluster" if counts and "cluster" in value else "base"])

        by_name = {name: with_unit(value) for name, value in kwargs.items()}
        before = _is_part.set(True)
        try:
            result: R = corrected(analysis(*map(with_unit, args), **by_name))
        finally:
            _is_part.reset(before)
        units, base = counts[0] if counts else {}, noun_of(*frames)
        if units or base != "bases":
            result = _counting(result, units, base)
        if not units or not isinstance(result, Result) or "notes" not in result.values:
            return result
        note = (
            f"{counted(max(units.values()), base)} are {counted(units[GROUPS], GROUPS)}, because {base} share texts or "
            f"sources: intervals and tests rest on groups, each counting once where {base} would"
        )
        return result.replace(notes=(*result.notes, note))

    return clustered


def mean_of_units(values: V) -> V:
    """Return one value a unit: bases are averaged within their cluster, for a copy of a text says nothing new."""
    return values.groupby(level=["unit", "base"]).mean().groupby(level="unit").mean()


def unit_counts(frame: pd.DataFrame) -> dict[str, int]:
    """Return how many bases a frame has, and how many independent groups where these are fewer."""
    bases = int(frame["base"].nunique())
    groups = int(frame["cluster"].nunique()) if "cluster" in frame else bases
    return {noun_of(frame): bases, **({GROUPS: groups} if groups != bases else {})}


def units_words(clusters: Mapping[str, str], bases: Collection[str], noun: str = "bases") -> str:
    """Say how many bases there are, and how many independent groups where these are fewer."""
    groups = len({clusters[base] for base in bases})
    clause = (
        f" in {counted(groups, GROUPS)} ({noun} that share texts or sources)" if groups != len(bases) else ""
    )
    return f"{counted(len(bases), noun)}{clause}"


def noun_of(*frames: pd.DataFrame) -> str:
    """Return what frames call their bases: those without levels are prompts of a list, or items of a test."""
    if nouns := [frame.attrs["base"] for frame in frames if "base" in frame.attrs]:
        return str(nouns[0])
    levels = {level for frame in frames if "level" in frame for level in frame["level"].unique()}
    with_ids = (frame for frame in frames if "prompt_id" in frame)
    if any(frame["prompt_id"].nunique() > frame["base"].nunique() for frame in with_ids):
        return "bases"
    return "items" if levels == {WHOLE} else "prompts" if levels and pd.isna([*levels]).all() else "bases"


def _counting(result: Any, units: Mapping[str, int], base: str) -> Any:
    """Return a result whose ``n`` names what was counted as bases; where groups were, all bases stand beside them."""
    if isinstance(result, Estimate):
        every = {base: max(units.values())} if units and result.n.get("bases") == units[GROUPS] else {}
        unit = GROUPS if units else base
        names = {"bases": unit, "rated bases": f"rated {unit}"} | (
            {"prompts": base} if base == "items" else {}
        )
        return replace(result, n=every | {names.get(name, name): n for name, n in result.n.items()})
    if type(result) is tuple:
        return tuple(_counting(part, units, base) for part in result)
    if isinstance(result, Mapping):
        return {key: _counting(part, units, base) for key, part in result.items()}
    if not isinstance(result, Result):
        return result
    values = {name: _counting(value, units, base) for name, value in result.values.items()}
    return result.replace(**values)


def _has_bases(value: Any) -> TypeGuard[pd.DataFrame]:
    return isinstance(value, pd.DataFrame) and "base" in value


Interval = Callable[[Estimate, pd.Series, Sequence[Hashable]], Estimate]
"""What makes an estimate of values and their units: `mean_on_scale`, `rate_mean` or the like."""


def complete_rows(
    name: str,
    rows: pd.DataFrame,
    columns: Sequence[str],
    counts: Sequence[str] = ("answers", "bases"),
    **labels: Any,
) -> tuple[Estimate, pd.DataFrame]:
    """Return the rows that have some columns, and an estimate of them without its number: n, and how many lack one."""
    complete = rows.dropna(subset=list(columns))
    n = {count: complete["unit"].nunique() if count == "bases" else len(complete) for count in counts}
    return replace(Estimate(name, n=n, missing=len(rows) - len(complete)), **labels), complete


def of_rows(
    name: str,
    rows: pd.DataFrame,
    column: str,
    interval: Interval,
    *,
    counts: Sequence[str] = ("answers", "bases"),
    nothing: str = "no answer has a score",
    **labels: Any,
) -> Estimate:
    """Return the estimate of a column over the rows that have it, with n, what is missing, and other fields of it.

    Examples
    --------
    >>> rows = pd.DataFrame({"base": list("abcd"), "unit": list("abcd"), "composite_strict": [4.5, None, 4.0, 3.0]})
    >>> mean = of_rows("mean", rows, "composite_strict", mean_on_scale)
    >>> round(mean.estimate, 2), mean.n, mean.missing
    (3.83, {'answers': 3, 'bases': 3}, 1)
    """
    empty, scored = complete_rows(name, rows, [column], counts, **labels)
    if scored.empty:
        return empty.not_estimable(nothing)
    return interval(empty, scored[column].astype("float64"), list(scored["unit"]))


def by_group(
    statistic: str,
    rows: pd.DataFrame,
    column: str,
    by: Sequence[str],
    interval: Interval = mean_on_scale,
    **labels: Any,
) -> Estimates:
    """Return a statistic of each group of rows with its interval over units, and the group as facets.

    Parameters
    ----------
    statistic
        What is estimated, such as "mean length".
    rows
        A frame with a column ``unit``, as an analysis has it (`over_clusters`), and the columns of values and groups.
    column
        The values; a row without one is missing and counted.
    by
        Columns whose values are the groups, such as model and level.
    interval
        How values of units become an estimate: `mean_on_scale` by default, `rate_mean` of values from 0 to 1.
    **labels
        Other fields of the estimates, such as unit and role.

    Examples
    --------
    >>> rows = pd.DataFrame({"unit": list("aabbcc"), "model": list("xyxyxy"), "gain": [1.0, 2, 2, 4, 3, 6]})
    >>> [(one.name, one.estimate, one.n) for one in by_group("gain", rows, "gain", ["model"])][0]
    ('gain of x', 2.0, {'answers': 3, 'bases': 3})
    """
    estimates = []
    for names, part in rows.groupby(list(by), sort=True, observed=True):
        facets = dict(zip(by, map(str, names), strict=True))
        name = f"{statistic} of {', '.join(facets.values())}"
        estimates.append(of_rows(name, part, column, interval, statistic=statistic, facets=facets, **labels))
    return tuple(estimates)
