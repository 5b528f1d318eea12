"""Imports ratings of people from a CSV file: every line is checked before anything is saved."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from toolkit.errors import InputError
from toolkit.files.tables import MISSING, read_texts
from toolkit.people.rating import checked_rater, rateable_replies, rating_of, why_not
from toolkit.plan import Plan
from toolkit.scoring import Scheme
from toolkit.store.connection import Store
from toolkit.store.ratings import keep_judgements, keep_ratings, known_raters, newest_ratings
from toolkit.store.records import stored_runs
from toolkit.words import Summary, choices, template

IGNORED = ("study", "prompt_id", "base", "task", "reply")
"""Columns that help a person fill in the file, and are not read."""
_READ = ("run_id", "rater", "dimension", "score", "reasons")
_Entries = dict[tuple[str, str], tuple[dict[str, float], list[str]]]
"""Scores and reasons by rater and run."""
_NUMBER = re.compile(r"[+-]?\d{1,9}(\.\d{1,18})?", re.ASCII)


@dataclass(frozen=True)
class _Line:
    """One line of the file, with its cells by column."""

    file: Path
    number: int
    cells: Mapping[str, str]

    def column(self, dimension: str) -> str:
        """Return the column that has the score of a dimension."""
        return "score" if "score" in self.cells else dimension

    def refuse(self, column: str, problem: str) -> NoReturn:
        raise InputError(f"{self.file}, line {self.number}, column {column}: {problem}")


def import_ratings(plan: Plan, store: Store, path: str | Path, rater: str | None = None) -> Summary:
    """Save the ratings of a CSV file as judgements of human judges, or nothing where a line is wrong.

    An empty dimension keeps the rater's earlier score. A second import of the same file changes nothing.
    """
    file = Path(path)
    lines = [_Line(file, number, cells) for number, cells in read_texts(file) if any(cells.values())]
    if not lines:
        raise InputError(f"{file}: has no ratings; it needs a header and a line a rating")
    scheme = plan.rubric.scheme
    _check_header(file, tuple(lines[0].cells), rater, scheme)
    blobs = {reply.run_id: reply.blob_id for _, reply in rateable_replies(plan, store)}
    entries, empty = _gathered(plan, store, lines, rater, blobs)
    stored = newest_ratings(store, blobs, plan.rubric.digest)
    ratings = []
    for (name, run_id), (given, texts) in entries.items():
        before = stored.get((name, run_id))
        merged = {**(before.scores if before else {}), **given}
        scores: dict[str, float] = {part: merged[part] for part in scheme.names if part in merged}
        reasons = "\n".join(texts) or (before.reasons if before else None)
        ratings.append(rating_of(plan, name, run_id, blobs[run_id], scores, reasons, source="file"))
    earlier = [(rating, stored.get((rating.rater, rating.run_id))) for rating in ratings]
    new = [rating for rating, before in earlier if before is None]
    changed = [rating for rating, before in earlier if before is not None and not before.equals(rating)]
    keep_ratings(store, [*new, *changed])
    keep_judgements(store, ratings)  # also of an import that was killed before this step
    fields = {
        "file": str(file),
        "raters": sorted({name for name, _ in entries}),
        "new": len(new),
        "changed": len(changed),
        "unchanged": len(ratings) - len(new) - len(changed),
        "unfinished": sum(not rating.finished for rating in ratings),
        "empty": empty,
    }
    return Summary(fields, template("people", "imported.jinja").render(fields))


def _gathered(
    plan: Plan, store: Store, lines: Iterable[_Line], rater: str | None, blobs: Mapping[str, str]
) -> tuple[_Entries, int]:
    """Return scores and reasons by rater and run, and the number of empty lines."""
    study = plan.study.name
    refused = {run.run_id: why_not(run) for run in stored_runs(store, study, plan.call_ids).values()}
    known = {*known_raters(store, study)}
    alone = rater and checked_rater(known, rater)
    entries: _Entries = {}
    empty = 0
    for line in lines:
        name = alone or _line_rater(line, known)
        run_id = line.cells["run_id"]
        if not run_id:
            line.refuse("run_id", "is empty; every rating needs its run")
        if run_id not in blobs:
            if reason := refused.get(run_id):
                line.refuse("run_id", f"run {run_id} {reason}; leave the line out")
            line.refuse("run_id", f"run {run_id!r} is not one of study {study}; `study.runs()` lists the ids")
        scores = _scores(line, plan.rubric.scheme)
        reasons = line.cells.get("reasons", "")
        if not scores and not reasons:
            empty += 1
            continue
        earlier, texts = entries.setdefault((name, run_id), ({}, []))
        for dimension, score in scores.items():
            if earlier.setdefault(dimension, score) != score:
                problem = f"{name} gave {dimension} of this run {earlier[dimension]:g} further up"
                line.refuse(line.column(dimension), f"{problem}; keep one of the two")
        if reasons and reasons not in texts:
            texts.append(reasons)
    return entries, empty


def _check_header(file: Path, columns: tuple[str, ...], rater: str | None, scheme: Scheme) -> None:
    long, wide = [name for name in ("dimension", "score") if name in columns], {*columns} & {*scheme.names}
    read = (*_READ, *scheme.names)
    problem = None
    if unknown := [name for name in columns if name not in (*read, *IGNORED)]:
        problem = f"the column {unknown[0]!r} is unknown; {choices(unknown[0], read, 'read are')}"
        problem += f", left alone {', '.join(IGNORED)}"
    elif "run_id" not in columns:
        problem = "lacks the column run_id; `study.runs()` lists the ids"
    elif ("rater" in columns) == (rater is not None):
        problem = "name the rater either in a column rater or with --rater"
    elif (long and wide) or (len(long) != 2 and not wide):
        problem = "needs either the columns dimension and score, or a column for each dimension"
    if problem:
        raise InputError(f"{file}, line 1: {problem}")


def _line_rater(line: _Line, known: set[str]) -> str:
    """Return the checked name of the rater of a line, which is known from there on."""
    try:
        name = checked_rater(known, line.cells["rater"])
    except InputError as error:
        line.refuse("rater", str(error))
    known.add(name)
    return name


def _scores(line: _Line, scheme: Scheme) -> dict[str, float]:
    scores = {}
    for dimension in (line.cells["dimension"],) if "score" in line.cells else scheme.names:
        score = _score(line, line.column(dimension), scheme)
        if dimension not in scheme.names and (dimension or score is not None):
            allowed = choices(dimension, scheme.names, "the rubric has")
            line.refuse("dimension", f"{dimension!r} is unknown; {allowed}")
        if score is not None:
            scores[dimension] = score
    return scores


def _score(line: _Line, column: str, scheme: Scheme) -> float | None:
    cell = line.cells.get(column, "")
    if cell.lower() in MISSING:
        return None
    if not _NUMBER.fullmatch(cell):
        line.refuse(column, f"{cell!r} is not a number; write it like 4.5, or leave it empty")
    low, high = scheme.scale
    score = float(cell)
    if not low <= score <= high:
        line.refuse(column, f"{cell} is outside the scale {low:g}-{high:g}")
    return score
