"""Everything a study found as files: tidy frames, data dictionary, records, study file, and a manifest with their sums.

Nothing in them is of the clock or the machine: the same files of the same study are the same bytes, wherever and
whenever they are written.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from toolkit.errors import InputError, variable_in
from toolkit.files.reading import read_toml
from toolkit.files.writing import write_atomically
from toolkit.report.escape import readable
from toolkit.report.manifest import claim_folder, write_manifest
from toolkit.store.frame_files import FORMATS, KINDS, dictionary_text, save_frame
from toolkit.store.record_files import write_records
from toolkit.study import Study
from toolkit.words import Summary, template

ONE_SHOT_ONLY = ("experiments", "methods")
DICTIONARY = "data_dictionary.md"
STUDY_FOLDER = "study"
"""Folder of an export with the study file and the files beside it that it names."""
_LEFT_OUT = ("", ".py", ".ipynb", ".sh")
"""Endings of what a study file may name and an export leaves out: mere words, and code."""


def export_study(study: Study, folder: Path | str) -> Summary:
    """Write every frame and all records of a study into a folder, with the SHA-256 of each file in its manifest."""
    out = Path(folder)
    calls = study.calls()
    if calls.empty:
        raise InputError(f"{study.name}: nothing of this study is in the store; run it first")
    claim_folder(study.name, out)
    paths, rows = [*_copied_inputs(study, out / STUDY_FOLDER)], {}
    paths += write_records(study.store, study.name, out, calls["call_id"])
    scheme = study.plan.rubric.scheme
    for kind in KINDS:
        is_foreign = kind in ONE_SHOT_ONLY and study.plan.test.name != "one_shot"
        if is_foreign or (kind == "pairs" and not study.plan.compared):
            continue
        frame = getattr(study, kind)()  # one after the other, so that one is in memory
        rows[kind] = len(frame)
        paths += [save_frame(frame, out / f"{kind}{suffix}", kind, scheme) for suffix in FORMATS]
    page = readable(template("audit", "readme.jinja").render(study=study))
    for name, text in ((DICTIONARY, dictionary_text(scheme)), ("README.md", page)):
        paths.append(write_atomically(out / name, text.encode()))
    paths.append(write_manifest(out, {**study.manifest(), "rows": rows}, paths))
    lines = [f"{count:>8} {kind}" for kind, count in rows.items()]
    fields = {"study": study.name, "rows": rows, "files": [str(path) for path in paths]}
    return Summary(fields, "\n".join([*lines, f"{len(paths)} files in {out}"]))


def named_inputs(path: Path) -> Iterator[str]:
    """Yield what a study file may name beside itself: its dataset, its rubric, and texts among its test's options."""
    content = read_toml(path)
    options = content.get("options", {}).values()
    entries = chain(*(option for option in options if isinstance(option, list)))
    named = [content.get("dataset"), content.get("judges", {}).get("rubric"), *options, *entries]
    texts = (entry.get("file") if isinstance(entry, dict) else entry for entry in named)
    yield from (text for text in texts if isinstance(text, str) and text)


def _copied_inputs(study: Study, folder: Path) -> Iterator[Path]:
    """Copy the study file and the data files beside it that it names, at the places where it looks for them."""
    home, files = study.path.resolve().parent, [study.path.resolve()]
    for name in named_inputs(study.path):
        path = (home / name).resolve()
        if path.is_dir() and str(path) == study.file.dataset:
            files += path.glob("*.toml")
        files += [
            file
            for file in (path, path.with_suffix(".json"))
            if file.suffix not in _LEFT_OUT and file.is_file()
        ]
    for path in sorted({path for path in files if path.is_relative_to(home)}):
        content = path.read_bytes()
        if variable_in(content.decode(errors="replace")):
            raise InputError(f"{path}: holds the key of a provider, which no export may have; take it out")
        yield write_atomically(folder / path.relative_to(home), content)
