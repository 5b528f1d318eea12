"""The result of a batch: a row for each notebook, as a frame, a CSV and a summary notebook that links to all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.runs.progress import duration
from toolkit.words import RESULT_TYPE, Summary, counted, template

if TYPE_CHECKING:
    import pandas as pd

QUEUED = "queued"
RUNNING = "running"
COMPLETED = "done"
FAILED = ("failed", "timeout", "dead kernel", "exited")
"""A cell raised an error; a time-out ended it; the kernel died; the notebook called `sys.exit`."""
STATUSES = (QUEUED, RUNNING, COMPLETED, *FAILED)
NOTEBOOK_NAME = "summary.ipynb"
_UNCHANGED = "the template, its parameters, the toolkit and the files that they name are the same"
_STORE = {
    True: f"{_UNCHANGED}, and so is what the store holds of their studies",
    False: f"{_UNCHANGED}; what the store holds does not count, for this template asks for what is missing itself",
}
"""The condition under which a notebook is already done; see `toolkit.batch.plan`."""


@dataclass(frozen=True)
class CellResult:
    """How one cell of the grid stands; ``ran`` is whether the call ran it, ``process`` its host and process."""

    parameters: Mapping[str, Any]
    status: str = QUEUED
    seconds: float | None = None
    error: str = ""
    notebook: str = ""
    ran: bool = False
    attempts: int = 0
    process: str = ""


@dataclass(frozen=True)
class BatchResult:
    """A finished batch: a row for each notebook, as a frame, a CSV and a notebook that links to all."""

    template: str
    folder: Path
    cells: tuple[CellResult, ...]
    seconds: float
    reads_store: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Number of cells by status; statuses without a cell are left out."""
        counter = Counter(cell.status for cell in self.cells)
        return {status: counter[status] for status in STATUSES if counter[status]}

    @property
    def started(self) -> int:
        """Number of notebooks that this call ran."""
        return sum(cell.ran for cell in self.cells)

    @property
    def already_done(self) -> int:
        """Number of notebooks that an earlier call had run."""
        return sum(cell.status == COMPLETED and not cell.ran for cell in self.cells)

    @property
    def exit_code(self) -> int:
        """0 when every cell is done, else 1."""
        return int(set(self.counts) != {COMPLETED})

    def _identified(self) -> Iterator[tuple[dict[str, Any], CellResult]]:
        """Yield the columns that identify each cell, and the cell."""
        for number, cell in enumerate(self.cells, 1):
            parameters = {f"parameter_{name}": value for name, value in cell.parameters.items()}
            yield {"cell": number} | parameters, cell

    def to_frame(self) -> pd.DataFrame:
        """Return one row a cell of the grid."""
        import pandas as pd

        frame = pd.DataFrame([columns | asdict(cell) for columns, cell in self._identified()])
        return frame.drop(columns=["parameters", "attempts", "process"]).astype({"seconds": "float64"})

    def results(self) -> pd.DataFrame:
        """Return the rows that notebooks gave to `toolkit.result`, beside the parameters of each cell."""
        import pandas as pd

        done = [(columns, cell) for columns, cell in self._identified() if cell.status == COMPLETED]
        rows = [
            columns | row
            for columns, cell in done
            for part in json.loads((self.folder / cell.notebook).read_text(encoding="utf-8")).get("cells", ())
            for output in part.get("outputs", ())
            for row in output.get("data", {}).get(RESULT_TYPE, ())
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        counts = {"counts": self.counts, "started": self.started, "already_done": self.already_done}
        return asdict(self) | counts | {"folder": str(self.folder)}

    def sentence(self, template: str = "") -> str:
        """Return the result in one sentence; ``template`` is another name for the template."""
        statuses = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        notebooks = f"{counted(len(self.cells), 'notebooks')} of {template or self.template}"
        return f"{notebooks}: {statuses}; {self.started} run now in {duration(self.seconds)}"

    def summary(self) -> Summary:
        """Return the summary that the command line prints."""
        return Summary(self.to_dict(), str(self._page().lines()), self.exit_code)

    def write(self) -> tuple[Path, Path]:
        """Write the summary as CSV and as a notebook, and return both files; results are written beside them."""
        results, collected = self.results(), self.folder / "results.csv"
        collected.unlink(missing_ok=True)
        if len(results):
            write_atomically(collected, csv_bytes(results))
        table = write_atomically(self.folder / "summary.csv", csv_bytes(self.to_frame()))
        notebook = self._notebook(
            "question", "table", "frame", *("collected", "rows")[: 2 * bool(len(results))]
        )
        return table, write_atomically(self.folder / NOTEBOOK_NAME, notebook.encode())

    def _page(self) -> Any:
        """Return the macros of ``summary.jinja`` for this batch."""
        names = list(dict.fromkeys(name for cell in self.cells for name in cell.parameters))
        values = {"batch": self, "names": names, "rule": _STORE[self.reads_store]}
        return template("batch", "summary.jinja").make_module(values | {"escaped": _escaped, "quoted": quote})

    def _notebook(self, *parts: str) -> str:
        """Return a notebook of parts of the page, of which frame and rows are code."""
        from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

        page, cells = self._page(), []
        for number, part in enumerate(parts):
            new_cell = new_code_cell if part in ("frame", "rows") else new_markdown_cell
            # nbformat draws random ids: the same result must be the same file.
            cells.append(new_cell(getattr(page, part)(), id=f"summary-{number}"))
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        return writes(new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def _escaped(value: Any) -> str:
    """Return anything as escaped Markdown: an error may quote what a model wrote."""
    text = "".join(sign for sign in " ".join(str(value).split()) if sign.isprintable())
    return re.sub(r"[^\w ,;/-]|_", lambda sign: f"&#{ord(sign[0])};", text)
