"""What a notebook says of ratings that are there; `test_every_notebook_in_jupyterlab` opens all notebooks."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from rated_study import finished_study

from toolkit.people.rating import open_round, rate
from toolkit.words import DIMENSIONS

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def test_the_ratings_of_a_person_stand_in_the_notebook(tmp_path: Path) -> None:
    """With two replies rated, the notebook shows the desk, counts them, and compares them with the judges."""
    book = nbformat.read(NOTEBOOKS / "03_rate_answers.ipynb", 4)
    with finished_study(tmp_path) as study:
        round_ = open_round(study.plan, study.store, "me", size=12)
        for reply, score in zip(round_.replies, (2.0, 4.0), strict=False):
            round_ = rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, score))
        for cell in book.cells:
            cell.source = cell.source.replace("../templates/demo.toml", str(study.path))
        NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    said = "".join(output.get("text", "") for output in outputs)
    assert "2 finished ratings by 1 raters, 0 unfinished" in said
    assert "ICC(A,1) of human:me and ensemble" in said
    assert "ensemble less human:me = " in said
    assert "Warning" not in said
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)
