"""From what is stored to measurements and results: free, and made again from the ledger at any time."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.judges.request import NOT_REPAIRED, UNPARSED
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.plan import Plan, PlannedRun, PlannedRuns, RunKey
from toolkit.prompt_test import (
    MeasuredTestItem,
    Measurement,
    PromptReply,
    PromptResponseTest,
    Result,
    TestItem,
    TestItemAnnotations,
    annotate,
    code_of_users,
)
from toolkit.runs.ledger import Ledger
from toolkit.runs.progress import duration
from toolkit.runs.provenance import answered_by_others, shared_replies
from toolkit.runs.status import stage_counts, waiting_work
from toolkit.stats.result import Estimate, rounded_apart
from toolkit.store.connection import WINDOW, Store
from toolkit.store.records import StoredRun, reply_texts, stored_judgements, stored_runs
from toolkit.words import Summary, reason_key, template

_OPTIONAL = ("final", "stages", "waiting", "shared")


@dataclass(frozen=True)
class Outcome:
    """What one execution of a study did, and where the study stands after it."""

    planned: int
    succeeded: int
    failed: int
    excluded: Mapping[str, int]
    judged: int | None
    judgements_failed: int | None
    new_calls: int
    spent_aud: float
    failures: Mapping[str, int]
    budget: str | None
    answered_by_others: Sequence[Mapping[str, Any]]
    results: tuple[tuple[str, Estimate], ...]
    failed_before: Mapping[str, int]
    not_begun: int
    to_judge: int
    final: Mapping[str, int] = field(default_factory=dict)  # replies of judges that cannot be read, by reason
    repair: bool = True
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # counts by stage
    waiting: Sequence[Mapping[str, Any]] = ()
    shared: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 done, 1 done but some runs failed, wait for a server or cannot be read, 3 budget reached."""
        return 3 if self.budget else int(bool(self.failed or self.waiting or self.unread))

    @property
    def unread(self) -> list[str]:
        """Models of whose replies a test with a key could read none."""
        return [model for model, result in self.results if result.name == "readable" and result.estimate == 0]

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON types."""
        fields = {name: value for name, value in vars(self).items() if value or name not in _OPTIONAL}
        for name in ("failed_before", "not_begun", "to_judge", "repair", "seconds"):
            del fields[name]
        fields["results"] = [{"model": model} | result.to_dict() for model, result in self.results]
        return fields

    def summary(
        self,
        means: Sequence[Estimate] = (),
        findings: Sequence[str] = (),
        warning: str = "",
        report: str = "",
    ) -> Summary:
        """Return what the command line says at the end: what warns, means, first findings, and where the report is."""
        words = {
            "unparsed": UNPARSED,
            "not_repaired": NOT_REPAIRED,
            "rounded": rounded_apart,
            "duration": duration,
        }
        values = {"means": means, "findings": findings, "warning": warning, "report": report}
        text = template("runs", "outcome.jinja").render(words, outcome=self, **values)
        fields = self.to_dict() | ({"report": report} if report else {})
        return Summary(fields, text, self.exit_code)


@dataclass(frozen=True)
class Annotated:
    """One item as one model answered it in one repeat, with what every annotator said."""

    model: str
    repeat: int
    found: TestItemAnnotations


async def annotated_windows(
    plan: Plan, runs: PlannedRuns, store: Store
) -> AsyncIterator[tuple[str, list[Annotated], dict[RunKey, StoredRun]]]:
    """Yield a model, some of its items annotated from what is stored, and how their runs stand; nothing is asked.

    A model's windows follow each other, and so does what is in them; the store is read for each window alone.
    """
    ask = _ask_ledger(Ledger(store, plan.study.name))
    roles = tuple(plan.test.annotators())
    for model, window in runs.windows(WINDOW):
        stored = stored_runs(store, plan.study.name, [run.call_id for run in window])
        texts = reply_texts(store, stored.values())
        judged = plan.test.judged
        judgements = stored_judgements(store, stored.values(), plan.rubric.digest) if judged else {}
        groups: dict[tuple[int, str], list[PlannedRun]] = defaultdict(list)
        for run in window:
            groups[run.repeat, run.item.item_id].append(run)
        annotated = []
        for (repeat, _), item_runs in groups.items():
            item = item_runs[0].item
            replies = tuple(reply_of(run, stored.get(run.key), texts) for run in item_runs)
            if judged:
                labels = [judgements.get(r.run_id, {}) if r.text is not None else {} for r in replies]
                by_role = {role: tuple(by_label.get(role) for by_label in labels) for role in roles}
                annotations = TestItemAnnotations(item, replies, by_role)
            else:
                annotations = await annotated_by(plan.test, item, replies, ask)
            annotated.append(Annotated(model, repeat, annotations))
        yield model, annotated, stored


async def annotated_items(plan: Plan, store: Store) -> list[Annotated]:
    """Return every item of a study for every model and repeat, annotated from what is stored; nothing is asked."""
    return [item async for _, items, _ in annotated_windows(plan, plan.runs, store) for item in items]


async def annotated_by(
    test: PromptResponseTest,
    item: TestItem,
    replies: tuple[PromptReply, ...],
    ask: Ask,
    stop: threading.Event | None = None,
) -> TestItemAnnotations:
    """Have a test annotate the replies to an item; an error in the test's own code is one line, and sets ``stop``."""
    with _guarded(test, f"an annotator failed on item {item.item_id!r}"):
        return await annotate(test, item, replies, ask, stop)


