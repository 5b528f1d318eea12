"""How far a study is, read from the store without asking anything: from another terminal while it runs, or later."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from toolkit.plan import Plan
from toolkit.runs.budget import settled_aud, settlements, unsure_calls
from toolkit.runs.estimate import EXPECTED_REPLY_TOKENS
from toolkit.runs.ledger import Calls, calls_by_state, claimed_calls, living, was_sent
from toolkit.runs.progress import duration
from toolkit.runs.provenance import answered_by_others, others_lines
from toolkit.runs.run_state import RunState, calls_of_judge, run_states
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.store.writer import utc_now
from toolkit.words import Summary, counted, total_aud

RATE_SECONDS: Final = 300.0  # the rate is that of the last five minutes
RATE_CALLS: Final = 1000
"""Newest calls that are enough for a rate: reading more takes longer than a fast study's next thousand."""
ANSWERED: Final = "answered"  # outcome of an attempt that brought a reply


def study_status(plan: Plan, store: Store) -> dict[str, Any]:
    """Return how far a study is, what it has spent, what is under way and what keeps failing."""
    name, budget = plan.study.name, plan.study.budget.aud
    runs = run_states(plan, store)
    succeeded = [one for one in runs if one.status == "succeeded"]
    failed = [one for one in runs if one.status == "failed"]
    excluded = Counter(one.excluded for one in succeeded if one.excluded)
    said = [judgement for one in succeeded for judgement in one.said.values()]
    answered = sum(judgement.answered for judgement in said)
    # What other tests ask judges is in their annotations.
    judges = {name: len(plan.judges_of(name)) if plan.test.judged else 0 for name in plan.models}
    left_out = sum(judges[one.run.model] for one in succeeded if one.excluded)
    planned = sum(judges[one.run.model] for one in runs) - left_out
    calls = calls_by_state(store, name)
    alive = living(store, name)
    settled = settlements(store, name)
    spent = total_aud([*(state.aud for state in calls.values()), settled_aud(settled, billed=True)])
    # Looking for none reads all of the others.
    maybe = "claimed" in calls or any(c.unsure_aud for c in calls.values())
    unsure = unsure_calls(store, name, alive) if maybe else {}
    unsure_aud = total_aud(unsure.values())
    claimed = claimed_calls(store, name) if "claimed" in calls else []
    in_flight = [call for call in claimed if call["owner"] in alive]
    told = {*unsure, *(call["call_id"] for one in settled for call in one["calls"])}
    open_claims = (call for call in claimed if call["owner"] in alive or call["_id"] not in told)
    reserved = total_aud(call["worst_aud"] for call in open_claims if was_sent(call))
    attempts, retried = _attempts(store, name, calls)
    rates = _calls_per_minute(store, name, calls)
    return {
        "study": name,
        "done": len(succeeded),
        "runs": {
            "planned": len(runs),
            "succeeded": len(succeeded),
            "failed": len(failed),
            "missing": len(runs) - len(succeeded) - len(failed),
        },
        "distinct_calls": len(set(plan.call_ids)),
        "judgements": {
            "planned": planned,
            "done": answered,
            "scored": sum(judgement.reason is None for judgement in said),
            "missing": planned - answered,
            "left_out": left_out,
        },
        "calls": {state: ended.count for state, ended in calls.items() if state != "claimed"},
        "in_flight": dict(Counter(call["purpose"] for call in in_flight)),
        "abandoned": len(claimed) - len(in_flight),
        "at_work": bool(alive),
        "retried": retried,
        "attempts": attempts,
        "spent_aud": spent,
        "unsure_aud": unsure_aud,
        "unsure_calls": len(unsure),
        "settled": [
            {
                **{key: one[key] for key in ("billed", "note", "aud")},
                "at": one["at"].isoformat(),
                "calls": len(one["calls"]),
            }
            for one in settled
        ],
        "budget_aud": budget,
        "budget_left_aud": None if budget is None else max(0.0, budget - spent - unsure_aud - reserved),
        "calls_per_minute": sum(rates.values()) if rates else None,
        "seconds_left": _seconds_left(_calls_left(plan, runs, judges), rates),
        "excluded": dict(excluded),
        "failures": dict(Counter((one.failure or "unknown").split(":")[0] for one in failed)),
        "finish_reasons": dict(
            Counter(one.stored.finish_reason or "unknown" for one in succeeded if one.stored)
        ),
        "unread": dict(Counter(j.reason.split(":")[0] for j in said if j.answered and j.reason is not None)),
        "unanswered": dict(
            Counter(j.reason.split(":")[0] for j in said if not j.answered and j.reason is not None)
        ),
        "judgement_failures": dict(Counter(j.reason.split(":")[0] for j in said if j.reason is not None)),
        "answered_by_others": answered_by_others(store, name) if "done" in calls else [],
        "output": str(plan.output),
    }


