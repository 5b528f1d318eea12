"""Everything a study found as files: tidy frames, the data dictionary, its records as an archive, an RO-Crate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.audit.inspect_log import write_inspect_logs
from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.plan import STORE
from toolkit.store.archive import add_archive, check_archive, write_archive
from toolkit.store.connection import open_store
from toolkit.store.crate import write_crate
from toolkit.store.dictionary import KINDS, dictionary_text
from toolkit.store.frame_files import FORMATS, save_frame
from toolkit.words import Summary

if TYPE_CHECKING:
    from toolkit.study import Study

ONE_SHOT_ONLY: Final = ("experiments", "methods")
ARCHIVE: Final = "archive.zip"


def export_study(study: Study, folder: Path | str) -> Summary:
    """Write every frame and all records of a study into a folder, as an RO-Crate with the SHA-256 of its files."""
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; name a folder to export study {study.name} into")
    calls = study.calls()
    # First: where nothing was asked it says so, before there is a folder full of empty tables.
    write_archive(study.store, study.name, place / ARCHIVE, call_ids=calls["call_id"])
    published = f"{calls['created_at'].max():%Y-%m-%d}"
    del calls
    paths, rows = [place / ARCHIVE], {}
    for kind in KINDS:
        if kind in ONE_SHOT_ONLY and study.plan.test.name != "one_shot":
            continue
        frame = getattr(study, kind)()  # one after the other, so that one is in memory
        rows[kind] = len(frame)
        paths += [save_frame(frame, place / f"{kind}{suffix}", kind) for suffix in FORMATS]
    if study.plan.test.judged:
        texts = {run.prompt.prompt_id: run.prompt.text for run in study.plan.runs}
        shown = study.runs(replies=True), study.judgements(), texts
        paths += write_inspect_logs(place, study.name, study.plan.dataset.version, *shown)
    paths.append(write_atomically(place / "data_dictionary.md", dictionary_text().encode()))
    text = json.dumps({**study.manifest(), "rows": rows}, indent=1, ensure_ascii=False, default=str)
    paths.append(write_atomically(place / "manifest.json", f"{text}\n".encode()))
    said = f"Runs, judgements and calls of study {study.name}, dataset {study.plan.dataset.version}. {study.note}"
    about = {"name": study.name, "description": said.strip(), "datePublished": published}
    paths += write_crate(place, paths, about, study.file.license)
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
    text, database = done.sentence(), store.name
    if store.folder is None:
        text += f"\nin the database {database} of MONGODB_URI, and not in {place}"
    return Summary({"study": done.study, **counts, "database": None if store.folder else database}, text)
