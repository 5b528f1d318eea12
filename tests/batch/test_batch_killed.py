"""A batch that is killed, stopped, or called twice at once: every notebook is run to its end exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from notebook_files import write_notebook
from waiting import is_alive, wait_for

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
while x >= {free} and not Path("go").exists():
    time.sleep(0.02)
with open("ended.txt", "a") as file:
    print(x, file=file)
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start the command line on one grid of notebooks, in a process of its own; the first so many end at once.

    The others wait until somebody says go, so that what is half-way is not up to the machine.
    """
    (tmp_path / "grid.toml").write_text(f"[product]\nx = {list(range(NOTEBOOKS))}\n")

    def call(free: int, workers: int = 2) -> subprocess.Popen[bytes]:
        write_notebook(tmp_path / "t.ipynb", "x: int", BODY.replace("{free}", str(free)))
        arguments = ["batch", "t.ipynb", "grid.toml", "--workers", str(workers), "--json"]
        command = [sys.executable, "-c", COMMAND, *arguments]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return call


def lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_killed_half_way_and_called_twice_at_once_each_is_run_once(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """SIGKILL while notebooks run; then two batches at the same time: each notebook ended once, none is lost."""
    ended = tmp_path / "ended.txt"
    first = start(2)
    wait_for(lambda: len(lines(tmp_path / "kernels.txt")) == 4)
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert sorted(lines(ended)) == [0, 1]
    both = [start(2, workers=1), start(2, workers=1)]
    (tmp_path / "go").touch()
    said = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(lines(ended)) == list(range(NOTEBOOKS))
    # Those under way were brought to their end by their workers, and the rest was shared.
    assert len(lines(tmp_path / "kernels.txt")) == NOTEBOOKS
    assert said[0]["counts"] == said[1]["counts"] == {"done": NOTEBOOKS}
    assert said[0]["started"] + said[1]["started"] == 1


def test_a_dead_run_is_taken_over_and_sigterm_ends_workers_and_kernels(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A record that says running and belongs to nobody is taken over; when stopped, nothing runs on and all wait."""
    batch = start(0)
    kernels = tmp_path / "kernels.txt"
    wait_for(lambda: len(lines(kernels)) == 2)
    records = tmp_path / "results" / "batches" / "grid" / "records"
    running = [
        r for p in records.glob("*.json") if (r := read_record(records, p.stem)) and r.status == "running"
    ]
    assert len(running) == 2
    batch.kill()
    for pid in [*(int(record.process.split(":")[1]) for record in running), *lines(kernels)]:
        with contextlib.suppress(ProcessLookupError):  # a kernel ends by itself when its worker is gone
            os.kill(pid, signal.SIGKILL)
    batch.communicate()
    assert batch.returncode == -signal.SIGKILL
    again = start(0)
    wait_for(lambda: len(lines(kernels)) == 4)
    taken = [read_record(records, record.identity) for record in running]
    assert [(record.status, record.attempts) for record in taken if record] == [("running", 2)] * 2
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 130
    assert err.decode().splitlines()[-1].startswith("toolkit: stopped; ")
    known = [read_record(records, path.stem) for path in records.glob("*.json")]
    assert [record.status for record in known if record] == ["queued"] * NOTEBOOKS
    wait_for(lambda: not any(is_alive(pid) for pid in lines(kernels)))
