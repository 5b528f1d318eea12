"""The CSV files of a sample: complete or not there, and safe in a spreadsheet.

A cell that begins with one of ``= + - @``, a tab, a carriage return, a line feed, or the full-width forms of the four,
can become a formula when a spreadsheet opens the file; text in captures is chosen by strangers. Such a cell gets an
apostrophe in front. So does one that begins with an apostrophe, which makes taking it off again unambiguous.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from toolkit.errors import InputError
from toolkit.samples.columns import COLUMNS, NAMES

_MARK: Final = "'"
_RISKY: Final = frozenset("=+-@\t\r\n＝＋－＠" + _MARK)
_AT_ONCE: Final = 5_000  # rows that wait for their file to be opened: thousands of streams, one open file
_STREAM: Final = NAMES.index("stream")


def guard(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return _MARK + text if text and text[0] in _RISKY else text


def unguard(text: str) -> str:
    """Return what ``guard`` was given."""
    return text[1:] if len(text) > 1 and text[0] == _MARK and text[1] in _RISKY else text


@contextmanager
def staging_for(final: Path) -> Iterator[Path]:
    """Give a hidden folder beside a file, so that moving out of it is one step; it is gone afterwards."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{final.stem}.", dir=final.parent) as staging:
            yield Path(staging)
    except OSError as error:
        raise InputError(f"{final}: cannot be written ({error.strerror or error})") from None


class Tables:
    """The CSVs of one conversion, in a folder where nobody looks until they are complete."""

    def __init__(self, folder: Path, stem: str, columns: Sequence[str], per_stream: bool) -> None:
        self._folder, self._stem, self._per_stream = folder, stem, per_stream
        self._places = [(NAMES.index(name), COLUMNS[name] == "string") for name in columns]
        self._header = tuple(columns)
        self._waiting: dict[str, list[list[str]]] = {}
        self._count = 0
        self._rows: dict[str, int] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Add a row, one cell a column of ``COLUMNS``, to the table that it belongs to."""
        stem = self._stem
        if self._per_stream:
            stem = f"{stem}-stream-{cells[_STREAM]}" if cells[_STREAM] else f"{stem}-other"
        row = [guard(cells[place]) if text else cells[place] for place, text in self._places]
        self._waiting.setdefault(stem, []).append(row)
        self._count += 1
        if self._count >= _AT_ONCE:
            self._flush()

    def close(self) -> dict[str, int]:
        """Write what waits and return the rows of each table, by the stem of its file."""
        self._flush()
        return self._rows

    def _flush(self) -> None:
        for stem, rows in self._waiting.items():
            with (self._folder / f"{stem}.csv").open("a", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerows(rows if stem in self._rows else [self._header, *rows])
            self._rows[stem] = self._rows.get(stem, 0) + len(rows)
        self._waiting.clear()
        self._count = 0


def move(staging: Path, folder: Path, stem: str) -> Path:
    """Move a table, and its provenance after it."""
    # Killed half-way, a table has no provenance, never another's.
    (folder / f"{stem}.json").unlink(missing_ok=True)
    for suffix in (".csv", ".json"):
        (staging / f"{stem}{suffix}").replace(folder / f"{stem}{suffix}")
    return folder / f"{stem}.csv"


def remove_earlier_streams(final: Path, written: Mapping[str, int]) -> None:
    """Remove the streams of an earlier conversion to the same name, which would pass for streams of this one."""
    for path in sorted(final.parent.glob("*.csv")):
        ours = path.stem == f"{final.stem}-other" or path.stem.removeprefix(f"{final.stem}-stream-").isdigit()
        if ours and path.stem not in written and path.with_suffix(".json").is_file():
            path.unlink()
            path.with_suffix(".json").unlink()
