"""Embedded servers of tests, forked from one process that has imported what they need: 0.1 s less for each of hundreds.

The command of the toolkit itself is run by every study in a process of its own, and by the tests of the store.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from unittest.mock import patch

from toolkit.store import embedded

# Who forks reaps nobody, so that a dead server is no zombie; a server ends as any interpreter does, and SQLite with it.
_FORKS = """
import json, os, signal, sys, tempfile
from pathlib import Path
from toolkit.store.embedded_server import serve

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    folder, idle, surroundings = json.loads(line)
    if child := os.fork():
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(Path(folder) / "server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(surroundings)
    tempfile.tempdir = None
    serve(Path(folder), float(idle))
    break
"""


class _Forked:
    """A server that was forked, with what a starter asks of a process."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, 0

    def poll(self):
        """Return nothing while it lives."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 1
        return None


@contextlib.contextmanager
def warm_servers():
    """Have embedded servers forked, and looked for each hundredth of a second while they begin and end."""
    command = [sys.executable, "-c", _FORKS]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **ends) as forks:
        asked, said, turn = forks.stdin, forks.stdout, threading.Lock()
        assert asked is not None
        assert said is not None

        def start(command, **settings):
            if command[:3] != [sys.executable, "-m", "toolkit.store.embedded_server"]:
                return subprocess.Popen(command, **settings)
            _, _, _, folder, idle = command
            with turn:
                asked.write(json.dumps([folder, idle, dict(os.environ)]) + "\n")
                asked.flush()
                return _Forked(int(said.readline()))

        ours = SimpleNamespace(**vars(subprocess) | {"Popen": start})
        quick = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: time.sleep(seconds / 5)})
        with patch.object(embedded, "subprocess", ours), patch.object(embedded, "time", quick):
            yield
        asked.close()
