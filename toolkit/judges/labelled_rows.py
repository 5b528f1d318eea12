"""Rows of a file of labelled answers, CSV or JSON lines, with the place of every cell for its errors."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError


@dataclass(frozen=True)
class Row:
    """One row of a file, and where it stands; its cells may be missing or empty."""

    file: str
    line: int
    cells: Mapping[str, Any]

    def wrong(self, column: str, what: str) -> InputError:
        """Return the error that names file, line and column."""
        return InputError(f"{self.file}, line {self.line}, column {column!r}: {what}")

    def text(self, column: str) -> str:
        """Return a text that must be there."""
        text = self.text_or_none(column)
        if text is None:
            raise self.wrong(column, "is empty; give a text")
        return text

    def text_or_none(self, column: str) -> str | None:
        """Return a text, or ``None`` where there is none or it is blank."""
        text = self.cells.get(column)
        if text is None:
            return None
        if not isinstance(text, str):
            raise self.wrong(column, f"is {_shown(text)}; give a text")
        if not text.strip():
            return None
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise self.wrong(
                column, "holds half a surrogate pair, which no model can be sent; remove it"
            ) from error
        return text

    def label(self, column: str) -> bool | None:
        """Return a label: true, yes and 1, or false, no and 0, in any case; ``None`` where there is none."""
        value = self.cells.get(column)
        if value is None or value == "":
            return None
        word = str(value).strip().lower() if isinstance(value, str | bool | int) else ""
        if word not in _LABELS:
            raise self.wrong(column, f"is {_shown(value)}; use yes or no, true or false, or leave it empty")
        return _LABELS[word]


_LABELS: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def read_rows(path: Path) -> tuple[Row, ...]:
    """Read a ``.csv`` file with a header, or a ``.jsonl`` or ``.json`` file with one object a line; UTF-8."""
    if path.suffix.lower() not in (".csv", ".jsonl", ".json"):
        raise InputError(
            f"{path}: is neither a .csv, .jsonl or .json file nor the name of a shipped set; check it"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error}); save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    read = _csv_rows if path.suffix.lower() == ".csv" else _json_rows
    rows = tuple(read(str(path), text))
    if not rows:
        raise InputError(f"{path}: holds no item; give one a row")
    return rows


def _csv_rows(name: str, text: str) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        columns = reader.fieldnames or ()
        if twice := [column for column in columns if columns.count(column) > 1]:
            raise InputError(f"{name}, line 1, column {twice[0]!r}: is there twice; name each column once")
        line = reader.line_num + 1
        for row in reader:
            if None in row or None in row.values():
                raise InputError(
                    f"{name}, line {line}: has not as many cells as the header; quote a text with a comma"
                )
            yield Row(name, line, row)
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{name}, line {line}: is not valid CSV ({error}); correct the row") from error


def _json_rows(name: str, text: str) -> Iterator[Row]:
    # Not splitlines: JSON text may hold U+2028, which splitlines takes for the end of a line.
    for line, written in enumerate(text.split("\n"), start=1):
        if not written.strip():
            continue
        try:
            row = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{name}, line {line}: is not valid JSON ({error}); one object a line"
            ) from error
        if not isinstance(row, dict):
            raise InputError(f"{name}, line {line}: is no JSON object; write one object a line")
        yield Row(name, line, row)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
