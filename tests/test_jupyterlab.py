"""JupyterLab in headless Chromium: a person opens a notebook, chooses Run All Cells, and reads it."""

import shutil
import struct
from pathlib import Path

import browser
import nbformat
import psutil
import pytest
from rated_study import finished_study
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from toolkit.people.rating import open_round
from toolkit.store.human_frames import human_frame
from toolkit.words import DIMENSIONS

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


def rate_two_replies(page: webdriver.Chrome) -> None:
    """Press a score for each dimension and save; rate the second reply without a mouse."""
    wait = WebDriverWait(page, 20)

    def reached(text: str) -> None:
        wait.until(lambda _: text in page.find_element(By.CSS_SELECTOR, ".jp-OutputArea .widget-vbox").text)

    browser.scroll_to(page, "rating_desk(")
    reached("Reply 1 of 5")
    rows = page.find_elements(By.CSS_SELECTOR, ".widget-toggle-buttons")
    for row, score in zip(rows, ("4", "3.5", "5", "0", "2", "1", "4.5"), strict=True):
        row.find_element(By.XPATH, f".//button[normalize-space()='{score}']").click()
    page.find_element(By.CSS_SELECTOR, ".widget-textarea textarea").send_keys("short <b>but</b> right")
    page.find_elements(By.XPATH, "//button[normalize-space()='Save and next']")[-1].click()
    reached("Reply 2 of 5")
    # The keyboard is where seven scores can be typed, beside the next reply; the next stop is Save.
    wait.until(lambda _: page.switch_to.active_element.tag_name == "input")
    page.switch_to.active_element.send_keys("1 1 1 1 1 1 1", Keys.TAB)
    pressed = (
        "return [...document.querySelectorAll('.widget-toggle-button.mod-active')].map(b => b.innerText)"
    )
    wait.until(lambda _: page.execute_script(pressed) == ["1"] * 7)
    assert page.switch_to.active_element.text == "Save and next"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    reached("Reply 3 of 5")


@pytest.mark.browser
def test_a_person_rates_replies_at_the_desk(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    copy = Path(shutil.copy(NOTEBOOKS / "03_rate_answers.ipynb", folder))
    with finished_study(tmp_path) as study:
        source = copy.read_text(encoding="utf-8")
        assert "SIZE = 12" in source
        source = source.replace("SIZE = 12", "SIZE = 5").replace("../templates/demo.toml", str(study.path))
        copy.write_text(source, encoding="utf-8")

        seen = browser.run_in_jupyterlab(copy, tmp_path / "desk.png", then=rate_two_replies)

        frame = human_frame(study.store, study.runs(), study.plan.rubric.digest)
        round_ = open_round(study.plan, study.store, "me")
    assert seen.errors == ()
    assert "0 finished ratings by 0 raters, 0 unfinished" in seen.text
    assert frame["run_id"].tolist() == [reply.run_id for reply in round_.replies[:2]]
    assert frame.loc[0, list(DIMENSIONS)].tolist() == [4, 3.5, 5, 0, 2, 1, 4.5]
    assert frame.loc[0, "reasons"] == "short <b>but</b> right"
    assert frame.loc[1, list(DIMENSIONS)].tolist() == [1] * 7


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
