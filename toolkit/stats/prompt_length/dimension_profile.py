"""The profile of a study: the mean of every dimension, of each model at each prompt length."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import at_length, checked_runs, in_order, score_unit
from toolkit.stats.prompt_length.contrasts import runs_mean
from toolkit.stats.result import Estimate, Result
from toolkit.words import DIMENSIONS


@dataclass(frozen=True)
class DimensionMean:
    """The mean score of one dimension, of one model at one prompt length."""

    model: str
    length_bin: str
    dimension: str
    mean: Estimate


@dataclass(frozen=True)
class DimensionProfile(Result):
    """The means of all dimensions, models and length bins that have an answer, in the order of the rubric."""

    about = "dimension"
    means: tuple[DimensionMean, ...]

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Return every mean with its dimension."""
        return ((row.dimension, row.mean) for row in self.means)

    def frame(self) -> pd.DataFrame:
        """Return one row per mean (columns of ``toolkit.stats.result``) with its model and length bin."""
        frame = super().frame()
        frame.insert(0, "model", [row.model for row in self.means])
        frame.insert(1, "length_bin", [row.length_bin for row in self.means])
        return frame


@over_clusters
def dimension_profile(runs: pd.DataFrame, dimensions: tuple[str, ...] = DIMENSIONS) -> DimensionProfile:
    """Return the mean of each dimension, of each model at each prompt length.

    Repeats are averaged within a base first, so that each base counts once, and the interval is that of a mean on the
    scale over bases (`bounded_mean`). There is no correction for the number of means: the intervals describe, they
    test nothing.

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
            name = f"{dimension} of {at_length(model, length_bin)}"
            mean = runs_mean(name, rows, score_unit(dimension, runs))
            means.append(DimensionMean(str(model), str(length_bin), dimension, mean))
    bins = in_order(row.length_bin for row in means)
    means.sort(key=lambda row: (row.model, bins.index(row.length_bin), dimensions.index(row.dimension)))
    return DimensionProfile(tuple(means))
