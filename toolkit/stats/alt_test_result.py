"""What the alternative annotator test returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from toolkit.stats.result import Estimate, estimates_frame


@dataclass(frozen=True)
class AltTest:
    """Whether a judge may stand in for people."""

    winning_rate: Estimate
    advantage: Estimate
    raters: tuple[Estimate, ...]
    passed: bool | None
    epsilon: float
    level: float
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``)."""
        rows = [("judge", self.winning_rate), ("judge", self.advantage)]
        return estimates_frame([*rows, *(("person", one) for one in self.raters)], "about")

    def sentence(self) -> str:
        """Return the verdict in words ready for the thesis."""
        if self.passed is None:
            return self.winning_rate.sentence()
        verdict = "may stand in for" if self.passed else "may not stand in for"
        return (
            f"The judge {verdict} the people by the alternative annotator test (epsilon = {self.epsilon:g}, "
            f"false discovery rate {self.level:g}): {self.winning_rate.sentence()} {self.advantage.sentence()}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "winning_rate": self.winning_rate.to_dict(),
            "advantage": self.advantage.to_dict(),
            "raters": [one.to_dict() for one in self.raters],
            "passed": self.passed,
            "epsilon": self.epsilon,
            "level": self.level,
            "notes": list(self.notes),
        }
