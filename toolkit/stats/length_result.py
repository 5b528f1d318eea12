"""What a comparison of length bins found, as one frozen object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from toolkit.stats.anova import RepeatedMeasures
from toolkit.stats.result import Estimate, estimates_frame


@dataclass(frozen=True)
class LengthComparison:
    """The scores of the three length bins and their differences within bases.

    Parameters
    ----------
    per_bin
        Mean score of S, M and L; ``missing`` counts the runs of the bin without a score.
    contrasts
        Mean paired difference M-S, L-M and L-S, confirmatory or exploratory, these with Holm's p values; ``missing``
        counts the bases left out.
    effect_sizes
        d_z of each contrast, without unit.
    notes
        How runs were averaged and what was left out.
    corrected_effect_sizes
        g_z of each contrast: d_z corrected for its bias.
    average_effect_sizes
        d_av of each contrast, without unit.
    anova, friedman
        Repeated-measures ANOVA and Friedman's test over the bins that have scores, each base that has them all
        counting once; None where they were not asked for.
    equivalence
        Two one-sided tests of each contrast; empty where no margin was given.
    """

    per_bin: tuple[Estimate, ...]
    contrasts: tuple[Estimate, ...]
    effect_sizes: tuple[Estimate, ...]
    notes: tuple[str, ...]
    corrected_effect_sizes: tuple[Estimate, ...] = ()
    average_effect_sizes: tuple[Estimate, ...] = ()
    anova: RepeatedMeasures | None = None
    friedman: Estimate | None = None
    equivalence: tuple[Estimate, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its kind as the comparison."""
        return estimates_frame(self._rows(), "comparison")

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "per_bin": [result.to_dict() for result in self.per_bin],
            "contrasts": [result.to_dict() for result in self.contrasts],
            "effect_sizes": [result.to_dict() for result in self.effect_sizes],
            "corrected_effect_sizes": [result.to_dict() for result in self.corrected_effect_sizes],
            "average_effect_sizes": [result.to_dict() for result in self.average_effect_sizes],
            "anova": self.anova.to_dict() if self.anova is not None else None,
            "friedman": self.friedman.to_dict() if self.friedman is not None else None,
            "equivalence": [result.to_dict() for result in self.equivalence],
            "notes": list(self.notes),
        }

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        yield from (("mean of bin", result) for result in self.per_bin)
        yield from (("difference", result) for result in self.contrasts)
        yield from (("effect size", result) for result in self.effect_sizes)
        yield from (("effect size", result) for result in self.corrected_effect_sizes)
        yield from (("effect size", result) for result in self.average_effect_sizes)
        if self.anova is not None:
            yield "any difference", self.anova.as_estimate()
        if self.friedman is not None:
            yield "any difference", self.friedman
        yield from (("equivalence", result) for result in self.equivalence)
