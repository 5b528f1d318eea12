"""The main job: everything is asked once, failures are recorded and missing, a killed study resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stub_server import Fault, StubServer
from waiting import is_heard_out, wait_for

from toolkit.errors import PriceError
from toolkit.store import records
from toolkit.store.connection import open_store
from toolkit.store.documents import Judgement, OutputBlob, Run
from toolkit.study import Study
from toolkit.words import DIMENSIONS

SCORES = "{" + ", ".join(f'"{name}": 4.0' for name in DIMENSIONS) + "}"
REASONED = '{"reasons": "Sound.", ' + SCORES[1:]


def stub_study(folder: Path, address: str, *, runs: str = "", bins: str = '["S", "M", "L"]') -> Path:
    """Write a study of the CTI prompts that asks one server everything, through the openai client."""
    price = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
    server = f'provider = "compatible", base_url = "{address}", {price}'
    judges = "\n".join(
        f'{role} = {{ name = "{role}", {server} }}' for role in ("primary", "secondary", "tertiary")
    )
    path = folder / "stub.toml"
    path.write_text(
        f'name = "stub"\noutput = "results/stub"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = {bins}\n{runs}\n'
        f'models = [{{ name = "answerer", {server} }}]\n[judges]\n{judges}\n'
    )
    return path


def is_judge(body: dict) -> bool:
    return body["model"] in ("primary", "secondary", "tertiary")


def test_a_finished_study_makes_no_call(study_file: Callable[..., Path]) -> None:
    """Six runs and eighteen judgements; the second time nothing is asked and everything is there."""
    first = Study.load(study_file()).execute(progress=False)
    assert (first.succeeded, first.failed, first.judged, first.new_calls) == (6, 0, 6, 24)
    study = Study.load(study_file())
    second = study.execute(progress=False)
    assert (second.succeeded, second.judged, second.new_calls, second.exit_code) == (6, 6, 0, 0)
    assert len(study.runs()) == 6
    assert len(study.judgements()) == 18
    assert len(study.dimensions()) == 18 * 7
    study.store.close()


def test_documents_hold_together(study_file: Callable[..., Path]) -> None:
    """Every run has its prompt and its text, every judgement its run, every call is in the ledger."""
    study = Study.load(study_file("repeats = 2"))
    study.run(progress=False)
    store = study.store
    assert store.objects(Run).count() == 12
    for run in store.objects(Run):
        assert store.database["prompts"].count_documents({"prompt_id": run.prompt_id}) == 1
        assert store.objects(OutputBlob).get(blob_id=run.output_blob_id).content == study.reply(run.run_id)
        assert store.database["calls"].count_documents({"_id": run.call_id, "state": "done"}) == 1
        assert run.tokens.total == run.tokens.input + run.tokens.output
        assert set(run.ensemble_evaluation["judge_results"]) == {"primary", "secondary", "tertiary"}
        assert run.scores["composite"] == run.ensemble_evaluation["aggregated"]["mean_scores"]["composite"]
    run_ids = {run.run_id for run in store.objects(Run)}
    assert {judgement.run_id for judgement in store.objects(Judgement)} == run_ids
    store.close()


def test_a_failed_run_is_recorded_and_stops_nothing(tmp_path: Path, store_folder: Path) -> None:
    """One prompt is refused: its run has a reason and no scores, the others are whole; later it is asked again."""
    refused: list[str] = []

    def faults(number: int, body: dict) -> Fault | None:
        text = body["messages"][-1]["content"]
        if not is_judge(body) and (not refused or text == refused[0]):
            refused[:] = [text]
            return Fault(status=400)
        return None

    with StubServer(faults=faults, answer=lambda body: REASONED if is_judge(body) else "Block it.") as server:
        study = Study.load(stub_study(tmp_path, server.openai_url))
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.failed, outcome.judged, outcome.exit_code) == (5, 1, 5, 1)
        assert list(outcome.failures) == ["bad_request"]
        failed = study.runs().query("status == 'failed'")
        assert failed["composite"].isna().all()
        assert failed["failure"].str.startswith("bad_request").all()
        assert failed["aud_cost"].isna().all()
        seen = server.count
        server.faults = None
        again = study.execute(progress=False)
        assert (again.succeeded, again.failed, again.judged, again.new_calls) == (6, 0, 6, 4)
        assert server.count == seen + 4
        assert study.runs()["failure"].isna().all()
        study.store.close()


def test_judges_that_cannot_be_read_are_missing_and_fewer_than_two_leave_a_run_unjudged(
    tmp_path: Path, store_folder: Path
) -> None:
    """Prose from one judge leaves two; prose from two leaves the run unjudged; nothing becomes a zero."""

    def answer(body: dict) -> str:
        if not is_judge(body):
            return f"Plan: {body['messages'][-1]['content'][-400:]}"
        if body["model"] == "primary":
            return "I would give it a five."
        if body["model"] == "secondary" and "ATT&CK" in str(body["messages"]):
            return REASONED.replace("4.0", "9.0")
        return REASONED

    with StubServer(answer=answer) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url))
        study.run(progress=False)
    runs, judgements = study.runs(), study.judgements()
    reasons = judgements.groupby("judge", observed=True)["reason"].apply(
        lambda r: {str(x).split(":")[0] for x in r}
    )
    assert reasons["primary"] == {"prose"}
    counts = set(runs["judge_count"])
    assert counts == {1, 2}
    unjudged = runs[runs["judge_count"] == 1]
    assert not unjudged["judged"].any()
    assert unjudged["composite"].isna().all()
    assert (runs[runs["judge_count"] == 2]["composite"] == 4.0).all()
    assert not (judgements["composite"] == 0).any()
    study.store.close()


def test_a_judge_that_is_down_is_filled_in_later_without_asking_the_others(
    tmp_path: Path, store_folder: Path
) -> None:
    """A judge that answers 400 is a hole; `toolkit judge` fills it and asks nothing else."""

    def faults(number: int, body: dict) -> Fault | None:
        return Fault(status=400) if body["model"] == "tertiary" else None

    with StubServer(
        faults=faults, answer=lambda body: REASONED if is_judge(body) else f"{body['messages']}"
    ) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url, bins='["S"]'))
        assert study.execute(progress=False).judged == 2
        assert set(study.runs()["judge_count"]) == {2}
        server.faults = None
        seen = server.count
        assert study.execute(progress=False, only_judge=True).new_calls == 2
        assert server.count == seen + 2
        assert set(study.runs()["judge_count"]) == {3}
        assert len(study.judgements()) == 6
        study.store.close()


def test_an_empty_reply_is_kept_and_not_judged(tmp_path: Path, store_folder: Path) -> None:
    """A reply without text was paid for and stays, but no judge is paid to look at nothing."""
    with StubServer(answer=lambda body: "") as server:
        study = Study.load(stub_study(tmp_path, server.openai_url, bins='["S"]'))
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, server.count) == (2, 0, 2)
        assert study.execute(progress=False).new_calls == 0
    assert study.runs()["composite"].isna().all()
    study.store.close()


def test_a_model_without_a_price_is_refused_before_the_first_call(tmp_path: Path, store_folder: Path) -> None:
    """Not a single request is sent when the cost cannot be counted."""
    with StubServer() as server:
        path = stub_study(tmp_path, server.openai_url)
        path.write_text(
            path.read_text().replace(", usd_per_million_input = 1.0, usd_per_million_output = 2.0", "", 1)
        )
        study = Study.load(path)
        with pytest.raises(PriceError, match="answerer"):
            study.run(progress=False)
        assert server.count == 0
        study.store.close()


def test_the_budget_stops_a_study_and_a_larger_one_resumes_it(tmp_path: Path, store_folder: Path) -> None:
    """At the cap no new call starts, the exit code is 3, and raising the cap goes on where it stopped."""
    with StubServer(answer=lambda body: REASONED if is_judge(body) else "Block it.") as server:
        path = stub_study(tmp_path, server.openai_url)
        path.write_text(path.read_text() + "[budget]\naud = 0.02\n")
        study = Study.load(path)
        outcome = study.execute(progress=False)
        assert outcome.exit_code == 3
        assert outcome.spent_aud <= 0.02
        seen = server.count
        study.store.close()
        path.write_text(path.read_text().replace("aud = 0.02", "aud = 20.0"))
        study = Study.load(path)
        assert study.execute(progress=False).judged == 6
        assert server.count > seen
        assert study.status()["runs"]["succeeded"] == 6
        study.store.close()


def test_a_killed_study_resumes_and_no_finished_run_is_asked_again(
    tmp_path: Path, store_folder: Path
) -> None:
    """SIGKILL in the middle of the runs and again in the middle of the judging: all is done once in the end."""
    concurrency = 2
    with StubServer(
        latency=0.05, answer=lambda body: REASONED if is_judge(body) else str(body["messages"])
    ) as server:
        path = stub_study(tmp_path, server.openai_url, runs=f"repeats = 4\nconcurrency = {concurrency}")
        command = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"]
        lost, store = 0, open_store(store_folder)
        calls = store.database["calls"]
        for moment in (6, 40):
            before = server.count, calls.count_documents({"state": "done"})
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(lambda moment=moment: server.count >= moment)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            server.settle()  # what had left the process arrives, at the server and in the store
            wait_for(lambda: is_heard_out(store_folder))
            lost += (server.count - before[0]) - (calls.count_documents({"state": "done"}) - before[1])
        store.close()
        study = Study.load(path)
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.failed, outcome.judged) == (24, 0, 24)
        assert study.store.database["calls"].count_documents({"state": "done"}) == 96
        assert study.store.objects(Run).count() == 24
        assert study.store.objects(Judgement).count() == 72
        # Sent and not yet kept when the process died: that alone was asked again, each once.
        assert server.count == 96 + lost
        study.store.close()


def test_two_processes_on_one_study_pay_once(tmp_path: Path, store_folder: Path) -> None:
    """Two shells run the same study at the same time; every call is sent once."""
    with StubServer(
        latency=0.02, answer=lambda body: REASONED if is_judge(body) else str(body["messages"])
    ) as server:
        path = stub_study(tmp_path, server.openai_url, runs="repeats = 2")
        command = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes", "--json"]
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        ends = [child.communicate(timeout=120) for child in children]
        assert [child.returncode for child in children] == [0, 0], ends
        assert server.count == 48
        study = Study.load(path)
        assert study.store.objects(Run).count() == 12
        assert study.store.objects(Judgement).count() == 36
        study.store.close()


def test_replay_makes_everything_again_without_a_network(tmp_path: Path, store_folder: Path) -> None:
    """With runs and judgements gone and the server off, the ledger alone gives the same scores."""
    with StubServer(answer=lambda body: REASONED if is_judge(body) else str(body["messages"])) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url))
        study.run(progress=False)
        before, said = study.runs(), study.judgements()
    for name in ("runs", "judgements", "output_blobs"):
        study.store.database[name].delete_many({})
    outcome = study.execute(progress=False, replay=True)
    assert (outcome.succeeded, outcome.judged, outcome.new_calls, outcome.exit_code) == (6, 6, 0, 0)
    new = ["run_id", "created_at"]
    assert study.runs().drop(columns=new).equals(before.drop(columns=new))
    assert study.judgements().drop(columns=new).equals(said.drop(columns=new))
    study.store.close()


def test_a_text_that_is_kept_is_not_taken_apart_again(
    tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal replies are one text, looked through once; a replay looks through those alone that are gone."""
    looked: list[str] = []

    def looking(text: str) -> dict[str, int]:
        looked.append(text)
        return {"content_length": len(text)}

    monkeypatch.setattr(records, "reply_metadata", looking)
    with StubServer() as server:  # every request is answered alike
        study = Study.load(stub_study(tmp_path, server.openai_url))
        count = study.execute(progress=False).succeeded
    assert count > 1
    assert len(looked) == study.store.objects(OutputBlob).count() == 1
    assert study.execute(progress=False, replay=True).succeeded == count
    assert len(looked) == 1
    study.store.database["output_blobs"].delete_many({})
    assert study.execute(progress=False, replay=True).succeeded == count
    assert len(looked) == 2
    assert study.store.objects(OutputBlob).count() == 1
    study.store.close()


