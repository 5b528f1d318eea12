"""Cells: no spreadsheet takes one for a formula, and the original text comes back."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.samples.cells import csv_line, guard, unguard


@given(st.text())
def test_what_was_guarded_comes_back(text: str) -> None:
    """Guarding can be undone for every text, also one that begins with an apostrophe."""
    assert unguard(guard(text)) == text


@given(st.sampled_from("=+-@\t\r\n＝＋－＠"), st.text())
def test_no_guarded_text_begins_like_a_formula(first: str, rest: str) -> None:
    """A risky beginning is never the first sign of a cell."""
    assert guard(first + rest)[0] == "'"


@pytest.mark.parametrize("text", ["", "/index.html", "GET", "a=b", "'"])
def test_what_is_harmless_stays_readable(text: str) -> None:
    """Only a beginning matters; a lone apostrophe survives."""
    assert unguard(guard(text)) == text
    assert guard(text) == ("''" if text == "'" else text)


@example([""])
@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=5))
def test_a_line_is_read_back_by_the_csv_module(values: list[str]) -> None:
    """Quotes, commas and line ends inside cells keep their row one row."""
    rows = list(csv.reader(io.StringIO(csv_line(values, [True] * len(values)), newline="")))
    assert [[unguard(cell) for cell in row] for row in rows] == [values]


def test_a_number_is_never_guarded() -> None:
    """A negative time stays a number while a text like it is guarded."""
    assert csv_line(["-0.5", "-0.5"], [False, True]) == "-0.5,'-0.5\n"
