"""What `browser` does when a notebook does not come to its end, and when there is no browser."""

from pathlib import Path

import browser
import nbformat
import psutil
import pytest


def notebook_with(folder: Path, *sources: str) -> Path:
    """Write a notebook with these code cells, alone in its folder."""
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    book.cells = [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
    folder.mkdir(parents=True)
    path = folder / "notebook.ipynb"
    nbformat.write(book, path)
    return path


def working_in(folder: Path) -> list[str]:
    """Return the names of the processes whose working folder this is: JupyterLab and its kernels."""
    return [p.info["name"] for p in psutil.process_iter(["name", "cwd"]) if p.info["cwd"] == str(folder)]


@pytest.mark.browser
def test_cells_that_do_not_end_in_time_are_an_error_and_leave_no_process(tmp_path):
    path = notebook_with(tmp_path / "own", "import time; time.sleep(600)")
    with pytest.raises(RuntimeError, match="the cells did not come to their end within 3 s"):
        browser.run_in_jupyterlab(path, tmp_path / "late.png", timeout=3)
    assert working_in(path.parent) == []


def test_without_chromium_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"chromium is not installed, .* apt-get install chromium"):
        browser.run_in_jupyterlab(tmp_path / "n.ipynb", tmp_path / "s.png")
