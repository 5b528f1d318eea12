"""What one execution of a study did, and where the study stands after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.runs.asked import others_lines
from toolkit.stats.result import Estimate
from toolkit.words import Summary


@dataclass(frozen=True)
class Outcome:
    """What one execution of a study did, and where the study stands after it."""

    planned: int
    succeeded: int
    failed: int
    excluded: Mapping[str, int]
    judged: int | None
    new_calls: int
    spent_aud: float
    failures: Mapping[str, int]
    budget: str | None
    answered_by_others: Sequence[Mapping[str, Any]]
    results: tuple[tuple[str, Estimate], ...]

    @property
    def exit_code(self) -> int:
        """0 done, 1 done but some runs failed, 3 budget reached."""
        return 3 if self.budget else int(self.failed > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON types."""
        fields = {name: value for name, value in vars(self).items() if name != "results"}
        return {**fields, "results": [{"model": model, **result.to_dict()} for model, result in self.results]}

    def summary(self) -> Summary:
        """Return what the command line says at the end."""
        unjudged = 0 if self.judged is None else self.succeeded - sum(self.excluded.values()) - self.judged
        lines = [
            f"runs    {self.succeeded} of {self.planned} succeeded, {self.failed} failed",
            *([] if self.judged is None else [f"judged  {self.judged} by two judges or more"]),
            f"calls   {self.new_calls} asked now, {self.spent_aud:.4f} AUD spent now",
            *(f"failed  {count} x {reason}" for reason, count in self.failures.items()),
            *([f"unjudged  {unjudged} replies: `toolkit status` says why"] if unjudged > 0 else []),
            *(f"not judged  {count} x {reason} reply" for reason, count in self.excluded.items()),
            *(f"other model  {line}" for line in others_lines(self.answered_by_others)),
            *(f"{model}: {result.sentence()}" for model, result in self.results),
            *([self.budget] if self.budget else []),
        ]
        return Summary(self.to_dict(), "\n".join(lines), self.exit_code)
