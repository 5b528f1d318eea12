"""The runs of a study as the comparisons use them: checked, with plain columns, one row a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from toolkit import words
from toolkit.errors import InputError

POINTS = "score points"
WHOLE = "all"
"""The one length bin of scores that know none."""


class Points(str):
    """The unit of scores on a scale: its text names both ends by default, and `scale` has them as numbers."""

    scale: tuple[float, float]

    def __new__(cls, scale: tuple[float, float] = words.SCALE, text: str = "") -> Points:
        """Make the unit of a scale."""
        unit = super().__new__(cls, text or f"{POINTS} ({words.scale_words(scale, '-')})")
        unit.scale = scale
        return unit

    def __getnewargs__(self) -> Any:  # for copies and pickles
        return self.scale, str(self)


def scale_of(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the scale of the scores in a frame: ``attrs["scale"]``, or those of the rubric."""
    return cast(tuple[float, float], tuple(frame.attrs.get("scale", words.SCALE)))


def score_unit(score: str, frame: pd.DataFrame) -> str:
    """Return the unit of a column of scores in a frame: by ``attrs["units"]``, points of a rubric, or its own name."""
    if unit := frame.attrs.get("units", {}).get(score):
        return cast(str, unit)
    dimensions = frame.attrs.get("dimensions", words.DIMENSIONS)
    return Points(scale_of(frame)) if score in dimensions or score.startswith("composite") else score


def checked_runs(
    runs: pd.DataFrame, score: str, *, numbers: Sequence[str] = (), labels: Sequence[str] = ()
) -> pd.DataFrame:
    """Return unit (what is independent), base, model, level and score of every run, or say what cannot be used."""
    need_columns("runs", runs, ("base", "level", *labels, score, *numbers))
    if "run_id" in runs and runs["run_id"].notna().all() and runs["run_id"].duplicated().any():
        # A run that is there twice would narrow every interval that counts runs.
        name = runs["run_id"][runs["run_id"].duplicated()].iloc[0]
        raise InputError(f"runs: run {name!r} is there {int((runs['run_id'] == name).sum())} times; keep one")
    checked = pd.DataFrame({"unit": runs["unit" if "unit" in runs else "base"].to_numpy()})
    checked["base"] = runs["base"].to_numpy()
    checked["model"] = runs["model"].to_numpy() if "model" in runs else "all"
    checked["level"] = runs["level"].astype("object").to_numpy()
    for column, name in (("score", score), *zip(numbers, numbers, strict=True)):
        checked[column] = numbers_of("runs", runs, name, finite=True)
    for name in labels:
        checked[name] = runs[name].astype("object").to_numpy()
    checked.attrs = dict(runs.attrs)  # the scale of the scores
    need_labels("runs", checked, ("base", "unit", "model", *labels))
    if checked["level"].isna().all():
        checked["level"] = WHOLE
    need_labels("runs", checked, ("level",))
    levels = levels_of(runs)
    unknown = checked.loc[~checked["level"].isin((*levels, WHOLE)), "level"]
    if len(unknown):
        raise InputError(
            f"runs: level {unknown.iloc[0]!r} is not known; {words.choices(unknown.iloc[0], levels)}"
        )
    return checked


def levels_of(frame: pd.DataFrame) -> Sequence[Any]:
    """Return the levels of a frame in their order: ``attrs["levels"]``, or prompt lengths from short to long."""
    return cast(Sequence[Any], frame.attrs.get("levels", tuple(words.LENGTH_BINS)))


def factor_of(frame: pd.DataFrame) -> str:
    """Return what texts call the factor whose levels a frame has."""
    return str(frame.attrs.get("factor", "prompt length"))


def contrast_name(more: object, less: object) -> str:
    """Return the name of a difference of two levels; that of two prompt lengths is M-S."""
    return f"{more}-{less}" if {more, less} <= words.LENGTH_BINS.keys() else f"{more} - {less}"


