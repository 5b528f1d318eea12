"""Build the documentation site in ``build/docs``: generated pages, executed notebooks, then Sphinx.

Run by ``make docs``. Warnings of Sphinx are errors, and so is a link that leads nowhere. Notebooks run on a planted
study that is made anew below ``build/docs_study``: one of an earlier day may be of another version of the dataset.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import nbformat
import reference_pages
from nbclient import NotebookClient
from nbformat import NotebookNode

from toolkit import Study
from toolkit.batch.engine import new_manager
from toolkit.store import embedded

ROOT: Final = Path(__file__).resolve().parents[1]
GENERATED: Final = ROOT / "docs" / "generated"
STUDY: Final = ROOT / "build" / "docs_study"
SITE: Final = ROOT / "build" / "docs"
ANALYSES: Final = ("cost_quality", "judge_reliability", "prompt_length")
"""Templates that are shown beside the notebooks, with the planted study as their parameter."""
NOT_RUN: Final = (
    "*This notebook is shown without results: it asks for the study of `toolkit demo`, which a language model on your "
    "own machine answers. `toolkit lab` opens it.*"
)


def needs_a_model(book: NotebookNode) -> bool:
    """Return whether the code of a notebook asks for the demo study, which only a model can answer."""
    return any("demo.toml" in cell.source for cell in book.cells if cell.cell_type == "code")


def write_notebooks() -> None:
    """Run every notebook that needs no model on the planted study; the others say that they were not run."""
    for name in ("notebooks", "templates"):
        shutil.copytree(ROOT / name, STUDY / name, dirs_exist_ok=True)
    with Study.load(STUDY / "templates" / "planted.toml") as study:
        study.run(progress=False)
    for path in (
        *sorted(STUDY.glob("notebooks/*.ipynb")),
        *(STUDY / f"templates/{name}.ipynb" for name in ANALYSES),
    ):
        book, folder = nbformat.read(path, 4), path.parent
        if path.stem in ANALYSES:
            folder = STUDY
            for cell in book.cells:
                if "parameters" in cell.metadata.get("tags", ()):
                    cell.source = cell.source.replace("demo.toml", "planted.toml")
        if needs_a_model(book):
            book.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_RUN))
        else:
            where = {"metadata": {"path": str(folder)}}
            client = NotebookClient(book, km=new_manager("python3"), timeout=600, resources=where)
            client.execute(cleanup_kc=True)
        text = nbformat.writes(book).replace(f"{STUDY}/", "")  # the site names no folder of this machine
        (GENERATED / "notebooks" / path.name).write_text(text, encoding="utf-8")


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
    return subprocess.run([sys.executable, *sphinx, str(ROOT / "docs"), str(SITE)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
