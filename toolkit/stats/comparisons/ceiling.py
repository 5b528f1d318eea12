"""How many scores lie at an end of the scale, where differences can no longer be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.proportions import likeness, share
from toolkit.stats.inference.run_table import (
    in_order,
    need_columns,
    need_labels,
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

    about: ClassVar[str] = "group"
    shares: dict[str, tuple[Estimate, Estimate]]
    warnings: tuple[str, ...]
    limit: float

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Return every share with its group."""
        return ((group, one) for group, pair in self.shares.items() for one in pair)

    def sentence(self) -> str:
        """Return the shares of all scores, and every warning, in words ready for the thesis."""
        return " ".join([*(one.sentence() for one in self.shares["all"]), *self.warnings])


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
    need_columns("ceiling: scores", scores, ("base", score))
    need_labels("ceiling: scores", scores, ("base",))
    if not 0 < limit <= 1:
        raise InputError(f"ceiling: limit {limit:g} cannot be; give a share")
    values = numbers_of("ceiling: scores", scores, score)
    gone, (low, high) = np.isnan(values), scale_of(scores)
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
    ends = (("ceiling", high, values >= high - _EQUAL), ("floor", low, values <= low + _EQUAL))
    shares = {}
    for group, (facets, its) in groups.items():
        there, missing = its & ~gone, int((its & gone).sum())
        top, bottom = (
            replace(
                share(
                    f"{score} at the {what} ({end:g}), {group}",
                    list(hits[there]),
                    list(bases[there]),
                    what="scores",
                    missing=missing,
                    alike=likeness(list(hits[~gone]), list(bases[~gone])),
                ),
                statistic=f"{score} at the {what} ({end:g})",
                facets=facets,
            )
            for what, end, hits in ends
        )
        shares[group] = (top, bottom)
    warnings = tuple(
        f"{one.estimate:.0%} of {score} are at the {what} ({end:g}), {group}, more than {limit:.0%}: "
        "means hide differences there."
        for group, pair in shares.items()
        for one, (what, end, _) in zip(pair, ends, strict=True)
        if one.estimate is not None and one.estimate > limit
    )
    return Ceiling(shares, warnings, limit)
