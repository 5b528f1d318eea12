"""A batch: a template over a grid of parameters, each notebook once, from the first check to the summary."""

from __future__ import annotations

import contextlib
import html
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolkit.batch.plan import cells_of, plan_batch, read_grid
from toolkit.batch.pool import Pool, Processes, connected, run_orders
from toolkit.batch.template import check_parameters
from toolkit.batch.worker import (
    DONE,
    FAILED,
    STATUSES,
    Order,
    Record,
    Reply,
    claim,
    finished,
    read_record,
    write_record,
)
from toolkit.errors import InputError, ToolkitError
from toolkit.files import write_atomically
from toolkit.runs.progress import Progress, duration
from toolkit.words import Summary, counted

if TYPE_CHECKING:
    import pandas as pd

RECORDS = "records"
CSV_NAME = "summary.csv"
NOTEBOOK_NAME = "summary.ipynb"
LONGEST = 120
"""Characters of a parameter that the summary shows."""
_EXPLAINED = (
    "A notebook is *done* when every cell ran; *failed* when a cell raised an error; *timeout* when it or one of its "
    "cells took too long; *dead kernel* when its Python process died; *exited* when it left by `sys.exit()` before its "
    "end. Failed ones are kept, and run again with `--retry`."
)
_SAME = "the template, its parameters, the toolkit and the files that they name are the same"
_STORE = {
    True: f"{_SAME}, and so is what the store holds of their studies",
    False: f"{_SAME}; what the store holds does not count, for this template asks for what is missing itself",
}
"""When a notebook is done already; see `toolkit.batch.plan`."""


@dataclass(frozen=True)
class CellResult:
    """One cell of the grid."""

    parameters: Mapping[str, Any]
    status: str
    seconds: float | None = None
    error: str = ""
    notebook: str = ""
    ran: bool = False


