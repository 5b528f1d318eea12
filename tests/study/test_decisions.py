"""What was decided before the first reply is kept, and all that was changed after it is listed."""

import json
from importlib import resources
from pathlib import Path

import pytest
from cases import cases
from click.testing import CliRunner

from toolkit import Study
from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.runs.decisions import _file_digest, decided, keep_decision
from toolkit.store import embedded

pytestmark = pytest.mark.usefixtures("one_table", "store_folder")

TEXT = """
name = "held"
dataset = "demo"
bases = 3
models = [{ name = "scripted" }, { name = "other", provider = "scripted" }]
repeats = 1
seed = 7
length_bins = ["S", "M", "L"]
output = "results/held"

[sampling]
temperature = 0.2

[analysis]
primary = "M-S"
equivalence_margin = 0.3
ceiling_share = 0.3

[judges]
rubric = "default"
primary = { name = "judge-a", provider = "scripted" }
secondary = { name = "judge-b", provider = "scripted" }
tertiary = false

[bias_controls]
fsp_enabled = false
"""
DEVIATIONS, FACTS = cases(__file__).values()
TOGETHER = [name for name in DEVIATIONS if name not in ("rubric", "prompt lengths", "primary contrast")]


def load(folder, *changes):
    """Return the study with some of its deviations."""
    text = TEXT
    for name in changes:
        before, after = DEVIATIONS[name]
        assert before in text
        text = text.replace(before, after, 1)
    (folder / "held.toml").write_text(text)
    return Study.load(folder / "held.toml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the finished study, as it was decided."""
    place = tmp_path_factory.mktemp("held")
    with load(place) as study:
        study.execute(progress=False)
    yield place
    embedded.stop(place / "results" / ".store")


def test_a_clean_study_lists_nothing_and_says_so(folder, tmp_path):
    """Run twice, too."""
    with load(folder) as study:
        study.execute(progress=False)
        found = study.deviations()
        assert found.empty
        assert found.attrs["decided"] is not None
        told = Path(next(path for path in study.bundle(tmp_path) if path.name == "methods.txt")).read_text()
        assert "Nothing of it was changed after the first reply." in told
        assert (tmp_path / "deviations.csv").read_text() == "at,what,before,after\n"
        assert study.store.database["decisions"].count_documents({}) == 1


@pytest.mark.parametrize("name", DEVIATIONS)
def test_each_deviation_is_listed_before_it_is_even_run(folder, name):
    """By its name, with what was and what is."""
    with load(folder, name) as study:
        found = study.deviations()
    assert name in set(found["what"])
    assert found["at"].isna().all()
    assert (found["before"] != found["after"]).all()


def test_ten_deviations_are_all_in_the_bundle_with_their_time(folder, tmp_path):
    """After a run with all of them; those that are taken back later stay listed."""
    with load(folder, *TOGETHER) as study:
        study.execute(progress=False)
        found = study.deviations().set_index("what")
        assert set(TOGETHER) <= set(found.index)
        assert found.loc[TOGETHER, "at"].notna().all()
        assert found.loc["answered runs that count", "after"].startswith("all but ")
        study.bundle(tmp_path / "all")
    told = (tmp_path / "all" / "methods.txt").read_text()
    rows = (tmp_path / "all" / "deviations.csv").read_text()
    for name in TOGETHER:
        assert f"{name} was changed from" in told
        assert f",{name}," in rows
    with load(folder) as study:
        assert set(TOGETHER) <= set(study.deviations()["what"])
        study.store.database["decisions"].delete_many({"replied": True})


def test_a_change_before_the_first_reply_is_none(tmp_path):
    """What counts is the last decision before it."""
    with load(tmp_path) as study:
        study.execute(progress=False, limit=0)
        assert study.store.database["decisions"].count_documents({}) == 1
    with load(tmp_path, "seed", "margin of equivalence") as study:
        study.execute(progress=False, limit=2)
        assert study.deviations().empty


def test_a_reply_counts_from_the_ledger_on_and_a_failure_is_none(tmp_path):
    """A start in which all runs failed decides nothing; a reply that a kill left without a run does."""
    failing = 'provider = "scripted", planted = { level = 3.0, failures = 1.0 }'
    text = TEXT.replace('{ name = "scripted" }', f'{{ name = "scripted", {failing} }}')
    (tmp_path / "held.toml").write_text(text)
    with Study.load(tmp_path / "held.toml") as study:
        study.execute(progress=False, limit=2)
        assert set(study.runs()["status"]) == {"failed"}
    with load(tmp_path, "seed") as study:
        study.execute(progress=False, limit=2)
        assert study.deviations().empty
        study.store.database["runs"].delete_many({})
    with load(tmp_path, "seed", "repeats") as study:
        study.execute(progress=False, limit=2)
        assert set(study.deviations()["what"]) == {"repeats"}
        assert study.deviations()["at"].notna().all()


SERVED = """
name = "served"
dataset = "demo"
bases = 1
length_bins = ["S"]
output = "results/served"
[[models]]
name = "mine"
provider = "compatible"
base_url = "http://127.0.0.1:9/v1"
usd_per_million_input = 1.0
usd_per_million_output = 2.0
[[models]]
name = "local"
provider = "local"
gguf = "mine.gguf"
[[models]]
name = "scripted"
replies = ["A."]
[judges]
rubric = "mine.toml"
primary = { name = "scripted", planted = {} }
secondary = false
tertiary = false
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A study whose models are described in full, decided and not asked; its weights count as huge."""
    place = tmp_path_factory.mktemp("served")
    (place / "served.toml").write_text(SERVED)
    (place / "mine.gguf").write_text("a" * 99 + "b" * 9)
    (place / "mine.toml").write_text(
        (resources.files("toolkit.judges") / "data/default.toml").read_text("utf-8")
    )
    with Study.load(place / "served.toml") as study:
        keep_decision(study.plan, study.store)
    yield place
    embedded.stop(place / "results" / ".store")


@pytest.mark.parametrize("whole", [50, pytest.param(1_000_000_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", FACTS)
def test_what_answers_and_how_judges_are_asked_is_decided_too(served, name, whole, monkeypatch):
    """Not its name alone; a huge file of weights is read in pieces, and one that is not here is no change."""
    monkeypatch.setattr("toolkit.runs.decisions._WHOLE", whole)
    monkeypatch.setattr("toolkit.runs.decisions._PIECE", 2)
    _file_digest.cache_clear()
    file, before, after = FACTS[name]
    text = (served / file).read_text()
    assert before in text
    with Study.load(served / "served.toml") as study:
        study.store.database["decisions"].delete_many({})
        keep_decision(study.plan, study.store)
        assert study.deviations().empty
        (served / file).write_text(text.replace(before, after, 1))
        _file_digest.cache_clear()
    try:
        with Study.load(served / "served.toml") as study:
            assert name in set(study.deviations()["what"])
            content = json.dumps(decided(study.plan))
            assert "canary" not in content
            assert str(served) not in content
    finally:
        (served / file).write_text(text)
        _file_digest.cache_clear()
    (served / "mine.gguf").rename(served / "elsewhere.gguf")
    try:
        with Study.load(served / "served.toml") as study:
            assert study.deviations().empty
    finally:
        (served / "elsewhere.gguf").rename(served / "mine.gguf")


def test_a_change_that_is_taken_back_is_two_changes(tmp_path):
    """Before the first reply as well, where the last decision counts and not the newest text."""
    for name in ("", "margin of equivalence", ""):
        with load(tmp_path, *filter(None, [name])) as study:
            study.execute(progress=False, limit=0)
    for name in ("", "margin of equivalence", "", "margin of equivalence"):
        with load(tmp_path, *filter(None, [name])) as study:
            study.execute(progress=False, limit=1)
            changes = study.deviations()
    there, back = ("margin of equivalence", "0.3", "0.5"), ("margin of equivalence", "0.5", "0.3")
    assert [*changes.drop(columns="at").itertuples(index=False, name=None)] == [there, back, there]
    assert changes["at"].is_monotonic_increasing


def test_runs_that_do_not_count_are_listed_with_the_rule_that_leaves_them_out(tmp_path):
    """Rules that were decided are no change; replies that another study has paid for are named with it."""
    text = TEXT.replace('{ name = "scripted" }', '{ name = "scripted", replies = ["", "A."] }').replace(
        'provider = "scripted" }]', 'provider = "scripted", planted = { failures = 1.0 } }]'
    )
    (tmp_path / "held.toml").write_text(text)
    with Study.load(tmp_path / "held.toml") as study:
        study.execute(progress=False)
        changes = study.deviations().set_index("what")["after"]
        runs = study.runs()
        empty, failed = (runs["defect"] == "empty").sum(), (runs["status"] == "failed").sum()
        assert empty > 0 < failed
        assert (
            changes["empty replies"]
            == f"{empty} runs ({empty} of scripted) left out by replies.empty = exclude"
        )
        assert changes["failed runs"].startswith(f"{failed} runs ({failed} of other) left out")
        told = next(
            path for path in study.bundle(tmp_path / "bundle") if path.name == "methods.txt"
        ).read_text()
        told = " ".join(told.split())
        assert "Nothing of it was changed after the first reply." in told
        assert "left out by replies.empty = exclude" in told
    (tmp_path / "second.toml").write_text(text.replace('name = "held"', 'name = "second"', 1))
    with Study.load(tmp_path / "second.toml") as study:
        study.execute(progress=False, limit=1)
        changes = study.deviations().set_index("what")["after"]
        assert "9 replies of 18 paid for by study held" in changes["replies of another study"]


def test_the_plan_is_one_page_with_its_hash_and_power(folder, tmp_path):
    """Before anything was asked it says so; after it, when it was kept and what was changed."""
    (tmp_path / "held.toml").write_text(TEXT)
    plan = ["--plan", str(tmp_path / "fresh.md"), "--json"]
    fresh = CliRunner().invoke(cli, ["estimate", str(tmp_path / "held.toml"), *plan], standalone_mode=False)
    told = json.loads(fresh.output)
    page = Path(told["path"]).read_text()
    assert "before any model was asked" in page
    assert "One confirmatory contrast: M−S" in page
    assert "±0.3 score points" in page
    assert "3 bases" in page
    assert ("SOC incident" in page, "CTI analysis" in page) == (True, False)  # of the bases that are asked
    assert "has no scores; a pilot with some is given by --pilot" in page
    assert len(page.splitlines()) < 60
    pilot = ["--pilot", str(folder / "held.toml"), "--plan", str(tmp_path / "plan.md")]
    load(folder, "margin of equivalence")
    done = CliRunner().invoke(
        cli, ["estimate", str(folder / "held.toml"), *pilot, "--json"], standalone_mode=False
    )
    again = json.loads(done.output)
    page = (tmp_path / "plan.md").read_text()
    assert again["sha256"] == told["sha256"]
    assert "before the first reply" in page
    assert "margin of equivalence was changed from 0.3 to 0.5" in page
    assert "±0.3 score points" in page  # as it was decided
    assert "From the runs of held, M−S" in page
    (tmp_path / "plan.md").write_text("A page of somebody.")
    with pytest.raises(InputError, match=r"plan\.md: is there, and none of this kind"):
        CliRunner().invoke(cli, ["estimate", str(folder / "held.toml"), *pilot], catch_exceptions=False)
    assert (tmp_path / "plan.md").read_text() == "A page of somebody."


def test_no_key_and_no_path_is_kept(folder, monkeypatch):
    """Whatever is in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-decisions")
    with load(folder) as study:
        content = json.dumps(decided(study.plan))
        kept = json.dumps([one["content"] for one in study.store.database["decisions"].find()])
    for text in (content, kept):
        assert "canary" not in text
        assert str(folder) not in text
