"""CSV files that are complete or not there: written in a folder beside the target, moved when all is well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from toolkit.errors import InputError
from toolkit.samples.cells import csv_line
from toolkit.samples.columns import NAMES, Column

_AT_ONCE: Final = 5_000  # lines that wait for their file to be opened: thousands of streams, one open file
_STREAM: Final = NAMES.index("stream")


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

    def __init__(self, folder: Path, stem: str, columns: Sequence[Column], per_stream: bool) -> None:
        self._folder, self._stem, self._per_stream = folder, stem, per_stream
        self._places = [NAMES.index(column.name) for column in columns]
        self._texts = [column.dtype == "string" for column in columns]
        self._header = ",".join(column.name for column in columns) + "\n"
        self._waiting: dict[str, list[str]] = {}
        self._count = 0
        self._rows: dict[str, int] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Add a row, one cell a column of ``COLUMNS``, to the table that it belongs to."""
        stem = self._stem
        if self._per_stream:
            stem = f"{stem}-stream-{cells[_STREAM]}" if cells[_STREAM] else f"{stem}-other"
        line = csv_line([cells[place] for place in self._places], self._texts)
        if stem in self._waiting:
            self._waiting[stem].append(line)
        else:
            self._waiting[stem] = [line]
        self._count += 1
        if self._count >= _AT_ONCE:
            self._flush()

    def close(self) -> dict[str, int]:
        """Write what waits and return the rows of each table, by the stem of its file."""
        self._flush()
        return self._rows

    def _flush(self) -> None:
        for stem, lines in self._waiting.items():
            with (self._folder / f"{stem}.csv").open("a", encoding="utf-8", newline="") as stream:
                if stem not in self._rows:
                    stream.write(self._header)
                stream.write("".join(lines))
            self._rows[stem] = self._rows.get(stem, 0) + len(lines)
        self._waiting.clear()
        self._count = 0


def move(staging: Path, folder: Path, stem: str) -> Path:
    """Move a table, and its provenance after it."""
    (folder / f"{stem}.json").unlink(
        missing_ok=True
    )  # killed half-way, a table has no provenance, never another's
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
