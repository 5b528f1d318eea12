"""Ctrl-C: what is in flight comes home, nothing is counted that was not sent, and a second one gives up."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from IPython.core.interactiveshell import InteractiveShell
from processes import lone_file
from stub_server import Fault, StubServer
from waiting import wait_for

from toolkit.errors import Stopped
from toolkit.runs import execution
from toolkit.runs.execution import run_anywhere
from toolkit.store.documents import Call
from toolkit.study import Study


def started(folder, server):
    """Return the study of 24 runs, four at once, and a process that runs it."""
    path = lone_file(folder, server.openai_url, "repeats = 2\nconcurrency = 4")
    run = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"]
    return path, subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def press():
    os.kill(os.getpid(), signal.SIGINT)


async def heard(stop):
    """Wait until the main thread has heard Ctrl-C."""
    while not stop.is_set():
        await asyncio.sleep(0.001)


def test_the_first_ctrl_c_waits_for_what_is_in_flight():
    """The coroutine comes to its own end, and then the caller hears of the interrupt, with its own handler back."""
    stop, came = threading.Event(), []
    before = signal.getsignal(signal.SIGINT)

    async def work():
        press()
        await heard(stop)
        await asyncio.sleep(0.3)
        came.append("home")

    with pytest.raises(KeyboardInterrupt):
        run_anywhere(work, stop)
    assert came == ["home"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("echo", "ends"), [(1e9, "home"), (-1.0, "cancelled")], ids=["passed on twice", "pressed again"]
)
def test_a_second_ctrl_c_cancels_unless_it_is_the_first_over_again(monkeypatch, echo, ends):
    """`timeout` sends its signal to the process and to its group: that is one wish and not two."""
    monkeypatch.setattr(execution, "ECHO_SECONDS", echo)
    stop, came = threading.Event(), []

    async def work():
        press()
        await heard(stop)
        # Heard before the second is sent: a signal that waits for its handler swallows the next.
        press()
        try:
            await asyncio.sleep(0.3 if echo > 0 else 60)
            came.append("home")
        except asyncio.CancelledError:
            came.append("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt):
        run_anywhere(work, stop)
    assert came == [ends]


def test_an_interrupted_cell_is_one_line(capsys):
    """A notebook shows that it was stopped and how to go on, and no traceback."""
    stop = threading.Event()

    async def work():
        press()
        await heard(stop)

    shell = InteractiveShell()
    shell.user_ns["ask"] = lambda: run_anywhere(work, stop)
    result = shell.run_cell("ask()")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert capsys.readouterr().out.splitlines() == [str(Stopped())]


def test_who_ignores_ctrl_c_goes_on_ignoring_it():
    """Under nohup, or behind `&` in a script, a study is not stopped by what stops its terminal."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = threading.Event()

        async def work():
            press()
            await asyncio.sleep(0.05)
            return "done"

        assert run_anywhere(work, stop) == "done"
        assert not stop.is_set()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_study_stopped_by_ctrl_c_has_lost_nothing(tmp_path, store_folder):
    """Every request that was sent is kept and paid for once, none is abandoned, and progress counts what is done."""
    with StubServer(latency=0.5, faults=[None, Fault(status=429, retry_after="60")]) as server:
        path, child = started(tmp_path, server)
        wait_for(lambda: server.count >= 4 or child.poll() is not None)
        assert child.poll() is None
        assert server.under_way
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        assert child.returncode == 130
        study = Study.load(path)
        status = study.status()
        calls = study.store.database["calls"]
        states = sorted(call["state"] for call in calls.find())
        # The one that was told to wait a minute is neither a failed run nor waited for.
        assert states == ["done"] * (server.count - 1) + ["failed"]
        assert status["runs"]["succeeded"] == server.count - 1
        assert (status["runs"]["failed"], status["abandoned"], status["unsure_aud"]) == (0, 0, 0.0)
        assert int(re.findall(r"runs: (\d+)/24", said)[-1]) == server.count - 1
        assert "failed" not in said
        assert not any(call.unsure_aud for call in study.store.objects(Call))


@pytest.mark.parametrize("fault", [None, Fault(status=503)], ids=["answered", "refused"])
def test_nothing_is_sent_after_ctrl_c(tmp_path, store_folder, fault):
    """Four of 24 are under way: they come home and are kept, or not tried again, no fifth is sent, and no claim stays.

    Eight are answered at once before: then calls are claimed ahead of their places, and these claims wait too.
    """
    heard = threading.Event()
    with StubServer(
        holds=lambda: server.count > 8 and not heard.is_set(),
        faults=lambda number, body: fault if number >= 8 else None,
    ) as server:
        path, child = started(tmp_path, server)
        with child:
            wait_for(lambda: server.count == 12 or child.poll() is not None)
            child.send_signal(signal.SIGINT)
            assert child.stderr is not None
            assert any(execution.STOPPING in line for line in child.stderr)
            heard.set()
            child.communicate(timeout=60)
        assert (child.returncode, server.count) == (130, 12)
        with Study.load(path) as study:
            assert study.store.database["calls"].count_documents({"state": "done"}) == (8 if fault else 12)
            assert study.store.database["calls"].count_documents({"state": "claimed"}) == 0
            assert (study.status()["unsure_calls"], study.status()["unsure_aud"]) == (0, 0.0)


def test_a_second_ctrl_c_gives_up_what_is_in_flight(tmp_path, store_folder):
    """Nobody waits a minute for replies that he gave up; the ledger says that they may have been billed."""
    with StubServer(latency=60) as server:
        path, child = started(tmp_path, server)
        wait_for(lambda: server.count == 4 or child.poll() is not None)
        child.send_signal(signal.SIGINT)
        time.sleep(execution.ECHO_SECONDS + 0.3)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=40)
        assert child.returncode == 130
        study = Study.load(path)
        attempts = [[one["outcome"] for one in call.attempts] for call in study.store.objects(Call)]
        assert attempts == [["cancelled"]] * 4
        assert (server.count, study.status()["abandoned"]) == (4, 0)
