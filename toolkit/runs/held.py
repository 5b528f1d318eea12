"""What a store holds of a study, as one hash: another as soon as anything that its figures are made from is another."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from toolkit.runs.standing import calls_by_state
from toolkit.store.connection import Store, open_store
from toolkit.store.documents import Judgement, Run
from toolkit.store.rating_documents import HumanRating


def held_of(study: str, folder: Path) -> str:
    """Return the hash of what a store holds of a study, without making a store where there is none."""
    found: list[list[str]] = []
    if os.environ.get("MONGODB_URI") or folder.is_dir():
        store = open_store(folder)
        try:
            found = _held(store, study)
        finally:
            store.close()
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _held(store: Store, study: str) -> list[list[str]]:
    """Return every document once, and not the last change only: a clock that was set back must not hide one."""
    found = [["calls", state, str(calls.count)] for state, calls in calls_by_state(store, study).items()]
    for document in (Run, Judgement, HumanRating):  # of a rating every version is a document of its own
        for known in store.find_where(document, {"study": study}, only=("updated_at",)):
            found.append([document.__name__, str(known["_id"]), str(known.get("updated_at", ""))])
    return sorted(found)
