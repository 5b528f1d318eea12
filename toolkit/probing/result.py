"""What probing did: every pair of judgements, the shifts that follow from them, and the words for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.judges.ask import JudgeSpec
from toolkit.judges.judgement import Judgement
from toolkit.judges.probes import Probe
from toolkit.probing.targets import Target
from toolkit.stats.agreement.probe_shift import ProbeShifts, probe_shifts
from toolkit.words import DIMENSIONS, Summary

if TYPE_CHECKING:
    import pandas as pd

STRICT: Final = "composite_strict"
"""A dimension that an error brings down to 0 must not raise the score, as it would raise the seed's composite."""
_COLUMNS: Final = (
    *("run_id", "base", "length_bin", "model", "judge", "judge_model"),
    *("kind", "variant", "detail", "original", "altered", "made", "reason"),
)


@dataclass(frozen=True)
class Pair:
    """What one judge said of a reply and of its altered version; ``altered`` is ``None`` where none could be made."""

    target: Target
    spec: JudgeSpec
    probe: Probe
    original: Judgement
    altered: Judgement | None

    @property
    def reason(self) -> str:
        """Why one of the two scores is missing; empty where none is."""
        if self.altered is None:
            return self.probe.reason or "not made"
        if self.original.failed:
            return f"original {self.original.reason}"
        return f"altered {self.altered.reason}" if self.altered.failed else ""

    def row(self, score: str) -> dict[str, Any]:
        """Return the pair as a row of `ProbeResult.frame`."""
        return {
            "run_id": self.target.run_id,
            "base": self.target.base,
            "length_bin": self.target.length_bin,
            "model": self.target.run.model,
            "judge": self.spec.role,
            "judge_model": self.spec.name,
            "kind": self.probe.kind,
            "variant": self.probe.variant,
            "detail": self.probe.detail,
            "original": _score(self.original, score),
            "altered": _score(self.altered, score),
            "made": self.altered is not None,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class ProbeResult:
    """What probing did."""

    study: str
    targets: tuple[Target, ...]
    pairs: tuple[Pair, ...]
    new_calls: int
    spent_aud: float

    def frame(self, score: str = STRICT) -> pd.DataFrame:
        """Return one row a pair: run, base, judge, kind, variant, detail, original and altered score, reason."""
        import pandas as pd

        known = (STRICT, "composite", *DIMENSIONS)
        if score not in known:
            raise InputError(f"score {score!r} is unknown; use one of {', '.join(known)}")
        frame = pd.DataFrame([pair.row(score) for pair in self.pairs], columns=list(_COLUMNS))
        return frame.astype({"original": "float64", "altered": "float64", "made": "bool"})

    def shifts(self, score: str = STRICT) -> ProbeShifts:
        """Return how far each kind of probe moves each judge; see `toolkit.stats.agreement.probe_shift`."""
        return probe_shifts(self.frame(score))

    @property
    def unanswered(self) -> int:
        """How many judgements have no answer yet; the same command asks them again."""
        said = {id(one): one for pair in self.pairs for one in (pair.original, pair.altered) if one}
        return sum(not one.answered for one in said.values())

    def summary(self, files: Sequence[Path] = ()) -> Summary:
        """Return what the command line says at the end; exit code 1 where a judge did not answer."""
        shifts = self.shifts()
        bins = Counter(target.length_bin for target in self.targets)
        spread = ", ".join(f"{count} {name}" for name, count in bins.items())
        lines = [
            f"replies  {len(self.targets)} probed ({spread}), {len(self.pairs)} pairs",
            f"calls    {self.new_calls} asked now, {self.spent_aud:.4f} AUD spent now",
            *(f"{one.judge}: {found.sentence()}" for one in shifts.shifts for found in one.estimates),
            *(
                f"{one.judge}: missing, {one.kind}: {count} x {reason}"
                for one in shifts.shifts
                for reason, count in one.missing.items()
            ),
            *map(str, files),
        ]
        fields = {
            "replies": len(self.targets),
            "pairs": len(self.pairs),
            "new_calls": self.new_calls,
            "spent_aud": self.spent_aud,
            "unanswered": self.unanswered,
            "score": STRICT,
            "shifts": shifts.to_dict(),
            "files": [str(path) for path in files],
        }
        return Summary(fields, "\n".join(lines), int(self.unanswered > 0))


def _score(said: Judgement | None, score: str) -> float | None:
    if said is None or said.scores is None:
        return None
    return said.scores[score] if score in DIMENSIONS else getattr(said, score)