@dataclass(frozen=True)
class BatchResult:
    """A batch that came to its end: a row for each notebook, as a frame, a CSV and a notebook that links to all."""

    template: str
    folder: Path
    cells: tuple[CellResult, ...]
    seconds: float
    reads_store: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many cells have which status; statuses that none has are left out."""
        found = Counter(cell.status for cell in self.cells)
        return {status: found[status] for status in STATUSES if found[status]}

    @property
    def started(self) -> int:
        """How many notebooks were run now."""
        return sum(cell.ran for cell in self.cells)

    @property
    def already_done(self) -> int:
        """How many notebooks were done before, and not run now."""
        return sum(cell.status == DONE and not cell.ran for cell in self.cells)

    @property
    def beside(self) -> int:
        """How many notebooks of the same template stand in the folder and belong to none of the cells."""
        name = re.compile(rf"{re.escape(self.template)}_[0-9a-f]{{12}}\.ipynb")
        files = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        return len({file for file in files if name.fullmatch(file)} - {cell.notebook for cell in self.cells})

    @property
    def exit_code(self) -> int:
        """0 when every cell is done, else 1."""
        return int(any(cell.status != DONE for cell in self.cells))

    def to_frame(self) -> pd.DataFrame:
        """Return one row a cell of the grid."""
        import pandas as pd

        rows = []
        for number, cell in enumerate(self.cells, 1):
            row = {"cell": number, **asdict(cell)}
            row |= {f"parameter_{name}": value for name, value in row.pop("parameters").items()}
            rows.append(row)
        return pd.DataFrame(rows).astype({"cell": "int64", "seconds": "float64", "ran": "bool"})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        return {
            "template": self.template,
            "folder": str(self.folder),
            "counts": self.counts,
            "started": self.started,
            "already_done": self.already_done,
            "reads_store": self.reads_store,
            "seconds": self.seconds,
            "cells": [asdict(cell) for cell in self.cells],
        }

    def sentence(self, template: str = "") -> str:
        """Return the result in one sentence, of the template under another name where that is given."""
        said = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        notebooks = f"{counted(len(self.cells), 'notebooks')} of {template or self.template}"
        return f"{notebooks}: {said}; {self.started} run now in {duration(self.seconds)}"

    def summary(self) -> Summary:
        """Return what the command line says at the end."""
        lines = [self.sentence()]
        for cell in self.cells:
            if cell.status != DONE:
                given = ", ".join(f"{name}={_brief(value)}" for name, value in cell.parameters.items())
                lines.append(f"{cell.status}  {given or '(no parameters)'}: {cell.error}")
        if self.already_done:
            lines.append(f"already done  {self.already_done}: {_STORE[self.reads_store]}")
        if self.beside:
            what = "of an earlier state or another grid; the summary links to what counts"
            lines.append(f"beside them  {self.beside} {what}")
        lines.append(f"summary  {self.folder / NOTEBOOK_NAME}")
        if any(cell.status != DONE and not cell.ran for cell in self.cells):
            lines.append("failed ones are run again with --retry (in Python: retry=True)")
        return Summary(self.to_dict(), "\n".join(lines), self.exit_code)

    def write(self) -> tuple[Path, Path]:
        """Write the summary as CSV and as a notebook into the folder, and return both files."""
        content = self.to_frame().to_csv(index=False, lineterminator="\n")
        return (
            write_atomically(self.folder / CSV_NAME, content.encode()),
            write_atomically(self.folder / NOTEBOOK_NAME, self._notebook().encode()),
        )

    def _notebook(self) -> str:
        from nbformat import v4, writes

        names = list(dict.fromkeys(name for cell in self.cells for name in cell.parameters))
        head = ["cell", *names, "status", "seconds", "what ended it", "notebook"]
        rows = [head, ["---"] * len(head)]
        for number, cell in enumerate(self.cells, 1):
            link = f"[open](<{quote(cell.notebook)}>)" if cell.notebook else ""
            seconds = "" if cell.seconds is None else f"{cell.seconds:.1f}"
            given = [
                _text(_brief(cell.parameters[name])) if name in cell.parameters else "" for name in names
            ]
            rows.append([str(number), *given, cell.status, seconds, _text(cell.error), link])
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
                'pd.set_option("display.html.use_mathjax", False)  # an error may quote a "$"\n'
                f'frame = pd.read_csv("{CSV_NAME}")\nframe[frame.status != "{DONE}"]'
            ),
        ]
        for number, cell in enumerate(cells):
            cell["id"] = f"summary-{number}"  # drawn at random otherwise: the same result is the same file
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        return writes(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def _brief(value: Any) -> str:
    """Return a parameter as it is, cut where it is long; the CSV has all of it."""
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _text(value: Any) -> str:
    """Return anything as Markdown that shows it as text: an error may quote what a model wrote."""
    signs = (sign for sign in " ".join(str(value).split()) if sign.isprintable())
    return "".join(
        sign
        if sign.isalnum() or sign in " ,;-/"
        else html.escape(sign)
        if sign in "<>&"
        else f"&#{ord(sign)};"
        for sign in signs
    )


def run_batch(
    template: Path | str,
    grid: Path | str | Mapping[str, Any],
    *,
    out: Path | str | None = None,
    workers: int | None = None,
    retry: bool = False,
    timeout: float | None = None,
    cell_timeout: float | None = None,
    cluster: str | None = None,
    progress: bool = True,
) -> BatchResult:
    """Run a template over a grid, each notebook once, and write the summary."""
    began = time.monotonic()
    template = Path(template)
    source = None if isinstance(grid, Mapping) else Path(grid)
    cells = cells_of(grid) if isinstance(grid, Mapping) else read_grid(Path(grid))
    folder = (source.parent if source else Path.cwd()).resolve()
    place = Path(out).resolve() if out else folder / "results" / "batches" / (source or template).stem
    for name, seconds in (("timeout", timeout), ("cell_timeout", cell_timeout)):
        if seconds is not None and not seconds > 0:
            raise InputError(f"{name}: {seconds} is no time; give seconds above 0, or leave it out")
    if workers is not None and workers < 1:
        raise InputError(f"workers: {workers} notebooks at once run none; give 1 or more")
    plan = plan_batch(template, cells, folder, str(source or "grid"))
    records, toolkit = place / RECORDS, _toolkit()
    orders = []
    for cell in plan.cells:
        known = read_record(records, cell.identity)
        orders.append(
            Order(
                template=str(template.resolve()),
                output=str(place / f"{template.stem}_{cell.identity[:12]}.ipynb"),
                parameters=cell.parameters,
                folder=str(folder),
                timeout=timeout,
                cell_timeout=cell_timeout,
                identity=cell.identity,
                records=str(records),
                retry=retry,
                tried=known.attempts if known else 0,
                toolkit=toolkit,
                files=cell.files,
            )
        )
    ran: set[str] = set()
    try:
        if pending := [order for order in orders if not finished(order)]:
            with _pool(cluster, workers, place) as (pool, at_once), _terminable():
                copy = str(plan.keep_template(records))
                pending = [replace(order, copy=copy) for order in pending]
                _queue(pending)
                ran = _run(pending, pool, at_once, progress)
        found = tuple(_cell(order, order.identity in ran) for order in orders)
        result = BatchResult(template.stem, place, found, time.monotonic() - began, plan.reads_store)
        result.write()
    except OSError as error:
        raise ToolkitError(
            f"{error.filename or place}: {error.strerror or error}; mend that, or give another folder by --out "
            "(in Python: out=...), and the same call goes on from here"
        ) from error
    return result


def run_templates(
    jobs: Sequence[tuple[Path, Path, Mapping[str, Any]]], *, at_once: int = 2
) -> tuple[Path, ...]:
    """Execute templates into notebooks with parameters, whatever was run before, and return the notebooks."""
    orders = []
    for template, output, parameters in jobs:
        given, place = check_parameters(template, parameters), output.resolve()
        orders.append(Order(str(template.resolve()), str(place), given, str(place.parent)))
    for order in orders:
        Path(order.folder).mkdir(parents=True, exist_ok=True)

    def ended(order: Order, reply: Reply) -> None:
        if reply.status != DONE:
            why = f"did not run to its end: {reply.status}: {reply.error}"
            where = f"; see {reply.notebook}" if reply.notebook else ""
            raise ToolkitError(f"{Path(order.template).name}: {why}{where}")

    with Processes(at_once) as pool:
        run_orders(orders, pool, at_once, ended)
    return tuple(output for _, output, _ in jobs)


def _toolkit() -> str:
    """Return version and commit of the toolkit in words."""
    from toolkit.report.manifest import toolkit_commit
    from toolkit.words import VERSION

    return f"{VERSION} {toolkit_commit() or ''}".strip()


def _queue(pending: Sequence[Order]) -> None:
    """Say in records that notebooks wait, unless another batch has them under way or through."""
    for order in pending:
        with claim(order) as settled:
            if not settled:
                waiting = {
                    "template": order.template,
                    "parameters": order.parameters,
                    "attempts": order.tried,
                }
                write_record(order, Record(order.identity, **waiting))  # type: ignore[arg-type]


def _run(pending: Sequence[Order], pool: Pool, at_once: int, progress: bool) -> set[str]:
    """Run what is pending, and return the identities of what was run here."""
    ran: set[str] = set()
    counts = _Counts()
    bar = Progress("notebooks", len(pending), shown=progress, money=False)

    def ended(order: Order, reply: Reply) -> None:
        if reply.ran:
            ran.add(order.identity)
        counts.failed += reply.status in FAILED
        bar.step(counts)

    try:
        run_orders(pending, pool, at_once, ended)
    finally:
        bar.close()
    return ran


class _Counts:
    """What the progress line reads."""

    asked = 0
    from_ledger = 0
    failed = 0
    retried = 0
    spent_aud = 0.0


@contextlib.contextmanager
def _pool(cluster: str | None, workers: int | None, place: Path) -> Iterator[tuple[Pool, int]]:
    """Yield where notebooks run, on this machine or on a cluster, and how many at a time."""
    if cluster is not None:
        with connected(cluster, workers, place) as found:
            yield found
    else:
        at_once = workers or len(os.sched_getaffinity(0))
        with Processes(at_once) as processes:
            yield processes, at_once


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does; only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _cell(order: Order, ran: bool) -> CellResult:
    known = read_record(Path(order.records), order.identity) or Record(order.identity)
    return CellResult(order.parameters, known.status, known.seconds, known.error, known.notebook, ran)
