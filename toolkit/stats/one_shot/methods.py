"""From single experiments to methods: I1, I0, H and the score of each method, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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
    >>> (one,) = score_methods(rows.assign(method="m", variant="v", question="q", sample="s", model="x"))
    >>> one.note, round(one.score.raw, 2)
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
            *(getattr(one, key) for key in KEYS),
            *(one.i1, one.i0, one.h, one.missing, one.experiments),
            *(getattr(one.score, key, None) for key in numbers),
            one.note,
        )
        for one in scores
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, *counts, *numbers, "note"])
    return frame.astype(dict.fromkeys(counts, "int64") | dict.fromkeys(numbers, "float64"))


def method_estimates(one: MethodScore, confidence: float = 0.95) -> tuple[Estimate, Estimate]:
    """Return the score and the raw score of one method as results."""
    n, kept = {"experiments": one.experiments}, one.score
    empty = Estimate("", None, unit=UNIT, n=n, confidence=confidence, note=one.note)
    score, raw = (replace(empty, name=f"{which}, {one.method}") for which in ("score", "raw"))
    if kept is None:
        return replace(score, missing=one.missing), replace(raw, missing=one.missing)
    how: dict[str, Any] = {"method": kept.method, "confidence": kept.confidence}
    low, high = (max(0.0, end) for end in (kept.low, kept.high))
    return (
        replace(score, estimate=kept.score, low=low, high=high, **how),
        replace(raw, estimate=kept.raw, low=kept.low, high=kept.high, **how),
    )


def overall(
    name: str, scores: Sequence[MethodScore], which: str = "raw", confidence: float = 0.95
) -> Estimate:
    """Return the mean over methods, each of which counts once, with an interval over methods."""
    made = [one.score for one in scores if one.score is not None]
    left_out = [one.method for one in scores if one.score is None]
    note = f"left out as incomplete: {', '.join(left_out)}" if left_out else ""
    counts = {"methods": len(made), "experiments": sum(one.n for one in made)}
    empty = Estimate(name, None, None, None, OVERALL_METHOD, UNIT, counts, len(left_out), confidence)
    if not made:
        return replace(empty, note=note or "there are no methods")
    found = mean_interval([getattr(one, which) for one in made], confidence, scale=1.0)
    bottom, top = min(made[0].weights), max(made[0].weights)
    if which == "score":
        bottom, top = max(0.0, bottom), max(0.0, top)
    result = found.of(empty)
    if result.low is not None and result.high is not None:
        result = replace(result, low=max(bottom, result.low), high=min(top, result.high))
    return replace(result, note="; ".join(filter(None, (note, result.note))))


def score_groups(scores: Sequence[MethodScore]) -> tuple[GroupScore, ...]:
    """Return what methods of one variant, model and sample came to, as far as the methods differ in these."""
    by = [name for name in GROUPED if len({getattr(one, name) for one in scores}) > 1] or GROUPED
    groups: dict[str, list[MethodScore]] = {}
    for one in scores:
        groups.setdefault(", ".join(getattr(one, key) for key in by), []).append(one)
    return tuple(
        GroupScore(
            label,
            **{
                count: sum(getattr(one, count) for one in members)
                for count in ("i1", "i0", "h", "experiments")
            },
            raw=overall(f"mean raw, {label}", members),
            score=overall(f"mean score, {label}", members, "score"),
        )
        for label, members in groups.items()
    )
