"""Batches without a kernel: bad input is one line and exit code 2, JSON is one object, failures are exit code 1."""

import errno
import json
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from cases import cases
from notebook_files import write_notebook
from waiting import wait_for

from toolkit.batch import BatchResult, CellResult, run_batch
from toolkit.batch.run import locked, write_record
from toolkit.errors import InputError, ToolkitError
from toolkit.words import RESULT_TYPE

CASES = cases(__file__)


@pytest.mark.parametrize(("arguments", "says"), CASES["bad_input"])
def test_bad_input_is_one_line(tmp_path, monkeypatch, toolkit, arguments, says):
    monkeypatch.chdir(tmp_path)
    write_notebook(tmp_path / "t.ipynb", "x = 0")
    (tmp_path / "grid.toml").write_text("[product]\ny = [0, 1]\n")
    code, out, err = toolkit("batch", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert says in err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("grid", "options", "says"), CASES["no_fit"])
def test_nothing_starts_when_a_cell_does_not_fit(tmp_path, grid, options, says):
    template = write_notebook(tmp_path / "t.ipynb", "k: int\nx = 0")
    with pytest.raises(InputError, match=says):
        run_batch(template, tomllib.loads(grid), out=tmp_path / "out", progress=False, **options)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def batch(tmp_path):
    """Run a batch of notebooks that take x, of one unless a grid says more, in a folder."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")

    def run(folder="out", values=(0,)):
        return run_batch(template, {"product": {"x": values}}, out=tmp_path / folder, progress=False)

    return run


@pytest.fixture
def no_kernels(monkeypatch):
    """Have every notebook of a batch be done at once."""

    def done(plans, *_):
        for plan in plans:
            Path(plan.output).write_text("{}")
            write_record(plan, CellResult({}, "done", notebook=Path(plan.output).name, attempts=1))

    monkeypatch.setattr("toolkit.batch.run._run_all", done)


@pytest.mark.parametrize("when", ["records", "notebooks"])
def test_a_folder_that_cannot_be_written_is_one_line(batch, tmp_path, monkeypatch, when):
    """A full disk: the file and what to do, no traceback of our own, and the same call goes on when there is room."""
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out" / "a.json"))

    def no_space(*_, **__):
        raise full

    if when == "records":
        monkeypatch.setattr("toolkit.batch.run.write_atomically", no_space)
    else:
        monkeypatch.setattr("toolkit.batch.run._run_all", lambda *_: None)
        monkeypatch.setattr("toolkit.batch.result.write_atomically", no_space)
    with pytest.raises(
        ToolkitError, match=r"a\.json: No space left on device; mend that, .* goes on"
    ) as error:
        batch()
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("no_kernels")
def test_a_folder_of_notebooks_may_be_moved(batch, tmp_path):
    """Records name notebooks relative to themselves."""
    first = batch("a {b}", range(300))
    shutil.move(tmp_path / "a {b}", tmp_path / "moved here")
    again = batch("moved here", range(300))
    assert (first.started, again.started, again.already_done) == (300, 0, 300)


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"identity": "b"}', '{"identity": "a", "status": "great"}', '{"status": "done"}']
)
def test_a_record_that_cannot_be_read_is_none(batch, tmp_path, text):
    """Half a file, another notebook's, or a status nobody knows: the notebook is run again."""
    first = batch()
    (record,) = (tmp_path / "out" / "records").glob("*.json")
    record.write_text(text.replace('"a"', f'"{record.stem}"'))
    again = batch()
    assert (first.started, again.started) == (1, 1)


@pytest.mark.usefixtures("no_kernels")
def test_a_second_call_in_a_folder_says_that_it_waits(batch, tmp_path, capsys):
    """It says so once, and then runs what is left."""
    out = tmp_path / "out"
    messages = []
    batch()
    with ThreadPoolExecutor() as threads:
        with locked(out / "records" / "batch.lock"):
            call = threads.submit(batch, values=(0, 1))
            wait_for(lambda: messages.append(capsys.readouterr().err) or any(messages), 30)
            assert not call.done()
        assert call.result(60).started == 1
    assert (
        "".join(messages) + capsys.readouterr().err
        == f"{out}: waiting for another call that runs a batch there\n"
    )


def test_the_end_of_a_batch_says_what_was_done_already_and_by_which_rule(tmp_path):
    """Other words for a template that asks."""
    cells = (CellResult({}, "done", ran=True), CellResult({}, "done"), CellResult({}, "failed"))
    for reads_store, rule in (
        (True, "and so is what the store holds of their studies"),
        (False, "what the store holds does not count"),
    ):
        result = BatchResult("t", tmp_path, cells, 1.0, reads_store)
        text = result.summary().text
        assert "already done  1: " in text
        assert rule in text
        assert json.loads(json.dumps(result.to_dict()))["already_done"] == 1
    text = BatchResult("t", tmp_path, cells[:1], 1.0).summary().text
    assert "already done" not in text
    assert text.startswith("1 notebook of t: 1 done")


def collected(folder, rows):
    """A batch whose notebooks gave these rows, by the score that each was run with."""
    cells = []
    for number, (score, given) in enumerate(rows.items()):
        name = f"length_{number:012x}.ipynb"
        outputs = [{"output_type": "display_data", "data": {RESULT_TYPE: given, "text/plain": "…"}}]
        (folder / name).write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": outputs}, {}]}))
        cells.append(CellResult({"score": score}, "done", notebook=name))
    return BatchResult("length", folder, (*cells, CellResult({"score": "x"}, "failed")), 1.0)


def test_what_templates_found_stands_beside_their_parameters(tmp_path):
    row = {"name": "M-S", "estimate": 0.3, "low": 0.1, "high": 0.5}
    batch = collected(tmp_path, {"composite": [row], "clarity": [row | {"estimate": None}, row]})
    found = batch.results()
    assert found["parameter_score"].tolist() == ["composite", "clarity", "clarity"]
    assert found["cell"].tolist() == [1, 2, 2]
    _, notebook = batch.write()
    assert pd.read_csv(tmp_path / "results.csv").equals(found)
    assert "results.csv" in notebook.read_text()
