"""Frames in files are as they were: dtypes, bits of floats, missing and empty, hostile texts."""

import csv
import io
from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from refusals import refusal

from toolkit.errors import InputError
from toolkit.files.tables import unguard
from toolkit.store.frame_files import KINDS, as_kind, dtype_of, save_frame, typed, types_of

HOSTILE = (
    *("", '=HYPERLINK("http://x")', "'=1", "''", "-1 day", "\t=1", "\r\n=1", "a\nb\r\nc\rd", "＝1"),
    *('he said "no", twice', "\x00\x1b[2J\x07", "\x00=1", "NA", "nan", "null", "\ufeffbom"),
    *(" leads and trails ", "x" * 2_000_000),
)
_WORDS = {
    "string": st.none() | st.text(st.characters(exclude_categories=("Cs",))) | st.sampled_from(HOSTILE[:-1]),
    "Int64": st.none() | st.integers(-(2**63), 2**63 - 1),
    "float64": st.none() | st.floats(allow_nan=False),
    "bool": st.booleans(),
    "boolean": st.none() | st.booleans(),
    "utc": st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
}


def values(word):
    """Return every value that a column of a dtype may hold, missing ones too."""
    return _WORDS[word] if word in _WORDS else st.none() | st.sampled_from(list(dtype_of(word).categories))


def test_any_frame_comes_back_as_it_was(tmp_path):
    """From Parquet, by pandas alone: values, dtypes, missing values and every bit of every float are the same."""
    columns = {name: values(word) for name, word in types_of("calls").items()}

    @settings(max_examples=25)
    @given(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4))
    def holds(some):
        frame = typed(some, types_of("calls"))
        back = pd.read_parquet(save_frame(frame, tmp_path / "frame.parquet", "calls"))
        assert_frame_equal(as_kind(back, "calls"), frame, check_exact=True)
        for name in frame.select_dtypes("float64"):  # equal is not enough: -0.0 equals 0.0
            assert [value.hex() for value in back[name].dropna()] == [v.hex() for v in frame[name].dropna()]

    holds()


def test_an_empty_frame_keeps_its_columns_and_dtypes(tmp_path):
    """A study without rows gives the columns and dtypes of one with many, and files with a header."""
    for kind, columns in KINDS.items():
        frame = typed([], types_of(kind))
        assert frame.dtypes.to_dict() == {name: dtype_of(column.dtype) for name, column in columns.items()}
        for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
            assert [*read(save_frame(frame, tmp_path / f"f{suffix}", kind))] == [*columns]


def test_hostile_texts_are_in_a_csv_file_character_by_character(tmp_path):
    """Line ends, NUL, escapes, formulas, an empty text and words for nothing are texts; only missing is missing.

    A spreadsheet that opens the file finds no text that begins like a formula.
    """
    texts = [*HOSTILE, None]
    prompts = [{"test_item": "i", "prompt_id": str(n), "text": text} for n, text in enumerate(texts)]
    path = save_frame(typed(prompts, types_of("prompts")), tmp_path / "f.csv", "prompts")
    csv.field_size_limit(3_000_000)
    content = path.read_bytes().decode()
    header, *rows = csv.reader(io.StringIO(content, newline=""))
    cells = [row[header.index("text")] for row in rows]
    assert [unguard(cell) for cell in cells] == [*HOSTILE, ""]
    assert '"0",,,,,"",' in content
    assert f'"{len(HOSTILE)}",,,,,,' in content
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    formula = ("=", "+", "-", "@", "\t", "\r", "\n", "\x00", "＝")
    assert not [cell for cell in cells if cell.startswith(formula)]


def test_a_frame_that_is_not_of_its_kind_is_one_clear_line():
    """Another kind, another column, and a value of no category or dtype are told apart."""
    frame = typed([{"test_item": "i", "prompt_id": "p", "text": "t"}] * 2, types_of("prompts"))
    refusal("there is no frame 'run'", as_kind, frame, "run")
    odd = {
        "does not have the column 'more'": {"more": 1},
        "'level' cannot hold 'XL'; it is one of S, M, L": {"level": pd.Series(["S", "XL"], dtype="str")},
        "frame prompts: a value is not of its column's dtype": {"tokens": "many"},
        "frame prompts: a value is not of its column.s dtype": {
            "tokens": pd.Series([2**70] * 2, dtype="object")
        },
    }
    for line, change in odd.items():
        refusal(line, as_kind, frame.assign(**change), "prompts")


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, "False"])
def test_a_missing_truth_is_neither_true_nor_false(value):
    """A column that has a value in every row refuses a row without one, and a text, in place of making it up."""
    row = dict.fromkeys(types_of("dimensions"))
    assert typed([row], types_of("dimensions")).isna().all(axis=None)
    with pytest.raises((InputError, TypeError), match=r"without a value|bool-like"):
        typed([{"judged": True}, {"judged": value}], {"judged": "bool"})
    frame = typed([{"judged": True, "excluded": False}], types_of("runs")).astype({"judged": "object"})
    frame.loc[0, "judged"] = value
    refusal(r"'judged' has a row without a value|not of its column's dtype", as_kind, frame, "runs")
