"""A study is what its ledger gives, or every difference is a line: records, texts, figures and the bundle."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from stub_server import Fault
from stub_study import is_judge, stub_study

from toolkit.audit.verify import verify_study
from toolkit.errors import InputError
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.usefixtures("no_pictures")

FAILING = """
name = "failing"
bases = 4
repeats = 2
models = [{ name = "m", provider = "scripted", planted = { level = 3.0, failures = 0.1 } }]
output = "results/failing"
[judges]
primary = { name = "one", provider = "scripted", planted = {} }
secondary = { name = "two", provider = "scripted", planted = { failures = 0.4 } }
tertiary = false
"""


@pytest.fixture
def finished(study_file, one_table):
    """A finished study of six runs and eighteen judgements, whose figures are one small table."""
    study = Study.load(study_file())
    study.execute(progress=False)
    return study


def test_a_finished_study_is_what_its_ledger_gives_and_stays_as_it_is(finished, toolkit):
    """Exit code 0, one line, and nothing was written."""
    finished.figures()
    before = records(finished)
    code, said, _ = toolkit("verify", finished.path, "--json")
    expected = {"runs": 6, "judgements": 18, "files": 1, "differences": []}
    assert code == 0
    assert expected.items() <= json.loads(said).items()
    assert records(finished) == before


def test_a_replay_restores_a_text_that_was_changed_and_one_that_was_deleted(finished):
    """Verify names both; a run whose text is gone says how to get it back."""
    texts, runs = (finished.store.database[name] for name in ("output_blobs", "runs"))
    before = list(texts.find().sort("blob_id"))
    first, second = finished.runs()["run_id"][:2]
    changed, deleted = (runs.find_one({"run_id": run})["output_blob_id"] for run in (first, second))
    texts.update_one({"blob_id": changed}, {"$set": {"content": "Edited."}})
    texts.delete_one({"blob_id": deleted})
    assert len(verify_study(finished).fields["differences"]) == 2
    with pytest.raises(
        InputError, match=rf"^run {second}: has no reply \(its text is not in the store; .*--replay"
    ):
        finished.reply(second)
    finished.execute(progress=False, replay=True)
    assert verify_study(finished).fields["differences"] == []
    assert [text["content"] for text in texts.find().sort("blob_id")] == [text["content"] for text in before]


def test_figures_and_bundle_that_are_not_of_this_study_are_named(study_file):
    """An edited figure, a leftover, an edited bundle, and a study file that was changed since."""
    finished = Study.load(study_file())
    finished.execute(progress=False)
    finished.figures()
    finished.bundle()
    assert verify_study(finished).fields["differences"] == []
    output = finished.output
    (output / "figures" / "cost_quality.csv").write_text("5,5,5")
    (output / "figures" / "old.pdf").write_bytes(b"")
    (output / "bundle" / "methods.txt").write_text("We asked everybody.")
    finished.path.write_text(finished.path.read_text() + "\n# a thought\n")
    summary = verify_study(finished)
    assert summary.exit_code == 1
    assert summary.fields["differences"] == [
        "figures/cost_quality.csv: differs from what the study gives now",
        "figures/old.pdf: the study does not give it now",
        "bundle/methods.txt: was changed after the bundle was written",
        "bundle/manifest.json: made from another study file",
    ]


def test_a_run_that_failed_or_was_never_asked_is_no_difference(study_file):
    """What has no reply in the ledger cannot be made again; three runs are there, and one of them failed."""
    study = Study.load(study_file())
    study.execute(progress=False, limit=3)
    runs = study.store.database["runs"]
    failed = runs.find_one({})
    study.store.database["calls"].delete_one({"_id": failed["call_id"]})
    gone = dict.fromkeys(("judge_calls", "output_blob_id", "judged_blob_id", "judged"), "")
    runs.update_one(
        {"_id": failed["_id"]}, {"$set": {"status": "failed", "failure": "timeout"}, "$unset": gone}
    )
    summary = verify_study(study)
    assert summary.fields["differences"] == []
    assert summary.text.endswith("3 runs and 9 judgements, no figures there: all as the ledger gives")


def test_nothing_run_and_nothing_named_are_one_clear_line(study_file, toolkit):
    """Bad input is exit code 2."""
    for arguments, said in (
        ([study_file()], "there is nothing to verify; run it first"),
        ([], "Missing argument 'STUDY|FOLDER'"),
        ([study_file().parent], "holds no manifest.json; name a study file"),
    ):
        code, _, err = toolkit("verify", *arguments)
        assert (code, said in err) == (2, True)


@dataclass
class Judges:
    """A stub's answers: replies of their own or all the same, scores of seventeen digits; ``at`` calls of judges."""

    same: bool = False
    at: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    count: int = 0

    def __call__(self, body):
        """Answer, and do what is to be done at this call of a judge."""
        if not is_judge(body):
            return "Block it." if self.same else str(body["messages"])
        self.count += 1
        self.at.get(self.count, int)()
        drawn = random.Random(str(body["messages"]))
        scores = {name: drawn.randrange(11) / 2 for name in DIMENSIONS}
        return json.dumps(scores | ({"reasons": ""} if '"reasons"' in str(body["messages"]) else {}))


