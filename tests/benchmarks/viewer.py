"""Milliseconds from a person's hand to the picture: the viewer over 10,000 runs in JupyterLab in headless Chromium.

    python tests/benchmarks/viewer.py [--runs 10000] [--steps 20] [--keep FOLDER] [--pictures FOLDER]

The notebook is `notebooks/02_read_answers.ipynb` over the store of `frames.py`. Real clicks and keys are sent; the page
itself takes the time from the event to the frame in which the last thing of the viewer has changed. The load of the
machine is printed with the numbers, because three processes work for each step: browser, kernel and store.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import browser
import psutil
from frames import filled, frames_study
from gateway import Limit, surroundings
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

ASKED_TABLE = 3.0  # seconds until the first table
ASKED_STEP = 200.0  # milliseconds for a step or a filter
NOTEBOOK: Final = Path(__file__).resolve().parents[2] / "notebooks" / "02_read_answers.ipynb"
STUDY: Final = """
name = "frames"
output = "results/frames"
repeats = {repeats}
models = [{{ name = "scripted" }}]

[judges]
primary = {{ name = "judge-a", provider = "scripted" }}
secondary = {{ name = "judge-b", provider = "scripted" }}
tertiary = {{ name = "judge-c", provider = "scripted" }}
"""
"""The study of `frames.frames_study` as a file, because a notebook loads one."""
QUIET: Final = 250
"""Milliseconds without a change after which the last one was the last."""
_RUN: Final = """
const done = arguments[arguments.length - 1], book = window.jupyterapp.shell.currentWidget.content;
const [at] = arguments;
book.activeCellIndex = at;
book.scrollToItem(at, "start").then(() => {
  const started = performance.now();
  window.jupyterapp.commands.execute("notebook:run-cell").then(() => done(performance.now() - started));
});
"""
_WATCH: Final = """
const [at, quiet] = arguments, cell = window.jupyterapp.shell.currentWidget.content.widgets[at].node;
const tv = window.tv = {from: 0, last: 0, cell};
tv.begin = () => { tv.last = 0; tv.from = performance.now(); };
for (const kind of ["keydown", "mousedown", "input", "change"])
  addEventListener(kind, () => { if (!tv.last) tv.from = performance.now(); }, true);
tv.text = () => (cell.querySelector(".tv-runs") || {}).textContent || "";
tv.count = () =>
  [...cell.querySelectorAll(".tv")].map(one => one.textContent).find(one => / runs, page /.test(one)) || "";
tv.run = () => [...cell.querySelectorAll(".tv h2, .tv th")].map(one => one.textContent).join("|");
tv.all = () => cell.textContent;
new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => { tv.last = performance.now(); })))
  .observe(cell, {subtree: true, childList: true, characterData: true});
