"""What a study's own runs say of its power, as a result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from toolkit.stats.power_answer import PowerAnswer
from toolkit.stats.power_paired import detectable_effect
from toolkit.stats.result import Estimate, estimates_frame


@dataclass(frozen=True)
class ContrastPower:
    """What is known of the power of one contrast of length bins."""

    name: str
    spread: Estimate
    between: float | None
    within: float | None
    sd: float | None
    detectable: PowerAnswer
    needed: PowerAnswer | None
    cost: PowerAnswer | None

    def answers(self) -> tuple[Estimate, ...]:
        """Return the results that there are."""
        return tuple(one for one in (self.spread, self.detectable, self.needed, self.cost) if one is not None)


@dataclass(frozen=True)
class PilotPower:
    """The power of a study for each contrast of length bins, from its own runs.

    Parameters
    ----------
    contrasts
        M-S, L-M and L-S.
    aud_per_base
        What all runs and judgements of one base cost.
    repeats
        Repeats that the answers are for.
    power, level
        Wanted power, and the level of each test after correction for their number.
    notes
        What was assumed and left out.
    """

    contrasts: tuple[ContrastPower, ...]
    aud_per_base: Estimate
    repeats: float
    power: float
    level: float
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its contrast."""
        rows = [(one.name, found) for one in self.contrasts for found in one.answers()]
        return estimates_frame([*rows, ("all", self.aud_per_base)], "contrast")

    def sentence(self) -> str:
        """Return every answer in words ready for the thesis."""
        said = [
            f"{one.name}: {found.sentence()}"
            for one in self.contrasts
            for found in (one.detectable, one.needed, one.cost)
            if found is not None
        ]
        return " ".join([*said, *(f"{note[0].upper()}{note[1:]}." for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "contrasts": {
                one.name: {
                    "between": one.between,
                    "within": one.within,
                    "results": [found.to_dict() for found in one.answers()],
                }
                for one in self.contrasts
            },
            "aud_per_base": self.aud_per_base.to_dict(),
            "repeats": self.repeats,
            "power": self.power,
            "level": self.level,
            "notes": list(self.notes),
        }

    def curve(self, bases: Iterable[int]) -> pd.DataFrame:
        """Return what other numbers of bases would detect, and cost.

        Parameters
        ----------
        bases
            Numbers of bases, 2 or more each.

        Returns
        -------
        pandas.DataFrame
            contrast, bases, detectable_effect and aud; NaN where there is no number.
        """
        rows, numbers = [], list(bases)
        for one in self.contrasts:
            for n in numbers:
                found = None
                if one.sd is not None:
                    found = detectable_effect(n, one.sd, power=self.power, alpha=self.level).estimate
                price = self.aud_per_base.estimate
                rows.append((one.name, int(n), found, None if price is None else n * price))
        frame = pd.DataFrame(rows, columns=["contrast", "bases", "detectable_effect", "aud"])
        return frame.astype({"detectable_effect": "float64", "aud": "float64"})
