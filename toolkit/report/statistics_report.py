"""Every statistic of a study as files: a table for each family, and all of them in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.captions import join
from toolkit.report.estimates_table import estimates_table
from toolkit.report.latex import latex_table
from toolkit.report.saving import write_atomically
from toolkit.report.tables import Table, save_table
from toolkit.stats.result import estimates_of

_HEADS: Final = {"term": "Term", "f": "F", "p_value": "p", "p_holm": "p (Holm over all terms)"}


def write_statistics(
    results: Mapping[str, tuple[str, Any]],
    *,
    folder: Path | str,
    note: str = "",
    source: str = "",
    study: str = "",
) -> list[Path]:
    """Write a table of each result, and one text with the sentence of every estimate."""
    if not results:
        raise InputError("statistics: no run is judged by two judges or more; judge the study first")
    place = Path(folder) / "statistics"
    written: list[Path] = []
    told: list[str] = [line for line in (source, note) if line]
    for name, (title, result) in results.items():
        found = estimates_of(result)
        told += ["", title, *([result.sentence()] if "sentence" in vars(type(result)) else [])]
        told += [f"{where}: {one.sentence()}" if where else one.sentence() for where, one in found]
        if found:
            table = estimates_table(
                name, f"{title}.", found, key="Of", note=note, source=source, label=_label(name)
            )
        else:  # tests of terms have degrees of freedom in place of intervals
            how = result.how() if hasattr(result, "how") else ""
            table = _frame_table(name, title, result.frame(), join(how, source, note))
        written += save_table(table, place, study)
    text = "\n".join(told).strip() + "\n"
    return [*written, write_atomically(place / "sentences.txt", text.encode())]


def _frame_table(name: str, title: str, frame: pd.DataFrame, about: str) -> Table:
    caption = join(f"{title}.", about)
    # A column in which nothing stands, such as notes where there are none, tells a reader nothing.
    told = [str(column) for column in frame.columns if not len(frame) or frame[column].astype(str).any()]
    heads = {column: _HEADS.get(column, column.replace("_", " ")) for column in told}
    p_values = tuple(column for column in frame.columns if str(column).startswith("p_"))
    latex = latex_table(frame, caption, _label(name), heads, decimals=3, p_values=p_values)
    return Table(name, latex, frame, caption)


def _label(name: str) -> str:
    """Return the label of a table; figures have tables of the same names beside them."""
    return f"tab:statistics-{name.replace('_', '-')}"
