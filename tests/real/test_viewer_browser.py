"""The viewer where people use it: in JupyterLab, and as a page in a browser, with replies that try to act."""

import contextlib
import itertools
import json
import random
import re
import shutil
from pathlib import Path

import browser
import nbformat
import pytest
from cases import cases
from hostile_study import ATTACKS, hostile_study
from loopback_client import served
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from places import ROOT
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from waiting import wait_for

from toolkit.people.desk import desk_server
from toolkit.viewer import app
from toolkit.viewer.page import write_page
from toolkit.words import DIMENSIONS

NOTEBOOK = ROOT / "notebooks" / "02_read_answers.ipynb"
ALIVE = (
    "return [...document.querySelectorAll('.tv')].flatMap(one => [...one.querySelectorAll("
    "'script, img, svg, iframe, form, a, object, .tv-read style, .MathJax, mjx-container, [onerror], [onload]')])"
    ".map(one => one.outerHTML)"
)
"""Whatever in the viewer's own places could act or was typeset."""
STEPS = cases(__file__)
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
def study(tmp_path_factory):
    """A finished study of four runs whose texts try to act."""
    with hostile_study(tmp_path_factory.mktemp("hostile")) as loaded:
        yield loaded


@contextlib.contextmanager
def open_browser(folder):
    """Open Chromium with a profile of its own."""
    programs = (
        browser._need("chromium", browser.CHROMIUM),
        browser._need("chromium-driver", browser.CHROMEDRIVER),
    )
    with browser._browser(*programs, folder / "browser") as page:
        yield page


class Person:
    """What a person does with one viewer, in a notebook or on a page."""

    def __init__(self, page, root):
        self.page = page
        # What is drawn anew between finding it and reading it is looked for again.
        self.wait = WebDriverWait(page, 120, ignored_exceptions=[StaleElementReferenceException])
        self.root = root()

    def find(self, selector):
        """Return an element of the viewer."""
        return self.root.find_element(By.CSS_SELECTOR, selector)

    def choose(self, head, option):
        """Choose an option of the filter above a column."""
        Select(self.find(f"[aria-label='Filter by {head}']")).select_by_visible_text(option)

    def write(self, label, *keys):
        """Type into an input."""
        self.find(f"[aria-label='{label}']").send_keys(*keys)

    def press(self, words):
        """Press a button."""
        self.root.find_element(By.XPATH, f".//button[normalize-space()='{words}']").click()

    def type(self, keys):
        """Type letters where the focus is."""
        self.page.switch_to.active_element.send_keys(keys)

    def rows(self):
        """Return the rows of the table, as text."""
        found = self.root.find_elements(By.CSS_SELECTOR, "[aria-label=Runs] tbody tr:not([aria-hidden])")
        return [row.text.replace("\n", " ") for row in found]

    def nameless(self):
        """Return the controls and boxes that can have the focus and of which a screen reader could not say the name."""
        kinds = "button, input, select, textarea, summary, [tabindex='0']"
        found = [one for one in self.root.find_elements(By.CSS_SELECTOR, kinds) if one.is_displayed()]
        assert len(found) > 20
        return [one.get_attribute("outerHTML") for one in found if not re.search(r"\w", one.accessible_name)]

    def scrolls(self, name):
        """Scroll a text with an arrow key; it goes to no other run or cell, and a letter makes no new one."""
        text = self.find(f"[aria-label='{name}']")
        self.page.execute_script("arguments[0].style.maxHeight = '5em'; arguments[0].focus()", text)
        before = self.find(".tv-said").text
        self.page.switch_to.active_element.send_keys("b", Keys.ARROW_DOWN)
        self.wait.until(lambda _: text.get_property("scrollTop") > 0, f"{name} did not scroll")
        assert self.find(".tv-said").text == before

    def follow(self, name, **words):
        """Do what stands under a name in the table of steps."""
        for action, *given in STEPS[name]:
            getattr(self, action)(*(text.format(**words) if words else text for text in given))

    def typed(self, scores):
        """Check what stands in the fields of the desk."""
        values = (
            "return [...document.querySelectorAll('.dk-row input')].map(one => one.value).join(' ').trim()"
        )
        assert self.page.execute_script(values) == scores

    def gone(self, text):
        """Wait until something stands no longer in the viewer."""
        self.wait.until(lambda _: text not in self.root.text)

    def reached(self, text):
        """Wait until something stands in the viewer."""
        self.wait.until(lambda _: text in self.root.text, f"{text!r} never stood there: {self.root.text}")


