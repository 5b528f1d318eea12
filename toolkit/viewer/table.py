"""The table of runs: filter, sort and page a frame of any size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.words import SCALE

if TYPE_CHECKING:
    import pandas as pd

PAGE: Final = 12
"""Runs on one page of the table."""
SORTS: Final[Mapping[str, str]] = {
    "model": "model",
    "prompt": "prompt_id",
    "length bin": "length_bin",
    "composite": "composite",
    "judges' SD": "composite_std",
    "cost": "aud_cost",
    "tokens of the reply": "output_tokens",
    "latency": "latency_ms",
    "attempts": "attempts",
    "asked at": "created_at",
}
"""What the table can be sorted by: the word for it, and the column of the runs frame."""
CHOICES: Final = ("model", "length_bin", "scenario", "status")
"""Columns of which a filter takes one value."""


@dataclass(frozen=True)
class Filter:
    """Which runs to show, and in which order; the filter as it is made shows all, in the order of the runs frame.

    Parameters
    ----------
    model, length_bin, scenario, status
        Only runs with this value; ``None`` for all.
    judged
        Only runs with or without an ensemble score; ``None`` for both.
    rated
        Only runs that a person has rated, or that nobody has; ``None`` for both.
    low, high
        Composite of the ensemble, 0-5. A run without a score is there only while the range is the whole scale.
    spread
        Least standard deviation of the judges' composites, in points; 0 takes also the runs that have none.
    text
        Text to be found in prompt, reply or ids; capital letters do not matter.
    sort
        A word of ``SORTS``; empty for the order of the runs frame.
    descending
        Whether the largest comes first; what is missing comes last either way.
    """

    model: str | None = None
    length_bin: str | None = None
    scenario: str | None = None
    status: str | None = None
    judged: bool | None = None
    rated: bool | None = None
    low: float = SCALE[0]
    high: float = SCALE[1]
    spread: float = 0.0
    text: str = ""
    sort: str = ""
    descending: bool = False

    def words(self) -> str:
        """Return the filter in words, empty where it takes all runs.

        Examples
        --------
        >>> Filter(model="gpt-4o", judged=True, low=2, text="SMB").words()
        "model gpt-4o; judged; composite 2 to 5; with 'SMB' in it"
        """
        chosen = {name: getattr(self, name) for name in CHOICES}
        said = [f"{name.replace('_', ' ')} {value}" for name, value in chosen.items() if value is not None]
        if self.judged is not None:
            said.append("judged" if self.judged else "not judged")
        if self.rated is not None:
            said.append("rated by people" if self.rated else "not rated by people")
        if (self.low, self.high) != SCALE:
            said.append(f"composite {self.low:g} to {self.high:g}")
        if self.spread > 0:
            said.append(f"judges' SD at least {self.spread:g}")
        if self.text.strip():
            said.append(f"with {self.text.strip()!r} in it")
        return "; ".join(said)


def matching(runs: pd.DataFrame, wanted: Filter, texts: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the runs that a filter takes, sorted.

    Parameters
    ----------
    runs
        The runs frame; that of `toolkit.viewer.people.with_people` when the filter asks who was rated.
    wanted
        What to take.
    texts
        Prompt and reply of each run, case folded, by run id; needed when the filter has a text.

    Raises
    ------
    InputError
        When the filter cannot be used.
    """
    if wanted.sort and wanted.sort not in SORTS:
        raise InputError(f"sort {wanted.sort!r}: use one of {', '.join(SORTS)}")
    keep = runs["run_id"].notna()
    for column in (*CHOICES, "judged"):
        if (value := getattr(wanted, column)) is not None:
            keep &= (runs[column] == value).fillna(False).astype(bool)
    if wanted.rated is not None:
        if "people_count" not in runs:
            raise InputError("filter: whether people rated a run stands in the frame of with_people only")
        keep &= runs["people_count"].gt(0) == wanted.rated
    if (wanted.low, wanted.high) != SCALE:
        keep &= runs["composite"].between(wanted.low, wanted.high)
    if wanted.spread > 0:
        keep &= runs["composite_std"].ge(wanted.spread)
    found = runs[keep.astype(bool)]
    if needle := wanted.text.strip().casefold():
        if texts is None:
            raise InputError("filter: searching for a text needs the texts of the runs")
        holds = [needle in texts.get(run_id, "") for run_id in found["run_id"]]
        found = found[holds]
    if wanted.sort:
        found = found.sort_values(
            SORTS[wanted.sort], ascending=not wanted.descending, kind="stable", na_position="last"
        )
    return found


def pages(count: int) -> int:
    """Return how many pages so many runs take; a table without runs has one, which is empty."""
    return max(1, -(-count // PAGE))


def disagreement(runs: pd.DataFrame, points: float = 1.0) -> str:
    """Return in a sentence how many runs there are to read, and how far apart the judges are on them.

    Parameters
    ----------
    runs
        The runs frame.
    points
        Standard deviation of the judges' composites, in points, from which a run is counted as one to read.
    """
    spread = runs["composite_std"].dropna()
    there = f"{len(runs)} runs, {int(runs['judged'].sum())} judged"
    if spread.empty:
        return f"{there}; no run has the scores of two judges, so there is nothing to disagree about"
    return (
        f"{there}; judges' SD of {len(spread)} runs: median {spread.median():.2f}, largest {spread.max():.2f} "
        f"points; {int(spread.ge(points).sum())} runs at {points:g} or more"
    )


def plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row of a frame with ``None`` where a value is missing."""
    import pandas as pd

    return {str(name): None if pd.isna(value) else value for name, value in row.items()}
