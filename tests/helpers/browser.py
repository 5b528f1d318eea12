"""Drive a notebook in the real JupyterLab with headless Chromium: open, "Run All Cells", wait, look."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

import toolkit

NEWS = "@jupyterlab/apputils-extension:announcements"
CHROMIUM = ("google-chrome", "chromium-browser", "chromium")
CHROMEDRIVER = ("chromedriver",)
WINDOW = (1400, 1000)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1"),
)

_STARTED = "return !!window.jupyterapp && !!document.querySelector('[role=menubar] .lm-MenuBar-itemLabel')"
# What a double click in the file browser does.
_OPEN = "window.jupyterapp.commands.execute('docmanager:open', {path: arguments[0], factory: 'Notebook'});"
# What "Close and Shut Down Notebook" does, without the question whether to save it.
_CLOSE = """
const done = arguments[arguments.length - 1];
const widget = window.jupyterapp.shell.currentWidget;
widget.sessionContext.shutdown().then(() => {
  widget.context.model.dirty = false;
  widget.close();
  done();
});
"""
# What the page knows of the notebook; --expose-app-in-browser makes `jupyterapp` known to it.
_NOTEBOOK = """
const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
if (!widget || !widget.context || !widget.content || !widget.content.widgets) return null;
const kernel = widget.sessionContext.session && widget.sessionContext.session.kernel;
return {
  path: widget.context.path,
  ready: widget.context.isReady && !!kernel,
  status: kernel ? kernel.status : null,
  cells: widget.content.widgets.map(cell => {
    const model = cell.model.sharedModel.toJSON();
    return {
      id: model.id || cell.model.id, type: model.cell_type, source: model.source,
      count: cell.model.executionCount ?? null,
      outputs: model.cell_type === "code" ? cell.model.outputs.toJSON() : []
    };
  })
};
"""


@dataclass(frozen=True)
class NotebookInBrowser:
    """What JupyterLab held after "Run All Cells"."""

    cells: tuple[dict[str, Any], ...]
    errors: tuple[str, ...]
    """``NAME: message`` of every output of an error, in the order of the cells."""
    text: str
    """All text that the cells printed."""
    images: int
    """How many pictures the cells show."""
    title: str
    """Of the window: JupyterLab's own, unless a cell got hold of it."""
    screenshot: Path


@dataclass(frozen=True)
class Lab:
    """One JupyterLab and one window of a browser, for as many notebooks as there are below its folder."""

    page: webdriver.Chrome
    base: str
    token: str
    root: Path

    def kernels(self):
        """Return the identities of the kernels that run."""
        with urllib.request.urlopen(f"{self.base}/api/kernels?token={self.token}", timeout=10) as reply:
            return [kernel["id"] for kernel in json.load(reply)]


@contextlib.contextmanager
def open_jupyterlab(root):
    """Start JupyterLab on a folder and open it in headless Chromium; both end with the block, kernels too."""
    chromium, driver = _need("chromium", CHROMIUM), _need("chromium-driver", CHROMEDRIVER)
    with (
        tempfile.TemporaryDirectory(prefix="jupyterlab-", ignore_cleanup_errors=True) as scratch,
        _jupyterlab(root, Path(scratch)) as (base, token),
        _browser(chromium, driver, Path(scratch)) as page,
    ):
        page.get(f"{base}/lab?token={token}&reset")
        _wait(lambda: page.execute_script(_STARTED), 240, "JupyterLab did not start in the browser")
        yield Lab(page, base, token, root)


def run_notebook(
    lab,
    notebook,
    screenshot,
    *,
    timeout=300.0,
    then=None,
):
    """Open a notebook below the lab's folder, choose Run > Run All Cells, and return what a person would see.

    It is never saved, and its kernel is shut down; ``then`` is what the person does when all cells have run, before
    the picture of the whole notebook is taken. `RuntimeError` where the run does not come to its end in time.
    """
    page = lab.page
    screenshot.parent.mkdir(parents=True, exist_ok=True)
    page.set_window_size(*WINDOW)
    name = notebook.relative_to(lab.root).as_posix()
    page.execute_script(_OPEN, name)
    _wait(lambda: _is_ready(page, name), 240, "JupyterLab opened no kernel for the notebook")
    try:
        _choose(page, "Run", "Run All Cells")
        _wait(lambda: _finished(_state(page)), timeout, "the cells did not come to their end")
        if then is not None:
            then(page)
        state = _state(page)
        if state is None:
            raise RuntimeError("JupyterLab lost the notebook")
        _photograph(page, screenshot)
        return _summary(state["cells"], page.title, screenshot)
    finally:
        page.execute_async_script(_CLOSE)


def scroll_to(page, source):
    """Bring the cell whose text begins so into the window, as a person would; others are not even drawn."""
    page.execute_script(
        "const book = window.jupyterapp.shell.currentWidget.content;"
        "const at = book.widgets.findIndex(c => c.model.sharedModel.getSource().startsWith(arguments[0]));"
        "book.activeCellIndex = at; return book.scrollToItem(at, 'start');",
        source,
    )


