"""The viewer where people use it: in JupyterLab, and as a page in a browser, with replies that try to act."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from hostile_study import ATTACKS, hostile_study
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from waiting import wait_for

from toolkit.study import Study
from toolkit.viewer.page import write_page

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "02_read_answers.ipynb"
ALIVE = (
    "return [...document.querySelectorAll('.tv')].flatMap(one => [...one.querySelectorAll("
    '\'script, img, svg, iframe, form, a:not([href^="#run-"]), object, style, .MathJax, mjx-container, [onerror], '
    "[onload]')]).map(one => one.outerHTML)"
)
"""Whatever in the viewer's own places could act or was typeset; links within the page are ours."""
SHOWN = (
    ATTACKS["script"],
    ATTACKS["handler"],
    ATTACKS["svg"],
    "javascript:document.title",
    "$\\frac{a}{b}$ or $$\\sum_i x_i$$",
    ATTACKS["style"],
    ATTACKS["close"],
    "[U+001B][31mred",
    "[U+202E]gpj.exe",
    "human:anna, version 1",
    f"REMARK {ATTACKS['script']} {ATTACKS['handler']}",
)
"""What a person must be able to read of the attacks."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of four runs whose texts try to act."""
    with hostile_study(tmp_path_factory.mktemp("hostile")) as loaded:
        yield loaded


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """Open Chromium with a profile of its own."""
    programs = (
        browser._need("chromium", browser.CHROMIUM),
        browser._need("chromium-driver", browser.CHROMEDRIVER),
    )
    with browser._browser(*programs, folder / "browser") as page:
        yield page


