"""Templates of notebooks: the parameters that one takes, and the values that fit them."""

import ast
import datetime
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

import nbformat
import numpy as np
from pydantic import TypeAdapter, ValidationError

from toolkit.errors import InputError, secret_fault
from toolkit.files.reading import parsed, read_text
from toolkit.words import choices, one_line

TAG = "parameters"
_KINDS = (int, float, str, bool, list, dict)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template."""

    kind: Any
    required: bool
    default: Any


def open_template(template: Path) -> tuple[str, Any]:
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
    metadata = notebook.metadata
    language = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get("name")
    if language and language.lower() not in ("python", "ipython"):
        raise InputError(f"{location}: is a notebook in {language}; templates are Python notebooks")
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    tagged = next((cell.source for cell in code if TAG in cell.metadata.get("tags", ())), None)
    if tagged is None:
        raise InputError(f"{location}: no cell is tagged `{TAG}`; tag the cell with the defaults")
    try:
        parameters = dict(_assigned(parsed(ast.parse, tagged)))
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
        type_ = type(default) if isinstance(default, _KINDS) else Any
        for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
            if isinstance(target, ast.Name):
                yield target.id, Parameter(type_, line.value is None, default)


def checked_arguments(
    parameters: Mapping[str, Parameter], arguments: Mapping[str, Any], location: str
) -> dict[str, Any]:
    """Return arguments as plain values of the types that a template takes; refuse those that it does not take."""
    if unknown := [name for name in arguments if name not in parameters]:
        accepted = choices(unknown[0], sorted(parameters), "this template takes")
        raise InputError(f"{location}: unknown parameter {unknown[0]!r}; {accepted}")
    values = {name: plain(value, f"{location}: {name}") for name, value in arguments.items()}
    if fault := secret_fault(values):
        raise InputError(f"{location}: {fault}")
    for name, parameter in parameters.items():
        if name not in values and parameter.required:
            message = f"{location}: parameter {name!r} is missing; the template has no default for it"
            raise InputError(message)
    for name, value in values.items():
        try:
            TypeAdapter(parameters[name].kind).validate_python(value, strict=True)
        except ValidationError as error:  # pydantic's message is 'Input should be a valid integer'
            kinds = dict.fromkeys(detail["msg"].rpartition(" be ")[2] for detail in error.errors())
            expected = " or ".join(kinds)
            raise InputError(f"{location}: {name} must be {expected}, got {short(value)}") from None
    return values


def check_parameters(template: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a template as plain values; see `checked_arguments`."""
    location = str(template)
    return checked_arguments(template_parameters(open_template(template)[1], location), arguments, location)


def plain(value: Any, location: str) -> Any:
    """Return a value in the plain types that papermill can write into a notebook."""
    if isinstance(value, np.generic):
        # datetime64 in nanoseconds would become a number.
        value = str(value) if value.dtype.kind in "mM" else value.item()
    match value:
        case None | bool():
            return value
        case str() if not any("\ud800" <= letter <= "\udfff" for letter in value):
            return str.__str__(value)  # a subclass, such as an enum, may print something else
        case int():
            return int(value)
        case float() | Decimal() if math.isfinite(value):
            return float(value)
        case PurePath():
            return str(value)
        case datetime.date() | datetime.time() if value == value:  # also datetime; NaT does not equal itself
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
