"""Each judge beside the others: leniency, agreement, what the length of a reply does to it, failures and cost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_slope
from toolkit.stats.inference.run_table import Points, need_columns, scale_of
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import SCORE, total_aud

PER_TOKENS = 100
COUNTED = "a complete count"
_COLUMNS = ("run_id", "base", "judge", "failed", "aud_cost")


@dataclass(frozen=True)
class JudgeComparison(Result):
    """What is known of each judge: leniency, correlation, slope, failed and cost, by statistic and judge."""

    estimates: Estimates
    about = "judge"

    def rows(self) -> list[tuple[str, Estimate]]:
        """Return every result with its judge."""
        return [(estimate.facets["judge"], estimate) for estimate in self.estimates]

    def select(self, statistic: str) -> list[Estimate]:
        """Return one statistic of every judge."""
        return [estimate for estimate in self.estimates if estimate.statistic == statistic]


@over_clusters
def compare_judges(
    judgements: pd.DataFrame, replies: pd.DataFrame, *, leniency: Mapping[str, Estimate], score: str = SCORE
) -> JudgeComparison:
    """Return each judge beside the others, from what all of them gave the same answers.

    ``judgements`` has one row a judgement: where there is a ``judge_repeat``, scores are averaged over the times that a
    judge judged a run, and each time counts for cost and failures. ``replies`` has the length of each judged run in
    output_tokens. ``leniency`` is by judge, as the agreement of the judges has it. The slope on the length of the reply
    is of the score less the mean of the others, so that better replies, which may be longer, are no bias. Failures and
    cost are complete counts and have no interval.
    """
    need_columns("judgements", judgements, (*_COLUMNS, score))
    need_columns("replies", replies, ("run_id", "output_tokens"))
    judgements = judgements.assign(judge=judgements["judge"].astype(str))
    # A failed judgement is missing in the mean of the others, never a zero.
    scored = judgements[judgements[score].notna()]
    wide = scored.groupby(["run_id", "judge"])[score].mean().unstack().astype("float64")
    answers = judgements.drop_duplicates("run_id").set_index("run_id")[["base"]]
    answers = answers.join(replies.drop_duplicates("run_id").set_index("run_id")["output_tokens"])
    unit = f"{Points(scale_of(judgements))} per {PER_TOKENS} tokens of reply"
    estimates: list[Estimate] = []
    for judge, rows in judgements.groupby("judge", sort=False):
        name = str(judge)
        facets = {"judge": name}
        others = wide.drop(columns=[name], errors="ignore").mean(axis=1)
        compared = answers.assign(own=wide.get(name), others=others)
        compared = compared.astype({"own": "float64", "others": "float64"})
        compared["beyond"] = compared["own"] - compared["others"]
        complete = compared.dropna(subset=["beyond"])
        correlation = clustered_pearson(
            f"correlation of {name} with the other judges",
            complete["own"],
            complete["others"],
            list(complete["base"]),
            missing=len(compared) - len(complete),
        )
        measured = complete.dropna(subset=["output_tokens"])
        slope = clustered_slope(
            f"slope on reply length of {name}, against the other judges",
            measured["output_tokens"].astype(float) / PER_TOKENS,
            measured["beyond"],
            list(measured["base"]),
            unit=unit,
            missing=len(compared) - len(measured),
        )
        failed = Estimate(
            f"failed judgements of {name}",
            float(rows["failed"].astype(bool).sum()),
            unit="judgements",
            n={"judgements": len(rows)},
            reason=COUNTED,
        )
        # Equal requests are one call, paid for once.
        calls = rows.drop_duplicates("call_id") if "call_id" in rows else rows
        paid = calls["aud_cost"].dropna()
        n = {"calls": len(paid)}
        cost = Estimate(f"cost of {name}", total_aud(paid), unit="AUD", n=n, reason=COUNTED)
        if paid.empty:
            cost = cost.not_estimable("no call has a known cost")
        by_statistic = {"correlation": correlation, "slope": slope, "failed": failed, "cost": cost}
        if name in leniency:
            by_statistic = {"leniency": leniency[name]} | by_statistic
        estimates += [
            replace(estimate, statistic=statistic, facets=facets)
            for statistic, estimate in by_statistic.items()
        ]
    return JudgeComparison(tuple(estimates))
