"""Tidy frames by the table of their columns, ``columns.csv``: typed, described, and written to files without loss.

A Parquet file holds the columns and dtypes of its frame; a CSV file floats to the last bit, a missing text apart from
an empty one, and texts character by character, guarded where a spreadsheet would run them; see `toolkit.files.tables`.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.files.tables import arrow_csv
from toolkit.files.writing import write_atomically
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS, choices, scale_words

FORMATS = (".csv", ".parquet")
# The storage is named: what "string" alone means depends on what else is installed, and on options of the user's.
TEXT = pd.StringDtype("pyarrow")
_CATEGORIES = {"bin": tuple(LENGTH_BINS), "role": JUDGE_ROLES, "dimension": DIMENSIONS}


class Column(NamedTuple):
    """A column of a tidy frame."""

    dtype: str
    unit: str
    meaning: str
    missing: str


def _text_of(name: str) -> str:
    return resources.files("toolkit.store").joinpath(name).read_text("utf-8")


_TABLE = ("frame", "column", *Column._fields)
_ROWS = tuple(csv.DictReader(_text_of("columns.csv").splitlines()))
KINDS: dict[str, dict[str, Column]] = {row["frame"]: {} for row in _ROWS}
"""The columns of every tidy frame by the name of the frame, which is the name of the method of a study."""
for _row in _ROWS:
    if _row["column"]:  # a row without one says what a row of the frame is
        KINDS[_row["frame"]][_row["column"]] = Column(*(_row[name] for name in Column._fields))


def columns_of(kind: str, scheme: Scheme = SEED_SCHEME) -> dict[str, Column]:
    """Return the columns of a kind of frame by name; those of the dimensions are a rubric's."""
    if kind not in KINDS:
        raise InputError(f"there is no frame {kind!r}; {choices(kind, KINDS)}")
    if scheme == SEED_SCHEME:
        return KINDS[kind]
    columns: dict[str, Column] = {}
    for name, column in KINDS[kind].items():
        unit = column.unit.replace("0-5", scale_words(scheme.scale, "-"))
        column = column._replace(unit=unit, dtype=column.dtype.replace("dimension", "string"))
        if name == DIMENSIONS[0]:
            words = {part: f"score of {part.replace('_', ' ')}" for part in scheme.names}
            columns |= {part: column._replace(meaning=meaning) for part, meaning in words.items()}
        elif name not in DIMENSIONS:
            columns[name] = column
    return columns


def dtype_of(word: str) -> Any:
    """Return the pandas dtype that a column's word for it stands for."""
    if word in _CATEGORIES:
        return pd.CategoricalDtype(pd.Index(_CATEGORIES[word], dtype="str"), ordered=True)
    if word == "string":
        return TEXT
    return pd.DatetimeTZDtype("us", "UTC") if word == "utc" else pd.api.types.pandas_dtype(word)


def types_of(kind: str, scheme: Scheme = SEED_SCHEME) -> dict[str, str]:
    """Return the words for the dtypes of the columns of a kind of frame, by name."""
    return {name: column.dtype for name, column in columns_of(kind, scheme).items()}


