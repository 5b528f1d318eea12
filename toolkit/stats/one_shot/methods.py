"""From single experiments to methods: I1, I0, H and the score of each method, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.scoring import OneShotScore, one_shot_score
from toolkit.stats.inference.means import mean_interval
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate

VERDICTS: Final = ("expected", "unexpected", "hallucinated")  # I1, I0 and H, in the order of the weights
WEIGHTS: Final = (1.0, 0.0, -0.5)  # weights of seed 000
UNIT: Final = "score (weighted share of experiments)"
GROUPED: Final = ("variant", "model", "sample")
OVERALL_METHOD: Final = "Student t over methods"
KEYS: Final = ("method", "variant", "question", "sample", "model")


@dataclass(frozen=True)
class MethodScore:
    """What the experiments of one method came to."""

    method: str
    variant: str
    question: str
    sample: str
    model: str
    i1: int
    i0: int
    h: int
    experiments: int
    score: OneShotScore | None

    @property
    def missing(self) -> int:
        """How many experiments have no verdict."""
        return self.experiments - self.i1 - self.i0 - self.h

    @property
    def note(self) -> str:
        """Return the three counts, or that they do not add up to N."""
        if self.missing:
            return f"incomplete: I1+I0+H = {self.experiments - self.missing} of {self.experiments}"
        if not self.experiments:
            return "incomplete: no experiment was planned"
        return f"I1 = {self.i1}, I0 = {self.i0}, H = {self.h}"


@dataclass(frozen=True)
class GroupScore:
    """What several methods came to together."""

    label: str
    i1: int
    i0: int
    h: int
    experiments: int
    raw: Estimate
    score: Estimate

    @property
    def missing(self) -> int:
        """How many experiments have no verdict."""
        return self.experiments - self.i1 - self.i0 - self.h


def score_methods(
    experiments: pd.DataFrame, weights: Sequence[float] = WEIGHTS, confidence: float = 0.95
) -> tuple[MethodScore, ...]:
    """Count the verdicts of each method and score those that are complete.

    A verdict is expected, unexpected, hallucinated, or missing.

    Examples
    --------
    >>> rows = pd.DataFrame({"verdict": ["expected"] * 6 + ["unexpected"] + ["hallucinated"] * 3})
    >>> (method,) = score_methods(rows.assign(method="m", variant="v", question="q", sample="s", model="x"))
    >>> method.note, round(method.score.raw, 2)
    ('I1 = 6, I0 = 1, H = 3', 0.45)
    """
    need_columns("experiments", experiments, (*KEYS, "verdict"))
    if unknown := set(experiments["verdict"].dropna()) - set(VERDICTS):
        raise InputError(
            f"experiments: verdict {min(map(str, unknown))!r} is not one of {', '.join(VERDICTS)}"
        )
    scores = []
    for keys, rows in experiments.groupby(list(KEYS), sort=False, dropna=False):
        i1, i0, h = (int((rows["verdict"] == verdict).sum()) for verdict in VERDICTS)
        score = one_shot_score(i1, i0, h, weights, confidence) if i1 + i0 + h == len(rows) else None
        names = {key: str(value) for key, value in zip(KEYS, keys, strict=True)}
        scores.append(MethodScore(**names, i1=i1, i0=i0, h=h, experiments=len(rows), score=score))
    return tuple(scores)


def methods_frame(scores: Iterable[MethodScore]) -> pd.DataFrame:
    """Return one row a method: which, counts, raw and score (NaN where incomplete), low and high of raw, and note."""
    counts, numbers = [*VERDICTS, "missing", "experiments"], ["raw", "score", "low", "high"]
    rows = [
        (
            *(getattr(method, key) for key in KEYS),
            *(method.i1, method.i0, method.h, method.missing, method.experiments),
            *(getattr(method.score, key, None) for key in numbers),
            method.note,
        )
        for method in scores
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, *counts, *numbers, "note"])
    return frame.astype(dict.fromkeys(counts, "int64") | dict.fromkeys(numbers, "float64"))


def method_estimates(method: MethodScore, confidence: float = 0.95) -> tuple[Estimate, Estimate]:
    """Return the score and the raw score of one method as results."""
    result, n = method.score, {"experiments": method.experiments}
    empty = Estimate("", None, unit=UNIT, n=n, missing=method.missing, confidence=confidence)
    if result is None:
        empty = empty.not_estimable(method.note)
    else:
        empty = replace(empty, method=result.method, confidence=result.confidence, note=method.note)
    score, raw = (replace(empty, name=f"{kind}, {method.method}") for kind in ("score", "raw"))
    if result is None:
        return score, raw
    low, high = (max(0.0, end) for end in (result.low, result.high))
    return (
        replace(score, estimate=result.score, low=low, high=high),
        replace(raw, estimate=result.raw, low=result.low, high=result.high),
    )


def overall(
    name: str, scores: Sequence[MethodScore], which: str = "raw", confidence: float = 0.95
) -> Estimate:
    """Return the mean over methods, each of which counts once, with an interval over methods."""
    complete = [method.score for method in scores if method.score is not None]
    incomplete = [method.method for method in scores if method.score is None]
    note = f"left out as incomplete: {', '.join(incomplete)}" if incomplete else ""
    counts = {"methods": len(complete), "experiments": sum(score.n for score in complete)}
    empty = Estimate(name, None, None, None, OVERALL_METHOD, UNIT, counts, len(incomplete), confidence)
    if not complete:
        return empty.not_estimable(note or "there are no methods")
    mean = mean_interval([getattr(score, which) for score in complete], confidence, scale=1.0).of(empty)
    bottom, top = min(complete[0].weights), max(complete[0].weights)
    if which == "score":
        bottom, top = max(0.0, bottom), max(0.0, top)
    if mean.low is not None and mean.high is not None:
        mean = replace(mean, low=max(bottom, mean.low), high=min(top, mean.high))
    return mean.noted(note)


def score_groups(scores: Sequence[MethodScore]) -> tuple[GroupScore, ...]:
    """Return what methods of one variant, model and sample came to, as far as the methods differ in these."""
    by = [name for name in GROUPED if len({getattr(method, name) for method in scores}) > 1] or GROUPED
    groups: dict[str, list[MethodScore]] = {}
    for method in scores:
        groups.setdefault(", ".join(getattr(method, key) for key in by), []).append(method)
    counts = ("i1", "i0", "h", "experiments")
    return tuple(
        GroupScore(
            label,
            **{count: sum(getattr(method, count) for method in members) for count in counts},
            raw=overall(f"mean raw, {label}", members),
            score=overall(f"mean score, {label}", members, "score"),
        )
        for label, members in groups.items()
    )
