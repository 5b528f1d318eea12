"""What each column of somebody's table is taken for: said before anything is calculated, and changed by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.files import MISSING
from toolkit.words import LENGTH_BINS, SCALE

KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "base": ("base", "item", "item_id", "question_id", "doc_id", "sample_id", "task_id", "target", "id", "example"),
    "model": ("model", "model_name", "system", "system_id", "generator", "llm"),
    "judge": ("judge", "rater", "annotator", "evaluator", "grader", "scorer", "worker", "rater_id", "annotator_id"),
    "score": ("score", "rating", "value", "grade", "points"),
    "dimension": ("dimension", "criterion", "aspect", "attribute", "metric"),
    "repeat": ("repeat", "epoch", "repetition", "attempt", "trial"),
    "length_bin": ("length_bin", "length", "bin"),
    "cluster": ("cluster", "group", "document", "topic"),
    "scenario": ("scenario", "category"),
    "aud_cost": ("aud_cost", "cost_aud", "aud"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "human": ("human", "is_human", "rater_type", "judge_type"),
    "failure": ("failure", "error"),
    "judge_repeat": ("judge_repeat",),
}  # fmt: skip
"""Names under which columns are known, the plainest first; the first that is there is taken."""
MEANING: Final[Mapping[str, str]] = {
    "base": "item", "model": "model that answered", "judge": "judge", "score": "score", "dimension": "dimension",
    "repeat": "repeat of the model", "length_bin": "prompt length (S, M, L)", "cluster": "cluster of items",
    "scenario": "scenario", "aud_cost": "cost of an answer in AUD", "output_tokens": "tokens of the answer",
    "human": "whether a person rated", "failure": "why there is no score", "judge_repeat": "repeat of the judge",
}  # fmt: skip
_PEOPLE: Final = frozenset(
    {"1", "1.0", "true", "yes", "human", "person", "people", "expert", "turker", "crowd"}
)
_JUDGES: Final = frozenset({"0", "0.0", "false", "no", "llm", "model", "judge", "ai", "machine", "automatic"})
_SCALES: Final = ((0.0, 1.0), (1.0, 5.0), SCALE, (1.0, 7.0), (1.0, 10.0), (0.0, 10.0), (0.0, 100.0))


def take_columns(
    rows: pd.DataFrame, chosen: Mapping[str, str], where: str
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the columns of a table under our names, and which of its columns each of ours is.

    Raises
    ------
    InputError
        When there are no rows, a chosen column is not there, or item or score cannot be told.
    """
    chosen = {("base" if ours == "item" else ours): theirs for ours, theirs in chosen.items()}
    if rows.empty:
        raise InputError(f"{where}: holds no rows; give one row a score")
    for ours, theirs in chosen.items():
        if ours not in KNOWN:
            of_ours = ", ".join("item" if name == "base" else name for name in KNOWN)
            raise InputError(f"{where}: {ours!r} is no column of ours; use one of {of_ours}")
        if theirs not in rows:
            raise InputError(f"{where}: has no column {theirs!r}; it has {', '.join(_told(rows))}")
    spelled = {str(name).strip().lower(): str(name) for name in rows}
    taken: dict[str, str] = {}
    for ours, names in KNOWN.items():
        there = [spelled[name] for name in names if name in spelled and spelled[name] not in taken.values()]
        found = chosen.get(ours) or next((name for name in there if name not in chosen.values()), None)
        if found is not None:
            taken[ours] = found
    for ours in ("base", "score"):
        if ours not in taken:
            what = "item" if ours == "base" else ours
            raise InputError(
                f"{where}: no column is known as the {what} (found: {', '.join(_told(rows))}); name it with "
                f"--column {what}=NAME"
            )
    return rows.rename(columns={theirs: ours for ours, theirs in taken.items()}), taken


def _told(rows: pd.DataFrame) -> list[str]:
    return [str(name) for name in rows if name != "_line"]


