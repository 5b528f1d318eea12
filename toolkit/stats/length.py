"""What the length of a prompt does to a score, paired by base (research question 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, overload

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.effect_size import paired_effect_size
from toolkit.stats.intervals import MeanInterval, mean_interval
from toolkit.stats.multiplicity import holm
from toolkit.stats.result import Estimate
from toolkit.stats.tables import estimates_frame
from toolkit.words import DIMENSIONS, LENGTH_BINS

CONTRASTS: Final = (("M", "S"), ("L", "M"), ("L", "S"))
"""Pairs of length bins: the second is taken from the first."""
BIN_METHOD: Final = "Student t over bases"
PAIRED_METHOD: Final = "Student t over bases, paired"
EFFECT_METHOD: Final = "non-central t over bases"


@dataclass(frozen=True)
class LengthComparison:
    """The scores of the three length bins and their differences within bases.

    Parameters
    ----------
    per_bin
        Mean score of S, M and L; ``missing`` counts the runs of the bin without a score.
    contrasts
        Mean paired difference M-S, L-M and L-S with Holm's p values; ``missing`` counts the bases left out.
    effect_sizes
        d_z of each contrast, without unit.
    notes
        How runs were averaged and what was left out.
    """

    per_bin: tuple[Estimate, ...]
    contrasts: tuple[Estimate, ...]
    effect_sizes: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.tables``) with its kind as the comparison."""
        return estimates_frame(self._rows(), "comparison")

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "per_bin": [result.to_dict() for result in self.per_bin],
            "contrasts": [result.to_dict() for result in self.contrasts],
            "effect_sizes": [result.to_dict() for result in self.effect_sizes],
            "notes": list(self.notes),
        }

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("mean of bin", result) for result in self.per_bin)
        yield from (("difference", result) for result in self.contrasts)
        yield from (("effect size", result) for result in self.effect_sizes)


@overload
def compare_lengths(runs: pd.DataFrame, score: str = "composite", by: None = None) -> LengthComparison: ...


@overload
def compare_lengths(
    runs: pd.DataFrame, score: str = "composite", *, by: Literal["model"]
) -> dict[str, LengthComparison]: ...


def compare_lengths(
    runs: pd.DataFrame, score: str = "composite", by: Literal["model"] | None = None
) -> LengthComparison | dict[str, LengthComparison]:
    """Compare the scores of S, M and L prompts within bases.

    Repeats are averaged first, then models, so that each base counts once; a difference is taken within a
    base and model before models are averaged, so that a model that failed in one bin does not pass for an
    effect of length. Bases that lack one of the two bins are left out of that contrast and counted. A run
    without a score is missing, never zero.

    Parameters
    ----------
    runs
        One row per run with base, length_bin (S, M or L), the score and, where there are several, model.
    score
        Column to compare.
    by
        ``"model"`` for one comparison per model; Holm's correction is then within each model.

    Returns
    -------
    LengthComparison or dict
        One comparison, or model to comparison.

    Raises
    ------
    InputError
        If a column is missing, a base or model is empty, a length bin is unknown, or a score is not a number.

    Examples
    --------
    >>> scores = {"S": [3.0, 2.5, 3.5], "M": [3.4, 3.1, 3.7], "L": [3.9, 3.0, 4.2]}
    >>> rows = [(f"b{i}", b, value) for b, values in scores.items() for i, value in enumerate(values)]
    >>> comparison = compare_lengths(pd.DataFrame(rows, columns=["base", "length_bin", "composite"]))
    >>> [(one.name, round(one.estimate, 2)) for one in comparison.contrasts]
    [('M-S', 0.4), ('L-M', 0.3), ('L-S', 0.7)]
    """
    checked = _checked(runs, score)
    if by is None:
        return _compare(checked, score)
    if by != "model":
        raise InputError(f"comparison by {by!r} is not known; use by='model' or leave it out")
    return {str(model): _compare(rows, score) for model, rows in checked.groupby("model", sort=True)}