def measured_items(test: PromptResponseTest, annotated: Iterable[Annotated]) -> list[MeasuredTestItem]:
    """Return the measurements of every item; equal ones are one object, for many thousands are held at once."""
    measured = []
    equal: dict[Any, Measurement] = {}
    for annotation in annotated:
        item = annotation.found.item
        with _guarded(test, f"measure_quality failed on item {item.item_id!r}"):
            numbers = tuple(
                equal.setdefault((number, type(number.value)), number)
                for number in test.measure_quality(annotation.found)
            )
        measured.append(MeasuredTestItem(item, numbers, annotation.model, annotation.repeat))
    return measured


def results_of_model(test: PromptResponseTest, measured: Sequence[MeasuredTestItem]) -> Sequence[Result]:
    """Return the results of one model: those that the test promised, in its order."""
    with _guarded(test, "result_types failed"):
        promised = [kind.name for kind in test.result_types()]
    with _guarded(test, "aggregate_measurements failed"):
        results = test.aggregate_measurements(measured)
    names = [result.name for result in results]
    if names != promised:
        odd = next((n for n in [*names, *promised] if (n in names) != (n in promised)), "their order")
        raise InputError(
            f"test {test.name}: aggregate_measurements and result_types do not agree ({odd!r}); "
            "return one result for each type, in the same order"
        )
    return results


def results_of(
    test: PromptResponseTest, measured: Sequence[MeasuredTestItem]
) -> tuple[tuple[str, Result], ...]:
    """Return the results of every model."""
    by_model: dict[str, list[MeasuredTestItem]] = defaultdict(list)
    for item in measured:
        by_model[item.model].append(item)
    return tuple(
        (model, result) for model, items in by_model.items() for result in results_of_model(test, items)
    )


async def measure(
    plan: Plan,
    runs: PlannedRuns,
    store: Store,
    new_calls: int,
    spent_aud: float,
    reached: BudgetReached | None,
    failed_before: Mapping[RunKey, str],
) -> Outcome:
    """Measure every item, aggregate over items for each model, and say where the study stands."""
    succeeded = judged = judgements_failed = to_judge = 0
    failures, excluded, as_before, unread = (Counter[str]() for _ in range(4))
    measured: list[MeasuredTestItem] = []
    async for _, annotated, stored in annotated_windows(plan, runs, store):
        measured += measured_items(plan.test, annotated)
        labels = (label for item in annotated for row in item.found.annotations.values() for label in row)
        failed = [label for label in labels if plan.scored and label is not None and label.failed]
        judgements_failed += len(failed)
        unread.update(reason_key(judgement.reason or "unknown") for judgement in failed if judgement.answered)
        for key, run in stored.items():
            if run.failure:
                reason = reason_key(run.failure)
                failures[reason] += 1
                as_before[reason] += failed_before.get(key) == reason
                continue
            succeeded += 1
            excluded.update([run.excluded] if run.excluded else [])
            judged += run.judged and not run.excluded
            to_judge += plan.scored and not run.excluded and run.ensemble_key is None
    results = results_of(plan.test, measured)
    stages = stage_counts(plan, store)
    for counts in stages.values():
        unread.update(counts["unread"])
    return Outcome(
        planned=len(runs),
        succeeded=succeeded,
        failed=failures.total(),
        excluded=dict(excluded),
        judged=judged if plan.scored else None,
        judgements_failed=judgements_failed if plan.scored else None,
        new_calls=new_calls,
        spent_aud=spent_aud,
        failures=dict(failures),
        budget=str(reached) if reached else None,
        answered_by_others=answered_by_others(store, plan.study.name),
        # Of replies that are only compared there is no score to aggregate.
        results=results if plan.scored or judged or not plan.compared else (),
        failed_before=+as_before,
        not_begun=len(plan.runs) - len(runs),
        to_judge=to_judge,
        final=dict(unread),
        repair=plan.manner.repair,
        stages=stages,
        waiting=waiting_work(plan, store, len(runs)),
        shared=shared_replies(plan, store),
    )


def reply_of(run: PlannedRun, stored: StoredRun | None, texts: Mapping[str, str]) -> PromptReply:
    """Return what a run answered as a test sees it; a run without a usable reply says why."""
    if stored is None:
        return PromptReply(run.prompt, None, "", run.model, run.repeat, "not asked yet")
    failure = stored.failure or (f"excluded: {stored.excluded} reply" if stored.excluded else None)
    text = None if failure else texts.get(stored.blob_id or "")
    return PromptReply(run.prompt, text, stored.run_id, run.model, run.repeat, failure)


def _ask_ledger(ledger: Ledger) -> Ask:
    """Return an ``ask`` that spends nothing: what is not paid for is missing."""
    answers: dict[str, Answer] | None = None
    reading = asyncio.Lock()

    async def ask(request: ModelRequest) -> Answer:
        nonlocal answers
        async with reading:
            if answers is None:  # most tests ask nobody, and then nothing is read
                answers = await asyncio.to_thread(ledger.kept)
        answer = answers.get(request.identity())
        if answer is None:
            fetched = await asyncio.to_thread(ledger.prefetch, [request.identity()])
            answers.update(fetched)
            answer = answers.get(request.identity())
        if answer is None:
            raise ModelError("not asked yet", reason="not_in_ledger")
        return answer

    return ask


def _guarded(test: PromptResponseTest, action: str) -> AbstractContextManager[None]:
    return code_of_users(f"test {test.name}: {action}", InputError, "; `toolkit --debug` shows where")
