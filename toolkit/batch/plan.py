"""The cells of a grid, checked before anything runs, and the identity of each notebook: a hash of all it depends on.

A grid is TOML, or a mapping with the same tables::

    [product]                       # every value of each with every value of the others
    study = ["a.toml", "b.toml"]
    k = [3, 5]

    [zip]                           # lists of one length, walked together; combined with the product
    model = ["gpt-4o", "claude-3-5-haiku"]
    label = ["OpenAI", "Anthropic"]

    [[list]]                        # one more cell of the grid
    study = "c.toml"
    k = 9

    [[exclude]]                     # leaves out every cell of the product that has all of these
    study = "b.toml"
    k = 5

A notebook's identity covers template, parameters, code, and the files that parameters name; of a study also its
dataset, rubric, test, requests and judges. The content of the store counts only for a template whose metadata says
``{"toolkit": {"reads": "store"}}``: one that asks models changes the store, and would never be finished. Other packages
and files named in the template's own code do not count.
"""

import ast
import datetime
import functools
import inspect
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import nbformat
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from toolkit.errors import InputError, ToolkitError
from toolkit.files import Strict, checked, digest, parsed, read_text, read_toml, sha256_of
from toolkit.secrets import secret_fault
from toolkit.words import choices, one_line

if TYPE_CHECKING:
    from toolkit.plan import Plan

Cell = dict[str, Any]
MOST = 100_000
"""Most cells of a product: one list too many would fill the machine's memory."""


@dataclass(frozen=True)
class Planned:
    """One notebook to run: its identity, its parameters, and the files of its studies with their hashes."""

    identity: str
    parameters: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def file_stem(self) -> str:
        """What a person tells the notebook by, then the start of its identity, by which the files differ."""
        words = [f"{name}={_word(value)}" for name, value in self.parameters.items()]
        return f"{'_' + ','.join(words)[:100] + '_' if words else ''}{self.identity[:12]}"


@dataclass(frozen=True)
class BatchPlan:
    """All notebooks of a batch, and the text of their template as it was when they were planned."""

    content: str
    reads_store: bool
    cells: tuple[Planned, ...]


