"""What tests of processes share: whether one lives, and waiting for what will come without saying when."""

import json
import subprocess
import time
from pathlib import Path

import psutil


def is_alive(pid):
    """Whether a process runs; one that is dead and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processes(columns):
    """Return the lines that ``ps`` prints of these columns of every process."""
    return subprocess.check_output(["ps", "-eo", columns], text=True).splitlines()


def wait_for(condition, seconds=120.0):
    """Wait until something is so, or fail; the limit is for what never comes, not for how fast a machine is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def is_heard_out(store_folder):
    """Whether the embedded server is through with all that processes sent which are dead now: it works no more.

    What they sent lies in its Unix sockets, whose state does not say that nobody is at their other end.
    """
    server = psutil.Process(json.loads((store_folder / "server.json").read_text())["pid"])
    before = server.cpu_times()
    time.sleep(0.2)
    return server.cpu_times() == before
