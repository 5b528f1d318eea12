from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.stats.agreement.ratings import read_ratings


def written(folder: Path, text: str) -> Path:
    path = folder / "ratings.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_known_columns_are_read_and_others_ignored_and_blank_lines_do_no_harm(tmp_path):
    """Also behind a byte order mark; a rating that is there twice is kept for the analysis to find."""
    text = "\ufeffnote,judge,target,score\nx,j1,t1,4.5\n\ny,j2,t1,3\ny,j2,t1,3\n"
    found = read_ratings(written(tmp_path, text)).to_dict("list")
    assert found == {"target": ["t1"] * 3, "judge": ["j1", "j2", "j2"], "score": [4.5, 3.0, 3.0]}
    frame = read_ratings(written(tmp_path, "base,target,judge,dimension,score\nb,t1,j1,clarity,4\n"))
    assert list(frame.columns) == ["target", "judge", "score", "dimension", "base"]


def test_an_empty_score_is_missing(tmp_path):
    cells = ["", " ", "NA", "nan", "NULL", "None"]
    rows = "".join(f"t{n},j1,{cell}\n" for n, cell in enumerate(cells))
    assert read_ratings(written(tmp_path, f"target,judge,score\n{rows}"))["score"].isna().sum() == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no ratings"),
        ("target,judge,score\n", "has no ratings"),
        ("target,score\nt1,4\n", "lacks the column judge"),
        ("target,judge,score,score\nt1,j1,4,4\n", "is there twice"),
        ("target,judge,score\nt1,j1,4\nt2,j1,four\n", "line 3: score 'four'"),
        ("target,judge,score\nt1,j1,5/5\n", "line 2: score '5/5'"),
        ("target,judge,score\nt1,j1\n", "line 2: has 2 cells where the header has 3"),
        ("target,judge,score\nt1,,4\n", "line 2: the judge is empty"),
        ('target,judge,score\nt1,"j1,4\n', "is not valid CSV"),
        ("target,judge,score\nt1,j1,1_0\n", "line 2: score '1_0' is not a number"),
        ("target,judge,score\nt1,j1,４\n", "line 2: score '４' is not a number"),
        ("target,judge,score\nt1,j1,inf\n", "line 2: score 'inf' is not a number"),
        ("target,judge,score\nt1,j1,1e308\n", "line 2: score 1e308 cannot be calculated with"),
        ("target,judge,score\nt1,j1,1e-320\n", "line 2: score 1e-320 cannot be calculated with"),
        ("target,judge,score\nt1,j1,1000000000004.5\n", "line 2: score 1000000000004.5 cannot"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read_ratings(written(tmp_path, text))
    assert "ratings.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_ratings(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_ratings(tmp_path)
    (tmp_path / "latin.csv").write_bytes(b"target,judge,score\nt\xe9,j,4\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_ratings(tmp_path / "latin.csv")
