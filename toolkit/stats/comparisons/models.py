"""Error bars after Miller (2024): means and rates of models, and their paired differences, clustered by base."""

from __future__ import annotations

import itertools
import math
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
from toolkit.stats.inference.proportions import effective_cases, share, wilson
from toolkit.stats.inference.run_table import checked_runs, score_unit
from toolkit.stats.inference.sign_flip import sign_flip
from toolkit.stats.prompt_length.contrasts import exploratory
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import agreeing, counted

METHOD: Final = (
    "wider of Wilson ends put together (Zou & Donner 2008) and t, clustered by base; p by sign flips"
)


def rate_difference(
    name: str,
    first: ArrayLike,
    second: ArrayLike,
    bases: Sequence[Hashable],
    *,
    answers: int | None = None,
    unit: str = "none",
    confidence: float = 0.95,
) -> Estimate:
    r"""Return the difference of two rates over the prompts that both models answered, clustered by base.

    For rates near 0 or 1
    t is too narrow, and vanishes where no prompt tells the models apart (12 bases, rates .97 and .9: it covered 73-93
    %). The hybrid interval :math:`d - \sqrt{(p_1 - l_1)^2 - 2 r (p_1 - l_1)(u_2 - p_2) + (u_2 - p_2)^2}`, likewise
    above, from Wilson's ends of each rate with its effective number of answers and the correlation r of the two rates
    over bases, is too narrow elsewhere (12 bases, rates .5: 92 %). Each end is therefore the wider of the two. In
    simulations (12, 30 and 100 bases; one prompt a base, three, or 1 to 6; 1 and 5 repeats; rates .5/.5, .9/.9, .97/.9,
    .7/.4) 95 % intervals covered 94.3-97.4 %, and up to 99.7 % where 12 bases have rates of .9 and more. The p value of
    a rate flips the signs of whole bases: exact, so it never exceeds its level, and is
    far below it where few bases differ.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 4. Zou & Donner (2008), Statistics in Medicine
    27, 1693-1702.

    Examples
    --------
    >>> found = rate_difference("a - b", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0], list("uvwxyz"))
    >>> round(found.estimate, 2), round(found.low, 2), round(found.high, 2), found.p_value
    (0.5, -0.07, 1.0, 0.25)
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not len(one) == len(other) == len(bases):
        raise InputError(f"{name}: {len(one)}, {len(other)} values and {len(bases)} bases; give as many")
    both = ~(np.isnan(one) | np.isnan(other))
    a, b = one[both], other[both]
    if not (((a >= 0) & (a <= 1)).all() and ((b >= 0) & (b <= 1)).all()):
        raise InputError(f"{name}: a rate is not between 0 and 1; give shares of answers")
    labels = [base for base, there in zip(bases, both, strict=True) if there]
    groups = len(set(labels))
    empty = Estimate(
        name,
        None,
        method=METHOD,
        unit=unit,
        n={"prompts": len(labels), "bases": groups},
        missing=int((~both).sum()),
        confidence=confidence,
    )
    if not labels:
        return replace(empty, note="not estimable: no prompt was answered by both")
    found = replace(empty, estimate=float((a - b).mean()))
    if groups < 2:
        return replace(found, note="no interval or p value: one base, and two are needed")
    low, high = _rates_apart(a, b, labels, max(answers or 0, len(labels)), confidence)
    by_t = clustered_mean(a - b, labels, confidence)
    if by_t.low is not None and by_t.high is not None:
        low, high = max(-1.0, min(low, by_t.low)), min(1.0, max(high, by_t.high))
    sums = pd.Series(a - b).groupby(labels, sort=False).sum().to_numpy()
    return replace(found, low=low, high=high, p_value=sign_flip(sums).p_value)


def _rates_apart(
    a: np.ndarray, b: np.ndarray, labels: list[Hashable], answers: int, confidence: float
) -> tuple[float, float]:
    """Return the ends of the interval of a difference of two rates on the same prompts."""
    groups = len(set(labels))
    ends, rates, pulls = [], [], []
    for values in (a, b):
        p = float(values.mean())
        error = clustered_mean(values, labels, confidence).error or 0.0
        worth = effective_cases(p, error, answers, groups, confidence)
        ends.append(wilson(p * worth, worth, confidence))
        rates.append(p)
        pulls.append(pd.Series(values - p).groupby(labels, sort=False).sum().to_numpy())
    squares = float(pulls[0] @ pulls[0]) * float(pulls[1] @ pulls[1])
    r = float(pulls[0] @ pulls[1]) / math.sqrt(squares) if squares > 0 else 0.0
    (l1, u1), (l2, u2) = ends
    p1, p2 = rates
    below = (p1 - l1) ** 2 - 2 * r * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    above = (u1 - p1) ** 2 - 2 * r * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return p1 - p2 - math.sqrt(max(below, 0.0)), p1 - p2 + math.sqrt(max(above, 0.0))


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
