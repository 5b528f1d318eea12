"""Tables of questions with their key, as others publish them: CSV, TSV, Excel, JSON or one JSON object a line.

A wrong column would give a wrong accuracy without a word. So columns are taken by the names that published sets use,
what was taken for what is recorded, and where a table leaves it open one line says what to write.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex, sha256_of
from toolkit.files.hub import is_hub
from toolkit.files.reading import read_toml
from toolkit.files.tables import table_rows, usual_columns
from toolkit.words import choices, counted, name_fault, one_line, suggestion

USUAL = read_toml(Path(__file__).parent / "data" / "columns.toml")
"""What columns are for, and what published sets call them, in small letters."""
Row = Mapping[str, Any]
_LETTER_COLUMN = re.compile(r"(?:(?:option|choice|answer)[ _-])?([a-z])", re.IGNORECASE)
_FIELD = re.compile(r"\{([^{}]+)\}")
_PLACES = re.compile(
    r"(?i:\bof the (?:above|below|preceding|previous|other)|\b(?:above|previous) (?:options?|answers?|choices?))"
    r"|(?i:\b(?:both|neither|only|options?|answers?|choices?)) \(?[A-Z]\b(?!')"
    r"|^\(?[A-Z]\)?(?:, ?\(?[A-Z]\)?)*,? (?:and|or|&) \(?[A-Z]\)?\W*$"
)
_CUT = 80


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

    @property
    def answers(self) -> list[str]:
        """The texts of the key."""
        return self.answer if isinstance(self.answer, list) else [self.answer] if self.answer else []


Items = Sequence[KeyedItem]


@dataclass(frozen=True)
class KeyedTable:
    """The items of a file, its SHA-256, what was taken for what, and what a reader of results should know."""

    name: str
    items: tuple[KeyedItem, ...]
    sha256: str
    columns: Row
    notes: tuple[str, ...] = ()


def load_keyed(path: str | Path, columns: Row | None = None) -> KeyedTable:
    """Read a table of questions with their key: a file, or a dataset of the hub by its address.

    ``columns`` says which column is the ``prompt``, ``options``, ``answer``, ``id``, ``cluster`` and ``group``, where a
    column has no usual name (`USUAL`) or two have: a name, a dotted path into objects, or ``""`` for none. A prompt
    with ``{NAME}`` in it is filled from columns, options may be a list of columns, and an answer in a list, such as
    ``["technique"]``, is collected from all rows of one id.
    """
    name, rows = table_rows(path)
    if not rows:
        raise InputError(f"{path}: has no rows; give a table with a question in each row")
    roles = _roles(path, [row for _, row in rows], columns or {})
    items = [
        _item(f"{path}, row {line}", number, line, row, roles) for number, (line, row) in enumerate(rows, 1)
    ]
    if isinstance(roles.get("answer"), list):
        items = _collected(path, items)
    lines = defaultdict(list)
    for item in items:
        lines[item.item_id].append(str(item.row))
    if twice := [name for name in lines if len(lines[name]) > 1]:
        raise InputError(
            f"{path}, rows {', '.join(lines[twice[0]][:3])}: have one id, {one_line(twice[0], _CUT)!r}; "
            "an id names one question"
        )
    bare = [_without_marks(item) for item in items]
    stripped = sum(item.options != plain.options for item, plain in zip(items, bare, strict=True))
    items, notes = _lettered(path, bare)
    if stripped:
        notes.append(f"marks before options were taken off in {counted(stripped, 'rows')}")
    if "id" not in roles:
        notes.append("ids are the numbers of rows: the table has no column for them")
    if doubled := len(items) - len({(item.prompt, item.options) for item in items}):
        notes.append(f"{counted(doubled, 'rows')} with the question of an earlier row")
    if "cluster" in roles and (alone := sum(item.cluster is None for item in items)):
        notes.append(f"{counted(alone, 'rows')} without {roles['cluster']}: each is a cluster of its own")
    sha256 = sha256_hex(repr(rows)) if is_hub(path) else sha256_of(Path(path))
    return KeyedTable(name, tuple(items), sha256, roles, tuple(notes))


def keeps_order(item: KeyedItem) -> bool:
    """Return whether an option is its own letter or speaks of others by their place: they are not shuffled.

    >>> keeps_order(KeyedItem("1", "Which?", ("TLS", "SSH", "Both A and B")))
    True
    """
    return any(
        option.upper() == letter or _PLACES.search(option)
        for letter, option in zip(LETTERS, item.options, strict=False)
    )


def _roles(path: str | Path, rows: Sequence[Row], columns: Row) -> dict[str, Any]:
    """Return what is taken for what: what a study gives, then the usual names; two candidates are one line."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    listed = f"its columns are {one_line(', '.join(names), 200)}"
    roles, claimed = dict(columns), set[str]()
    for role, column in columns.items():
        if role not in USUAL:
            raise InputError(f"columns.{role}: is not known; {choices(role, USUAL)}")
        parts = [column]
        if isinstance(column, list) and role in ("options", "answer"):
            parts = column or parts
        elif role == "prompt" and column not in names:
            parts = _FIELD.findall(str(column)) or parts
        for part in parts:
            if not isinstance(part, str):
                raise InputError(
                    f"columns.{role}: {one_line(repr(part), _CUT)} is no name of a column; write a text"
                )
            if part and all(_cell(row, part) is None for row in rows):
                raise InputError(
                    f"{path}: has no column {part!r} (columns.{role}); {suggestion(part, names)}{listed}"
                )
        claimed.update(parts)
    free = [name for name in names if name not in claimed]
    usual: dict[str, list[Any]] = {
        role: sorted(candidates, key=names.index) for role, candidates in usual_columns(free, USUAL).items()
    }
    # Some call the key "answers".
    usual["options"] = [
        name
        for name in usual["options"]
        if all(isinstance(row.get(name, []), list | Mapping) for row in rows)
    ]
    # Options such as "Option A" to "Option D", in the order of their letters.
    matches = ((_LETTER_COLUMN.fullmatch(name.strip()), name) for name in free)
    by_letter = {match[1].upper(): name for match, name in matches if match}
    if len(by_letter) > 1 and sorted(by_letter) == list(LETTERS[: len(by_letter)]):
        usual["options"].append([by_letter[letter] for letter in sorted(by_letter)])
    if not usual["prompt"] and {"instruction", "input"} <= {name.strip().casefold() for name in free}:
        usual["prompt"] = ["{instruction}\n\n{input}"]
    for role, candidates in usual.items():
        if len(candidates) > 1 and role not in columns:
            first, *more = (json.dumps(candidate, ensure_ascii=False) for candidate in candidates)
            raise InputError(
                f"{path}: {' and '.join([first, *more])} may each be the {role}; "
                f"say under [options] which: columns = {{ {role} = {first} }}"
            )
        if candidates:
            roles.setdefault(role, candidates[0])
    if not roles.get("prompt"):
        advice = 'say under [options] which has the question: columns = { prompt = "NAME" }'
        raise InputError(f"{path}: no column is called {' or '.join(USUAL['prompt'])}; {advice}; {listed}")
    return {role: column for role, column in roles.items() if column != ""}


