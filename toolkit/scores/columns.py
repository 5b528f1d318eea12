"""Find out what each column of a table is, check every cell, and say what was assumed."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.files.reading import read_toml
from toolkit.files.tables import MISSING, number_of, usual_columns
from toolkit.words import LENGTH_BINS, choices, counted, one_line, suggestion, visible_name

TEXTS = read_toml(Path(__file__).parent / "words.toml")
"""What others call things, and what they write for a value."""
LETTERS, WORDS = TEXTS["letters"], TEXTS["words"]
USUAL_NAMES = TEXTS["usual"]
"""Names under which columns are known, the plainest first; the first that is there is taken."""
MEANING = TEXTS["meaning"]
_PEOPLE, _JUDGES = (TEXTS["rated"][name] for name in ("people", "judges"))
_RANGES_APART = 10
_LARGEST = 1e9
"""Beyond it the sums of squares lose the differences between scores."""
_COUNTED = re.compile(r"(?ai)(judge|rater|annotator|evaluator|grader|scorer|worker)([ _.-]?\d+|[ _.-][a-z])")
"""Names of columns that plainly are one judge each."""
_COMMA = re.compile(r"[+-]?\d+(,\d{1,2})? ?%?", re.ASCII)
"""With three digits after it a comma may separate thousands."""
_SCALES, _CODES = (TEXTS["numbers"][name] for name in ("scales", "codes"))
_NAMES, _NUMBERS, _KEYS = (TEXTS["columns"][name] for name in ("names", "numbers", "keys"))
MOST_JUDGES = 1000
_INTEGER = re.compile(r"-?\d+\.0+", re.ASCII)
CUT = 80
"""Characters of a value in a message."""
_NAMED = 4
"""Names that a message lists of many."""
Values = Mapping[str | float, float | None]


@dataclass
class Read:
    """Rows of a file, how they were understood, and what was left out of them; `tidy` where columns have our names.

    The index numbers what the rows stand in: `unit`, a line, say. `source` is the path of the file.
    """

    rows: pd.DataFrame
    kind: str
    notes: list[str] = field(default_factory=list)
    tidy: bool = True
    unit: str = "row"
    settings: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    source: str = ""


def tidy(
    tables: Sequence[Read], columns: Mapping[str, str], judges: Sequence[str], metric: str | None
) -> tuple[pd.DataFrame, dict[str, str], list[str], list[str]]:
    """Return the rows of tables under our names, which column each is, which are not used, and notes."""
    chosen = {
        ("base" if ours == "item" else ours): visible_name(str(theirs or ""))
        for ours, theirs in columns.items()
    }
    several, mixed = len(tables) > 1, any(not read.tidy for read in tables)
    # Beside tables a log is asked only for what is declined.
    of_log = {ours: theirs for ours, theirs in chosen.items() if not (theirs and mixed)}
    parts, notes = [], list[str]()
    for read in tables:
        is_log = mixed and read.tidy
        rows, wide = long_rows(read.rows, () if is_log else judges, read.source)
        taken = take_columns(rows, of_log if is_log else chosen, read.source)
        left = [name for name in rows.columns.tolist() if name not in taken.values()]
        rows = rows[list(taken.values())].set_axis(list(taken), axis=1)
        parts.append(rows if read.tidy else rows_of_metric(rows, metric, read.source))
        notes += [*[f"{Path(read.source).name} is {read.kind}"] * read.tidy, *read.notes, *wide]
    # The index is the place of a row.
    together = pd.concat(parts, keys=[f"{read.source}, {read.unit}" for read in tables])
    if several:
        taken, left = {name: name for name in USUAL_NAMES if name in together}, []
    return together, taken, left, notes


def take_columns(rows: pd.DataFrame, chosen: Mapping[str, str], source: str) -> dict[str, str]:
    """Return which column of a table each of ours is.

    Raises
    ------
    InputError
        When there are no rows, a chosen column is not there, or item or score cannot be told.
    """
    if rows.empty:
        raise InputError(f"{source}: holds no rows; give one row a score")
    names, columns = rows.columns.tolist(), {}
    for ours, theirs in chosen.items():
        if ours not in USUAL_NAMES:
            listed = ", ".join(map(_item_for_base, USUAL_NAMES))
            raise InputError(
                f"{source}: {ours!r} is no column of ours; {suggestion(ours, USUAL_NAMES)}use one of {listed}"
            )
        if theirs and theirs not in names:
            raise InputError(
                f"{source}: has no column {theirs!r}; {suggestion(theirs, names)}it has {_listed(names)}"
            )
    usual = usual_columns((name for name in names if name not in chosen.values()), USUAL_NAMES)
    for ours, candidates in (
        usual | {ours: [theirs] * bool(theirs) for ours, theirs in chosen.items()}
    ).items():
        item, option = _item_for_base(ours), f"--column {_item_for_base(ours)}=NAME"
        equal = [name for name in candidates if name.casefold() == candidates[0].casefold()]
        if len(equal) > 1:
            listed = ", ".join(sorted(map(repr, equal)))
            raise InputError(f"{source}: the columns {listed} may each be the {item}; say which by {option}")
        if candidates:
            columns[ours] = candidates[0]
        elif ours in ("base", "score"):
            wide = ", or name columns of one judge each (--judges NAME NAME)" * (ours == "score")
            raise InputError(
                f"{source}: no column is known as the {item} (found: {_listed(names)}); name it with {option}{wide}"
            )
    return columns


def _item_for_base(name: str) -> str:
    """Return a name of a column as people say it."""
    return "item" if name == "base" else name


def several_names(names: Iterable[object]) -> str:
    """Return the first names and how many more there are."""
    texts = [one_line(str(name), CUT) for name in names]
    more = len(texts) - _NAMED
    return ", ".join(texts if more <= 1 else [*texts[:_NAMED]]) + f" and {more} more" * (more > 1)


def _listed(names: Sequence[str]) -> str:
    return one_line(", ".join(names), 500)


def long_rows(rows: pd.DataFrame, judges: Sequence[str], source: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with a column for each judge as one with a row for each score, and what was taken for judges.

    Without `judges` a table is wide where it has no column of scores and two or more that count judges (judge_1,
    rater2); every other table stays as it is.
    """
    names = [visible_name(str(name)) for name in rows]
    rows = rows.set_axis(names, axis=1)
    if len(twice := rows.columns[rows.columns.duplicated()]):
        raise InputError(f"{source}: has the column {one_line(twice[0], 80)!r} more than once; keep one")
    wide = [name for name in names if _COUNTED.fullmatch(name)]
    is_long = {*USUAL_NAMES["score"], *USUAL_NAMES["judge"]} & {name.lower() for name in names}
    judges = [visible_name(str(name)) for name in judges or (() if is_long or len(wide) < 2 else wide)]
    if not judges:
        return rows, []
    if len(judges) > MOST_JUDGES:
        raise InputError(
            f"{source}: {len(judges):,} columns would be a judge each, more than the {MOST_JUDGES:,} that are read; "
            "name yours by --judges"
        )
    if odd := [name for name in judges if name not in names]:
        raise InputError(
            f"{source}: has no column {odd[0]!r} of its own for a judge; it has {_listed(names)}"
        )
    if doubled := [name for name in ("judge", "score") if name in names]:
        raise InputError(
            f"{source}: has a column {doubled[0]!r} and a column for each judge; leave out one or the other"
        )
    others = [name for name in names if name not in judges]
    long = rows.melt(others, judges, var_name="judge", value_name="score", ignore_index=False)
    return long, [f"each column is a judge: {_listed(judges)}"]


