"""Probes of judges: the same replies altered, asked about as the study asks, and how far each judge's score moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.judges.alterations import Probe
from toolkit.judges.judgement import Judgement, judge, judgement_requests
from toolkit.judges.request import JudgeSpec, Manner
from toolkit.judges.rubric import Rubric
from toolkit.models.base import Ask, ModelRequest
from toolkit.stats.agreement.probe_shift import CONTROL, ProbeShifts, probe_shifts
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
class Target:
    """One reply that is probed: where it comes from, its text, and its altered versions, the control among them."""

    run_id: str
    base: str
    length_bin: str
    model: str
    repeat: int
    task: str
    text: str
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class Bench:
    """How probes are judged: a study's judges of a model by role, its rubric, and its manner."""

    judges_of: Callable[[str], Mapping[str, JudgeSpec]]
    rubric: Rubric
    manner: Manner

    def asked(self, target: Target) -> Iterator[tuple[JudgeSpec, JudgeSpec, Probe | None, str]]:
        """Yield each judge as it is named and as it is asked, with each text: the original (None) and the altered.

        Both members of a pair are asked under the repeat index of the original's judgement, so that they differ in
        the text alone; the control is the next time that the judge judges this run (test-retest).
        """
        for spec in self.judges_of(target.model).values():
            for probe in (None, *target.probes):
                text = target.text if probe is None else probe.text
                if text is not None:
                    again = 1 if probe is not None and probe.kind == CONTROL else 0
                    yield spec, spec.of_run(target.repeat, again), probe, text


def probe_requests(bench: Bench, targets: Sequence[Target]) -> tuple[ModelRequest, ...]:
    """Return every request that probing sends, repairs aside, for a cost estimate before anything is sent."""
    requests = (
        request
        for target in targets
        for _, asked, _, text in bench.asked(target)
        for request in judgement_requests(
            asked, bench.rubric, task=target.task, response=text, manner=bench.manner
        )
    )
    return tuple({request.identity(): request for request in requests}.values())


async def probe_pairs(bench: Bench, targets: Sequence[Target], ask: Ask) -> tuple[Pair, ...]:
    """Ask every judge about every text, all at once: the gateway keeps the limits."""

    async def said(target: Target, spec: JudgeSpec, text: str) -> Judgement:
        related = target.model in spec.related
        return await judge(
            text, target.task, judge=spec, rubric=bench.rubric, ask=ask, manner=bench.manner, related=related
        )

    tasks: dict[tuple[int, str, int | None], asyncio.Task[Judgement]] = {}
    async with asyncio.TaskGroup() as group:
        for place, target in enumerate(targets):
            for spec, asked, probe, text in bench.asked(target):
                number = None if probe is None else target.probes.index(probe)
                tasks[place, spec.role, number] = group.create_task(said(target, asked, text))
    judgements = {key: task.result() for key, task in tasks.items()}
    return tuple(
        Pair(target, spec, probe, judgements[place, spec.role, None], judgements.get((place, spec.role, n)))
        for place, target in enumerate(targets)
        for spec in bench.judges_of(target.model).values()
        for n, probe in enumerate(target.probes)
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

    def row(self, score: str) -> tuple[Any, ...]:
        """Return the pair as a row of `ProbeResult.frame`."""
        target, probe = self.target, self.probe
        return (
            *(target.run_id, target.base, target.length_bin, target.model, self.spec.role, self.spec.name),
            *(probe.kind, probe.variant, probe.detail, _score(self.original, score)),
            *(_score(self.altered, score), self.altered is not None, self.reason),
        )


@dataclass(frozen=True)
class ProbeResult:
    """What probing did: every pair of judgements, and the shifts that follow from them."""

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
