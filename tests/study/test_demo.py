"""The demo within its time: the planted study first, then whole bases of the other; the same command goes on."""

import pytest
from places import PLANTED
from small_study import STUDY

from toolkit import batch
from toolkit.getting_started import demo
from toolkit.getting_started.demo import run_demo
from toolkit.study import Study


@pytest.fixture
def home(tmp_path, monkeypatch, no_pictures, store_folder):
    """A workspace whose demo asks scripted models; its notebooks are not run."""
    templates = tmp_path / "templates"
    templates.mkdir()
    text = STUDY.format(settings="bases = 5", judges="").replace('scenarios = ["CTI_ANALYSIS"]\n', "")
    (templates / "demo.toml").write_text(text.replace('"results/', '"../results/'))
    planted = PLANTED.read_text().replace("bases = 36", "bases = 3").replace("repeats = 2", "repeats = 1")
    (templates / "planted.toml").write_text(planted)
    monkeypatch.setattr(demo, "workspace", lambda: tmp_path)
    monkeypatch.setattr(batch, "run_templates", lambda given: [target for _, target, _ in given])
    return tmp_path


@pytest.fixture
def passing(monkeypatch):
    """A clock by which each new call of the demo study takes so many seconds; set the first to make it slow."""
    seconds, now, execute = [10.0], [0.0], Study.execute

    def slowly(study, **settings):
        outcome = execute(study, **settings)
        if study.name != "planted":
            now[0] += seconds[0] * outcome.new_calls
        return outcome

    monkeypatch.setattr(Study, "execute", slowly)
    monkeypatch.setattr(demo, "monotonic", lambda: now[0])
    return seconds


def whole_bases(home):
    """Return how many bases of the demo are asked and judged, and see that nothing else is."""
    with Study.load(home / "templates" / "demo.toml") as study:
        runs = study.runs()
        sizes = runs.groupby("base").size()
        assert set(sizes) == {3}
        assert runs["judged"].all()
        assert (study.status()["abandoned"], study.status()["unsure_calls"]) == (0, 0)
    return len(sizes)


@pytest.fixture
def _undrawn(monkeypatch):
    monkeypatch.setattr(Study, "figures", lambda study: [])


@pytest.mark.usefixtures("_undrawn")
def test_the_time_is_kept_with_whole_bases_and_the_same_command_goes_on(home, passing, capsys):
    """A base is three runs and nine judgements, 120 seconds: two fit into five minutes; then the machine is quick."""
    first = run_demo(progress=False)
    said = capsys.readouterr().err
    assert said.index("M-S: planted 0.30, found") < said.index("study small, a real model: 15 runs")
    assert (first.fields["asked"], first.fields["planned"], whole_bases(home)) == (6, 15, 2)
    assert "6 of 15 runs; the same command goes on" in first.text
    assert first.exit_code == 0
    assert run_demo(progress=False).fields["asked"] == 12
    assert whole_bases(home) == 4
    passing[0] = 0.0
    last = run_demo(progress=False)
    assert (last.fields["asked"], last.fields["new_calls"], whole_bases(home)) == (15, 12, 5)
    assert "15 of 15 runs\n" in last.text
    assert run_demo(progress=False).fields["new_calls"] == 0


def test_one_base_is_asked_however_short_the_time_is_and_drawn(home, passing):
    passing[0] = 1000.0
    summary = run_demo(minutes=0.01, progress=False)
    assert summary.fields["asked"] == 3
    assert any(name.endswith("quality_by_length.png") for name in summary.fields["files"])
    assert whole_bases(home) == 1


@pytest.mark.usefixtures("_undrawn")
def test_replies_of_a_study_that_was_stopped_are_judged_first(home, passing):
    """Seven replies without judgements: the first base has its nine judgements, and no more fits into the time."""
    path = home / "templates" / "demo.toml"
    with Study.load(path) as study:
        study.execute(progress=False, limit=7)
        study.store.database["annotations"].delete_many({})
        study.store.database["calls"].delete_many({"purpose": "judge"})
        unset = {"$unset": dict.fromkeys(("ensemble_key", "judge_calls", "judged"), "")}
        study.store.database["runs"].update_many({}, unset)
    summary = run_demo(minutes=1, progress=False)
    assert (summary.fields["asked"], summary.fields["new_calls"]) == (3, 9)
