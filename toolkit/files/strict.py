"""Tables of files that people write, as strict models of pydantic: each fault is a line with its place in the file."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from toolkit.errors import InputError
from toolkit.words import choices, name_fault, suggestion

M = TypeVar("M", bound=BaseModel)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must be a text that is not empty")
    return text


def plain_name(name: str) -> str:
    """Return a name that is as it is seen; raises ``ValueError`` for another."""
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


Text = Annotated[str, AfterValidator(_not_blank)]


Name = Annotated[Text, AfterValidator(plain_name)]


class Strict(BaseModel):
    """One table of a file that people write: frozen, nothing unknown in it, and nothing taken for what it is not."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def checked(model: type[M], data: Any, where: str, folder: Path | None = None) -> M:
    """Return what a file in a folder holds as a model of pydantic; each fault is a line that says where it stands."""
    try:
        return model.model_validate(data, context=folder)
    except ValidationError as error:
        raise InputError(*_faults(model, error.errors(include_url=False), where)) from None


def _faults(model: type[BaseModel], rows: Sequence[ErrorDetails], where: str) -> Iterator[str]:
    absent: dict[Any, list[str]] = {}
    for row in rows:
        if row["type"] == "missing":
            absent.setdefault(row["loc"][:-1], []).append(repr(row["loc"][-1]))
    for row in rows:
        path, kind, messages = row["loc"], row["type"], [fault_sentence(model, row)]
        if kind == "extra_forbidden":
            path, messages = path[:-1], [f"unknown key {path[-1]!r}, {messages[0]}"]
        elif kind == "model_type":
            messages = ["must be a table"]
        elif kind == "faults":
            messages = row["ctx"]["faults"]
        elif kind == "missing":
            path = path[:-1]
            match absent.pop(path, []):
                case []:
                    continue
                case [name]:
                    messages = [f"key {name} is missing; add it"]
                case names:
                    messages = [f"keys {', '.join(names)} are missing; add them"]
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in path)
        yield from (f"{', '.join(filter(None, (where, place)))}: {message}" for message in messages)


def fault_sentence(model: type[BaseModel], fault: ErrorDetails) -> str:
    """Return what is wrong with a key or value of a file that a model refuses, and which may have been meant."""
    *above, key = fault["loc"] or ("",)
    if fault["type"] == "extra_forbidden":
        return choices(key, _fields_at(model, above), "allowed are")
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] != "literal_error":
        return message
    values = re.findall("'(.+?)'", fault["ctx"]["expected"])
    return f"{message}; {suggestion(fault['input'], values)}".rstrip("; ")


def _fields_at(model: type[BaseModel], keys: Sequence[int | str]) -> Any:
    """Return the fields of the table at a place; a place in a list and the name of a provider change nothing."""
    fields: Any = model.model_fields
    for key in map(str, keys):
        if key in fields:
            parts = _parts(fields[key].annotation)
            fields = next((part.model_fields for part in parts if hasattr(part, "model_fields")), {})
    return fields


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)
