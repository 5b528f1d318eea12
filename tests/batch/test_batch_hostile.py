"""Batches under what goes wrong on a real machine: edits while they run, full disks, kernels with children, Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from notebook_files import write_notebook
from waiting import is_alive, wait_for

from toolkit.batch import run_batch
from toolkit.batch.ahead import Ahead
from toolkit.batch.grid import cells_of, read_grid
from toolkit.batch.planning import plan_batch
from toolkit.batch.pool import settle_failed
from toolkit.batch.records import Record, read_record, write_record
from toolkit.batch.result import LONGEST, BatchResult, CellResult
from toolkit.batch.sources import changed, sha256_of
from toolkit.batch.worker import Order, fulfil
from toolkit.errors import InputError, ToolkitError

EDITS = """
import subprocess
from pathlib import Path

source = Path("t.ipynb").read_text()
Path("t.ipynb").write_text(source.replace("the first words", "other words"))
child = subprocess.Popen(["bash", "-c", "trap '' TERM INT HUP; while true; do sleep 0.2; done"])
server = subprocess.Popen(["sleep", "60"], start_new_session=True)
with open("children.txt", "a") as file:
    print(child.pid, server.pid, file=file)
"""


def test_a_template_that_is_edited_while_its_batch_runs_and_children_that_do_not_want_to_end(
    tmp_path: Path,
) -> None:
    """All run what was checked; what a kernel left in its group is ended, what has a session of its own lives on."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", EDITS, "print('the first words')")
    (tmp_path / "grid.toml").write_text("[product]\nx = [1, 2]\n")
    result = run_batch(template, tmp_path / "grid.toml", workers=1, progress=False)
    assert result.counts == {"done": 2}, result.summary().text
    for cell in result.cells:
        shown = nbformat.read(result.folder / cell.notebook, 4).cells
        assert (shown[-1].source, shown[-1].outputs[0].text) == (
            "print('the first words')",
            "the first words\n",
        )
    assert "other words" in template.read_text()
    (records,) = {json.loads(p.read_text())["template"] for p in (result.folder / "records").glob("*.json")}
    assert records == str(template)
    children, servers = zip(
        *(line.split() for line in (tmp_path / "children.txt").read_text().splitlines()), strict=True
    )
    try:
        # Killed when the batch ends; when it dies of it is up to the machine.
        wait_for(lambda: not any(is_alive(int(pid)) for pid in children))
        assert all(is_alive(int(pid)) for pid in servers)
    finally:
        for pid in servers:
            os.kill(int(pid), signal.SIGKILL)


def test_a_study_that_is_edited_while_the_batch_runs_is_never_called_done(tmp_path: Path) -> None:
    """Edited before it begins, nothing is run; edited while it runs, the notebook is kept as one that failed."""
    study = tmp_path / "s.toml"
    study.write_text("1")
    source = "from pathlib import Path\nPath('begun').touch()\nPath('s.toml').write_text('2')"
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", source)
    order = Order(
        template=str(template),
        output=str(tmp_path / "out" / "t.ipynb"),
        parameters={},
        folder=str(tmp_path),
        identity="a",
        records=str(tmp_path / "out" / "records"),
        files={str(study): sha256_of(study)},
    )
    assert changed(order.files) == ""
    reply = fulfil(order)
    assert (reply.status, Path(reply.notebook).name) == ("failed", "t.failed.ipynb")
    assert reply.error == f"{study} was changed after the batch began; call the batch again"
    (tmp_path / "begun").unlink()
    again = fulfil(Order(**{**vars(order), "identity": "b"}))
    assert again.status == "failed"
    assert not (tmp_path / "begun").exists()
    assert changed({str(tmp_path / "no.toml"): ""}) == str(tmp_path / "no.toml")


