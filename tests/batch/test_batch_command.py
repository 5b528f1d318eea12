"""`toolkit batch`: bad input is one line and exit code 2, JSON is one object, failures are exit code 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook_files import write_notebook

from toolkit.cli import main


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_json_and_exit_code_of_a_batch_with_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object with a row a cell; the progress line stands on standard error and speaks of no money."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0", "1 / x")
    (tmp_path / "grid.toml").write_text("[product]\nx = [0, 1]\n")
    assert call("batch", template, tmp_path / "grid.toml", "--out", tmp_path / "out", "--json") == 1
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["counts"] == {"done": 1, "failed": 1}
    assert [cell["parameters"] for cell in said["cells"]] == [{"x": 0}, {"x": 1}]
    assert "notebooks 2/2, 1 failed" in err
    assert "AUD" not in err
    assert call("batch", template, tmp_path / "grid.toml", "--out", tmp_path / "out") == 1
    assert "failed  x=0: In [3]: ZeroDivisionError: division by zero" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no.ipynb", "grid.toml"], "no.ipynb: no such template"),
        (["t.ipynb", "no.toml"], "no.toml: no such grid file"),
        (["t.ipynb", "grid.toml"], "unknown parameter 'y'"),
        (["t.ipynb", "grid.toml", "--workers", "0"], "0 is not in the range"),
        (["t.ipynb", "grid.toml", "--timeout", "0"], "0.0 is not in the range"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    """Before anything is started."""
    monkeypatch.chdir(tmp_path)
    write_notebook(tmp_path / "t.ipynb", "x = 0")
    (tmp_path / "grid.toml").write_text("[product]\ny = [0, 1]\n")
    assert call("batch", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "results").exists()
