"""Error bars after Miller (2024): means and rates of models, and their paired differences, clustered by base."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import CLUSTERED, clustered_mean
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.proportions import share
from toolkit.stats.inference.run_table import checked_runs, score_unit
from toolkit.stats.length import exploratory
from toolkit.stats.rate_difference import rate_difference
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import agreeing, counted

RATE_UNIT: Final = "share of answers"


@dataclass(frozen=True)
class ModelComparison:
    """The means or rates of the models and their paired differences.

    Parameters
    ----------
    models
        Model to its mean or rate; ``missing`` counts its answers without a score.
    differences
        One result a pair of models, the first less the second over the prompts that both answered, with Holm's p
        values; ``missing`` counts the prompts that lack one of the two.
    notes
        How answers were averaged and what was left out.
    """

    models: tuple[tuple[str, Estimate], ...]
    differences: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with what it compares."""
        return estimates_frame(self._rows(), "comparison")

    def sentence(self) -> str:
        """Return every difference in words ready for the thesis."""
        return " ".join(result.sentence() for result in self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "models": {model: result.to_dict() for model, result in self.models},
            "differences": [result.to_dict() for result in self.differences],
            "notes": list(self.notes),
        }

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("model", replace(result, name=model)) for model, result in self.models)
        yield from (("difference", result) for result in self.differences)


@over_clusters
def compare_models(
    runs: pd.DataFrame, score: str = "composite", *, rate: bool = False, confidence: float = 0.95
) -> ModelComparison:
    """Compare models on the prompts that both answered, with error bars clustered by base.

    Repeats of a prompt are averaged first. The difference of two models is taken prompt by prompt, which takes out
    what makes prompts hard for both (Miller 2024, section 4), and prompts of one base are one cluster.

    Parameters
    ----------
    runs
        One row per run with base, length_bin, model and the score; prompt_id too where a base has several prompts
        of one length.
    score
        Column to compare.
    rate
        Whether the score is 0 or 1 and its mean a rate, which has intervals of its own.
    confidence
        Coverage of the intervals.

    Returns
    -------
    ModelComparison

    Raises
    ------
    InputError
        If a column is missing, a run is there twice, a label is empty, or a score is not a number (of a rate: 0 or 1).

    Examples
    --------
    >>> rows = [(f"b{i}", "S", m, s + i / 4) for i in range(5) for m, s in (("a", 3.5 + i % 2 / 2), ("b", 3.0))]
    >>> found = compare_models(pd.DataFrame(rows, columns=["base", "length_bin", "model", "composite"]))
    >>> [(one.name, round(one.estimate, 2), round(one.low, 2)) for one in found.differences]
    [('a - b', 0.7, 0.36)]
    """
    if "model" not in runs:
        raise InputError("runs: lack the column model; give one row per run with its model")
    prompts = ["prompt_id"] if "prompt_id" in runs else []
    checked = checked_runs(runs, score, labels=prompts)
    if rate and not checked["score"].dropna().isin((0.0, 1.0)).all():
        raise InputError(
            f"runs: {score} holds other values than 0 and 1, so its mean is no rate; use rate=False"
        )
    unit = RATE_UNIT if rate else score_unit(score)
    means = tuple(
        (str(model), _of_model(str(model), rows, rate, unit, confidence))
        for model, rows in checked.groupby("model", sort=True)
    )
    cells = (
        checked.groupby(["base", "situation", "length_bin", *prompts, "model"])["score"]
        .mean()
        .unstack("model")
    )
    differences = [
        _difference(str(first), str(second), cells, checked, rate, unit, confidence)
        for first, second in itertools.combinations(cells.columns, 2)
    ]
    corrected = holm([one.p_value for one in differences])
    tests = sum(p is not None for p in corrected)
    correction = f"Holm over {tests} pairs of models" if tests > 1 else "none"
    return ModelComparison(
        means,
        tuple(
            exploratory(replace(one, p_value=p, correction=correction))
            for one, p in zip(differences, corrected, strict=True)
        ),
        _notes(checked, cells, score),
    )


