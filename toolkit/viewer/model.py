"""Reads runs with their replies, judgements, ratings and calls from the store for the viewer, as frozen objects.

Scores of replies in a running round of ratings are hidden, so that its rater does not see one by accident.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.judges.focus import focus_sentences
from toolkit.judges.judgement import Judgement
from toolkit.models.thoughts import split_thoughts, written_in
from toolkit.plan import Plan
from toolkit.report.visible import Span, spans_in_order
from toolkit.runs.stages import is_usable
from toolkit.scoring import Scheme
from toolkit.stats.result import plain
from toolkit.store.connection import Store
from toolkit.store.documents import Call, OutputBlob
from toolkit.store.frames import human_frame
from toolkit.store.ratings import Rating, known_raters, newest_ratings, running_rounds
from toolkit.store.records import reply_texts, stored_judgements, stored_runs
from toolkit.words import CROSSED

if TYPE_CHECKING:
    import pandas as pd

HIDDEN = "hidden_for"
"""Column with the raters whose running rounds hide the scores of a run; missing where none does."""
_COMPOSITES = ("composite", "composite_strict", "composite_std", "composite_low", "composite_high")
_SCORES = (*_COMPOSITES, "zeros", "people_composite")


LedgerCall = Mapping[str, Any]
"""A call as the ledger has it."""


@dataclass(frozen=True)
class OpenRun:
    """One run with everything that the store has of it."""

    run_id: str
    facts: Mapping[str, Any]
    prompt: str
    reply: str | None
    thoughts: str
    call: LedgerCall | None
    judges: tuple[tuple[Judgement, tuple[LedgerCall, ...]], ...]
    people: tuple[Rating, ...]
    hidden_for: str
    marked: tuple[Span, ...]
    marked_as: str
    scheme: Scheme


def search_texts(plan: Plan, store: Store, runs: pd.DataFrame) -> dict[str, str]:
    """Return the text to search for each run id: ids, prompt and reply, case folded."""
    blob_ids = runs["output_blob_id"].dropna()
    blobs = store.find_by(OutputBlob, "blob_id", blob_ids, only=("blob_id", "content"))
    replies = {blob["blob_id"]: blob["content"].casefold() for blob in blobs}
    prompts = {prompt.prompt_id: prompt.text.casefold() for _, prompt in plan.runs.prompts}
    texts = {}
    columns = runs[["run_id", "prompt_id", "model", "output_blob_id"]]
    for run_id, prompt_id, model, blob_id in columns.itertuples(index=False):
        ids = f"{run_id} {prompt_id} {model}".casefold()
        texts[run_id] = "\n".join((ids, prompts.get(prompt_id, ""), replies.get(blob_id, "")))
    return texts


def rows_of(plan: Plan, runs: pd.DataFrame, run_ids: Sequence[str]) -> pd.DataFrame:
    """Return the rows of runs in the order of the ids, or refuse an id that is not there."""
    by_id = runs.set_index("run_id", drop=False)
    if absent := [run_id for run_id in run_ids if run_id not in by_id.index]:
        raise InputError(f"run {absent[0]!r}: not in study {plan.study.name}; study.runs() lists the run ids")
    return by_id.loc[list(run_ids)]


def open_runs(plan: Plan, store: Store, runs: pd.DataFrame, run_ids: Sequence[str]) -> list[OpenRun]:
    """Read runs with all their parts, in the order of the ids."""
    rows = plain(rows_of(plan, runs, run_ids))
    prompts = {prompt.prompt_id: prompt.text for _, prompt in plan.runs.prompts}
    call_ids = [row["call_id"] for row in rows]
    stored = {run.run_id: run for run in stored_runs(store, plan.study.name, call_ids).values()}
    replies = reply_texts(store, stored.values())
    by_label = stored_judgements(store, stored.values(), plan.rubric.digest)
    rateable = {run.run_id: run.blob_id for run in stored.values() if is_usable(run) and run.blob_id}
    people = ratings_by_run(plan, store, rateable)
    judgements: dict[str, list[Judgement]] = {}
    for run_id, run in stored.items():
        found = {} if run.excluded else by_label.get(run_id, {})
        judgements[run_id] = [found[label] for label in run.judge_calls if label in found]
        call_ids += (call_id for judgement in judgements[run_id] for call_id in judgement.call_ids)
    documents = store.find_by(Call, "_id", call_ids, leave_out=("request",))
    calls = {call["_id"]: call for call in documents}
    opened = []
    for facts in rows:
        run_id, call = str(facts["run_id"]), calls.get(facts["call_id"])
        system = plan.study.level_of(facts["level"], facts.get(CROSSED)).system
        reply = replies.get(stored[run_id].blob_id or "") if run_id in stored else None
        hidden_for = facts.get(HIDDEN) or ""
        listed = [] if hidden_for else judgements.get(run_id, [])
        marked, marked_as = _marked(plan, reply or "", listed)
        asked = (tuple(calls[call_id] for call_id in item.call_ids if call_id in calls) for item in listed)
        opened.append(
            OpenRun(
                run_id=run_id,
                facts=facts,
                prompt=f"System message: {system}\n\n" * bool(system) + prompts[facts["prompt_id"]],
                reply=reply,
                thoughts=_thoughts_of(plan, call or {}),
                call=call,
                judges=tuple(zip(listed, asked, strict=True)),
                people=() if hidden_for else people.get(run_id, ()),
                hidden_for=hidden_for,
                marked=marked,
                marked_as=marked_as,
                scheme=plan.rubric.scheme,
            )
        )
    return opened


def _marked(plan: Plan, reply: str, judgements: Sequence[Judgement]) -> tuple[tuple[Span, ...], str]:
    """Return the marked spans of a reply and their name: segments with a fault, or focus sentences."""
    manner = plan.manner
    if manner.focus == "per_sentence" and judgements:
        details = (judgement.detail or {} for judgement in judgements)
        findings = (fault for detail in details for fault in detail.get("findings", ()))
        spans = spans_in_order((fault["start"], fault["end"]) for fault in findings)
        return spans, "segments in which a judge found a fault" if spans else ""
    if manner.focus == "listed":
        return (), ""
    sentences = focus_sentences(reply, manner.focus_sentences)
    spans = spans_in_order((sentence.start, sentence.end) for sentence in sentences)
    return spans, "focus sentences (the judges were not told of them)" if spans else ""


def _thoughts_of(plan: Plan, call: Mapping[str, Any]) -> str:
    """Return the thoughts of a call that are no part of the reply: those beside its text, and those taken out of it."""
    shown = written_in(json.loads(call["raw"])).thoughts if call.get("raw") else []
    if plan.study.replies.thoughts == "strip":
        shown.append(split_thoughts(call.get("text") or "")[1])
    return "\n\n".join(filter(None, shown))


def with_people(plan: Plan, store: Store, runs: pd.DataFrame, *, blind: bool = True) -> pd.DataFrame:
    """Return a runs frame with the ratings of people; while a round runs, scores of its replies are hidden."""
    import pandas as pd

    raters = known_raters(store, plan.study.name)
    rated = human_frame(store, runs if raters else runs[:0], plan.rubric.digest, plan.rubric.scheme)
    composites, run_ids = rated.groupby("run_id")["composite"], runs["run_id"]
    running = running_rounds(plan, store) if raters and blind else {}
    columns: dict[str, Any] = {
        "people_composite": run_ids.map(composites.mean()).astype("Float64"),
        "people_count": run_ids.map(composites.count()).fillna(0).astype("Int64"),
        HIDDEN: pd.array([", ".join(running.get(run, ())) or None for run in run_ids], dtype="string"),
    }
    frame = runs.assign(**columns)
    frame.loc[frame[HIDDEN].notna(), [*plan.rubric.names, *_SCORES]] = pd.NA
    return frame


def ratings_by_run(plan: Plan, store: Store, blobs: Mapping[str, str]) -> dict[str, tuple[Rating, ...]]:
    """Return the newest rating of each rater, also unfinished ones, by run id and in the order of their names."""
    ratings = newest_ratings(store, blobs, plan.rubric.digest)
    by_run: dict[str, tuple[Rating, ...]] = {}
    for (_, run_id), rating in sorted(ratings.items()):
        by_run[run_id] = (*by_run.get(run_id, ()), rating)
    return by_run
