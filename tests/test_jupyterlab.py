"""JupyterLab in headless Chromium: a person opens a notebook, chooses Run All Cells, and reads it."""

import shutil
import struct
from pathlib import Path

import browser
import nbformat
import psutil
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


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
def test_start_here_runs_to_its_end_in_jupyterlab(tmp_path, demo_like_study):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    copy = Path(shutil.copy(NOTEBOOKS / "00_start_here.ipynb", folder))
    source = copy.read_text(encoding="utf-8")
    assert "../templates/demo.toml" in source
    copy.write_text(source.replace("../templates/demo.toml", str(demo_like_study)), encoding="utf-8")

    seen = browser.run_in_jupyterlab(copy, tmp_path / "start_here.png")

    assert seen.errors == ()
    code = [cell for cell in seen.cells if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert seen.images == 1
    assert "ICC(A,1)" in seen.text
    assert "Quality by prompt length (n = " in seen.text
    width, height = struct.unpack(">II", seen.screenshot.read_bytes()[16:24])
    assert (width, height > 2000) == (1400, True)


@pytest.mark.browser
def test_an_error_and_hostile_text_are_seen_as_they_are(tmp_path):
    path = notebook_with(
        tmp_path / "own",
        "from toolkit.report.show import need_results, print_text",
        r"print_text('<script>document.title = 1</script> $x^2$ \x1b[31mred')",
        "need_results({'study': 'empty', 'done': 0})",
        "print('never reached')",
    )
    seen = browser.run_in_jupyterlab(path, tmp_path / "error.png")
    assert seen.errors == (
        "NothingToShow: study empty: no run has succeeded yet; run `make demo` in a shell first",
    )
    assert seen.text == "<script>document.title = 1</script> $x^2$ red\n"
    assert seen.cells[3]["count"] is None
    assert seen.title != "1"


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
