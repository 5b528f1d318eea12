"""The stages that ship: judgements, asked first and anew later, votes on pairs of replies, and required elements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from typing import Any

import pandas as pd

from toolkit.judges import elements, pairs
from toolkit.judges.judgement import Judgement, judge, judgement_of, judgement_requests
from toolkit.judges.per_sentence import estimate_segments
from toolkit.judges.request import AGAIN_STRIDE, DAY_STRIDE, RUN_STRIDE, JudgeSpec, ask_and_read, shown_before
from toolkit.models.base import Ask, ModelRequest
from toolkit.plan import Plan, RunKey
from toolkit.runs.run_state import score_requests
from toolkit.runs.stages import RunsByKey, Stage, Task, annotations, is_usable
from toolkit.store.connection import Store
from toolkit.store.documents import Annotation
from toolkit.store.drifts import anchors_of
from toolkit.store.frame_files import typed, types_of
from toolkit.store.records import reply_texts, stored_runs

_FIRST_DAY = date(1970, 1, 1)
_Texts = Sequence[str]


# --- votes on pairs of replies ----------------------------------------------------------------------------------------


def _ballots(plan: Plan, store: Store) -> Iterator[Task]:
    """Yield each pair with each judge in both orders; none judges its own family where that is excluded."""
    judges = {name: plan.judges_of(name) for name in plan.models}
    for pair in plan.pairs:
        runs = tuple((pair.prompt_id, name, pair.repeat) for name in pair.models)
        for role, spec in plan.judges.items():
            if all(role in judges[name] for name in pair.models):
                # Two orders of equal replies are one text: the index makes two calls of them.
                yield Task(spec.of_run(pair.repeat), runs)
                yield Task(spec.of_run(pair.repeat, 1), runs[::-1])


def _pair_request(plan: Plan, task: Task, texts: _Texts) -> ModelRequest:
    return pairs.pair_request(task.judge, plan.rubric, plan.prompts[task.runs[0][0]].text, *texts)


async def _vote(plan: Plan, task: Task, texts: _Texts, ask: Ask) -> Judgement:
    reply = await ask_and_read(_pair_request(plan, task, texts), pairs.parse_vote, ask, plan.manner.repair)
    return judgement_of(task.judge, reply, pairs.INSTRUMENT, plan.rubric.digest, task.related)


VOTES = Stage("votes", _ballots, lambda *question: [_pair_request(*question)], _vote)


def pairs_frame(plan: Plan, store: Store) -> pd.DataFrame:
    """Return one row a vote, in the order in which the pairs were drawn."""
    replies: RunsByKey = stored_runs(store, plan.study.name, plan.call_ids) if plan.pairs else {}
    tasks = [*VOTES.tasks(plan, store)]
    votes = annotations(VOTES, plan, store, tasks, replies)
    order, rows = [*plan.models], []
    for task in tasks:
        if (vote := votes.get(task)) is None:
            continue
        ((prompt_id, first, repeat), (_, second, _)), detail = task.runs, vote["detail"] or {}
        prompt, choice = plan.sources[prompt_id], detail.get("vote")
        row = {name: getattr(prompt, name) for name in ("prompt_id", "base", "scenario", "level")}
        row |= {
            "first_run_id": vote["shown"][0]["run_id"],
            "second_run_id": vote["shown"][1]["run_id"],
            "repeat": repeat,
            "cluster": plan.clusters.get(prompt.base, prompt.base),
            "judge_model": vote["model"],
            "first": first,
            "second": second,
            "swapped": order.index(first) > order.index(second),
            "vote": choice,
            "winner": {"first": first, "second": second, "tie": "tie"}.get(choice or ""),
        }
        rows.append({**vote, **row})
    return typed(rows, types_of("pairs"))


# --- required elements ------------------------------------------------------------------------------------------------


def required_elements(plan: Plan, prompt_id: str) -> Sequence[str]:
    """Return the elements that a good answer to a prompt has, as its base names them."""
    return plan.sources[prompt_id].metadata.get("elements") or ()


def _element_tasks(plan: Plan, store: Store) -> Iterator[Task]:
    for run in plan.runs:
        if required_elements(plan, run.prompt.prompt_id):
            yield from judge_tasks(plan, run.key)


def _elements_requests(plan: Plan, task: Task, texts: _Texts) -> list[ModelRequest]:
    (prompt_id, _, _), (text,) = task.runs[0], texts
    required = required_elements(plan, prompt_id)
    return [elements.elements_request(task.judge, required, plan.prompts[prompt_id].text, text)]


async def _elements(plan: Plan, task: Task, texts: _Texts, ask: Ask) -> Judgement:
    required = required_elements(plan, task.runs[0][0])
    read = partial(elements.parse_elements, elements=required, response=texts[0])
    reply = await ask_and_read(_elements_requests(plan, task, texts)[0], read, ask)
    return judgement_of(task.judge, reply, elements.INSTRUMENT, elements.DIGEST, task.related)


ELEMENTS = Stage("elements", _element_tasks, _elements_requests, _elements, automatic=False)


# --- judgements that are asked anew -----------------------------------------------------------------------------------


def on_day(request: ModelRequest, day: str) -> ModelRequest:
    """Return a request as it is asked anew on a day: the same to its model, another call to the ledger."""
    days = (date.fromisoformat(day) - _FIRST_DAY).days if day else 0
    return replace(request, repeat=request.repeat + DAY_STRIDE * days)


def anchor_tasks(plan: Plan, store: Store, anchor: Mapping[str, Any], day: str) -> list[Task]:
    """Return the judgements of an anchor set on a day; none where a reply or a request is not what it was."""
    replies = stored_runs(store, plan.study.name, plan.call_ids)
    usable = {run.run_id: (key, run) for key, run in replies.items() if is_usable(run)}
    texts = reply_texts(store, (run for _, run in usable.values()))
    tasks: list[Task] = []
    for reply in anchor["replies"]:
        key, run = usable.get(reply["run_id"], (None, None))
        if key is None or not run or not run.blob_id or run.blob_id != reply["blob_id"]:
            return []
        again = [replace(task, context=anchor["_id"], day=day) for task in judge_tasks(plan, key)]
        if anchored_calls(plan, again, texts.get(run.blob_id, "")) != reply["calls"]:
            return []
        tasks += again
    return tasks


def anchored_calls(plan: Plan, tasks: Iterable[Task], text: str) -> dict[str, str]:
    """Return the calls of the judgements of a reply as they were asked first, by role."""
    firsts = {task.judge.role: _score_requests(plan, replace(task, day=""), [text])[0] for task in tasks}
    return {role: request.identity() for role, request in firsts.items()}


def _drift_tasks(plan: Plan, store: Store) -> Iterator[Task]:
    """Yield the tasks of every day on which something was asked anew."""
    for anchor in anchors_of(store, plan.study.name):
        query = {"study": plan.study.name, "kind": "drift", "context": anchor["_id"]}
        for day in sorted(
            {document["day"] for document in store.each_where(Annotation, query, only=("day",))}
        ):
            yield from anchor_tasks(plan, store, anchor, day)


def _score_requests(plan: Plan, task: Task, texts: _Texts) -> list[ModelRequest]:
    ((prompt_id, _, _),), (text,) = task.runs, texts
    requests = score_requests(plan, task.judge, plan.prompts[prompt_id], text)
    return [*{request.identity(): on_day(request, task.day) for request in requests}.values()]


async def _score(plan: Plan, task: Task, texts: _Texts, ask: Ask) -> Judgement:
    prompt, (text,) = plan.prompts[task.runs[0][0]], texts
    judgement = await judge(
        text,
        prompt.text,
        judge=task.judge,
        rubric=plan.rubric,
        ask=lambda request: ask(on_day(request, task.day)),
        manner=plan.manner,
        judge_repeat=task.judge.repeat % RUN_STRIDE // AGAIN_STRIDE,
        related=task.related,
        reference=str(prompt.context or ""),
    )
    return replace(judgement, call_id=_score_requests(plan, task, texts)[0].identity())


DRIFT = Stage("drift", _drift_tasks, _score_requests, _score, automatic=False, purpose="drift")


# --- judgements of runs -----------------------------------------------------------------------------------------------


_of_run = cache(JudgeSpec.of_run)  # one object for all runs of a repeat


def judge_tasks(plan: Plan, key: RunKey, times: int = 1) -> Iterator[Task]:
    """Yield a task about the reply to one run for each of its judges, as it is asked first, or each time."""
    _, model, repeat = key
    for spec in plan.judges_of(model).values():
        for again in range(times):
            yield Task(_of_run(spec, repeat, again), (key,))


def _judgement_tasks(plan: Plan, store: Store) -> Iterator[Task]:
    """Yield what judges score, or what a test of another kind may ask them."""
    for run in () if plan.compared and not plan.scored else plan.runs:
        yield from judge_tasks(plan, run.key, plan.manner.repeats)


def _blank_judgement(plan: Plan, task: Task) -> tuple[ModelRequest, str]:
    prompt = plan.prompts[task.runs[0][0]]
    shown = shown_before(plan.rubric, plan.manner, prompt.text, prompt.context or "")
    return judgement_requests(task.judge, plan.rubric, "", "", plan.manner)[0], shown


JUDGEMENTS = Stage(
    "judgements",
    _judgement_tasks,
    # What another test than that of a rubric asks only its annotators know.
    lambda plan, task, texts: _score_requests(plan, task, texts) if plan.test.judged else [],
    _score,
    parts=lambda plan, tokens: 1 + estimate_segments(tokens) * (plan.manner.focus == "per_sentence"),
    blank=_blank_judgement,
    answered=lambda state, task: state.calls_of(task.judge.role),
)
"""Asked run by run, each as soon as its reply is there, by the annotators of the test (`toolkit.pipeline`)."""

STAGES = [VOTES, ELEMENTS, DRIFT]
"""Every stage that studies know; one of your own is added to it."""


def automatic_stages() -> list[Stage]:
    """Return the stages that are a part of `toolkit run`."""
    return [stage for stage in STAGES if stage.automatic]


def stages_of(plan: Plan, store: Store) -> list[Stage]:
    """Return the stages of a study: those of every run, and those that somebody asked for."""
    study = plan.study.name
    return [s for s in STAGES if s.automatic or store.has(Annotation, {"study": study, "kind": s.name})]
