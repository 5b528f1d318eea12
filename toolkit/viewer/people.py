"""What people said of the runs, for the viewer, and what a rater must not see before the round is finished.

As long as a round runs, no score of its replies is shown, of judges or of people, unless somebody asks for it. This
cannot be enforced: whoever can open the study can ask for it, and has `study.judgements()`; it keeps a rater from
seeing a score by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from toolkit.people.rating import running_rounds
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.ratings import Rating, known_raters, newest_ratings
from toolkit.words import DIMENSIONS

if TYPE_CHECKING:
    import pandas as pd

HIDDEN: Final = "hidden_for"
"""Column with the raters whose running rounds hide the scores of a run, as text; missing where none does."""
_COMPOSITES: Final = ("composite", "composite_strict", "composite_std", "composite_low", "composite_high")
_SCORES: Final = (*DIMENSIONS, *_COMPOSITES, "zeros", "people_composite")


def with_people(plan: Plan, store: Store, runs: pd.DataFrame, *, blind: bool = True) -> pd.DataFrame:
    """Return a runs frame with what people said of each run."""
    import pandas as pd

    rateable = runs[~runs["excluded"] & runs["output_blob_id"].notna() & (runs["status"] == "succeeded")]
    blobs = dict(zip(rateable["run_id"], rateable["output_blob_id"], strict=True))
    has_raters = known_raters(store, plan.study.name)
    ratings = ratings_by_run(plan, store, blobs) if has_raters else {}
    running = running_rounds(plan, store) if has_raters and blind else {}
    finished = [
        [rating.judgement().composite for rating in ratings.get(run, ()) if rating.finished]
        for run in runs["run_id"]
    ]
    composites = [[score for score in scores if score is not None] for scores in finished]
    hidden = [", ".join(running.get(run, ())) or None for run in runs["run_id"]]
    columns: dict[str, Any] = {
        "people_composite": pd.array(
            [fmean(scores) if scores else None for scores in composites], dtype="Float64"
        ),
        "people_count": pd.array([len(scores) for scores in composites], dtype="Int64"),
        HIDDEN: pd.array(hidden, dtype="string"),
    }
    frame = runs.assign(**columns)
    frame.loc[frame[HIDDEN].notna(), list(_SCORES)] = pd.NA
    return frame


def ratings_by_run(plan: Plan, store: Store, blobs: Mapping[str, str]) -> dict[str, tuple[Rating, ...]]:
    """Return the newest rating of each rater, unfinished ones too, by run id and in the order of their names."""
    ratings = newest_ratings(store, blobs, plan.rubric.digest)
    by_run: dict[str, tuple[Rating, ...]] = {}
    for (_, run_id), rating in sorted(ratings.items()):
        by_run[run_id] = (*by_run.get(run_id, ()), rating)
    return by_run
