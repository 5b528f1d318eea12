"""Batch mode: half the price, one batch for each model, resumed by the next process, and nothing paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from processes import FORKS, kill
from stub_server import StubServer
from stub_study import batch_study, plain
from waiting import is_heard_out, wait_for

from toolkit import pipeline
from toolkit.runs.batches import BatchDesk
from toolkit.store.documents import Call
from toolkit.study import Study


@pytest.fixture(autouse=True)
def _keyed_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_KEY", "sk-batch-of-a-test")
    monkeypatch.setattr(pipeline, "BatchDesk", partial(BatchDesk, quiet_seconds=0.4))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_study_in_batches_costs_half_and_asks_nothing_singly(
    tmp_path: Path, store_folder: Path, provider: str
) -> None:
    """Six runs in one batch, eighteen judgements in one for each judge, at half the tokens' price."""
    with StubServer(answer=plain) as server:
        study = Study.load(batch_study(tmp_path, server, provider=provider))
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, outcome.new_calls, outcome.failed) == (6, 6, 24, 0)
        assert (server.count, len(server.batches)) == (0, 4)
        rate = 1.5444 / 1e6
        assert outcome.spent_aud == pytest.approx((server.input_tokens + 2 * server.output_tokens) * rate / 2)
        assert [call.attempts[0]["batch"] for call in study.store.objects(Call)] == [True] * 24
        assert study.execute(progress=False).new_calls == 0
        assert len(server.batches) == 4
        study.store.close()


def test_what_a_batch_does_not_answer_is_asked_singly(tmp_path: Path, store_folder: Path) -> None:
    """Every third line fails, is missing or expires: those calls alone are sent singly, at the full price."""
    lines: list[str] = []

    def fault(custom_id: str) -> str | None:
        lines.append(custom_id)
        return (None, "error", "missing", "expired")[len(lines) % 4]

    with StubServer(answer=plain, batch_fault=fault) as server:
        study = Study.load(batch_study(tmp_path, server, provider="openai"))
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, outcome.failed) == (6, 6, 0)
        assert server.count == 18
        calls = list(study.store.objects(Call))
        assert sorted(len(call.attempts) for call in calls) == [1] * 6 + [2] * 18
        assert all("batch" not in call.attempts[-1] for call in calls if len(call.attempts) == 2)
        study.store.close()


def gather(study: Study) -> None:
    """Run a study whose batches wait for further calls for ever."""
    os.environ["BATCH_KEY"] = "sk-batch-of-a-test"
    pipeline.BatchDesk = partial(BatchDesk, quiet_seconds=1e9)
    study.execute(progress=False)


def test_a_process_killed_before_its_batch_was_submitted_may_have_been_billed_nothing(
    tmp_path: Path, store_folder: Path
) -> None:
    """All calls are claimed and none has left the process: nothing is unsure, and the next one asks them all."""
    with StubServer(answer=plain) as server:
        study = Study.load(batch_study(tmp_path, server, provider="openai", settings="budget.aud = 5.0"))
        process = FORKS.Process(target=gather, args=(Study(study.file, study.path),))
        process.start()
        calls = study.store.database["calls"]
        wait_for(lambda: calls.count_documents({"state": "claimed"}) == 6 or not process.is_alive())
        kill(process)
        assert (server.batch_requests, server.count) == (0, 0)
        wait_for(lambda: is_heard_out(store_folder))
        status = study.status()
        assert (status["unsure_calls"], status["unsure_aud"], status["spent_aud"]) == (0, 0.0, 0.0)
        assert status["budget_left_aud"] == 5.0
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, server.count, len(server.batches)) == (6, 6, 0, 4)
        assert study.status()["unsure_calls"] == 0
        study.store.close()


@pytest.mark.parametrize(
    ("provider", "sent", "code"),
    [
        pytest.param("openai", signal.SIGKILL, -9, marks=pytest.mark.full),
        ("anthropic", signal.SIGKILL, -9),
        ("openai", signal.SIGINT, 130),
    ],
)
def test_a_process_that_ends_leaves_its_batch_to_the_next(
    tmp_path: Path, store_folder: Path, provider: str, sent: signal.Signals, code: int
) -> None:
    """Killed or stopped while it waits: the next process polls the same batch, and nothing is sent twice."""
    with StubServer(answer=plain, batch_polls=10**9) as server:
        path = batch_study(tmp_path, server, provider=provider)
        command = [sys.executable, "-m", "toolkit.cli", "run", str(path), "--yes"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: server.batch_requests >= 6)
            os.kill(child.pid, sent)
            assert child.wait(120) == code
        finally:
            child.kill()
        assert len(server.batches) == 1
        server.batch_polls = 1
        study = Study.load(path)
        assert study.status()["runs"]["failed"] == 0
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, server.count, len(server.batches)) == (6, 6, 0, 4)
        runs = study.store.objects(Call).filter(purpose="run")
        assert [len(call.attempts) for call in runs] == [1] * 6
        assert not any(call.unsure_aud for call in runs)
        study.store.close()
