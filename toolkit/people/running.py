"""Which replies stand in a round that somebody has not finished yet: until then no score of them should be seen."""

from __future__ import annotations

from toolkit.people.rating import why_not
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.documents import RatingRound, Run
from toolkit.store.ratings import newest_ratings
from toolkit.store.records import stored_runs


def running_rounds(plan: Plan, store: Store) -> dict[str, tuple[str, ...]]:
    """Return the raters whose running rounds hold a reply, by run id, their names sorted.

    A round runs from when it is opened until each reply of it that can be rated has all scores of its rater; till then
    its rater may go back to any of them.
    """
    study, rubric_hash = plan.study.name, plan.rubric.digest
    rounds = list(store.objects(RatingRound).filter(study=study, rubric_hash=rubric_hash))
    if not rounds:
        return {}
    # By the runs of the rounds, because a round is small and a study may be large.
    named = store.find_by(
        Run, "run_id", (run_id for one in rounds for run_id in one.run_ids), only=("call_id",)
    )
    planned = set(plan.call_ids)
    stored = stored_runs(
        store, study, [run["call_id"] for run in named if run["call_id"] in planned]
    ).values()
    blobs = {run.run_id: run.blob_id for run in stored if why_not(run) is None and run.blob_id}
    ratings = newest_ratings(store, blobs, rubric_hash).values()
    finished = {(rating.rater, rating.run_id) for rating in ratings if rating.finished}
    raters: dict[str, set[str]] = {}
    for round_ in rounds:
        ids = [run_id for run_id in round_.run_ids if run_id in blobs]
        if any((round_.rater, run_id) not in finished for run_id in ids):
            for run_id in ids:
                raters.setdefault(run_id, set()).add(round_.rater)
    return {run_id: tuple(sorted(names)) for run_id, names in raters.items()}
