"""Single experiments of the one-shot test: what is known of each, as rows with verdict and evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from toolkit.prompt_test import TestItem, TestItemAnnotations
from toolkit.protocols.citations import Verdict
from toolkit.protocols.questions import Question
from toolkit.protocols.sample_facts import Facts

_KEYS = "method variant question sample model repeat"
_COLUMNS = f"{_KEYS} verdict matched found why invented run_id".split()


@dataclass(frozen=True)
class OneShotContext:
    """What the model never sees of a method, and what it sees of the sample."""

    variant: str
    question: Question
    csv: str
    facts: Facts


def experiments_frame(annotated: Iterable[TestItemAnnotations]) -> pd.DataFrame:
    """Return one row an experiment, with its verdict and the evidence."""
    rows = []
    for one in annotated:
        (reply,) = one.replies
        kept = one.annotations.get("verdict", (None,))[0]
        verdict, reason = verdict_of(one)
        rows.append(
            {
                **experiment_row(one.item, reply.model, reply.repeat),
                "verdict": verdict,
                "matched": kept.matched if kept else None,
                "found": kept.found if kept else None,
                "why": reason or kept.why,
                "invented": "; ".join(f"{c.kind} {c.text}" for c in kept.invented) if kept else None,
                "run_id": reply.run_id,
            }
        )
    types = dict.fromkeys(_COLUMNS, "string") | {"repeat": "Int64", "matched": "boolean"}
    return pd.DataFrame(rows, columns=_COLUMNS).astype(types)


def experiment_row(item: TestItem, model: str, repeat: int) -> dict[str, object]:
    """Return which experiment of which method it is."""
    context: OneShotContext = item.context
    cells = (item.item_id, context.variant, context.question.id, context.facts.sample, model, repeat)
    return dict(zip(_KEYS.split(), cells, strict=True))


def verdict_of(one: TestItemAnnotations) -> tuple[str | None, str | None]:
    """Return the verdict of an experiment, or why there is none."""
    (reply,) = one.replies
    kept: Verdict | None = one.annotations.get("verdict", (None,))[0]
    if reply.text is None:
        return None, f"incomplete: run failed: {reply.failure}"
    if kept is None:
        return None, "incomplete: no verdict yet"
    return kept.verdict, None if kept.verdict else f"incomplete: {kept.why}"
