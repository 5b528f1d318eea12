"""Each judge beside the others, and beside what replies are required to hold."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pandas as pd

from toolkit.stats.agreement.alpha import krippendorff_alpha
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.inference.clusters import of_rows, over_clusters
from toolkit.stats.inference.means import CLUSTERED, bounded_mean, clustered_slope
from toolkit.stats.inference.run_table import Points, need_columns, scale_of
from toolkit.stats.result import Estimate, Result
from toolkit.words import COMPOSITES, LENGTH_BINS, SCORE, total_aud

PER_TOKENS = 100
COUNTED = "a complete count"
_COLUMNS = ("run_id", "base", "judge", "failed", "aud_cost")


@over_clusters
def compare_judges(
    judgements: pd.DataFrame, replies: pd.DataFrame, *, leniency: Mapping[str, Estimate], score: str = SCORE
) -> Result:
    """Return each judge beside the others, from what all of them gave the same answers.

    ``judgements`` has one row a judgement: where there is a ``judge_repeat``, scores are averaged over the times that
    a judge judged a run, and each time counts for cost and failures. ``replies`` has the length of each judged run in
    output_tokens. ``leniency`` is by judge, as the agreement of the judges has it. The slope on the length of the
    reply is of the score less the mean of the others, so that better replies, which may be longer, are no bias.
    Failures and cost are complete counts and have no interval.
    """
    need_columns("judgements", judgements, (*_COLUMNS, score))
    need_columns("replies", replies, ("run_id", "output_tokens"))
    judgements = judgements.assign(judge=judgements["judge"].astype(str))
    # A failed judgement is missing in the mean of the others, never a zero.
    scored = judgements[judgements[score].notna()]
    wide = scored.groupby(["run_id", "judge"])[score].mean().unstack().astype("float64")
    answers = judgements.drop_duplicates("run_id").set_index("run_id")[["unit"]]
    answers = answers.join(replies.drop_duplicates("run_id").set_index("run_id")["output_tokens"])
    unit = f"{Points(scale_of(judgements))} per {PER_TOKENS} tokens of reply"
    estimates: list[Estimate] = []
    for judge, rows in judgements.groupby("judge", sort=False):
        name = str(judge)
        others = wide.drop(columns=[name], errors="ignore").mean(axis=1)
        compared = answers.assign(own=wide.get(name), others=others)
        compared = compared.astype({"own": "float64", "others": "float64"})
        compared["beyond"] = compared["own"] - compared["others"]
        complete = compared.dropna(subset=["beyond"])
        measured = complete.dropna(subset=["output_tokens"])
        tokens, missing = measured["output_tokens"].astype(float) / PER_TOKENS, len(compared) - len(measured)
        count = float(rows["failed"].astype(bool).sum())
        # Equal requests are one call, paid for once.
        calls = rows.drop_duplicates("call_id") if "call_id" in rows else rows
        paid = calls["aud_cost"].dropna()
        cost = Estimate(
            f"cost of {name}", total_aud(paid), unit="AUD", n={"calls": len(paid)}, reason=COUNTED
        )
        of_judge = {
            "leniency": leniency.get(name),
            "correlation": clustered_pearson(
                f"correlation of {name} with the other judges", complete["own"], complete["others"],
                list(complete["unit"]), missing=len(compared) - len(complete),
            ),
            "slope": clustered_slope(
                f"slope on reply length of {name}, against the other judges", tokens, measured["beyond"],
                list(measured["unit"]), unit=unit, missing=missing,
            ),
            "failed": Estimate(
                f"failed judgements of {name}", count, unit="judgements", n={"judgements": len(rows)}, reason=COUNTED
            ),
            "cost": cost.not_estimable("no call has a known cost") if paid.empty else cost,
        }  # fmt: skip
        estimates += [
            replace(estimate, statistic=statistic, facets={"judge": name})
            for statistic, estimate in of_judge.items()
            if estimate is not None
        ]
    return Result("compare_judges", estimates=tuple(estimates))


SHARE = "share of required elements"


def required_elements(elements: pd.DataFrame, runs: pd.DataFrame) -> Result:
    r"""Return what the judges found of the required elements, and how far the rubric agrees with it.

    Parameters
    ----------
    elements
        One row a run and judge: run_id, cluster, length_bin, judge, share (0 to 1, NaN where it could not be read).
    runs
        One row a run: run_id, and the rubric's composite and composite_strict.

    Returns
    -------
    Result
        The mean share of each length bin over runs, the judges' mean taken first (Student t, clustered by base);
        Krippendorff's :math:`\alpha` (interval) between the judges' shares; and Pearson's r of a run's share with its
        composite, by the jackknife over bases.

    Raises
    ------
    InputError
        When a column is missing.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for the means. Krippendorff (2011), Computing Krippendorff's alpha-reliability.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("wxyz"), "cluster": list("abcd"), "length_bin": "S", "judge": "primary"})
    >>> runs = runs.assign(share=[0.5, 1.0, 0.75, 0.0], composite=[3.0, 4.5, 4.0, 1.0])
    >>> runs = runs.assign(composite_strict=runs["composite"])
    >>> found = required_elements(runs, runs[["run_id", "composite", "composite_strict"]])
    >>> found.shares[0].estimate, round(found.rubric[0].estimate, 2)
    (0.5625, 0.99)
    """
    need_columns("required elements", elements, ("run_id", "cluster", "length_bin", "judge", "share"))
    need_columns("runs", runs, ("run_id", *COMPOSITES))
    wide = elements.pivot_table(index="run_id", columns="judge", values="share", observed=True, dropna=False)
    runs_index = elements.drop_duplicates("run_id").set_index("run_id")[["cluster", "length_bin"]]
    means = runs_index.join(wide.mean(axis=1).rename("share")).join(
        runs.set_index("run_id")[list(COMPOSITES)]
    )
    clusters = runs_index.loc[wide.index, "cluster"].tolist()
    shares: list[Estimate] = []
    for length_bin in LENGTH_BINS:
        in_bin = means[means["length_bin"] == length_bin].rename(columns={"cluster": "unit"})
        if len(in_bin):
            mean = of_rows(
                f"{SHARE}, {length_bin}", in_bin, "share", partial(bounded_mean, limits=(0.0, 1.0)),
                counts=("bases", "answers"), nothing="no judgement could be read", method=CLUSTERED, unit="share",
            )  # fmt: skip
            shares.append(mean)
    rubric: list[Estimate] = []
    for composite in COMPOSITES:
        complete = means.dropna(subset=["share", composite])
        pair, bases = f"{SHARE} with {composite}", complete["cluster"].tolist()
        scores, missing = complete[composite].astype(float), len(means) - len(complete)
        r = clustered_pearson(f"r of {pair}", complete["share"], scores, bases, missing=missing)
        rubric.append(replace(r, statistic="r", facets={"pair": pair}))
    alpha = krippendorff_alpha(wide.to_numpy(float), clusters)
    return Result("required_elements", shares=tuple(shares), alpha=alpha, rubric=tuple(rubric))
