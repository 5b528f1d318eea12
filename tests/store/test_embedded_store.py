"""The embedded server is single, shared, found again, and keeps what it acknowledged."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pymongo import InsertOne
from waiting import is_alive, wait_for

from toolkit.errors import StoreError
from toolkit.store import embedded
from toolkit.store.connection import Store, open_store


def test_two_processes_share_one_server(store_folder: Path) -> None:
    """Four processes that start at once find one and the same server."""
    code = "import sys, pathlib; from toolkit.store import embedded; print(embedded.address(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(store_folder)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    addresses = {child.communicate()[0].strip() for child in children}
    assert len(addresses) == 1
    assert addresses.pop().startswith("mongodb://127.0.0.1:")


def test_acknowledged_writes_survive_a_killed_server(store_folder: Path) -> None:
    """After SIGKILL of the server every acknowledged document is there, under a new server."""
    store = open_store(store_folder)
    for number in range(50):
        store.writer.submit("calls", InsertOne({"_id": f"call-{number}"})).result()
    pid = json.loads((store_folder / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    store.close()
    wait_for(lambda: not is_alive(pid))
    again = open_store(store_folder)
    assert again.database["calls"].count_documents({}) == 50
    again.close()


def test_a_second_server_on_the_same_folder_refuses(store: Store, store_folder: Path) -> None:
    """Two servers never open the same data."""
    second = subprocess.run(
        [sys.executable, "-m", "toolkit.store.embedded_server", str(store_folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode != 0
    assert "another embedded server" in second.stderr


LATE = """
import asyncio, sys
from pathlib import Path
from toolkit.store.embedded_server import serve

listen = asyncio.start_server
async def late(*arguments, **settings):
    await asyncio.sleep(1)
    return await listen(*arguments, **settings)

asyncio.start_server = late
serve(Path(sys.argv[1]), 600)
"""


def test_a_server_is_on_record_when_it_listens_and_not_before(store_folder: Path) -> None:
    """Before, its port is anybody's: another program may take it, and would be taken for the store."""
    store_folder.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", LATE, str(store_folder)]) as server:
        try:
            wait_for((store_folder / "server.json").exists)
            port = json.loads((store_folder / "server.json").read_text())["port"]
            socket.create_connection(("127.0.0.1", port)).close()
        finally:
            server.terminate()


def test_the_server_ends_when_nobody_is_connected(store_folder: Path) -> None:
    """An idle server leaves by itself, so no process is orphaned."""
    embedded.address(store_folder, idle_seconds=0.3)
    wait_for(lambda: not embedded._held(store_folder / "server.lock"))


def test_a_stale_record_is_not_believed(store_folder: Path) -> None:
    """A record left by a dead server, or torn, leads to a new server and not to an error."""
    store_folder.mkdir(parents=True)
    for text in ('{"pid": 1, "port": 9}', '{"pid":', "[]"):
        (store_folder / "server.json").write_text(text)
        assert embedded.address(store_folder).startswith("mongodb://127.0.0.1:")
        embedded.stop(store_folder)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    """The error names the folder and what to change."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another `output`"):
        embedded.address(tmp_path / "file" / "store")


def test_a_server_that_does_not_answer_hides_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """MONGODB_URI may hold a password, which no error may show."""
    monkeypatch.setenv(
        "MONGODB_URI",
        "mongodb://me:canary-secret@127.0.0.1:9/?serverSelectionTimeoutMS=200&connectTimeoutMS=200",
    )
    with pytest.raises(StoreError) as caught:
        open_store(Path("unused"))
    assert "canary-secret" not in str(caught.value)
    assert "MONGODB_URI" in str(caught.value)


def test_mongodb_uri_is_used_when_set(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With MONGODB_URI no embedded server is started for the folder."""
    monkeypatch.setenv("MONGODB_URI", embedded.address(store_folder))
    opened = open_store(store_folder.parent / "never-made")
    assert opened.folder is None
    assert not (store_folder.parent / "never-made").exists()
    opened.close()
