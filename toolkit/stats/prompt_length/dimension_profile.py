"""The profile of a study: the mean of every dimension, of each model at each prompt length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.means import mean_interval
from toolkit.stats.inference.run_table import checked_runs, in_order, score_unit
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import DIMENSIONS

METHOD: Final = "Student t over bases"


@dataclass(frozen=True)
class DimensionMean:
    """The mean score of one dimension, of one model at one prompt length."""

    model: str
    length_bin: str
    dimension: str
    mean: Estimate


@dataclass(frozen=True)
class DimensionProfile:
    """The means of all dimensions, models and length bins that have an answer.

    Parameters
    ----------
    means
        By model, length bin and dimension in the order of the rubric; ``missing`` counts runs without the score.
    """

    means: tuple[DimensionMean, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per mean (columns of ``toolkit.stats.result``) with its model and length bin."""
        frame = estimates_frame(((one.dimension, one.mean) for one in self.means), "dimension")
        frame.insert(0, "model", [one.model for one in self.means])
        frame.insert(1, "length_bin", [one.length_bin for one in self.means])
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return every mean as plain JSON types."""
        return {
            "means": [
                {"model": one.model, "length_bin": one.length_bin, "dimension": one.dimension}
                | one.mean.to_dict()
                for one in self.means
            ]
        }

    def sentence(self) -> str:
        """Return every mean in words ready for the thesis."""
        return " ".join(one.mean.sentence() for one in self.means)


@over_clusters
def dimension_profile(
    runs: pd.DataFrame, dimensions: tuple[str, ...] = DIMENSIONS, confidence: float = 0.95
) -> DimensionProfile:
    """Return the mean of each dimension, of each model at each prompt length.

    Repeats are averaged within a base first, so that each base counts once, and the interval is Student's t over
    bases. There is no correction for the number of means: the intervals describe, they test nothing.

    Parameters
    ----------
    runs
        One row per run with base, length_bin, the dimensions (0-5, NaN where missing) and, where there are several,
        model.
    dimensions
        Columns of the scores.
    confidence
        Coverage of the intervals.

    Returns
    -------
    DimensionProfile
        A mean over one base, or over bases that are all equal, has no interval and its note says so.

    Raises
    ------
    InputError
        As `toolkit.stats.inference.run_table.checked_runs`.

    Examples
    --------
    >>> runs = pd.DataFrame({"base": ["b1", "b2"], "length_bin": "S", "model": "m", "clarity": [3.0, 4.0]})
    >>> [(one.dimension, one.mean.estimate) for one in dimension_profile(runs, ("clarity",)).means]
    [('clarity', 3.5)]
    """
    means = []
    for dimension in dimensions:
        table = checked_runs(runs, dimension)
        for (model, length_bin), rows in table.groupby(["model", "length_bin"], sort=False):
            scored = rows.dropna(subset=["score"])
            found = _mean(str(model), str(length_bin), dimension, scored, len(rows) - len(scored), confidence)
            means.append(DimensionMean(str(model), str(length_bin), dimension, found))
    bins = {name: place for place, name in enumerate(in_order(one.length_bin for one in means))}
    order = {name: place for place, name in enumerate(dimensions)}
    means.sort(key=lambda one: (one.model, bins[one.length_bin], order[one.dimension]))
    return DimensionProfile(tuple(means))


def _mean(
    model: str, length_bin: str, dimension: str, scored: pd.DataFrame, missing: int, confidence: float
) -> Estimate:
    bases = mean_of_units(scored.set_index(["base", "situation"])["score"])
    empty = Estimate(
        f"{dimension} of {model} at {length_bin}",
        None,
        method=METHOD,
        unit=score_unit(dimension),
        n={"bases": len(bases), "answers": len(scored)},
        missing=missing,
        confidence=confidence,
    )
    if bases.empty:
        return replace(empty, note="not estimable: no answer has a score")
    found = mean_interval(bases.to_numpy(), confidence)
    note = f"no interval: {found.reason}" if found.reason else ""
    return replace(empty, estimate=found.mean, low=found.low, high=found.high, note=note)
