"""The notebook for reading answers runs to its end in a real kernel, on a study that is not the demo."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from rated_study import finished_study

from toolkit.batch.engine import new_manager

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "02_read_answers.ipynb"


def test_the_notebook_shows_two_viewers_writes_a_page_and_says_its_finding(tmp_path: Path) -> None:
    """Changed in its one line it runs without a complaint; the page it names is there."""
    book = nbformat.read(NOTEBOOK, 4)
    with finished_study(tmp_path) as study:
        changed = [cell for cell in book.cells if "../templates/demo.toml" in cell.source]
        assert [cell.id for cell in changed] == ["study"]
        changed[0].source = changed[0].source.replace("../templates/demo.toml", str(study.path))
        client = NotebookClient(
            book, km=new_manager("python3"), timeout=600, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute(cleanup_kc=True)
        (page,) = study.output.glob("answers-*.html")
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    said = "".join(output.get("text", "") for output in outputs)
    views = [
        output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    ]
    assert all(cell.execution_count for cell in code)
    assert len(views) == 2
    assert f"{page.name}, " in said
    assert "6 runs, 6 judged; judges' SD of 6 runs: median " in said
    assert "Warning" not in said