def _checked(runs: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return base, model, length_bin and score of every run, or say what cannot be used."""
    absent = [name for name in ("base", "length_bin", score) if name not in runs]
    if absent:
        raise InputError(f"runs: lack the column {', '.join(absent)}; give base, length_bin and {score}")
    numbers = pd.to_numeric(runs[score], errors="coerce").astype("float64")
    wrong = (numbers.isna() & runs[score].notna()).to_numpy() | np.isinf(numbers.to_numpy())
    if wrong.any():
        value = runs[score].iloc[int(wrong.argmax())]
        raise InputError(f"runs: {score} {value!r} is not a finite number; give a number or leave it missing")
    checked = pd.DataFrame(
        {
            "base": runs["base"].to_numpy(),
            "model": runs["model"].to_numpy() if "model" in runs else "all",
            "length_bin": runs["length_bin"].astype("object").to_numpy(),
            "score": numbers.to_numpy(),
        }
    )
    for name in ("base", "model"):
        if checked[name].isna().any():
            raise InputError(f"runs: a {name} is empty; every run needs one")
    unknown = checked.loc[~checked["length_bin"].isin(LENGTH_BINS), "length_bin"]
    if len(unknown):
        raise InputError(f"runs: length bin {unknown.iloc[0]!r} is not known; use {', '.join(LENGTH_BINS)}")
    return checked


def _compare(runs: pd.DataFrame, score: str) -> LengthComparison:
    unit = "score points (0-5)" if score in DIMENSIONS or score.startswith("composite") else score
    cells = (
        runs.groupby(["base", "model", "length_bin"])["score"]
        .mean()
        .unstack()
        .reindex(columns=list(LENGTH_BINS))
        .astype("float64")
    )
    scale = float(np.nanmax(np.abs(cells.to_numpy()), initial=0.0))
    differences = {f"{b}-{a}": _over_models(cells[b] - cells[a]) for b, a in CONTRASTS}
    bases = runs["base"].nunique()
    contrasts = [_contrast(name, values, bases, scale, unit) for name, values in differences.items()]
    corrected = holm([result.p_value for result in contrasts])
    tests = sum(p is not None for p in corrected)
    correction = f"Holm over {tests} contrasts" if tests else "none"
    return LengthComparison(
        per_bin=tuple(_bin_mean(name, cells, runs, scale, unit) for name in LENGTH_BINS),
        contrasts=tuple(
            replace(result, p_value=p, correction=correction)
            for result, p in zip(contrasts, corrected, strict=True)
        ),
        effect_sizes=tuple(
            _effect(result, values) for result, values in zip(contrasts, differences.values(), strict=True)
        ),
        notes=_notes(runs, cells, score),
    )


def _over_models(values: pd.Series) -> pd.Series:
    """Return one value per base: the mean over the models that have one."""
    return values.dropna().groupby(level="base").mean()


def _bin_mean(name: str, cells: pd.DataFrame, runs: pd.DataFrame, scale: float, unit: str) -> Estimate:
    scores = runs.loc[runs["length_bin"] == name, "score"]
    values = _over_models(cells[name])
    counts = {"bases": len(values), "answers": int(scores.notna().sum())}
    empty = Estimate(name, None, method=BIN_METHOD, unit=unit, n=counts, missing=int(scores.isna().sum()))
    return _filled(empty, values, scale)


def _contrast(name: str, values: pd.Series, bases: int, scale: float, unit: str) -> Estimate:
    empty = Estimate(
        name,
        None,
        method=PAIRED_METHOD,
        unit=unit,
        n={"bases": len(values)},
        missing=bases - len(values),
    )
    return _filled(empty, values, scale, with_p_value=True)


def _filled(empty: Estimate, values: pd.Series, scale: float, with_p_value: bool = False) -> Estimate:
    """Return the result with its number, or with the reason why there is none."""
    if len(values) < 2:
        return replace(empty, note=f"not estimable: {len(values)} base(s) with a score, and two are needed")
    interval: MeanInterval = mean_interval(values.to_numpy(), scale=scale)
    what = "interval or p value" if with_p_value else "interval"
    return replace(
        empty,
        estimate=interval.mean,
        low=interval.low,
        high=interval.high,
        p_value=interval.p_value if with_p_value else None,
        note=f"no {what}: {interval.reason}" if interval.reason else "",
    )


def _effect(contrast: Estimate, values: pd.Series) -> Estimate:
    name = f"d_z({contrast.name})"
    empty = Estimate(name, None, method=EFFECT_METHOD, n=contrast.n, missing=contrast.missing)
    if contrast.estimate is None:
        return replace(empty, note=contrast.note)
    if contrast.low is None:
        return replace(empty, note="not estimable: the differences are all equal")
    d_z, low, high = paired_effect_size(values.to_numpy())
    return replace(
        empty, estimate=d_z, low=low, high=high, note="" if low is not None else "no interval found"
    )


def _notes(runs: pd.DataFrame, cells: pd.DataFrame, score: str) -> tuple[str, ...]:
    notes = ["repeats are averaged first, then models, so each base counts once"]
    unscored = int(runs["score"].isna().sum())
    if unscored:
        notes.append(f"{unscored} of {len(runs)} runs have no {score} and are left out")
    incomplete = int(cells.isna().any(axis=1).sum())
    if incomplete:
        what = "bases" if runs["model"].nunique() == 1 else "pairs of base and model"
        notes.append(
            f"{incomplete} of {len(cells)} {what} lack a length bin and are left out of its contrasts"
        )
    return tuple(notes)
