"""Has the judges of a study look for the required elements of its bases in its replies, beside the rubric."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import InputError
from toolkit.judges.elements import CONTENT, DIGEST, INSTRUMENT, elements_request, find_elements
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan, PlannedRun
from toolkit.probes.job import usable_replies
from toolkit.store.records import judgement_record
from toolkit.words import Summary, counted

if TYPE_CHECKING:
    from toolkit.store.connection import Store
    from toolkit.study import Study


@dataclass(frozen=True)
class Target:
    """One reply, the elements that its base requires, and one judge."""

    run: PlannedRun
    run_id: str
    text: str
    elements: Sequence[str]
    judge: JudgeSpec
    related: bool

    @property
    def request(self) -> ModelRequest:
        """The request to the judge."""
        return elements_request(self.judge, self.elements, self.run.prompt.text, self.text)


def elements_by_prompt(plan: Plan) -> Mapping[str, Sequence[str]]:
    """Return the required elements by prompt, where the dataset has them."""
    return {p.prompt_id: p.metadata["elements"] for p in plan.dataset.prompts if p.metadata.get("elements")}


def element_targets(plan: Plan, store: Store) -> tuple[Target, ...]:
    """Return every stored reply of a base with elements, once for each judge; no model is called."""
    required = elements_by_prompt(plan)
    if not required:
        raise InputError(
            f"study {plan.study.name}: dataset {plan.dataset.name} names no required elements; give its bases the key "
            'elements, or take dataset = "rq1_controlled"'
        )
    replies = usable_replies(plan, store)
    return tuple(
        Target(
            run,
            *replies[run.key],
            required[run.prompt.prompt_id],
            spec.of_run(run.repeat),
            run.model in spec.related,
        )
        for run in plan.runs
        if run.key in replies and run.prompt.prompt_id in required
        for spec in plan.judges_of(run.model).values()
    )


def ask_elements(plan: Plan, store: Store, *, progress: bool = True) -> tuple[Judgement, ...]:
    """Have every judge look for the required elements in every reply; replies in the ledger are used again."""
    targets = element_targets(plan, store)
    store.add_rubric(DIGEST, INSTRUMENT, DIGEST[:12], CONTENT)

    async def work(ask: Ask, stop: threading.Event) -> tuple[Judgement, ...]:
        async def look(target: Target) -> Judgement:
            judgement = await find_elements(
                target.text,
                target.run.prompt.text,
                target.elements,
                judge=target.judge,
                ask=ask,
                related=target.related,
            )
            if judgement.answered:
                store.writer.post(judgement_record(target.run_id, plan.study.name, judgement))
            return judgement

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(look(target)) for target in targets]
        return tuple(task.result() for task in tasks)

    return ask_study(plan, store, work, requests=[target.request for target in targets], progress=progress)


def elements_summary(study: Study, judgements: Sequence[Judgement]) -> Summary:
    """Summarise the judgements and their agreement with the rubric; exit code 1 where a judge did not answer."""
    result = study.required_elements()
    unanswered = sum(not judgement.answered for judgement in judgements)
    unread = sum(judgement.failed and judgement.answered for judgement in judgements)
    lines = [
        f"elements  {counted(len(judgements), 'judgements')}, {unread} unreadable, {unanswered} unanswered"
    ]
    fields = {
        "judgements": len(judgements),
        "unreadable": unread,
        "unanswered": unanswered,
        "elements": result.to_dict(),
    }
    return Summary(fields, "\n".join([*lines, result.sentence()]), int(unanswered > 0))
