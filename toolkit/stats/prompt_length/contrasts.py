"""What the length of a prompt does to a score, paired by base (research question 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar, overload

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.effect_size import average_effect_size, bias_corrected, paired_effect_size
from toolkit.stats.inference.means import MeanInterval, mean_interval
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.run_table import SCORE_UNIT, checked_runs, score_unit
from toolkit.stats.prompt_length.equivalence import equivalence, judged_equivalent
from toolkit.stats.prompt_length.omnibus import RepeatedMeasures, friedman, repeated_measures
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import LENGTH_BINS, agreeing, counted


@dataclass(frozen=True)
class LengthComparison:
    """The scores of the three length bins and their differences within bases.

    Parameters
    ----------
    per_bin
        Mean score of S, M and L; ``missing`` counts the runs of the bin without a score.
    contrasts
        Mean paired difference M-S, L-M and L-S, confirmatory or exploratory, these with Holm's p values; ``missing``
        counts the bases left out.
    effect_sizes
        d_z of each contrast, without unit.
    notes
        How runs were averaged and what was left out.
    corrected_effect_sizes
        g_z of each contrast: d_z corrected for its bias.
    average_effect_sizes
        d_av of each contrast, without unit.
    anova, friedman
        Repeated-measures ANOVA and Friedman's test over the bins that have scores, each base that has them all
        counting once; None where they were not asked for.
    equivalence
        Two one-sided tests of each contrast; empty where no margin was given.
    """

    per_bin: tuple[Estimate, ...]
    contrasts: tuple[Estimate, ...]
    effect_sizes: tuple[Estimate, ...]
    notes: tuple[str, ...]
    corrected_effect_sizes: tuple[Estimate, ...] = ()
    average_effect_sizes: tuple[Estimate, ...] = ()
    anova: RepeatedMeasures | None = None
    friedman: Estimate | None = None
    equivalence: tuple[Estimate, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its kind as the comparison."""
        return estimates_frame(self._rows(), "comparison")

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "per_bin": [result.to_dict() for result in self.per_bin],
            "contrasts": [result.to_dict() for result in self.contrasts],
            "effect_sizes": [result.to_dict() for result in self.effect_sizes],
            "corrected_effect_sizes": [result.to_dict() for result in self.corrected_effect_sizes],
            "average_effect_sizes": [result.to_dict() for result in self.average_effect_sizes],
            "anova": self.anova.to_dict() if self.anova is not None else None,
            "friedman": self.friedman.to_dict() if self.friedman is not None else None,
            "equivalence": [result.to_dict() for result in self.equivalence],
            "notes": list(self.notes),
        }

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("mean of bin", result) for result in self.per_bin)
        yield from (("difference", result) for result in self.contrasts)
        yield from (("effect size", result) for result in self.effect_sizes)
        yield from (("effect size", result) for result in self.corrected_effect_sizes)
        yield from (("effect size", result) for result in self.average_effect_sizes)
        if self.anova is not None:
            yield "any difference", self.anova.as_estimate()
        if self.friedman is not None:
            yield "any difference", self.friedman
        yield from (("equivalence", result) for result in self.equivalence)


CONTRASTS: Final = (("M", "S"), ("L", "M"), ("L", "S"))
"""Pairs of length bins: the second is taken from the first."""
BIN_METHOD: Final = "Student t over bases"
PAIRED_METHOD: Final = "Student t over bases, paired"
EFFECT_METHOD: Final = "non-central t over bases"
CORRECTED_METHOD: Final = "non-central t over bases; estimate corrected for bias (Hedges 1981)"
CONFIRMATORY: Final = "confirmatory"
EXPLORATORY: Final = "exploratory"
AVERAGE_EFFECT_METHOD: Final = "non-central t over bases (Algina & Keselman 2003)"
Cells = TypeVar("Cells", pd.Series, pd.DataFrame)


@overload
def compare_lengths(
    runs: pd.DataFrame,
    score: str = "composite",
    by: None = None,
    *,
    omnibus: bool = False,
    margin: float | None = None,
    primary: str | None = None,
) -> LengthComparison: ...


@overload
def compare_lengths(
    runs: pd.DataFrame,
    score: str = "composite",
    *,
    by: Literal["model"],
    omnibus: bool = False,
    margin: float | None = None,
    primary: str | None = None,
) -> dict[str, LengthComparison]: ...


