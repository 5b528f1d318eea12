"""What the missing scores could change: length contrasts with complete cases, and with the worst and the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import checked_runs
from toolkit.stats.length import CONTRASTS, compare_lengths
from toolkit.stats.result import Estimate, estimates_frame, rounded
from toolkit.words import SCALE, agreeing, counted

CASES: Final = ("complete cases", "missing = worst", "missing = best", "lowest", "highest")


@dataclass(frozen=True)
class MissingBounds:
    """The length contrasts under what could be assumed of the missing scores."""

    contrasts: dict[str, tuple[Estimate, ...]]
    missing: int

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its assumption."""
        return estimates_frame(
            ((case, one) for case, found in self.contrasts.items() for one in found), "assumption"
        )

    def sentence(self) -> str:
        """Return in words ready for the thesis how far the missing scores could matter."""
        if not self.missing:
            return "No score is missing, so that no assumption about missing scores is made."
        parts = []
        for place, (b, a) in enumerate(CONTRASTS):
            case, low, high = (
                self.contrasts[name][place].estimate for name in ("complete cases", "lowest", "highest")
            )
            if case is None or low is None or high is None:
                parts.append(f"{b}-{a} is not estimable")
                continue
            kept = "keeps its sign" if low * high > 0 else "could have either sign"
            parts.append(f"{b}-{a} = {rounded(case)}, between {rounded(low)} and {rounded(high)}, {kept}")
        they = "it" if self.missing == 1 else "they"
        return (
            f"{counted(self.missing, 'runs')} {agreeing(self.missing, 'have no score')}. Whatever {they} would have "
            f"been within {SCALE[0]:g}-{SCALE[1]:g}: {'; '.join(parts)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "contrasts": {case: [one.to_dict() for one in found] for case, found in self.contrasts.items()},
            "missing": self.missing,
        }


@over_clusters
def missing_bounds(
    runs: pd.DataFrame, score: str = "composite", scale: tuple[float, float] = SCALE
) -> MissingBounds:
    """Compare lengths with complete cases, with every missing score at the worst or best, and at the bounds.

    The bounds put the missing scores of one bin at one end of the scale and those of the other at the other end, which
    assumes nothing about why they are missing (Manski 1990). Their intervals are those of `compare_lengths` on the
    filled scores; from the low end of ``lowest`` to the high end of ``highest`` the contrast is held without any
    assumption.

    References
    ----------
    Manski (1990), American Economic Review 80 (2), 319-323. Horowitz & Manski (2000), Journal of the American
    Statistical Association 95, 77-84.

    Examples
    --------
    >>> rows = [(f"b{i}", b, 3 + gain) for i in range(4) for b, gain in (("S", 0), ("M", 0.5), ("L", 1))]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "composite"])
    >>> runs.loc[1, "composite"] = None
    >>> found = missing_bounds(runs)
    >>> [found.contrasts[case][0].estimate for case in ("lowest", "complete cases", "highest")]
    [-0.375, 0.5, 0.875]
    """
    checked = checked_runs(runs, score)
    worst, best = scale
    gone = checked["score"].isna().to_numpy()
    named = checked.rename(columns={"score": score})  # the name of the score decides its unit
    bins = checked["length_bin"].to_numpy()

    def contrasts(fill: np.ndarray | float | None) -> tuple[Estimate, ...]:
        filled = named if fill is None else named.assign(**{score: np.where(gone, fill, named[score])})
        return compare_lengths(filled, score).contrasts

    def bound(low: bool) -> tuple[Estimate, ...]:
        found = []
        for place, (b, _) in enumerate(CONTRASTS):
            # What is not in either bin does not count in this contrast.
            fill = np.where((bins == b) == low, worst, best)
            found.append(contrasts(fill)[place])
        # Each contrast has its own filling, so that Holm's p values of that filling would mean nothing here.
        return tuple(replace(one, p_value=None, correction="none") for one in found)

    cases = (contrasts(None), contrasts(worst), contrasts(best), bound(True), bound(False))
    return MissingBounds(dict(zip(CASES, cases, strict=True)), int(gone.sum()))