def beside_each_other(person):
    """Levels stand beside each other in their order, and their means on top; a column can be left out."""
    heads = [one.text for one in person.root.find_elements(By.CSS_SELECTOR, ".tv-matrix [aria-sort] button")]
    assert heads == ["item", "range ▼", "S", "M"]
    assert person.find(".tv-means").text.replace("\n", " ") == "mean of 1 items 3.50 3.50"
    person.press("base_one")
    person.reached("Two runs side by side")
    person.press("Stop comparing")
    person.find(".tv-choose summary").click()
    person.root.find_element(By.XPATH, ".//label[contains(., 'scripted · M')]/input").click()
    assert person.find(".tv-means").text.replace("\n", " ") == "mean of 1 items 3.50"
    person.root.find_element(By.XPATH, ".//label[contains(., 'scripted · M')]/input").click()
    person.find(".tv-choose summary").click()


def note_is_kept(person, folder):
    """A thumb and a note stand there when the page is loaded again, and in a file of which no cell is a formula."""
    person.write("Your note", '=1+1 "so"')
    person.find(".tv-list").send_keys("+")
    person.page.refresh()
    person.root = person.page.find_element(By.TAG_NAME, "main")
    person.reached("Download notes")
    person.wait.until(lambda _: person.find("[aria-label='Your note']").get_property("value") == '=1+1 "so"')
    assert person.find(".tv-note [aria-pressed=true]").text == "👍 good"
    person.page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    person.press("Download notes")
    wait_for((folder / "notes-hostile.csv").is_file, 20)
    _, line = (folder / "notes-hostile.csv").read_text().splitlines()
    assert line.endswith(',good,"\'=1+1 ""so"""')


def use(person):
    """Filter, sort, pick, step by keys, search, compare, look at the matrix: on a page as in a notebook."""
    person.reached("4 of 4 runs")
    beside_each_other(person)
    person.follow("table")
    assert all(" M " in row for row in person.rows())
    person.follow("filter")
    assert person.find("[aria-sort=ascending]").text.startswith("rep.")
    assert [row.split()[2] for row in person.rows()] == ["0", "0", "1", "1"]
    person.follow("search")
    person.find("[type=search]").clear()
    person.follow("found")
    person.wait.until(lambda _: person.find(".tv-list tbody tr:not([aria-hidden])").click() or True)
    person.reached("Run 1 of 2: base_one_s · scripted · repeat 0")
    person.wait.until(lambda _: person.root.find_elements(By.CSS_SELECTOR, "article.tv-run"))
    assert person.page.execute_script(ALIVE) == []
    assert [text for text in SHOWN if text not in person.root.text] == []
    assert person.nameless() == []
    person.scrolls("Reply")
    person.find(".tv-list").send_keys(Keys.ARROW_DOWN)
    person.follow("keys")
    wider = "return [...document.querySelectorAll('.tv-read, .tv-read :is(table, .tv-sides > *, h2)')]"
    wider += ".filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert person.page.execute_script(wider) == 0
    assert person.page.execute_script(ALIVE) == []
    person.page.execute_script("document.querySelector('.tv').append(document.createElement('img'))")
    assert len(person.page.execute_script(ALIVE)) == 1  # it would have been found
    person.follow("matrix")
    # The colour is a legend's, whose ends are those of the scale.
    legend = person.find(".tv-legend")
    assert "0 5. –: no run with a score" in legend.text.replace("\n", " ")
    assert legend.find_element(By.TAG_NAME, "span").get_attribute("aria-label") == "from pale to blue"
    person.find(".tv-matrix td button").click()
    person.follow("back")
    person.find(".tv-list").click()
    person.type("/")
    assert person.page.switch_to.active_element.get_attribute("type") == "search"
    person.follow("end")


