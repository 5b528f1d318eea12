"""The gate of `[judges.gate]`: before the full spend every judge must agree with the people who rated some replies.

Nothing of it is stored. It is calculated from the ratings and judgements under the judges, the rubric and the texts of
today, so that it lapses by itself where one of them changes, or where another version of a judge's model answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from toolkit.errors import InputError
from toolkit.plan import Plan, PlannedRuns
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.store.records import stored_runs

if TYPE_CHECKING:
    import pandas as pd

SHORTEST = 30  # replies to rate that the message about none names
_TELLS = 3  # disagreements that a message names


def rated_runs(plan: Plan, store: Store) -> PlannedRuns:
    """Return the runs whose replies people have rated under the rubric of the plan."""
    rated = {*_ratings(plan, store)["run_id"]}
    runs = stored_runs(store, plan.study.name, plan.call_ids).items()
    return replace(plan.runs, part=[key for key, run in runs if run.run_id in rated])


def refuse_uncalibrated(plan: Plan, store: Store) -> None:
    """Raise `InputError` where the judges of a plan do not pass its gate, and the study is to stop then."""
    gate = plan.study.judges.gate
    if gate and gate.below == "stop" and (message := _message(plan, store)):
        raise InputError(
            f'judges.gate: {message}; change judge or rubric, rate more, or set below = "report"'
        )


def with_gate(plan: Plan, store: Store) -> Plan:
    """Return the plan; where its judges do not pass its gate, with a note of that for every page."""
    message = _message(plan, store)
    return replace(plan, uncalibrated=f"Uncalibrated: {message}.") if message else plan


def _message(plan: Plan, store: Store) -> str:
    """Return why the judges of a plan do not pass its gate; empty where they do, or where it has none."""
    gate = plan.study.judges.gate
    faults = list(_faults(plan, store, gate.least)) if gate and plan.scored else []
    if len(faults) > _TELLS:
        faults[_TELLS:] = [f"and {len(faults) - _TELLS} more"]
    return "; ".join(faults)


def _ratings(plan: Plan, store: Store) -> pd.DataFrame:
    from toolkit.store.filters import planned_runs
    from toolkit.store.frames import human_frame

    ratings = human_frame(store, planned_runs(plan, store), plan.rubric.digest, plan.rubric.scheme)
    return ratings[ratings["composite_strict"].notna()]


def _faults(plan: Plan, store: Store, least: float) -> Iterator[str]:
    from toolkit.stats.human.calibration import judges_and_people
    from toolkit.store.filters import planned_judgements

    ratings = _ratings(plan, store)
    if ratings.empty:
        yield (
            f"nobody has rated a reply under rubric {plan.rubric.name}; run with --limit {SHORTEST}, rate these "
            "replies, and run again"
        )
        return
    judgements = planned_judgements(plan, store)
    for role, judge in plan.judges.items():
        if not (judgements.loc[judgements["run_id"].isin(ratings["run_id"]), "judge"] == role).any():
            yield f"judge {judge.name} has judged no rated reply"
    for estimate in judges_and_people(judgements, ratings, plan.rubric.names):
        low, high, value = estimate.low, estimate.high, estimate.estimate
        if low is None or high is None or value is None:
            if value != 1:  # exact agreement has no interval
                yield f"{estimate.name} has no interval: {estimate.reason}"
        elif low < least:
            yield f"{estimate.name} is {value:.2f} [{low:.2f}, {high:.2f}], and the interval must begin at {least:g}"
    calls = store.find_by(Call, "_id", judgements["call_id"].dropna(), only=("model", "answered_by"))
    versions: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        versions[call["model"]].add(call.get("answered_by") or call["model"])
    for model, names in versions.items():
        if len(names) > 1:
            yield f"judge {model} was answered by {' and '.join(sorted(names))}: people were compared with one"