@over_clusters
def compare_lengths(
    runs: pd.DataFrame,
    score: str = "composite",
    by: Literal["model"] | None = None,
    *,
    omnibus: bool = False,
    margin: float | None = None,
    primary: str | None = None,
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
    omnibus
        Whether to test first if any bin differs: repeated-measures ANOVA and Friedman.
    margin
        Margin of equivalence in score points, as the study file fixed it beforehand; None tests no equivalence.
        Scores that are not in score points are not tested, and a note says so.
    primary
        The one confirmatory contrast, ``M-S``, ``L-M`` or ``L-S``, whose p value and interval are unadjusted; the
        others are exploratory and adjusted among themselves. None makes all of them exploratory, and so does an empty
        text, for a comparison beside the primary one; those of one model are exploratory.

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
    checked = checked_runs(runs, score)
    if by is None:
        return _compare(checked, score, omnibus, margin, primary)
    if by != "model":
        raise InputError(f"comparison by {by!r} is not known; use by='model' or leave it out")
    return {
        str(model): _compare(rows, score, omnibus, margin, primary and "")
        for model, rows in checked.groupby("model", sort=True)
    }


def _compare(
    runs: pd.DataFrame, score: str, omnibus: bool, margin: float | None, primary: str | None
) -> LengthComparison:
    unit = score_unit(score)
    cells = (
        runs.groupby(["base", "situation", "model", "length_bin"])["score"]
        .mean()
        .unstack()
        .reindex(columns=list(LENGTH_BINS))
        .astype("float64")
    )
    scale = float(np.nanmax(np.abs(cells.to_numpy()), initial=0.0))
    pairs = {f"{b}-{a}": _over_models(cells[[b, a]]) for b, a in CONTRASTS}
    differences = {name: pair.iloc[:, 0] - pair.iloc[:, 1] for name, pair in pairs.items()}
    bases = runs["base"].nunique()
    contrasts = [_contrast(name, values, bases, scale, unit) for name, values in differences.items()]
    notes = (*_notes(runs, cells, score), _roles(primary))
    if margin is not None and unit != SCORE_UNIT:
        notes = (*notes, f"equivalence is not tested: the margin is in score points, and {score} is not")
        margin = None
    return LengthComparison(
        per_bin=tuple(_bin_mean(name, cells, runs, scale, unit) for name in LENGTH_BINS),
        contrasts=_tested(contrasts, primary),
        effect_sizes=tuple(
            _effect(result, f"d_z({result.name})", EFFECT_METHOD, pairs[result.name]) for result in contrasts
        ),
        notes=notes,
        corrected_effect_sizes=tuple(
            _effect(result, f"g_z({result.name})", CORRECTED_METHOD, pairs[result.name])
            for result in contrasts
        ),
        average_effect_sizes=tuple(
            _effect(result, f"d_av({result.name})", AVERAGE_EFFECT_METHOD, pairs[result.name])
            for result in contrasts
        ),
        **(_omnibus(cells, bases) if omnibus else {}),
        equivalence=()
        if margin is None
        else judged_equivalent(
            [
                equivalence(
                    result.name,
                    differences[result.name],
                    margin,
                    unit=unit,
                    missing=result.missing,
                    scale=scale,
                )
                for result in contrasts
            ]
        ),
    )


def _tested(contrasts: Sequence[Estimate], primary: str | None) -> tuple[Estimate, ...]:
    """Return the contrasts with Holm's p values among the exploratory ones, and which of them is confirmatory."""
    several = [result.name for result in contrasts if result.name != primary and result.p_value is not None]
    corrected = dict(zip(several, holm([r.p_value for r in contrasts if r.name in several]), strict=True))
    correction = f"Holm over {len(several)} contrasts" if len(several) > 1 else "none"
    return tuple(
        exploratory(
            replace(
                result,
                p_value=corrected.get(result.name, result.p_value),
                correction=correction if result.name in corrected else "none",
            ),
            CONFIRMATORY if result.name == primary else EXPLORATORY,
        )
        for result in contrasts
    )


def exploratory(result: Estimate, role: str = EXPLORATORY) -> Estimate:
    """Return a result whose note says whether it is the one that the study file named beforehand."""
    return replace(result, note="; ".join(filter(None, (result.note, role)))) if result.estimable else result


def _roles(primary: str | None) -> str:
    if not primary:
        why = "no primary contrast was named beforehand, so " if primary is None else ""
        return f"{why}all contrasts are exploratory"
    return f"the one confirmatory contrast, named beforehand, is {primary}; all others are exploratory"


def _omnibus(cells: pd.DataFrame, bases: int) -> dict[str, Any]:
    """Return both tests over the bins that have a score; a study may ask for two of the three."""
    used = cells.dropna(axis="columns", how="all")
    if used.shape[1] < 2:
        note = f"not estimable: {counted(used.shape[1], 'length bins')} with a score, and two are needed"
        counts = {"bases": len(_over_models(used)), "bins": used.shape[1]}
        return {
            "anova": RepeatedMeasures(None, n=counts, note=note),
            "friedman": Estimate("Kendall's W", None, n=counts, note=note),
        }
    table = _over_models(used)
    missing = bases - len(table)
    return {"anova": repeated_measures(table, missing), "friedman": friedman(table, missing)}


def _over_models(values: Cells) -> Cells:
    """Return one row per base: the mean over the models that have every value asked for."""
    return mean_of_units(values.dropna())


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
        return replace(
            empty, note=f"not estimable: {counted(len(values), 'bases')} with a score, and two are needed"
        )
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


def _effect(contrast: Estimate, name: str, method: str, pair: pd.DataFrame) -> Estimate:
    empty = Estimate(name, None, method=method, n=contrast.n, missing=contrast.missing)
    if contrast.estimate is None:
        return replace(empty, note=contrast.note)
    if contrast.low is None:
        return replace(empty, note="not estimable: the differences are all equal")
    first, second = pair.to_numpy().T
    if method == AVERAGE_EFFECT_METHOD:
        size, low, high = average_effect_size(first, second)
    else:
        size, low, high = paired_effect_size(first - second)
    if method == CORRECTED_METHOD:
        corrected = bias_corrected(size, len(pair))
        if corrected is None:
            return replace(empty, note="not estimable: two bases leave no degrees of freedom to correct with")
        size = corrected
    return replace(
        empty, estimate=size, low=low, high=high, note="" if low is not None else "no interval found"
    )


def _notes(runs: pd.DataFrame, cells: pd.DataFrame, score: str) -> tuple[str, ...]:
    notes = ["repeats are averaged first, then models, so each base counts once"]
    unscored = int(runs["score"].isna().sum())
    if unscored:
        notes.append(
            f"{unscored} of {counted(len(runs), 'runs')} {agreeing(unscored, f'have no {score} and are left out')}"
        )
    incomplete = int(cells.isna().any(axis=1).sum())
    if incomplete:
        what = "bases" if runs["model"].nunique() == 1 else "pairs of base and model"
        notes.append(
            f"{incomplete} of {counted(len(cells), what)} "
            f"{agreeing(incomplete, 'lack a length bin and are left out of its contrasts')}"
        )
    return tuple(notes)
