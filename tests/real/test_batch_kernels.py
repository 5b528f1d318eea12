"""Batches in real kernels: every end has its own status, what is done is not run again, what failed on demand."""

import json
import os
import signal
import threading
from urllib.parse import unquote

import nbformat
import pandas as pd
import pytest
from notebook_files import write_notebook
from waiting import is_alive, wait_for

from toolkit.batch import run_batch

ENDS = """
import os, signal, sys, time
from pathlib import Path

with open("kernels.txt", "a") as file:
    print(os.getpid(), file=file)
if kind == "failing":
    raise ValueError("<script>alert(1)</script> | $x$ \\x1b[31mred")
if kind == "sys.exit":
    sys.exit(0)
if kind == "exit":
    exit()
if kind == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "endless":
    while True:
        time.sleep(0.01)
"""
KINDS = ["fine", "failing", "sys.exit", "exit", "killed", "endless"]
EXPECTED = ["done", "failed", "exited", "exited", "dead kernel", "timeout"]


def record_of(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """One batch with every end there is: its folder, how to call it again, and what it came to."""
    folder = tmp_path_factory.mktemp("ends {x}")  # papermill fills in what it finds in braces
    write_notebook(folder / "ends.ipynb", "kind = 'fine'", ENDS, "kind", "print('last')")
    (folder / "grid.toml").write_text(f"[product]\nkind = {json.dumps(KINDS)}\n")

    def call():
        return run_batch(
            folder / "ends.ipynb", folder / "grid.toml", workers=3, cell_timeout=6, progress=False
        )

    return folder, call, call()


def test_every_end_has_its_own_status(batch):
    folder, _, result = batch
    assert [cell.status for cell in result.cells] == EXPECTED
    errors = dict(zip(KINDS, (cell.error for cell in result.cells), strict=True))
    assert errors["fine"] == ""
    assert errors["failing"].startswith("In [3]: ValueError: <script>")
    assert "In [3]: left by sys.exit() or exit()" in errors["sys.exit"]
    assert "In [3]: left by sys.exit() or exit()" in errors["exit"]
    assert "signal 9, SIGKILL" in errors["killed"]
    assert errors["endless"] == "In [3]: the cell took more than 6 s"
    assert (result.exit_code, result.started) == (1, 6)
    assert not any("\n" in cell.error or "\x1b" in cell.error for cell in result.cells)
    pids = [int(line) for line in (folder / "kernels.txt").read_text().split()]
    assert len(pids) == 6
    wait_for(lambda: not any(is_alive(pid) for pid in pids))  # no kernel is left, not even the endless one


def test_notebooks_are_kept_and_none_that_failed_claims_completion(
    batch,
):
    """The failed ones stand under another name, show where they ended, and their later cells are pending."""
    _, _, result = batch
    for kind, cell in zip(KINDS, result.cells, strict=True):
        path = result.folder / cell.notebook
        assert path.name.endswith(".failed.ipynb") == (kind != "fine")
        notebook = nbformat.read(path, 4)
        code = [c for c in notebook.cells if c.cell_type == "code"]
        states = [c.metadata.papermill["status"] for c in code]
        if kind == "fine":
            assert states == ["completed"] * 5
            assert code[-1].outputs[0].text == "last\n"
        else:
            assert states[2] == "failed"
            assert states[-1] == "pending" or kind == "exit"  # whose kernel lives a moment longer
            assert any(output.output_type == "error" for output in code[2].outputs)
    assert not list(result.folder.glob("*.running.ipynb"))


def test_the_summary_is_a_frame_a_csv_and_a_notebook(batch):
    """One row a cell; in the notebook what a model wrote is text, and every link leads to a file."""
    _, _, result = batch
    frame = result.to_frame()
    read = pd.read_csv(result.folder / "summary.csv", keep_default_na=False)
    assert list(read["status"]) == list(frame["status"]) == EXPECTED
    assert list(read["parameter_kind"]) == KINDS
    summary = nbformat.read(result.folder / "summary.ipynb", 4)
    text = "\n".join(cell.source for cell in summary.cells)
    assert "6 notebooks of ends: 1 done, 1 failed, 1 timeout, 1 dead kernel, 2 exited" in text
    for sign in ("<script", "$x$", "| $"):
        assert sign not in text
    links = [line.split("](<")[1].split(">)")[0] for line in text.splitlines() if "](<" in line]
    assert len(links) == 6
    assert all((result.folder / unquote(link)).is_file() for link in links)
    assert len({line.count(" | ") for line in text.splitlines() if line.startswith("| ")}) == 1


def test_a_second_call_starts_none(batch):
    """What is done and what failed are both found; the summary says how to run the failed ones again."""
    _, call, first = batch
    second = call()
    assert second.started == 0
    assert [cell.status for cell in second.cells] == [cell.status for cell in first.cells]
    assert second.exit_code == 1
    assert "--retry" in second.summary().text
    assert json.dumps(second.to_dict(), allow_nan=False)


def test_a_failed_one_is_run_again_on_demand_and_a_lost_one_by_itself(tmp_path):
    """With retry it is run once more and done; a notebook that was deleted is made again."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", "from pathlib import Path\nPath('go').stat()")
    grid = tmp_path / "grid.toml"
    grid.write_text("[[list]]\n")
    assert [cell.status for cell in run_batch(template, grid, progress=False).cells] == ["failed"]
    (tmp_path / "go").touch()
    assert run_batch(template, grid, progress=False).started == 0
    again = run_batch(template, grid, retry=True, progress=False)
    assert (again.started, again.exit_code, again.counts) == (1, 0, {"done": 1})
    assert [path.name for path in again.folder.glob("t_*")] == [again.cells[0].notebook]
    (again.folder / again.cells[0].notebook).unlink()
    assert run_batch(template, grid, progress=False).started == 1


def test_a_worker_that_dies_fails_its_notebook_only(tmp_path):
    """SIGKILL of the process that runs the first of two: it is failed with the reason, and the second is done."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", "import time", "time.sleep(60 * (x == 1))")
    out = tmp_path / "out"

    def kill():
        def running():
            known = map(record_of, (out / "records").glob("*.json"))
            return [one for one in known if one["status"] == "running" and one["parameters"]["x"] == 1]

        wait_for(running)
        wait_for(lambda: list(out.glob("*.running.ipynb")))
        os.kill(int(running()[0]["process"].split(":")[1]), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = run_batch(template, {"product": {"x": [1, 2]}}, out=out, workers=1, progress=False)
    thread.join()
    assert [cell.status for cell in result.cells] == ["failed", "done"]
    assert "the process that ran it died (signal 9, SIGKILL)" in result.cells[0].error
    assert result.cells[0].notebook.endswith(".failed.ipynb")  # the cells that had run are its only trace


EDITS = """
import subprocess
from pathlib import Path

for name in ("t.ipynb", "s.toml"):
    source = Path(name).read_text()
    Path(name).write_text(source.replace("the first words", "other words"))
child = subprocess.Popen(["bash", "-c", "trap '' TERM INT HUP; while true; do sleep 0.2; done"])
server = subprocess.Popen(["sleep", "60"], start_new_session=True)
with open("children.txt", "a") as file:
    print(child.pid, server.pid, file=file)
"""


def test_files_that_are_edited_while_a_batch_runs_and_children_that_do_not_want_to_end(tmp_path, study_file):
    """All run the template that was checked; no notebook of another study is done; what a kernel left is ended."""
    study = study_file()
    study.write_text(f"# the first words\n{study.read_text()}")
    study.rename(tmp_path / "s.toml")
    template = write_notebook(tmp_path / "t.ipynb", "x = 0\nstudy = ''", EDITS, "print('the first words')")
    (tmp_path / "grid.toml").write_text(
        '[[list]]\nx = 1\n[[list]]\nx = 2\nstudy = "s.toml"\n[[list]]\nx = 3\n'
    )
    result = run_batch(template, tmp_path / "grid.toml", workers=1, progress=False)
    assert [cell.status for cell in result.cells] == ["done", "failed", "done"]
    assert "s.toml was changed after the batch began; call the batch again" in result.cells[1].error
    for cell in result.cells[::2]:
        shown = nbformat.read(result.folder / cell.notebook, 4).cells
        assert shown[-1].source == "print('the first words')"
        assert shown[-1].outputs[0].text == "the first words\n"
    assert "other words" in template.read_text()
    told = [line.split() for line in (tmp_path / "children.txt").read_text().splitlines()]
    assert len(told) == 2  # edited before it begins, nothing is run
    try:  # killed when the notebook ends; when they die of it is up to the machine
        wait_for(lambda: not any(is_alive(int(child)) for child, _ in told))
        assert all(is_alive(int(server)) for _, server in told)
    finally:
        for _, server in told:
            os.kill(int(server), signal.SIGKILL)
