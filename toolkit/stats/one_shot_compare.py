"""Compare prompt variants or models of the one-shot test, paired by question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.sign_flip import sign_flip
from toolkit.stats.one_shot_methods import UNIT
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import agreeing, counted

NEEDED: Final = ("question", "variant", "model")


@dataclass(frozen=True)
class OneShotComparison:
    """The differences between any two variants, or any two models, over the questions that both answered."""

    by: str
    contrasts: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per contrast (columns of ``toolkit.stats.result``)."""
        return estimates_frame(((f"between {self.by}s", one) for one in self.contrasts), "comparison")

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        contrasts = [one.to_dict() for one in self.contrasts]
        return {"by": self.by, "contrasts": contrasts, "notes": list(self.notes)}


def compare_one_shot(
    methods: pd.DataFrame,
    by: Literal["variant", "model"] = "variant",
    *,
    score: Literal["raw", "score"] = "raw",
    confidence: float = 0.95,
    seed: int = 0,
) -> OneShotComparison:
    """Compare every two variants, or every two models, by the scores of the same questions.

    A difference is taken within a question and a model (or variant), and averaged over these first, so that each
    question counts once. The permutation test asks what the difference would be, had the two answered each question
    equally well: the questions are fixed, and only which of the two answered is exchanged.

    Parameters
    ----------
    methods
        One row a method with question, variant, model and the score, as ``methods_frame`` returns it; a missing
        score belongs to an incomplete test.
    by
        What is compared.
    score
        ``raw`` by default: cutting scores off at 0 would hide differences between bad methods.
    confidence
        Coverage of the intervals.
    seed
        Of the patterns drawn where there are more than 16 questions.

    Returns
    -------
    OneShotComparison

    Raises
    ------
    InputError
        If a column is missing, a method is there twice, or ``by`` is unknown.

    Examples
    --------
    >>> rows = [(f"q{i}", v, "m", x) for v, xs in (("plain", (0, 0.1, 0.2)), ("careful", (0.5, 0.3, 0.9)))
    ...         for i, x in enumerate(xs)]
    >>> found = compare_one_shot(pd.DataFrame(rows, columns=["question", "variant", "model", "raw"]))
    >>> [(one.name, round(one.estimate, 3), one.p_value) for one in found.contrasts]
    [('careful - plain', 0.467, 0.25)]
    """
    cells = _cells(methods, by, score)
    contrasts = [
        _contrast(cells, later, earlier, confidence, seed)
        for earlier, later in combinations(cells.columns, 2)
    ]
    corrected = holm([one.p_value for one in contrasts])
    tests = sum(p is not None for p in corrected)
    correction = f"Holm over {tests} comparisons" if tests > 1 else "none"
    other = "models" if by == "variant" else "variants"
    notes = [
        f"differences are taken within questions and averaged over {other} first, so each question counts once"
    ]
    incomplete = int(methods[score].isna().sum())
    if incomplete:
        notes.append(
            f"{incomplete} of {counted(len(methods), 'methods')} "
            f"{agreeing(incomplete, 'are incomplete, have no score and are left out')}"
        )
    return OneShotComparison(
        by,
        tuple(
            replace(one, p_value=p, correction=correction if p is not None else "none")
            for one, p in zip(contrasts, corrected, strict=True)
        ),
        tuple(notes),
    )


def _cells(methods: pd.DataFrame, by: str, score: str) -> pd.DataFrame:
    """Return the scores with one column for each variant (or model), one row for each question and model."""
    if by not in ("variant", "model"):
        raise InputError(f"comparison by {by!r} is not known; use 'variant' or 'model'")
    absent = [name for name in (*NEEDED, score) if name not in methods]
    if absent:
        raise InputError(
            f"methods: lack the column {', '.join(absent)}; give {', '.join(NEEDED)} and {score}"
        )
    doubled = methods[methods.duplicated(list(NEEDED))]
    if len(doubled):
        row = doubled.iloc[0]
        raise InputError(
            f"methods: question {row['question']} of {row['variant']} and {row['model']} is there twice; keep one"
        )
    other = "model" if by == "variant" else "variant"
    wide = methods.pivot(index=["question", other], columns=by, values=score)
    return wide.reindex(columns=list(dict.fromkeys(methods[by]))).astype("float64")


def _contrast(cells: pd.DataFrame, later: str, earlier: str, confidence: float, seed: int) -> Estimate:
    name = f"{later} - {earlier}"
    differences = (cells[later] - cells[earlier]).dropna().groupby(level="question", sort=False).mean()
    missing = cells.index.get_level_values("question").nunique() - len(differences)
    empty = Estimate(
        name, None, unit=UNIT, n={"questions": len(differences)}, missing=missing, confidence=confidence
    )
    if differences.empty:
        return replace(empty, note="no question has a score for both")
    found = sign_flip(differences.to_numpy(), confidence, seed)
    return replace(
        empty,
        estimate=found.mean,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        method=found.method,
        note=f"no interval: {found.reason}" if found.reason else "",
    )
