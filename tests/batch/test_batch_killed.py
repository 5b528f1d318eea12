"""A batch that is killed, stopped, or called twice at once: every notebook is run to its end exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from notebook_files import write_notebook

from toolkit.batch.records import read_record

NOTEBOOKS = 5
# The code is part of a notebook's identity, and a developer may edit it while these tests run.
COMMAND = """
import sys
from toolkit.batch import identity
identity.code_hash = lambda: "the same code"
from toolkit.cli import main
main(sys.argv[1:])
"""
BODY = """
import os, time
from pathlib import Path

with open("kernels.txt", "a") as file:
    print(os.getpid(), file=file)
time.sleep(seconds)
with open("ended.txt", "a") as file:
    print(x, file=file)
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start the command line on one grid of notebooks, in a process of its own."""
    write_notebook(tmp_path / "t.ipynb", "x: int\nseconds = 0.0", BODY)

    def call(seconds: float, workers: int = 2) -> subprocess.Popen[bytes]:
        grid = f"[product]\nx = {list(range(NOTEBOOKS))}\nseconds = [{seconds}]\n"
        (tmp_path / "grid.toml").write_text(grid)
        arguments = ["batch", "t.ipynb", "grid.toml", "--workers", str(workers), "--json"]
        command = [sys.executable, "-c", COMMAND, *arguments]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return call


def lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something is so, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_killed_half_way_and_called_twice_at_once_each_is_run_once(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """SIGKILL while notebooks run; then two batches at the same time: each notebook ended once, none is lost."""
    ended = tmp_path / "ended.txt"
    first = start(0.3)
    wait_for(lambda: len(lines(ended)) >= 2)
    first.kill()
    first.communicate()
    assert len(lines(ended)) < NOTEBOOKS
    both = [start(0.3, workers=1), start(0.3, workers=1)]
    said = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(lines(ended)) == list(range(NOTEBOOKS))
    # Those under way were brought to their end by their workers, and the rest was shared.
    assert len(lines(tmp_path / "kernels.txt")) == NOTEBOOKS
    assert said[0]["counts"] == said[1]["counts"] == {"done": NOTEBOOKS}
    assert 0 < said[0]["started"] + said[1]["started"] <= NOTEBOOKS - 2


def test_a_dead_run_is_taken_over_and_sigterm_ends_workers_and_kernels(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A record that says running and belongs to nobody is taken over; when stopped, nothing runs on and all wait."""
    batch = start(60.0)
    kernels = tmp_path / "kernels.txt"
    wait_for(lambda: len(lines(kernels)) == 2)
    records = tmp_path / "results" / "batches" / "grid" / "records"
    running = [
        r for p in records.glob("*.json") if (r := read_record(records, p.stem)) and r.status == "running"
    ]
    assert len(running) == 2
    batch.kill()
    for pid in [*(int(record.process.split(":")[1]) for record in running), *lines(kernels)]:
        os.kill(pid, signal.SIGKILL)
    batch.communicate()
    again = start(60.0)
    wait_for(lambda: len(lines(kernels)) == 4)
    taken = [read_record(records, record.identity) for record in running]
    assert [(record.status, record.attempts) for record in taken if record] == [("running", 2)] * 2
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=20)
    assert again.returncode == 130
    assert err.decode().splitlines()[-1].startswith("toolkit: stopped; ")
    known = [read_record(records, path.stem) for path in records.glob("*.json")]
    assert [record.status for record in known if record] == ["queued"] * NOTEBOOKS
    assert not any(is_alive(pid) for pid in lines(kernels))
