"""Tidy frames as files and back without loss: CSV for everyone, Parquet for large ones.

A frame comes back with the columns and dtypes of its kind, floats to the last bit, a missing text apart from an empty
one, and texts character by character: line ends, NUL and terminal escapes are data. In a CSV file, texts that a
spreadsheet would run are guarded; see `toolkit.table_files`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.store.dictionary import TEXT, as_kind, columns_of
from toolkit.table_files import arrow_csv, unguarded

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FORMATS: Final = (".csv", ".parquet")
_KIND: Final = b"toolkit.frame"


def save_frame(frame: pd.DataFrame, path: Path | str, kind: str) -> Path:
    """Write a tidy frame into a file that is whole or not there; the name says the format, ``.csv`` or ``.parquet``."""
    import pyarrow as pa
    from pyarrow import parquet

    location, frame = _path(path), as_kind(frame, kind)
    buffer = io.BytesIO()
    if location.suffix == ".csv":
        texts = [
            name for name, column in columns_of(kind).items() if _arrow_type(column.dtype) == pa.string()
        ]
        table = pa.Table.from_pandas(frame.astype(dict.fromkeys(texts, TEXT)), preserve_index=False)
        buffer.write(arrow_csv(table, texts))
    else:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), _KIND: kind.encode()}
        parquet.write_table(table.replace_schema_metadata(metadata), buffer)
    return write_atomically(location, buffer.getvalue())


def load_frame(path: Path | str, kind: str) -> pd.DataFrame:
    """Read a tidy frame as `save_frame` wrote it, with the dtypes of its kind."""
    import pyarrow as pa

    location = _path(path)
    try:
        content = location.read_bytes()
    except OSError as error:
        raise InputError(f"{location}: cannot be read ({error.strerror})") from error
    columns = columns_of(kind)
    types = {name: _arrow_type(column.dtype) for name, column in columns.items()}
    try:
        table = (
            _from_csv(content, types) if location.suffix == ".csv" else _from_parquet(content, kind, location)
        )
        dtypes = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        dtypes |= dict.fromkeys((pa.string(), pa.large_string()), TEXT)
        frame = table.to_pandas(types_mapper=dtypes.get, ignore_metadata=True)
        return as_kind(frame, kind)
    except (pa.ArrowException, ValueError, TypeError, InputError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{location}: is no whole file of the frame {kind} ({reason}); save it again"
        ) from error


def _from_csv(content: bytes, types: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(
        io.BytesIO(content),
        # In one block: a text may be longer than any that is smaller than the file.
        read_options=csv.ReadOptions(block_size=len(content) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    texts = [name for name in table.column_names if types.get(name) == pa.string()]
    return unguarded(table, texts)


def _from_parquet(content: bytes, kind: str, location: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(pa.BufferReader(content))
    stored_kind = (table.schema.metadata or {}).get(_KIND, kind.encode()).decode()
    if stored_kind != kind:
        raise InputError(f"it holds the frame {stored_kind}")
    return table


def _arrow_type(word: str) -> Any:
    """Return the type of a column in a file; categories are texts there."""
    import pyarrow as pa

    types = {
        "Int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "boolean": pa.bool_(),
        "utc": pa.timestamp("us", "UTC"),
    }
    return types.get(word, pa.string())


def _path(path: Path | str) -> Path:
    location = Path(path)
    if location.suffix not in FORMATS:
        raise InputError(f"{location}: name a file that ends in {' or '.join(FORMATS)}")
    return location
