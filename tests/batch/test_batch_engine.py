"""The papermill engine: whoever calls papermill gets the checks and the honest ends too."""

from __future__ import annotations

from pathlib import Path

import nbformat
import papermill
import pytest
from notebook_files import write_notebook
from papermill.engines import papermill_engines

from toolkit.batch.engine import NotebookFailed, ToolkitEngine, one_line, place
from toolkit.errors import InputError

papermill_engines.register("toolkit", ToolkitEngine)  # as the entry point does in an installation


def test_an_unknown_parameter_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """Where papermill's own engine warns and runs."""
    path, out = write_notebook(tmp_path / "t.ipynb", "k = 1"), tmp_path / "out.ipynb"
    with pytest.raises(InputError, match="unknown parameter 'kk'; this template takes k"):
        papermill.execute_notebook(str(path), str(out), {"kk": 2}, engine_name="toolkit", progress_bar=False)
    with pytest.raises(InputError, match="k must be a whole number, got 'a'"):
        papermill.execute_notebook(str(path), str(out), {"k": "a"}, engine_name="toolkit", progress_bar=False)
    assert not out.exists()


def test_an_exit_is_an_error_and_the_notebook_says_so(tmp_path: Path) -> None:
    """For papermill sys.exit(0) is a success; here it is an error, and the cells behind it are pending."""
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", "import sys\nsys.exit(0)", "print(k)")
    with pytest.raises(NotebookFailed, match=r"left by sys\.exit") as error:
        papermill.execute_notebook(
            str(path), str(tmp_path / "out.ipynb"), {"k": 2}, engine_name="toolkit", progress_bar=False
        )
    assert error.value.status == "exited"
    notebook = nbformat.read(tmp_path / "out.ipynb", 4)
    states = [cell.metadata.papermill["status"] for cell in notebook.cells]
    assert states == ["completed", "completed", "failed", "pending"]
    assert notebook.metadata.papermill["exception"] is True


def test_a_notebook_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """Also one whose cells each are short, or whose kernel has not booted by then."""
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", *["import time\ntime.sleep(1)"] * 60)
    with pytest.raises(NotebookFailed, match="the notebook took more than 2 s") as error:
        papermill.execute_notebook(
            str(path),
            str(tmp_path / "out.ipynb"),
            engine_name="toolkit",
            progress_bar=False,
            notebook_timeout=2,
        )
    assert error.value.status == "timeout"


def test_a_place_is_what_a_notebook_shows() -> None:
    """Empty cells and text have no number."""
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("a"), v4.new_code_cell("x"), v4.new_code_cell(" "), v4.new_code_cell("y")]
    notebook = v4.new_notebook(cells=cells)
    assert [place(notebook, index) for index in (None, 1, 3)] == ["", "In [1]", "In [2]"]


def test_an_error_is_one_line_however_long_it_is() -> None:
    """Without colours and line ends, and at most 300 characters."""
    assert one_line("\x1b[0;31mA\x1b[0m\n\n  B") == "A B"
    assert len(one_line("x " * 1000)) == 300