def rows_of_metric(rows: pd.DataFrame, metric: str | None, source: str) -> pd.DataFrame:
    """Return the rows of one dimension or one judge, all where no `metric` is named."""
    if metric is None:
        return rows
    columns = rows[[name for name in ("dimension", "judge") if name in rows]].astype(str).map(visible_name)
    if not (chosen := columns == metric).any(axis=None):
        listed = choices(metric, dict.fromkeys(columns.to_numpy().T.ravel()), "it has")
        raise InputError(f"{source}: has no dimension and no judge {metric}; {one_line(listed, 500)}")
    return rows[chosen.any(axis=1)]


def check_ranges(rows: pd.DataFrame, source: str) -> None:
    """Raise ``InputError`` where judges or dimensions have scores of different ranges, whose mean says nothing.

    Scores that are all equal say nothing of their range. From 0 to 1 is another range than one beyond 1, and so is one
    that is more than ten times as large.
    """
    for name in ("dimension", "judge"):
        if name not in rows:
            continue
        ends = rows.groupby(name)["score"].agg(["min", "max"]).query("min < max")
        sizes = ends.abs().max(axis=1)
        if len(ends) and (sizes.min() <= 1 < sizes.max() or sizes.max() > _RANGES_APART * sizes.min()):
            spans = several_names(f"{part} {low:g} to {high:g}" for part, low, high in ends.itertuples())
            raise InputError(
                f"{source}: scores of different ranges are not averaged ({spans}); take one of them (--metric NAME), "
                "or give the scale that all of them have (--scale LOW HIGH)"
            )


