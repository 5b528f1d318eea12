"""The appendix of a report: the rubric's wording, one example of each level as it was sent and received, and the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolkit.judges.rubric import fill
from toolkit.report.blocks import Block, Bullets, Heading, Quote
from toolkit.store.records import reply_text
from toolkit.words import counted, joined, one_line

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.analyses.answers import Analyses
    from toolkit.plan import Plan
    from toolkit.runs.provenance import Asked
    from toolkit.store.connection import Store


def appendix(plan: Plan, store: Store, frames: Analyses, answers: Sequence[Asked]) -> Iterator[Block]:
    """Yield the parts of the appendix of a study."""
    rows = [
        f"{answer.provider}: {answer.model}{', answered as ' * bool(answer.answered_by)}"
        f"{joined(answer.answered_by)}; {answer.purpose}, {counted(answer.calls, 'calls')}, {answer.days}"
        for answer in answers
    ]
    yield Bullets("Models that answered and judged, with the days (UTC) of their replies:", tuple(rows))
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
            yield Quote(f"Reply of {reply.model} to {prompt}", reply_text(store, reply.run_id))
            judged = judgements[judgements["run_id"] == reply.run_id]
            if lines := [_judgement(plan, row) for _, row in judged.iterrows()]:
                yield Quote(f"Judgements of the reply of {reply.model}", "\n".join(lines))


def _judgement(plan: Plan, row: pd.Series) -> str:
    """Return who gave which scores and why, or why there are none."""
    if row["failed"]:
        return f"{row['judge']}, {row['judge_model']}: none ({row['failure']})"
    scores = (f"{name} {row[name]:g}" for name in plan.rubric.names if row[name] == row[name])
    reasons = row["reasons"] or ""
    return f"{row['judge']}, {row['judge_model']}: {', '.join(scores)}. {one_line(reasons, len(reasons))}"
