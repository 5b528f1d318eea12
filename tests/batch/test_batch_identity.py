"""What makes it another notebook: template, parameters, code, data, and for one that only shows it what is stored."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import nbformat
import pytest
from notebook_files import write_notebook

import toolkit
from toolkit.batch import run_batch
from toolkit.batch.plan import plan_batch
from toolkit.errors import InputError, StoreError
from toolkit.runs.provenance import store_digest
from toolkit.store.documents import Annotation, Call, HumanRating, Run
from toolkit.store.writer import utc_now
from toolkit.study import Study


def reading(path, said=None, first="study = ''"):
    """Write a template that says that it reads the store, or something else."""
    write_notebook(path, first, "print(study)")
    notebook = nbformat.read(path, 4)
    notebook.metadata["toolkit"] = {"reads": "store"} if said is None else said
    nbformat.write(notebook, path)
    return path


def identity_of(template, study):
    (cell,) = plan_batch(template, [{"study": study.name}], study.parent, "grid").cells
    return cell.record


def test_more_runs_make_it_another_notebook_and_a_second_run_of_a_finished_study_does_not(
    tmp_path, study_file
):
    """Nothing is stored, one run, all runs: three; run again without a call: the last. A writing one stays the same."""
    shows, asks = reading(tmp_path / "shows.ipynb"), write_notebook(tmp_path / "asks.ipynb", "study = ''")
    path = study_file()
    seen, same = [identity_of(shows, path)], identity_of(asks, path)
    assert not (tmp_path / "results").exists()
    study = Study.load(path)
    for limit in (1, None, None):
        study.execute(progress=False, limit=limit)
        study.status()
        seen.append(identity_of(shows, path))
    assert (len({*seen}), seen[3]) == (3, seen[2])
    assert identity_of(asks, path) == same


def _insert(store, kind):
    store.database[kind._meta["collection"]].insert_one({"_id": "1", "study": "s", "state": "claimed"})


def test_every_kind_of_document_counts_and_a_clock_set_back_hides_none(store):
    """A run, its change at an earlier time, a judgement, a rating; documents of another study do not count."""
    folder = store.folder
    seen = [store_digest("s", folder)]
    assert seen[0] == store_digest("s", folder / "none")
    runs, moment, hour = store.database["runs"], utc_now(), timedelta(hours=1)
    changes = [
        lambda: runs.insert_one({"study": "s", "call_id": "a", "updated_at": moment}),
        lambda: runs.insert_one({"study": "s", "call_id": "b", "updated_at": moment - 2 * hour}),
        lambda: runs.update_one({"call_id": "b"}, {"$set": {"updated_at": moment - hour}}),
        *(partial(_insert, store, kind) for kind in (Annotation, HumanRating, Call)),
    ]
    for change in changes:
        change()
        seen.append(store_digest("s", folder))
    assert len(set(seen)) == len(seen)
    store.database[Run._meta["collection"]].insert_one({"study": "other", "call_id": "x"})
    assert store_digest("s", folder) == seen[-1]


def test_a_store_that_does_not_answer_stops_the_batch_before_it_begins(tmp_path, study_file, monkeypatch):
    """Nobody knows what it holds: neither old figures nor a wrong "done"."""

    def no_answer(folder):
        raise StoreError("no answer")

    monkeypatch.setattr("toolkit.runs.provenance.open_store", no_answer)
    template, cell = reading(tmp_path / "t.ipynb"), {"study": str(study_file())}
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=200")
    with pytest.raises(StoreError, match="no answer"):
        run_batch(template, {"list": [cell]}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("said", ["store", {"reads": "shop"}, {"read": "store"}, {"reads": "store", "x": 1}])
def test_metadata_that_nobody_understands_is_refused(tmp_path, said):
    """A slip would leave the notebook stale in silence."""
    with pytest.raises(InputError, match=r'the metadata `toolkit` .* may be \{"reads": "store"\}'):
        plan_batch(reading(tmp_path / "t.ipynb", said), [{}], tmp_path, "grid")


OWN_KEYS = """
name = "one"
test = "one_shot"
models = [{ name = "scripted" }]
options = { questions = "own.toml", only = ["plain_gets_host"] }
judges = { primary = false, secondary = false, tertiary = false }
"""


@pytest.mark.parametrize(("shipped", "text"), [
    ("traffic/questions.toml", OWN_KEYS), ("judges/data/default.toml", 'rubric = "own.toml"'),
])  # fmt: skip
def test_a_rubric_or_a_file_among_the_options_of_a_test_is_part_of_the_study(
    tmp_path, study_file, shipped, text
):
    """The key of a question is in no prompt, and yet decides what every experiment comes to."""
    template, own = write_notebook(tmp_path / "t.ipynb", "study = ''"), tmp_path / "own.toml"
    own.write_text((Path(toolkit.__file__).parent / shipped).read_text())
    path = study_file(judges="" if text is OWN_KEYS else text)
    if text is OWN_KEYS:
        path.write_text(text)
    (cell,) = plan_batch(template, [{"study": path.name}], tmp_path, "grid").cells
    assert str(own) in cell.files
    own.write_text(own.read_text().replace('version = "', 'version = "9', 1) + "\n# another key\n")
    assert identity_of(template, path) != cell.record


def test_every_part_counts_and_nothing_else(tmp_path, monkeypatch):
    """Source, value, content of a named file and code change it; outputs and other files do not."""
    (tmp_path / "data.csv").write_text("1")
    template = write_notebook(tmp_path / "t.ipynb", "data = ''", "x = 1")

    def identity(data="data.csv"):
        return plan_batch(template, [{"data": data}], tmp_path, "grid").cells[0].record

    seen = [identity()]
    template.write_text(template.read_text().replace('"execution_count": null', '"execution_count": 7'))
    (tmp_path / "other.csv").write_text("1")
    assert identity() == seen[0]
    (tmp_path / "data.csv").write_text("2")
    seen += [identity(), identity("other.csv")]
    template.write_text(template.read_text().replace("x = 1", "x = 2"))
    seen.append(identity())
    monkeypatch.setattr("toolkit.batch.plan.code_hash", lambda: "other code")
    seen.append(identity())
    assert len(set(seen)) == len(seen) == 5