class Person:
    """What a person does with the first viewer of the notebook."""

    def __init__(self, page: webdriver.Chrome) -> None:
        browser.scroll_to(page, "s.view()")
        self.page = page
        # What is drawn anew between finding it and reading it is looked for again.
        self.wait = WebDriverWait(page, 120, ignored_exceptions=[StaleElementReferenceException])
        cell = "//div[contains(@class,'jp-Cell')][.//div[contains(@class,'cm-line')][normalize-space()='s.view()']]"
        self.wait.until(lambda _: page.find_elements(By.XPATH, f"{cell}//select"))
        self.cell = page.find_element(By.XPATH, cell)

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a filter."""
        found = self.cell.find_element(
            By.XPATH, f".//label[normalize-space()='{label}']/following-sibling::select"
        )
        Select(found).select_by_visible_text(option)

    def write(self, label: str, *keys: str) -> None:
        """Type into an input."""
        place = f".//label[normalize-space()='{label}']/following-sibling::input"
        self.cell.find_element(By.XPATH, place).send_keys(*keys)

    def press(self, words: str) -> None:
        """Press a button."""
        self.cell.find_element(By.XPATH, f".//button[normalize-space()='{words}']").click()

    def nameless(self) -> list[str]:
        """Return the controls and boxes that can have the focus and of which a screen reader could not say the name."""
        found = self.page.execute_script(
            "const kinds = 'button, input, select, textarea, summary, [role=slider], [tabindex=\"0\"]';"
            "const output = arguments[0].querySelector('.jp-OutputArea-output .widget-vbox');"
            "return [...output.querySelectorAll(kinds)].filter(one => one.checkVisibility())",
            self.cell,
        )
        assert len(found) > 20
        return [one.get_attribute("outerHTML") for one in found if not re.search(r"\w", one.accessible_name)]

    def cut(self, text: str, column: str) -> list[str]:
        """Put a number into a column of the table, and return what does not fit into its cell."""
        return self.page.execute_script(
            "const [cell, text, column] = arguments, table = cell.querySelector('.tv-runs table');"
            "const at = [...table.querySelectorAll('th')].findIndex(one => one.textContent === column);"
            "for (const row of table.tBodies[0].rows) row.cells[at].textContent = text;"
            "return [...table.querySelectorAll('.tv-number')].filter(one => one.scrollWidth > one.clientWidth)"
            ".map(one => one.textContent)",
            self.cell,
            text,
            column,
        )

    def scrolls(self, name: str) -> None:
        """Scroll a text with an arrow key; it goes to no other cell, and a letter makes no new one."""
        where = "return window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        text = self.cell.find_element(By.CSS_SELECTOR, f"[aria-label='{name}']")
        self.page.execute_script("arguments[0].style.maxHeight = '5em'; arguments[0].focus()", text)
        before = self.page.execute_script(where)
        self.page.switch_to.active_element.send_keys("b", Keys.ARROW_DOWN)
        self.wait.until(lambda _: text.get_property("scrollTop") > 0, f"{name} did not scroll")
        assert self.page.execute_script(where) == before

    def reached(self, text: str) -> None:
        """Wait until something stands in the viewer."""
        self.wait.until(lambda _: text in self.cell.text, f"{text!r} never stood there: {self.cell.text}")


def use(page: webdriver.Chrome) -> None:
    """Filter, open, step by keys, compare, export, and see that nothing acts."""
    cells = "return window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)"
    before = page.execute_script(cells)
    person = Person(page)
    person.reached("4 of 4 runs")
    chosen = "return [...document.querySelectorAll('.widget-dropdown select')].map(one => one.selectedIndex)"
    assert set(page.execute_script(chosen)) == {0}
    person.choose("Length bin", "M")
    person.reached("2 of 4 runs, page 1 of 1 · length bin M")
    person.choose("Length bin", "all")
    person.reached("4 of 4 runs")
    person.choose("Length bin", "S")
    person.reached("2 of 4 runs, page 1 of 1 · length bin S")
    person.write("Text", "OnError", Keys.ENTER)
    person.reached("with 'OnError' in it")
    person.press("1")
    person.reached("base_one_s · scripted · repeat 0\n")
    assert page.execute_script(ALIVE) == []
    assert [text for text in SHOWN if text not in person.cell.text] == []
    assert person.nameless() == []
    assert person.cut("<0.0001", "AUD") == []
    person.scrolls("Reply")
    # Letters that JupyterLab takes for itself where no input has the focus: new cells, and Markdown for code.
    person.write("Keys", "abmn")
    person.reached("base_one_s · scripted · repeat 1\n")
    person.write("Keys", "cp")
    person.reached("of the words are shared")
    assert page.execute_script(ALIVE) == []
    page.execute_script("document.querySelector('.tv').append(document.createElement('img'))")
    assert len(page.execute_script(ALIVE)) == 1  # it would have been found
    person.press("Export page")
    person.reached("2 runs on one page: ")
    assert page.execute_script(cells) == before


@pytest.mark.browser
def test_answers_are_read_in_jupyterlab_and_none_of_them_acts(
    lab: browser.Lab, study: Study, tmp_path: Path
) -> None:
    """A person filters, opens, steps by keys, compares and exports; hostile text stays text all the way."""
    copy = Path(shutil.copy(NOTEBOOK, lab.root / "hostile_answers.ipynb"))
    source = copy.read_text(encoding="utf-8")
    copy.write_text(source.replace("../templates/demo.toml", str(study.path)), encoding="utf-8")
    before = set(study.output.glob("answers-*.html"))

    seen = browser.run_notebook(lab, copy, tmp_path / "viewer.png", then=use)

    assert seen.errors == ()
    code = [cell for cell in seen.cells if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert seen.title != "OWNED"
    assert "4 runs, 4 judged; judges' SD of 4 runs: median " in seen.text
    pages = set(study.output.glob("answers-*.html")) - before
    assert any(
        "Two runs side by side" in page.read_text() and "onerror" in page.read_text() for page in pages
    )
    assert len(pages) == 2  # of the notebook, and of the person


@pytest.mark.browser
def test_the_page_loads_nothing_runs_nothing_of_others_and_has_its_keys(study: Study, tmp_path: Path) -> None:
    """Hostile text is text on the page too; its own script filters and steps."""
    runs = study.runs()
    path = write_page(
        study.plan, study.store, runs, path=tmp_path / "page.html", pair=tuple(runs["run_id"][:2])
    )
    with open_browser(tmp_path) as page:
        page.get(path.as_uri())
        assert page.title == "Answers of hostile"
        assert page.execute_script(ALIVE) == []
        everything = page.find_element(By.TAG_NAME, "body").text
        assert [text for text in SHOWN if text not in everything] == []
        asked = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        assert page.execute_script(asked) == []
        assert page.get_log("browser") == []
        page.execute_script("document.querySelector('.tv').append(document.createElement('svg'))")
        assert len(page.execute_script(ALIVE)) == 1  # it would have been found
        # A script that got onto the page all the same would not run: the policy stands.
        page.execute_script(
            "const own = document.createElement('script'); own.textContent = 'document.title = \"OWNED\"';"
            "document.body.append(own);"
        )
        assert page.title == "Answers of hostile"

        body = page.find_element(By.TAG_NAME, "body")
        first, second = (f"#run-{run_id}" for run_id in runs["run_id"][:2])
        where = "return location.hash"
        body.send_keys("n")
        assert page.execute_script(where) == first
        body.send_keys("cn")
        assert page.execute_script(where) == second
        shown = "return [...document.querySelectorAll('.tv-run')].filter(run => run.offsetHeight).length"
        wait_for(lambda: page.execute_script(shown) == 2)  # the page hears later that the address has changed
        body.send_keys("cp")
        assert page.execute_script(where) == first
        wait_for(lambda: page.execute_script(shown) == 4)
        body.send_keys("/")
        page.switch_to.active_element.send_keys("base_one_s · ")
        assert page.find_element(By.ID, "tv-count").text == "2 of 4 runs"
        assert page.execute_script(shown) == 2
        page.switch_to.active_element.send_keys("n", Keys.BACKSPACE, Keys.ESCAPE)
        assert page.execute_script(where) == first  # what was typed was typed, and no step
        page.switch_to.active_element.send_keys("n")
        assert page.execute_script(where) == f"#run-{runs['run_id'].iloc[2]}"  # the first that is left


@pytest.mark.browser
def test_the_page_is_whole_without_scripts(study: Study, tmp_path: Path) -> None:
    """A reader that runs no script has every run, the links to them, and no dead controls."""
    runs = study.runs()
    path = write_page(study.plan, study.store, runs, path=tmp_path / "page.html")
    with open_browser(tmp_path) as page:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        page.get(path.as_uri())
        assert not page.find_element(By.ID, "tv-find").is_displayed()
        links = page.find_elements(By.CSS_SELECTOR, "nav a")
        assert len(links) == 4
        links[-1].click()
        assert page.current_url.endswith(f"#run-{runs['run_id'].iloc[-1]}")
        assert all(run.is_displayed() for run in page.find_elements(By.CSS_SELECTOR, ".tv-run"))
