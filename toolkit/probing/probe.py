"""Probe the judges of a study: the same stored replies, altered, and how far each judge's score moves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.judges.ask import JudgeSpec
from toolkit.judges.judgement import Judgement, judge
from toolkit.judges.probes import KINDS
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.probing.result import Pair, ProbeResult
from toolkit.probing.targets import ATTACKS, REPLIES, Target, asked_as, probe_requests, probe_targets

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.stats.agreement.judge_card import JudgeCard
    from toolkit.store.connection import Store
    from toolkit.study import Study


def probe_judges(
    plan: Plan,
    store: Store,
    *,
    replies: int = REPLIES,
    seed: int | None = None,
    kinds: Collection[str] = KINDS,
    attacks: int | None = ATTACKS,
    progress: bool = True,
) -> ProbeResult:
    """Ask every judge about stored replies and their altered versions, with the study's own rubric and manner.

    Both members of a pair are asked under the repeat index of the original's judgement, which the study has paid for
    already, so that they differ in the text alone. Everything goes into the ledger: a second call asks nothing.
    """
    targets = probe_targets(plan, store, replies=replies, seed=seed, kinds=kinds, attacks=attacks)
    asked: list[Answer] = []

    async def work(ask: Ask, stop: threading.Event) -> list[Pair]:
        async def counted(request: ModelRequest) -> Answer:
            answer = await ask(request)
            if not answer.from_ledger:
                asked.append(answer)
            return answer

        return await _pairs(plan, targets, counted)

    requests = probe_requests(plan, targets)
    pairs = ask_study(plan, store, work, requests=requests, progress=progress)
    spent = sum(answer.aud_cost for answer in asked)
    return ProbeResult(plan.study.name, targets, tuple(pairs), len(asked), spent)


def cards_of(study: Study, result: ProbeResult | None = None) -> tuple[JudgeCard, ...]:
    """Return the card of every judge of a study, with what probes did where there are any."""
    from toolkit.stats.agreement.judge_card import judge_cards

    related = {role: judge.related for role, judge in study.plan.judges.items()}
    shifts = result.shifts() if result else None
    return judge_cards(study.judgements(), study.runs(), related=related, shifts=shifts)


def write_cards(study: Study, result: ProbeResult | None, folder: Path | str) -> list[Path]:
    """Write the card of every judge of a study, as figure and table, and return the files."""
    from toolkit.report.captions import source_words
    from toolkit.report.judge_card import write_judge_cards

    source = source_words(study.runs(), study.name, study.plan.dataset.version)
    return write_judge_cards(
        cards_of(study, result), folder, note=study.note, source=source, study=study.name
    )


async def _pairs(plan: Plan, targets: Sequence[Target], ask: Ask) -> list[Pair]:
    """Ask every judge about every text, all at once: the gateway keeps the limits."""
    tasks: dict[tuple[int, str, int], asyncio.Task[Judgement]] = {}
    async with asyncio.TaskGroup() as group:
        for place, target in enumerate(targets):
            for role, spec in plan.judges_of(target.run.model).items():
                for number, probe in enumerate((None, *target.probes)):
                    text = target.text if probe is None else probe.text
                    if text is not None:
                        asked = asked_as(spec, target, probe)
                        tasks[place, role, number] = group.create_task(_said(plan, target, asked, text, ask))
    pairs = []
    for place, target in enumerate(targets):
        for role, spec in plan.judges_of(target.run.model).items():
            original = tasks[place, role, 0].result()
            for number, probe in enumerate(target.probes, 1):
                task = tasks.get((place, role, number))
                pairs.append(Pair(target, spec, probe, original, task.result() if task else None))
    return pairs


async def _said(plan: Plan, target: Target, spec: JudgeSpec, text: str, ask: Ask) -> Judgement:
    return await judge(
        text,
        target.run.prompt.text,
        judge=spec,
        rubric=plan.rubric,
        ask=ask,
        manner=plan.manner,
        related=target.run.model in spec.related,
    )