def _need(package, names):
    for name in reversed(names):
        if found := shutil.which(name):
            return found
    raise RuntimeError(f"{names[-1]} is not installed, and this test needs it: apt-get install {package}")


@contextlib.contextmanager
def _jupyterlab(root, scratch):
    """Start JupyterLab on a free port of this machine, with its own settings; stop it with its kernels."""
    token = secrets.token_hex(16)
    page_config = scratch / "config" / "labconfig" / "page_config.json"
    page_config.parent.mkdir(parents=True)
    # No question about news over the notebook, and no request to the network.
    page_config.write_text(json.dumps({"disabledExtensions": {NEWS: True}}))
    folders = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }  # fmt: skip
    environment = {**os.environ, **{name: str(scratch / folder) for name, folder in folders.items()}}
    environment["JUPYTER_TOKEN"] = token
    environment["JUPYTER_CONFIG_PATH"] = str(
        Path(toolkit.__file__).parent / "viewer"
    )  # as `toolkit lab` has it
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={20_000 + secrets.randbelow(10_000)}",
        "--ServerApp.port_retries=50",
        f"--ServerApp.root_dir={root}", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    ]  # fmt: skip
    log = scratch / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        # It says itself which port it has: whoever looks for a free one beforehand may find it taken by then.
        told = scratch / "runtime" / f"jpserver-{server.pid}.json"
        try:
            _wait(lambda: server.poll() is not None or _answers(_base(told), token), 120, "")
        except RuntimeError as late:
            raise RuntimeError(
                f"JupyterLab did not answer within 120 s: {log.read_text(errors='replace')[-800:]}"
            ) from late
        if server.poll() is not None:
            raise RuntimeError(
                f"JupyterLab ended with exit code {server.returncode}: {log.read_text(errors='replace')[-800:]}"
            )
        yield _base(told), token
    finally:
        server.terminate()  # it ends its kernels first
        try:
            server.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _base(told):
    """Return the address that JupyterLab notes once it listens; empty before."""
    try:
        return f"http://127.0.0.1:{json.loads(told.read_text())['port']}"
    except (OSError, ValueError):
        return ""


def _answers(base, token):
    if not base:
        return False
    try:
        with urllib.request.urlopen(f"{base}/api/status?token={token}", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextlib.contextmanager
def _browser(chromium, driver, scratch):
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--window-size={WINDOW[0]},{WINDOW[1]}", f"--user-data-dir={scratch / 'profile'}"):
        options.add_argument(flag)
    page = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    try:
        yield page
    finally:
        page.quit()


def _choose(page, menu, item):
    """Click an item of the menu bar as a person does."""
    wait = WebDriverWait(page, 120)
    bar = f"//*[@role='menubar']//*[contains(@class,'lm-MenuBar-itemLabel') and normalize-space()='{menu}']"
    entry = f"//*[contains(@class,'lm-Menu-itemLabel') and normalize-space()='{item}']"
    wait.until(expected_conditions.element_to_be_clickable((By.XPATH, bar))).click()
    wait.until(expected_conditions.element_to_be_clickable((By.XPATH, entry))).click()


def _state(page):
    return page.execute_script(_NOTEBOOK)


def _is_ready(page, name):
    state = _state(page)
    return state is not None and state["path"] == name and state["ready"]


def _finished(state):
    if state is None:
        return False
    if state["status"] in ("dead", "terminating", "autorestarting"):
        raise RuntimeError(f"the kernel is {state['status']}")
    code = [cell for cell in state["cells"] if cell["type"] == "code" and cell["source"].strip()]
    stopped = any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
    return state["status"] == "idle" and (stopped or all(cell["count"] for cell in code))


def _wait(reached, seconds, otherwise):
    """Wait until something holds twice in a row, so that no moment between two messages counts."""
    end, times = time.monotonic() + seconds, 0
    while times < 2:
        if time.monotonic() > end:
            raise RuntimeError(f"{otherwise} within {seconds:.0f} s")
        times = times + 1 if reached() else 0
        time.sleep(0.15)


def _photograph(page, screenshot):
    """Make the window as tall as the notebook, so that one picture shows all of it."""
    before = -1
    for _ in range(8):  # cells further down get their height when they come into the window
        height = page.execute_script(
            "const top = document.querySelector('.jp-WindowedPanel-inner').getBoundingClientRect().top;"
            "const cells = [...document.querySelectorAll('.jp-WindowedPanel-inner .jp-Cell')];"
            "return Math.max(0, ...cells.map(cell => cell.getBoundingClientRect().bottom - top));"
        )
        if height == before:
            break
        before = height
        page.set_window_size(WINDOW[0], min(16000, max(900, int(height) + 320)))
        page.execute_script("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0;")
        time.sleep(0.4)
    page.save_screenshot(str(screenshot))


def _summary(cells, title, screenshot):
    outputs = [output for cell in cells for output in cell["outputs"]]
    errors = tuple(f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error")
    text = "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")
    data = [output.get("data", {}) for output in outputs]
    images = sum("image/png" in shown or "<img " in "".join(shown.get("text/html", "")) for shown in data)
    return NotebookInBrowser(tuple(cells), errors, text, images, title, screenshot)
