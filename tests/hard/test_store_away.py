"""A store that is away: replies wait for it, nothing more is sent, and what it never takes is taken up later."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import lone_file
from stub_server import StubServer
from stub_study import plain, stub_study
from wire import Wire

from toolkit.audit.export import export_study, import_archive
from toolkit.audit.verify import verify_study
from toolkit.cli import main
from toolkit.runs.unsaved import DAMAGED, UNSAVED
from toolkit.store import embedded, parts
from toolkit.study import Study
from toolkit.words import counted

KEY = "canary-key-of-the-provider"


def study_of(folder: Path, server: StubServer) -> Path:
    settings = 'scenarios = ["CTI_ANALYSIS"]\nrepeats = 10\nconcurrency = 4\n[budget]\naud = 1.0'
    return lone_file(folder, server.openai_url, settings)


def run(path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--yes"])
    return int(ended.value.code or 0), capfd.readouterr().err


def test_replies_wait_for_a_store_that_comes_back(tmp_path, store_folder, monkeypatch, capfd) -> None:
    """It is away for two seconds while four requests are out: they are kept, and no other is sent meanwhile."""
    sent: list[float] = []
    away: list[float] = []

    def answer(body: dict[str, Any]) -> str:
        sent.append(time.monotonic())
        if len(sent) == 8:
            wire.go_away()
            away.append(time.monotonic())
            threading.Timer(2.0, lambda: (away.append(time.monotonic()), wire.come_back())).start()
        return plain(body)

    with StubServer(answer=answer) as server, Wire(embedded.address(store_folder)) as wire:
        monkeypatch.setenv("MONGODB_URI", f"{wire.uri}/?serverSelectionTimeoutMS=60000")
        path = study_of(tmp_path, server)
        code, said = run(path, capfd)
        with Study.load(path) as study:
            runs = len(study.plan.runs)
            done = study.store.database["calls"].count_documents({"state": "done"})
            assert (code, server.count, done) == (0, runs, runs), said
            folder = study.output
    began, ended = away
    assert sum(began + 0.5 < moment < ended for moment in sent) == 0
    assert sum(began < moment < ended for moment in sent) <= 4
    assert said.count("the store does not answer; replies wait for it, up to 60 s") == 1
    assert not (folder / UNSAVED).exists()


def test_what_a_store_never_takes_is_taken_up_at_the_next_start(
    tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Answered n, kept n: those that came are in a file without a key, are asked of nobody again, and twice is once."""

    def answer(body: dict[str, Any]) -> str:
        if server.count == 8:
            wire.go_away()
        return plain(body)

    with StubServer(answer=answer) as server, Wire(embedded.address(store_folder)) as wire:
        monkeypatch.setenv("MONGODB_URI", f"{wire.uri}/?serverSelectionTimeoutMS=1000")
        monkeypatch.setenv("COMPATIBLE_API_KEY", KEY)
        path = study_of(tmp_path, server)
        code, said = run(path, capfd)
        file = tmp_path / "results" / "lone" / UNSAVED
        assert (code, "Traceback" in said) == (2, False)
        assert f"kept in {file}; the next start" in said
        written = file.read_bytes()
        calls = [json.loads(line) for line in written.splitlines()]
        assert {call["state"] for call in calls} == {"done"}
        assert len(calls) == len({call["_id"] for call in calls}) > 0
        assert KEY.encode() not in written
        changed = calls[0] | {"text": "Another reply."}
        file.write_bytes(written + json.dumps(changed).encode() + b"\n" + written.splitlines()[0][:200])
        asked = server.count
        wire.come_back()
        code, said = run(path, capfd)
        assert f"{counted(len(calls), 'calls')} of {file} taken up into the ledger" in said
        assert "2 lines damaged and not taken up" in said
        with Study.load(path) as study:
            assert (code, server.count) == (0, len(study.plan.runs)), (asked, said)
            assert not file.exists()
            assert len((file.parent / DAMAGED).read_bytes().splitlines()) == 2
            stored = list(study.store.database["calls"].find())
            file.write_bytes(written)
            assert study.run(progress=False)["new_calls"] == 0
            assert sorted(study.store.database["calls"].find(), key=str) == sorted(stored, key=str)
            assert not file.exists()
            monkeypatch.delenv("MONGODB_URI")
            assert verify_study(study).fields["differences"] == []


@pytest.mark.full
def test_large_documents_go_through_everything(tmp_path, store_folder, monkeypatch) -> None:
    """With a store that takes 3,000 bytes a document: asked, judged, verified, exported and imported as ever."""
    monkeypatch.setattr(parts, "LARGEST", 3000)
    monkeypatch.setattr(parts, "_MOVED", 300)
    monkeypatch.setattr(parts, "_PART", 1000)
    with StubServer(answer=plain) as server:
        path = stub_study(tmp_path, server.openai_url, runs="repeats = 1")
        with Study.load(path) as study:
            outcome = study.execute(progress=False)
            assert (outcome.succeeded, outcome.judged, outcome.failed) == (6, 6, 0)
            database = study.store.database
            assert database["calls"].count_documents({"parts.request": {"$exists": True}}) > 6
            assert verify_study(study).fields["differences"] == []
            export_study(study, tmp_path / "out")
            texts = study.runs(replies=True)["reply"].tolist()
        again = tmp_path / "again"
        again.mkdir()
        moved = path.rename(again / path.name)
        import_archive(tmp_path / "out" / "archive.zip", again / "results")
        with Study.load(moved) as study:
            assert study.run(progress=False)["new_calls"] == 0
            assert study.runs(replies=True)["reply"].tolist() == texts
            assert verify_study(study).fields["differences"] == []
            store = study.store.database
            victim = store["calls"].find_one({"parts.request": {"$exists": True}})
            part = store["parts"].find_one({"_id": victim["parts"]["request"][0]})
            store["parts"].update_one(
                {"_id": part["_id"]}, {"$set": {"content": part["content"].replace("e", "i", 1)}}
            )
            assert verify_study(study).exit_code == 1
        embedded.stop(again / "results" / ".store")
