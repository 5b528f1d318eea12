"""A reply is on the disk before anybody is told of it: seen on the wire between the toolkit and its store."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from processes import lone_file, unjudged_study
from stub_server import StubServer
from waiting import wait_for
from wire import Wire

from toolkit import Study
from toolkit.cli import main
from toolkit.errors import StoreError
from toolkit.models.base import ModelReply, Usage
from toolkit.runs.ledger import Ledger
from toolkit.store import embedded


def replies_in(command):
    """Return the calls whose replies a command writes."""
    if command.get("update") != "calls":
        return []
    changes = [change["u"] for change in command["updates"]]
    return [change["_id"] for change in changes if change.get("state") == "done"]


def runs_in(command):
    """Return the calls of the runs that a command writes."""
    return [run["call_id"] for run in command.get("documents", ())] if command.get("insert") == "runs" else []


IN_FULL = pytest.mark.full


def lone_study(folder, server, repeats=2):
    """Write a study of four prompts by one model, asked one after the other."""
    settings = f'scenarios = ["CTI_ANALYSIS"]\nrepeats = {repeats}'
    return lone_file(folder, server.openai_url, settings)


@pytest.mark.parametrize("is_embedded", [True, False], ids=["embedded", "address"])
def test_a_reply_is_flushed_and_acknowledged_before_anything_follows_from_it(
    tmp_path, store_folder, monkeypatch, is_embedded
):
    """Claim, request, flushed reply, acknowledgement, and only then the next request and the run that rests on it."""
    events = []

    def slowly(command, reply):
        if replies_in(command) or command.get("insert") == "calls":
            time.sleep(0.1)  # nobody has been told yet; whoever does not wait gets ahead here
        return reply

    def note(command, reply):
        events.extend(("claimed", one["_id"]) for one in command.get("documents", ()) if "worst_aud" in one)
        flushed = command.get("writeConcern", {}).get("j") is True and reply["ok"] == 1
        events.extend(("kept" if flushed else "not flushed", call) for call in replies_in(command))
        events.extend(("told", call) for call in runs_in(command))

    def answer(body):
        events.append(("asked", ""))
        return "A reply."

    with (
        StubServer(answer=answer) as server,
        Wire(embedded.address(store_folder), change=slowly, note=note) as wire,
    ):
        if is_embedded:
            monkeypatch.delenv("MONGODB_URI", raising=False)
            monkeypatch.setattr(embedded, "address", lambda folder: wire.uri)
        else:
            monkeypatch.setenv("MONGODB_URI", wire.uri)
        with Study.load(lone_study(tmp_path, server)) as study:
            outcome = study.execute(progress=False)
    assert outcome.succeeded == server.count > 1
    in_turn = [what for what, _ in events if what != "told"]
    assert in_turn == ["claimed", "asked", "kept"] * server.count
    calls = [call for what, call in events if what == "kept"]
    assert sorted(calls) == sorted(call for what, call in events if what == "told")
    for call in calls:
        assert events.index(("claimed", call)) < events.index(("kept", call)) < events.index(("told", call))


def test_an_answer_is_handed_out_when_its_reply_is_acknowledged(tmp_path, store_folder, monkeypatch):
    """The ledger waits for the store, however long that takes, before anybody has the answer."""
    events = []

    def slowly(command, reply):
        time.sleep(0.2 * bool(replies_in(command)))
        events.extend("saved" for _ in replies_in(command))
        return reply

    async def complete(ledger, request):
        claim = await ledger.claim(request, purpose="run", worst_aud=0.0)
        reply = ModelReply("A reply.", "stop", Usage(1, 1), "m", {})
        await ledger.complete(claim, reply, aud_cost=0.0, latency_ms=1.0, attempts=[])
        events.append("handed out")

    with StubServer() as server, Wire(embedded.address(store_folder), change=slowly) as wire:
        monkeypatch.setenv("MONGODB_URI", wire.uri)
        with Study.load(lone_study(tmp_path, server)) as study:
            ledger = Ledger(study.store, study.name)
            ledger.owner.start()
            asyncio.run(complete(ledger, study.plan.runs[0].request))
            ledger.owner.close()
    assert events == ["saved", "handed out"]


@pytest.mark.parametrize(
    "what", ["replies", pytest.param("claims", marks=IN_FULL), pytest.param("owners", marks=IN_FULL)]
)
def test_a_write_that_may_be_lost_is_no_success(tmp_path, store_folder, monkeypatch, capfd, what):
    """The server says ok and that the write concern failed: one line, exit code 2, and no run rests on it."""
    told = []

    def unsafe(command, reply):
        claims = command.get("insert") == "calls"
        if {"replies": replies_in(command), "claims": claims, "owners": command.get("insert") == "owners"}[
            what
        ]:
            return {**reply, "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}
        return reply

    with (
        StubServer() as server,
        Wire(
            embedded.address(store_folder),
            change=unsafe,
            note=lambda command, _: told.extend(runs_in(command)),
        ) as wire,
    ):
        monkeypatch.setenv("MONGODB_URI", wire.uri)
        with pytest.raises(SystemExit) as ended:
            main(["run", str(lone_study(tmp_path, server)), "--yes"])
        assert (ended.value.code, server.count) == (2, int(what == "replies"))
    said = capfd.readouterr().err.splitlines()
    assert "waiting for replication timed out" in said[-1]
    assert "Traceback" not in "".join(said)
    assert told == []


def test_a_store_that_dies_again_and_again_loses_nothing_and_is_asked_nothing_twice(tmp_path, store_folder):
    """SIGKILL of the embedded server in the middle of a run: it is there again, and the run ends as if nothing was."""
    with StubServer(latency=0.02) as server:
        study = unjudged_study(tmp_path, server.openai_url, repeats=10, concurrency=10)
        record = study.plan.store_folder / "server.json"
        outcomes = []
        with study:
            assert study.store.folder == study.plan.store_folder
            runs = threading.Thread(target=lambda: outcomes.append(study.execute(progress=False)))
            runs.start()
            for requests in (10, 60):
                wait_for(lambda n=requests: server.count >= n or not runs.is_alive())
                pid = json.loads(record.read_text())["pid"]
                assert runs.is_alive()
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda n=pid: json.loads(record.read_text())["pid"] != n)
            runs.join()
            (outcome,) = outcomes
            assert (outcome.succeeded, outcome.failed) == (120, 0)
            assert study.store.database["calls"].count_documents({"state": "done"}) == server.count == 120


def test_ctrl_c_does_not_hide_that_the_store_took_nothing_more(tmp_path, store_folder):
    """What was in flight comes home to a store that refuses it: that is said, and not "what was answered is kept"."""
    refusing = threading.Event()

    def full(command, reply):
        return (
            {"ok": 0, "errmsg": "database or disk is full"}
            if refusing.is_set() and replies_in(command)
            else reply
        )

    waits = threading.Event()
    with (
        StubServer(holds=lambda: not waits.is_set()) as server,
        Wire(embedded.address(store_folder), change=full) as wire,
    ):
        path = lone_study(tmp_path, server)
        child = subprocess.Popen(
            [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MONGODB_URI": wire.uri},
        )
        wait_for(lambda: server.under_way or child.poll() is not None)
        refusing.set()
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        waits.set()
        _, said = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "disk is full" in said.splitlines()[-1]
    assert "what was answered is kept" not in said
    assert "Traceback" not in said


FULL = """
import resource, sys
from pathlib import Path
from toolkit.store.embedded_server import serve
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
serve(Path(sys.argv[1]), 60)
"""


@pytest.mark.parametrize(
    ("repeats", "under_way"),
    [(2, 1), (20, 2 * 10)],
    ids=["one after the other", "ten at once"],
)
def test_a_full_disk_is_one_line(tmp_path, store_folder, repeats, under_way):
    """The server may write no more: the study ends with exit code 2 and one line, and goes on when there is room."""
    store_folder.mkdir(parents=True)
    text = "word " * 40_000
    with StubServer(answer=lambda body: text) as server:
        path = lone_study(tmp_path, server, repeats)
        with subprocess.Popen(
            [sys.executable, "-c", FULL, str(store_folder)], stderr=subprocess.PIPE
        ) as full:
            wait_for((store_folder / "server.json").exists)
            command = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"]
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            full.terminate()
            log = full.communicate()[1].decode()
        assert ended.returncode == 2
        *before, last = ended.stderr.splitlines()
        assert re.search(r"the store (did not take a write|failed) \(.*(full|I/O)", last)
        assert "Traceback" not in ended.stderr + log
        assert not any("rror" in line for line in before)
        asked = server.count
        assert asked < 4 * repeats
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
        with Study.load(path) as study:
            runs = len(study.plan.runs)
        assert server.count - runs <= under_way  # what was answered and could not be kept is asked again


def emptied(path):
    path.write_bytes(b"")


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwritten(path):
    path.write_bytes(os.urandom(path.stat().st_size))


def holed(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))


@pytest.mark.parametrize(
    "damage", [halved, *(pytest.param(one, marks=IN_FULL) for one in (emptied, overwritten, holed))]
)
def test_a_damaged_store_is_refused_and_not_an_empty_study(tmp_path, store_folder, capfd, damage):
    """One line that names the file or folder, and nothing is asked a second time."""
    with StubServer() as server:
        path = lone_study(tmp_path, server)
        with Study.load(path) as study:
            study.execute(progress=False)
            folder = study.plan.store_folder
        assert embedded.stop(folder)
        asked = server.count
        database = folder / "data" / "toolkit.db"
        for log in database.parent.glob("toolkit.db-*"):
            log.unlink()
        damage(database)
        for command in ("status", "run"):
            with pytest.raises(SystemExit) as ended:
                main([command, str(path)])
            said = capfd.readouterr().err.splitlines()
            assert (ended.value.code, len(said), server.count) == (2, 1, asked)
            assert str(folder) in said[0]
            assert "copy" in said[0]
            assert "MONGODB_URI" not in said[0]
        embedded.stop(folder)


def test_studies_that_are_let_go_leave_no_thread_and_no_connection(study_file, toolkit):
    """Twenty loads in a loop as a notebook does it, a `with`, and commands: afterwards all is as it was before."""
    path = study_file()
    toolkit("run", path, "--yes")
    threads, open_ones = threading.active_count(), _connections()
    most = 0
    for _ in range(20):
        study = Study.load(path)
        assert len(study.runs()) == 6
        most = max(most, threading.active_count() - threads)
    del study
    wait_for(lambda: threading.active_count() <= threads and _connections() <= open_ones)
    assert most < 60
    with Study.load(path) as study:
        study.runs()
    for command in ("status", "estimate"):
        toolkit(command, path)
    wait_for(lambda: threading.active_count() <= threads and _connections() <= open_ones)
    assert len(study.runs()) == 6  # a study that was closed opens its store again
    study.close()
    with pytest.raises(StoreError), Study.load(path) as study:
        raise StoreError("from inside")


def _connections():
    return sum(one.status == psutil.CONN_ESTABLISHED for one in psutil.Process().net_connections("tcp"))