def _cell(row: Row, column: str) -> Any:
    """Return the cell of a column, or of a dotted path into objects, `None` where there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _item(location: str, number: int, line: int, row: Row, roles: Row) -> KeyedItem:
    def cell(column: str) -> str:
        return _text(_cell(row, column), f"{location}, {column}")

    def text(role: str) -> str:
        return cell(roles[role]).strip() if role in roles else ""

    column, answer = roles["prompt"], roles.get("answer")
    fields = [] if column in row else _FIELD.findall(column)
    if absent := [name for name in fields if _cell(row, name) is None]:
        raise InputError(
            f"{location}: has no {absent[0]}, which its prompt needs; write it, or take the row out"
        )
    prompt = _FIELD.sub(lambda field: cell(field[1]), column).strip() if fields else cell(column)
    item_id = text("id") if "id" in roles else f"{number:05d}"
    for role, content in (("prompt", prompt.strip()), ("id", item_id)):
        if not content:
            raise InputError(
                f"{location}: has no {role} ({one_line(roles[role], _CUT)}); write it, or take the row out"
            )
    if fault := name_fault(item_id):
        raise InputError(f"{location}: its id {fault}")
    options = _options(row, roles["options"], location) if "options" in roles else ()
    key: Any = _cell(row, answer) if isinstance(answer, str) else None
    if isinstance(answer, list):
        key = [part for name in answer if (part := cell(name).strip())]
    else:
        key = [_text(part, location).strip() for part in key] if isinstance(key, list) else text("answer")
    return KeyedItem(
        item_id, prompt, options, key or None, text("cluster") or None, text("group") or None, line
    )


def _text(value: Any, location: str) -> str:
    """Return a cell as the text that a person would write; a list of texts is joined."""
    if isinstance(value, list):
        return ", ".join(_text(part, location) for part in value)
    if isinstance(value, Mapping):
        raise InputError(
            f"{location}: is {one_line(repr(value), _CUT)}, no text; name a part of it, such as NAME.PART"
        )
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    text = "" if value is None else str(int(value)) if whole else str(value)
    if re.search("[\ud800-\udfff]", text):
        raise InputError(
            f"{location}: holds half of a character (a lone surrogate), which cannot be sent; correct it"
        )
    return text


def _options(row: Row, column: str | list[str], location: str) -> tuple[str, ...]:
    """Return the texts of an item's options; empty ones at the end are none, one before others is a fault."""
    cells = [_cell(row, name) for name in column] if isinstance(column, list) else _cell(row, column)
    if isinstance(cells, Mapping):
        if sorted(cells) != list(LETTERS[: len(cells)]):
            raise InputError(
                f"{location}: has the options {one_line(', '.join(cells), _CUT)}; name them A, B, C, ..."
            )
        cells = [cells[letter] for letter in sorted(cells)]
    if not isinstance(cells or [], list):
        raise InputError(
            f"{location}: has {one_line(repr(cells), _CUT)} for options; write a list, or a column for each"
        )
    texts = [_text(cell, location).strip() for cell in cells or []]
    while texts and not texts[-1]:
        texts.pop()
    if "" in texts or len(texts) > len(LETTERS):
        many = f"{len(texts)} options are more than 26"
        fault = f"option {texts.index('') + 1} is empty" if "" in texts else many
        raise InputError(f"{location}: {fault}; correct it, or take the row out")
    return tuple(texts)


