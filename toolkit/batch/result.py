"""The result of a batch: a row for each notebook, as a frame, a CSV and a summary notebook that links to all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolkit.batch.cell import COMPLETED, STATUSES, CellResult
from toolkit.files import write_atomically
from toolkit.runs.progress import duration
from toolkit.table_files import csv_bytes
from toolkit.words import RESULT_TYPE, Summary, counted, one_line

if TYPE_CHECKING:
    import pandas as pd

CSV_NAME = "summary.csv"
NOTEBOOK_NAME = "summary.ipynb"
RESULTS_NAME = "results.csv"
LONGEST = 120  # characters of a parameter that the summary shows
_EXPLAINED = (
    "A notebook is *done* when every cell ran; *failed* when a cell raised an error; *timeout* when it or one of its "
    "cells took too long; *dead kernel* when its Python process died; *exited* when it left by `sys.exit()` before its "
    "end. Failed ones are kept, and run again with `--retry`."
)
_UNCHANGED = "the template, its parameters, the toolkit and the files that they name are the same"
_STORE = {
    True: f"{_UNCHANGED}, and so is what the store holds of their studies",
    False: f"{_UNCHANGED}; what the store holds does not count, for this template asks for what is missing itself",
}
"""The condition under which a notebook is already done; see `toolkit.batch.plan`."""


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
        return int(any(cell.status != COMPLETED for cell in self.cells))

    def _named(self) -> Iterator[tuple[CellResult, dict[str, Any]]]:
        """Yield each cell with the columns that name it."""
        for number, cell in enumerate(self.cells, 1):
            yield (
                cell,
                {"cell": number} | {f"parameter_{name}": value for name, value in cell.parameters.items()},
            )

    def to_frame(self) -> pd.DataFrame:
        """Return one row a cell of the grid."""
        import pandas as pd

        frame = pd.DataFrame([columns | asdict(cell) for cell, columns in self._named()])
        return frame.drop(columns=["parameters", "attempts", "process"]).astype({"seconds": "float64"})

    def results(self) -> pd.DataFrame:
        """Return the rows that notebooks gave to `toolkit.result`, beside the parameters of each cell."""
        import pandas as pd

        rows = []
        for cell, columns in self._named():
            if cell.status == COMPLETED:
                content = json.loads((self.folder / cell.notebook).read_text(encoding="utf-8"))
                for output in chain.from_iterable(
                    part.get("outputs", ()) for part in content.get("cells", ())
                ):
                    rows += [columns | row for row in output.get("data", {}).get(RESULT_TYPE, ())]
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
        lines = [self.sentence()]
        for cell in self.cells:
            if cell.status != COMPLETED:
                arguments = ", ".join(f"{name}={_brief(value)}" for name, value in cell.parameters.items())
                lines.append(f"{cell.status}  {arguments or '(no parameters)'}: {cell.error}")
        if self.already_done:
            lines.append(f"already done  {self.already_done}: {_STORE[self.reads_store]}")
        lines.append(f"summary  {self.folder / NOTEBOOK_NAME}")
        if any(cell.status != COMPLETED and not cell.ran for cell in self.cells):
            lines.append("failed ones are run again with --retry (in Python: retry=True)")
        return Summary(self.to_dict(), "\n".join(lines), self.exit_code)

    def write(self) -> tuple[Path, Path]:
        """Write the summary as CSV and as a notebook, and return both files; results are written beside them."""
        results = self.results()
        (self.folder / RESULTS_NAME).unlink(missing_ok=True)
        if len(results):
            write_atomically(self.folder / RESULTS_NAME, csv_bytes(results))
        notebook = self._notebook(with_results=bool(len(results))).encode()
        table = write_atomically(self.folder / CSV_NAME, csv_bytes(self.to_frame()))
        return table, write_atomically(self.folder / NOTEBOOK_NAME, notebook)

    def _notebook(self, *, with_results: bool) -> str:
        from nbformat import v4, writes

        names = list(dict.fromkeys(name for cell in self.cells for name in cell.parameters))
        head = ["cell", *names, "status", "seconds", "what ended it", "notebook"]
        rows = [head, ["---"] * len(head)]
        for number, cell in enumerate(self.cells, 1):
            link = f"[open](<{quote(cell.notebook)}>)" if cell.notebook else ""
            seconds = "" if cell.seconds is None else f"{cell.seconds:.1f}"
            arguments = [_text(_brief(cell.parameters.get(name, ""))) for name in names]
            rows.append([str(number), *arguments, cell.status, seconds, _text(cell.error), link])
        # Names of parameters are names of Python; everything else is made text.
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        cells = [
            v4.new_markdown_cell(
                f"# Batch of {_text(self.template)}\n\n"
                "**Question: which notebooks came to their end, and what ended the others?**\n\n"
                f"{self.sentence(_text(self.template))}.\n\n{_EXPLAINED} "
                f"A notebook is not run again when {_STORE[self.reads_store]}."
            ),
            v4.new_markdown_cell(table),
            v4.new_code_cell(
                "# The same as a frame, to sort and filter.\nimport pandas as pd\n\n"
                "from toolkit.table_files import frame_of_csv\n\n"
                'pd.set_option("display.html.use_mathjax", False)  # an error may quote a "$"\n'
                f'frame = frame_of_csv("{CSV_NAME}")\nframe[frame.status != "{COMPLETED}"]'
            ),
        ]
        if with_results:
            cells += [
                v4.new_markdown_cell(
                    "## What the notebooks found\n\nThe rows that each gave to `toolkit.result`, beside its parameters."
                ),
                v4.new_code_cell(f'results = frame_of_csv("{RESULTS_NAME}")\nresults'),
            ]
        # nbformat draws random ids: the same result must be the same file.
        for number, cell in enumerate(cells):
            cell["id"] = f"summary-{number}"
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        return writes(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def _brief(value: Any) -> str:
    """Return a parameter as text, cut where it is long."""
    return one_line(str(value), LONGEST)


def _text(value: Any) -> str:
    """Return anything as escaped Markdown: an error may quote what a model wrote."""
    text = "".join(sign for sign in " ".join(str(value).split()) if sign.isprintable())
    return re.sub(r"[^\w ,;/-]|_", lambda sign: f"&#{ord(sign[0])};", text)