tv.until = (reached, done) => {
  const look = () => {
    if (tv.last > tv.from && performance.now() - tv.last > quiet && reached()) done(tv.last - tv.from);
    else setTimeout(look, 20);
  };
  look();
};
"""


@dataclass(frozen=True)
class Taken:
    """What was done, and the milliseconds of each time."""

    what: str
    times: tuple[float, ...]
    limit: bool = True

    def __str__(self) -> str:
        """Return a row of the table."""
        return f"{self.what:<44}{len(self.times):>6}{median(self.times):>9.0f}{max(self.times):>9.0f}"


class Hand:
    """What a person does with the viewer of one cell, timed."""

    def __init__(self, page: webdriver.Chrome, place: int) -> None:
        self.page = page
        page.set_script_timeout(60)
        page.execute_script(_WATCH, place, QUIET)
        self.rows: list[Taken] = []

    def until(self, reached: str) -> float:
        """Wait for a condition and until nothing changes any more; return milliseconds since the last key or click."""
        script = f"const done = arguments[arguments.length - 1]; tv.until(() => ({reached}), done);"
        return float(self.page.execute_async_script(script))

    def time(self, what: str, act: Callable[[], object], reached: str, *, limit: bool = True) -> None:
        """Do something until something holds, and keep how long it took."""
        self.page.execute_script("tv.begin()")
        act()
        self.keep(what, self.until(reached), limit=limit)

    def keep(self, what: str, *times: float, limit: bool = True) -> None:
        """Keep a row and print it."""
        self.rows.append(Taken(what, times, limit))
        print(self.rows[-1], flush=True)

    def find(self, path: str) -> Any:
        """Return an element of the cell."""
        cell = self.page.execute_script("return tv.cell")
        return cell.find_element(By.XPATH, f".{path}")

    def labelled(self, label: str, tag: str) -> Any:
        """Return the control with a label."""
        return self.find(f'//label[normalize-space()="{label}"]/following-sibling::{tag}')

    def choose(self, label: str, option: str) -> None:
        """Choose an option."""
        Select(self.labelled(label, "select")).select_by_visible_text(option)

    def write(self, label: str, *keys: str) -> None:
        """Type into an input, and nothing of what stood there stays."""
        self.labelled(label, "input").send_keys(Keys.CONTROL, "a", Keys.NULL, *keys)

    def key(self, key: str) -> None:
        """Type a key where the viewer takes them."""
        self.labelled("Keys", "input").send_keys(key)

    def press(self, words: str) -> None:
        """Press a button."""
        self.find(f"//button[normalize-space()='{words}']").click()


def filters(hand: Hand, runs: int) -> None:
    """Change every filter once and take it back."""
    every = f"/^{runs:,} of /.test(tv.count())"
    for label, option, words in (
        ("Length bin", "M", "length bin M"),
        ("Scenario", "CTI_ANALYSIS", "scenario CTI_ANALYSIS"),
        ("Judged", "no", "not judged"),
        ("Rated by people", "yes", "rated by people"),
    ):
        hand.time(f"{label}: {option}", lambda: hand.choose(label, option), f"tv.count().endsWith('{words}')")  # noqa: B023
        hand.time(f"{label}: all", lambda: hand.choose(label, "all"), every)  # noqa: B023
    hand.time("sort by composite", lambda: hand.choose("Sort by", "composite"), every)
    box = hand.find("//label[contains(.,'largest first')]//input")
    hand.time("largest first", box.click, every)
    hand.time("largest first, taken back", box.click, every)
    hand.time("sort by model and prompt", lambda: hand.choose("Sort by", "model and prompt"), every)
    for label, some, none, words in (
        ("Composite at least", "0.1", "0", "composite 0.1 to 5"),
        ("Judges' SD at least", "0.5", "0", "at least 0.5"),
    ):
        there = f"/{words}/.test(tv.count())"
        hand.time(f"{label} {some}", lambda: hand.write(label, some, Keys.ENTER), there)  # noqa: B023
        hand.time(f"{label} {none}", lambda: hand.write(label, none, Keys.ENTER), every)  # noqa: B023
    there = "/with '%s' in it$/.test(tv.count())"
    hand.time("first search", lambda: hand.write("Text", "memory", Keys.ENTER), there % "memory", limit=False)
    hand.time("second search", lambda: hand.write("Text", "9 isolate", Keys.ENTER), there % "9 isolate")
    hand.time("search that finds nothing", lambda: hand.write("Text", "zebra", Keys.ENTER), there % "zebra")
    hand.time("search taken back", lambda: hand.write("Text", Keys.BACKSPACE, Keys.ENTER), every)


def steps(hand: Hand, count: int) -> None:
    """Turn pages, open runs, step by keys, compare."""
    page = "/page %s of/.test(tv.count())"
    hand.time("next page", lambda: hand.press("Next page"), page % "2")
    hand.time("last page", lambda: hand.press("Last page"), "!/page 2 of/.test(tv.count())")
    hand.time("first page", lambda: hand.press("First page"), page % "1")
    hand.time("open a run", lambda: hand.press("3"), "/repeat/.test(tv.run())")
    for key, words in (("n", "next by key"), ("p", "previous by key")):
        times = [_key(hand, key) for _ in range(count)]
        hand.keep(words, *times)
    hand.time("compare", lambda: hand.key("c"), "/stays at the side/.test(tv.all())")
    hand.keep("next, side by side", *(_key(hand, "n") for _ in range(5)))
    hand.time("compare no more", lambda: hand.key("c"), "!/side by side/.test(tv.run())")
    hand.choose("Length bin", "S")
    hand.until("/length bin S$/.test(tv.count())")
    hand.time("export of too many", lambda: hand.key("e"), "/takes 1 to 500/.test(tv.all())", limit=False)
    hand.write("Text", "99 isolate", Keys.ENTER)
    hand.until("/99 isolate/.test(tv.count())")
    export = "/runs on one page/.test(tv.all())"
    hand.time(f"export of {_found(hand)} runs", lambda: hand.key("e"), export, limit=False)
    hand.write("Text", "9 isolate", Keys.ENTER)
    hand.until("/with '9 isolate/.test(tv.count())")
    hand.time(f"export of {_found(hand)} runs", lambda: hand.key("e"), export, limit=False)


def _found(hand: Hand) -> str:
    return str(hand.page.execute_script("return tv.count()").split(" of ")[0])


def _key(hand: Hand, key: str) -> float:
    before = hand.page.execute_script("tv.begin(); return tv.run()")
    hand.key(key)
    return hand.until(f"tv.run() !== {before!r}")


def memory(page: webdriver.Chrome) -> Mapping[str, float]:
    """Return what kernel and page take now, in MB."""
    page.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    page.execute_cdp_cmd("Performance.enable", {})
    metrics = {
        one["name"]: one["value"] for one in page.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    }
    found = {"page's heap": metrics["JSHeapUsedSize"] / 1e6, "nodes of the page": metrics["Nodes"]}
    for process in psutil.Process().children(recursive=True):
        line = " ".join(process.cmdline())
        if "ipykernel" in line:
            found["kernel"] = process.memory_info().rss / 1e6
        elif "--type=renderer" in line:
            found["renderer"] = max(found.get("renderer", 0), process.memory_info().rss / 1e6)
    return found


def measure(lab: browser.Lab, notebook: Path, runs: int, count: int, pictures: Path) -> list[Taken]:
    """Run the notebook cell by cell, use its viewer, and return what each took."""
    page = lab.page
    page.set_script_timeout(60)
    page.set_window_size(*browser.WINDOW)
    page.execute_script(browser._OPEN, notebook.name)
    browser._wait(lambda: browser._is_ready(page, notebook.name), 90, "no kernel")
    cells = [cell["source"] for cell in browser._state(page)["cells"]]
    places = [
        n
        for n, source in enumerate(cells)
        if source
        and page.execute_script(
            "return window.jupyterapp.shell.currentWidget.content.widgets[arguments[0]].model.type", n
        )
        == "code"
    ]
    view = cells.index("s.view()")
    before = [page.execute_async_script(_RUN, n) for n in places if n < view]
    print(f"{'what':<44}{'times':>6}{'median':>9}{'most':>9}   (ms)", flush=True)
    hand = Hand(page, view)
    hand.keep("cells before the viewer, with imports", sum(before), limit=False)
    page.execute_script("tv.begin()")
    page.execute_async_script(_RUN, view)
    hand.keep("first table", hand.until("tv.text() !== ''"), limit=False)
    print(memory(page))
    page.save_screenshot(str(pictures / "table.png"))
    filters(hand, runs)
    steps(hand, count)
    page.save_screenshot(str(pictures / "used.png"))
    print(memory(page))
    rest = [(cells[n].split("\n")[0], page.execute_async_script(_RUN, n)) for n in places if n > view]
    for words, took in rest:
        hand.keep(f"cell: {words}"[:42], took, limit=False)
    return hand.rows


def rated(folder: Path, runs: int) -> None:
    """Have somebody rate three replies of a round that goes on, so that the viewer asks what is hidden."""
    from toolkit.people.rating import open_round, rate
    from toolkit.words import DIMENSIONS

    study = frames_study(folder, runs)
    round_ = open_round(study.plan, study.store, "anna", size=12)
    for reply in round_.replies[:3]:
        round_ = rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, 3.0))
    study.store.close()


def main() -> None:
    """Measure, print the table and the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="folder of a store to use again")
    parser.add_argument("--pictures", type=Path, help="folder for screenshots")
    options = parser.parse_args()
    print(f"{options.runs} runs, three judges each; load {os.getloadavg()[0]:.1f}; {surroundings()}")
    with filled(options.keep, options.runs) as folder, tempfile.TemporaryDirectory() as temporary:
        rated(folder, options.runs)
        (folder / "frames.toml").write_text(STUDY.format(repeats=-(-options.runs // 36)))
        notebook = Path(shutil.copy(NOTEBOOK, temporary))
        source = notebook.read_text(encoding="utf-8")
        notebook.write_text(source.replace("../templates/demo.toml", str(folder / "frames.toml")))
        pictures = options.pictures or Path(temporary)
        with browser.open_jupyterlab(notebook.parent) as lab:
            rows = measure(lab, notebook, options.runs, options.steps, pictures)
    slowest = max((row for row in rows if row.limit), key=lambda row: median(row.times))
    first = next(row for row in rows if row.what == "first table")
    print("", Limit("first table", first.times[0] / 1000, ASKED_TABLE, "s"), sep="\n")
    print(Limit(f"slowest step or filter ({slowest.what})", median(slowest.times), ASKED_STEP, "ms"))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
