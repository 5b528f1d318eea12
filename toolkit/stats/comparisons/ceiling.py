"""How many scores lie at an end of the scale, where differences can no longer be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import share
from toolkit.stats.inference.run_table import in_order
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import SCALE

_EQUAL = 1e-9


@dataclass(frozen=True)
class Ceiling:
    """Shares of scores at the top and at the bottom of the scale.

    Parameters
    ----------
    shares
        Group (``all``, ``length_bin S``, ``model m1`` ...) to the share at the ceiling and the share at the floor.
    warnings
        A sentence for each share above the limit.
    limit
        Share above which there is a warning.
    """

    shares: dict[str, tuple[Estimate, Estimate]]
    warnings: tuple[str, ...]
    limit: float

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its group."""
        return estimates_frame(((group, one) for group, pair in self.shares.items() for one in pair), "group")

    def sentence(self) -> str:
        """Return the shares of all scores, and every warning, in words ready for the thesis."""
        said = [one.sentence() for one in self.shares["all"]]
        return " ".join([*said, *self.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "shares": {group: [one.to_dict() for one in pair] for group, pair in self.shares.items()},
            "warnings": list(self.warnings),
            "limit": self.limit,
        }


@over_clusters
def ceiling(
    scores: pd.DataFrame,
    score: str = "composite",
    *,
    by: Sequence[str] = ("length_bin", "model", "judge"),
    limit: float = 0.3,
    within: float = 0.0,
    scale: tuple[float, float] = SCALE,
    confidence: float = 0.95,
) -> Ceiling:
    """Return how many scores lie at the ceiling and at the floor, in all and by length bin, model and judge.

    A mean over judges or dimensions is at the ceiling only where all of them are, so give judgements rather than
    runs. Above the limit a difference of means is drawn towards 0, and an interval that holds the mean says little of
    quality.

    Parameters
    ----------
    scores
        One row a score with base and the score, and what it is grouped by; missing scores are left out and counted.
    score
        Column of scores.
    by
        Columns to group by; those that the frame lacks are passed over.
    limit
        Share above which to warn, 0-1; the study file keeps it as ``ceiling_share``.
    within
        How far from the end a score still counts as there, in score points.
    scale
        Lowest and highest score.
    confidence
        Coverage of the intervals, which are clustered by base (see `toolkit.stats.inference.proportions.share`).

    Returns
    -------
    Ceiling
        Not estimable for a group without a score.

    Raises
    ------
    InputError
        If base or score is missing, a base is empty, a score lies outside of the scale, or the limit is no share.

    Examples
    --------
    >>> frame = pd.DataFrame({"base": list("aabb"), "length_bin": list("SLSL"), "composite": [5, 5, 3, None]})
    >>> found = ceiling(frame)
    >>> round(found.shares["all"][0].estimate, 3), found.shares["all"][0].missing, len(found.warnings)
    (0.667, 1, 3)
    """
    absent = [name for name in ("base", score) if name not in scores]
    if absent:
        raise InputError(f"ceiling: scores lack the column {', '.join(absent)}; give base and {score}")
    if scores["base"].isna().any():
        raise InputError("ceiling: a base is empty; every score needs one")
    if not 0 < limit <= 1 or within < 0:
        raise InputError(
            f"ceiling: limit {limit:g} or distance {within:g} cannot be; give a share and a distance"
        )
    values = pd.to_numeric(scores[score], errors="coerce").astype("float64").to_numpy()
    low, high = scale
    wrong = (
        (values < low - _EQUAL)
        | (values > high + _EQUAL)
        | (np.isnan(values) & scores[score].notna().to_numpy())
    )
    if wrong.any():
        first = scores[score].iloc[int(wrong.argmax())]
        raise InputError(
            f"ceiling: {score} {first!r} is no score from {low:g} to {high:g}; correct or empty it"
        )
    bases = scores["base"].astype(str).to_numpy()
    groups = {"all": np.ones(len(values), dtype=bool)}
    for column in by:
        if column in scores:
            names = scores[column].astype("object").to_numpy()
            groups |= {f"{column} {name}": names == name for name in in_order(names)}
    shares: dict[str, tuple[Estimate, Estimate]] = {}
    for group, its in groups.items():
        there = its & ~np.isnan(values)
        top, bottom = (
            share(
                f"{score} at the {what} ({end:g}), {group}",
                list(hits[there]),
                list(bases[there]),
                what="scores",
                missing=int((its & np.isnan(values)).sum()),
                confidence=confidence,
            )
            for what, end, hits in (
                ("ceiling", high, values >= high - within - _EQUAL),
                ("floor", low, values <= low + within + _EQUAL),
            )
        )
        shares[group] = (top, bottom)
    warnings = tuple(
        f"{one.estimate:.0%} of {one.name.replace(' at the', ' are at the', 1)}, more than {limit:.0%}: "
        "means hide differences there."
        for pair in shares.values()
        for one in pair
        if one.estimate is not None and one.estimate > limit
    )
    return Ceiling(shares, warnings, limit)
