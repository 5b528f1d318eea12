"""Methods of the one-shot test: their counts and scores from single experiments."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.scoring import OneShotScore, one_shot_score
from toolkit.stats.inference.means import mean_interval
from toolkit.stats.inference.run_table import Points, need_columns
from toolkit.stats.result import Estimate

VERDICTS = ("expected", "unexpected", "hallucinated")  # I1, I0 and H, in the order of the weights
WEIGHTS = (1.0, 0.0, -0.5)  # weights of seed 000
UNIT = "score (weighted share of experiments)"
NO_DOCUMENT = "none"  # level of the document where nothing is put into a prompt
FACTORS = ("variant", "document", "model", "sample")
"""What methods may differ in besides their question."""
OVERALL_METHOD = "Student t over methods"
KEYS = ("method", "variant", "document", "question", "sample", "model")


@dataclass(frozen=True)
class Counts:
    """Numbers of expected, unexpected and hallucinated answers, and of all experiments."""

    i1: int
    i0: int
    h: int
    experiments: int
    unreadable: int = field(default=0, kw_only=True)
    """How many answers of those that are missing have a form that cannot be read."""

    @property
    def missing(self) -> int:
        """How many experiments have no verdict."""
        return self.experiments - self.i1 - self.i0 - self.h


@dataclass(frozen=True)
class MethodScore(Counts):
    """What the experiments of one method came to."""

    method: str
    variant: str
    document: str
    question: str
    sample: str
    model: str
    score: OneShotScore | None

    @property
    def note(self) -> str:
        """Return the three counts, or that they do not add up to N."""
        if self.missing:
            unreadable = f", {self.unreadable} unreadable" if self.unreadable else ""
            return (
                f"incomplete: I1+I0+H = {self.experiments - self.missing} of {self.experiments}{unreadable}"
            )
        if not self.experiments:
            return "incomplete: no experiment was planned"
        return f"I1 = {self.i1}, I0 = {self.i0}, H = {self.h}"


@dataclass(frozen=True)
class GroupScore(Counts):
    """What several methods came to together."""

    label: str
    raw: Estimate
    score: Estimate


def score_methods(
    experiments: pd.DataFrame, weights: Sequence[float] = WEIGHTS, confidence: float = 0.95
) -> tuple[MethodScore, ...]:
    """Count verdicts (expected, unexpected, hallucinated, or missing) of each method and score complete ones."""
    need_columns("experiments", experiments, (*KEYS, "verdict"))
    if unknown := set(experiments["verdict"].dropna()) - set(VERDICTS):
        raise InputError(
            f"experiments: verdict {min(map(str, unknown))!r} is not one of {', '.join(VERDICTS)}"
        )
    scores = []
    for keys, rows in experiments.groupby(list(KEYS), sort=False, dropna=False):
        i1, i0, h = (int((rows["verdict"] == verdict).sum()) for verdict in VERDICTS)
        score = one_shot_score(i1, i0, h, weights, confidence) if i1 + i0 + h == len(rows) else None
        names: dict[str, Any] = {key: str(value) for key, value in zip(KEYS, keys, strict=True)}
        unread = int(rows["unreadable"].notna().sum()) if "unreadable" in rows else 0
        scores.append(MethodScore(i1, i0, h, len(rows), score=score, unreadable=unread, **names))
    return tuple(scores)


def methods_frame(scores: Sequence[MethodScore]) -> pd.DataFrame:
    """Return one row a method: which, counts, raw and score (NaN where incomplete), low and high of raw, and note.

    With a column ``base``, the question or what several samples are asked alike, `compare_conditions` takes it.
    """
    counts, numbers = [*VERDICTS, "missing", "unreadable", "experiments"], ["raw", "score", "low", "high"]
    fields = (*KEYS, "i1", "i0", "h", "missing", "unreadable", "experiments")
    rows = [
        [*(getattr(m, name) for name in fields), *(getattr(m.score, name, None) for name in numbers), m.note]
        for m in scores
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, *counts, *numbers, "note"])
    weights = next((m.score.weights for m in scores if m.score), WEIGHTS)
    unit = Points((min(weights), max(weights)), UNIT)
    frame.attrs |= {"units": {"raw": unit}, "rows": "methods"}
    return frame.astype(dict.fromkeys(counts, "int64") | dict.fromkeys(numbers, "float64"))


def method_estimates(method: MethodScore, confidence: float = 0.95) -> tuple[Estimate, Estimate]:
    """Return the score and the raw score of one method as results."""
    result, n = method.score, {"experiments": method.experiments}
    empty = Estimate("", unit=UNIT, n=n, missing=method.missing, confidence=confidence)
    score, raw = (replace(empty, name=f"{kind}, {method.method}") for kind in ("score", "raw"))
    if result is None:
        return score.not_estimable(method.note), raw.not_estimable(method.note)
    more: dict[str, Any] = {"method": result.method, "confidence": result.confidence, "note": method.note}
    limits = result.low, result.high
    clamped = (max(0.0, end) for end in limits)
    return score.with_value(result.score, *clamped, **more), raw.with_value(result.raw, *limits, **more)


def overall(
    name: str, scores: Sequence[MethodScore], which: str = "raw", confidence: float = 0.95
) -> Estimate:
    """Return the mean over methods, each of which counts once, with an interval over methods.

    Examples
    --------
    >>> rows = [("q1", 7, 2, 1), ("q2", 5, 5, 0), ("q3", 9, 0, 1)]
    >>> scores = [MethodScore(*n, 10, q, "v1", "none", q, "flow", "m", one_shot_score(*n)) for q, *n in rows]
    >>> mean = overall("mean raw score", scores)
    >>> round(mean.estimate, 2), round(mean.low, 2), round(mean.high, 2)
    (0.67, 0.23, 1.0)
    """
    complete = [method.score for method in scores if method.score is not None]
    incomplete = [method.method for method in scores if method.score is None]
    note = f"left out as incomplete: {', '.join(incomplete)}" if incomplete else ""
    counts = {"methods": len(complete), "experiments": sum(score.n for score in complete)}
    empty = Estimate(
        name, method=OVERALL_METHOD, unit=UNIT, n=counts, missing=len(incomplete), confidence=confidence
    )
    if not complete:
        return empty.not_estimable(note or "there are no methods")
    mean = mean_interval([getattr(score, which) for score in complete], confidence, scale=1.0).of(empty)
    bottom, top = min(complete[0].weights), max(complete[0].weights)
    if which == "score":
        bottom, top = max(0.0, bottom), max(0.0, top)
    if mean.low is not None and mean.high is not None:
        mean = replace(mean, low=max(bottom, mean.low), high=min(top, mean.high))
    return mean.with_note(note)


def document_words(document: str) -> str:
    """Return a document as a sentence names it."""
    return "no document" if document == NO_DOCUMENT else f"the document {document}"


def score_groups(scores: Sequence[MethodScore]) -> tuple[GroupScore, ...]:
    """Return what methods of one variant, document, model and sample came to, as far as methods differ in these."""
    by = [name for name in FACTORS if len({getattr(method, name) for method in scores}) > 1]
    by = by or ["variant", "model", "sample"]
    groups: dict[str, list[MethodScore]] = {}
    for method in scores:
        parts = (document_words(method.document) if key == "document" else getattr(method, key) for key in by)
        groups.setdefault(", ".join(parts), []).append(method)
    totals = []
    for label, members in groups.items():
        counts = {item.name: sum(getattr(method, item.name) for method in members) for item in fields(Counts)}
        raw, score = (overall(f"mean {which}, {label}", members, which) for which in ("raw", "score"))
        totals.append(GroupScore(**counts, label=label, raw=raw, score=score))
    return tuple(totals)
