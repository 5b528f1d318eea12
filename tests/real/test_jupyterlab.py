"""Every template and notebook in JupyterLab: a person opens it, chooses Run All Cells, and reads it to its end.

They share one JupyterLab, one browser and one finished study by scripted models. In every run one is opened, and the
rating desk used; all of them are opened by `make test-all`.
"""

import re
import shutil

import browser
import nbformat
import pytest
from cases import cases
from notebook_files import write_notebook
from PIL import Image
from places import ROOT, TEMPLATES
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from toolkit.people.rating import open_round
from toolkit.store import embedded
from toolkit.store.frames import human_frame
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.browser

WHOLE = """
name = "whole"
output = "results/whole"
note = "Scripted models answer and judge."
scenarios = ["GRC_MAPPING", "CTI_ANALYSIS"]

[[models]]
name = "gpt-4o"
provider = "scripted"
replies = ["Block it, and keep the logs.", "Isolate the host, reset the account, tell the lead, and look elsewhere."]
usd_per_million_input = 2.5
usd_per_million_output = 10.0

[[models]]
name = "llama-3.3-70b"
provider = "scripted"
replies = ["It depends.", "Map the control to the standard, name its owner, and set a date for the review."]
usd_per_million_input = 0.6
usd_per_million_output = 0.8

[analysis]
equivalence_margin = 0.5

[judges]
primary = { name = "judge-a", provider = "scripted", usd_per_million_input = 1.0, usd_per_million_output = 2.0 }
secondary = { name = "judge-b", provider = "scripted" }
tertiary = { name = "judge-c", provider = "scripted" }
"""
VOTING = """
name = "voting"
output = "results/voting"
models = [{ name = "scripted" }]

[judges]
tertiary = false
primary = { name = "judge-a", provider = "scripted", replies = ["Told.\\nVerdict: no", "Invented.\\nVerdict: yes"] }
secondary = { name = "judge-b", provider = "scripted", replies = ["Verdict: no", "Verdict: yes", "Who knows?"] }
"""
SCORES = "4350214"
FINDS = cases(__file__)["finds"]
"""What each must have said in the end."""
ALWAYS_RUN = ("00_start_here",)
"""What stands for all; `make test-all` opens the others too."""
PICTURES = {"00_start_here": 1, "02_read_answers": 0}
"""How many pictures these show; every other one shows at least one."""
ASK_NO_STUDY = cases(__file__)["ask_no_study"]
"""Notebooks that write a study of their own, or need none."""


@pytest.fixture(scope="module")
def whole(lab):
    """The finished study that copies of all notebooks, in the folder of JupyterLab, look at."""
    root = lab.root
    one_shot = (TEMPLATES / "one_shot.toml").read_text(encoding="utf-8")
    one_shot = one_shot.replace("../results", "results")
    studies = {name: root / f"{name}.toml" for name in ("whole", "voting", "one_shot", "adaptive", "planted")}
    own_texts = [
        (TEMPLATES / f"{name}.toml").read_text(encoding="utf-8").replace("../results", "results")
        for name in ("adaptive", "planted")
    ]
    own_texts[1] = own_texts[1].replace("bases = 36 ", "bases = 12 ").replace("repeats = 2", "repeats = 1")
    for path, text in zip(studies.values(), (WHOLE, VOTING, one_shot, *own_texts), strict=True):
        path.write_text(text)
    twin = (TEMPLATES / "planted_keyed.toml").read_text().replace("../results", "results")
    (root / "planted_keyed.toml").write_text(twin)
    shutil.copy(TEMPLATES / "planted_keyed.csv", root)
    study = Study.load(studies["whole"])
    try:
        assert study.execute(progress=False).judged == 36
        study.store.close()
        with Study.load(studies["planted"]) as planted:
            planted.execute(progress=False)
        for path in (*ROOT.glob("templates/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")):
            own = {"hallucination": "voting", "one_shot_test": "one_shot", "adaptive_benchmark": "adaptive"}
            own |= {"00_start_here": "planted"}
            of = own.get(path.stem, "whole")
            lines = {
                '"templates/demo.toml"': f'"{studies[of]}"',
                '"templates/one_shot.toml"': f'"{studies[of]}"',
                '"../templates/demo.toml"': f'"{studies[of]}"',
                '"../templates/planted.toml"': f'"{studies[of]}"',
                '"templates/adaptive.toml"': f'"{studies[of]}"',
                '"../templates/planted_keyed.toml"': f'"{root / "planted_keyed.toml"}"',
                'figures = ""': f'figures = "{root / path.stem}"',
                "SIZE = 12": "SIZE = 5",
                '"../templates/wine_ratings.csv"': f'"{TEMPLATES / "wine_ratings.csv"}"',
                '"../templates/hanna/ratings.csv"': f'"{TEMPLATES / "hanna" / "ratings.csv"}"',
                "../results": str(root / "results"),
                '"smollm2-135m"': '"scripted"',
            }
            book = nbformat.read(path, 4)
            source = "".join(cell.source for cell in book.cells)
            # A line that is no longer there would have a notebook look at the demo of whoever runs the tests.
            assert path.stem in ASK_NO_STUDY or any(line in source for line in [*lines][:7]), path
            assert path.stem != "03_rate_answers" or "SIZE = 12" in source
            nbformat.write(_pointed(book, lines), root / path.name)
        yield studies["whole"]
    finally:
        for store in root.rglob(".store"):
            embedded.stop(store)


