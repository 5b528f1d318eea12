"""Everything a study found as files: its tidy frames as CSV and Parquet, the data dictionary, and the manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.store.dictionary import KINDS, dictionary_text
from toolkit.store.frame_files import FORMATS, save_frame
from toolkit.summary import Summary
from toolkit.writing import write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.workbench import Study

ONE_SHOT_ONLY: Final = ("experiments", "methods")


def export_study(study: Study, folder: Path | str) -> Summary:
    """Write every tidy frame of a study into a folder; run again, it replaces what it wrote.

    Parameters
    ----------
    study
        The study in hand.
    folder
        Where; made when it is not there.

    Returns
    -------
    Summary
        The rows of each frame and the files: ``KIND.csv`` and ``KIND.parquet`` for each, ``data_dictionary.md``, and
        ``manifest.json`` with the SHA-256 of the others.

    Raises
    ------
    InputError
        When there is a file in place of the folder.
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; name a folder to export study {study.name} into")
    frames = _frames(study)
    paths = [
        save_frame(frame, place / f"{kind}{suffix}", kind)
        for kind, frame in frames.items()
        for suffix in FORMATS
    ]
    paths.append(write_atomically(place / "data_dictionary.md", dictionary_text().encode()))
    rows = {kind: len(frame) for kind, frame in frames.items()}
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    manifest = {**study.manifest(), "rows": rows, "sha256": sums}
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=str)
    paths.append(write_atomically(place / "manifest.json", f"{text}\n".encode()))
    lines = [f"{count:>8} {kind}" for kind, count in rows.items()]
    fields: dict[str, Any] = {"study": study.name, "rows": rows, "files": [str(path) for path in paths]}
    return Summary(fields, "\n".join([*lines, f"{len(paths)} files in {place}"]))


def _frames(study: Study) -> dict[str, pd.DataFrame]:
    """Return every frame that this study has, by kind."""
    one_shot = study.plan.test.name == "one_shot"
    return {kind: getattr(study, kind)() for kind in KINDS if one_shot or kind not in ONE_SHOT_ONLY}
