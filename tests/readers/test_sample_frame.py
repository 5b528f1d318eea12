"""Loading a sample: by name or path, with types, provenance and one line for what does not fit."""

import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from toolkit.files.tables import guard, unguard
from toolkit.traffic.sample import load_sample

CASES = cases(__file__)


def write(folder, text, about=None):
    path = folder / "mine.csv"
    path.write_bytes(text.encode())
    if about is not None:
        path.with_suffix(".json").write_text(about)
    return path


def test_types_missing_values_and_texts_that_look_missing(tmp_path):
    """NA and null are hosts like any other; only an empty cell is missing; a mark of the user's stays."""
    text = "number,host,status,time,note\n1,NA,,0.5,'a\n2,,404,-0.25,\n3,'=x,200,1,'=y\n"
    frame = load_sample(write(tmp_path, text)).frame
    assert frame["host"].tolist()[::2] == ["NA", "=x"]
    assert frame["host"].isna().tolist() == [False, True, False]
    assert frame["status"].isna().tolist() == [True, False, False]
    assert frame["status"].tolist()[1:] == [404, 200]
    assert frame["time"].tolist() == [0.5, -0.25, 1.0]
    assert frame["note"].iloc[0] == "'a"
    assert load_sample(write(tmp_path, text)).about == {}  # a provenance is optional
    known = load_sample(write(tmp_path, text, '{"capture": "x.pcap"}')).about
    assert known == {"capture": "x.pcap"}
    empty = load_sample(write(tmp_path, text.splitlines()[0] + "\n")).frame
    assert (len(empty), list(empty.dtypes)) == (0, list(frame.dtypes))
    assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "string", "Int64", "float64", "string"]


@pytest.mark.parametrize(("text", "says"), CASES["refused"])  # fmt: skip
def test_what_is_no_sample_is_one_line(tmp_path, text, says):
    refusal(says, load_sample, write(tmp_path, text))


def test_missing_and_unreadable_files_are_one_line(tmp_path):
    refusal("plain_gets", load_sample, "plain_getz")
    refusal("cannot be read", load_sample, tmp_path)
    (tmp_path / "bytes.csv").write_bytes(b"number\n\xff\n")
    refusal(r"bytes\.csv, line 2: is not UTF-8; save it as UTF-8", load_sample, tmp_path / "bytes.csv")
    for about in ("{", "[]"):
        refusal(r"not valid JSON|not a provenance", load_sample, write(tmp_path, "number\n1\n", about))


@given(st.sampled_from(["", *"=+-@\t\r\n＝＋－＠'"]), st.text())
def test_what_was_guarded_comes_back_and_no_guarded_text_begins_like_a_formula(first, rest):
    """Guarding can be undone for every text, also one that begins with an apostrophe; only a beginning matters."""
    text = first + rest
    assert unguard(guard(text)) == text
    assert guard(f"a{text}") == f"a{text}"
    assert not guard(text).startswith(tuple("=+-@\t\r\n＝＋－＠"))


def test_a_cell_may_be_as_long_as_it_likes(tmp_path):
    """Python's reader stops at 131,072 signs; a URI of a captured request may be longer."""
    (tmp_path / "s.csv").write_text(f"host,uri\nh,/{'x' * 300_000}\n", encoding="utf-8")
    assert load_sample(tmp_path / "s.csv").frame["uri"].str.len().tolist() == [300_001]


def test_a_sample_shows_its_first_packets_and_nothing_acts(tmp_path):
    """In a shell and in a notebook; texts of a capture are escaped and their control signs visible."""
    rows = "".join(f"{n},<script>x</script>\x1b[31m\n" for n in range(1, 9))
    sample = load_sample(write(tmp_path, "number,user_agent\n" + rows))
    assert repr(sample).startswith("Sample mine: 8 packets, 2 columns, the first ones:")
    assert "[U+001B]" in repr(sample)
    assert len(repr(sample).splitlines()) == 7
    shown = sample._repr_html_()
    assert shown.count("&lt;script&gt;") == 5
    assert not {"<script>", "\x1b"} & {"<script>" * ("<script>" in shown), *shown}
    assert "Sample mine: 0 packets" in repr(load_sample(write(tmp_path, "number\n")))
