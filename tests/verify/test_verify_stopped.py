"""A stopped `toolkit verify --statistics` leaves nothing at work."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
from waiting import wait_for


def test_workers_end_with_the_command_that_a_signal_ended() -> None:
    """After SIGKILL, which runs no code of ours, no worker goes on simulating."""
    command = [sys.executable, "-m", "toolkit.cli", "verify", "--statistics", "--processes", "2"]
    command += ["--studies", "1000000", "--only", "clustered_mean"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        command_itself = psutil.Process(running.pid)
        # Two workers and the tracker of their resources.
        wait_for(lambda: running.poll() is not None or len(command_itself.children(recursive=True)) >= 3)
        assert running.poll() is None
        children = command_itself.children(recursive=True)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert psutil.wait_procs(children, timeout=120)[1] == []