def mean_error_bar(
    name: str,
    values: ArrayLike,
    bases: Sequence[Hashable],
    *,
    unit: str = "none",
    what: str = "answers",
    confidence: float = 0.95,
) -> Estimate:
    """Return the mean of values with its clustered interval, as a result.

    Examples
    --------
    >>> mean_error_bar("mean", [1.0, 2.0, None, 4.0], ["a", "a", "b", "c"]).n
    {'answers': 3, 'bases': 2}
    """
    x = np.asarray(values, dtype=float)
    if len(x) != len(bases):
        raise InputError(f"{name}: {len(x)} values and {len(bases)} bases; give a base for each value")
    known = ~np.isnan(x)
    labels = [base for base, there in zip(bases, known, strict=True) if there]
    empty = Estimate(
        name,
        None,
        method=CLUSTERED,
        unit=unit,
        n={what: len(labels), "bases": len(set(labels))},
        missing=int((~known).sum()),
        confidence=confidence,
    )
    if not labels:
        return replace(empty, note=f"not estimable: there are no {what}")
    found = clustered_mean(x[known], labels, confidence)
    if found.error is None:
        return replace(empty, estimate=found.mean, note=f"no interval or p value: {found.reason}")
    return replace(
        empty,
        estimate=found.mean,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        note=f"clustered standard error {found.error:.4g}",
        degrees=found.degrees,
    )


def paired_difference(
    name: str,
    first: ArrayLike,
    second: ArrayLike,
    bases: Sequence[Hashable],
    *,
    unit: str = "none",
    confidence: float = 0.95,
) -> Estimate:
    """Return the mean difference of two models over the prompts that both answered, clustered by base.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 4.

    Examples
    --------
    >>> found = paired_difference("a - b", [4.0, 3.5, 4.5, 3.0], [3.5, 3.5, 3.5, 2.0], ["u", "u", "v", "w"])
    >>> round(found.estimate, 3), found.n
    (0.625, {'prompts': 4, 'bases': 3})
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not len(one) == len(other) == len(bases):
        raise InputError(f"{name}: {len(one)}, {len(other)} values and {len(bases)} bases; give as many")
    return mean_error_bar(name, one - other, bases, unit=unit, what="prompts", confidence=confidence)


def _difference(
    first: str,
    second: str,
    cells: pd.DataFrame,
    checked: pd.DataFrame,
    rate: bool,
    unit: str,
    confidence: float,
) -> Estimate:
    name, bases = f"{first} - {second}", list(cells.index.get_level_values("base"))
    one, other = cells[first].to_numpy(), cells[second].to_numpy()
    if not rate:
        return paired_difference(name, one, other, bases, unit=unit, confidence=confidence)
    answered = checked.loc[checked["model"].isin((first, second)), "score"].notna().sum()
    return rate_difference(
        name, one, other, bases, answers=int(answered) // 2, unit=unit, confidence=confidence
    )


def _of_model(model: str, rows: pd.DataFrame, rate: bool, unit: str, confidence: float) -> Estimate:
    known = rows.dropna(subset=["score"])
    if not rate:
        found = mean_error_bar(model, rows["score"], list(rows["base"]), unit=unit, confidence=confidence)
        return replace(found, p_value=None)
    hits = [bool(score) for score in known["score"]]
    missing = len(rows) - len(known)
    return share(model, hits, list(known["base"]), what="answers", missing=missing, confidence=confidence)


def _notes(checked: pd.DataFrame, cells: pd.DataFrame, score: str) -> tuple[str, ...]:
    notes = ["answers of one model to one prompt are averaged before models are compared"]
    unscored = int(checked["score"].isna().sum())
    if unscored:
        notes.append(
            f"{unscored} of {counted(len(checked), 'runs')} {agreeing(unscored, f'have no {score} and are left out')}"
        )
    alone = int(cells.isna().any(axis=1).sum())
    if alone:
        notes.append(
            f"{alone} of {counted(len(cells), 'prompts')} {agreeing(alone, 'lack an answer of some model')}"
        )
    return tuple(notes)
