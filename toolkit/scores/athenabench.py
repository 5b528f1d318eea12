"""Scored answers of AthenaBench as rows: ``runs/MODEL/TASK-scored.jsonl``, one answer to one item a line."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.scores.fields import Read, Rows, checked_name, is_filled, json_text, parse_score, reading
from toolkit.words import choices, one_line

_FIELDS: Final = frozenset({"id", "prompt", "response", "prediction", "answer"})
"""What each line has, scored or not; an answer that is scored has ``score`` and ``success`` besides."""
_DISTANCE: Final = ("VSP", "CVSS")
"""Tasks whose score is how far two CVSS base scores are from each other."""
_ENDING: Final = "-scored"


def is_athenabench(row: Mapping[str, Any]) -> bool:
    """Return whether a line is one of AthenaBench; a table that has a score and no ``success`` is somebody else's."""
    return row.keys() >= _FIELDS and ("success" in row or "score" not in row)


def read_athenabench(path: Path, numbered: list[tuple[int, dict[str, Any]]], metric: str | None) -> Read:
    """Return scored answers: an item is a prompt of a task, a model the folders between ``runs`` and the file.

    An answer with ``success = false`` was not scored and is missing, whatever its score. Of a score with several
    parts the first, ``correct``, is taken, or the one that ``metric`` names.
    """
    task, model = path.stem.removesuffix(_ENDING), _model(path)
    first = numbered[0][1].get("score")
    parts = list(first) if isinstance(first, Mapping) else []
    if metric is not None and metric not in parts:
        listed = one_line(choices(metric, parts, "it has"), 200) if parts else "its scores have no parts"
        raise InputError(f"{path}: has no metric {metric}; {listed}")
    selected = metric or next(iter(parts), None)
    rows: Rows = []
    counts: Counter[tuple[str, str]] = Counter()
    for line, row in numbered:
        with reading(path, f", line {line}", "be read as a scored answer of AthenaBench"):
            if "score" not in row:
                raise KeyError("no score: take the file that ends in -scored.jsonl")
            score = row["score"][selected] if selected else row["score"]
            failure = None if row.get("success", True) is True else "not scored: success is false"
            name = checked_name(row.get("model") or model, "model")
            base = f"{task}/{checked_name(row['id'], 'id')} [{_digest(row['prompt'])}]"
            number = None if failure else parse_score(score, "score")
        rows.append(
            {"base": base, "model": name, "repeat": counts[base, name], "score": number, "failure": failure}
        )
        counts[base, name] += 1
    notes = [f"task {task}, {counts.total()} answers"]
    if selected:
        notes.append(one_line(f"score is {selected}, of {', '.join(parts)} (--metric NAME)", 200))
    if task.upper() in _DISTANCE:
        notes.append("the score is the distance of two CVSS base scores: less is better")
    if lost := sum(1 for row in rows if row["failure"]):
        notes.append(f"{lost} answers were not scored (success is false): they are missing")
    if unread := sum(not is_filled(row["prediction"]) for _, row in numbered):
        notes.append(
            f"in {unread} answers AthenaBench has found no prediction: they have the score that it gives them"
        )
    lines = [line for line, _ in numbered]
    return Read(pd.DataFrame(rows, index=lines), "scored answers of AthenaBench", notes, unit="line")


def _model(path: Path) -> str:
    """Return the model of a file: its folders below ``runs`` or ``runs-mini``, else the folder that it is in."""
    folders = path.resolve().parent.parts
    last = max(
        (at for at, name in enumerate(folders) if name in ("runs", "runs-mini")), default=len(folders) - 2
    )
    return "/".join(folders[last + 1 :]) or "model"


def _digest(prompt: Any) -> str:
    """Return a mark of a prompt: the same number in two versions of a set may be another question."""
    return hashlib.sha256(json_text(prompt).encode(errors="replace")).hexdigest()[:8]
