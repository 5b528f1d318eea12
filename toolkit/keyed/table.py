"""Tables of questions with their key, as others publish them: CSV, TSV, Excel, JSON or one JSON object a line.

A wrong column would give a wrong accuracy without a word. So columns are taken by the names that published sets use,
what was taken for what is recorded, and where a table leaves it open one line says what to write.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.files import read_json
from toolkit.table_files import ROW_FILES, read_rows
from toolkit.words import choices, counted, one_line, suggestion

USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": ("prompt", "question", "question_text"),
    "options": ("choices", "options", "answers"),
    "answer": ("answer", "gt", "solution", "label", "correct_answer", "correct_options", "output"),
    "id": ("id", "question_id", "item_id"),
    "cluster": ("url", "document", "source"),
    "group": ("topic", "category", "bucket"),
}
"""What columns are for, and what published sets call them, in small letters."""
_LETTER_COLUMN: Final = re.compile(r"(?:option|choice|answer)?[ _-]?([a-z])", re.IGNORECASE)
_FIELD: Final = re.compile(r"\{([^{}]+)\}")
_POSITIONS: Final = re.compile(
    r"(?i:\bof the (?:above|below|preceding|previous|other)|\b(?:above|previous) (?:options?|answers?|choices?))"
    r"|(?i:\b(?:both|neither|only|options?|answers?|choices?)) \(?[A-Z]\b(?!')"
    r"|^\(?[A-Z]\)?(?:, ?\(?[A-Z]\)?)*,? (?:and|or|&) \(?[A-Z]\)?\W*$"
)
_CUT: Final = 80


@dataclass(frozen=True)
class KeyedItem:
    """One question of a table; `answer` is its key, a text or a list of texts, and `None` where the table has none."""

    item_id: str
    prompt: str
    options: tuple[str, ...] = ()
    answer: Any = None
    cluster: str | None = None
    group: str | None = None
    row: int = 0


@dataclass(frozen=True)
class KeyedTable:
    """The items of a file, its SHA-256, what was taken for what, and what a reader of results should know."""

    name: str
    items: tuple[KeyedItem, ...]
    sha256: str
    columns: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def load_keyed(path: Path, columns: Mapping[str, Any] | None = None) -> KeyedTable:
    """Read a table of questions with their key.

    ``columns`` says which column is the ``prompt``, ``options``, ``answer``, ``id``, ``cluster`` and ``group``, where a
    column has no usual name (`USUAL`) or two have: a name, a dotted path into objects, or ``""`` for none. A prompt
    with ``{NAME}`` in it is filled from columns, options may be a list of columns, and an answer in a list, such as
    ``["technique"]``, is collected from all rows of one id.
    """
    rows = _read(path)
    unknown = [role for role in columns or {} if role not in USUAL]
    if unknown:
        raise InputError(f"columns.{unknown[0]}: is not known; {choices(unknown[0], USUAL)}")
    roles = _roles(path, [row for _, row in rows], dict(columns or {}))
    items = [_item(path, number, line, row, roles) for number, (line, row) in enumerate(rows, 1)]
    notes = [] if "id" in roles else ["ids are the numbers of rows: the table has no column for them"]
    if isinstance(roles.get("answer"), list):
        items = _collected(path, items)
    if twice := [name for name, times in Counter(item.item_id for item in items).items() if times > 1]:
        lines = [str(item.row) for item in items if item.item_id == twice[0]]
        raise InputError(
            f"{path}, rows {', '.join(lines[:3])}: have one id, {one_line(twice[0], _CUT)!r}; an id names one question"
        )
    items, more = _without_letters(items)
    items, numbered = _lettered(path, items)
    notes += more + numbered
    if doubled := len(items) - len({(item.prompt, item.options) for item in items}):
        notes.append(f"{counted(doubled, 'rows')} ask what an earlier row asks")
    if "cluster" in roles and (alone := sum(item.cluster is None for item in items)):
        notes.append(f"{counted(alone, 'rows')} without {roles['cluster']}: each is a cluster of its own")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return KeyedTable(path.name, tuple(items), digest, roles, tuple(notes))


def keeps_order(item: KeyedItem) -> bool:
    """Return whether an option speaks of others by their place ("all of the above", "A and C"): they are not shuffled.

    >>> keeps_order(KeyedItem("1", "Which?", ("TLS", "SSH", "Both A and B")))
    True
    """
    return any(_POSITIONS.search(option) for option in item.options)


def _read(path: Path) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the rows of a file, each with its line or its number in a list."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        content = read_json(path)
        if isinstance(content, Mapping):
            lists = {name: value for name, value in content.items() if isinstance(value, list) and value}
            lists = {name: value for name, value in lists.items() if isinstance(value[0], Mapping)}
            if len(lists) != 1:
                has = f"lists of objects in {', '.join(lists)}" if lists else "no list of objects"
                raise InputError(f"{path}: has {has}; a table is one list of objects")
            (content,) = lists.values()
        if not isinstance(content, list):
            raise InputError(f"{path}: is no list of objects; a table is one list of objects")
        for number, row in enumerate(content, 1):
            if not isinstance(row, Mapping):
                raise InputError(f"{path}, row {number}: is no object; a table is one list of objects")
        rows = list(enumerate(content, 1))
    elif suffix in ROW_FILES:
        rows = list(read_rows(path))
    else:
        raise InputError(f"{path}: is no table that is read (.json, {', '.join(ROW_FILES)}); save it as one")
    if not rows:
        raise InputError(f"{path}: has no rows; give a table with a question in each row")
    return rows


def _roles(path: Path, rows: Sequence[Mapping[str, Any]], columns: dict[str, Any]) -> dict[str, Any]:
    """Return what is taken for what: what a study gives, then the usual names; two candidates are one line."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def existing(role: str, column: Any) -> None:
        if not isinstance(column, str):
            raise InputError(
                f"columns.{role}: {one_line(repr(column), _CUT)} is no name of a column; write a text"
            )
        if not any(_cell(row, column) is not None for row in rows):
            near = suggestion(column, names)
            listed = one_line(", ".join(map(str, names)), 200)
            raise InputError(
                f"{path}: has no column {column!r} (columns.{role}); {near}its columns are {listed}"
            )

    roles: dict[str, Any] = {}
    for role, column in columns.items():
        fields = _FIELD.findall(column) if role == "prompt" and isinstance(column, str) else []
        if column == "" or (fields and column not in names):
            parts = fields
        else:
            several = isinstance(column, list) and role in ("options", "answer") and column
            parts = column if several else [column]
        for part in parts:
            existing(role, part)
        if column != "":
            roles[role] = column
    given = {
        str(part)
        for column in columns.values()
        for part in (column if isinstance(column, list) else [column])
    }
    free = [name for name in names if name not in given]
    for role, usual in USUAL.items():
        if role in columns:
            continue
        found = [name for name in free if name.strip().casefold() in usual]
        candidates: list[Any] = [name for name in found if role != "options" or _holds_options(rows, name)]
        if role == "options" and (lettered := _letter_columns(free)):
            candidates.append(lettered)
        if (
            role == "prompt"
            and not candidates
            and {"instruction", "input"} <= {name.casefold() for name in free}
        ):
            pair = [name for word in ("instruction", "input") for name in free if name.casefold() == word]
            candidates = [f"{{{pair[0]}}}\n\n{{{pair[1]}}}"]
        if len(candidates) > 1:
            texts = [json.dumps(candidate, ensure_ascii=False) for candidate in candidates]
            raise InputError(
                f"{path}: {' and '.join(texts)} may each be the {role}; say under [options] which: "
                f"columns = {{ {role} = {texts[0]} }}"
            )
        if candidates:
            roles[role] = candidates[0]
    if "prompt" not in roles:
        listed = one_line(", ".join(map(str, names)), 200)
        raise InputError(
            f"{path}: no column is called {' or '.join(USUAL['prompt'])}; say under [options] which has the question: "
            f'columns = {{ prompt = "NAME" }}; its columns are {listed}'
        )
    return roles


