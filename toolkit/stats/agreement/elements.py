"""Required elements found in replies: how many, how far judges agree on it, and whether the rubric says the same."""

from dataclasses import dataclass, replace

import pandas as pd

from toolkit.stats.agreement.alpha import krippendorff_alpha
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.inference.means import CLUSTERED, bounded_mean
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import COMPOSITES, LENGTH_BINS

SHARE = "share of required elements"


@dataclass(frozen=True)
class RequiredElements(Result):
    """Shares by length bin, agreement of the judges, and correlation with the rubric."""

    shares: Estimates
    alpha: Estimate
    rubric: Estimates
    kinds = dict.fromkeys(("shares", "alpha", "rubric"), "elements")


def required_elements(elements: pd.DataFrame, runs: pd.DataFrame) -> RequiredElements:
    r"""Return what the judges found of the required elements, and how far the rubric agrees with it.

    Parameters
    ----------
    elements
        One row a run and judge: run_id, cluster, length_bin, judge, share (0 to 1, NaN where it could not be read).
    runs
        One row a run: run_id, and the rubric's composite and composite_strict.

    Returns
    -------
    RequiredElements
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
        in_bin = means[means["length_bin"] == length_bin]
        if in_bin.empty:
            continue
        read = in_bin.dropna(subset="share")
        bases, missing = read["cluster"].tolist(), len(in_bin) - len(read)
        n = {"bases": read["cluster"].nunique(), "answers": len(read)}
        share = Estimate(f"{SHARE}, {length_bin}", n=n, method=CLUSTERED, unit="share", missing=missing)
        unread = share.not_estimable("no judgement could be read")
        shares.append(bounded_mean(share, read["share"], bases, (0.0, 1.0)) if len(read) else unread)
    rubric: list[Estimate] = []
    for composite in COMPOSITES:
        complete = means.dropna(subset=["share", composite])
        pair, bases = f"{SHARE} with {composite}", complete["cluster"].tolist()
        scores, missing = complete[composite].astype(float), len(means) - len(complete)
        r = clustered_pearson(f"r of {pair}", complete["share"], scores, bases, missing=missing)
        rubric.append(replace(r, statistic="r", facets={"pair": pair}))
    alpha = krippendorff_alpha(wide.to_numpy(float), clusters)
    return RequiredElements(tuple(shares), alpha, tuple(rubric))
