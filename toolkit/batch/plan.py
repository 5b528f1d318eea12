"""A batch made concrete before anything starts: the cells of its grid, each checked, with what it depends on as a hash.

A grid is TOML, or a mapping with the same tables::

    [product]                       # every value of each with every value of the others
    study = ["a.toml", "b.toml"]
    k = [3, 5]

    [zip]                           # lists of one length, walked together; combined with the product
    model = ["gpt-4o", "claude-3-5-haiku"]
    label = ["OpenAI", "Anthropic"]

    [[list]]                        # one more cell of the grid, as it stands
    study = "c.toml"
    k = 9

    [[exclude]]                     # leaves out every cell of the product that has all of these
    study = "b.toml"
    k = 5

Two notebooks with the same identity would come to the same, so the second is not run: the same template, parameters,
code, and content of the files that parameters name; of a study also its dataset, rubric, own test, requests and judges.

What the store held when the batch began counts for those templates alone that say in their metadata that they only
show it: ``{"toolkit": {"reads": "store"}}``. One that asks models itself changes the store, so its second call would
never find what its first began with. What we cannot see is not part of it: other packages, and files that a template
names in its own code. A file that a notebook writes and a parameter names is data from then on: name its folder.

Of a template the `parameters` cell is plain Python, so we read it as Python. papermill only warns about a parameter it
does not know and finds defaults by a regular expression, which misses lines with two equal signs.
"""

from __future__ import annotations

import ast
import datetime
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, Optional, Union

import nbformat
from pydantic import TypeAdapter, ValidationError

from toolkit.errors import InputError, ToolkitError
from toolkit.files import read_toml, similar_file
from toolkit.words import choices

if TYPE_CHECKING:
    from toolkit.plan import Plan

Cell = dict[str, Any]
TABLES: Final = ("product", "zip", "list", "exclude")
MOST: Final = 100_000
"""Cells of a product: a list too many, and it would be written out until the machine has no memory left."""


@dataclass(frozen=True)
class Planned:
    """One notebook to be: its identity, its parameters, and the files of its studies with their hashes."""

    identity: str
    parameters: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True)
class BatchPlan:
    """All notebooks of a batch."""

    template: Path
    content: bytes
    reads_store: bool
    cells: tuple[Planned, ...]

    @property
    def copy_name(self) -> str:
        """The name of the copy of the template that is run, whatever becomes of the file meanwhile."""
        return f"{self.template.stem}_{hashlib.sha256(self.content).hexdigest()[:12]}.template.ipynb"


