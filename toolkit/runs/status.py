"""How far a study is, read from the store without asking anything: from another terminal while it runs, or later."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from toolkit.plan import Plan
from toolkit.runs.budget import settled_aud, settlements, unsure_calls
from toolkit.runs.instruments import automatic_stages
from toolkit.runs.ledger import calls_by_state, claimed_calls, open_batches, unreachable, was_sent
from toolkit.runs.owner import living_owner
from toolkit.runs.progress import duration
from toolkit.runs.provenance import (
    booked_rate,
    other_models,
    rates_sentence,
    shared_replies,
)
from toolkit.runs.run_state import RunState, each_state
from toolkit.runs.stages import count
from toolkit.store.connection import Store
from toolkit.store.writer import Document, Fields, utc_now
from toolkit.words import Summary, reason_key, template, total_aud

RATE_SECONDS = 300.0  # the rate is that of the last five minutes
ANSWERED = "answered"  # outcome of an attempt that brought a reply


@dataclass
class _Tally:
    """Counts of the runs of a study, filled in one pass over them."""

    runs: Counter[str | None] = field(default_factory=Counter)  # by status
    excluded: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    left_out: int = 0  # judgements of replies that judges do not see
    judgements: Counter[bool] = field(default_factory=Counter)  # by whether they are answered
    unread: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)

    def add(self, plan: Plan, state: RunState) -> None:
        """Count one run."""
        stored = state.stored
        self.runs[None if stored is None else "failed" if stored.failure else "succeeded"] += 1
        if stored is None:
            return
        if stored.failure:
            self.failures[reason_key(stored.failure)] += 1
            return
        self.finish_reasons[stored.finish_reason or "unknown"] += 1
        if state.excluded:
            self.excluded[state.excluded] += 1
            self.left_out += len(plan.judges_of(state.run.model)) if plan.scored else 0
        for judgement in state.judged_by.values() if plan.scored else ():
            self.judgements[judgement.answered] += 1
            if judgement.reason is not None:
                reasons = self.unread if judgement.answered else self.unanswered
                reasons[reason_key(judgement.reason)] += 1


@dataclass
class _EndedCalls:
    """Which models the ended calls of a study asked and were answered by, and how many ended lately."""

    FIELDS: ClassVar = ("model", "answered_by", "updated_at", "latency_ms", "aud_per_usd")
    now: datetime = field(default_factory=utc_now)
    # Of a model asked and the one that answered.
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    recent: int = 0
    first_sent: datetime | None = None
    rates: Counter[float] = field(default_factory=Counter)  # that they were booked with
    attempts: Counter[str] = field(default_factory=Counter)  # by outcome
    retried: int = 0

    def add(self, call: Fields) -> None:
        """Count one call."""
        model, answered_by = call["model"], call.get("answered_by")
        outcomes = [attempt["outcome"] for attempt in call.get("attempts") or ()]
        self.attempts.update(outcomes)
        self.retried += max(0, len(outcomes) - 1)
        self.rates.update([rate] if (rate := booked_rate(call)) else ())
        if answered_by and answered_by != model:
            self.pairs[model, answered_by] += 1
        if call["state"] == "claimed" or call["updated_at"] < self.now - timedelta(seconds=RATE_SECONDS):
            return
        self.recent += 1
        # When it was sent: from its end, a single call would have taken no time.
        sent = call["updated_at"] - timedelta(milliseconds=call.get("latency_ms") or 0.0)
        self.first_sent = min(sent, self.first_sent or sent)

    def per_minute(self) -> float | None:
        """Return how many calls ended a minute in the last five minutes; ``None`` where none did."""
        minutes = max((self.now - (self.first_sent or self.now)).total_seconds(), 1.0) / 60
        return self.recent / minutes or None


def waiting_work(plan: Plan, store: Store, most: int | None = None) -> list[Document]:
    """Return what waits for servers at which nothing answered last, of all runs or the first: how much, and why."""
    if not (away := unreachable(store, plan.study.name)):
        return []
    waiting: dict[str, Counter[str]] = {reason: Counter(runs=0, judgements=0) for reason in away.values()}
    for index, state in each_state(plan, store):
        if most is not None and index >= most:
            continue
        if state.stored is None and (reason := away.get(state.run.spec.room)):
            waiting[reason]["runs"] += 1
        if plan.scored and state.stored and not (state.stored.failure or state.excluded):
            for role in plan.judges_of(state.run.model):
                if (reason := away.get(plan.judge_models[role].room)) and not state.answered_by(role):
                    waiting[reason]["judgements"] += 1
    return [{**counts, "reason": reason} for reason, counts in waiting.items() if counts.total()]


def stage_counts(plan: Plan, store: Store) -> dict[str, Document]:
    """Return how far each stage is that a run of the study has, by its name."""
    counts = {stage.name: count(stage, plan, store) for stage in automatic_stages()}
    return {name: numbers for name, numbers in counts.items() if numbers["planned"]}


def study_status(plan: Plan, store: Store) -> Document:
    """Return how far a study is, what it has spent, what is under way and what keeps failing."""
    name, budget = plan.study.name, plan.study.budget.aud
    tally = _Tally()
    for _, state in each_state(plan, store):
        tally.add(plan, state)
    succeeded, failed = tally.runs["succeeded"], tally.runs["failed"]
    unscored, judged = tally.unread + tally.unanswered, tally.judgements.total()
    # What other tests ask judges is in their annotations.
    planned = -tally.left_out
    if plan.scored:
        planned += sum(len(plan.judges_of(model)) for model in plan.models) * plan.runs.per_model
    stages = stage_counts(plan, store)
    ended = _EndedCalls()
    calls = calls_by_state(store, name, _EndedCalls.FIELDS, ended.add)
    owner = living_owner(store, name)
    settled = settlements(store, name)
    spent = total_aud([*(state.aud for state in calls.values()), settled_aud(settled, billed=True)])
    # Looking for none reads all of the others.
    maybe = "claimed" in calls or any(c.unsure_aud for c in calls.values())
    unsure = unsure_calls(store, name, owner) if maybe else {}
    unsure_aud = total_aud(unsure.values())
    claimed = claimed_calls(store, name) if "claimed" in calls else []
    in_flight = [call for call in claimed if call["owner"] == owner]
    known_unsure = {*unsure, *(call["call_id"] for settlement in settled for call in settlement["calls"])}
    open_claims = (call for call in claimed if call["owner"] == owner or call["_id"] not in known_unsure)
    batches = open_batches(store, name)
    reserved = total_aud(
        [*(call["worst_aud"] for call in open_claims if was_sent(call)), *(b.worst_aud for b in batches)]
    )
    per_minute = ended.per_minute()
    calls_left = tally.runs[None] + planned - judged + sum(counts["missing"] for counts in stages.values())
    calls_left -= failed * len(plan.judges) if plan.scored else 0  # what failed is left to the next execution
    optional = {"stages": stages, "shared": shared_replies(plan, store), "waiting": waiting_work(plan, store)}
    optional["warning"] = plan.warning
    return {
        "study": name,
        "done": succeeded,
        "runs": {
            "planned": len(plan.runs),
            "succeeded": succeeded,
            "failed": failed,
            "missing": tally.runs[None],
        },
        "distinct_calls": len(set(plan.call_ids)),
        "judgements": {
            "planned": planned,
            "done": tally.judgements[True],
            "scored": judged - unscored.total(),
            "failed": unscored.total(),
            "missing": planned - judged,
            "left_out": tally.left_out,
        },
        "calls": {state: totals.count for state, totals in calls.items() if state != "claimed"},
        "in_flight": dict(Counter(call["purpose"] for call in in_flight)),
        "abandoned": len(claimed) - len(in_flight),
        "at_work": owner is not None,
        "retried": ended.retried,
        "attempts": dict(ended.attempts),
        "spent_aud": spent,
        "unsure_aud": unsure_aud,
        "unsure_calls": len(unsure),
        "settled": [
            {
                "billed": settlement["billed"],
                "note": settlement["note"],
                "aud": settlement["aud"],
                "at": settlement["at"].isoformat(),
                "calls": len(settlement["calls"]),
            }
            for settlement in settled
        ],
        "exchange_rates": [{"aud_per_usd": rate, "calls": n} for rate, n in sorted(ended.rates.items())],
        "exchange": rates_sentence([ended.rates], plan.exchange),
        "budget_aud": budget,
        "budget_left_aud": None if budget is None else max(0.0, budget - spent - unsure_aud - reserved),
        "calls_per_minute": per_minute,
        "seconds_left": 60 * calls_left / per_minute if per_minute else None,
        "excluded": dict(tally.excluded),
        "failures": dict(tally.failures),
        "finish_reasons": dict(tally.finish_reasons),
        "unread": dict(tally.unread),
        "unanswered": dict(tally.unanswered),
        "judgement_failures": dict(unscored),
        "answered_by_others": other_models(ended.pairs),
        "output": str(plan.output),
        **{name: value for name, value in optional.items() if value},
    }


def status_sentence(status: Fields) -> str:
    """Return in one sentence how many runs, judgements and other answers there are, how many failed, and the cost.

    Examples
    --------
    >>> status = {"runs": {"planned": 9, "succeeded": 7, "failed": 2}, "judgements": {"planned": 0}, "spent_aud": 1.5}
    >>> status_sentence(status)
    '7 of 9 runs succeeded, 2 failed; AUD 1.50 spent.'
    """
    return str(template("runs", "lines.jinja").module.sentence(status))


def status_summary(status: Fields) -> Summary:
    """Return the status as the command line shows it."""
    text = template("runs", "status.jinja").render(status, duration=duration, usual=ANSWERED)
    return Summary(status, text)


def statuses(look: Callable[[], Document], seconds: float | None) -> Iterator[Document]:
    """Yield the status now, and again every so often until the study stands still."""
    yield (status := look())
    while seconds is not None and status["at_work"]:
        time.sleep(seconds)
        yield (status := look())
