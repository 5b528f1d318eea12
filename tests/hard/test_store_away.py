"""A store that goes away: the replies it does not take are in a file, and the next start takes them up."""

import json

import pytest
from processes import lone_file
from stub_server import StubServer
from stub_study import plain
from wire import Wire

from toolkit.audit.verify import verify_study
from toolkit.cli import main
from toolkit.runs.unsaved import DAMAGED, UNSAVED
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.words import counted

KEY = "canary-key-of-the-provider"


def study_of(folder, server):
    settings = 'scenarios = ["CTI_ANALYSIS"]\nrepeats = 10\nconcurrency = 4\n[budget]\naud = 1.0'
    return lone_file(folder, server.openai_url, settings)


def run(path, capfd):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--yes"])
    return int(ended.value.code or 0), capfd.readouterr().err


def test_what_a_store_never_takes_is_taken_up_at_the_next_start(tmp_path, store_folder, monkeypatch, capfd):
    """Answered n, kept n: those that came are in a file without a key, are asked of nobody again, and twice is once."""

    def answer(body):
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
        assert f"replies that the store did not take are kept in {file}; the next start" in said
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