def test_what_a_killed_process_left_of_its_notebook_is_kept_with_its_record(tmp_path: Path) -> None:
    """The cells that had run are the only trace of what happened."""
    order = Order(
        "t.ipynb", str(tmp_path / "t.ipynb"), {}, ".", identity="a", records=str(tmp_path / "records")
    )
    write_record(tmp_path / "records", Record("a", "running", attempts=1, began=time.time() + 3600))
    (tmp_path / "t.running.ipynb").write_text("half")
    reply = settle_failed(order, "it died")
    record = read_record(tmp_path / "records", "a")
    assert record is not None
    assert (record.status, record.notebook, record.error) == ("failed", "t.failed.ipynb", "it died")
    assert record.seconds == 0.0  # the clock was set back meanwhile
    assert Path(reply.notebook).read_text() == "half"
    assert not (tmp_path / "t.running.ipynb").exists()


@pytest.mark.parametrize("when", ["records", "notebooks"])
def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A full disk: the file and what to do, no traceback of our own, and the same call goes on when there is room."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out" / "a.json"))

    def no_space(*_: Any, **__: Any) -> None:
        raise full

    target = (
        "toolkit.batch.run.write_record" if when == "records" else "toolkit.batch.result.write_atomically"
    )
    monkeypatch.setattr(target, no_space)
    monkeypatch.setattr("toolkit.batch.run._run", lambda *_: set())
    with pytest.raises(
        ToolkitError, match=r"a\.json: No space left on device; mend that, .* goes on"
    ) as error:
        run_batch(template, {"list": [{}]}, out=tmp_path / "out", progress=False)
    assert "\n" not in str(error.value)


def test_thousands_of_cells_ask_for_the_commit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a process of git; for each of 5,000 cells it took 50 s."""
    asked: list[int] = []
    monkeypatch.setattr("toolkit.batch.run._toolkit", lambda: asked.append(1) or "0.1")
    monkeypatch.setattr("toolkit.batch.run._run", lambda *_: set())
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")
    result = run_batch(template, {"product": {"x": range(300)}}, out=tmp_path / "out", progress=False)
    assert result.counts == {"queued": 300}
    assert len(asked) == 1


def test_a_kernel_that_cannot_boot_ahead_is_no_fault_of_the_notebook_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next notebook boots its own, and says what is wrong."""
    import asyncio

    gone: list[bool] = []

    async def refused(**_: Any) -> None:
        raise OSError("no memory")

    manager = SimpleNamespace(start_kernel=refused, cleanup_connection_file=lambda: gone.append(True))
    monkeypatch.setattr("toolkit.batch.ahead.new_manager", lambda name: manager)
    ahead = Ahead()
    asyncio.run(ahead.boot("python3"))
    assert gone == [True]
    assert ahead.take("python3") is None


STOPPED = """
import sys
from toolkit.cli import main
main(["batch", "t.ipynb", "grid.toml", "--workers", "1", "--out", "out"])
"""


def test_a_second_ctrl_c_ends_kernels_at_once(tmp_path: Path) -> None:
    """Where the first one asks: a notebook that does not listen would go on for 15 s, and its batch with it."""
    source = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nwhile True:\n    try:\n"
    source += "        time.sleep(60)\n    except KeyboardInterrupt:\n        open('heard', 'w')"
    write_notebook(tmp_path / "t.ipynb", "x = 0", source)
    (tmp_path / "grid.toml").write_text("[product]\nx = [1, 2]\n")
    batch = subprocess.Popen([sys.executable, "-c", STOPPED], cwd=tmp_path, stderr=subprocess.PIPE)
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text())
    batch.send_signal(signal.SIGINT)
    wait_for((tmp_path / "heard").exists)
    began = time.monotonic()
    batch.send_signal(signal.SIGINT)
    _, err = batch.communicate(timeout=120)
    assert batch.returncode == 130
    assert time.monotonic() - began < 8
    wait_for(lambda: not is_alive(int(pid.read_text())))
    assert b"Traceback" not in err
    states = [
        json.loads(path.read_text())["status"] for path in (tmp_path / "out" / "records").glob("*.json")
    ]
    assert states == ["queued", "queued"]


