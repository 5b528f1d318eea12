"""Prompts as a table: a CSV file or JSON lines, one prompt a row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError

REQUIRED: Final = ("prompt_id", "text", "scenario", "category", "length_bin")
OPTIONAL: Final = ("base", "dataset_version")


def read_table(path: Path) -> tuple[str, str, list[tuple[str, dict[str, Any]]]]:
    """Return the name, the version and the rows of a table of prompts.

    Parameters
    ----------
    path
        A ``.csv`` file with a header, or a ``.jsonl`` file with one object a line; UTF-8. Its columns are
        ``REQUIRED`` and perhaps ``OPTIONAL``.

    Returns
    -------
    tuple
        Name (that of the file), version (the column's, or the name), and for every prompt where it comes
        from and its fields.

    Raises
    ------
    InputError
        The file has no row, cannot be read, or a row lacks a key, has an unknown one, or another version.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")  # not read_text: line breaks stay as they were written
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8, save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    found = _csv_rows(path, text) if path.suffix.lower() == ".csv" else _json_rows(path, text)
    rows = [(where, _checked(where, row)) for where, row in found]
    if not rows:
        raise InputError(f"{path}: no prompt in it, expected one a row")
    versions = {row.get("dataset_version", path.stem): where for where, row in rows}
    if len(versions) > 1:
        where = list(versions.values())[1]
        raise InputError(
            f"{where}: key 'dataset_version' must be the same in every row, found {', '.join(versions)}"
        )
    return path.stem, next(iter(versions)), rows


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        header = reader.fieldnames or ()
        if len(header) == 1 and ";" in header[0]:
            raise InputError(f"{path}: its columns are separated by semicolons; save it with commas")
        _check_names(f"{path}, header", header)
        for number, row in enumerate(reader, start=1):
            where = f"{path}, row {number}"
            if None in row or None in row.values():
                raise InputError(
                    f"{where}: has not as many cells as the header, quote a text that holds a comma"
                )
            # An empty cell of an optional column says nothing, like a key that JSON lines leave out.
            yield where, {key: cell for key, cell in row.items() if cell or key not in OPTIONAL}
    except csv.Error as error:
        raise InputError(f"{path}, after line {reader.line_num}: not valid CSV: {error}") from None


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    # Not splitlines: JSON text may hold U+2028, which splitlines takes for the end of a line.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, row {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: not valid JSON: {error}") from None
            if not isinstance(row, dict):
                raise InputError(f"{where}: must be a JSON object with the keys {', '.join(REQUIRED)}")
            _check_names(where, row)
            yield where, row


def _check_names(where: str, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        if name not in REQUIRED + OPTIONAL:
            raise InputError(f"{where}: unknown key '{name}', allowed are {', '.join(REQUIRED + OPTIONAL)}")
        if names.count(name) > 1:
            raise InputError(f"{where}: key '{name}' is there twice")
    for name in REQUIRED:
        if name not in names:
            raise InputError(f"{where}: key '{name}' is missing, needed are {', '.join(REQUIRED)}")


def _checked(where: str, row: dict[str, Any]) -> dict[str, Any]:
    for key, value in row.items():
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: key '{key}' must be a text that is not empty")
    return row
