"""The file of a template: read as a notebook, and what its metadata says of it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from toolkit.errors import InputError


def read_template(template: Path) -> Any:
    """Return a template as a notebook of format 4."""
    return notebook_of(read_bytes(template), str(template))


def read_bytes(template: Path) -> bytes:
    """Return the content of the file of a template; raises `InputError` when there is no such file."""
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
