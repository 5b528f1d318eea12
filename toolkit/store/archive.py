"""A study's records as one file: for a second machine, a supervisor, or a safe place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import mongoengine as me

from toolkit.errors import InputError
from toolkit.store.archive_file import KEYS, pack_archive
from toolkit.store.connection import Store
from toolkit.store.documents import Call, Judgement, OutputBlob, Prompt, Rubric, Run, Settlement
from toolkit.store.rating_documents import HumanRating, RatingRound
from toolkit.store.shared_calls import calls_beside

_AT_ONCE: Final = 500  # documents


def write_archive(store: Store, study: str, path: Path, *, call_ids: Iterable[str] = ()) -> Mapping[str, int]:
    """Write every record of a study into one file, see `toolkit.store.archive_file`."""
    of_study = {"study": study}
    about = ("run_id", "call_id", "prompt_id", "dataset_version", "output_blob_id")
    runs = store.find_where(Run, of_study, only=about)
    own = store.find_where(Call, of_study, only=("state",))
    if not runs and not own:
        raise InputError(f"{study}: nothing of this study is in the store; run it first")
    run_ids = [run["run_id"] for run in runs]
    said = store.find_by(Judgement, "run_id", run_ids, only=("call_id", "rubric_hash"))
    ratings = store.find_where(HumanRating, of_study)
    leads = {found["call_id"] for found in (*runs, *said)}
    calls = {*(call["_id"] for call in own), *call_ids, *leads, *calls_beside(store, study, leads)}
    versions = {(run["prompt_id"], run["dataset_version"]) for run in runs}
    texts = {run.get("output_blob_id") for run in runs} | {rating["blob_id"] for rating in ratings}
    parts: Mapping[str, Iterable[Mapping[str, Any]]] = {
        "prompts": (
            prompt
            for prompt in _in_order(store, Prompt, (prompt_id for prompt_id, _ in versions))
            if (prompt["prompt_id"], prompt["dataset_version"]) in versions
        ),
        "output_blobs": _in_order(store, OutputBlob, (text for text in texts if text)),
        # A claimed call is in flight: whoever sent it keeps its answer, and elsewhere it is not known.
        "calls": (call for call in _in_order(store, Call, calls) if call["state"] != "claimed"),
        "runs": _in_order(store, Run, run_ids),
        "judgements": _in_order(store, Judgement, run_ids),
        "rubrics": _in_order(store, Rubric, {found["rubric_hash"] for found in (*said, *ratings)}),
        "human_ratings": _in_order(store, HumanRating, (rating["_id"] for rating in ratings)),
        "rating_rounds": sorted(store.find_where(RatingRound, of_study), key=itemgetter("_id")),
    }
    if settled := store.find_where(
        Settlement, of_study
    ):  # an archive without any is read by older versions too
        parts = {**parts, "settlements": sorted(settled, key=itemgetter("_id"))}
    return pack_archive(study, parts, path)


def _in_order(store: Store, kind: type[me.Document], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the documents with these names in the order of an archive, a few at a time: of calls there are many."""
    key = KEYS[kind._meta["collection"]]
    ordered = sorted(set(names))
    for start in range(0, len(ordered), _AT_ONCE):
        found = store.find_by(kind, key[0], ordered[start : start + _AT_ONCE])
        yield from sorted(found, key=itemgetter(*key))
