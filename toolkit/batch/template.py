"""A template: its notebook file, what its `parameters` cell takes, and whether what it is given fits.

papermill only warns about a parameter it does not know and finds defaults by a regular expression, which misses lines
with two equal signs. A `parameters` cell is plain Python, so we read it as Python.
"""

from __future__ import annotations

import ast
import datetime
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, Optional, Union

import nbformat
from pydantic import TypeAdapter, ValidationError

from toolkit.errors import InputError

TAG: Final = "parameters"
_KINDS: Final = (int, float, str, bool, list, dict)
_NAMES: Final[dict[str, Any]] = {
    "__builtins__": {},
    "Any": Any,
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


def read_bytes(template: Path) -> bytes:
    """Return the content of the file of a template."""
    if not template.is_file():
        raise InputError(f"{template}: no such template")
    try:
        return template.read_bytes()
    except OSError as error:
        raise InputError(f"{template}: cannot be read ({error.strerror})") from None


def notebook_of(content: bytes, where: str) -> Any:
    """Return the content of a notebook file as a notebook of format 4."""
    try:
        return nbformat.reads(content.decode("utf-8"), as_version=4)
    except Exception as error:  # nbformat raises what its parts raise
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{where}: is no notebook ({type(error).__name__}: {said})") from None


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
    return fitting(parameters_of(notebook_of(read_bytes(template), where), where), parameters, where)


def fitting(known: Mapping[str, Parameter], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the given parameters as plain values that fit; see `check_parameters`."""
    if unknown := [name for name in given if name not in known]:
        takes = ", ".join(sorted(known))
        raise InputError(f"{where}: unknown parameter {unknown[0]!r}; this template takes {takes}")
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
