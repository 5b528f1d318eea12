"""The finer picture of the judges: per judge and per pair, and what does not need complete ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from toolkit.stats.bland_altman import BlandAltman, bland_altman_between_judges
from toolkit.stats.correlations import ranks_between_judges
from toolkit.stats.incomplete import IncompleteIcc, incomplete_icc
from toolkit.stats.krippendorff_alpha import alpha_of_matrix
from toolkit.stats.omega import omega_over_dimensions, omega_over_judges
from toolkit.stats.rating_matrix import RatingMatrix
from toolkit.stats.result import Estimate
from toolkit.stats.severity import Severity, judge_severity
from toolkit.stats.tables import estimates_frame
from toolkit.stats.weighted_kappa import weighted_kappa_between_judges
from toolkit.words import DIMENSIONS, SCALE


@dataclass(frozen=True)
class ReliabilityDetails:
    """What more is known of the judges than ICC, alpha and Pearson; every mapping is by dimension."""

    omega_over_judges: Mapping[str, Estimate]
    omega_over_dimensions: Estimate | None
    krippendorff: Mapping[str, Estimate]
    all_ratings: Mapping[str, IncompleteIcc]
    ranks: Mapping[str, tuple[Estimate, ...]]
    weighted_kappa: Mapping[str, tuple[Estimate, ...]]
    bland_altman: Mapping[str, Mapping[tuple[str, str], BlandAltman]]
    severity: Mapping[str, Severity]

    def agreement(self, key: str) -> Iterator[Estimate]:
        """Yield what is known of all judges together in one dimension."""
        yield self.krippendorff[key]
        yield self.omega_over_judges[key]
        if key in self.all_ratings:
            yield from self.all_ratings[key].icc
            yield from self.all_ratings[key].these_judges

    def judges(self, key: str) -> Iterator[Estimate]:
        """Yield the leniency of each judge in one dimension, then the agreement and the mean without it."""
        yield from self.severity[key].leniency.values()
        for family in self.severity[key].without.values():
            yield from family

    def pairs(self, key: str) -> Iterator[Estimate]:
        """Yield ranks, weighted kappa and Bland-Altman of each pair of judges in one dimension."""
        yield from self.ranks[key]
        yield from self.weighted_kappa[key]
        for pair in self.bland_altman[key].values():
            yield from pair.estimates()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.tables``), with the dimension and what it is about.

        Column ``about`` is ``all judges``, ``one judge`` or ``two judges``.
        """
        parts = [
            estimates_frame(((key, one) for one in family(key)), "dimension").assign(about=about)
            for key in self.krippendorff
            for about, family in (
                ("all judges", self.agreement),
                ("one judge", self.judges),
                ("two judges", self.pairs),
            )
        ]
        if self.omega_over_dimensions is not None:
            over = estimates_frame([("all dimensions", self.omega_over_dimensions)], "dimension")
            parts.append(over.assign(about="all judges"))
        # An empty table would turn numbers into objects.
        return pd.concat([part for part in parts if len(part)], ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        over = self.omega_over_dimensions
        return {
            **{
                key: {
                    "all_judges": [one.to_dict() for one in self.agreement(key)],
                    "one_judge": [one.to_dict() for one in self.judges(key)],
                    "two_judges": [one.to_dict() for one in self.pairs(key)],
                }
                for key in self.krippendorff
            },
            "omega_over_dimensions": None if over is None else over.to_dict(),
        }


def reliability_details(matrices: Mapping[str, RatingMatrix], ratings: pd.DataFrame) -> ReliabilityDetails:
    """Return the finer picture of the judges, for each dimension apart."""
    gaps = {key: matrix for key, matrix in matrices.items() if len(matrix.values) < len(matrix.pairs)}
    return ReliabilityDetails(
        omega_over_judges={key: omega_over_judges(matrix) for key, matrix in matrices.items()},
        omega_over_dimensions=omega_over_dimensions(ratings) if "dimension" in ratings else None,
        krippendorff={key: alpha_of_matrix(matrix) for key, matrix in matrices.items()},
        all_ratings={key: incomplete_icc(matrix) for key, matrix in gaps.items()},
        ranks={key: ranks_between_judges(matrix) for key, matrix in matrices.items()},
        weighted_kappa={key: weighted_kappa_between_judges(matrix) for key, matrix in matrices.items()},
        bland_altman={
            key: bland_altman_between_judges(matrix, SCALE if _on_rubric(key, matrix) else None)
            for key, matrix in matrices.items()
        },
        severity={key: judge_severity(matrix) for key, matrix in matrices.items()},
    )


def _on_rubric(key: str, matrix: RatingMatrix) -> bool:
    """Return whether scores are of our rubric; a file of others may use our names with another scale."""
    scores = matrix.pairs.to_numpy(dtype=float) * matrix.scale
    inside = not ((scores < SCALE[0]) | (scores > SCALE[1])).any()
    return inside and key in (*DIMENSIONS, "composite", "composite_strict")