def typed(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    """Return rows as a frame with the columns and dtypes of a table of types, also when there are no rows."""
    table = list(rows)
    return typed_columns({name: [row.get(name) for row in table] for name in types}, types)


def typed_columns(columns: Mapping[str, Sequence[Any] | pd.Series], types: Mapping[str, str]) -> pd.DataFrame:
    """Return columns as a frame with the dtypes of a table of types; ``None`` is missing."""
    return pd.DataFrame({name: _array(name, columns[name], word) for name, word in types.items()})


def _array(name: str, values: Sequence[Any] | pd.Series, word: str) -> Any:
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.CategoricalDtype):
        return values.array
    if word in _CATEGORIES:
        array = pd.Series(values, dtype="object")
        odd = array[array.notna() & ~array.isin(_CATEGORIES[word])]
        if word == "bin" and 0 < len(odd) == array.notna().sum():
            return array.astype(TEXT).array  # levels of a factor, whose order the study knows
        if len(odd):  # pandas would make it a missing one
            allowed = ", ".join(_CATEGORIES[word])
            raise InputError(f"column {name!r} cannot hold {odd.iloc[0]!r}; it is one of {allowed}")
        return pd.Categorical(array, dtype=dtype_of(word))
    if word == "bool":
        # Not by what Python takes for true: a missing value would be False, or True, and so would the text "False".
        truth = pd.Series(values, dtype="boolean")
        if truth.isna().any():
            raise InputError(f"column {name!r} has a row without a value; it is True or False in every row")
        return truth.to_numpy(dtype="bool")
    if isinstance(values, pd.Series):
        return values.astype(dtype_of(word)).array
    if word == "float64":
        return np.array(values, dtype=word)
    if word == "utc":
        # Not by inference: with no values, or none present, that would be another unit.
        return pd.to_datetime(pd.Series(values, dtype="object"), utc=True).dt.as_unit("us").array
    return pd.array(values, dtype=dtype_of(word))


def as_kind(frame: pd.DataFrame, kind: str, scheme: Scheme = SEED_SCHEME) -> pd.DataFrame:
    """Return a frame with exactly the columns, order and dtypes of its kind."""
    types = types_of(kind, scheme)
    odd = [*(name for name in types if name not in frame), *(name for name in frame if name not in types)]
    if odd:
        verb = "lacks" if odd[0] in types else "does not have"
        raise InputError(f"frame {kind}: {verb} the column {odd[0]!r}; study.dictionary({kind!r}) lists them")
    try:
        return typed_columns({name: frame[name] for name in types}, types)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"frame {kind}: a value is not of its column's dtype ({error})") from error


def describe(kind: str | None = None, scheme: Scheme = SEED_SCHEME) -> pd.DataFrame:
    """Return the data dictionary as a frame: frame, column, dtype, unit, meaning, and when a value is missing."""
    rows = [
        {
            "frame": frame,
            "column": name,
            **column._asdict(),
            "dtype": dtype_words(column.dtype),
            "missing": column.missing or "never",
        }
        for frame in (KINDS if kind is None else (kind,))
        for name, column in columns_of(frame, scheme).items()
    ]
    return typed(rows, dict.fromkeys(_TABLE, "string"))


def dtype_words(word: str) -> str:
    """Return a dtype as a reader of the dictionary sees it."""
    dtype = dtype_of(word)
    if not isinstance(dtype, pd.CategoricalDtype):
        return str(dtype)
    return "category: " + " < ".join(dtype.categories)


def dictionary_text(scheme: Scheme = SEED_SCHEME) -> str:
    """Return the data dictionary as Markdown, the same text every time."""
    parts = [_text_of("dictionary.md").replace("from 0 to 5", f"from {scale_words(scheme.scale)}")]
    for kind, meaning in ((row["frame"], row["meaning"]) for row in _ROWS if not row["column"]):
        parts.append(f"## `study.{kind}()`\n\n{meaning.capitalize()}.\n")
        lines = ["| column | dtype | unit | meaning | missing |", "| --- | --- | --- | --- | --- |"]
        for _, name, *cells in describe(kind, scheme).itertuples(index=False):
            escaped = (cell.replace("|", chr(92) + "|") for cell in (f"`{name}`", *cells))
            lines.append(f"| {' | '.join(escaped)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def save_frame(frame: pd.DataFrame, path: Path, kind: str, scheme: Scheme = SEED_SCHEME) -> Path:
    """Write a tidy frame into a file that is whole or not there; the name says the format, ``.csv`` or ``.parquet``."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    frame = as_kind(frame, kind, scheme)
    if path.suffix == ".csv":
        words = types_of(kind, scheme)
        texts = [name for name, word in words.items() if word == "string" or word in _CATEGORIES]
        table = pa.Table.from_pandas(frame.astype(dict.fromkeys(texts, TEXT)), preserve_index=False)
        return write_atomically(path, arrow_csv(table, texts))
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer)
    return write_atomically(path, buffer.getvalue())
