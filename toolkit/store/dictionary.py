"""The data dictionary: every tidy frame and every column of it, from the table that the frames are made with."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS, choices

# The storage is named: what "string" alone means depends on what else is installed, and on options of the user's.
TEXT: Final = pd.StringDtype("pyarrow")
MOMENT: Final = pd.DatetimeTZDtype("us", "UTC")
_CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "bin": tuple(LENGTH_BINS),
    "role": JUDGE_ROLES,
    "dimension": DIMENSIONS,
}


@dataclass(frozen=True)
class Column:
    """One column of a tidy frame."""

    dtype: str
    unit: str
    meaning: str
    missing: str


_TABLE: Final = ("frame", "column", "dtype", "unit", "meaning", "missing")
_ROWS: Final = tuple(
    csv.DictReader(resources.files("toolkit.store").joinpath("columns.csv").read_text("utf-8").splitlines())
)
KINDS: Final[dict[str, dict[str, Column]]] = {}
"""The columns of every tidy frame by the name of the frame, which is the name of the method of a study."""
for _row in _ROWS:
    KINDS.setdefault(_row["frame"], {})[_row["column"]] = Column(*(_row[name] for name in _TABLE[2:]))


def dtype_of(word: str) -> Any:
    """Return the pandas dtype that a column's word for it stands for."""
    if word in _CATEGORIES:
        return pd.CategoricalDtype(pd.Index(_CATEGORIES[word], dtype="str"), ordered=True)
    if word == "string":
        return TEXT
    return MOMENT if word == "utc" else pd.api.types.pandas_dtype(word)


def columns_of(kind: str) -> Mapping[str, Column]:
    """Return the columns of a kind of frame."""
    if kind not in KINDS:
        raise InputError(f"there is no frame {kind!r}; {choices(kind, KINDS)}")
    return KINDS[kind]


def types_of(kind: str) -> dict[str, str]:
    """Return the words for the dtypes of a frame's columns, by name."""
    return {name: column.dtype for name, column in columns_of(kind).items()}


def typed(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    """Return rows as a frame with the columns and dtypes of a table of types, also when there are no rows."""
    table = list(rows)
    return typed_columns({name: [row.get(name) for row in table] for name in types}, types)


def typed_columns(columns: Mapping[str, Sequence[Any] | pd.Series], types: Mapping[str, str]) -> pd.DataFrame:
    """Return columns as a frame with the dtypes of a table of types; ``None`` is missing."""
    return pd.DataFrame({name: _array(name, columns[name], word) for name, word in types.items()})


_TRUTHS: Final = {0: False, 1: True}


def _array(name: str, values: Sequence[Any] | pd.Series, word: str) -> Any:
    if word in _CATEGORIES:
        array = pd.Series(values, dtype="object")
        odd = array[array.notna() & ~array.isin(_CATEGORIES[word])]
        if len(odd):  # pandas would make it a missing one
            raise InputError(
                f"column {name!r} cannot hold {odd.iloc[0]!r}; it is one of {', '.join(_CATEGORIES[word])}"
            )
        return pd.Categorical(array, dtype=dtype_of(word))
    if word in ("bool", "boolean"):
        # Older stores have 0 and 1 where an update set a truth value.
        values = [_TRUTHS.get(value, value) if isinstance(value, int) else value for value in values]
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


_ROW_MEANS: Final[Mapping[str, str]] = {
    "runs": "one row a run: a prompt, a model, a repeat, and the reply",
    "judgements": "one row a judgement: what one judge said of one run, under the study's ensemble and rubric",
    "dimensions": "one row per judgement and dimension",
    "calls": "one row a request that was paid for, or is to be: runs, judges, retries, repairs, sentences",
    "prompts": "one row a prompt that the study asks",
    "experiments": "one row an experiment of the one-shot test",
    "methods": "one row a method of the one-shot test: a prompt variant, a question, a sample and a model",
    "measurements": "one row a measurement: a number about one test item",
    "results": "one row a result of the test and model",
    "elements": "one row a run and judge that looked for the required elements of its base (`toolkit judges elements`)",
    "human": "one row a rating by a person: the newest of each rater and run",
}


def describe(kind: str | None = None) -> pd.DataFrame:
    """Return the data dictionary as a frame: frame, column, dtype, unit, meaning, and when a value is missing."""
    if kind is not None:
        columns_of(kind)
    rows = [
        {**row, "dtype": dtype_words(row["dtype"]), "missing": row["missing"] or "never"}
        for row in _ROWS
        if kind in (None, row["frame"])
    ]
    return typed(rows, dict.fromkeys(_TABLE, "string"))


def dtype_words(word: str) -> str:
    """Return a dtype as a reader of the dictionary sees it."""
    dtype = dtype_of(word)
    if not isinstance(dtype, pd.CategoricalDtype):
        return str(dtype)
    return "category: " + " < ".join(dtype.categories)


def as_kind(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return a frame with exactly the columns, order and dtypes of its kind."""
    types = types_of(kind)
    odd = [*(name for name in types if name not in frame), *(name for name in frame if name not in types)]
    if odd:
        verb = "lacks" if odd[0] in types else "does not have"
        raise InputError(f"frame {kind}: {verb} the column {odd[0]!r}; study.dictionary({kind!r}) lists them")
    try:
        return typed_columns({name: frame[name] for name in types}, types)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"frame {kind}: a value is not of its column's dtype ({error})") from error


def dictionary_text() -> str:
    """Return the data dictionary as Markdown, the same text every time."""
    parts = [_INTRODUCTION]
    for kind in KINDS:
        parts.append(f"## `study.{kind}()`\n\n{_ROW_MEANS[kind].capitalize()}.\n")
        lines = ["| column | dtype | unit | meaning | missing |", "| --- | --- | --- | --- | --- |"]
        for _, name, *cells in describe(kind).itertuples(index=False):
            escaped = (cell.replace("|", chr(92) + "|") for cell in (f"`{name}`", *cells))
            lines.append(f"| {' | '.join(escaped)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


_INTRODUCTION: Final = """# Data dictionary

Every tidy frame of a study, every column of it. This page is written by `python scripts/write_dictionary.py` from the
tables that the frames are made with; do not edit it. In a notebook: `study.dictionary("runs")`.

- Missing is missing: no score, cost or count is ever 0 because something failed. Columns of `string`, `Int64` and
  `boolean` hold `pd.NA`, those of `float64` hold `NaN`, moments `NaT`. An empty text is a text.
- Costs are in AUD, times in milliseconds, moments in UTC, scores in points from 0 to 5, tokens as the provider counts
  them.
- Categories are ordered: S < M < L, primary < secondary < tertiary, dimensions as in the rubric.
- The text of a reply is in no frame: `study.reply(run_id)` returns it. Texts from models are data, never code: do not
  render them as HTML.
- `save_frame` and `load_frame` of `toolkit.store.frame_files` write a frame as CSV or Parquet and read it back without
  loss; `toolkit export STUDY OUT` writes all of them. In CSV a text that a spreadsheet would take for a formula (it
  begins with `=`, `+`, `-`, `@`, a tab, a line end, NUL or an apostrophe) has an apostrophe before it; another program
  than `load_frame` has to take it away. A missing value is an empty cell, an empty text is `""`. Nothing else is
  changed: control characters are data too, so look at a CSV file with a pager, not with `cat`.
"""
