"""A template: its notebook file, what its `parameters` cell takes, and whether what it is given fits.

papermill only warns about a parameter it does not know and finds defaults by a regular expression, which misses lines
with two equal signs. A `parameters` cell is plain Python, so we read it as Python.
"""

from __future__ import annotations

import ast
import datetime
import importlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from toolkit.errors import InputError

TAG: Final = "parameters"
_WORDS: Final[dict[type, str]] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    type(None): "nothing (None)",
}
_TYPES: Final = {kind.__name__: kind for kind in _WORDS}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template; no types where any value may be given."""

    types: tuple[type, ...]
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
    nbformat = light_nbformat()
    try:
        return nbformat.reads(content.decode("utf-8"), as_version=4)
    except Exception as error:  # nbformat raises what its parts raise
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{where}: is no notebook ({type(error).__name__}: {said})") from None


def light_nbformat() -> Any:
    """Return the package nbformat, imported without a grammar that it has no use for.

    It imports jsonschema, and that, only to check addresses of a kind no notebook has, builds a grammar for 1.7 s of
    work. jsonschema does without when it is not there.
    """
    absent = "rfc3987_syntax"
    if absent in sys.modules:
        return importlib.import_module("nbformat")
    sys.modules[absent] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("nbformat")
    finally:
        del sys.modules[absent]


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
        raise InputError(
            f"{where}: the cell tagged `{TAG}` is not plain Python: line {error.lineno}: {error.msg}"
        ) from None
    if not found:
        raise InputError(
            f"{where}: the cell tagged `{TAG}` sets nothing; give each parameter a default there"
        )
    return found


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
        types = known[name].types
        if types and not any(_fits(value, kind) for kind in types):
            allowed = " or ".join(_WORDS[kind] for kind in types)
            raise InputError(f"{where}: {name} must be {allowed}, got {short(value)}")
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
            try:
                value.encode()
            except UnicodeEncodeError:
                why = "holds half a character; no file can hold it"
                raise InputError(f"{where}: {short(value)} {why}") from None
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
    raise InputError(
        f"{where}: a {type(value).__name__} cannot stand in a notebook; give text, a number, true or false, a list "
        "or a table"
    )


def short(value: Any) -> str:
    """Return a value as Python writes it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _assigned(cell: ast.Module) -> Iterator[tuple[str, Parameter]]:
    for line in cell.body:
        if not isinstance(line, ast.Assign | ast.AnnAssign):
            continue
        try:
            default = line.value and ast.literal_eval(line.value)
        except ValueError:  # calculated: anything may be given in its place
            default = None
        if isinstance(line, ast.AnnAssign):
            targets, types = [line.target], _types_of(line.annotation)
        else:  # a default of None says that something else may be given
            targets = line.targets  # type: ignore[assignment]
            types = (type(default),) if default is not None and type(default) in _WORDS else ()
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, Parameter(types, line.value is None, default)


def _types_of(annotation: ast.expr) -> tuple[type, ...]:
    """Return the types that an annotation allows; empty for one we cannot judge."""
    match annotation:
        case ast.Constant(value=None):
            return (type(None),)
        case ast.Constant(value=str(text)):
            try:
                return _types_of(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return ()
        case ast.Name(id=name):
            return (_TYPES[name],) if name in _TYPES else ()
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either([left, right])
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return _either([inner, ast.Constant(value=None)])
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=inner)):
            return _either(inner)
        case ast.Subscript(value=ast.Name() as base):
            return _types_of(base)
    return ()


def _either(annotations: Sequence[ast.expr]) -> tuple[type, ...]:
    each = [_types_of(annotation) for annotation in annotations]
    return tuple(kind for types in each for kind in types) if all(each) else ()


def _fits(value: Any, kind: type) -> bool:
    if isinstance(value, bool):  # which Python counts as a whole number
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