def _listed(values: Any) -> Any:
    """Return an array, a column of a frame or another sequence as the list that it is."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError("must be a list: of values as in [1, 2], of tables by two brackets, [[list]]")
    return list(values)


_Columns = dict[str, Annotated[list[Any], BeforeValidator(_listed), Field(min_length=1)]]
_Rows = Annotated[list[Cell], BeforeValidator(_listed)]
_Exclusions = Annotated[list[Annotated[Cell, Field(min_length=1)]], BeforeValidator(_listed)]


class Grid(Strict):
    """The tables of a grid."""

    product: _Columns = Field({})
    zip: _Columns = Field({})
    list: _Rows = Field([])
    exclude: _Exclusions = Field([])


def grid_cells(tables: Mapping[str, Any] | Path, location: str = "grid") -> tuple[Cell, ...]:
    """Return the cells of a grid or its file; the last parameter of the product varies fastest."""
    if isinstance(tables, Path):
        tables, location = read_toml(tables, what="grid file"), str(tables)
    grid = checked(Grid, dict(tables), location)
    if repeated := sorted(grid.product.keys() & grid.zip.keys()):
        raise InputError(f"{location}: {repeated[0]!r} stands in [product] and in [zip]; keep one")
    lengths = {name: len(values) for name, values in grid.zip.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(f"{location}: [zip] walks lists of one length together, but {sizes} values")
    count = math.prod(map(len, grid.product.values())) * max(lengths.values(), default=1)
    if count > MOST:
        message = f"{location}: the product has {count:,} cells, more than the {MOST:,} that a batch takes"
        raise InputError(message)
    rows = [dict(zip(grid.zip, values, strict=True)) for values in zip(*grid.zip.values(), strict=True)]
    chosen = itertools.product(*grid.product.values()) if grid.product or rows else ()
    cells = [dict(zip(grid.product, values, strict=True)) | row for values in chosen for row in rows or [{}]]
    for exclusion in grid.exclude:
        remaining = [cell for cell in cells if not _matches(cell, exclusion)]
        if len(remaining) == len(cells):
            advice = "leaves out no cell of the product; mend or remove it"
            raise InputError(f"{location}: [[exclude]] {short(exclusion)} {advice}")
        cells = remaining
    if not (cells or grid.list):
        raise InputError(f"{location}: the grid is empty; give it [product], [zip] or [[list]]")
    return (*cells, *grid.list)


def _matches(cell: Cell, exclusion: Cell) -> bool:
    """Return whether a cell has all of these values; true is not 1 here."""
    return all(
        name in cell and cell[name] == value and isinstance(cell[name], bool) == isinstance(value, bool)
        for name, value in exclusion.items()
    )


def plan_batch(template: Path, cells: Sequence[Mapping[str, Any]], folder: Path, location: str) -> BatchPlan:
    """Return what a batch will run; each file is read once, so that all notebooks are planned from one state."""
    content, notebook = _opened(template)
    parameters, shows = template_parameters(notebook, str(template)), reads_store(notebook, str(template))
    source = functools.cache(functools.partial(_source, folder, shows))
    texts = [[c.cell_type, c.source, sorted(c.metadata.get("tags", ()))] for c in notebook.cells]
    head = [texts, code_hash()]
    defaults = {
        name: parameter.default for name, parameter in parameters.items() if parameter.default is not None
    }
    first: dict[str, int] = {}
    planned = []
    for number, cell in enumerate(cells, 1):
        arguments = fitting(parameters, cell, f"{location}: cell {number}: {template.name}")
        effective = defaults | arguments
        named = [state for text in sorted(set(_texts(effective))) if (state := source(text))]
        # Sorted, because the order in which a grid names its parameters makes no other notebook.
        identity = digest(head, sorted(effective.items()), [digests for digests, _ in named])
        if first.setdefault(identity, number) != number:
            problem = f"cells {first[identity]} and {number} are the same notebook: {short(arguments)}"
            raise InputError(f"{location}: {problem}; remove one")
        files = {path: sha256 for _, state in named for path, sha256 in state.items()}
        planned.append(Planned(identity, arguments, files))
    return BatchPlan(content, shows, tuple(planned))


def _word(value: Any) -> str:
    """Return a parameter as part of the name of a file: of a path its end."""
    if isinstance(value, list | tuple):
        return "-".join(map(_word, value))[:40]
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", PurePath(str(value)).name.removesuffix(".toml"))[:40].strip("-")


def code_hash() -> str:
    """Return the SHA-256 of the toolkit's own files, as they are now: an edit need not be committed to count."""
    root = Path(__file__).parents[1]
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return digest(*([str(path.relative_to(root)), sha256_of(path)] for path in files))


def changed(files: Mapping[str, str]) -> str:
    """Return the first file that has changed; empty where none has."""
    unlike = (
        name for name, sha256 in files.items() if not Path(name).is_file() or sha256_of(Path(name)) != sha256
    )
    return next(unlike, "")


def _source(folder: Path, shows: bool, name: str) -> tuple[list[str], dict[str, str]] | None:
    """Return the digests of a named file, and for a study file the files that must not change during the batch."""
    if not _is_file(folder, name):
        return None
    # The process of a cell needs none of them.
    from toolkit.plan import make_plan
    from toolkit.runs.provenance import held_of
    from toolkit.study_loading import load_study_file

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
    if shows:
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


