"""How many scores lie at an end of the scale, where differences can no longer be seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import likeness, share
from toolkit.stats.inference.run_table import (
    in_order,
    need_labelled,
    numbers_of,
    scale_of,
    told_apart,
)
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE

_EQUAL = 1e-9


@dataclass(frozen=True)
class Ceiling(Result):
    """Shares of scores at the top and at the bottom of the scale."""

    about = "group"
    kinds: ClassVar[Mapping[str, str]] = {"shares": "group"}
    shares: dict[str, tuple[Estimate, Estimate]]
    warnings: tuple[str, ...]
    limit: float

    def sentence(self) -> str:
        """Return the shares of all scores, and every warning, in words ready for the thesis."""
        return " ".join([*(estimate.sentence() for estimate in self.shares["all"]), *self.warnings])


@over_clusters
def ceiling(scores: pd.DataFrame, score: str = SCORE, *, limit: float = 0.3) -> Ceiling:
    """Return how many scores lie at the ceiling and at the floor, in all and by length bin, model and judge.

    A mean over judges or dimensions is at the ceiling only where all of them are, so give judgements rather than
    runs. Above the limit a difference of means is drawn towards 0, and an interval that holds the mean says little of
    quality.

    Examples
    --------
    >>> frame = pd.DataFrame({"base": list("aabb"), "length_bin": list("SLSL"), "composite_strict": [5, 5, 3, None]})
    >>> found = ceiling(frame)
    >>> round(found.shares["all"][0].estimate, 3), found.shares["all"][0].missing, len(found.warnings)
    (0.667, 1, 3)
    """
    need_labelled("ceiling: scores", scores, ("base",), score)
    if not 0 < limit <= 1:
        raise InputError(f"ceiling: limit {limit:g} cannot be; give a share")
    values = numbers_of("ceiling: scores", scores, score)
    missing, (low, high) = np.isnan(values), scale_of(scores)
    wrong = (values < low - _EQUAL) | (values > high + _EQUAL)
    if wrong.any():
        first = values[wrong.argmax()]
        raise InputError(
            f"ceiling: {score} {first:g} is no score from {low:g} to {high:g}; correct or empty it"
        )
    bases = scores["base"].astype(str).to_numpy()
    groups: dict[str, tuple[dict[str, str], np.ndarray]] = {
        "all": ({"group": "all"}, np.ones(len(values), dtype=bool))
    }
    for column in told_apart(scores, ("length_bin", "model", "judge")):
        names = scores[column].astype("object").to_numpy()
        groups |= {f"{column} {name}": ({column: str(name)}, names == name) for name in in_order(names)}
    ends = {
        f"{score} at the ceiling ({high:g})": values >= high - _EQUAL,
        f"{score} at the floor ({low:g})": values <= low + _EQUAL,
    }
    likenesses = {end: likeness(list(hits[~missing]), list(bases[~missing])) for end, hits in ends.items()}

    def at_end(end: str, group: str) -> Estimate:
        facets, member = groups[group]
        scored, unscored = member & ~missing, int((member & missing).sum())
        hits, labels, alike = list(ends[end][scored]), list(bases[scored]), likenesses[end]
        estimate = share(f"{end}, {group}", hits, labels, what="scores", missing=unscored, alike=alike)
        return replace(estimate, statistic=end, facets=facets)

    top, bottom = ends
    shares = {group: (at_end(top, group), at_end(bottom, group)) for group in groups}
    warnings = tuple(
        f"{estimate.estimate:.0%} of {score} are at the {end}, {group}, more than {limit:.0%}: "
        "means hide differences there."
        for group, pair in shares.items()
        for end, estimate in zip((f"ceiling ({high:g})", f"floor ({low:g})"), pair, strict=True)
        if estimate.estimate is not None and estimate.estimate > limit
    )
    return Ceiling(shares, warnings, limit)
