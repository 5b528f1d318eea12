"""The parts of a document, and how LaTeX sets them, tables as booktabs does; Word and Markdown are made of the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.escape import MISSING, escape_breaking, label_of, latex_macro, readable
from toolkit.stats.result import Estimate
from toolkit.words import joined

_LONGEST = 45  # lines of caption and rows that one page takes
_CAPTION_LINE = 85
_MOST_QUOTED = 700  # characters
WIDEST = 34
"""Characters of a column beyond which its text is broken into lines."""
LINE = 112
"""Characters of a line of small type."""
_PARAGRAPH = r">{\raggedright\arraybackslash}p{%s}"


@dataclass(frozen=True)
class Heading:
    """A heading of a section."""

    text: str


@dataclass(frozen=True)
class Sentence:
    """A sentence without its full stop, and the keys of the references that it cites."""

    text: str
    cite: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paragraph:
    r"""A paragraph, perhaps with a heading; ``shown`` has number and ``\ref`` of its figures and tables."""

    sentences: tuple[Sentence, ...]
    heading: str = ""
    shown: tuple[tuple[str, str], ...] = ()

    def latex(self) -> str:
        r"""Return the paragraph with ``\cite`` of each reference."""
        return latex_macro("paragraph")(self).strip()

    @property
    def see(self) -> str:
        """The sentence that names the figures and tables."""
        return f"See {joined([number for number, _ in self.shown])}."


@dataclass(frozen=True)
class Bullets:
    """A list, and the line that leads to it."""

    lead: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure with its caption; a wide one takes the page of a thesis and not a column."""

    name: str
    caption: str
    alt_text: str
    wide: bool

    def latex(self, study: str) -> str:
        r"""Return the environment of the figure, which takes up its PDF."""
        environment = "figure*" if self.wide else "figure"
        return latex_macro("picture")(self, environment, label_of(self.name, study))


@dataclass(frozen=True)
class Grid:
    """A table of a frame, on a page or as ``longtable``; rows in ``panels`` are the heads of those that follow."""

    frame: pd.DataFrame
    caption: str
    label: str
    panels: Collection[int] | None = None

    def __post_init__(self) -> None:
        """Refuse a label that LaTeX could not refer to."""
        if not self.label or self.label != label_of(self.label):
            raise InputError(f"label {self.label!r} of a table: use letters, digits, ':', '-' and '.' only")

    @cached_property
    def _columns(self) -> list[_Column]:
        columns = (self.frame.iloc[:, place].astype(object) for place in range(self.frame.shape[1]))
        return [_column(list(column), str(head)) for head, column in zip(self.frame, columns, strict=True)]

    def rows(self) -> list[list[str]]:
        """Return the head and the rows as plain text."""
        return [list(row) for row in zip(*(column.text for column in self._columns), strict=True)]

    @property
    def is_long(self) -> bool:
        """Whether the table goes over pages."""
        lines = (math.ceil(max(map(len, row)) / WIDEST) for row in self.rows())
        return sum(lines, math.ceil(len(self.caption) / _CAPTION_LINE)) > _LONGEST

    def latex(self, study: str = "") -> str:
        r"""Return the table for the packages booktabs, array, longtable and graphicx, the study in its label."""
        columns, count = self._columns, len(self._columns)
        spec = "".join(column.spec for column in columns)
        if self.is_long and sum(max(map(len, column.text)) for column in columns) > LINE - 3 * count:
            spec = _PARAGRAPH % rf"\dimexpr\linewidth/{count}-2\tabcolsep"
            spec *= count
        rows = zip(*(column.cells for column in columns), strict=True)
        return latex_macro("grid")(self, spec, columns, list(rows), label_of(self.label, study))


@dataclass(frozen=True)
class Quote:
    """A text as it was sent or received, under its heading; paper shows its beginning unless it is ``whole``."""

    heading: str
    text: str
    whole: bool = False

    @property
    def lines(self) -> list[str]:
        """The lines that paper has room for, and how much is left out."""
        text = self.text if self.whole else self.text[:_MOST_QUOTED]
        rest = len(self.text) - len(text)
        return [*text.expandtabs().splitlines(), *([f"[{rest} more characters]"] if rest else [])]


Block = Heading | Paragraph | Bullets | Picture | Grid | Quote


def block_latex(block: Block) -> str:
    """Return a heading, a list or a quoted text as LaTeX that prints it and does nothing else."""
    return latex_macro(type(block).__name__.lower())(block)


class Part:
    """A figure or a table: what a document shows of it, and the data, estimates and notes behind it."""

    name: str
    folder = "tables"
    alt_text: str
    data: pd.DataFrame
    estimates: Sequence[Estimate]
    notes: str
    left_out = ""

    @property
    def block(self) -> Picture | Grid:
        """What a document shows of it."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """Folder and name, by which documents know it."""
        return f"{self.folder}/{self.name}"

    @property
    def columns(self) -> Iterator[str]:
        """Columns of the data that have a value."""
        for name, values in self.data.items():
            if any(pd.notna(value) and value != 0 and value != "" for value in values):
                yield str(name)


@dataclass(frozen=True)
class _Column:
    spec: str
    head: str
    cells: tuple[str, ...]
    text: tuple[str, ...]


def _column(values: Sequence[Any], head: str) -> _Column:
    """Return the column of some values: text, or numbers with their points aligned."""
    content = [value for value in values if not pd.isna(value) and value != ""]
    is_numeric = bool(content) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in content
    )
    texts = [_text(value) for value in values]
    latex = (MISSING if text is None else escape_breaking(text) for text in texts)
    plain = (readable(head), *("–" if text is None else readable(text) for text in texts))
    spec = "r" if is_numeric else _PARAGRAPH % "16em" if max(map(len, plain)) > WIDEST else "l"
    return _Column(spec, escape_breaking(head), tuple(latex), plain)


def _text(value: Any) -> str | None:
    """Return what a cell shows: two decimals of a number, nothing where there is none."""
    if pd.isna(value) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.2f}"
    return text if float(text) else text.lstrip("-")
