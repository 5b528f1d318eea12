"""The appendix of a report: the models, the rubric's wording, and an example of each level as sent and received."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.judges.rubric import fill
from toolkit.report.blocks import Block, Heading, Paragraph, Quote
from toolkit.store.records import reply_text
from toolkit.thesis.methods import sentences
from toolkit.words import one_line

if TYPE_CHECKING:
    from toolkit.analyses.answers import Analyses
    from toolkit.plan import Plan
    from toolkit.store.connection import Store
    from toolkit.thesis.methods import Done


def appendix(done: Done, store: Store, frames: Analyses) -> Iterator[Block]:
    """Yield the parts of the appendix of a study."""
    plan = done.plan
    yield Paragraph(sentences("asked", done), "Models and the days (UTC) of their replies")
    if plan.test.judged:
        rubric = plan.rubric
        text = fill(f"{rubric.instructions}\n\n{rubric.template}".strip(), rubric.static())
        yield Heading("Wording of the rubric")
        yield Quote(f"Rubric {rubric.name}, version {rubric.version}", text, whole=True)
    answered = frames.runs[frames.runs["status"] == "succeeded"]
    if not answered.empty:
        yield Heading("Examples, as they were sent and received")
        yield from _examples(plan, store, answered, frames.judgements)


def _examples(plan: Plan, store: Store, runs: pd.DataFrame, judgements: pd.DataFrame) -> Iterator[Block]:
    """Yield each prompt of the base that has most scores, with its replies and what judges said of them."""
    texts = {prompt.prompt_id: prompt.text for _, prompt in plan.runs.prompts}
    base = runs.groupby("base", observed=True)["judged"].sum().idxmax()
    rows = runs[runs["base"] == base].sort_values(["repeat", "model"], kind="stable")
    rows = rows.drop_duplicates(["prompt_id", "model"])
    for prompt in [name for name in texts if name in set(rows["prompt_id"])]:
        yield Quote(f"Prompt {prompt}", texts[prompt])
        for reply in rows[rows["prompt_id"] == prompt].itertuples():
            yield Quote(f"Reply of {reply.model} to {prompt}", reply_text(store, str(reply.run_id)))
            judged = judgements[judgements["run_id"] == reply.run_id]
            if lines := [_judgement(plan, row) for _, row in judged.iterrows()]:
                yield Quote(f"Judgements of the reply of {reply.model}", "\n".join(lines))


def _judgement(plan: Plan, row: pd.Series) -> str:
    """Return who gave which scores and why, or why there are none."""
    if row["failed"]:
        return f"{row['judge']}, {row['judge_model']}: none ({row['failure']})"
    scores = (f"{name} {score:g}" for name, score in row[[*plan.rubric.names]].dropna().items())
    reasons = "" if pd.isna(row["reasons"]) else row["reasons"]
    return f"{row['judge']}, {row['judge_model']}: {', '.join(scores)}. {one_line(reasons, len(reasons))}"
