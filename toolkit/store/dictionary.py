"""The data dictionary: every tidy frame and every column of it, from the tables that the frames are made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.store.columns import CALLS, DIMENSION_SCORES, JUDGEMENTS, RUNS, Column
from toolkit.store.item_columns import EXPERIMENTS, HUMAN, MEASUREMENTS, METHODS, PROMPTS, RESULTS
from toolkit.store.typed import dtype_of, typed, typed_columns, types_of

KINDS: Final[Mapping[str, Mapping[str, Column]]] = {
    "runs": RUNS,
    "judgements": JUDGEMENTS,
    "dimensions": DIMENSION_SCORES,
    "calls": CALLS,
    "prompts": PROMPTS,
    "experiments": EXPERIMENTS,
    "methods": METHODS,
    "measurements": MEASUREMENTS,
    "results": RESULTS,
    "human": HUMAN,
}
"""The columns of every tidy frame by the name of the frame, which is the name of the method of a study."""
_ONE_ROW: Final[Mapping[str, str]] = {
    "runs": "one row a run: a prompt, a model, a repeat, and the reply",
    "judgements": "one row a judgement: what one judge said of one run, under the study's ensemble and rubric",
    "dimensions": "one row per judgement and dimension",
    "calls": "one row a request that was paid for, or is to be: runs, judges, retries, repairs, sentences",
    "prompts": "one row a prompt that the study asks",
    "experiments": "one row an experiment of the one-shot test",
    "methods": "one row a method of the one-shot test: a prompt variant, a question, a sample and a model",
    "measurements": "one row a measurement: a number about one test item",
    "results": "one row a result of the test and model",
    "human": "one row a rating by a person: the newest of each rater and run",
}
_TABLE: Final = dict.fromkeys(("frame", "column", "dtype", "unit", "meaning", "missing"), "string")


def columns_of(kind: str) -> Mapping[str, Column]:
    """Return the columns of a kind of frame."""
    if kind not in KINDS:
        raise InputError(f"there is no frame {kind!r}; use one of {', '.join(KINDS)}")
    return KINDS[kind]


def describe(kind: str | None = None) -> pd.DataFrame:
    """Return the data dictionary as a frame: frame, column, dtype, unit, meaning, and when a value is missing."""
    rows = [
        {
            "frame": name,
            "column": column_name,
            "dtype": dtype_words(column.dtype),
            "unit": column.unit,
            "meaning": column.meaning,
            "missing": column.missing or "never",
        }
        for name in ([kind] if kind is not None else KINDS)
        for column_name, column in columns_of(name).items()
    ]
    return typed(rows, _TABLE)


def dtype_words(word: str) -> str:
    """Return a dtype as a reader of the dictionary sees it."""
    dtype = dtype_of(word)
    if not isinstance(dtype, pd.CategoricalDtype):
        return str(dtype)
    return "category: " + " < ".join(dtype.categories)


def as_kind(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return a frame with exactly the columns, order and dtypes of its kind."""
    types = types_of(columns_of(kind))
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
    for kind, columns in KINDS.items():
        parts.append(f"## `study.{kind}()`\n\n{_ONE_ROW[kind].capitalize()}.\n")
        lines = ["| column | dtype | unit | meaning | missing |", "| --- | --- | --- | --- | --- |"]
        for name, column in columns.items():
            cells = (
                f"`{name}`",
                dtype_words(column.dtype),
                column.unit,
                column.meaning,
                column.missing or "never",
            )
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
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
