"""Every template runs to its end in a real kernel; what papermill lets through is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from toolkit.batch import Job, check_parameters, run_templates
from toolkit.errors import InputError, ToolkitError
from toolkit.store import embedded

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
FINDS = {
    "run_study": "36 of 36 planned runs have an answer",
    "judge_reliability": "ICC(A,k)",
    "prompt_length": "L-S",
}


def test_every_template_runs_in_a_real_kernel(tmp_path: Path, demo_like_study: Path) -> None:
    """The templates find a finished study, say what they found and end with a manifest."""
    jobs = [
        Job(
            TEMPLATES / f"{name}.ipynb",
            tmp_path / f"{name}.ipynb",
            {"study": str(demo_like_study), "figures": str(tmp_path)},
        )
        for name in FINDS
    ]
    for path in run_templates(jobs):
        notebook = nbformat.read(path, 4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        assert all(cell.execution_count for cell in code)
        printed = "".join(
            str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
            for cell in code
            for output in cell.outputs
        )
        assert FINDS[path.stem] in printed
        assert '"rubric"' in printed
        assert str(demo_like_study.parent) not in printed.rsplit('"inputs"', 1)[1]
    assert sorted({path.suffix for path in (tmp_path / "figures").iterdir()}) == [
        ".csv",
        ".pdf",
        ".png",
        ".txt",
    ]


def test_unknown_parameters_and_untagged_notebooks_are_refused(tmp_path: Path) -> None:
    """Where papermill only warns, nothing starts."""
    with pytest.raises(InputError, match=r"unknown parameter 'stduy'; this template takes .*study"):
        check_parameters(TEMPLATES / "run_study.ipynb", {"stduy": "x"})
    plain = tmp_path / "plain.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), plain)
    with pytest.raises(InputError, match="no cell is tagged `parameters`"):
        check_parameters(plain, {})
    with pytest.raises(InputError, match="no such template"):
        check_parameters(tmp_path / "no.ipynb", {})


@pytest.mark.parametrize(
    ("source", "says"),
    [("1 / 0", "ZeroDivisionError"), ("import os; os._exit(1)", "died")],
    ids=["failing cell", "dead kernel"],
)
def test_a_failed_execution_is_an_error_and_its_notebook_stays(
    tmp_path: Path, source: str, says: str
) -> None:
    """A failing cell and a dead kernel are errors; no notebook stands under the final name."""
    cells = [
        nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(source),
    ]
    template = tmp_path / "broken.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), template)
    with pytest.raises(ToolkitError, match=says):
        run_templates([Job(template, tmp_path / "out.ipynb", {})])
    assert not (tmp_path / "out.ipynb").exists()
    assert (tmp_path / "out.failed.ipynb").exists()


def test_the_one_shot_template_runs_in_a_real_kernel(tmp_path: Path) -> None:
    """Two methods, three experiments each: asked, scored, compared and drawn; N too small is said and not hidden."""
    study = tmp_path / "one_shot.toml"
    text = (TEMPLATES / "one_shot.toml").read_text(encoding="utf-8")
    text = text.replace('models = ["smollm2-135m"]', 'models = ["scripted"]').replace(
        "repeats = 10", "repeats = 3"
    )
    study.write_text(text.replace("../results", "results"))
    job = Job(TEMPLATES / "one_shot_test.ipynb", tmp_path / "out.ipynb", {"study": str(study)})
    try:
        (path,) = run_templates([job])
    finally:
        embedded.stop(tmp_path / "results" / ".store")
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in code)
    printed = "".join(str(o.get("text", "")) for cell in code for o in cell.outputs)
    assert "A 135M-parameter model" in printed
    assert list((tmp_path / "results" / "one_shot" / "figures").glob("*.pdf"))
