"""The notebooks of a batch, checked before anything runs, each with an identity: a hash of all that it depends on.

A notebook's identity covers template, parameters, code, and the files that parameters name; of a study also its
dataset, rubric, test, requests and judges. The content of the store counts only for a template whose metadata says
``{"toolkit": {"reads": "store"}}``: one that asks models changes the store, and would never be finished. Other packages
and files named in the template's own code do not count.
"""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from toolkit.batch.template import checked_arguments, open_template, reads_store, short, template_parameters
from toolkit.errors import InputError, ToolkitError
from toolkit.files.digests import digest, sha256_hex, sha256_of

if TYPE_CHECKING:
    from toolkit.plan import Plan


@dataclass(frozen=True)
class Planned:
    """One notebook to run: from what, in which folder, where it and its record are written, and how long it may take.

    ``files`` are those of its studies with their hashes. They must not change while the batch runs.
    """

    parameters: Mapping[str, Any]
    template: str
    folder: str
    output: str
    record: str
    files: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    cell_timeout: float | None = None


@dataclass(frozen=True)
class BatchPlan:
    """All notebooks of a batch, and their template: a copy of it is run, so that edits of the file do not matter."""

    content: str
    copy: Path
    reads_store: bool
    cells: tuple[Planned, ...]


def plan_batch(
    template: Path,
    cells: Sequence[Mapping[str, Any]],
    folder: Path,
    location: str,
    out: Path = Path(),
    **limits: float | None,
) -> BatchPlan:
    """Return what a batch will run; each file is read once, so that all notebooks are planned from one state."""
    content, notebook = open_template(template)
    parameters, reads = template_parameters(notebook, str(template)), reads_store(notebook, str(template))
    copy = out / "records" / f"{template.stem}_{sha256_hex(content)[:12]}.template.ipynb"
    source = functools.cache(functools.partial(_source, folder, reads))
    head = [
        [[c.cell_type, c.source, sorted(c.metadata.get("tags", ()))] for c in notebook.cells],
        code_hash(),
    ]
    defaults = {name: each.default for name, each in parameters.items() if each.default is not None}
    planned: dict[str, Planned] = {}
    for number, cell in enumerate(cells, 1):
        arguments = checked_arguments(parameters, cell, f"{location}: cell {number}: {template.name}")
        effective = defaults | arguments
        named = [source(text) for text in sorted(set(_texts(effective))) if _is_file(folder, text)]
        # Sorted, because the order in which a grid names its parameters makes no other notebook.
        identity = digest(head, sorted(effective.items()), [digests for digests, _ in named])
        if identity in planned:
            problem = f"cells {[*planned].index(identity) + 1} and {number} are the same notebook"
            raise InputError(f"{location}: {problem}: {short(arguments)}; remove one")
        # A person tells the notebook by its parameters; by its identity the files differ.
        words = ",".join(f"{name}={_word(value)}" for name, value in arguments.items())
        stem = f"{template.stem}_{words and f'_{words[:100]}_'}{identity[:12]}"
        planned[identity] = Planned(
            arguments,
            str(copy),
            str(folder),
            output=str(out / f"{stem}.ipynb"),
            record=str(out / "records" / f"{identity}.json"),
            files={path: sha256 for _, state in named for path, sha256 in state.items()},
            **limits,
        )
    return BatchPlan(content, copy, reads, tuple(planned.values()))


def _word(value: Any) -> str:
    """Return a parameter as part of the name of a file: of a path its end."""
    if isinstance(value, list):
        return "-".join(map(_word, value))[:40]
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", PurePath(str(value)).name.removesuffix(".toml"))[:40].strip("-")


def code_hash() -> str:
    """Return the SHA-256 of the toolkit's own files, as they are now: an edit need not be committed to count."""
    root = Path(__file__).parents[1]
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return digest(*([str(path.relative_to(root)), sha256_of(path)] for path in files))


def changed(files: Mapping[str, str]) -> str:
    """Return the first file that has changed; empty where none has."""
    for name, sha256 in files.items():
        if not Path(name).is_file() or sha256_of(Path(name)) != sha256:
            return name
    return ""


def _source(folder: Path, reads: bool, name: str) -> tuple[list[str], dict[str, str]]:
    """Return the digests of a named file, and for a study file the files that must not change during the batch."""
    # The process of a cell needs none of them.
    from toolkit.plan import make_plan
    from toolkit.runs.provenance import store_digest
    from toolkit.study_file import load_study_file

    path = folder / name
    sha256 = sha256_of(path)
    try:
        if path.suffix != ".toml":
            return [sha256], {}
        study, file = load_study_file(path)
        plan = make_plan(study, file.parent)
    except ToolkitError:  # other TOML, or a faulty study, which its notebook will report
        return [sha256], {}
    files = {str(file): sha256_of(file) for file in (path.resolve(), *_study_files(plan))}
    digests = [*files.values(), *plan.call_ids, plan.ensemble_key]
    if reads:
        digests.append(store_digest(plan.study.name, plan.store_folder))
    return digests, files


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _is_file(folder: Path, name: str) -> bool:
    try:  # a word without a slash or a dot is taken for text
        return ("/" in name or "." in name) and (folder / name).is_file()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def _study_files(plan: "Plan") -> list[Path]:
    """Return the files that a study and the options of its test name; files of the toolkit count as code."""
    dataset, rubric = Path(plan.study.dataset), Path(plan.study.judges.rubric)
    options = [plan.folder / name for name in _texts(plan.study.options) if _is_file(plan.folder, name)]
    test = Path(inspect.getfile(type(plan.test)))
    paths = [dataset, *sorted(dataset.rglob("*")), rubric, test, *options]
    return [path for path in paths if path.is_absolute() and path.is_file()]
