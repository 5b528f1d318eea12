"""The design of a generalizability study: which factors are crossed, which are nested, and the effects that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.run_table import need_columns, need_labels, numbers_of
from toolkit.stats.result import ROUNDING
from toolkit.words import agreeing, counted

Effect = frozenset[str]  # the factors of one effect, with what they are nested in


@dataclass(frozen=True)
class Design:
    """Which factors the scores of a study are crossed over, and which are nested in others.

    Examples
    --------
    >>> design = Design(("base", "judge", "repeat"), {"repeat": ("base",)})
    >>> [design.name(effect) for effect in design.effects]
    ['base', 'judge', 'base x judge', 'repeat:base', 'judge x repeat:base']
    """

    factors: tuple[str, ...]
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = set(self.factors)
        wrong = [name for name, parents in self.nested.items() if not {name, *parents} <= names - {""}]
        if not self.factors or len(names) < len(self.factors) or wrong or self.factors[0] in self.nested:
            raise InputError(
                f"design {' x '.join(self.factors)} with nesting {dict(self.nested)}: name each factor once, "
                "nest factors in factors of the design only, and leave the first one crossed"
            )

    def closure(self, subset: Iterable[str]) -> Effect:
        """Return a set of factors together with everything they are nested in."""
        names = set(subset)
        return frozenset(names.union(*(self.nested.get(name, ()) for name in names)))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All effects that the design has, smaller ones first; the last is confounded with the error."""
        sizes = range(1, len(self.factors) + 1)
        effects = {self.closure(subset) for size in sizes for subset in combinations(self.factors, size)}
        return tuple(sorted(effects, key=lambda e: (len(e), sorted(map(self.factors.index, e)))))

    def heads(self, effect: Effect) -> str:
        """Return the factors of an effect that no other of them is nested in, e.g. ``judge x repeat``."""
        parents = {parent for name in effect for parent in self.nested.get(name, ())}
        return " x ".join(name for name in self.factors if name in effect and name not in parents)

    def name(self, effect: Effect) -> str:
        """Return an effect as it is written, e.g. ``judge x repeat:(base x model)``."""
        parents = {parent for name in effect for parent in self.nested.get(name, ())}
        within, heads = [name for name in self.factors if name in parents], self.heads(effect)
        if not within:
            return heads
        return f"{heads}:{within[0] if len(within) == 1 else '(' + ' x '.join(within) + ')'}"

    def without(self, factors: Iterable[str]) -> Design:
        """Return the design with some factors left out, because they have one level."""
        removed = set(factors)
        return Design(
            tuple(name for name in self.factors if name not in removed),
            {
                name: tuple(parent for parent in parents if parent not in removed)
                for name, parents in self.nested.items()
                if name not in removed
            },
        )


@dataclass(frozen=True)
class ComponentsTable:
    """The scores of a study, one axis per factor of its design."""

    values: np.ndarray
    design: Design
    scale: float
    n: Mapping[str, int]
    missing: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""
    left_out: float = 0.0  # share of the replies that lack a judge
    scored: np.ndarray = field(
        default_factory=lambda: np.empty(0)
    )  # cells with a score, also of these replies

    @property
    def complete(self) -> bool:
        """Whether every cell has a score."""
        return bool(np.isfinite(self.values).all())

    @property
    def levels(self) -> dict[str, int]:
        """Levels of each factor of the design."""
        return dict(zip(self.design.factors, self.values.shape, strict=True))


def components_table(frame: pd.DataFrame, design: Design) -> ComponentsTable:
    """Put tidy scores into a table with one axis per factor, saying what had to be left out.

    A reply that some judge did not score is left out, because what judges add would otherwise mix with what replies
    differ by; all its scores count as missing.
    """
    need_columns("scores", frame, (*design.factors, "score"))
    if frame.empty:
        raise InputError("scores: there are none; give one row per score")
    need_labels("scores", frame, design.factors)
    codes = _codes(frame, design)
    shape = tuple(int(codes[name].max()) + 1 for name in design.factors)
    cells = np.ravel_multi_index([codes[name] for name in design.factors], shape)
    repeated = pd.Series(cells).duplicated().to_numpy()
    if repeated.any():
        first = frame.iloc[int(repeated.argmax())]
        cell = ", ".join(f"{name} {first[name]}" for name in design.factors)
        raise InputError(
            f"scores: {counted(int(repeated.sum()), 'rows')} of a cell that has one, the first of {cell}; "
            "keep one score per cell, or name the factor that tells them apart"
        )
    values = np.full(shape, np.nan)
    values.flat[cells] = numbers_of("scores", frame, "score")
    all_values, (values, partial, replies) = values, _judged_by_all(values, design)
    missing = int((_expected(design, codes, shape) & np.isnan(values)).sum())
    notes = _silent_levels(frame, design, all_values, codes)
    if partial:
        lack = agreeing(partial, "lack a judge and are left out")
        notes.insert(0, f"{partial} of {counted(replies, 'replies')} {lack}")
    for axis in range(values.ndim):
        levels_left = _scored_levels(values, axis)
        values, all_values = (table.compress(levels_left, axis) for table in (values, all_values))
    levels = dict(zip(design.factors, values.shape, strict=True))
    n = _counts(design, values)
    single = [name for name, count in levels.items() if count == 1]
    if np.isinf(values).any() or not values.size:
        problem = "no reply was scored by all judges" if partial else "there is no score"
        problem = "a score is infinite" if values.size else problem
        return ComponentsTable(np.empty((0,) * len(shape)), design, 1.0, n, missing, tuple(notes), problem)
    reduced = (
        design.without(single) if len(single) < len(levels) and design.factors[0] not in single else design
    )
    problem = _problem(values, design, levels)
    if not problem:
        values = values.reshape([count for count in values.shape if count > 1])
    scale = float(np.nanmax(np.abs(values))) or 1.0
    values = values / scale
    return ComponentsTable(
        values - np.nanmean(values),
        reduced if not problem else design,
        scale,
        n,
        missing,
        tuple(notes),
        problem,
        partial / max(replies, 1),
        np.isfinite(all_values).reshape(values.shape),
    )