def item_means(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return scores and numbers averaged within an item, a prompt of a base, however often it was asked."""
    item = [name for name in ("unit", "base", "level", "prompt_id") if name in rows]
    return rows.groupby([*item, *by]).mean(numeric_only=True)


def need_columns(analysis: str, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a frame that lacks a column."""
    absent = [name for name in names if name not in frame]
    if absent:
        raise InputError(f"{analysis}: lack the column {', '.join(absent)}; give {', '.join(names)}")


def need_once(frame: pd.DataFrame, keys: Sequence[str], message: str) -> None:
    """Refuse a row whose keys another one has; the message has the first of them, and their number, in braces."""
    twice = frame.duplicated(list(keys))
    if twice.any():
        first = {str(name): value for name, value in frame.loc[twice].iloc[0].items()}
        raise InputError(message.format(**first, count=int(twice.sum())))


def need_labelled(analysis: str, frame: pd.DataFrame, labels: Sequence[str], *others: str) -> None:
    """Refuse a frame that lacks a column, or a row that lacks one of the labels (`need_labels`)."""
    need_columns(analysis, frame, (*labels, *others))
    need_labels(analysis, frame, labels)


def need_labels(analysis: str, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a row without a label that every row needs, and labels that only look alike."""
    for name in names:
        empty = frame[name].isna().to_numpy()
        if empty.any():
            raise InputError(
                f"{analysis}, row {int(empty.argmax()) + 1}: the {name} is empty; every row needs one"
            )
        labels: dict[str, str] = {}
        for label in map(str, frame[name].unique()):
            if (twin := labels.setdefault(words.visible_name(label), label)) != label:
                raise InputError(
                    f"{analysis}: the {name} {twin!a} and {label!a} look alike; write them as one"
                )


def numbers_of(analysis: str, frame: pd.DataFrame, name: str, *, finite: bool = False) -> np.ndarray:
    """Return a column as floats, NaN where it is empty; refuse what is no number, or no finite one."""
    numbers = pd.to_numeric(frame[name], errors="coerce").astype("float64").to_numpy()
    wrong = np.isnan(numbers) & frame[name].notna().to_numpy()
    wrong |= np.isinf(numbers) & finite
    if wrong.any():
        row, kind = int(wrong.argmax()), "finite number" if finite else "number"
        value = frame[name].to_numpy(dtype=object)[row]
        raise InputError(
            f"{analysis}, row {row + 1}: {name} {value!r} is not a {kind}; give a number or leave it empty"
        )
    return np.asarray(numbers)


def grouping_columns(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns that tell rows apart in groups; the length bin of scores that know none does not."""
    return [name for name in columns if name in frame and not (frame[name] == WHOLE).all()]


def at_length(model: object, level: object) -> str:
    """Return a model at a prompt length in words, or the model alone where no lengths are known."""
    return f"{model}" if level == WHOLE else f"{model} at {level}"


def averaged_note(checked: pd.DataFrame, cell: Sequence[str], within: Sequence[str]) -> list[str]:
    """Return a note of what is averaged inside a base, the last of ``within`` first; none where nothing is."""
    averaged = ["repeats"] if checked.duplicated(["base", *cell]).any() else []
    averaged += [f"{name}s" for name in within[::-1] if checked[name].nunique() > 1]
    head, *others = averaged or [""]
    then = f" first{''.join(f', then {name}' for name in others)}" if others else ""
    return [f"{head} are averaged{then}, so each base counts once"] if averaged else []


def left_out_note(checked: pd.DataFrame, score: str, count: int | None = None) -> list[str]:
    """Return a note of how many runs have no score; none where all have one."""
    missing = int(checked["score"].isna().sum()) if count is None else count
    score = score if score in words.DIMENSIONS or score.startswith("composite") else "score"
    units = checked.attrs.get("rows", "runs")
    return share_note(missing, len(checked), units, f"have no {score} and are left out")


def share_note(count: int, total: int, units: str, verdict: str) -> list[str]:
    """Return a note of how many of all lack something; none where none does."""
    return [f"{count} of {words.counted(total, units)} {words.agreeing(count, verdict)}"] if count else []


_STANDARD_ORDER = (*words.LENGTH_BINS, *words.JUDGE_ROLES)


def in_order(names: Iterable[Any], levels: Iterable[Any] = ()) -> list[Any]:
    """Return each name once: lengths from short to long, judges by role, levels in theirs, then all others by name."""
    present = {name for name in names if name is not None and name == name}
    standard = [name for name in dict.fromkeys((*_STANDARD_ORDER, *levels)) if name in present]
    return [*standard, *sorted(present - set(standard), key=str)]
