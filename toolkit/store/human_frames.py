"""Tidy frames of what people said of replies, and both judges and people as one table of ratings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from toolkit.store.connection import Store
from toolkit.store.frames import ratings_frame
from toolkit.store.item_columns import HUMAN as HUMAN_COLUMNS
from toolkit.store.ratings import HUMAN, Rating, all_ratings, newest_ratings
from toolkit.store.typed import typed, types_of
from toolkit.words import DIMENSIONS

_OF_RUN = ("run_id", "base", "cluster", "length_bin", "model", "repeat")
HUMAN_TYPES = types_of(HUMAN_COLUMNS)
HISTORY_TYPES: Mapping[str, str] = {
    "run_id": "string",
    "rater": "string",
    "version": "Int64",
    "counts": "bool",
    "dimension": "string",
    "score": "float64",
    "reasons": "string",
    "source": "string",
    "created_at": "utc",
}


def human_frame(store: Store, runs: pd.DataFrame, rubric_hash: str) -> pd.DataFrame:
    """Return one row a judgement of a person: the newest of each rater and run, about the text the run has now.

    Parameters
    ----------
    store
        An open store.
    runs
        A frame from `toolkit.store.frames.runs_frame`.
    rubric_hash
        Version of the rubric.

    Returns
    -------
    pandas.DataFrame
        Columns and dtypes as in ``HUMAN_TYPES``; scores 0-5. An unfinished judgement has its reason and no scores;
        `history_frame` has those that were given.
    """
    of_run = _rateable(runs)
    newest = newest_ratings(
        store, {run_id: run["output_blob_id"] for run_id, run in of_run.items()}, rubric_hash
    )
    rows = [_row(rating, of_run[rating.run_id]) for rating in newest.values()]
    frame = typed(rows, HUMAN_TYPES)
    return frame.sort_values(["rater", "created_at", "run_id"], ignore_index=True)


def history_frame(store: Store, runs: pd.DataFrame, rubric_hash: str) -> pd.DataFrame:
    """Return one row a score that a person ever gave, earlier versions and unfinished ratings too.

    A version without any score has one row without a dimension. ``counts`` marks the newest version of each
    rater and run about the text that the run has now.

    Parameters
    ----------
    store, runs, rubric_hash
        As in `human_frame`.
    """
    of_run = _rateable(runs)
    blobs = {run_id: run["output_blob_id"] for run_id, run in of_run.items()}
    newest = newest_ratings(store, blobs, rubric_hash)
    rows: list[dict[str, Any]] = []
    for rating in all_ratings(store, runs["run_id"], rubric_hash):
        current = newest.get((rating.rater, rating.run_id))
        counts = current is not None and current.version == rating.version
        about = {name: getattr(rating, name, None) for name in HISTORY_TYPES}
        given = rating.scores.items() or [(None, None)]
        rows += [{**about, "counts": counts, "dimension": name, "score": score} for name, score in given]
    return typed(rows, HISTORY_TYPES)


def ratings_with_people(judgements: pd.DataFrame, human: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of judges and people as ratings: target (a run), base, cluster, judge, dimension, score.

    Parameters
    ----------
    judgements
        A frame from `toolkit.store.frames.judgements_frame`.
    human
        A frame from `human_frame`; the rater anna becomes the judge ``human:anna``.

    Returns
    -------
    pandas.DataFrame
        What `toolkit.stats.agreement.reliability` takes; a judgement that failed is a missing rating.
    """
    people = human.assign(judge=(HUMAN + ":" + human["rater"]).astype("string")).melt(
        id_vars=["run_id", "base", "cluster", "judge"],
        value_vars=[*DIMENSIONS, "composite"],
        var_name="dimension",
        value_name="score",
    )
    people = people.rename(columns={"run_id": "target"})
    return pd.concat([ratings_frame(judgements), people], ignore_index=True)


def _rateable(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    counting = runs[~runs["excluded"] & runs["output_blob_id"].notna() & (runs["status"] == "succeeded")]
    records: list[dict[str, Any]] = counting.to_dict("records")  # type: ignore[assignment]
    return {row["run_id"]: row for row in records}


def _row(rating: Rating, run: Mapping[str, Any]) -> dict[str, Any]:
    said = rating.judgement()
    return {
        **{name: run[name] for name in _OF_RUN},
        "rater": rating.rater,
        "failed": said.failed,
        "reason": said.reason,
        **(said.scores or {}),
        "composite": said.composite,
        "composite_strict": said.composite_strict,
        "zeros": said.zeros,
        "reasons": rating.reasons,
        "source": rating.source,
        "version": rating.version,
        "created_at": rating.created_at,
    }
