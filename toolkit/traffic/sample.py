"""A sample: its columns, the CSV that a model sees, and the same as a typed frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.files.reading import read_json, read_text, read_toml
from toolkit.files.tables import csv_records, unguard
from toolkit.report.visible import visible
from toolkit.words import choices, counted

if TYPE_CHECKING:
    import pandas as pd

_FOLDER = Path(__file__).parent
_SHIPPED = _FOLDER / "data"
TABLE = read_toml(_FOLDER / "columns.toml")
COLUMNS = TABLE["sample"]
"""Name and dtype; time in s since the first packet, lengths in bytes, addresses and ports of the innermost packet."""
NAMES = tuple(COLUMNS)
CUT = "[cut]"
"""Ends a cell whose value was cut off by a snap length (``tcpdump -s``)."""


def choose(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of these names, in the order given; all of them for ``None``."""
    chosen = (names,) if isinstance(names, str) else NAMES if names is None else tuple(names)
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise InputError(
            f"column {unknown[0]!r} of a sample: there is none; {choices(unknown[0], NAMES, 'choose from')}"
        )
    if not chosen:
        raise InputError("columns of a sample: name at least one, or leave them out for all")
    if len(set(chosen)) < len(chosen):
        raise InputError(f"columns of a sample: one is named twice in {', '.join(chosen)}")
    return chosen


@dataclass(frozen=True)
class Sample:
    """A CSV of one flow, made from a capture."""

    name: str
    csv: str
    frame: pd.DataFrame
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        """Say how large the sample is, and show its first packets."""
        return f"{self._size()}\n{self._head().to_string()}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._size())}</p>{self._head().to_html(notebook=True)}"  # cells are escaped by pandas

    def _size(self) -> str:
        rows, columns = self.frame.shape
        size = f"{counted(rows, 'packets')}, {counted(columns, 'columns')}"
        return f"Sample {self.name}: {size}, the first ones:"

    def _head(self) -> pd.DataFrame:
        return self.frame.iloc[:5, :9].map(lambda cell: visible(cell) if isinstance(cell, str) else cell)


@cache
def shipped_samples() -> tuple[str, ...]:
    """Return the names of the samples that come with the toolkit, sorted.

    Examples
    --------
    >>> shipped_samples()
    ('beaconing', 'login_post', 'plain_gets', 'redirects_and_404s', 'slow_download', 'sql_injection')
    """
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.csv")))


def shipped_capture(name: str) -> Path:
    """Return the capture that a sample of this name was made from.

    Examples
    --------
    >>> shipped_capture("plain_gets").name
    'plain_gets.pcapng'
    """
    if name not in shipped_samples():
        raise InputError(f"sample {name!r}: does not ship; name one of {', '.join(shipped_samples())}")
    return _SHIPPED / f"{name}.pcapng"


def load_sample(path_or_name: str | Path, folder: Path | None = None) -> Sample:
    """Read a sample by its name where it ships, or by the path of a CSV that ``toolkit samples convert`` wrote.

    A relative path begins in the folder, by default the working directory.

    Examples
    --------
    >>> sample = load_sample("plain_gets")
    >>> sample.name, len(sample.frame), sample.frame["method"].dropna().tolist()[:2]
    ('plain_gets', 31, ['GET', 'GET'])
    """
    import pandas as pd

    ships = str(path_or_name) in shipped_samples()
    path = _SHIPPED / f"{path_or_name}.csv" if ships else (folder or Path()) / path_or_name
    shipped = f"; or name one of {', '.join(shipped_samples())}" if not path.suffix else ""
    text = read_text(path, "", "sample", f"name a CSV that toolkit samples convert wrote{shipped}")
    # Not pandas.read_csv: it fills a short row and drops the end of a long one without an error.
    records = [cells for _, cells in csv_records(path, text) if cells]
    names, *rows = records or [[]]
    if not set(names) & set(NAMES):
        raise InputError(
            f"{path}: has no column of a sample; the first line must name some of {', '.join(NAMES)}"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{path}: the first line names a column twice; each name stands for one column")
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise InputError(f"{path}: row {number} has {len(row)} cells, the first line has {len(names)}")
    table = pd.DataFrame(rows, columns=names, dtype=str)
    frame = pd.DataFrame({name: _typed(table[name], COLUMNS.get(name, "string"), path) for name in names})
    sidecar = path.with_suffix(".json")
    provenance = read_json(sidecar) if sidecar.is_file() else {}
    if not isinstance(provenance, dict):
        raise InputError(f"{sidecar}: not a provenance object; convert the capture again")
    return Sample(path.stem, text, frame, provenance)


def _typed(cells: pd.Series, dtype: str, path: Path) -> pd.Series:
    import pandas as pd

    if dtype == "string":
        plain = cells.map(unguard).astype("string")
        return plain.mask(plain == "")
    numbers = pd.to_numeric(cells.where(cells != "", None), errors="coerce")
    bad = numbers.isna() & (cells != "")
    if dtype == "Int64":
        bad |= numbers.notna() & (numbers % 1 != 0)
    if bad.any():
        at = int(bad.to_numpy().argmax())
        raise InputError(
            f"{path}: row {at + 1}, column {cells.name}: {cells.iloc[at]!r} is not a number of its kind"
        )
    return numbers.astype(dtype)  # type: ignore[call-overload]
