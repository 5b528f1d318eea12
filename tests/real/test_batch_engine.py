"""The papermill engine: whoever calls papermill gets the checks and the honest ends too."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from notebook_files import write_notebook
from papermill.engines import papermill_engines

from toolkit.batch.engine import NotebookFailed, ToolkitEngine

papermill_engines.register("toolkit", ToolkitEngine)  # as the entry point does in an installation


def run(template, parameters=None, **options):
    """Run a notebook as a user of papermill does."""
    out = str(template.with_name("out.ipynb"))
    return papermill.execute_notebook(
        str(template), out, parameters, engine_name="toolkit", progress_bar=False, **options
    )


def test_a_notebook_that_takes_too_long_is_ended(tmp_path):
    """Also one whose cells each are short, or whose kernel has not booted by then."""
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", *["import time\ntime.sleep(1)"] * 60)
    with pytest.raises(NotebookFailed, match="the notebook took more than 2 s") as error:
        run(path, notebook_timeout=2)
    assert error.value.status == "timeout"


def test_a_kernel_that_never_lives_is_a_dead_kernel_and_no_cell_claims_completion(tmp_path, monkeypatch):
    """The notebook says that there was none, and all its cells are as they were."""
    command = [sys.executable, "-c", "import sys; sys.exit(3)", "{connection_file}"]
    (tmp_path / "kernels" / "dying").mkdir(parents=True)
    spec = json.dumps({"argv": command, "display_name": "d", "language": "python"})
    (tmp_path / "kernels" / "dying" / "kernel.json").write_text(spec)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", "print(k)")
    with pytest.raises(NotebookFailed, match="the kernel did not start") as error:
        run(path, kernel_name="dying")
    assert error.value.status == "dead kernel"
    notebook = nbformat.read(tmp_path / "out.ipynb", 4)
    assert [cell.metadata.papermill["status"] for cell in notebook.cells] == ["failed", "pending"]
    assert "did not start" in notebook.cells[0].outputs[0].evalue


def test_kernels_talk_over_files_that_are_gone_afterwards(tmp_path):
    """No port that another program could take before the kernel does; not even where paths are long."""
    source = "import ipykernel\nfile = ipykernel.get_connection_file()\nprint(open(file).read())\nfile"
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", source)
    book = run(path)
    told = json.loads(book.cells[-1].outputs[0].text)
    assert told["transport"] == "ipc"
    assert book.cells[-1].outputs[1].data["text/plain"] == repr(f"{told['ip']}.json")
    folder = Path(told["ip"]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(folder.iterdir())


def test_papermill_on_the_command_line_takes_the_engine_by_its_name(tmp_path):
    """As its users call it: it runs with its parameters, and an exit is no success."""
    path = write_notebook(tmp_path / "t.ipynb", "k = 1", "print(k + 1)", "import sys\nsys.exit(0)", "k")
    command = [sys.executable, "-m", "papermill", "--engine", "toolkit", path, tmp_path / "out.ipynb"]
    done = subprocess.run([*command, "-p", "k", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "In [4]: left by sys.exit() or exit() before its end" in done.stderr
    notebook = nbformat.read(tmp_path / "out.ipynb", 4)
    assert notebook.cells[2].outputs[0].text == "3\n"
    states = [cell.metadata.papermill["status"] for cell in notebook.cells]
    assert states == ["completed", "completed", "completed", "failed", "pending"]
    assert notebook.metadata.papermill["exception"] is True
