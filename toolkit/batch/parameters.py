"""Parameters of a template: what its `parameters` cell takes, and whether what it is given fits.

papermill only warns about a parameter it does not know and finds defaults by a regular expression, which misses lines
with two equal signs. A `parameters` cell is plain Python, so we read it as Python.
"""

from __future__ import annotations

import ast
import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from toolkit.batch.template import read_template
from toolkit.errors import InputError

TAG: Final = "parameters"
_TYPES: Final = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}
_WORDS: Final = {int: "a whole number", float: "a number", str: "text", bool: "true or false"} | {
    list: "a list",
    dict: "a table",
    type(None): "nothing (None)",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template."""

    name: str
    types: tuple[type, ...]
    needed: bool
    default: Any


def parameters_of(notebook: Any, where: str) -> dict[str, Parameter]:
    r"""Return what the cell tagged `parameters` of a Python notebook takes."""
    said = notebook.metadata.get("kernelspec", {}).get("language")  # which not every notebook says there
    language = said or notebook.metadata.get("language_info", {}).get("name") or "python"
    if language.lower() not in ("python", "ipython"):
        raise InputError(f"{where}: is a notebook in {language}; templates are Python notebooks")
    sources = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and TAG in cell.metadata.get("tags", ())
    ]
    if not sources:
        raise InputError(f"{where}: no cell is tagged `{TAG}`; tag the cell with the defaults")
    try:
        body = ast.parse(sources[0]).body
    except SyntaxError as error:
        raise InputError(
            f"{where}: the cell tagged `{TAG}` is not plain Python: line {error.lineno}: {error.msg}"
        ) from None
    found = dict(_assigned(body))
    if not found:
        raise InputError(
            f"{where}: the cell tagged `{TAG}` sets nothing; give each parameter a default there"
        )
    return found


def check_parameters(template: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as a notebook can be given them; refuse what the template does not take."""
    return fitting(parameters_of(read_template(template), str(template)), parameters, str(template))


def fitting(known: Mapping[str, Parameter], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the given parameters as plain values that fit; see `check_parameters`."""
    for name in given:
        if name not in known:
            raise InputError(
                f"{where}: unknown parameter {name!r}; this template takes {', '.join(sorted(known))}"
            )
    values = {name: plain(value, f"{where}: {name}") for name, value in given.items()}
    for parameter in known.values():
        if parameter.needed and parameter.name not in values:
            raise InputError(
                f"{where}: parameter {parameter.name!r} is missing; the template has no default for it"
            )
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
                raise InputError(
                    f"{where}: {short(value)} holds half a character; no file can hold it"
                ) from None
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


def _assigned(body: Sequence[ast.stmt]) -> list[tuple[str, Parameter]]:
    found = []
    for line in body:
        if not isinstance(line, ast.Assign | ast.AnnAssign):
            continue
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        types = _types_of(line.annotation) if isinstance(line, ast.AnnAssign) else None
        value = line.value
        known, default = _literal(value)
        if types is None:  # a default of None says that something else may be given
            types = (type(default),) if known and type(default) in _WORDS and default is not None else ()
        for target in targets:
            if isinstance(target, ast.Name):
                found.append((target.id, Parameter(target.id, types, value is None, default)))
    return found


def _literal(value: ast.expr | None) -> tuple[bool, Any]:
    try:
        return value is not None, value and ast.literal_eval(value)
    except ValueError:
        return False, None


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


def short(value: Any) -> str:
    """Return a value as Python writes it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
