"""A study is what its ledger gives, or every difference is a line: records, texts, figures and the bundle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolkit.analyses import Analyses
from toolkit.cli import main
from toolkit.errors import InputError
from toolkit.export import export_study
from toolkit.files import write_atomically
from toolkit.report import registry
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.verify import verify_study

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
def finished(study_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """A finished study of six runs and eighteen judgements, whose figures are one small table."""

    def figures(of: Analyses, about: object, folder: Path, only: object = ()) -> list[Path]:
        scores = ",".join(str(score) for score in of.runs["composite_strict"])
        return [write_atomically(folder / "figures" / "scores.csv", scores.encode())]

    monkeypatch.setattr(registry, "write_figures", figures)
    monkeypatch.setattr(registry, "write_statistics", lambda *given: [])
    study = Study.load(study_file())
    study.execute(progress=False)
    yield study
    study.store.close()


def test_a_finished_study_is_what_its_ledger_gives_and_stays_as_it_is(
    finished: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0, one line, and nothing was written."""
    finished.figures()
    before = {name: list(finished.store.database[name].find()) for name in ("calls", "runs", "judgements")}
    with pytest.raises(SystemExit) as end:
        main(["verify", str(finished.path), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert end.value.code == 0
    assert (said["runs"], said["judgements"], said["files"]) == (6, 18, 1)
    assert said["differences"] == []
    assert {name: list(finished.store.database[name].find()) for name in before} == before


def test_what_was_changed_behind_its_back_is_named(finished: Study) -> None:
    """A run, an aggregate, a judgement, and the text of a reply, one after the other."""
    changes = [
        ("runs", {"scores": {"composite": 5.0}}, r"run of .* by scripted, repeat 0: scores differ"),
        ("runs", {"judged": False}, r"run of .*: judged differ from what the ledger gives"),
        ("runs", {"status": "failed", "failure": "none"}, r"run of .*: failure, status differ"),
        ("judgements", {"composite": 0.5}, r"judgement by \w+ of run of .*: composite differ"),
        ("output_blobs", {"content": "I know."}, r"reply of run \w+: its text was changed"),
    ]
    for collection, change, said in changes:
        documents = finished.store.database[collection]
        found = documents.find_one({}, sort=[("_id", 1)])
        documents.update_one({"_id": found["_id"]}, {"$set": change})
        summary = verify_study(finished)
        assert summary.exit_code == 1
        (line,) = summary.fields["differences"]
        assert re.match(said, line)
        documents.replace_one({"_id": found["_id"]}, found)


def test_a_call_that_the_ledger_lost_and_a_run_that_the_store_lost_are_named(finished: Study) -> None:
    """Each in its own words; what depends on a lost reply is not given either."""
    database = finished.store.database
    run = database["runs"].find_one({}, sort=[("prompt_id", 1)])
    database["runs"].delete_one({"_id": run["_id"]})
    other = database["runs"].find_one({}, sort=[("prompt_id", 1)])
    database["calls"].delete_one({"_id": other["call_id"]})
    found = verify_study(finished).fields["differences"]
    assert f"run of {run['prompt_id']} by scripted, repeat 0: is missing, and the ledger gives it" in found
    assert f"run of {other['prompt_id']} by scripted, repeat 0: the ledger does not give it" in found


def test_figures_and_bundle_that_are_not_of_this_study_are_named(finished: Study) -> None:
    """An edited figure, a leftover, an edited bundle, and a study file that was changed since."""
    finished.figures()
    finished.bundle()
    assert verify_study(finished).fields["differences"] == []
    output = finished.output
    (output / "figures" / "scores.csv").write_text("5,5,5")
    (output / "figures" / "old.pdf").write_bytes(b"")
    (output / "bundle" / "methods.txt").write_text("We asked everybody.")
    finished.path.write_text(finished.path.read_text() + "\n# a thought\n")
    summary = verify_study(finished)
    assert summary.exit_code == 1
    assert summary.fields["differences"] == [
        "figures/old.pdf: the study does not give it now",
        "figures/scores.csv: differs from what the study gives now",
        "bundle/methods.txt: was changed after the bundle was written",
        "bundle/manifest.json: made from another study file",
    ]


def test_an_export_of_another_commit_is_held_by_its_records(
    finished: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit that went on is no difference, another state of the study is one, and no export an error."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("toolkit.report.manifest.toolkit_commit", lambda: "another")
        export_study(finished, out)
    assert verify_study(finished, out).fields["differences"] == []
    finished.store.database["judgements"].delete_many({"judge": "tertiary"})
    finished.run(progress=False, replay=True)  # the judgements are another record of the same
    told = verify_study(finished, out).fields["differences"]
    assert told == [
        f"out/{name}: is not what the study gives now" for name in ("archive.zip", "judgements.csv")
    ]
    with pytest.raises(InputError, match=r"holds no sha256sums.txt"):
        verify_study(finished, tmp_path)


def test_a_run_that_failed_or_was_never_asked_is_no_difference(study_file: Callable[..., Path]) -> None:
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
    study.store.close()
    assert summary.fields["differences"] == []
    assert summary.text.endswith("3 runs and 6 judgements, no figures there: all as the ledger gives")


def test_a_judge_that_failed_is_no_difference_and_keeps_its_reason(tmp_path: Path) -> None:
    """The ledger has the failed call, so a replay gives the same reason and overwrites none."""
    (tmp_path / "failing.toml").write_text(FAILING)
    with Study.load(tmp_path / "failing.toml") as study:
        try:
            study.execute(progress=False)
            before = study.judgements()["failure"].dropna()
            assert len(before) > 3
            assert before.str.startswith("planted_failure: ").all()
            assert verify_study(study).fields["differences"] == []
            study.execute(progress=False, replay=True)
            assert study.judgements()["failure"].dropna().tolist() == before.tolist()
        finally:
            embedded.stop(study.plan.store_folder)


def test_nothing_run_and_nothing_named_are_one_clear_line(
    study_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input is exit code 2."""
    for arguments, said in (
        ([str(study_file())], "there is nothing to verify; run it first"),
        ([], "Missing argument 'STUDY'"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["verify", *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err