def _collected(path: str | Path, items: Items) -> list[KeyedItem]:
    """Return one item an id, its key all answers of its rows; the rows must ask the same."""
    first: dict[str, KeyedItem] = {}
    answers: dict[str, dict[str, None]] = {}
    for item in items:
        earlier = first.setdefault(item.item_id, item)
        if replace(item, answer=None, row=0) != replace(earlier, answer=None, row=0):
            raise InputError(
                f"{path}, row {item.row}: differs from row {earlier.row} of the same id in more than the answer; "
                "make them alike"
            )
        answers.setdefault(item.item_id, {}).update(dict.fromkeys(item.answer or ()))
    return [replace(item, answer=list(answers[name]) or None) for name, item in first.items()]


def _without_marks(item: KeyedItem) -> KeyedItem:
    """Return an item whose options lost the marks that the file wrote before them: in another order these lie."""
    for marks in (LETTERS, LETTERS.lower(), _COUNTS[1:]):
        pairs = list(zip(marks, item.options, strict=False))
        bare = tuple(re.sub(rf"^\(?{mark}[).:]+\s+", "", option) for mark, option in pairs)
        if len(bare) < 2 or set(bare) & set(item.options):
            continue
        letters = {
            text: LETTERS[index] for index, pair in enumerate(pairs) for text in pair if text not in bare
        }
        named = [letters.get(answer, answer) for answer in item.answers]
        return replace(
            item, options=bare, answer=named if isinstance(item.answer, list) else (*named, None)[0]
        )
    return item


_COUNTS = tuple(map(str, range(len(LETTERS) + 1)))


def _lettered(path: str | Path, items: list[KeyedItem]) -> tuple[list[KeyedItem], list[str]]:
    """Return items whose key is a letter where the table counts options from 0 or 1; where it is open, one line."""
    keyed = [item for item in items if item.options and item.answer]
    if not keyed or not all(re.fullmatch("[0-9]{1,2}", str(item.answer)) for item in keyed):
        return items, []
    readings = {
        name: [
            dict(zip(names or item.options, LETTERS[: len(item.options)], strict=False)).get(item.answer)
            for item in keyed
        ]
        for name, names in (("", ()), ("from 0", _COUNTS), ("from 1", _COUNTS[1:]))
    }
    possible = {name: letters for name, letters in readings.items() if None not in letters}
    likely = readings["from 0" if any(item.answer == "0" for item in keyed) else "from 1"]
    for item, *letters in zip(keyed, *(possible or {"": likely}).values(), strict=True):
        if None in letters or len(set(letters)) > 1:
            fault = "may be the text of an option, or count the options from 0 or from 1"
            fault = fault if possible else f"is none of {len(item.options)} options"
            raise InputError(f"{path}, row {item.row}: the answer {item.answer} {fault}; write its letter")
    name, first = next(iter(possible.items()))
    if not name:
        return items, []
    by_row = {item.row: letter for item, letter in zip(keyed, first, strict=True)}
    items = [replace(item, answer=by_row.get(item.row, item.answer)) for item in items]
    return items, [f"answers count the options {name}"]