def row_location(rows: pd.DataFrame, at: int) -> str:
    """Return file and line of a row, or its number in a frame."""
    return " ".join(map(str, rows.index[at]))


def checked_rows(rows: pd.DataFrame, source: str, values: Values) -> pd.DataFrame:
    """Return rows with numbers as numbers and labels as texts; what cannot be used is named by its line."""

    def refuse(at: int, fault: object) -> InputError:
        return InputError(f"{row_location(rows, at)}: {one_line(str(fault), 500)}")

    checked, notes, unseen = pd.DataFrame(index=range(len(rows))), [], list[str]()
    for name in [name for name in USUAL_NAMES if name in rows]:
        cells = rows[name].tolist()
        parse: Callable[[Any, str], Any] = _is_person if name == "human" else _label
        if name == "score":
            cells = [number_for(cell, values) for cell in cells]
        if name in _NUMBERS:
            (cells, note), parse = _plain_numbers(cells), _number
            notes += [f"{MEANING[name]}: {note}"] * bool(note)
        labels: list[Any] = []
        for at, cell in enumerate(cells):
            try:
                labels.append(parse(cell, name))
            except ValueError as fault:
                raise refuse(at, fault) from None
        checked[name] = _unify_spelling(pd.Series(labels)) if name in ("base", "judge") else labels
        if parse is not _label:
            continue
        texts = [(at, cell) for at, cell in enumerate(cells) if isinstance(cell, str)]
        if changed := [(at, cell) for at, cell in texts if labels[at] not in (None, cell)]:
            at, first = changed[0]
            unseen.append(
                f"{MEANING[name]}: {counted(len({cell for _, cell in changed}), 'names')} with characters that are "
                f"not seen, the first {one_line(ascii(first), 80)} ({row_location(rows, at)}), read as "
                f"{one_line(repr(labels[at]), 80)}"
            )
        blank = {cell for at, cell in texts if labels[at] is None and cell.strip()}
        if blank and name in ("cluster", "scenario"):
            notes.append(f"{MEANING[name]}: {_listed(sorted(blank))} is taken for empty")
    for name in ("repeat", "judge_repeat"):
        if name in checked:
            checked[name] = pd.factorize(checked[name], sort=True)[0]
    for name in ("cluster", "scenario"):
        if name in checked and (several := checked.groupby("base")[name].nunique() > 1).any():
            raise InputError(
                f"{source}: item {several.idxmax()!r} has more than one {MEANING[name]}; give it one{_DECLINE}{name}=)"
            )
    keys = [name for name in _KEYS if name in checked]
    if (twice := checked.duplicated(keys)).any():
        at = int(twice.argmax())
        named = ", ".join(f"{MEANING[name]} {checked[name][at]}" for name in keys)
        advice = "; ".join(["keep one, or name what tells them apart (--column repeat=NAME)", *unseen])
        raise refuse(at, f"{named} has a score already; {advice}")
    checked.attrs["notes"] = notes + unseen
    return checked