@pytest.mark.browser
def test_answers_are_read_in_jupyterlab_and_none_of_them_acts(lab, study, tmp_path):
    """A person filters, picks, steps by keys, compares and exports; hostile text stays text all the way."""
    copy = Path(shutil.copy(NOTEBOOK, lab.root / "hostile_answers.ipynb"))
    source = copy.read_text(encoding="utf-8")
    copy.write_text(source.replace("../templates/demo.toml", str(study.path)), encoding="utf-8")
    before = set(study.output.glob("answers-*.html"))
    cells = "return window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)"
    active = "return window.jupyterapp.shell.currentWidget.content.activeCellIndex"

    def person(page):
        browser.scroll_to(page, "s.view()")
        kinds, place = page.execute_script(cells), page.execute_script(active)
        cell = "//div[contains(@class,'jp-Cell')][.//div[contains(@class,'cm-line')][normalize-space()='s.view()']]"
        wait_for(lambda: page.find_elements(By.XPATH, f"{cell}//div[contains(@class,'tv-app')]"))
        someone = Person(page, lambda: page.find_element(By.XPATH, f"{cell}//div[contains(@class,'tv-app')]"))
        use(someone)
        assert not page.find_elements(By.XPATH, f"{cell}//div[contains(@class,'tv-static')]")
        assert "study.view(" in someone.root.text
        someone.press("Export page")
        someone.reached("2 runs on one page: ")
        assert page.execute_script(cells) == kinds
        assert page.execute_script(active) == place

    seen = browser.run_notebook(lab, copy, tmp_path / "viewer.png", then=person)

    assert seen.errors == ()
    code = [cell for cell in seen.cells if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert seen.title != "OWNED"
    assert len(set(study.output.glob("answers-*.html")) - before) == 2  # of the notebook, and of the person


@pytest.mark.browser
def test_the_page_is_the_same_viewer_loads_nothing_and_runs_nothing_of_others(study, tmp_path):
    """Hostile text is text on the page too; it opens with its pair, or at the run of its address."""
    runs = study.runs()
    ids = runs["run_id"].tolist()
    path = write_page(study.plan, study.store, runs, path=tmp_path / "page.html", pair=(ids[0], ids[1]))
    with open_browser(tmp_path) as page:
        page.get(path.as_uri())
        wait_for(lambda: "Two runs side by side" in page.find_element(By.TAG_NAME, "main").text)
        assert page.title == "Answers of hostile"
        page.get(f"{path.as_uri()}#run-{ids[2]}")
        page.refresh()
        wait_for(lambda: "Run 3 of 4" in page.find_element(By.TAG_NAME, "main").text)
        person = Person(page, lambda: page.find_element(By.TAG_NAME, "main"))
        use(person)
        page.execute_script(f"location.hash = 'run-{ids[0]}'")
        person.reached("base_one_m · scripted · repeat ")
        note_is_kept(person, tmp_path)
        asked = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        assert page.execute_script(asked) == []
        assert page.get_log("browser") == []
        assert page.title == "Answers of hostile"
        # A script that got onto the page all the same would not run: the policy stands.
        page.execute_script(
            "const own = document.createElement('script'); own.textContent = 'document.title = \"OWNED\"';"
            "document.body.append(own);"
        )
        assert page.title == "Answers of hostile"
        for width in (400, 900, 2500):
            page.set_window_size(width, 900)
            wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.execute_script(wide) <= 0, f"at {width} pixels the page has to be pushed sideways"


@pytest.mark.browser
def test_without_widgets_a_page_stands_in_the_output(study, tmp_path):
    """In HTML made by nbconvert, with no kernel and no network, the run that was asked for stands as text."""
    run_id = study.runs()["run_id"].iloc[0]
    notebook = nbformat.v4.new_notebook()
    source = f"from toolkit import Study\nStudy.load({str(study.path)!r}).view({run_id!r})"
    notebook.cells = [nbformat.v4.new_code_cell(source)]
    ran = NotebookClient(notebook, timeout=120).execute()
    assert "output_blob" not in json.dumps(ran.metadata)  # no run is kept as the state of a widget
    html, _ = HTMLExporter().from_notebook_node(ran)
    path = tmp_path / "view.html"
    path.write_text(html)
    with open_browser(tmp_path) as page:
        page.get(path.as_uri())
        shown = page.find_element(By.CSS_SELECTOR, ".tv-static")
        assert "4 runs: the viewer needs a running notebook" in shown.text
        assert [text for text in SHOWN if text not in shown.text] == []
        assert page.title != "OWNED"


WORDS = (
    "",
    "one",
    "two words",
    "Stop. Block it now. End.",
    "Stop. End.",
    "a  b\n\nc",
    "漢字を隔離する。",
    "漢字を分離する。",
)
LONG = (
    " ".join(f"Step {n}: do thing {n * 7 % 300}." for n in range(400)),
    " ".join(f"Step {n}: do item {n * 11 % 300}." for n in range(400)),
)


def longest(left, right):
    """Return the length of the longest common subsequence by the table of every textbook."""
    above = [0] * (len(right) + 1)
    for word in left:
        row = [0]
        for place, other in enumerate(right):
            row.append(above[place] + 1 if word == other else max(above[place + 1], row[place]))
        above = row
    return above[-1]


@pytest.mark.browser
def test_two_texts_are_compared_word_by_word_and_nothing_of_them_is_lost(tmp_path):
    """Held against the textbook; white space is no difference; what is too long goes by lines."""
    draw = random.Random(7)
    drawn = [" ".join(draw.choices("abcd", k=draw.randrange(12))) for _ in range(200)]
    pairs = [
        *itertools.product(WORDS, WORDS),
        *itertools.pairwise(drawn),
        LONG,
        ("x y z v w\n" * 1000, "x y z v q\n" * 1000),
    ]
    script = Path(app.__file__).with_suffix(".js").read_text()
    blank = tmp_path / "blank.html"
    blank.write_text(
        f"<meta charset=utf-8><script type=module>{script}\nwindow.compare = differences</script>"
    )
    with open_browser(tmp_path) as page:
        page.get(blank.as_uri())
        found = page.execute_script("return arguments[0].map(pair => compare(...pair))", pairs)
    for (left, right), told in zip(pairs, found, strict=True):
        assert ["".join(text for text, _ in side) for side in told["sides"]] == [left, right]
        same = ["".join(text for text, lacking in side if not lacking).split() for side in told["sides"]]
        assert "".join(same[0]) == "".join(same[1])
    for (left, right), told in zip(pairs, found, strict=True):
        if (left, right) in itertools.pairwise(drawn):
            total = len(left.split()) + len(right.split())
            shared = 2 * longest(left.split(), right.split()) / total if total else 1
            assert told["shared"] == pytest.approx(shared)
    by_pair = dict(zip(pairs, found, strict=True))
    changed = by_pair["Stop. Block it now. End.", "Stop. End."]["sides"][0]
    assert [text.strip() for text, lacking in changed if lacking] == ["Block it now."]
    assert by_pair["漢字を隔離する。", "漢字を分離する。"]["shared"] == pytest.approx(7 / 8)
    assert 5 / 7 <= by_pair[LONG]["shared"] < 0.75  # frequent words count like others; `difflib` finds 3 %
    assert (found[-1]["unit"], found[-1]["shared"]) == ("lines", 0)


@pytest.mark.browser
def test_a_person_rates_at_the_desk_by_keys_alone_and_a_wrong_score_is_refused_at_the_key(study, tmp_path):
    """What a model wrote is text; 4.5 stays a 4 with its message; what is typed waits; another rater begins anew."""
    with served(*desk_server(study.plan, study.store)) as address, open_browser(tmp_path) as page:
        page.get(address)
        person = Person(page, lambda: page.find_element(By.TAG_NAME, "main"))
        for rater, scores in (("me", "4 3 5 3 0 2 1"), ("you", "1 1 1 1 1 1 1")):
            person.follow("desk", rater=rater, scores=scores)
            alive = "return document.querySelectorAll('.dk :is(script, img, svg, iframe, a, style)').length"
            assert page.execute_script(alive) == 0
        assert page.title == "Rate replies"
        assert page.get_log("browser") == []
    people = study.human().set_index("rater")
    assert people.loc[["me", "you"], list(DIMENSIONS)].values.tolist() == [[4, 3, 5, 3, 0, 2, 1], [1] * 7]
