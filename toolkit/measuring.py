"""From what is stored to measurements and results: free, and made again from the ledger at any time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from toolkit.errors import BudgetReached
from toolkit.outcome import Outcome
from toolkit.plan import Plan
from toolkit.prompt_test import MeasuredTestItem, PromptReply, TestItem, TestItemAnnotations
from toolkit.runs.plan import PlannedRun
from toolkit.store.connection import Store
from toolkit.store.stored import Stored, reply_texts, stored_judgements


def measure(
    plan: Plan,
    runs: Sequence[PlannedRun],
    store: Store,
    stored: Mapping[tuple[str, str, int], Stored],
    new_calls: int,
    spent_aud: float,
    reached: BudgetReached | None,
) -> Outcome:
    """Measure every item, aggregate over items for each model, and say where the study stands.

    Parameters
    ----------
    plan
        The planned study.
    runs
        The planned runs that count.
    store
        Its open store.
    stored
        The runs as they stand in it, by prompt id, model and repeat.
    new_calls, spent_aud
        What this execution asked and paid.
    reached
        The budget's error, if it was reached.
    """
    test = plan.test
    texts = reply_texts(store, stored.values())
    said = stored_judgements(store, stored.values(), plan.rubric.digest) if plan.judges else {}
    groups: dict[tuple[str, int, str], list[PlannedRun]] = defaultdict(list)
    items: dict[str, TestItem] = {}
    for run in runs:
        groups[run.model, run.repeat, run.item.item_id].append(run)
        items[run.item.item_id] = run.item
    measured: dict[str, list[MeasuredTestItem]] = defaultdict(list)
    roles = tuple(test.annotators())
    for (model, repeat, item_id), of_item in groups.items():
        replies = tuple(reply_of(run, stored.get(run.key), texts) for run in of_item)
        judgements = [said.get(reply.run_id, {}) if reply.text is not None else {} for reply in replies]
        annotations = {role: tuple(found.get(role) for found in judgements) for role in roles}
        numbers = test.measure_quality(TestItemAnnotations(items[item_id], replies, annotations))
        measured[model].append(MeasuredTestItem(items[item_id], tuple(numbers), model, repeat))
    failures = Counter(s.failure.split(":")[0] for s in stored.values() if s.failure)
    return Outcome(
        planned=len(runs),
        succeeded=sum(not s.failure for s in stored.values()),
        failed=sum(failures.values()),
        excluded=dict(Counter(s.excluded for s in stored.values() if s.excluded)),
        judged=sum(s.judged and not s.excluded for s in stored.values()),
        new_calls=new_calls,
        spent_aud=spent_aud,
        failures=dict(failures),
        budget=str(reached) if reached else None,
        results=tuple(
            (model, result)
            for model, found in measured.items()
            for result in test.aggregate_measurements(found)
        ),
    )


def reply_of(run: PlannedRun, stored: Stored | None, texts: Mapping[str, str]) -> PromptReply:
    """Return what a run answered as a test sees it; a run without a usable reply says why.

    Parameters
    ----------
    run
        The planned run.
    stored
        The run as it stands in the store; ``None`` when it was not asked yet.
    texts
        Replies by the id of their text.
    """
    if stored is None:
        return PromptReply(run.prompt, None, "", run.model, run.repeat, "not asked yet")
    failure = stored.failure or (f"excluded: {stored.excluded} reply" if stored.excluded else None)
    text = None if failure else texts.get(stored.blob_id or "")
    return PromptReply(run.prompt, text, stored.run_id, run.model, run.repeat, failure)
