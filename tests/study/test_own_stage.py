"""A stage of one's own is one file: a judge sums up each reply, and everything that a study pays for knows it."""

import json
import os
import signal

import pytest
from stub_server import StubServer
from stub_study import is_judge, plain, stub_study

from toolkit.audit.verify import verify_study
from toolkit.judges.judgement import judgement_of
from toolkit.judges.parse import Parsed, Unreadable
from toolkit.judges.request import ask_and_read
from toolkit.models.base import Message
from toolkit.runs.instruments import STAGES
from toolkit.runs.stages import Stage, Task
from toolkit.study import Study

WORDS = "Sum up this reply to a question in one sentence of at most thirty words.\n\n"


def tasks(plan, store):
    """The primary judge sums up every reply."""
    for run in plan.runs:
        yield Task(plan.judges["primary"].of_run(run.repeat), (run.key,))


def requests(plan, task, texts):
    """One request, which shows the reply alone."""
    return [task.judge.request((Message("user", WORDS + texts[0]),))]


def read(text, finish_reason):
    """Read one sentence."""
    if not 0 < len(text.split()) <= 30:
        raise Unreadable("not a summary", f"{len(text.split())} words")
    return Parsed({}, detail={"summary": text})


async def work(plan, task, texts, ask):
    """Ask the judge, once more where its summary is too long."""
    reply = await ask_and_read(requests(plan, task, texts)[0], read, ask)
    return judgement_of(task.judge, reply, "summaries", "1", task.related)


SUMMARIES = Stage("summaries", tasks, requests, work)


@pytest.fixture
def known():
    """Studies know the stage."""
    STAGES.append(SUMMARIES)
    yield
    STAGES.remove(SUMMARIES)


def answer(body):
    """Answer as a model, as a judge who scores, or as one who sums up."""
    sums_up = is_judge(body) and body["messages"][0]["content"].startswith(WORDS)
    return "It says what to do." if sums_up else plain(body)


def test_a_stage_of_ones_own_is_estimated_capped_asked_resumed_counted_verified_and_exported(
    tmp_path, known, store_folder, toolkit
):
    """Six replies, three judges and six summaries: 30 calls, each paid once, whatever comes between."""
    with StubServer(answer=answer) as server:
        path = stub_study(tmp_path, server.openai_url, runs="concurrency = 1")
        study = Study.load(path)
        rows = study.estimate().set_index("who")
        assert [*rows["calls"]] == [6, 12, 6, 6]
        path = stub_study(
            tmp_path,
            server.openai_url,
            runs="concurrency = 1",
            more=f"[budget]\naud = {rows['worst_aud'].sum() / 20:.4f}",
        )
        assert Study.load(path).execute(progress=False).exit_code == 3
        assert Study.load(path).status()["stages"]["summaries"]["missing"] > 0

        def stop_at_27(body):
            if server.count == 27:
                os.kill(os.getpid(), signal.SIGINT)
            return answer(body)

        server.answer = stop_at_27
        path = stub_study(tmp_path, server.openai_url, runs="concurrency = 1")
        with pytest.raises(KeyboardInterrupt):
            Study.load(path).execute(progress=False)
        study = Study.load(path)
        assert 0 < study.status()["stages"]["summaries"]["answered"] < 6
        study.execute(progress=False)
        assert server.count == 30
        counts = {"planned": 6, "answered": 6, "read": 6, "missing": 0, "left_out": 0, "unread": {}}
        assert study.status()["stages"]["summaries"] == counts
        assert verify_study(study).fields["differences"] == []
        annotations = study.store.database["annotations"]
        changed = annotations.find_one({"kind": "summaries"})
        annotations.update_one({"_id": changed["_id"]}, {"$set": {"detail.summary": "It says nothing."}})
        (line,) = verify_study(study).fields["differences"]
        assert line.startswith("summaries of primary on ")
        assert "detail differ" in line
        study.execute(progress=False, replay=True)
        assert (verify_study(study).fields["differences"], server.count) == ([], 30)
        toolkit("export", path, tmp_path / "out")
        records = map(json.loads, (tmp_path / "out" / "annotations.jsonl").read_text().splitlines())
        exported = [record["detail"] for record in records if record["kind"] == "summaries"]
        assert exported == [{"summary": "It says what to do."}] * 6
        study.close()
