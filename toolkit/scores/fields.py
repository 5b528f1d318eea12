"""What the readers of others' scores have in common: rows with notes, and values that are checked."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from toolkit.errors import InputError
from toolkit.files import DAMAGED_ZIP, read_toml, sha256_hex
from toolkit.table_files import number_of
from toolkit.words import one_line

TEXTS = read_toml(Path(__file__).parent / "words.toml")
"""What others call things, and what they write for a value."""
LETTERS, WORDS = TEXTS["letters"], TEXTS["words"]
_NAMED = 4
CUT = 80
Rows = list[dict[str, Any]]
Json = Mapping[str, Any]


@dataclass
class Read:
    """Rows of a file, how they were understood, and what was left out of them; `tidy` where columns have our names.

    The index numbers what the rows stand in: `unit`, a line, say. `source` is the path of the file.
    """

    rows: pd.DataFrame
    kind: str
    notes: list[str] = field(default_factory=list)
    tidy: bool = True
    unit: str = "row"
    settings: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    source: str = ""


def json_text(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


@contextmanager
def reading(path: Path, location: str, writer: str) -> Iterator[None]:
    """Say in one line where a file is not as its writer writes it, whatever of its shape is wrong."""
    try:
        yield
    except (*DAMAGED_ZIP, RecursionError, ArithmeticError, pa.ArrowException) as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{path}{location}: cannot {writer} ({reason}); correct it, or write it again"
        ) from None


def table(value: Any, label: str) -> Json:
    """Return a JSON object as it is; raises ``TypeError`` for another value."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no object")
    return value


def mapping(value: Any) -> Json:
    """Return a JSON object as it is, and an empty one for another value."""
    return value if isinstance(value, Mapping) else {}


def checked_count(value: Any, label: str) -> int:
    """Return a whole number that counts something; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no whole number from 0")
    return value


def checked_name(value: Any, label: str) -> str:
    """Return a name or number as text; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no name")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def is_filled(value: Any) -> bool:
    """Return whether a value is there."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))


def number(value: Any) -> float:
    """Return a cell as a number; infinite is what is none, or too large for a float."""
    if isinstance(value, str):
        parsed = number_of(value.strip())
        return math.inf if parsed is None else parsed
    try:
        return float(value) if isinstance(value, int | float | Decimal | np.number | np.bool_) else math.inf
    except (OverflowError, TypeError, ValueError):
        return math.inf


def parse_score(value: Any, name: str, *, letters: bool = True) -> float | None:
    """Return a score of a log as a number; what a tool wrote in its own letters is counted as that tool counts it.

    Raises ``ValueError`` for a value that is there and is no number: to drop it would make it a missing one.
    """
    if not is_filled(value):
        return None
    text = value.strip() if isinstance(value, str) else ""
    worths = {**WORDS, **(LETTERS if letters else {})}
    score = worths.get(text, worths.get(text.lower(), number(value)))
    if math.isinf(score):
        raise ValueError(f"the value of {name}, {one_line(repr(value), CUT)}, is no number")
    return score


def short_name(text: str) -> str:
    """Return a text as a name; a mark tells a long one from others that begin alike."""
    name = one_line(text, 60)
    return name if name == text else f"{name} [{sha256_hex(text)[:8]}]"


def several_names(names: Iterable[object]) -> str:
    """Return the first names and how many more there are."""
    texts = [one_line(str(name), CUT) for name in names]
    more = len(texts) - _NAMED
    return ", ".join(texts) if more <= 1 else f"{', '.join(texts[:_NAMED])} and {more} more"
