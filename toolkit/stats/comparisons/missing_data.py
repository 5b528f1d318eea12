"""What is missing, of which model, judge and length bin, and what it could change."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import likeness, share
from toolkit.stats.inference.run_table import (
    checked_runs,
    in_order,
    need_labelled,
    scale_of,
    told_apart,
)
from toolkit.stats.prompt_length.contrasts import CONTRASTS, length_contrasts
from toolkit.stats.result import Estimates, Result, rounded
from toolkit.words import SCALE, SCORE, agreeing, counted

CASES = ("complete cases", "missing = worst", "missing = best", "lowest", "highest")


@dataclass(frozen=True)
class MissingBounds(Result):
    """The length contrasts under what could be assumed of the missing scores."""

    about = "assumption"
    kinds: ClassVar[Mapping[str, str]] = {"contrasts": "assumption"}
    contrasts: dict[str, Estimates]
    missing: int
    ends: tuple[float, float] = SCALE
    apart = ("ends",)

    def sentence(self) -> str:
        """Return in words ready for the thesis how far the missing scores could matter."""
        if not self.missing:
            return "No score is missing, so that no assumption about missing scores is made."
        unscored = f"{counted(self.missing, 'runs')} {agreeing(self.missing, 'have no score')}."
        if not self.contrasts[CASES[0]]:  # scores of one prompt length, or that know none
            return unscored
        parts = []
        for index, (b, a) in enumerate(CONTRASTS):
            complete, low, high = (
                self.contrasts[case][index].estimate for case in ("complete cases", "lowest", "highest")
            )
            if complete is None or low is None or high is None:
                parts.append(f"{b}-{a} is not estimable")
                continue
            sign = "keeps its sign" if low * high > 0 else "could have either sign"
            parts.append(f"{b}-{a} = {rounded(complete)}, between {rounded(low)} and {rounded(high)}, {sign}")
        pronoun = "it" if self.missing == 1 else "they"
        scale_ends = f"{self.ends[0]:g}-{self.ends[1]:g}"
        return f"{unscored} Whatever {pronoun} would have been within {scale_ends}: {'; '.join(parts)}."


@dataclass(frozen=True)
class MissingData(Result):
    """How many scores are missing, where and for which reasons, and what they could change."""

    about = "missing by"
    kinds: ClassVar[Mapping[str, str]] = {"overall": "all", "shares": "column"}
    overall: Estimates
    shares: dict[str, Estimates]
    reasons: dict[str, int]
    bounds: MissingBounds

    def sentence(self) -> str:
        """Return what is missing in words ready for the thesis."""
        shares = " ".join(estimate.sentence() for estimate in self.overall)
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.reasons.items())
        sentences = (shares, f"Reasons: {reasons}." if reasons else "", self.bounds.sentence())
        return " ".join(filter(None, sentences))


@over_clusters
def missing_data(
    runs: pd.DataFrame, judgements: pd.DataFrame | None = None, score: str = SCORE
) -> MissingData:
    """Count what has no score, by model and length bin of the runs and by judge of the judgements.

    Reasons are read from the columns failure and defect, where they exist. Where nothing is missing the count is
    complete, and there is no interval.

    Examples
    --------
    >>> runs = pd.DataFrame({"base": list("aabbcc"), "length_bin": list("SLSLSL"), "model": "m"})
    >>> found = missing_data(runs.assign(composite_strict=[1, None, 2, 3, 4, None]))
    >>> [(one.name, one.estimate) for one in found.shares["length_bin"]]
    [('missing, length_bin S', 0.0), ('missing, length_bin L', 0.6666666666666666)]
    """
    tables: list[tuple[str, pd.DataFrame, tuple[str, ...]]] = [("runs", runs, ("length_bin", "model"))]
    if judgements is not None and len(judgements):
        tables.append(("judgements", judgements, ("judge",)))
    shares: dict[str, Estimates] = {}
    reasons: list[str] = []
    for unit, table, columns in tables:
        need_labelled(f"missing data: {unit}", table, ("base",), score, *columns)
        missing, bases = table[score].isna(), table["base"].astype(str)
        alike, cases = likeness(missing, list(bases)), table.assign(of=unit)
        for column in ("of", *told_apart(table, columns)):
            for name in [unit] if column == "of" else in_order(cases[column]):
                member = cases[column].isin([name])
                label, statistic = f"missing, {column} {name}", "missing"
                if column == "of":
                    label, statistic = f"missing {unit}", ""
                estimate = share(label, list(missing[member]), list(bases[member]), what=unit, alike=alike)
                if not missing.any():  # a complete count is no sample
                    estimate = replace(estimate, low=None, high=None, method="").no_interval(
                        "no score is missing"
                    )
                estimate = replace(estimate, statistic=statistic, facets={column: str(name)})
                shares[column] = (*shares.get(column, ()), estimate)
        reasons += _reasons(table[missing], unit)
    overall = shares.pop("of")
    ordered = dict(Counter(sorted(reasons)).most_common())
    return MissingData(overall, shares, ordered, missing_bounds(runs, score))


@over_clusters
def missing_bounds(runs: pd.DataFrame, score: str = SCORE) -> MissingBounds:
    """Compare lengths with complete cases, with every missing score at the worst or best, and at the bounds.

    The bounds put the missing scores of one bin at one end of the scale and those of the other at the other end, which
    assumes nothing about why they are missing (Manski 1990, American Economic Review 80 (2), 319-323).

    Examples
    --------
    >>> rows = [(f"b{i}", b, 3 + gain) for i in range(4) for b, gain in (("S", 0), ("M", 0.5), ("L", 1))]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "composite_strict"])
    >>> runs.loc[1, "composite_strict"] = None
    >>> found = missing_bounds(runs)
    >>> [found.contrasts[case][0].estimate for case in ("lowest", "complete cases", "highest")]
    [-0.375, 0.5, 0.875]
    """
    checked = checked_runs(runs, score)
    worst, best = scale_of(runs)
    missing = checked["score"].isna().to_numpy()
    bins = checked["length_bin"].to_numpy()
    if not missing.any() or len(set(bins)) < 2:  # nothing to bound
        return MissingBounds(dict.fromkeys(CASES, ()), int(missing.sum()), (worst, best))

    def contrasts(fill: np.ndarray | float) -> Estimates:
        return length_contrasts(checked.assign(score=np.where(missing, fill, checked["score"])), score)

    def bound(low: bool) -> Estimates:
        # Each contrast has its own filling, so that Holm's p values of that filling would mean nothing here. The third
        # bin, filled like the second, does not count in the contrast.
        fillings = (np.where((bins == b) == low, worst, best) for b, _ in CONTRASTS)
        extremes = (contrasts(filling)[index] for index, filling in enumerate(fillings))
        return tuple(replace(estimate, p_value=None, correction="none") for estimate in extremes)

    complete = length_contrasts(checked, score)
    cases = (complete, contrasts(worst), contrasts(best), bound(True), bound(False))
    return MissingBounds(dict(zip(CASES, cases, strict=True)), int(missing.sum()), (worst, best))


def _reasons(blank: pd.DataFrame, unit: str) -> list[str]:
    columns = [name for name in ("failure", "defect") if name in blank]
    if not columns:
        return []
    reasons = blank[columns].astype("object").bfill(axis=1).iloc[:, 0]
    return reasons.where(reasons.notna(), f"{unit} without a reason").astype(str).tolist()
