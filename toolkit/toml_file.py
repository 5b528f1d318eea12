"""TOML files that people write: read with or without a byte order mark, each fault in one line."""

from __future__ import annotations

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from toolkit.errors import InputError

M = TypeVar("M", bound=BaseModel)


def read_toml(path: Path | Traversable, where: str = "", what: str = "file") -> dict[str, Any]:
    """Return the content of a TOML file; ``where`` and ``what`` name it in errors."""
    where = where or str(path)
    try:
        # Windows editors write a byte order mark, which TOML does not know.
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{where}: no such {what}, so it cannot be read") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            f"{where}: cannot be read as text, line {line} is not UTF-8; save it as UTF-8"
        ) from None
    except OSError as error:
        raise InputError(f"{where}: cannot be read ({error.strerror})") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # also a number of 5,000 digits, lists in lists without an end
        raise InputError(f"{where}: not valid TOML: {' '.join(str(error).split())[:200]}") from None


def checked(model: type[M], data: Any, where: str) -> M:
    """Return what a file holds as a model of pydantic; its first fault is one line that says where it stands."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        loc, said = first["loc"], first["msg"].removeprefix("Value error, ")
        if first["type"] in ("missing", "extra_forbidden"):
            said = (
                f"key {loc[-1]!r} is missing; add it"
                if first["type"] == "missing"
                else f"unknown key {loc[-1]!r}"
            )
            loc = loc[:-1]
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in loc)
        raise InputError(f"{where}{', ' if place else ''}{place}: {said}") from None
