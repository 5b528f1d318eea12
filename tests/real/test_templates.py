"""A template runs to its end by papermill; what papermill lets through is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from notebook_files import write_notebook

from toolkit.batch import run_templates
from toolkit.errors import InputError, ToolkitError

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def test_a_template_runs_by_papermill_with_its_parameters(tmp_path: Path, demo_like_study: Path) -> None:
    """It finds the finished study, draws into the folder that it was given, and ends with a manifest.

    All templates run in `test_jupyterlab`.
    """
    given = {"study": str(demo_like_study), "figures": str(tmp_path)}
    (path,) = run_templates([(TEMPLATES / "run_study.ipynb", tmp_path / "run_study.ipynb", given)])
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code)
    printed = "".join(str(output.get("text", "")) for cell in code for output in cell.outputs)
    assert "36 of 36 planned runs have an answer" in printed
    made_from = printed.rsplit('"inputs"', 1)[1]
    assert '"rubric"' in made_from
    assert str(demo_like_study.parent) not in made_from
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == [f"cost_quality{suffix}" for suffix in (".csv", ".pdf", ".png", ".svg", ".txt")]


@pytest.mark.full
def test_a_failed_execution_is_an_error_and_its_notebook_stays(tmp_path: Path) -> None:
    """No notebook stands under the final name; parameters that do not fit are refused before anything starts."""
    template = write_notebook(tmp_path / "broken.ipynb", "x = 1", "1 / 0")
    with pytest.raises(
        ToolkitError, match=r"broken.ipynb: did not .* ZeroDivisionError.* see .*out.failed.ipynb"
    ):
        run_templates([(template, tmp_path / "out.ipynb", {})])
    assert not (tmp_path / "out.ipynb").exists()
    assert (tmp_path / "out.failed.ipynb").exists()
    with pytest.raises(InputError, match="unknown parameter 'stduy'; this template takes x"):
        run_templates([(template, tmp_path / "out.ipynb", {"stduy": "x"})])
