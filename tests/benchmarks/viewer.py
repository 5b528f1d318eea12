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
import time
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
const [root, quiet] = arguments;
const tv = window.tv = {from: 0, last: 0, root};
tv.begin = () => { tv.last = 0; tv.from = performance.now(); };
for (const kind of ["keydown", "mousedown", "input", "change"])
  addEventListener(kind, () => { if (!tv.last) tv.from = performance.now(); }, true);
tv.count = () => (root.querySelector(".tv-said b") || {}).textContent || "";
tv.said = () => (root.querySelector(".tv-said") || {}).textContent || "";
tv.run = () => [...root.querySelectorAll(".tv-read h2")].map(one => one.textContent).join("|");
new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => { tv.last = performance.now(); })))
  .observe(root, {subtree: true, childList: true, characterData: true});
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
    """What a person does with one viewer, timed."""

    def __init__(self, page: webdriver.Chrome, root: Any) -> None:
        self.page, self.root = page, root
        page.set_script_timeout(600)
        page.execute_script(_WATCH, root, QUIET)
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

    def find(self, selector: str) -> Any:
        """Return an element of the viewer."""
        return self.root.find_element(By.CSS_SELECTOR, selector)

    def write(self, label: str, *keys: str) -> None:
        """Type into an input, and nothing of what stood there stays."""
        self.find(f"[aria-label='{label}']").send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE, *keys)

    def key(self, key: str) -> None:
        """Type a key into the table."""
        self.find(".tv-left > :not([hidden])").send_keys(key)


def use(hand: Hand, runs: int, count: int) -> None:
    """Filter, sort, search, step, compare, look at the matrix."""
    every = f"tv.count().startsWith('{runs:,} of {runs:,} runs') && !tv.count().includes('·')"
    bins = Select(hand.find("[aria-label='Filter by bin']"))
    hand.time("filter: bin M", lambda: bins.select_by_visible_text("M"), "tv.count().endsWith('bin M')")
    hand.time("filter: all bins", lambda: bins.select_by_visible_text("all"), every)
    hand.time("filter: SD >= 0.5", lambda: hand.write("Filter by SD", "0.5"), "/SD 0.5$/.test(tv.count())")
    hand.time("filter: any SD", lambda: hand.write("Filter by SD"), every)
    for _ in range(2):
        hand.time("sort by composite", hand.find("th.tv-c-composite button").click, every)
    find = "Find in prompt, reply or id"
    there = "/with .%s. in it$/.test(tv.count())"
    hand.time("first search", lambda: hand.write(find, "memory"), there % "memory", limit=False)
    hand.time(
        "second search, with 300 ms of waiting",
        lambda: hand.write(find, "zebra"),
        there % "zebra",
        limit=False,
    )
    hand.time("search taken back", lambda: hand.write(find), every, limit=False)
    for key, words in ((Keys.ARROW_DOWN, "next by key"), ("p", "previous by key")):
        hand.keep(words, *(_key(hand, key) for _ in range(count - (key == "p"))))
    hand.time("compare", lambda: hand.key("c"), "/stays at the side/.test(tv.said())")
    hand.keep("next, side by side", *(_key(hand, "n") for _ in range(5)))
    hand.time("compare no more", lambda: hand.key("c"), "!/side by side/.test(tv.run())")
    hand.time(
        "matrix", lambda: hand.key("m"), "root.querySelector('.tv-matrix td')".replace("root", "tv.root")
    )
    hand.time("table", lambda: hand.key("m"), every)


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
    hand_rows = [Taken("cells before the viewer, with imports", (sum(before),), limit=False)]
    print(hand_rows[0], flush=True)
    started = time.perf_counter()
    page.execute_async_script(_RUN, view)
    root = "return window.jupyterapp.shell.currentWidget.content.widgets[arguments[0]].node.querySelector('.tv-app')"
    ready = f"const root = (() => {{ {root} }})(); return root && root.querySelector('.tv-list td') && root"
    while not (found := page.execute_script(ready, view)):
        time.sleep(0.02)
    hand = Hand(page, found)
    hand.rows += hand_rows
    hand.keep("first table", 1000 * (time.perf_counter() - started), limit=False)
    print(memory(page))
    page.save_screenshot(str(pictures / "table.png"))
    use(hand, runs, count)
    page.save_screenshot(str(pictures / "used.png"))
    hand.time(
        f"export of {runs:,} runs", lambda: hand.key("e"), "/runs on one page/.test(tv.said())", limit=False
    )
    written = Path(page.execute_script("return tv.said()").split("on one page: ")[1])
    print(memory(page))
    started = time.perf_counter()
    page.get(written.as_uri())
    while not page.execute_script("return document.querySelector('.tv-run')"):
        time.sleep(0.02)
    hand.keep(
        f"page of {written.stat().st_size / 1e6:.1f} MB", 1000 * (time.perf_counter() - started), limit=False
    )
    on_page = Hand(page, page.find_element(By.TAG_NAME, "main"))
    use(on_page, runs, count)
    print(memory(page))
    return [*hand.rows, *on_page.rows]


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