def status_summary(status: Mapping[str, Any]) -> Summary:
    """Return the status as the command line shows it."""
    runs, judgements = status["runs"], status["judgements"]
    spent = f"{status['spent_aud']:.4f} AUD in {sum(status['calls'].values())} calls"
    if status["unsure_aud"]:
        unsure = counted(status["unsure_calls"], "calls")
        spent += f", {status['unsure_aud']:.4f} more may have been billed for {unsure}"
    if status["budget_aud"] is not None:
        spent += f", {status['budget_left_aud']:.4f} of {status['budget_aud']:.2f} left"
    judged = f"{judgements['done']} of {judgements['planned']} answered, {judgements['scored']} with scores"
    if judgements["left_out"]:
        judged += f", {judgements['left_out']} left out"
    lines = [
        ("study", status["study"]),
        ("runs", f"{runs['succeeded']} of {runs['planned']} succeeded"),
        ("", f"{runs['failed']} failed, {runs['missing']} not asked"),
    ]
    if status["distinct_calls"] != runs["planned"]:
        lines.append(("", f"{runs['planned']} runs, {status['distinct_calls']} distinct calls"))
    lines += [("judgements", judged), ("spent", spent)]
    if status["unsure_aud"] and not status["at_work"]:
        how = "`toolkit settle STUDY --billed --note TEXT`, or with --not-billed"
        lines.append(("unsure", f"compare with the provider's bill, then {how}"))
    for one in status["settled"]:
        which = "accepted as billed" if one["billed"] else "cleared as not billed"
        calls = counted(one["calls"], "calls")
        lines.append(
            ("settled", f"{one['aud']:.4f} AUD of {calls} {which} on {one['at'][:10]}: {one['note']}")
        )
    lines.append(("now", _now(status)))
    if status["retried"]:
        lines.append(("retried", f"{status['retried']} attempts"))

    def times(what: str, counts: Mapping[str, int], usual: str = "") -> None:
        lines.extend((what, f"{count} x {word}") for word, count in counts.items() if word != usual)

    times("attempts", status["attempts"], ANSWERED)
    if status["abandoned"]:
        lines.append(("abandoned", counted(status["abandoned"], "calls of a dead process")))
    times("excluded", status["excluded"])
    times("not whole", status["finish_reasons"], "stop")
    times("failed", status["failures"])
    times("unscored", status["judgement_failures"])
    lines += [("other model", line) for line in others_lines(status["answered_by_others"])]
    lines.append(("results", status["output"]))
    return Summary(status, "\n".join(f"{what:<11} {text}" for what, text in lines))


def statuses(look: Callable[[], dict[str, Any]], seconds: float | None) -> Iterator[dict[str, Any]]:
    """Yield the status now, and again every so often until the study stands still."""
    yield (status := look())
    while seconds is not None and status["at_work"]:
        time.sleep(seconds)
        yield (status := look())


