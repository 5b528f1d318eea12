"""A batch that is killed, stopped, or called twice at once: every notebook is run to its end exactly once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from notebook_files import write_notebook
from waiting import is_alive, wait_for

NOTEBOOKS = 5
# The code is part of a notebook's identity, and a developer may edit it while these tests run.
COMMAND = """
import sys
from toolkit.batch import plan
plan.code_hash = lambda: "the same code"
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
DEAF = """
import os, time
open("kernels.txt", "w").write(str(os.getpid()))
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        open("heard", "w")
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path):
    """Start the command line on one grid of notebooks, in a process of its own; the first so many end at once.

    The others wait until somebody says go, so that what is half-way is not up to the machine.
    """
    (tmp_path / "grid.toml").write_text(f"[product]\nx = {list(range(NOTEBOOKS))}\n")

    def call(free, workers=2, body=BODY):
        write_notebook(tmp_path / "t.ipynb", "x: int", body.replace("{free}", str(free)))
        arguments = ["batch", "t.ipynb", "grid.toml", "--workers", str(workers), "--out", "out", "--json"]
        command = [sys.executable, "-c", COMMAND, *arguments]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return call


def lines(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def records(folder):
    """Return what each record says."""
    return [json.loads(path.read_text()) for path in (folder / "out" / "records").glob("*.json")]


def test_killed_half_way_and_called_twice_at_once_each_is_run_once(tmp_path, start):
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
    assert not list((tmp_path / "out" / "records").glob("batch-*"))


def test_a_dead_run_is_taken_over_and_sigterm_ends_workers_and_kernels(tmp_path, start):
    """A record that says running and belongs to nobody is taken over; when stopped, nothing runs on and all wait."""
    batch = start(0)
    kernels = tmp_path / "kernels.txt"
    wait_for(lambda: len(lines(kernels)) == 2)
    running = [record for record in records(tmp_path) if record["status"] == "running"]
    assert len(running) == 2
    batch.kill()
    for pid in [*(int(record["process"].split(":")[1]) for record in running), *lines(kernels)]:
        with contextlib.suppress(ProcessLookupError):  # a kernel ends by itself when its worker is gone
            os.kill(pid, signal.SIGKILL)
    batch.communicate()
    assert batch.returncode == -signal.SIGKILL
    again = start(0)
    wait_for(lambda: len(lines(kernels)) == 4)
    taken = {record["parameters"]["x"]: record for record in records(tmp_path)}
    states = [taken[record["parameters"]["x"]] for record in running]
    assert [(record["status"], record["attempts"]) for record in states] == [("running", 2)] * 2
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 130
    assert err.decode().splitlines()[-1].startswith("toolkit: stopped; ")
    assert [record["status"] for record in records(tmp_path)] == ["queued"] * NOTEBOOKS
    wait_for(lambda: not any(is_alive(pid) for pid in lines(kernels)))


def test_a_second_ctrl_c_ends_kernels_at_once(tmp_path, start):
    """Where the first one asks: a notebook that does not listen would go on for 15 s, and its batch with it."""
    batch = start(0, workers=1, body=DEAF)
    wait_for(lambda: lines(tmp_path / "kernels.txt"))
    batch.send_signal(signal.SIGINT)
    wait_for((tmp_path / "heard").exists)
    began = time.monotonic()
    batch.send_signal(signal.SIGINT)
    _, err = batch.communicate(timeout=120)
    assert batch.returncode == 130
    assert time.monotonic() - began < 10
    wait_for(lambda: not any(map(is_alive, lines(tmp_path / "kernels.txt"))))
    assert b"Traceback" not in err
    assert [record["status"] for record in records(tmp_path)] == ["queued"] * NOTEBOOKS