def _codes(frame: pd.DataFrame, design: Design) -> dict[str, np.ndarray]:
    """Number the levels of each factor; those of a nested factor anew within each of its parents."""
    plain = {name: pd.factorize(frame[name].astype("object"), sort=True)[0] for name in design.factors}
    within = {
        name: pd.Series(plain[name]).groupby([plain[parent] for parent in parents]).rank("dense")
        for name, parents in design.nested.items()
    }
    return plain | {name: rank.to_numpy(dtype=np.int64) - 1 for name, rank in within.items()}


def _judged_by_all(values: np.ndarray, design: Design) -> tuple[np.ndarray, int, int]:
    """Leave out replies that lack one of the judges, and say how many of how many they are."""
    if "judge" not in design.factors or "judge" in design.nested:
        return values, 0, 0
    judge = design.factors.index("judge")
    again = tuple(axis for axis, name in enumerate(design.factors) if "judge" in design.nested.get(name, ()))
    scored = ~np.isnan(values).all(axis=again, keepdims=True)
    silent = ~scored.any(axis=tuple(axis for axis in range(values.ndim) if axis != judge), keepdims=True)
    replies = scored.any(axis=judge, keepdims=True)
    partial = replies & ~(scored | silent).all(axis=judge, keepdims=True)
    return np.where(partial, np.nan, values), int(partial.sum()), int(replies.sum())


def _expected(design: Design, codes: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Say which cells could have a score: units of nested factors that nobody made are not missing."""
    expected = np.ones(shape, dtype=bool)
    for name, parents in design.nested.items():
        axes = sorted(map(design.factors.index, (*parents, name)))
        factors = [design.factors[axis] for axis in axes]
        exists = np.zeros([shape[axis] for axis in axes], dtype=bool)
        exists[tuple(map(codes.__getitem__, factors))] = True
        # Parents without any unit lack one at least.
        inner = factors.index(name)
        np.moveaxis(exists, inner, 0)[0] |= ~exists.any(axis=inner)
        summed = tuple(axis for axis in range(len(shape)) if axis not in axes)
        expected &= np.expand_dims(exists, summed)
    return expected


def _silent_levels(
    frame: pd.DataFrame, design: Design, values: np.ndarray, codes: Mapping[str, np.ndarray]
) -> list[str]:
    """Say which levels have no score at all, but for nested ones: those were numbered anew."""
    notes: list[str] = []
    for axis, name in enumerate(design.factors):
        silent = ~_scored_levels(values, axis)
        if silent.any() and not silent.all() and name not in design.nested:
            rows = np.isin(codes[name], np.flatnonzero(silent))
            labels = sorted(set(frame.loc[rows, name].astype(str)))
            listing = ", ".join(labels[:3]) + (" and others" if len(labels) > 3 else "")
            notes.append(f"{counted(len(labels), name + 's')} without any score left out: {listing}")
    return notes


def _scored_levels(values: np.ndarray, axis: int) -> np.ndarray:
    return (~np.isnan(np.moveaxis(values, axis, 0))).reshape(values.shape[axis], -1).any(axis=1)


def _counts(design: Design, values: np.ndarray) -> dict[str, int]:
    """Say how many levels each factor has, nested ones within their parents, and how many scores there are."""
    counts = {}
    for axis, name in enumerate(design.factors):
        within = " x ".join(parent for parent in design.factors if parent in design.nested.get(name, ()))
        counts[f"{name}s per {within}" if within else f"{name}s"] = values.shape[axis]
    return {**counts, "scores": int((~np.isnan(values)).sum())}


def _problem(values: np.ndarray, design: Design, levels: Mapping[str, int]) -> str:
    """Say why a table supports no variance component; empty where it does."""
    first = design.factors[0]
    if levels[first] < 2:
        return f"variance between {first}s needs two of them and there is {levels[first]}"
    if sum(count > 1 for count in levels.values()) < 2:
        return f"there is one score per {first}, so nothing tells error from what is to be measured"
    size = float(np.nanmax(np.abs(values)))
    if float(np.nanmax(values) - np.nanmin(values)) <= ROUNDING * size:
        return f"every score is {float(np.nanmax(values)):g}, so there is no variance"
    if not 1e-140 < size < 1e140:
        return f"scores of size {size:g} have no variance that a computer can hold; use another unit"
    return ""
