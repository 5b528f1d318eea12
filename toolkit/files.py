"""Files are written whole or not at all, leftovers of killed processes are removed, and files of people are checked.

A temporary file has the `mark` of the running system in its name and is locked by `held` while it is in use, because a
lock ends with its process and a pid may be used again. `left` finds files that nobody locks. Files with the mark of
another system are left alone: some disks do not show the locks of another machine.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import tomllib
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from toolkit.errors import InputError
from toolkit.words import choices, name_fault, suggestion

M = TypeVar("M", bound=BaseModel)
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


@functools.cache
def mark() -> str:
    """Return eight signs that name the running system; where it has no name, those of this process alone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[-8:]
    except OSError:
        return uuid.uuid4().hex[:8]


def held(handle: int) -> bool:
    """Lock an open file or folder until it is closed; false when another process has locked or removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(handle).st_nlink > 0


def left(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files that nobody locks, each locked meanwhile, so that one process only removes it."""
    try:
        entries = [entry for entry in os.scandir(folder) if re.fullmatch(name, entry.name)]
    except OSError:
        return
    for entry in entries:
        # Removed meanwhile, of another user, locked, or on a disk without locks: left alone.
        with contextlib.suppress(OSError):
            kind = os.O_RDONLY if entry.is_dir(follow_symlinks=False) else os.O_RDWR
            handle = os.open(entry.path, kind | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.lstat(entry.path)):
                    yield Path(entry.path)
            finally:
                os.close(handle)


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that is either complete or not there, also when the process is killed half-way.

    What a killed process left in the folder is removed by the next one that writes there.
    """
    with opened_atomically(path) as stream:
        stream.write(content)
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, which is never in memory as a whole."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_hex(text: str) -> str:
    """Return the SHA-256 of a text, also of one with half of a character."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(*parts: Any) -> str:
    """Return the SHA-256 that names what these parts name together."""
    return sha256_hex(json.dumps(parts))


def append_durably(path: Path, lines: bytes) -> None:
    """Append whole lines to a file that several processes may write to, and return when they are on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a+b") as file:
            if not held(file.fileno()):  # another process writes, or has just removed it
                time.sleep(0.01)
                continue
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            # A killed process may have left half a line.
            file.write(b"\n" + lines if size and file.read(1) != b"\n" else lines)
            file.flush()
            os.fsync(file.fileno())
            return


@contextlib.contextmanager
def opened_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written in pieces: at the end it is there as a whole, or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.absolute())
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{mark()}-")
        draft = Path(name)
        with os.fdopen(handle, "wb") as stream:
            if not held(handle):  # locked until it is renamed
                continue
            try:
                yield stream
                stream.flush()
                draft.chmod(0o644)  # mkstemp makes it private; a figure is for the supervisor too
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            return


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder: once in a process, for it may hold 100,000 records."""
    for draft in left(folder, rf"\..+\.{mark()}-[a-z0-9_]{{8}}"):
        with contextlib.suppress(OSError):  # whoever writes has no part in it
            draft.unlink()


def shipped(name: str) -> Path:
    """Return a folder that ships beside the package: of the source tree, or of what a wheel installed."""
    folder = Path(__file__).resolve().parent.parent / name
    if (folder.parent / "pyproject.toml").is_file():
        return folder
    for path in files("llm-security-toolkit") or ():
        if path.parts[-3:-1] == ("llm-security-toolkit", name) and Path(str(path.locate())).is_file():
            return Path(str(path.locate())).resolve().parent
    raise InputError(f"{name}: this installation of the toolkit has none; install its wheel again")


def workspace() -> Path:
    """Return the folder that templates, notebooks and results of the shipped studies are in.

    The current folder where it has templates, else the source tree; of an installed wheel the current folder, where the
    templates are copied to.
    """
    current, templates = Path.cwd(), shipped("templates")
    if (current / "templates" / "demo.toml").is_file():
        return current
    if (templates.parent / "pyproject.toml").is_file():
        return templates.parent
    for folder in (templates, shipped("notebooks")):
        shutil.copytree(folder, current / folder.name, dirs_exist_ok=True, copy_function=_copied_once)
    return current


def _copied_once(source: str, target: str) -> None:
    if not Path(target).exists():  # what is there is somebody's
        shutil.copy2(source, target)


def similar_file(path: Path | Traversable) -> str:
    """Return "did you mean NAME? " where a file that is not there has a neighbour of nearly its name."""
    folder = Path(str(path)).parent
    return (
        suggestion(path.name, {entry.name for entry in folder.iterdir()} - {path.name})
        if folder.is_dir()
        else ""
    )


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


def _content(text: str, where: str, parse: Callable[[str], Any], form: str) -> Any:
    try:
        return parsed(parse, text)
    except ValueError as error:  # also a number of 5,000 digits
        raise InputError(f"{where}: not valid {form}: {' '.join(str(error).split())[:200]}") from None


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


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _fields_at(model: type[BaseModel], keys: Sequence[int | str]) -> Any:
    """Return the fields of the table at a place; a place in a list and the name of a provider change nothing."""
    fields: Any = model.model_fields
    for key in map(str, keys):
        if key in fields:
            parts = _parts(fields[key].annotation)
            fields = next((part.model_fields for part in parts if hasattr(part, "model_fields")), {})
    return fields


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
