"""A stopped `toolkit verify --statistics` leaves nothing at work."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil


def test_workers_end_with_the_command_that_a_signal_ended() -> None:
    """After SIGKILL, which runs no code of ours, no worker goes on simulating."""
    command = [sys.executable, "-m", "toolkit.cli", "verify", "--statistics", "--processes", "2"]
    command += ["--studies", "1000000", "--only", "clustered_mean"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        children: list[psutil.Process] = []
        while len(children) < 3:  # two workers and the tracker of their resources
            assert running.poll() is None
            children = psutil.Process(running.pid).children(recursive=True)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert psutil.wait_procs(children, timeout=30)[1] == []