def is_filled(value: Any) -> bool:
    """Return whether a value is there."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))


def number(value: Any) -> float:
    """Return a cell as a number; infinite is what is none, or too large for a float."""
    try:
        if isinstance(value, str):
            value = number_of(value.strip())
        return float(value) if isinstance(value, int | float | Decimal | np.number | np.bool_) else math.inf
    except (OverflowError, ValueError):
        return math.inf


def score_number(value: Any, *, letters: bool = True) -> float | None:
    """Return a score of a log as its tool counts letters and words: none where missing, infinite where no number."""
    if not is_filled(value):
        return None
    text = value.strip() if isinstance(value, str) else ""
    numbers = {**WORDS, **(LETTERS if letters else {})}
    return numbers.get(text, numbers.get(text.lower(), number(value)))


def parse_score(value: Any, name: str) -> float | None:
    """Return a score of a log as a number; one that is there and none is refused: dropped, it would be missing."""
    score = score_number(value)
    if score is not None and math.isinf(score):
        raise ValueError(f"the value of {name}, {one_line(repr(value), CUT)}, is no number")
    return score


def _empty(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


_DECLINE = ", or leave the column out (--column "


def _number(cell: Any, name: str) -> float:
    """Return a cell as a number, a missing one as NaN."""
    parsed = math.nan if _empty(cell) else number(cell)
    if abs(parsed) > _LARGEST:
        raise ValueError(
            f"{MEANING[name]} {one_line(repr(cell), 80)} is no number that can be calculated with; write it like 4.5 "
            "or leave it empty" + ", or say what it is worth (--values A=4)" * (name == "score")
        )
    return parsed


def _is_person(cell: Any, name: str) -> bool:
    """Return whether a cell says that a person rated."""
    word = str(cell).strip().lower()
    if word not in (*_PEOPLE, *_JUDGES):
        fault = "does not say whether a person rated; write human or llm"
        raise ValueError(f"{one_line(repr(cell), 80)} {fault}")
    return word in _PEOPLE


def _label(cell: Any, name: str) -> str | None:
    """Return a cell as a name; nothing where it is empty and need not be filled."""
    if _empty(cell) and not (name in _NAMES and isinstance(cell, str) and cell.strip()):
        text = ""
    elif isinstance(cell, float) and cell.is_integer():
        text = str(int(cell))  # a column of whole numbers with a gap
    else:
        text = str(cell).strip()
    listed = name == "judge" and text[:2] in ("['", '["') and text.endswith("]")
    if listed or isinstance(cell, Mapping | list | tuple | set | frozenset | bytes | np.ndarray):
        raise ValueError(f"the {MEANING[name]} {one_line(text, 80)} is no name; write a text or a number")
    if re.search("[\ud800-\udfff\0]", text):
        raise ValueError(f"the {MEANING[name]} {text!r} holds what is no text; write it in Unicode")
    label = visible_name(text) or None
    if label is None and name in _NAMES:
        raise ValueError(f"the {MEANING[name]} is empty; every row needs one")
    if name == "level" and label not in LENGTH_BINS:
        raise ValueError(f"length {label!r} is none of {', '.join(LENGTH_BINS)}{_DECLINE}level=)")
    return label


def _unify_spelling(labels: pd.Series) -> pd.Series:
    """Return names in which 1.0 is 1 where both are there: a column of numbers with a gap is written so."""
    integers = {name: name.partition(".")[0] for name in {*labels.dropna()} if _INTEGER.fullmatch(name)}
    return labels.replace({name: integer for name, integer in integers.items() if integer in labels.array})


def _key(value: Any) -> str | float:
    """Return a value as it is looked up: a number by its size, whatever it is written like."""
    text = str(value).strip()
    parsed = number_of(text)
    return text if parsed is None else parsed


def parse_values(values: Mapping[Any, Any]) -> dict[str | float, float | None]:
    """Return what scores are worth by their text; nothing, an empty text and NaN say that a score is missing."""
    numbers = {}
    for value, cell in values.items():
        numbers[_key(value)] = score = None if _empty(cell) else number(cell)
        if not abs(score or 0.0) <= _LARGEST:
            raise InputError(
                f"values {one_line(str(value), 80)}={one_line(str(cell), 80)}: give a number, e.g. A=4, or none "
                "where it is missing"
            )
    return numbers


def number_for(value: Any, values: Values) -> Any:
    """Return what a score was given as (A=4), else the score itself."""
    if not values or not isinstance(value, str | int | float | np.number | np.bool_):
        return value
    return values.get(_key(value), value)


def without_codes(scores: pd.Series, rows: pd.DataFrame) -> tuple[pd.Series, list[str]]:
    """Return scores in which codes for missing are missing, and what was taken for one, with its rows.

    A code is a usual one that no scale of the other scores holds: below 0 where all others are not, or nine times the
    highest. Among 0 and 1 alone -1 may be a score.
    """
    others = scores.dropna()[~scores.dropna().isin(_CODES)]
    if others.empty or others.min() < 0:
        return scores, []
    shares = others.max() <= 1 and (others % 1 == 0).all()
    codes = [
        code for code in _CODES if (code < 0 or others.max() <= code / 9) and not (code == -1 and shares)
    ]
    notes = []
    for code in codes:
        if len(at := (scores == code).to_numpy().nonzero()[0]):
            notes.append(
                f"score: {code:g} is taken for a missing score in {counted(len(at), 'rows')} of {len(scores)} "
                f"(first {row_location(rows, int(at[0]))}); --scale LOW HIGH that holds it makes it a score"
            )
    return scores.mask(scores.isin(codes)), notes


def check_scale(scores: pd.Series, scale: tuple[float, float], rows: pd.DataFrame, source: str) -> None:
    """Raise ``InputError`` that names the rows whose score is outside of a scale."""
    inside = scores.between(*scale) & (scale[0] < scale[1])
    at = (scores.notna() & ~inside).to_numpy().nonzero()[0]
    if len(at):
        raise InputError(
            f"{source}: score {scores.iloc[at[0]]:g} is outside of the scale {scale[0]:g}-{scale[1]:g}, in "
            f"{counted(len(at), 'rows')} (first {row_location(rows, int(at[0]))}); correct the scale, or say "
            f"that it is missing (--values {scores.iloc[at[0]]:g}=)"
        )


def _plain_numbers(values: list[Any]) -> tuple[list[Any], str]:
    """Return a column as numbers are written here, where every cell of it is written otherwise, and how."""
    texts = pd.Series([value for value in values if not _empty(value)], dtype="object")
    if texts.empty or not texts.map(lambda text: isinstance(text, str)).all():
        return values, ""
    texts, notes = texts.str.strip(), []
    if texts.str.lower().isin(("true", "false")).all():
        notes, texts = ["True is 1"], texts.str.lower().map({"true": "1", "false": "0"})
    if texts.str.endswith("%").all():
        notes.append("percentages, 85% is 85")
        texts = texts.str[:-1]
    if texts.str.fullmatch(_COMMA).all() and texts.str.contains(",").any():
        notes.append("decimal commas")
        texts = texts.str.replace(",", ".")
    read = iter(texts)
    return [value if _empty(value) else next(read) for value in values], "; ".join(notes)


def usual_scale(scores: pd.Series) -> tuple[float, float]:
    """Return the narrowest common scale that holds all scores, else their ends as whole numbers."""
    low, high = float(scores.min()), float(scores.max())
    integers = bool((scores.dropna() % 1 == 0).all())
    for first, last in _SCALES:
        if first <= low and high <= last and (integers or first == 0 or low >= first):
            return first, last
    return math.floor(low), math.ceil(high)