def _now(status: Mapping[str, Any]) -> str:
    if not status["at_work"]:
        return "no process is at work"
    parts = [
        counted(count, f"{purpose} calls in flight") for purpose, count in sorted(status["in_flight"].items())
    ]
    if status["calls_per_minute"] is not None:
        parts += [
            f"{status['calls_per_minute']:.1f} calls a minute",
            f"{duration(status['seconds_left'])} left",
        ]
    return ", ".join(parts) or "at work, no call in flight"


def _calls_left(
    plan: Plan, runs: tuple[RunState, ...], judges: Mapping[str, int]
) -> dict[tuple[str, str], float]:
    """Return the calls that each model has still to answer: what failed is left to the next execution."""
    lengths = [one.tokens for one in runs if one.tokens is not None]
    usual = sum(lengths) / len(lengths) if lengths else EXPECTED_REPLY_TOKENS
    calls: dict[tuple[str, str], float] = defaultdict(float)
    for one in {one.run.call_id: one for one in runs}.values():  # equal requests are one call
        if one.status == "failed" or one.excluded:
            continue
        if one.status is None:
            calls[one.run.request.provider, one.run.request.model] += 1
        tokens = usual if one.tokens is None else one.tokens
        for role in plan.judges_of(one.run.model) if judges[one.run.model] else ():
            if not one.answered_by(role):
                spec = plan.judge_models[role]
                calls[spec.provider, spec.model] += calls_of_judge(plan, tokens)
    return calls


def _seconds_left(
    calls: Mapping[tuple[str, str], float], per_minute: Mapping[tuple[str, str], float]
) -> float | None:
    """Return the time of the model that takes longest; those that answered nothing lately share the rate of all."""
    if not per_minute:
        return None
    times = [60 * count / per_minute[model] for model, count in calls.items() if model in per_minute]
    others = sum(count for model, count in calls.items() if model not in per_minute)
    return max([*times, 60 * others / sum(per_minute.values())])


def _attempts(store: Store, study: str, calls: Mapping[str, Calls]) -> tuple[dict[str, int], int]:
    """Return attempts by outcome, and how many were not the first of their call."""
    # Read are only the calls with an attempt that failed: every done call has one more, which brought the reply. Where
    # no call can have such a one nothing is read.
    done = calls["done"].count if "done" in calls else 0
    if all(of_state.most_attempts <= (state == "done") for state, of_state in calls.items()):
        return ({ANSWERED: done} if done else {}), 0
    broken = {"study": study, "attempts": {"$elemMatch": {"outcome": {"$ne": ANSWERED}}}}
    found = store.each_where(Call, broken, only=("attempts",))
    outcomes = Counter({ANSWERED: done} if done else {})
    retried = 0
    for call in found:
        outcomes.update(attempt["outcome"] for attempt in call["attempts"] if attempt["outcome"] != ANSWERED)
        retried += len(call["attempts"]) - 1
    return dict(outcomes), retried


def _calls_per_minute(store: Store, study: str, calls: Mapping[str, Calls]) -> dict[tuple[str, str], float]:
    """Return how many calls of each model ended a minute in the last five minutes."""
    now = utc_now()
    began = [
        # When it was sent: from its end, a single call would have taken no time.
        (
            call["updated_at"] - timedelta(milliseconds=call.get("latency_ms") or 0.0),
            (call["provider"], call["model"]),
        )
        for state in ("done", "failed")
        if state in calls  # looking for none reads all of the others
        # A condition on moments may read every call of the study, so the newest are read and compared here.
        for call in store.each_where(
            Call,
            {"study": study, "state": state},
            only=("updated_at", "latency_ms", "provider", "model"),
            sort={"updated_at": -1},
            limit=RATE_CALLS,
        )
        if call["updated_at"] >= now - timedelta(seconds=RATE_SECONDS)
    ]
    counts = Counter(model for _, model in began)
    minutes = max((now - min((at for at, _ in began), default=now)).total_seconds(), 1.0) / 60
    return {model: count / minutes for model, count in counts.items()}