def _pointed(book, lines):
    for cell in book.cells:
        for old, new in lines.items():
            cell.source = cell.source.replace(old, new)
    return book


def _shown(cells):
    """Return everything that the cells of code show as text."""
    outputs = [output for cell in cells for output in cell["outputs"]]
    parts = [o.get("text", o.get("data", {}).get("text/plain", "")) for o in outputs]
    return "\n".join("".join(part) for part in parts)


def _see(lab, name, **more):
    """Run a notebook, and check what holds for every one that ends well."""
    seen = browser.run_notebook(lab, lab.root / f"{name}.ipynb", lab.root / f"{name}.png", **more)
    assert seen.errors == ()
    code = [cell for cell in seen.cells if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert "Warning" not in _shown(seen.cells)
    assert lab.kernels() == []
    with Image.open(seen.screenshot) as picture:
        assert picture.width == 1400
        assert picture.height > 1500
        # A notebook that did not appear is one grey plane; text alone has hundreds of shades.
        assert len(picture.convert("RGB").reduce(4).getcolors(1 << 20) or ()) > 200
    return seen


@pytest.mark.parametrize(
    "name",
    [name if name in ALWAYS_RUN else pytest.param(name, marks=pytest.mark.full) for name in FINDS],
)
def test_a_notebook_runs_to_its_end_and_says_what_it_found(lab, whole, name):
    """No cell complains, the finding stands there, a picture is shown, and no kernel stays."""
    seen = _see(lab, name)
    said = _shown(seen.cells)
    unwrapped = " ".join(said.split())
    assert [text for text in FINDS[name] if text not in unwrapped] == []
    assert seen.images == PICTURES[name] if name in PICTURES else seen.images > 0
    if (TEMPLATES / f"{name}.ipynb").exists():
        assert list((lab.root / name).rglob("*.pdf"))
        made_from = said.rsplit('"inputs"', 1)[1]
        assert re.search(r"\b[0-9a-f]{64}\b", made_from)
        assert str(lab.root) not in made_from


def test_all_notebooks_that_there_are_were_opened():
    """A new notebook has to say here what it finds."""
    found = {path.stem for folder in ("templates", "notebooks") for path in ROOT.glob(f"{folder}/*.ipynb")}
    assert found == {*FINDS, "03_rate_answers"}


def _rate_two_replies(page):
    """Press a score for each dimension and save; rate the second reply by keys that JupyterLab has uses for."""
    wait = WebDriverWait(page, 120, ignored_exceptions=[StaleElementReferenceException])
    browser.scroll_to(page, "s.rate(")

    def reached(text):
        wait.until(lambda _: text in page.find_element(By.CSS_SELECTOR, ".dk").text)

    reached("Reply 1 of 5")
    for row, score in zip(page.find_elements(By.CSS_SELECTOR, ".dk-row"), SCORES, strict=True):
        row.find_element(By.XPATH, f".//button[.='{score}']").click()
    page.find_element(By.CSS_SELECTOR, ".dk textarea").send_keys("short <b>but</b> right")
    # The driver scrolls the page, not the notebook's own panel.
    save = page.find_element(By.XPATH, "//button[.='Save and next']")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", save)
    save.click()
    reached("Reply 2 of 5")
    # The keyboard is where the next reply is scored.
    wait.until(lambda _: page.execute_script("return !!document.activeElement.closest('.dk')"))
    page.switch_to.active_element.send_keys("1 1 1 1 1 1 1n")
    reached("Reply 3 of 5")


def test_a_person_rates_replies_at_the_desk(lab, whole):
    """Two replies are rated, one with the mouse and one with the keyboard, and both are in the store."""
    seen = _see(lab, "03_rate_answers", then=_rate_two_replies)
    assert "0 finished ratings by 0 raters, 0 unfinished" in seen.text
    with Study.load(whole) as study:
        frame = human_frame(study.store, study.runs(), study.plan.rubric.digest)
        round_ = open_round(study.plan, study.store, "me")
    assert frame["run_id"].tolist() == [reply.run_id for reply in round_.replies[:2]]
    assert frame[[*DIMENSIONS]].values.tolist() == [[*map(int, SCORES)], [1] * 7]
    assert frame.loc[0, "reasons"] == "short <b>but</b> right"


def test_an_error_and_hostile_text_are_seen_as_they_are(lab):
    """Markup, formulas and escapes of a model show as text; an error of the toolkit is one line and ends the run."""
    sources = (
        "from toolkit.report.show import need_results, print_text",
        r"print_text('<script>document.title = 1</script> $x^2$ \x1b[31mred')",
        "need_results({'study': 'empty', 'done': 0})",
        "print('never reached')",
    )
    path = write_notebook(lab.root / "hostile.ipynb", *sources, tag=None)
    seen = browser.run_notebook(lab, path, lab.root / "hostile.png")
    assert seen.errors == (
        "NothingToShow: study empty: no run has succeeded yet; run `make demo`, or `toolkit run` with your study file, "
        "in a shell first",
    )
    assert seen.text == "<script>document.title = 1</script> $x^2$ red\n"
    assert seen.cells[3]["count"] is None
    assert seen.title != "1"
