"""What the files hold that the parameters of a notebook name, and for a study file everything that it names in turn.

Loading a study takes some 50 ms and its store longer, and a grid of thousands of cells names the same few studies again
and again: `Sources` are read once for a batch, so that all its notebooks are planned from one and the same state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.plan import Plan


@dataclass(frozen=True)
class Source:
    """What one named file comes to."""

    digests: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


class Sources:
    """The files named by the notebooks of one batch, each read once."""

    def __init__(self, folder: Path, *, reads_store: bool = False) -> None:
        self._folder = folder
        self._reads_store = reads_store
        self._known: dict[str, Source | None] = {}

    def named_by(self, parameters: Mapping[str, Any]) -> dict[str, Source]:
        """Return what the texts among the parameters name, by the text."""
        found = {}
        for name in sorted(set(_texts(parameters))):
            if name not in self._known:
                self._known[name] = self._read(name)
            if (source := self._known[name]) is not None:
                found[name] = source
        return found

    def _read(self, name: str) -> Source | None:
        if not _is_file(self._folder, name):
            return None
        path = self._folder / name
        own = sha256_of(path)
        plan = _plan_of(path) if path.suffix == ".toml" else None
        if plan is None:
            return Source((own,))
        files = {str(path.resolve()): own} | {str(file): sha256_of(file) for file in _files_of(plan)}
        asked = json.dumps([plan.call_ids, plan.ensemble_key])
        digests = [own, *files.values(), hashlib.sha256(asked.encode()).hexdigest()]
        if self._reads_store:
            from toolkit.runs.provenance import held_of

            digests.append(held_of(plan.study.name, plan.store_folder))
        return Source(tuple(digests), files)


def changed(files: Mapping[str, str]) -> str:
    """Return the first file that is not as it was any more; empty where all are."""
    for name, digest in files.items():
        try:
            same = sha256_of(Path(name)) == digest
        except OSError:
            same = False
        if not same:
            return name
    return ""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def _is_file(folder: Path, name: str) -> bool:
    try:  # a word without a slash or a dot is no path, though a file may be named so
        return ("/" in name or "." in name) and (folder / name).is_file()
    except (OSError, ValueError):  # too long, or with a zero byte: a text
        return False


def _plan_of(path: Path) -> Plan | None:
    """Return what a study file plans; nothing for a TOML file that is no study, or one with a fault.

    The notebook that needs it as a study will say what is wrong with it.
    """
    from toolkit.plan import make_plan
    from toolkit.study_file import load_study_file

    try:
        study, file = load_study_file(path)
        return make_plan(study, file.parent)
    except ToolkitError:
        return None


def _files_of(plan: Plan) -> Iterator[Path]:
    """Yield the files that a study names: dataset, rubric, its own test, and those among the options of the test.

    What the toolkit ships with is part of the code.
    """
    import inspect

    dataset = Path(plan.study.dataset)
    if dataset.is_dir():
        yield from sorted(path for path in dataset.rglob("*") if path.is_file())
    rubric, test = Path(plan.study.judges.rubric), Path(inspect.getfile(type(plan.test)))
    options = [plan.folder / name for name in _texts(plan.study.options) if _is_file(plan.folder, name)]
    yield from (path for path in (dataset, rubric, test, *options) if path.is_absolute() and path.is_file())
