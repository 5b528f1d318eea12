"""Identities: the same for the same template, parameters, code and data, another for any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from notebook_files import write_notebook

from toolkit.batch import identity as module
from toolkit.batch.identity import identities
from toolkit.batch.sources import Sources
from toolkit.batch.template import read_template


def identity(notebook: Any, parameters: dict[str, Any], folder: Path, *, reads_store: bool = False) -> str:
    """Return the identity of one notebook, with its files read anew."""
    named = Sources(folder, reads_store=reads_store).named_by(parameters)
    return identities(notebook, [parameters], [named])[0]


def test_every_part_counts_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source, value, content of a named file and code change it; outputs and other files do not."""
    (tmp_path / "data.csv").write_text("1")
    path = write_notebook(tmp_path / "t.ipynb", "data = ''", "x = 1")
    notebook = read_template(path)
    first = identity(notebook, {"data": "data.csv"}, tmp_path)
    notebook.cells[1].execution_count = 7
    (tmp_path / "other.csv").write_text("1")
    assert identity(notebook, {"data": "data.csv"}, tmp_path) == first
    seen = {first}

    def another() -> bool:
        seen.add(identity(notebook, {"data": "data.csv"}, tmp_path))
        return len(seen) == count

    count = 2
    (tmp_path / "data.csv").write_text("2")
    assert another()
    count = 3
    notebook.cells[1].source = "x = 2"
    assert another()
    count = 4
    monkeypatch.setattr(module, "code_hash", lambda: "other code")
    assert another()
    assert identity(notebook, {"data": "other.csv"}, tmp_path) not in seen


def test_a_study_counts_with_its_rubric(study_file: Callable[..., Path], tmp_path: Path) -> None:
    """The study file names a rubric of its own; a change of that is a change of the study."""
    shipped = Path(module.__file__).parents[1] / "judges" / "data" / "default.toml"
    rubric = tmp_path / "mine.toml"
    rubric.write_text(shipped.read_text())
    study = study_file(judges='rubric = "mine.toml"')
    notebook = read_template(write_notebook(tmp_path / "t.ipynb", "study = ''"))
    first = identity(notebook, {"study": study.name}, tmp_path)
    rubric.write_text(shipped.read_text().replace('version = "', 'version = "9', 1))
    assert identity(notebook, {"study": study.name}, tmp_path) != first


def test_texts_that_are_no_paths_are_texts(tmp_path: Path) -> None:
    """A zero byte or a very long text names no file, and a word is no path though a file has its name."""
    notebook = read_template(write_notebook(tmp_path / "t.ipynb", "a = ''"))
    (tmp_path / "security").write_text("1")
    first = identity(notebook, {"a": ["security", "\0/x", "long/" * 2000]}, tmp_path)
    (tmp_path / "security").write_text("2")
    assert identity(notebook, {"a": ["security", "\0/x", "long/" * 2000]}, tmp_path) == first
