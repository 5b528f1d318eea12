"""What a notebook of a batch depends on, as one hash: template, parameters, code and data.

Two notebooks with the same identity would come to the same, so the second is not run. What we cannot see is not part
of it: replies that came into the store since, other packages, files that a template names in its own code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from toolkit.batch.parameters import Parameter
from toolkit.errors import ToolkitError


def effective(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters a notebook sees: the given ones and the template's plain defaults for the others."""
    defaults = {name: parameter.default for name, parameter in known.items() if parameter.default is not None}
    return defaults | dict(given)


def identity(notebook: Any, parameters: Mapping[str, Any], folder: Path) -> str:
    """Return the identity of one notebook, as a SHA-256 in hex.

    Parameters
    ----------
    notebook
        The template; its cells count, what they once put out does not.
    parameters
        All parameters with their defaults, as plain values.
    folder
        What a relative path among them is relative to. The content of files they name counts, for a study file
        that of its dataset, its rubric and its own test too.
    """
    cells = [[c.cell_type, c.source, sorted(c.metadata.get("tags", ()))] for c in notebook.cells]
    data = {
        name: _content(folder / name) for name in sorted(set(_texts(parameters))) if _is_file(folder, name)
    }
    parts = {"template": cells, "parameters": dict(parameters), "code": code_hash(), "data": data}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def code_hash() -> str:
    """Return the SHA-256 of the toolkit's own files.

    Not its version and commit: a commit that touches the thesis only changes nothing, and an edit that is not
    committed yet does.
    """
    import toolkit

    root = Path(toolkit.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


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


def _content(path: Path) -> list[str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return [digest, *(_study_hashes(path) if path.suffix == ".toml" else ())]


def _study_hashes(path: Path) -> list[str]:
    """Return the hashes of what a study file names; nothing for a TOML file that is no study."""
    import inspect

    from toolkit.finding import find_test
    from toolkit.judges.rubric import load_rubric
    from toolkit.prompts.dataset import load_dataset
    from toolkit.study_file import load_study_file

    try:
        study, file = load_study_file(path)
        test = Path(inspect.getfile(find_test(study.test, file.parent)))
        return [
            load_dataset(study.dataset).digest,
            load_rubric(study.judges.rubric).digest,
            hashlib.sha256(test.read_bytes()).hexdigest(),
        ]
    except ToolkitError:
        return []  # the notebook that needs it as a study will say what is wrong with it
