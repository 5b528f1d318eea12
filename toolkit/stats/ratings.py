"""Read ratings that someone wrote down elsewhere: one row per target and judge."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd

from toolkit.errors import InputError

REQUIRED = ("target", "judge", "score")
OPTIONAL = ("dimension", "base")
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""What people write as a number; Python's float also takes ``1_0`` and full-width digits, which are slips."""
_SMALLEST, _LARGEST = 1e-9, 1e9
"""Beyond these the sums of squares lose the differences between scores, or overflow."""


def read_ratings(path: str | Path) -> pd.DataFrame:
    r"""Read a CSV file of ratings into a frame, and refuse what cannot be read as it stands.

    An empty score (or NA, NaN, null, None) is a missing rating and stays in the frame as NaN. Duplicates are
    kept: ``toolkit.stats.reliability`` finds them, says so and averages nothing.

    Parameters
    ----------
    path
        CSV file, UTF-8, with a header: ``target``, ``judge``, ``score`` and, where there are several,
        ``dimension`` and ``base``. Other columns are ignored.

    Returns
    -------
    pandas.DataFrame
        The columns above, in that order; ``score`` is float, the others are text.

    Raises
    ------
    InputError
        If the file cannot be read, is empty, lacks a column, or a row lacks a target or judge, or has a score
        that is not a number; the message names the line and the value.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "ratings.csv"
    ...     _ = file.write_text("target,judge,score\na1,primary,4.5\na1,secondary,\n")
    ...     read_ratings(file)["score"].tolist()
    [4.5, nan]
    """
    file = Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file; give the path of a CSV file of ratings") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: cannot be read as CSV in UTF-8 ({error}); save it as such") from None
    if not lines:
        raise InputError(f"{file}: is empty; it needs a header {','.join(REQUIRED)} and a row per rating")
    columns = _header(file, lines[0][1])
    if len(lines) == 1:
        raise InputError(f"{file}: has a header but no ratings below it; add a row per rating")
    rows = [_row(file, number, cells, columns, len(lines[0][1])) for number, cells in lines[1:]]
    return pd.DataFrame(rows, columns=list(columns))


def _header(file: Path, header: list[str]) -> dict[str, int]:
    """Return the position of each column that is read."""
    absent = [name for name in REQUIRED if name not in header]
    if absent:
        semicolons = len(header) == 1 and ";" in header[0]
        action = "separate the columns by commas" if semicolons else "add to the header what is missing"
        raise InputError(
            f"{file}: lacks the column {', '.join(absent)} (found: {', '.join(header)}); {action}"
        )
    known = [name for name in (*REQUIRED, *OPTIONAL) if name in header]
    twice = [name for name in known if header.count(name) > 1]
    if twice:
        raise InputError(f"{file}: has the column {twice[0]} more than once; keep one")
    return {name: header.index(name) for name in known}


def _row(
    file: Path, number: int, cells: list[str], columns: dict[str, int], width: int
) -> dict[str, str | float]:
    if len(cells) != width:
        raise InputError(
            f"{file}, line {number}: has {len(cells)} cells where the header has {width}; correct the line"
        )
    row: dict[str, str | float] = {}
    for name, position in columns.items():
        cell = cells[position]
        if name == "score":
            row[name] = _score(file, number, cell)
        elif cell:
            row[name] = cell
        else:
            raise InputError(f"{file}, line {number}: the {name} is empty; every rating needs one")
    return row


def _score(file: Path, number: int, cell: str) -> float:
    if cell.lower() in _MISSING:
        return float("nan")
    if not _NUMBER.fullmatch(cell):
        raise InputError(
            f"{file}, line {number}: score {cell!r} is not a number; write it like 4.5 or leave it empty"
        )
    score = float(cell)
    if score and not _SMALLEST <= abs(score) <= _LARGEST:
        raise InputError(
            f"{file}, line {number}: score {cell} cannot be calculated with, its size must be 0 or from {_SMALLEST:g} "
            f"to {_LARGEST:g}; give the scores in another unit, or less a constant"
        )
    return score
