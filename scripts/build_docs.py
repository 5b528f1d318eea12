"""Build the documentation site in ``build/docs``: generated pages, executed notebooks, then Sphinx.

Run by ``make docs``. Warnings of Sphinx are errors, and so is a link that leads nowhere. Notebooks run on a planted
study that is made anew below ``build/docs_study``: one of an earlier day may be of another version of the dataset.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import reference_pages
from nbclient import NotebookClient
from nbformat import NotebookNode

from toolkit import Study
from toolkit.batch.engine import new_manager
from toolkit.store import embedded

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "generated"
STUDY = ROOT / "build" / "docs_study"
SITE = ROOT / "build" / "docs"
ANALYSES = ("conditions", "cost_quality", "judge_reliability")
"""Templates that are shown beside the notebooks, with the planted study as their parameter."""
WITH_KERNEL = ("02_read_answers", "03_rate_answers")
"""Notebooks whose viewer and desk talk to a kernel, which a page has not."""
NOT_RUN = "*Shown without results, for this one works with a kernel: `toolkit lab` opens it.*"
PLANTED = "*Shown on the planted study, which no model answered; as it ships, it opens the demo.*"


def on_planted(book: NotebookNode) -> bool:
    """Have the code of a notebook open the planted study where it opens the demo; returns whether it did."""
    cells = [cell for cell in book.cells if cell.cell_type == "code" and "demo.toml" in cell.source]
    for cell in cells:
        cell.source = cell.source.replace("demo.toml", "planted.toml")
    return bool(cells)


def write_notebooks() -> None:
    """Run the notebooks and some templates on the planted study; one that cannot be says so."""
    for name in ("notebooks", "templates"):
        shutil.copytree(ROOT / name, STUDY / name, dirs_exist_ok=True)
    print("docs: running the planted study, then the notebooks, then Sphinx (3 minutes)", flush=True)
    with Study.load(STUDY / "templates" / "planted.toml") as study:
        study.run(progress=False)
    for path in (
        *sorted(STUDY.glob("notebooks/*.ipynb")),
        *(STUDY / f"templates/{name}.ipynb" for name in ANALYSES),
    ):
        book = nbformat.read(path, 4)
        if path.stem in WITH_KERNEL:
            book.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_RUN))
        else:
            if on_planted(book):
                book.cells.insert(1, nbformat.v4.new_markdown_cell(PLANTED))
            # Templates name a study from where toolkit runs, notebooks from where they lie.
            folder = STUDY if path.stem in ANALYSES else path.parent
            where = {"metadata": {"path": str(folder)}}
            client = NotebookClient(book, km=new_manager("python3"), timeout=600, resources=where)
            client.execute(cleanup_kc=True)
        text = nbformat.writes(book).replace(f"{STUDY}/", "")  # the site names no folder of this machine
        (GENERATED / "notebooks" / path.name).write_text(text, encoding="utf-8")
        print(f"docs: ran {path.name}", flush=True)


def stop_stores() -> None:
    """End the servers of the stores below the study, also those of a build that was killed."""
    for store in STUDY.rglob(".store"):
        embedded.stop(store)


def main() -> int:
    """Write what is generated, and return what Sphinx returns."""
    stop_stores()
    for folder in (GENERATED, SITE, STUDY):  # a page that is gone leaves nothing behind
        shutil.rmtree(folder, ignore_errors=True)
    (GENERATED / "notebooks").mkdir(parents=True)
    for name, text in reference_pages.pages().items():
        (GENERATED / name).write_text(text, encoding="utf-8")
    try:
        write_notebooks()
    finally:
        stop_stores()
    sphinx = ["-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(ROOT / "build" / "doctrees")]
    code = subprocess.run([sys.executable, *sphinx, str(ROOT / "docs"), str(SITE)], check=False).returncode
    if not code:
        print(f"docs: {SITE.relative_to(ROOT)}/index.html; `.venv/bin/toolkit docs` opens it")
    return code


if __name__ == "__main__":
    sys.exit(main())
