"""Notebooks that ask the local model run to their end in a real kernel, offline, in an empty folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from rated_study import finished_study

from toolkit.people.rating import open_round, rate
from toolkit.store import embedded
from toolkit.words import DIMENSIONS

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
FINDS = {
    "04_write_your_own_test": "Results of stereotypes (n = 3 items, 6 measurements)",
    "05_samples_from_traffic": "intranet.example",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for what the notebook writes; its store is stopped at the end."""
    yield tmp_path / "results"
    for store in tmp_path.rglob(".store"):
        embedded.stop(store)


@pytest.mark.model
@pytest.mark.parametrize("name", FINDS)
def test_a_notebook_runs_to_its_end(name: str, folder: Path, tmp_path: Path) -> None:
    """Every cell has run, none has complained, and the finding stands there."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4)
    for cell in book.cells:
        cell.source = cell.source.replace("../results", str(folder))
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    said = "".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
        for cell in code
        for output in cell.outputs
    )
    assert FINDS[name] in said
    assert "Warning" not in said
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)


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