def _letter_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of options such as "Option A" to "Option D", in the order of their letters."""
    by_letter = {
        match[1].upper(): name for name in names if (match := _LETTER_COLUMN.fullmatch(name.strip()))
    }
    columns = [by_letter[letter] for letter in LETTERS[: len(by_letter)] if letter in by_letter]
    return columns if len(columns) > 1 and len(columns) == len(by_letter) else []


def _holds_options(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return whether a column has several values in a cell: "answers" is also what some call the key."""
    cells = (row.get(name) for row in rows)
    return all(
        isinstance(cell, list | Mapping) or str(cell)[:1] in ("[", "{") for cell in cells if cell is not None
    )


def _cell(row: Mapping[str, Any], column: str) -> Any:
    """Return the cell of a column, or of a dotted path into objects, `None` where there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _item(path: Path, number: int, line: int, row: Mapping[str, Any], roles: Mapping[str, Any]) -> KeyedItem:
    place = f"{path}, row {line}"

    def text(role: str) -> str:
        return _text(_cell(row, roles[role]), f"{place}, {roles[role]}") if role in roles else ""

    column = roles["prompt"]
    if _FIELD.search(column) and column not in row:
        prompt = _FIELD.sub(lambda field: _text(_cell(row, field[1]), f"{place}, {field[1]}"), column).strip()
    else:
        prompt = text("prompt")
    if not prompt.strip():
        raise InputError(
            f"{place}: has no prompt ({one_line(column, _CUT)} is empty); write one, or take the row out"
        )
    item_id = text("id") if "id" in roles else f"{number:05d}"
    if not item_id.strip():
        raise InputError(f"{place}: has no id ({roles['id']} is empty); write one, or take the row out")
    return KeyedItem(
        item_id.strip(),
        prompt,
        _options(row, roles["options"], place) if "options" in roles else (),
        _answer(row, roles["answer"], place) if "answer" in roles else None,
        text("cluster").strip() or None,
        text("group").strip() or None,
        line,
    )


def _text(value: Any, place: str) -> str:
    """Return a cell as the text that a person would write; a list of texts is joined."""
    if isinstance(value, list) and not any(isinstance(part, list | Mapping) for part in value):
        return ", ".join(_text(part, place) for part in value)
    if isinstance(value, list | Mapping):
        raise InputError(
            f"{place}: is {one_line(repr(value), _CUT)}, no text; name what is in it, as in answer.text"
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(
            f"{place}: holds half of a character (a lone surrogate), which cannot be sent; correct it"
        )
    return text


def _options(row: Mapping[str, Any], column: str | list[str], place: str) -> tuple[str, ...]:
    """Return the texts of an item's options; empty ones at the end are none, one before others is a fault."""
    if isinstance(column, list):
        cells: Any = [_cell(row, name) for name in column]
    else:
        place, cells = f"{place}, {column}", _parsed(_cell(row, column), f"{place}, {column}")
    if isinstance(cells, Mapping):
        names = sorted(str(name).strip() for name in cells)
        if names != list(LETTERS[: len(names)]):
            raise InputError(
                f"{place}: has the options {one_line(', '.join(names), _CUT)}; name them A, B, C, ..."
            )
        by_letter = {str(name).strip(): cell for name, cell in cells.items()}
        cells = [by_letter[name] for name in names]
    if cells in (None, ""):
        return ()
    if not isinstance(cells, list):
        raise InputError(f"{place}: is {one_line(repr(cells), _CUT)}, no list of options; write a JSON list")
    texts = [_text(cell, place).strip() for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    if "" in texts:
        raise InputError(
            f"{place}: option {LETTERS[texts.index('') % 26]} is empty; write it, or take the row out"
        )
    if len(texts) > len(LETTERS):
        raise InputError(
            f"{place}: has {len(texts)} options, more than the {len(LETTERS)} letters; take some out"
        )
    return tuple(texts)


def _parsed(cell: Any, place: str) -> Any:
    """Return a cell of CSV that holds a JSON list or object as that."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            raise InputError(
                f'{place}: {one_line(cell, _CUT)} is no JSON list; write ["...", "..."]'
            ) from None
    return cell


def _answer(row: Mapping[str, Any], column: str | list[str], place: str) -> Any:
    """Return the key of a row: a text, a list of texts, or `None`."""
    cell = [_cell(row, name) for name in column] if isinstance(column, list) else _cell(row, column)
    if isinstance(cell, list):
        texts = [_text(part, f"{place}, {column}").strip() for part in cell]
        return [text for text in texts if text] or None
    return _text(cell, f"{place}, {column}").strip() or None


def _collected(path: Path, items: Sequence[KeyedItem]) -> list[KeyedItem]:
    """Return one item an id, its key all answers of its rows; the rows must ask the same."""
    by_id: dict[str, list[KeyedItem]] = {}
    for item in items:
        by_id.setdefault(item.item_id, []).append(item)
    collected = []
    for first, *more in by_id.values():
        for item in more:
            if replace(item, answer=None, row=0) != replace(first, answer=None, row=0):
                raise InputError(
                    f"{path}, row {item.row}: differs from row {first.row} of the same id in more than the answer; "
                    "give rows that ask the same the same prompt, options, cluster and group"
                )
        answers = [answer for item in (first, *more) for answer in item.answer or ()]
        collected.append(replace(first, answer=list(dict.fromkeys(answers)) or None))
    return collected


def _without_letters(items: Sequence[KeyedItem]) -> tuple[list[KeyedItem], list[str]]:
    """Return items whose options lost the letters that the file wrote before them: shown in another order, they lie."""
    changed, count = [], 0
    for item in items:
        marks = [
            re.match(rf"\(?{letter}[).:]\s+", option)
            for letter, option in zip(LETTERS, item.options, strict=False)
        ]
        if len(item.options) > 1 and all(marks):
            bare = [option[mark.end() :] for option, mark in zip(item.options, marks, strict=True) if mark]
            names = dict(zip(item.options, bare, strict=True))
            keys = item.answer if isinstance(item.answer, list) else [item.answer]
            keys = [names.get(key, key) for key in keys]
            item = replace(
                item, options=tuple(bare), answer=keys if isinstance(item.answer, list) else keys[0]
            )
            count += 1
        changed.append(item)
    return changed, [f"letters before options were taken off in {counted(count, 'rows')}"] if count else []


def _lettered(path: Path, items: list[KeyedItem]) -> tuple[list[KeyedItem], list[str]]:
    """Return items whose key is a letter where the table counts options from 0 or 1; where it is open, one line."""
    keyed = [item for item in items if item.options and isinstance(item.answer, str)]
    numbers = [item for item in keyed if re.fullmatch(r"[0-9]{1,2}", item.answer)]
    if not numbers or len(numbers) < len(keyed) or all(item.answer in item.options for item in numbers):
        return items, []
    from_zero = any(int(item.answer) == 0 for item in numbers)
    from_one = any(int(item.answer) == len(item.options) for item in numbers)
    if from_zero == from_one:
        raise InputError(
            f"{path}, row {numbers[0].row}: the answer {numbers[0].answer} may count the options from 0 or from 1; "
            "write its letter"
        )
    first = 0 if from_zero else 1
    wrong = [item for item in numbers if not 0 <= int(item.answer) - first < len(item.options)]
    if wrong:
        raise InputError(
            f"{path}, row {wrong[0].row}: the answer {wrong[0].answer} is none of the {len(wrong[0].options)} options, "
            f"counted from {first}; correct it"
        )
    of_rows = {item.row: LETTERS[int(item.answer) - first] for item in numbers}
    lettered = [replace(item, answer=of_rows.get(item.row, item.answer)) for item in items]
    return lettered, [f"answers count the options from {first}"]
