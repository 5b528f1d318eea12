"""Anchors, the judgements that are asked anew on later days, and the frame of what judges say of them then."""

import json
from collections.abc import Sequence
from operator import itemgetter

import pandas as pd

from toolkit.files.digests import digest, sha256_hex
from toolkit.store.connection import Store
from toolkit.store.documents import Anchor, Annotation
from toolkit.store.records import judgements_of
from toolkit.store.writer import Document, Fields
from toolkit.words import COMPOSITES

COLUMNS = ("anchor", "day", "target", "base", "cluster", "judge", "dimension", "then", "now")


def anchor_document(study: str, size: int, rubric_hash: str, replies: Sequence[Fields]) -> Document:
    """Return an anchor set without its time, under the hash of all that it says."""
    pairs = sorted((reply["run_id"], reply["blob_id"]) for reply in replies)
    fingerprint = digest(pairs, rubric_hash)
    content = {"study": study, "size": size, "fingerprint": fingerprint, "rubric_hash": rubric_hash}
    content["replies"] = [dict(reply) for reply in replies]
    name = sha256_hex(json.dumps(content, sort_keys=True))
    return {"_id": name, **content}


def anchors_of(store: Store, study: str) -> list[Document]:
    """Return the anchor sets of a study, the first first."""
    return sorted(store.find_where(Anchor, {"study": study}), key=itemgetter("at", "_id"))


def anchor_label(anchor: Fields) -> str:
    """Return what a reader calls an anchor set: how many replies it has, and the start of its name."""
    return f"{len(anchor['replies'])} replies, set {anchor['_id'][:8]}"


def drift_frame(store: Store, study: str, runs: pd.DataFrame, dimensions: Sequence[str]) -> pd.DataFrame:
    """Return one row for each day, reply, judge and score: what it was then, and what it is now."""
    names = (*dimensions, *COMPOSITES)
    rows = []
    of_run = runs.set_index("run_id")[["base", "cluster"]]
    for anchor in anchors_of(store, study):
        ids = [reply["run_id"] for reply in anchor["replies"]]
        first = {(j["run_id"], j["call_id"]): _scores(j) for j in judgements_of(store, ids)}
        later = store.find_where(Annotation, {"study": study, "kind": "drift", "context": anchor["_id"]})
        scores = {(j["day"], j["run_id"], j["judge"]): _scores(j) for j in later}
        rows += [
            (anchor_label(anchor), day, reply["run_id"], *of_run.loc[reply["run_id"]], role, name, then, now)
            for day in sorted({day for day, _, _ in scores})
            for reply in anchor["replies"]
            if reply["run_id"] in of_run.index
            for role, call_id in reply["calls"].items()
            for name in names
            for then in [first.get((reply["run_id"], call_id), {}).get(name)]
            for now in [scores.get((day, reply["run_id"], role), {}).get(name)]
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"then": "float64", "now": "float64"})


def _scores(judgement: Fields) -> dict[str, float | None]:
    """Return the scores and composites of a judgement, nothing of one that could not be read."""
    if judgement.get("scores") is None:
        return {}
    return judgement["scores"] | {name: judgement.get(name) for name in COMPOSITES}
