"""Everything a study found as files: tidy frames, the data dictionary, its records as an archive, the manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.plan import STORE
from toolkit.scores.inspect_log import write_inspect_logs
from toolkit.store.archive import add_archive, check_archive, write_archive
from toolkit.store.connection import open_store
from toolkit.store.dictionary import KINDS, dictionary_text
from toolkit.store.frame_files import FORMATS, save_frame
from toolkit.words import Summary

if TYPE_CHECKING:
    from toolkit.study import Study

ONE_SHOT_ONLY: Final = ("experiments", "methods")
ARCHIVE: Final = "archive.zip"


def export_study(study: Study, folder: Path | str) -> Summary:
    """Write every frame and all records of a study into a folder, with a manifest that holds their SHA-256."""
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; name a folder to export study {study.name} into")
    one_shot = study.plan.test.name == "one_shot"
    frames = {kind: getattr(study, kind)() for kind in KINDS if one_shot or kind not in ONE_SHOT_ONLY}
    # First: where nothing was asked it says so, before there is a folder full of empty tables.
    write_archive(study.store, study.name, place / ARCHIVE, call_ids=frames["calls"]["call_id"])
    paths = [place / ARCHIVE]
    paths += [
        save_frame(frame, place / f"{kind}{suffix}", kind)
        for kind, frame in frames.items()
        for suffix in FORMATS
    ]
    if study.plan.test.judged:
        replies = study.runs(replies=True)
        texts = {run.prompt.prompt_id: run.prompt.text for run in study.plan.runs}
        version = study.plan.dataset.version
        logs = place / "inspect"
        paths += write_inspect_logs(logs, study.name, version, replies, frames["judgements"], texts)
    paths.append(write_atomically(place / "data_dictionary.md", dictionary_text().encode()))
    rows = {kind: len(frame) for kind, frame in frames.items()}
    sums = {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
    }
    manifest = {**study.manifest(), "rows": rows, "sha256": sums}
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=str)
    paths.append(write_atomically(place / "manifest.json", f"{text}\n".encode()))
    lines = [f"{count:>8} {kind}" for kind, count in rows.items()]
    fields: dict[str, Any] = {"study": study.name, "rows": rows, "files": [str(path) for path in paths]}
    return Summary(fields, "\n".join([*lines, f"{len(paths)} files in {place}"]))


def import_archive(archive: Path | str, results: Path | str) -> Summary:
    """Add the records of an archive to the store of a results folder, unless it contradicts them; twice is once."""
    checked = check_archive(Path(archive))  # first: a bad one leaves no store behind
    place = Path(results)
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; name the results folder to import study {checked.study} into")
    store = open_store(place / STORE)
    try:
        done = add_archive(store, checked)
    finally:
        store.close()
    counts = {name: dict(getattr(done, name)) for name in ("added", "updated", "known")}
    return Summary({"study": done.study, **counts}, done.sentence())