def checked_rows(rows: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return rows with numbers as numbers and labels as texts; what cannot be used is named by its line."""
    lines = rows["_line"].tolist() if "_line" in rows else [place + 1 for place in range(len(rows))]
    kind = "line" if "_line" in rows else "row"

    def refuse(at: int, what: str) -> InputError:
        return InputError(f"{where}, {kind} {lines[at]}: {what}")

    checked = pd.DataFrame(index=range(len(rows)))
    for name in KNOWN:
        if name not in rows:
            continue
        values = rows[name].tolist()
        if name in ("score", "aud_cost", "output_tokens", "repeat", "judge_repeat"):
            checked[name] = _numbers(values, name, refuse)
        elif name == "human":
            checked[name] = [_is_person(value, at, refuse) for at, value in enumerate(values)]
        else:
            checked[name] = [None if _empty(value) else _label(value) for value in values]
    for name in ("base", "model", "judge", "dimension"):
        if name in checked and (gone := checked[name].isna().to_numpy()).any():
            raise refuse(int(gone.argmax()), f"the {MEANING[name]} is empty; every row needs one")
    if "length_bin" in checked:
        odd = checked["length_bin"].notna() & ~checked["length_bin"].isin(list(LENGTH_BINS))
        if odd.any() or checked["length_bin"].isna().any():
            at = int((odd | checked["length_bin"].isna()).to_numpy().argmax())
            raise refuse(at, f"length {checked['length_bin'][at]!r} is none of {', '.join(LENGTH_BINS)}")
    for name in ("repeat", "judge_repeat"):
        if name in checked:
            checked[name] = pd.factorize(checked[name], sort=True)[0]
    for name, of in (("cluster", ["base"]), ("scenario", ["base"])):
        if name in checked and (checked.groupby(of)[name].nunique() > 1).any():
            item = checked.groupby(of)[name].nunique().gt(1).idxmax()
            raise InputError(f"{where}: item {item!r} has more than one {MEANING[name]}; give it one")
    _refuse_twice(checked, refuse)
    return checked


def _refuse_twice(checked: pd.DataFrame, refuse: Any) -> None:
    keys = [
        name
        for name in ("base", "length_bin", "model", "repeat", "judge", "judge_repeat", "dimension")
        if name in checked
    ]
    twice = checked.duplicated(keys)
    if twice.any():
        at = int(twice.to_numpy().argmax())
        told = ", ".join(f"{MEANING[name]} {checked[name][at]}" for name in keys)
        raise refuse(
            at, f"{told} has a score already; keep one, or name what tells them apart (--column repeat=NAME)"
        )


def _empty(value: Any) -> bool:
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return isinstance(value, str) and value.strip().lower() in MISSING


def _label(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a column of whole numbers with a gap
    return str(value).strip()


def _numbers(values: Sequence[Any], name: str, refuse: Any) -> list[float]:
    found = []
    for at, value in enumerate(values):
        number = math.nan
        if not _empty(value):
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.inf
            if math.isinf(number):
                raise refuse(
                    at, f"{MEANING[name]} {value!r} is no number; write it like 4.5 or leave it empty"
                )
        found.append(number)
    return found


def _is_person(value: Any, at: int, refuse: Any) -> bool:
    word = str(value).strip().lower()
    if word not in _PEOPLE | _JUDGES:
        raise refuse(at, f"{value!r} does not say whether a person rated; write human or llm")
    return word in _PEOPLE


def scale_of(scores: pd.Series) -> tuple[float, float]:
    """Return the narrowest common scale that holds all scores, else their ends as whole numbers."""
    low, high = float(scores.min()), float(scores.max())
    whole = bool((scores.dropna() % 1 == 0).all())
    for first, last in _SCALES:
        if first <= low and high <= last and (whole or first == 0 or low >= first):
            return first, last
    return math.floor(low), math.ceil(high)
