"""The parts of a document, and how LaTeX sets them, tables as booktabs does; Word and Markdown are made of the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.escape import MISSING, escape_breaking, label_of, latex_macro, readable
from toolkit.stats.result import Estimate
from toolkit.words import joined

_SIZES = ((r"\footnotesize", 98), (r"\scriptsize", 112), (r"\tiny", 140))
"""Sizes of type, and how many characters a line of 160 mm takes in each."""
_LONGEST = 45  # lines of caption and rows that one page takes
_CAPTION_LINE = 85
_NARROWEST = 14  # characters that a column of text has at least: no piece of a broken word is longer
_GAP = 3  # characters that the space between two columns takes


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
    def _cells(self) -> list[_Column]:
        columns = (self.frame.iloc[:, place].astype(object) for place in range(self.frame.shape[1]))
        return [_column(list(column), str(head)) for head, column in zip(self.frame, columns, strict=True)]

    def rows(self) -> list[list[str]]:
        """Return the head and the rows as plain text."""
        return [list(row) for row in zip(*(column.text for column in self._cells), strict=True)]

    @property
    def is_long(self) -> bool:
        """Whether the table goes over pages."""
        _, columns = self._fitted()
        lines = math.ceil(len(self.caption) / _CAPTION_LINE)
        for row in zip(*(column.widths[1:] for column in self._cells), strict=True):
            cells = zip(row, columns, strict=True)
            lines += max(math.ceil(width / max(column.width, 1)) or 1 for width, column in cells)
        return lines > _LONGEST

    def _fitted(self) -> tuple[str, list[_Column]]:
        columns = self._cells
        if self.panels is not None and sum(column.width + _GAP for column in columns) <= _SIZES[-1][1]:
            columns = columns[:1] + [replace(column, unbroken=True) for column in columns[1:]]  # no interval
        narrowest = sum((min(c.width, _NARROWEST) if c.is_text else c.width) + _GAP for c in columns)
        font, characters = next((size for size in _SIZES if narrowest <= size[1]), _SIZES[-1])
        return font, _fitted(columns, characters)

    def latex(self, study: str = "") -> str:
        r"""Return the table for the packages booktabs, array and longtable, the study in its label."""
        font, columns = self._fitted()
        rows = zip(*(column.cells for column in columns), strict=True)
        return latex_macro("grid")(self, font, columns, list(rows), label_of(self.label, study))


Block = Heading | Paragraph | Bullets | Picture | Grid


@dataclass(frozen=True)
class Shown:
    """What the files of a figure or table show: its block, estimates and columns behind it, and its notes."""

    name: str
    folder: str
    block: Picture | Grid
    estimates: Sequence[Estimate]
    columns: frozenset[str]
    notes: str = ""


@dataclass(frozen=True)
class _Column:
    spec: str
    head: str
    cells: tuple[str, ...]
    text: tuple[str, ...]
    widths: tuple[int, ...]
    unbroken: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its lines may be broken."""
        return self.spec == "l" and not self.unbroken

    @property
    def width(self) -> int:
        """Characters of its widest cell."""
        return max(self.widths)

    def lines(self, width: int) -> int:
        """Return how many lines its cells take together where it is so wide."""
        return sum(math.ceil(cell / width) for cell in self.widths)


def _column(values: Sequence[Any], head: str) -> _Column:
    """Return the column of some values: text, or numbers with their points aligned."""
    content = [value for value in values if not pd.isna(value) and value != ""]
    is_numeric = bool(content) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in content
    )
    texts = [_text(value) for value in values]
    latex = (MISSING if text is None else escape_breaking(text) for text in texts)
    plain = ("–" if text is None else readable(text) for text in texts)
    widths = (len(head), *(len(text or MISSING) for text in texts))
    return _Column(
        "r" if is_numeric else "l", escape_breaking(head), tuple(latex), (readable(head), *plain), widths
    )


def _text(value: Any) -> str | None:
    """Return what a cell shows: two decimals of a number, nothing where there is none."""
    if pd.isna(value) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.2f}"
    return text if float(text) else text.lstrip("-")


def _fitted(columns: Sequence[_Column], characters: int) -> list[_Column]:
    """Return columns that fit a line: those of long text become paragraphs that share what the others leave."""
    spare = characters - sum(column.width + _GAP for column in columns)
    if spare >= 0:
        return list(columns)
    long = [column for column in columns if column.is_text and column.width > _NARROWEST]
    spare += sum(column.width - _NARROWEST for column in long)
    shares = {id(column): _NARROWEST for column in long}
    while spare > 0 and long:
        # The next character goes where most lines are broken; what is as wide as its text needs no more.
        tallest = max(long, key=lambda column: (column.lines(shares[id(column)]), -shares[id(column)]))
        shares[id(tallest)] += 1
        spare -= 1
        long = [column for column in long if shares[id(column)] < column.width]
    paragraph = r">{\raggedright\arraybackslash}p{%.3f\linewidth}"
    return [
        replace(c, spec=paragraph % (shares[id(c)] / characters), widths=(shares[id(c)],))
        if id(c) in shares
        else c
        for c in columns
    ]