def test_replay_leaves_alone_what_the_ledger_lacks(tmp_path: Path, store_folder: Path) -> None:
    """A study that was never asked replays to nothing, and no server is spoken to."""
    with StubServer() as server:
        study = Study.load(stub_study(tmp_path, server.openai_url))
        outcome = study.execute(progress=False, replay=True)
        assert (outcome.succeeded, outcome.failed, server.count) == (0, 0, 0)
    study.store.close()


def test_a_key_appears_nowhere(tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a server echoes in its refusal is in no document, no file of the store, no output and no traceback."""
    canary = "sk-canary-0123456789abcdef"
    monkeypatch.setenv("CANARY_KEY", canary)
    echo = Fault(status=401, body={"error": {"message": f"Incorrect API key provided: {canary}"}})
    with StubServer(
        faults=lambda number, body: echo if number > 3 else None, answer=lambda body: REASONED
    ) as server:
        path = stub_study(tmp_path, server.openai_url)
        path.write_text(
            path.read_text().replace(
                'provider = "compatible"', 'provider = "compatible", api_key_env = "CANARY_KEY"'
            )
        )
        command = [sys.executable, "-m", "toolkit.cli", "--debug", "run", str(path), "--yes"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert any(canary in value for seen in server.seen for value in seen.headers.values())
    assert done.returncode == 1
    assert "wrong_key" in done.stdout
    assert canary not in done.stdout + done.stderr
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in files)
    assert not [file for file in files if canary.encode() in file.read_bytes()]