def test_a_grid_that_is_too_large_or_too_deep_is_refused_before_it_is_written_out(tmp_path: Path) -> None:
    """Ten lists of ten values each are ten thousand million cells; each fault is one short line."""
    with pytest.raises(InputError, match=r"the product has 10,000,000,000 cells, more than the 100,000"):
        cells_of({"product": {f"x{n}": list(range(10)) for n in range(10)}})
    path = tmp_path / "grid.toml"
    for text in ("[product]\nx = [" + "[" * 5000 + "]" * 5000 + "]", "[product]\nx = [" + "9" * 5000 + "]"):
        path.write_text(text)
        with pytest.raises(InputError, match="not valid TOML") as error:
            read_grid(path)
        assert len(str(error.value)) < 400
    for grid in ({"list": 3}, {"product": {"x": [1]}, "exclude": 3}):
        with pytest.raises(InputError, match="two brackets"):
            cells_of(grid)
    path.write_text("\ufeff[product]\nx = [1]\n")  # as an editor of Windows writes it
    assert read_grid(path) == ({"x": 1},)


def test_arrays_and_columns_are_lists_of_values() -> None:
    """What somebody has in hand in a notebook."""
    import numpy as np
    import pandas as pd

    grid = {"product": {"x": np.arange(2), "y": pd.Series(["a"])}}
    assert cells_of(grid) == ({"x": 0, "y": "a"}, {"x": 1, "y": "a"})


def test_long_values_do_not_fill_the_screen(tmp_path: Path) -> None:
    """Neither in the error of a cell that is there twice, nor in the summary; the CSV has all of it."""
    template = write_notebook(tmp_path / "t.ipynb", "x = ''")
    long = "a" * 100_000
    with pytest.raises(InputError, match="are the same notebook") as error:
        plan_batch(template, [{"x": long}, {"x": long}], tmp_path, "grid")
    assert len(str(error.value)) < 300
    result = BatchResult("t", tmp_path, (CellResult({"x": long}, "failed", error="no"),), 1.0)
    assert len(result.summary().text) < 10 * LONGEST
    csv, notebook = result.write()
    assert long in csv.read_text()
    assert notebook.stat().st_size < 10_000


def test_half_a_character_and_another_language_are_refused(tmp_path: Path) -> None:
    """No record can hold the one; the other would be run as Python and called done."""
    template = write_notebook(tmp_path / "t.ipynb", "x = ''")
    with pytest.raises(InputError, match="half a character"):
        plan_batch(template, [{"x": "\ud800"}], tmp_path, "grid")
    notebook = nbformat.read(template, 4)
    notebook.metadata = {
        "kernelspec": {"name": "julia-1.9", "display_name": "J"},
        "language_info": {"name": "julia"},
    }
    nbformat.write(notebook, template)
    with pytest.raises(InputError, match="is a notebook in julia"):
        plan_batch(template, [{}], tmp_path, "grid")


def test_a_folder_of_notebooks_may_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records name their notebooks relative to themselves: what is done is found where it is now."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")
    monkeypatch.setattr("toolkit.batch.run._run", done_at_once)
    first = run_batch(template, {"list": [{}]}, out=tmp_path / "a {b}", progress=False)
    shutil.move(tmp_path / "a {b}", tmp_path / "moved here")
    again = run_batch(template, {"list": [{}]}, out=tmp_path / "moved here", progress=False)
    assert (first.started, again.started, again.already_done) == (1, 0, 1)


def done_at_once(pending: list[Order], *_: Any) -> set[str]:
    """Say of every notebook that it is done, without a kernel."""
    for order in pending:
        Path(order.output).write_text("{}")
        write_record(
            Path(order.records), Record(order.identity, "done", notebook=Path(order.output).name, attempts=1)
        )
    return {order.identity for order in pending}
