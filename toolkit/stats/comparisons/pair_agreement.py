"""Whether votes on pairs of replies and the rubric's scores of the same replies say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from scipy import stats

from toolkit.stats.comparisons.pairs import POINTS, compare_pairs
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import share
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate, Result


@dataclass(frozen=True)
class PairAgreement(Result):
    """How often votes and scores prefer the same reply, and how alike they rank the models."""

    replies: Estimate
    models: Estimate
    notes: tuple[str, ...] = ()
    kinds: ClassVar[Mapping[str, str]] = {"replies": "replies", "models": "models"}


@over_clusters
def pair_agreement(
    votes: pd.DataFrame, runs: pd.DataFrame, score: str = "composite_strict", *, seed: int = 0
) -> PairAgreement:
    r"""Return how far votes on pairs of replies agree with the scores of these replies.

    Parameters
    ----------
    votes : DataFrame
        One row a vote, as `compare_pairs` takes them, with first_run_id and second_run_id.
    runs : DataFrame
        One row a run: run_id, base, model and the score.
    score : str
        Column of runs to compare with, in score points.
    seed : int
        Of `compare_pairs`.

    Returns
    -------
    PairAgreement
        ``replies`` is the share of pairs of replies that most votes (of all judges, in both orders) and the difference
        of scores decide alike, among the pairs that both decide; its interval is clustered by base (see `share`).
        ``models`` is Kendall's :math:`\tau_b` between the strengths of the models and their mean scores; of so few
        models it has no interval.

    Raises
    ------
    InputError
        When a column is missing, or a vote is none.

    References
    ----------
    Kendall (1945), Biometrika 33, 239-251.

    Examples
    --------
    >>> order = {"vote": ["first", "second"] * 3, "base": list("aabbcc"), "prompt": list("aabbcc"), "judge": "j"}
    >>> votes = pd.DataFrame(order).assign(first=["x", "y"] * 3, second=["y", "x"] * 3)
    >>> votes = votes.assign(first_run_id=votes["first"] + votes["base"], second_run_id=votes["second"] + votes["base"])
    >>> runs = pd.DataFrame({"run_id": ["xa", "ya", "xb", "yb", "xc", "yc"], "base": list("aabbcc")})
    >>> runs = runs.assign(model=["x", "y"] * 3, composite_strict=[4.0, 3.0, 4.0, 2.0, 1.0, 3.0])
    >>> agreement = pair_agreement(votes, runs)
    >>> round(agreement.replies.estimate, 3), agreement.replies.n, agreement.models.estimate
    (0.667, {'pairs': 3, 'bases': 3}, 1.0)
    """
    need_columns("votes", votes, ("base", "vote", "first_run_id", "second_run_id"))
    need_columns("runs", runs, ("run_id", "base", "model", score))
    comparison = compare_pairs(votes, seed=seed)
    scores = runs.set_index("run_id")[score].astype("float64")
    points = votes["vote"].astype("object").map(POINTS).astype("float64") - 0.5
    # Both orders of a pair are one pair: the names of its runs in one order, and the votes for the first of them.
    forth = votes["first_run_id"] < votes["second_run_id"]
    pairs = pd.DataFrame(
        {
            "base": votes["base"],
            "a": votes["first_run_id"].where(forth, votes["second_run_id"]),
            "b": votes["second_run_id"].where(forth, votes["first_run_id"]),
            "points": points.where(forth, -points),
        }
    )
    pairs = pairs.groupby(["base", "a", "b"], sort=True)["points"].sum(min_count=1).reset_index()
    apart = pairs["a"].map(scores) - pairs["b"].map(scores)
    lacking = int((pairs["points"].isna() | apart.isna()).sum())
    decided = (pairs["points"].fillna(0.0) != 0) & (apart.fillna(0.0) != 0)
    alike = ((pairs["points"] > 0) == (apart > 0))[decided]
    name = f"pairs of replies that votes and {score} decide alike"
    replies = share(name, list(alike), list(pairs.loc[decided, "base"]), missing=lacking)
    undecided = len(pairs) - lacking - int(decided.sum())
    return PairAgreement(
        replies.noted(f"{undecided} pairs undecided" if undecided else ""), _tau(comparison, runs, score)
    )


def _tau(comparison: Result, runs: pd.DataFrame, score: str) -> Estimate:
    strengths = comparison.strengths().set_index("model")["estimate"]  # type: ignore[attr-defined]
    by_base = runs.assign(value=runs[score].astype("float64")).groupby(["model", "base"])["value"].mean()
    both = pd.DataFrame({"votes": strengths, "scores": by_base.groupby(level="model").mean()}).dropna()
    name = f"Kendall's tau of models by votes and by mean {score}"
    empty = Estimate(name, None, n={"models": len(both)}, method="tau-b (Kendall 1945)")
    if len(both) < 2:
        return empty.not_estimable("fewer than two models have both")
    tau = float(stats.kendalltau(both["votes"], both["scores"]).statistic)
    if tau != tau:
        return empty.not_estimable("all models are equal by votes or by scores")
    return empty.valued(tau).no_interval("a rank correlation of a few models is a description")