def cells_of(grid: Mapping[str, Any] | Path, where: str = "grid") -> tuple[Cell, ...]:
    """Return the cells of a grid or its file in their order; the last parameter of the product varies fastest."""
    if isinstance(grid, Path):
        grid, where = read_toml(grid, what="grid file"), str(grid)
    if unknown := [name for name in grid if name not in TABLES]:
        raise InputError(
            f"{where}: unknown table {unknown[0]!r}; {choices(unknown[0], TABLES, 'a grid has')}"
        )
    product, together = _lists(grid, "product", where), _lists(grid, "zip", where)
    single, excluded = _rows(grid, "list", where), _rows(grid, "exclude", where)
    if both := sorted(product.keys() & together.keys()):
        raise InputError(f"{where}: {both[0]!r} stands in [product] and in [zip]; keep one")
    lengths = {name: len(values) for name, values in together.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(f"{where}: [zip] walks lists of one length together, but {said} values")
    count = math.prod(map(len, product.values())) * max(lengths.values(), default=1)
    if count > MOST:
        raise InputError(
            f"{where}: the product has {count:,} cells, more than the {MOST:,} that a batch takes"
        )
    rows = [dict(zip(together, values, strict=True)) for values in zip(*together.values(), strict=True)]
    chosen = itertools.product(*product.values()) if product or together else ()
    cells = [dict(zip(product, values, strict=True)) | row for values in chosen for row in rows or [{}]]
    for exclusion in excluded:
        left = [cell for cell in cells if not _matches(cell, exclusion)]
        if len(left) == len(cells):
            why = "leaves out no cell of the product; mend or remove it"
            raise InputError(f"{where}: [[exclude]] {short(exclusion)} {why}")
        cells = left
    cells = [*cells, *single]
    if not cells:
        raise InputError(f"{where}: the grid is empty; give it [product], [zip] or [[list]]")
    return tuple(cells)


def _lists(grid: Mapping[str, Any], table: str, where: str) -> dict[str, list[Any]]:
    given = grid.get(table, {})
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: [{table}] must be a table of lists")
    found = {}
    for name, values in given.items():
        values = values.tolist() if hasattr(values, "tolist") else values  # an array, or a column of a frame
        if isinstance(values, str) or not isinstance(values, Sequence):
            example = f"{name} = [{short(values)}]"
            raise InputError(f"{where}: [{table}] {name} must be a list of values, e.g. {example}")
        if not values:
            raise InputError(f"{where}: [{table}] {name} is an empty list, so the grid would be empty")
        found[str(name)] = list(values)
    return found


def _rows(grid: Mapping[str, Any], table: str, where: str) -> list[Cell]:
    found = grid.get(table, [])
    listed = isinstance(found, Sequence) and not isinstance(found, str)
    if not listed or not all(isinstance(row, Mapping) for row in found):
        raise InputError(f"{where}: write [[{table}]] with two brackets, once for each")
    if table == "exclude" and not all(found):
        raise InputError(f"{where}: an [[exclude]] without a parameter would leave out everything")
    return [dict(row) for row in found]


def _matches(cell: Cell, exclusion: Cell) -> bool:
    """Whether a cell has all of these values; true is not 1 here."""
    return all(
        name in cell and cell[name] == value and isinstance(cell[name], bool) == isinstance(value, bool)
        for name, value in exclusion.items()
    )


def plan_batch(template: Path, cells: Sequence[Mapping[str, Any]], folder: Path, where: str) -> BatchPlan:
    """Return what a batch will run; each file is read once, so that all its notebooks are planned from one state."""
    content, notebook = _opened(template)
    known, shows = parameters_of(notebook, str(template)), reads_store(notebook, str(template))
    source = functools.cache(functools.partial(_source, folder, shows))
    texts = [[c.cell_type, c.source, sorted(c.metadata.get("tags", ()))] for c in notebook.cells]
    head = _hash([texts, code_hash()])
    defaults = {name: one.default for name, one in known.items() if one.default is not None}
    first: dict[str, int] = {}
    planned = []
    for number, cell in enumerate(cells, 1):
        given = fitting(known, cell, f"{where}: cell {number}: {template.name}")
        effective = defaults | given
        named = {text: found for text in sorted(set(_texts(effective))) if (found := source(text))}
        identity = _hash([head, effective, {text: digests for text, (digests, _) in named.items()}])
        if first.setdefault(identity, number) != number:
            same = f"cells {first[identity]} and {number} are the same notebook: {short(given)}"
            raise InputError(f"{where}: {same}; remove one")
        files = {path: digest for _, found in named.values() for path, digest in found.items()}
        planned.append(Planned(identity, given, files))
    return BatchPlan(template, content, shows, tuple(planned))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def code_hash() -> str:
    """Return the SHA-256 of the toolkit's own files.

    Not its version and commit: a commit that touches the thesis only changes nothing, and an edit that is not
    committed yet does. Read anew for every batch: a notebook's kernel may live while its user edits them.
    """
    import toolkit

    root = Path(toolkit.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def changed(files: Mapping[str, str]) -> str:
    """Return the first file that is not as it was any more; empty where all are."""
    for name, digest in files.items():
        if not Path(name).is_file() or _sha256(Path(name)) != digest:
            return name
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _source(folder: Path, shows: bool, name: str) -> tuple[list[str], dict[str, str]] | None:
    """Return what the file of a name comes to, and for a study file the files that must not change meanwhile."""
    if not _is_file(folder, name):
        return None
    path = folder / name
    own = _sha256(path)
    plan = _plan_of(path) if path.suffix == ".toml" else None
    if plan is None:
        return [own], {}
    files = {str(path.resolve()): own} | {str(file): _sha256(file) for file in _files_of(plan)}
    digests = [own, *files.values(), _hash([list(plan.call_ids), plan.ensemble_key])]
    if shows:
        from toolkit.runs.provenance import held_of

        digests.append(held_of(plan.study.name, plan.store_folder))
    return digests, files


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
    """Return what a study file plans; none for other TOML, or a fault: the notebook that needs it will say which."""
    from toolkit.plan import make_plan
    from toolkit.study_file import load_study_file

    try:
        study, file = load_study_file(path)
        return make_plan(study, file.parent)
    except ToolkitError:
        return None


def _files_of(plan: Plan) -> Iterator[Path]:
    """Yield the files that a study names, its test's options among them; what the toolkit ships is part of the code."""
    import inspect

    dataset = Path(plan.study.dataset)
    if dataset.is_dir():
        yield from sorted(path for path in dataset.rglob("*") if path.is_file())
    rubric, test = Path(plan.study.judges.rubric), Path(inspect.getfile(type(plan.test)))
    options = [plan.folder / name for name in _texts(plan.study.options) if _is_file(plan.folder, name)]
    yield from (path for path in (dataset, rubric, test, *options) if path.is_absolute() and path.is_file())


TAG: Final = "parameters"
_KINDS: Final = (int, float, str, bool, list, dict)
_NAMES: Final[dict[str, Any]] = {
    "__builtins__": {},
    "Any": Any,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
    **{kind.__name__: kind for kind in _KINDS},
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template."""

    kind: Any
    needed: bool
    default: Any


def _opened(template: Path) -> tuple[bytes, Any]:
    """Return the content of the file of a template, and the notebook in it as one of format 4."""
    if not template.is_file():
        raise InputError(f"{template}: no such template; {similar_file(template)}check the path")
    try:
        content = template.read_bytes()
        return content, nbformat.reads(content.decode("utf-8"), as_version=4)
    except OSError as error:
        raise InputError(f"{template}: cannot be read ({error.strerror})") from None
    except Exception as error:  # nbformat raises what its parts raise
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{template}: is no notebook ({type(error).__name__}: {said})") from None


def reads_store(notebook: Any, where: str) -> bool:
    """Whether a template says that what it shows is in the store: ``{"toolkit": {"reads": "store"}}``."""
    said = notebook.metadata.get("toolkit", {})
    if said in ({}, {"reads": "store"}):
        return bool(said)
    raise InputError(
        f'{where}: the metadata `toolkit` of the notebook is {json.dumps(said)[:60]}; it may be {{"reads": "store"}}'
    )


def parameters_of(notebook: Any, where: str) -> dict[str, Parameter]:
    """Return what the cell tagged `parameters` of a Python notebook takes."""
    said = notebook.metadata.get("kernelspec", {}).get("language")  # which not every notebook says there
    language = said or notebook.metadata.get("language_info", {}).get("name") or "python"
    if language.lower() not in ("python", "ipython"):
        raise InputError(f"{where}: is a notebook in {language}; templates are Python notebooks")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tagged = [cell.source for cell in code if TAG in cell.metadata.get("tags", ())]
    if not tagged:
        raise InputError(f"{where}: no cell is tagged `{TAG}`; tag the cell with the defaults")
    try:
        found = dict(_assigned(ast.parse(tagged[0])))
    except SyntaxError as error:
        why = f"is not plain Python: line {error.lineno}: {error.msg}"
        raise InputError(f"{where}: the cell tagged `{TAG}` {why}") from None
    if not found:
        raise InputError(
            f"{where}: the cell tagged `{TAG}` sets nothing; give each parameter a default there"
        )
    return found


def _assigned(cell: ast.Module) -> Iterator[tuple[str, Parameter]]:
    for line in cell.body:
        if not isinstance(line, ast.Assign | ast.AnnAssign):
            continue
        try:
            default = line.value and ast.literal_eval(line.value)
        except ValueError:  # calculated: anything may be given in its place
            default = None
        if isinstance(line, ast.AnnAssign):
            targets, kind = [line.target], _kind_of(line.annotation)
        else:  # a default of None says that something else may be given
            targets = line.targets  # type: ignore[assignment]
            kind = type(default) if isinstance(default, _KINDS) else Any
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, Parameter(kind, line.value is None, default)


def _kind_of(annotation: ast.expr) -> Any:
    """Return the type that an annotation names; ``Any`` for one we cannot judge."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    try:  # without builtins: plain types only, and whose template it is runs it anyway
        kind = eval(str(text), dict(_NAMES))
        TypeAdapter(kind)
    except Exception:
        return Any
    return kind


def check_parameters(template: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as a notebook can be given them; refuse what the template does not take."""
    where = str(template)
    return fitting(parameters_of(_opened(template)[1], where), parameters, where)


def fitting(known: Mapping[str, Parameter], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the given parameters as plain values that fit; see `check_parameters`."""
    if unknown := [name for name in given if name not in known]:
        raise InputError(
            f"{where}: unknown parameter {unknown[0]!r}; {choices(unknown[0], sorted(known), 'this template takes')}"
        )
    values = {name: plain(value, f"{where}: {name}") for name, value in given.items()}
    if missing := [name for name, parameter in known.items() if parameter.needed and name not in values]:
        raise InputError(f"{where}: parameter {missing[0]!r} is missing; the template has no default for it")
    for name, value in values.items():
        try:
            TypeAdapter(known[name].kind).validate_python(value, strict=True)
        except ValidationError as error:
            said = " or ".join(dict.fromkeys(each["msg"].rpartition(" be ")[2] for each in error.errors()))
            raise InputError(f"{where}: {name} must be {said}, got {short(value)}") from None
    return values


def plain(value: Any, where: str) -> Any:
    """Return a value in the plain types that papermill writes into a notebook as they are."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not hasattr(value, "__len__"):
        # datetime64 in nanoseconds would become a number.
        value = str(value) if value.dtype.kind in "mM" else value.item()
    match value:
        case None | bool():
            return value
        case str():
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise InputError(f"{where}: {short(value)} holds half a character; no file can hold it")
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            if not math.isfinite(value):
                raise InputError(f"{where}: {value} cannot stand in a notebook; leave the parameter out")
            return float(value)
        case PurePath():
            return str(value)
        case datetime.date() | datetime.time():  # a datetime is a date
            return value.isoformat()
        case Mapping():
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise InputError(f"{where}: keys of a table must be text, got {wrong[0]!r}")
            return {str(key): plain(item, where) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, where) for item in value]
    takes = "give text, a number, true or false, a list or a table"
    raise InputError(f"{where}: a {type(value).__name__} cannot stand in a notebook; {takes}")


def short(value: Any) -> str:
    """Return a value as Python writes it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
