"""Batches in real kernels: every end has its own status, what is done is not run again, what failed on demand."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from notebook_files import write_notebook
from waiting import is_alive, wait_for

from toolkit.batch import BatchResult, run_batch
from toolkit.batch.records import STATUSES, Record, read_record
from toolkit.errors import InputError

ENDS = """
import os, signal, sys
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
        pass
"""
KINDS = ["fine", "failing", "sys.exit", "exit", "killed", "endless"]
EXPECTED = ["done", "failed", "exited", "exited", "dead kernel", "timeout"]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[], BatchResult], BatchResult]:
    """One batch with every end there is: its folder, how to call it again, and what it came to."""
    folder = tmp_path_factory.mktemp("ends {x}")  # papermill fills in what it finds in braces
    write_notebook(folder / "ends.ipynb", "kind = 'fine'", ENDS, "kind", "print('last')")
    (folder / "grid.toml").write_text(f"[product]\nkind = {json.dumps(KINDS)}\n")

    def call() -> BatchResult:
        return run_batch(
            folder / "ends.ipynb", folder / "grid.toml", workers=3, cell_timeout=6, progress=False
        )

    return folder, call, call()


def test_every_end_has_its_own_status(batch: tuple[Path, Callable, BatchResult]) -> None:
    """Done, failed, exited, dead kernel, timeout: with the cell and the reason in one line."""
    _, _, result = batch
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


def test_no_kernel_is_left(batch: tuple[Path, Callable, BatchResult]) -> None:
    """The one that never ends was ended too."""
    folder, _, _ = batch
    pids = [int(line) for line in (folder / "kernels.txt").read_text().split()]
    assert len(pids) == 6
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_notebooks_are_kept_and_none_that_failed_claims_completion(
    batch: tuple[Path, Callable, BatchResult],
) -> None:
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


def test_the_records_agree(batch: tuple[Path, Callable, BatchResult]) -> None:
    """Each is JSON with the parameters, the status, the time and the process."""
    _, _, result = batch
    folder = result.folder / "records"
    records = [read_record(folder, path.stem) for path in sorted(folder.glob("*.json"))]
    assert sorted(record.parameters["kind"] for record in records if record) == sorted(KINDS)
    for record in records:
        assert record is not None
        assert record.status == EXPECTED[KINDS.index(record.parameters["kind"])]
        assert record.attempts == 1
        assert record.seconds is not None
        assert record.seconds > 0


def test_the_summary_is_a_frame_a_csv_and_a_notebook(batch: tuple[Path, Callable, BatchResult]) -> None:
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
    assert all((result.folder / link).is_file() for link in links)
    assert len({line.count(" | ") for line in text.splitlines() if line.startswith("| ")}) == 1


def test_a_second_call_starts_none(batch: tuple[Path, Callable, BatchResult]) -> None:
    """What is done and what failed are both found; the summary says how to run the failed ones again."""
    _, call, first = batch
    second = call()
    assert second.started == 0
    assert [cell.status for cell in second.cells] == [cell.status for cell in first.cells]
    assert second.exit_code == 1
    assert "--retry" in second.summary().text
    assert json.dumps(second.to_dict(), allow_nan=False)


def test_a_failed_one_is_run_again_on_demand_and_a_lost_one_by_itself(tmp_path: Path) -> None:
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


def test_a_worker_that_dies_fails_its_notebook_only(tmp_path: Path) -> None:
    """SIGKILL of the process that runs the first of two: it is failed with the reason, and the second is done."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", "import time", "time.sleep(60 * (x == 1))")
    out = tmp_path / "out"

    def kill() -> None:
        def running() -> list[Record]:
            known = [read_record(path.parent, path.stem) for path in (out / "records").glob("*.json")]
            return [one for one in known if one and one.status == "running" and one.parameters["x"] == 1]

        wait_for(running)
        (record,) = running()
        os.kill(int(record.process.split(":")[1]), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = run_batch(template, {"product": {"x": [1, 2]}}, out=out, workers=1, progress=False)
    thread.join()
    assert [cell.status for cell in result.cells] == ["failed", "done"]
    assert "the process that ran it died (signal 9, SIGKILL)" in result.cells[0].error


@pytest.mark.parametrize(
    ("grid", "options", "says"),
    [
        ({"product": {"k": [1, 2], "y": [0]}}, {}, r"grid: cell 1: t.ipynb: unknown parameter 'y'"),
        ({"product": {"k": [1, "2"]}}, {}, r"grid: cell 2: t.ipynb: k must be a whole number, got '2'"),
        ({"list": [{}]}, {}, "cell 1: t.ipynb: parameter 'k' is missing"),
        ({"list": [{"k": 1}, {"k": 1, "x": 0}]}, {}, "cells 1 and 2 are the same notebook"),
        ({"list": [{"k": 1}]}, {"timeout": 0}, "timeout: 0 is no time"),
        ({"list": [{"k": 1}]}, {"workers": 0}, "workers: 0 notebooks"),
    ],
)
def test_nothing_starts_when_a_cell_does_not_fit(
    tmp_path: Path, grid: dict, options: dict, says: str
) -> None:
    """The cell of the grid is named, and no folder is made."""
    template = write_notebook(tmp_path / "t.ipynb", "k: int\nx = 0")
    with pytest.raises(InputError, match=says):
        run_batch(template, grid, out=tmp_path / "out", progress=False, **options)
    assert not (tmp_path / "out").exists()


def test_the_statuses_are_these() -> None:
    """What a user can meet in a record."""
    assert STATUSES == ("queued", "running", "done", "failed", "timeout", "dead kernel", "exited")
