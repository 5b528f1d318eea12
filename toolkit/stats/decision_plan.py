"""The results of a decision study: what designs cost, the cheapest one for a target, and the curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.words import counted


@dataclass(frozen=True)
class Costs:
    """What one more run and one more judgement cost."""

    run: float | None = None
    judgement: float | None = None
    runs_per_cell: int = 1
    judgements_per_run: int = 1

    def __post_init__(self) -> None:
        for name, cost in (("run", self.run), ("judgement", self.judgement)):
            if cost is not None and not 0 <= cost < float("inf"):
                raise InputError(f"cost of a {name}: {cost} AUD is not a cost; give a number from 0")
        if min(self.runs_per_cell, self.judgements_per_run) < 1:
            raise InputError("costs: a cell takes one run and a run one judgement at least")


@dataclass(frozen=True)
class DecisionPlan:
    """The cheapest design that reaches a coefficient, or what stands in the way."""

    coefficient: str
    target: float
    counts: Mapping[str, int] = field(default_factory=dict)
    reached: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int | None = None
    judgements: int | None = None
    aud: float | None = None
    note: str = ""

    def sentence(self) -> str:
        """Return the plan in words ready for the thesis."""
        wanted = f"{self.coefficient} of {self.target:.2f}"
        if self.reached is None:
            return f"{wanted}: {self.note}."
        parts = [counted(count, f"{name}s") for name, count in self.counts.items()]
        asked = f"{counted(self.runs or 0, 'runs')} and {counted(self.judgements or 0, 'judgements')}"
        text = f"{wanted} needs {', '.join(parts)}: {asked}"
        if self.aud is not None:
            # A cost that is not nothing does not read 0.00.
            text += f", {self.aud:{'.2f' if self.aud >= 1 or self.aud == 0 else '.3g'}} AUD"
        text += f"; it is then {self.reached:.3f}"
        if self.low is not None and self.high is not None:
            text += f", 95% interval [{self.low:.3f}, {self.high:.3f}]"
        return f"{text}{f' ({self.note})' if self.note else ''}."

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON types."""
        return {**self.__dict__, "counts": dict(self.counts)}


@dataclass(frozen=True)
class DecisionStudy:
    """What other designs would give."""

    curves: pd.DataFrame
    plans: tuple[DecisionPlan, ...]

    def sentence(self) -> str:
        """Return the plans in words ready for the thesis."""
        return " ".join(plan.sentence() for plan in self.plans)

    def to_dict(self) -> dict[str, Any]:
        """Return curves and plans as plain JSON types."""
        curves = self.curves.astype(object).where(self.curves.notna(), None)
        return {"curves": curves.to_dict("records"), "plans": [plan.to_dict() for plan in self.plans]}