TAG = "parameters"
_KINDS = (int, float, str, bool, list, dict)
_NAMES: dict[str, Any] = {kind.__name__: kind for kind in _KINDS} | {
    "__builtins__": {},
    "Any": Any,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template."""

    kind: Any
    needed: bool
    default: Any


def _opened(template: Path) -> tuple[str, Any]:
    """Return the text of a template, and its notebook in format 4."""
    content = read_text(template, what="template")
    try:
        return content, nbformat.reads(content, as_version=4)
    except Exception as error:  # nbformat raises errors of several libraries
        message = one_line(str(error), 200)
        raise InputError(f"{template}: is no notebook ({type(error).__name__}: {message})") from None


def reads_store(notebook: Any, location: str) -> bool:
    """Return whether the metadata of a template say that it reads the store: ``{"toolkit": {"reads": "store"}}``."""
    settings = notebook.metadata.get("toolkit", {})
    if settings in ({}, {"reads": "store"}):
        return bool(settings)
    raise InputError(
        f"{location}: the metadata `toolkit` of the notebook is {json.dumps(settings)[:60]}; "
        'it may be {"reads": "store"}'
    )


def template_parameters(notebook: Any, location: str) -> dict[str, Parameter]:
    """Return the parameters that the cell tagged `parameters` of a Python notebook sets.

    The cell is parsed as Python: papermill's own expression misses lines with two equal signs.
    """
    settings = notebook.metadata
    language = settings.get("kernelspec", {}).get("language") or settings.get("language_info", {}).get("name")
    language = language or "python"
    if language.lower() not in ("python", "ipython"):
        raise InputError(f"{location}: is a notebook in {language}; templates are Python notebooks")
    tagged = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and TAG in cell.metadata.get("tags", ())
    ]
    if not tagged:
        raise InputError(f"{location}: no cell is tagged `{TAG}`; tag the cell with the defaults")
    try:
        parameters = dict(_assigned(parsed(ast.parse, tagged[0])))
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{location}: the cell tagged `{TAG}` is not plain Python: {error}") from None
    if not parameters:
        message = f"{location}: the cell tagged `{TAG}` sets nothing; give each parameter a default there"
        raise InputError(message)
    return parameters


def _assigned(cell: ast.Module) -> Iterator[tuple[str, Parameter]]:
    for line in cell.body:
        if not isinstance(line, ast.Assign | ast.AnnAssign):
            continue
        try:
            default = line.value and ast.literal_eval(line.value)
        except ValueError:  # a calculated default: any type is accepted
            default = None
        # A default of None accepts any type.
        kind = type(default) if isinstance(default, _KINDS) else Any
        if isinstance(line, ast.AnnAssign):
            kind = _annotated_type(line.annotation)
        for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
            if isinstance(target, ast.Name):
                yield target.id, Parameter(kind, line.value is None, default)


def _annotated_type(annotation: ast.expr) -> Any:
    """Return the type that an annotation names; ``Any`` for one that cannot be checked."""
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    try:  # without builtins: plain types only, and the template's code is run anyway
        kind = eval(str(text), dict(_NAMES))
        TypeAdapter(kind)
    except Exception:
        return Any
    return kind


def check_parameters(template: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as plain values; refuse those that the template does not take."""
    location = str(template)
    return fitting(template_parameters(_opened(template)[1], location), parameters, location)


def fitting(
    parameters: Mapping[str, Parameter], arguments: Mapping[str, Any], location: str
) -> dict[str, Any]:
    """Return parameters as plain values of the types that a template takes; see `check_parameters`."""
    if unknown := [name for name in arguments if name not in parameters]:
        accepted = choices(unknown[0], sorted(parameters), "this template takes")
        raise InputError(f"{location}: unknown parameter {unknown[0]!r}; {accepted}")
    values = {name: plain(value, f"{location}: {name}") for name, value in arguments.items()}
    if fault := secret_fault(values):
        raise InputError(f"{location}: {fault}")
    if missing := [name for name, parameter in parameters.items() if parameter.needed and name not in values]:
        message = f"{location}: parameter {missing[0]!r} is missing; the template has no default for it"
        raise InputError(message)
    for name, value in values.items():
        try:
            TypeAdapter(parameters[name].kind).validate_python(value, strict=True)
        except ValidationError as error:
            kinds = dict.fromkeys(detail["msg"].rpartition(" be ")[2] for detail in error.errors())
            expected = " or ".join(kinds)
            raise InputError(f"{location}: {name} must be {expected}, got {short(value)}") from None
    return values


def plain(value: Any, location: str) -> Any:
    """Return a value in the plain types that papermill can write into a notebook."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not hasattr(value, "__len__"):
        # datetime64 in nanoseconds would become a number.
        value = str(value) if value.dtype.kind in "mM" else value.item()
    match value:
        case None | bool():
            return value
        case str() if not any("\ud800" <= letter <= "\udfff" for letter in value):
            return str.__str__(value)
        case int():
            return int(value)
        case float() | Decimal() if math.isfinite(value):
            return float(value)
        case PurePath():
            return str(value)
        case datetime.date() | datetime.time() if value == value:  # a datetime is a date; pandas' NaT is none
            return value.isoformat()
        case Mapping() if all(isinstance(key, str) for key in value):
            return {str(key): plain(item, location) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, location) for item in value]
    takes = (
        "give text of whole characters, a finite number, true or false, a list, or a table with keys of text"
    )
    raise InputError(f"{location}: {short(value)} cannot stand in a notebook; {takes}")


def short(value: Any) -> str:
    """Return a value as Python writes it, in at most 60 characters."""
    return one_line(repr(value), 60)
