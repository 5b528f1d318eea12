"""How far a study is, read from the store without asking anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolkit.summary import Summary

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store


def study_status(plan: Plan, store: Store) -> dict[str, Any]:
    """Return runs and judgements done, failed and missing, AUD spent, and what keeps failing.

    Parameters
    ----------
    plan
        The planned study.
    store
        Its open store.
    """
    from toolkit.store.documents import Judgement, Run

    name = plan.study.name
    runs = [
        run
        for run in store.find_by(Run, "call_id", plan.call_ids, leave_out=("ensemble_evaluation",))
        if run["study"] == name
    ]
    succeeded = [run for run in runs if run["status"] == "succeeded"]
    judges = {role: judge.name for role, judge in plan.judges.items()}
    judgements = [
        found
        for found in store.find_by(
            Judgement, "run_id", (run["run_id"] for run in succeeded), leave_out=("reasons",)
        )
        if found["rubric_hash"] == plan.rubric.digest and judges.get(found["judge"]) == found["model"]
    ]
    calls = store.database["calls"].find({"study": name}, {"aud_cost": 1, "state": 1, "_id": 0})
    states: Counter[str] = Counter()
    spent = 0.0
    for call in calls:
        states[call["state"]] += 1
        spent += call.get("aud_cost") or 0.0
    failures = Counter(run["failure"].split(":")[0] for run in runs if run["status"] == "failed")
    unread = Counter((found["reason"] or "unknown").split(":")[0] for found in judgements if found["failed"])
    return {
        "study": name,
        "done": len(succeeded),
        "runs": {
            "planned": len(plan.runs),
            "succeeded": len(succeeded),
            "failed": len(runs) - len(succeeded),
            "missing": len(plan.runs) - len(runs),
        },
        "judgements": {
            "planned": len(plan.runs) * len(judges),
            "done": sum(found["answered"] for found in judgements),
            "scored": sum(not found["failed"] for found in judgements),
            "missing": len(plan.runs) * len(judges) - sum(found["answered"] for found in judgements),
        },
        "calls": dict(states),
        "spent_aud": spent,
        "failures": dict(failures),
        "finish_reasons": dict(Counter(run.get("finish_reason") or "unknown" for run in succeeded)),
        "judgement_failures": dict(unread),
        "output": str(plan.output),
    }


def status_summary(status: Mapping[str, Any]) -> Summary:
    """Return the status as the command line shows it."""
    runs, judgements = status["runs"], status["judgements"]
    lines = [
        f"study       {status['study']}",
        f"runs        {runs['succeeded']} of {runs['planned']} succeeded",
        f"            {runs['failed']} failed, {runs['missing']} not asked",
        f"judgements  {judgements['done']} of {judgements['planned']} answered, {judgements['scored']} with scores",
        f"spent       {status['spent_aud']:.4f} AUD in {sum(status['calls'].values())} calls",
        *(
            f"not whole   {count} x {reason}"
            for reason, count in status["finish_reasons"].items()
            if reason != "stop"
        ),
        *(f"failed      {count} x {reason}" for reason, count in status["failures"].items()),
        *(f"unscored    {count} x {reason}" for reason, count in status["judgement_failures"].items()),
        f"results     {status['output']}",
    ]
    return Summary(status, "\n".join(lines))
