"""The main job once by scripted models, on a bad day, and which lines of some files of the toolkit it runs.

``python tests/helpers/main_job.py FILE ...`` prints JSON: each file with the lines that ran in this process. The
study is killed and taken over, stopped by Ctrl-C, refused, misunderstood by judges, sent in batches, compared in pairs,
analysed, exported, imported and verified.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

from processes import lone_file
from stub_server import Fault, StubServer
from stub_study import batch_study, is_judge, plain, stub_study
from waiting import wait_for

KEY = "sk-key-of-the-main-job"
REFUSED = Fault(status=429, retry_after="0.2", body={"error": {"message": f"slower, {KEY}"}})
COMMAND = [sys.executable, "-m", "toolkit.cli", "run", "--yes"]


def answer(body):
    """Answer as `plain` does; the third judge writes prose without scores."""
    return "I would rather not say." if body["model"] == "tertiary" else plain(body)


def trace(files, lines):
    """Return a trace function that notes the lines of some files."""

    def note(frame, event, argument):
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return note

    return lambda frame, event, argument: note if frame.f_code.co_filename in files else None


def command(*arguments):
    """Call the command line here, where it is traced."""
    from toolkit.cli import main

    with contextlib.suppress(SystemExit):
        main([str(argument) for argument in arguments])


def killed_and_taken_over(folder):
    """Kill a study at its third request, run it again, analyse it, carry it elsewhere and verify it."""
    entry = f', api_key_env = "{batch_key()}"'
    with StubServer(answer=answer) as server:
        path = stub_study(folder, server.openai_url, also=entry, runs="repeats = 2\nbudget.aud = 5.0")
        server.holds = lambda: server.count > 2
        with subprocess.Popen(
            [*COMMAND, path], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as child:
            wait_for(lambda: server.count > 2 or child.poll() is not None)
            child.kill()
            server.settle()
            server.holds = lambda: False
            # Not waited for yet: a dead process that nobody asked for is still listed by the system.
            server.faults = lambda number, body: None if is_judge(body) or number % 4 else REFUSED
            command("run", path, "--yes")
    command("status", path)
    command("verify", path)
    command("export", path, folder / "out")
    command("verify", folder / "out")
    return path


def batch_key():
    """Set the key of all that is asked here and return the name of its variable."""
    os.environ["BATCH_KEY"] = KEY
    return "BATCH_KEY"


def stopped(folder):
    """Press Ctrl-C while twelve requests are under way, then run the study to its end."""
    with StubServer() as server:
        server.holds = lambda: server.count > 8 and not pressed.is_set()
        path, pressed = (
            lone_file(folder, server.openai_url, "repeats = 2\nconcurrency = 4"),
            threading.Event(),
        )

        def press():
            wait_for(lambda: server.count >= 12)
            os.kill(os.getpid(), signal.SIGINT)
            threading.Timer(0.5, pressed.set).start()

        threading.Thread(target=press, daemon=True).start()
        command("run", path, "--yes")
        command("run", path, "--yes")


def in_batches(folder):
    """Run a study whose calls go in batches."""
    with StubServer(answer=plain) as server:
        command("run", batch_study(folder, server, provider="openai"), "--yes")


def compared(folder):
    """Estimate a study whose judges compare a part of the pairs of replies."""
    roles = "\n".join(
        f'{role} = {{ name = "{role}", provider = "scripted" }}' for role in ("primary", "secondary")
    )
    models = ", ".join(f'{{ name = "{name}", provider = "scripted" }}' for name in "xyz")
    path = folder / "pairs.toml"
    path.write_text(
        f'name = "p"\nmodels = [{models}]\n[judges]\nmode = "pairs"\npairs = 5\ntertiary = false\n{roles}'
    )
    command("estimate", path)


def main(files):
    """Do the whole job in a folder of its own and print which lines ran."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    from toolkit.store import embedded
    from toolkit.study import Study

    lines = defaultdict(set)
    noting = trace({str(Path(name).resolve()) for name in files}, lines)
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(sys.stderr):
        home = Path(name)
        threading.settrace(noting)
        sys.settrace(noting)
        try:
            for job in (killed_and_taken_over, stopped, in_batches, compared):
                folder = home / job.__name__
                folder.mkdir()
                path = job(folder)
                if path is not None:
                    with Study.load(path) as study:
                        study.length()
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            for store in home.glob("**/.store"):
                embedded.stop(store)
    print(json.dumps({file: sorted(lines[str(Path(file).resolve())]) for file in files}))


if __name__ == "__main__":
    main(sys.argv[1:])
