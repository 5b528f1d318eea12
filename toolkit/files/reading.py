"""Files of people are read: text, TOML and JSON, none too large or too deep, with one line for each fault."""

import contextlib
import functools
import json
import re
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from toolkit.errors import InputError
from toolkit.words import suggestion

V = TypeVar("V")
DEEPEST = 100
"""Levels of lists and objects that are read: nobody writes more, and a thousand end whatever calls itself for each."""

_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEEPEST}}}""")
ZSTD = 93
"""Zstandard, of the methods of compression that a zip knows."""

DAMAGED_ZIP = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, LookupError, TypeError, ValueError, AttributeError,
    MemoryError, OverflowError,
)  # fmt: skip
"""What zipfile and the readers of its members raise: a broken stream, an unknown method, "encrypted", a false size."""

_MEMBER, _PACKED, _LARGEST = 1 << 26, 100, 1 << 29
"""Bytes that a member of a zip may unpack to however small it is, times its packed size that it may, and at most."""


def similar_file(path: Path | Traversable) -> str:
    """Return "did you mean NAME? " where a file that is not there has a neighbour of nearly its name."""
    folder = Path(str(path)).parent
    return (
        suggestion(path.name, {entry.name for entry in folder.iterdir()} - {path.name})
        if folder.is_dir()
        else ""
    )


def read_text(
    path: Path | Traversable,
    where: str = "",
    what: str = "file",
    advice: str = "check the path",
    *,
    wide: bool = False,
) -> str:
    """Return a text file in UTF-8, or where ``wide`` in UTF-16 with its mark; line breaks stay as they are."""
    where = where or str(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InputError(f"{where}: is larger than {_LARGEST >> 20} MB; split it, or take a part of it")
        # Windows editors write a byte order mark before UTF-8 too.
        is_wide = wide and content[:2] in (b"\xff\xfe", b"\xfe\xff")
        return content.decode("utf-16" if is_wide else "utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            f"{where}: cannot be read: there is no such {what}; {similar_file(path)}{advice}"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{where}, line {line}: is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{where}: cannot be read ({error.strerror})") from None


class TooDeep(ValueError):
    """Lists or objects of a text are nested deeper than is read."""


def parsed(parse: Callable[..., V], *arguments: Any, **settings: Any) -> V:
    """Return what a parser reads of text, or raise `TooDeep`: whoever goes through the value may then call itself."""
    with contextlib.suppress(RecursionError, MemoryError):
        value = parse(*arguments, **settings)
        level: list[Any] = [[value]]
        for _ in range(DEEPEST + 1):
            level = [
                child
                for part in level
                for child in (part.values() if isinstance(part, dict) else part)
                if isinstance(child, dict | list | tuple)
            ]
            if not level:
                return value
    raise TooDeep(f"nested deeper than {DEEPEST} levels")


def _content(text: str, where: str, parse: Callable[[str], Any], form: str) -> Any:
    try:
        return parsed(parse, text)
    except ValueError as error:  # also a number of 5,000 digits
        raise InputError(f"{where}: not valid {form}: {' '.join(str(error).split())[:200]}") from None


def read_toml(path: Path | Traversable, where: str = "", what: str = "file") -> dict[str, Any]:
    """Return the content of a TOML file; ``where`` and ``what`` name it in errors."""
    return _content(read_text(path, where, what), where or str(path), _toml, "TOML")


def _toml(text: str) -> dict[str, Any]:
    # tomllib takes seconds for one key of 20,000 parts, and hours for a million.
    if _LONG_KEY.search(text):
        raise TooDeep(f"a key has more than {DEEPEST} parts")
    return tomllib.loads(text)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; a key that an object has twice is refused, for one of its values is lost."""
    parse = functools.partial(json.loads, object_pairs_hook=distinct_keys)
    return _content(read_text(path), str(path), parse, "JSON")


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict, or raise ``ValueError`` that names the key that is there twice."""
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise ValueError(f"the key {key!r} is there twice")
        row[key] = value
    return row


def member_size(file: zipfile.ZipFile, name: str) -> int:
    """Return what a member of a zip unpacks to; raises ``ValueError`` where that is more than a file of work has."""
    member = file.getinfo(name)
    most = max(_MEMBER, min(_PACKED * member.compress_size, _LARGEST))
    if member.file_size > most:
        raise ValueError(
            f"{name} would unpack to {member.file_size:,} bytes, more than the {most:,} that are read"
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD):
        raise ValueError(f"{name} is compressed by the method {member.compress_type}, which is not read")
    return member.file_size
