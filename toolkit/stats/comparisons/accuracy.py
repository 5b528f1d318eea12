"""Accuracy of models on items with a key: beside chance, the majority's answer, and what a right answer cost."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.comparisons.cost_quality import RATIO_METHOD, ratio_interval
from toolkit.stats.comparisons.models import rate_difference
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import with_holm, with_inversion
from toolkit.stats.inference.proportions import between_clusters, likeness, mover, rate_mean, wilson_ends
from toolkit.stats.inference.run_table import WHOLE, checked_runs, item_means
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import reason_key

CHANCE_METHOD = "ends of accuracy and of chance put together (Zou & Donner 2008)"
REASONS = ["reason", "failure", "defect"]
"""Columns that may say why an answer has no score, the first that is not empty."""


@dataclass(frozen=True)
class Accuracy(Result):
    """Accuracy of each model, its distance from chance and from the majority's answer, and AUD per right answer."""

    about = "measure"
    kinds: ClassVar[Mapping[str, str]] = {
        "accuracies": "accuracy",
        "above_chance": "accuracy less chance",
        "above_majority": "accuracy less majority",
        "cost_per_right": "cost per right answer",
    }
    first = ("accuracies", "above_chance")
    accuracies: Estimates
    above_chance: Estimates
    above_majority: Estimates
    cost_per_right: Estimates
    missing: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return every result in words ready for the thesis, and how many answers have no score, and why."""
        lack = "; ".join(
            f"{model}: {', '.join(f'{reason} {count}' for reason, count in reasons.items())}"
            for model, reasons in self.missing.items()
            if reasons
        )
        return super().sentence() + (f" Answers without a score: {lack}." if lack else "")


@over_clusters
def accuracy(rows: pd.DataFrame, *, score: str = "correct", chance: float | None = None) -> Accuracy:
    r"""Return how many items each model answers rightly, with intervals clustered by base or cluster.

    Accuracy is the mean over items of the mean score of the answers that have one: an answer without a score is missing
    and counted by its reason, never wrong. The interval is that of `toolkit.stats.inference.proportions.rate_mean`. The
    distance from chance puts together the ends of accuracy and of the mean chance of the items (Zou & Donner 2008), and
    its P value inverts them; that from the majority's answer is the paired difference of two rates (`rate_difference`).
    P values of both are Holm's over the models. The cost of a right answer is :math:`\sum c / \sum s` over all answers
    with a cost, those without a score too, because they were paid; its interval is the jackknife over clusters of its
    logarithm.

    Parameters
    ----------
    rows : DataFrame
        One row an answer: model, base (the item) and the score. Optional are cluster (items that share a text or a
        source), chance and majority (what a guess, and the majority's answer, scores on the item), aud_cost, and
        reason, failure or defect (why there is no score).
    score : str
        The column of scores, 0 to 1, empty where an answer has none.
    chance : float, optional
        What a guess scores on every item, in place of the column.

    Returns
    -------
    Accuracy
        Shares of 1, and AUD.

    Raises
    ------
    InputError
        A column lacks, or a score, chance or majority is not between 0 and 1.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640. Dean & Pagano (2015), Journal of Survey Statistics and
    Methodology 3, 484-503. Zou & Donner (2008), Statistics in Medicine 27, 1693-1702.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "m", "base": list("abcdef"), "correct": [1, 1, 0, 1, 1, None]})
    >>> result = accuracy(rows, chance=0.25)
    >>> estimate = result.accuracies[0]
    >>> round(estimate.estimate, 2), round(estimate.low, 2), round(estimate.high, 2), estimate.missing
    (0.8, 0.38, 0.96, 1)
    """
    frame = rows.assign(length_bin=rows.get("length_bin", WHOLE))
    frame = frame if chance is None else frame.assign(chance=chance)
    numbers = [n for n in ("chance", "majority", "aud_cost") if n in frame and frame[n].notna().any()]
    table = checked_runs(frame, score, numbers=numbers)
    for name in ("score", *(name for name in numbers if name != "aud_cost")):
        outside = table[name].notna() & ~table[name].between(0, 1)
        if outside.any():
            row, column = int(outside.to_numpy().argmax()), score if name == "score" else name
            value = table[name].iloc[row]
            raise InputError(
                f"accuracy, row {row + 1}: {column} {value:g} is not between 0 and 1; correct it"
            )
    scored = table.dropna(subset=["score"])
    alike = likeness(scored["score"], list(scored["base"]))
    groups = [(str(model), part) for model, part in table.groupby("model", sort=True)]
    return Accuracy(
        tuple(_accuracy(model, part, alike) for model, part in groups),
        with_holm(
            (_above_chance(model, part, alike) for model, part in groups if "chance" in part), "models"
        ),
        with_holm((_above_majority(model, part) for model, part in groups if "majority" in part), "models"),
        tuple(_cost_per_right(model, part) for model, part in groups if "aud_cost" in part),
        {model: _reasons(frame.iloc[part.index[part["score"].isna()]]) for model, part in groups},
    )


def _empty(
    statistic: str, model: str, scored_rows: pd.DataFrame, rows: pd.DataFrame, **more: Any
) -> Estimate:
    n = {"answers": len(scored_rows), "bases": scored_rows["base"].nunique()}
    label, missing = f"{statistic} of {model}", len(rows) - len(scored_rows)
    return Estimate(label, n=n, missing=missing, statistic=statistic, facets={"model": model}, **more)


def _accuracy(model: str, rows: pd.DataFrame, alike: float | None) -> Estimate:
    scored = rows.dropna(subset=["score"])
    empty = _empty("accuracy", model, scored, rows, unit="share of answers")
    items = item_means(scored)
    return rate_mean(empty, items["score"], list(items.index.get_level_values("base")), alike)


def _above_chance(model: str, rows: pd.DataFrame, alike: float | None) -> Estimate:
    scored_rows = rows.dropna(subset=["score", "chance"])
    empty = _empty(
        "accuracy less chance", model, scored_rows, rows, unit="share of answers", method=CHANCE_METHOD
    )
    if scored_rows.empty:
        return empty.not_estimable("no answer has a score and a chance")
    items = item_means(scored_rows)[["score", "chance"]]
    clusters, p = list(items.index.get_level_values("base")), float(items["score"].mean())
    guess = clustered_mean(items["chance"], clusters)
    difference = empty.valued(p - guess.mean)
    if guess.groups < 2:
        return difference.no_interval(guess.reason, "interval or p value")
    r = between_clusters(items["score"], items["chance"], clusters)
    hits = wilson_ends(items["score"], clusters, alike)

    def ends(confidence: float) -> tuple[float, float]:
        return mover(p, hits(confidence), guess.mean, guess.ends(confidence), r)

    return with_inversion(difference, ends)


def _above_majority(model: str, rows: pd.DataFrame) -> Estimate:
    scored_rows = rows.dropna(subset=["score", "majority"])
    items = item_means(scored_rows)
    bases = list(items.index.get_level_values("base"))
    empty = _empty("accuracy less majority", model, scored_rows, rows)
    pair = rate_difference(empty.name, items["score"], items["majority"], bases, unit="share of answers")
    return replace(pair, n=empty.n, missing=empty.missing, statistic=empty.statistic, facets=empty.facets)


def _cost_per_right(model: str, rows: pd.DataFrame) -> Estimate:
    scored_rows = rows.dropna(subset=["aud_cost"])
    empty = _empty("cost per right answer", model, scored_rows, rows, unit="AUD", method=RATIO_METHOD)
    sums = scored_rows[["aud_cost", "score"]].groupby(scored_rows["base"], sort=False).sum()
    cost, right = sums["aud_cost"].to_numpy(), sums["score"].to_numpy()
    if not right.sum() > 0:
        return empty.not_estimable("no answer with a cost is right")
    if not cost.any():
        return empty.valued(0.0).no_interval("every answer was free")
    return ratio_interval(empty.valued(float(cost.sum() / right.sum())), cost, right)


def _reasons(blank: pd.DataFrame) -> dict[str, int]:
    texts = blank.reindex(columns=REASONS).astype("object").bfill(axis=1).iloc[:, 0]
    reasons = ("no reason given" if pd.isna(text) else reason_key(str(text)) for text in texts)
    return dict(Counter(sorted(reasons)).most_common())