def press():
    os.kill(os.getpid(), signal.SIGINT)


def records(study):
    """Return the documents of a study as they are, moments of change too."""
    names = ("calls", "runs", "annotations")
    return {name: list(study.store.database[name].find(sort=[("_id", 1)])) for name in names}


@pytest.mark.parametrize(
    ("at", "same", "more"),
    [
        ({5: press}, False, ""),
        ({5: press}, True, ""),
        ({}, False, "[budget]\naud = 0.03\nconfirm_above_aud = 9.0"),
    ],
    ids=["Ctrl-C", "Ctrl-C, equal replies", "cap"],
)
def test_a_study_that_was_stopped_is_what_its_ledger_gives_then_and_at_its_end(
    server, tmp_path, store_folder, at, more, same
):
    """Who was not asked has not failed, what is there stays as it is, and the end has nothing that differs."""
    judges = Judges(same, at)
    server.answer, server.latency = judges, 0.05
    settings = {"runs": "repeats = 2\nconcurrency = 4", "judges": 'rubric = "seed-v1"'}
    path = stub_study(tmp_path, server.openai_url, more=more, **settings)
    with Study.load(path) as study:
        if at:
            with pytest.raises(KeyboardInterrupt):
                study.execute(progress=False)
        else:
            assert study.execute(progress=False).budget
        status = study.status()
        assert 0 < status["judgements"]["done"] < status["judgements"]["planned"]
        assert status["judgement_failures"] == {}
        assert study.store.database["annotations"].count_documents({"failed": True}) == 0
        assert not study.judgements()["failed"].any()
        before = records(study)
        assert verify_study(study).fields["differences"] == []
        judgement, judgements = before["annotations"][0], study.store.database["annotations"]
        key = {"_id": judgement["_id"]}
        judgements.update_one(key, {"$set": {"composite": 0.5}})
        assert any("composite differ" in line for line in verify_study(study).fields["differences"])
        judgements.replace_one(key, judgement)
    judges.at = {}
    path.write_text(path.read_text().replace("aud = 0.03", "aud = 9.0"))
    with Study.load(path) as study:
        assert study.execute(progress=False).judged == 12
        after = {one["_id"]: one for one in records(study)["annotations"]}
        assert [after[one["_id"]] for one in before["annotations"]] == before["annotations"]
        assert verify_study(study).fields["differences"] == []


def test_nothing_that_is_so_already_is_written_again(study_file):
    """A judge that fails is asked at each start; what others said stays as it is, to the moment of its change."""
    path = study_file()
    path.write_text(FAILING)
    with Study.load(path) as study:
        study.execute(progress=False)
        assert study.store.database["annotations"].count_documents({"answered": False})
        before = records(study)
        for replay in (False, True):
            study.run(progress=False, replay=replay)
            assert records(study) | {"calls": before["calls"]} == before
        assert verify_study(study).fields["differences"] == []


def test_what_a_provider_refused_or_was_away_for_is_no_difference(server, tmp_path, store_folder):
    """One judge has no key that is taken: one call of it is refused, the others are not sent."""

    def fault(number, body):
        return Fault(status=401) if body["model"] == "tertiary" else None

    server.answer, server.faults = Judges(), fault
    path = stub_study(tmp_path, server.openai_url, runs="repeats = 2")
    with Study.load(path) as study:
        study.execute(progress=False)
        assert set(study.status()["judgement_failures"]) == {"wrong_key"}
        assert verify_study(study).fields["differences"] == []
        runs = study.store.database["runs"]
        run = runs.find_one()
        for field in ("judged", "ensemble_evaluation.aggregated.judge_count", "scores.clarity"):
            runs.update_one({"_id": run["_id"]}, {"$set": {field: 9}})
            assert len(verify_study(study).fields["differences"]) == 1
            runs.replace_one({"_id": run["_id"]}, run)
