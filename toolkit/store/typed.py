"""Columns with stable dtypes: from what the store holds to a frame, the same dtypes with no rows as with many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.store.columns import Column
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS

# The storage is named: what "string" alone means depends on what else is installed, and on options of the user's.
TEXT: Final = pd.StringDtype("pyarrow")
MOMENT: Final = pd.DatetimeTZDtype("us", "UTC")
_CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "bin": tuple(LENGTH_BINS),
    "role": JUDGE_ROLES,
    "dimension": DIMENSIONS,
}


def dtype_of(word: str) -> Any:
    """Return the pandas dtype that a word of `toolkit.store.columns.Column` stands for."""
    if word in _CATEGORIES:
        return pd.CategoricalDtype(pd.Index(_CATEGORIES[word], dtype="str"), ordered=True)
    if word == "string":
        return TEXT
    return MOMENT if word == "utc" else pd.api.types.pandas_dtype(word)


def types_of(columns: Mapping[str, Column]) -> dict[str, str]:
    """Return the words for the dtypes of columns, by name."""
    return {name: column.dtype for name, column in columns.items()}


def typed(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    """Return rows as a frame with the columns and dtypes of a table of types, also when there are no rows."""
    kept = list(rows)
    return typed_columns({name: [row.get(name) for row in kept] for name in types}, types)


def typed_columns(columns: Mapping[str, Sequence[Any] | pd.Series], types: Mapping[str, str]) -> pd.DataFrame:
    """Return columns as a frame with the dtypes of a table of types; ``None`` is missing."""
    return pd.DataFrame({name: _array(name, columns[name], word) for name, word in types.items()})


def _array(name: str, values: Sequence[Any] | pd.Series, word: str) -> Any:
    """Return values as an array of one dtype."""
    if word in _CATEGORIES:
        array = pd.Series(values, dtype="object")
        odd = array[array.notna() & ~array.isin(_CATEGORIES[word])]
        if len(odd):  # pandas would make it a missing one
            raise InputError(
                f"column {name!r} cannot hold {odd.iloc[0]!r}; it is one of {', '.join(_CATEGORIES[word])}"
            )
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
