"""How every planned run stands: its reply, what judges said of it, and what is still to be asked."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.judges.judgement import judge_label, judgement_requests
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import ModelRequest
from toolkit.plan import Plan, PlannedRun, PlannedRuns
from toolkit.prompt_test import PromptWithContext
from toolkit.runs.ledger import Ledger
from toolkit.store.connection import WINDOW, Store
from toolkit.store.documents import JUDGEMENT, Annotation, Run
from toolkit.store.records import StoredRun, judgements_of, reply_texts, run_documents, stored_run

_OF_JUDGEMENT = ("run_id", "judge", "model", "rubric_hash", "call_id", "answered", "failed", "reason")


@dataclass(frozen=True)
class JudgeState:
    """What one judge said of one run."""

    answered: bool
    reason: str | None = None
    calls: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class RunState:
    """How one planned run stands.

    ``request`` is what is asked next for its reply, ``None`` where that is there, and ``retries`` how often it may be
    asked again; ``text`` is a reply that is only in the ledger. ``to_judge`` says whether judges see the reply.
    """

    run: PlannedRun
    stored: StoredRun | None = None
    excluded: str | None = None
    judged_by: dict[str, JudgeState] = field(default_factory=dict)
    request: ModelRequest | None = None
    retries: int = 0
    text: str | None = None
    tokens: int | None = None
    to_judge: bool = True

    def answered_by(self, role: str) -> bool:
        """Return whether a judge has said all it will be asked for."""
        return role in self.judged_by and self.judged_by[role].answered

    def calls_of(self, role: str) -> tuple[str, ...]:
        """Return the calls of a judge that has said all it will be asked for."""
        return self.judged_by[role].calls if self.answered_by(role) else ()

    def reply(self, texts: Mapping[str, str]) -> str | None:
        """Return its reply, from those in the store by the id of their text; ``None`` where it is still to come."""
        if self.request is not None or self.text is not None or self.stored is None:
            return self.text
        return texts.get(self.stored.blob_id or "")


def is_answered(stored: StoredRun | None, policies: Mapping[str, str]) -> bool:
    """Return whether a run needs no asking: its reply is whole, or was treated as the study says now."""
    if stored is None or stored.failure:
        return False
    return stored.policy is None or stored.policy == policies.get(stored.defect or "")


def stored_by_index(
    runs: PlannedRuns, documents: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[int, StoredRun]]:
    """Yield the runs among raw ones that are planned, each with its index in the plan."""
    for run in documents:
        index = runs.find(run["prompt_id"], run["model"], run["repeat"], run["call_id"])
        if index is not None:
            yield index, stored_run(run)


def each_state(plan: Plan, store: Store, *, ahead: bool = False) -> Iterator[tuple[int, RunState]]:
    """Yield how every run of a plan stands in the store, with its index; those that are not there come last.

    Who looks ahead needs the calls of judges who have answered; who looks back, why they gave no scores.
    """
    reasons = {} if ahead else _failure_reasons(plan, store)
    is_stored = bytearray(len(plan.runs))
    unjudged: dict[str, tuple[int, RunState]] = {}
    leave_out = "" if ahead else "judge_calls"
    documents = run_documents(store, plan.study.name, plan.call_ids, leave_out=leave_out)
    for index, stored in stored_by_index(plan.runs, documents):
        is_stored[index] = True
        state = RunState(plan.runs[index], stored)
        if _is_settled(plan, state, reasons.get(stored.run_id, {})):
            yield index, state
            continue
        unjudged[stored.run_id] = index, state
        if len(unjudged) == WINDOW:
            yield from _with_judgements(plan, store, unjudged)
            unjudged = {}
    yield from _with_judgements(plan, store, unjudged)
    for index in range(len(plan.runs)):
        if not is_stored[index]:
            yield index, RunState(plan.runs[index])


def _is_settled(plan: Plan, state: RunState, reasons: Mapping[str, str]) -> bool:
    """Fill in what the run itself says; return whether that is all, so that no judgement need be read."""
    stored = state.stored
    if stored is None or stored.failure:
        return True
    state.tokens = stored.output_tokens
    now = getattr(plan.study.replies, stored.defect) if stored.defect else None
    if stored.defect and stored.policy != "keep" and now in ("exclude", stored.policy):
        state.excluded, state.to_judge = stored.defect, False
        return True
    is_replaced = now != stored.policy and "retry" in (now, stored.policy)
    if not is_replaced and stored.ensemble_key == plan.ensemble_key:
        # The whole ensemble as it stands has judged it: every judge has answered.
        calls = stored.judge_calls
        for role in plan.judges_of(state.run.model):
            labels = (judge_label(role, again) for again in range(plan.manner.repeats))
            own_calls = tuple(calls[label] for label in labels if label in calls)
            state.judged_by[role] = JudgeState(True, reasons.get(role), own_calls)
    return is_replaced or bool(state.judged_by)


def _with_judgements(
    plan: Plan, store: Store, states: Mapping[str, tuple[int, RunState]]
) -> Iterator[tuple[int, RunState]]:
    """Yield states by run id, each with its index, with what single judges said of their runs."""
    # A judgement counts when its call is the one that would be asked now: under another temperature or seed it would be
    # asked, and paid for, again.
    names = {role: judge.name for role, judge in plan.judges.items()}
    documents = {
        (document["run_id"], document["call_id"]): document
        for document in judgements_of(store, states, only=_OF_JUDGEMENT)
        if document["rubric_hash"] == plan.rubric.digest and names.get(document["judge"]) == document["model"]
    }
    judged = {run_id: states[run_id][1] for run_id, _ in documents}
    texts = reply_texts(store, (state.stored for state in judged.values() if state.stored))
    for run_id, state in judged.items():
        run, text = state.run, state.reply(texts) or ""
        for role in plan.judges_of(run.model):
            judges = (plan.judges[role].of_run(run.repeat, again) for again in range(plan.manner.repeats))
            firsts = (score_requests(plan, judge, run.prompt, text)[0] for judge in judges)
            judgements = [documents.get((run_id, request.identity())) for request in firsts]
            if present := [judgement for judgement in judgements if judgement]:
                reasons = [judgement["reason"] or "unknown" for judgement in present if judgement["failed"]]
                state.judged_by[role] = JudgeState(
                    all(judgement and judgement["answered"] for judgement in judgements),
                    # One repeat that can be read is enough, as in the ensemble.
                    reasons[0] if len(reasons) == len(present) else None,
                    tuple(judgement["call_id"] for judgement in present),
                )
    yield from states.values()


def stored_states(plan: Plan, store: Store, call_ids: Collection[str]) -> Iterator[RunState]:
    """Yield the states of the runs in the store that some calls answer, without what judges said of them."""
    documents = run_documents(store, plan.study.name, call_ids)
    for index, run in stored_by_index(plan.runs, documents):
        yield RunState(plan.runs[index], run, to_judge=not (run.failure or run.excluded))


def states_ahead(plan: Plan, store: Store) -> tuple[RunState, ...]:
    """Return the states with what every run has ahead of it, following the ledger as the study will."""
    replies = plan.study.replies
    policies = replies.model_dump(exclude={"retries", "thoughts"})
    retries = replies.retries if "retry" in (replies.truncated, replies.empty) else 0
    by_index = dict(each_state(plan, store, ahead=True))
    states = tuple(by_index[index] for index in range(len(plan.runs)))
    waiting = [state for state in states if not is_answered(state.stored, policies)]
    for state in waiting:
        state.request, state.retries, state.tokens, state.to_judge = state.run.request, retries, None, True
    ledger = Ledger(store, plan.study.name)
    while waiting:
        waiting_requests = [(state, state.request) for state in waiting if state.request]
        answers = ledger.prefetch(request.identity() for _, request in waiting_requests)
        waiting = []
        for state, request in waiting_requests:
            if (answer := answers.get(request.identity())) is None:
                continue
            defect = answer.reply.defect
            policy = policies[defect] if defect else "keep"
            if policy == "retry" and state.retries:
                state.request = replace(request, max_tokens=2 * request.max_tokens)
                state.retries -= 1
                waiting.append(state)
            else:
                state.request, state.text, state.tokens = None, answer.reply.text, answer.reply.usage.output
                state.to_judge = policy == "keep" and defect != "empty"
    return states


def score_requests(
    plan: Plan, judge: JudgeSpec, prompt: PromptWithContext, text: str
) -> Sequence[ModelRequest]:
    """Return the requests of one judgement of a reply to a prompt, repairs left out; the first one names it."""
    reference = str(prompt.context or "")
    return judgement_requests(judge, plan.rubric, prompt.text, text, plan.manner, reference)


def _failure_reasons(plan: Plan, store: Store) -> dict[str, dict[str, str]]:
    """Return why judges gave no scores, by run id and role, as the ensembles of the runs have it."""
    # Only runs with a judgement that failed, under whatever settings, are read: reading every ensemble takes as long as
    # everything else together.
    key = {"study": plan.study.name, "kind": JUDGEMENT, "rubric_hash": plan.rubric.digest, "failed": True}
    failed = store.each_where(Annotation, key, only=("run_id",))
    ids = [judgement["run_id"] for judgement in failed]
    return {
        run["run_id"]: {
            role: result["reason"] or "unknown"
            for role, result in ((run.get("ensemble_evaluation") or {}).get("judge_results") or {}).items()
            if result["evaluation_failed"]
        }
        for run in store.find_by(Run, "run_id", ids, only=("run_id", "ensemble_evaluation"))
    }
