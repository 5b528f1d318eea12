"""Notebooks and templates without a browser: what they say, and what papermill lets through and we refuse."""

import nbformat
import pytest
from nbclient import NotebookClient
from notebook_files import write_notebook
from places import ROOT, TEMPLATES
from small_study import finished_study

from toolkit.batch import run_templates
from toolkit.batch.engine import new_manager
from toolkit.errors import InputError, ToolkitError
from toolkit.people.rating import open_round, rate
from toolkit.words import DIMENSIONS

NOTEBOOKS = ROOT / "notebooks"


def test_the_ratings_of_a_person_stand_in_the_notebook(tmp_path):
    """With two replies rated, the notebook shows the desk, counts them, and compares them with the judges."""
    book = nbformat.read(NOTEBOOKS / "03_rate_answers.ipynb", 4)
    with finished_study(tmp_path) as study:
        round_ = open_round(study.plan, study.store, "me", size=12)
        for reply, score in zip(round_.replies, (2.0, 4.0), strict=False):
            round_ = rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, score))
        other = open_round(study.plan, study.store, "zoe", size=12)
        rate(
            study.plan,
            study.store,
            other,
            other.replies[0],
            dict.fromkeys(DIMENSIONS, 1.0),
            "a secret remark",
        )
        for cell in book.cells:
            cell.source = cell.source.replace("../templates/demo.toml", str(study.path))
        client = NotebookClient(
            book, km=new_manager("python3"), timeout=600, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute(cleanup_kc=True)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    said = "".join(output.get("text", "") for output in outputs)
    assert "3 finished ratings by 2 raters, 0 unfinished" in said
    assert " of 6 runs rated by people, 0 unfinished\nensemble less human:me = " in said
    # The order of the other rater is another one, so that what she said may be of a reply that is still to be rated.
    assert "a secret remark" not in str(outputs)
    assert "ICC(A,1) of human:me and ensemble" in said
    assert "ensemble less human:me = " in said
    assert "Warning" not in said
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)


def test_a_template_runs_by_papermill_with_its_parameters(tmp_path, demo_like_study):
    """It finds the finished study, draws into the folder that it was given, and ends with a manifest.

    All templates run in `test_jupyterlab`.
    """
    given = {"study": str(demo_like_study), "figures": str(tmp_path)}
    (path,) = run_templates([(TEMPLATES / "run_study.ipynb", tmp_path / "new" / "run_study.ipynb", given)])
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code)
    printed = "".join(str(output.get("text", "")) for cell in code for output in cell.outputs)
    assert "36 of 36 runs succeeded; 108 of 108 judgements have a score" in " ".join(printed.split())
    made_from = printed.rsplit('"inputs"', 1)[1]
    assert '"rubric"' in made_from
    assert str(demo_like_study.parent) not in made_from
    drawn = sorted(path.name for path in (tmp_path / "figures").glob("cost_quality*"))
    assert drawn == [
        f"cost_quality{suffix}" for suffix in (".csv", ".notes.txt", ".pdf", ".png", ".svg", ".txt")
    ]


def test_a_failed_execution_is_an_error_and_its_notebook_stays(tmp_path):
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
