"""Questions about samples with their answer keys, and the prompts that carry them, read from TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

from toolkit.errors import InputError
from toolkit.files import read_toml
from toolkit.judges.rubric import fill
from toolkit.protocols.answers import AnswerKey, answer_key

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Question:
    """One question about one sample."""

    id: str
    sample: str
    text: str
    key: AnswerKey


@dataclass(frozen=True)
class PromptVariant:
    """One way to put a question: a text with the places ``{question}`` and ``{csv}``."""

    id: str
    text: str

    def prompt(self, question: str, csv: str) -> str:
        """Return the prompt; what is put in is never read as a place.

        >>> PromptVariant("short", "{question} {csv}").prompt("Which {csv}?", "a,b")
        'Which {csv}? a,b'
        """
        return fill(self.text, {"question": question, "csv": csv}).strip()


def load_questions(path: str | Path | None = None) -> tuple[Question, ...]:
    """Read questions.

    >>> load_questions()[0].id
    'plain_gets_host'
    """
    return _load(path, "questions.toml", "question", _question)


def load_prompts(path: str | Path | None = None) -> tuple[PromptVariant, ...]:
    """Read prompt variants.

    >>> [variant.id for variant in load_prompts()]
    ['plain', 'careful']
    """
    return _load(path, "prompts.toml", "prompt", _prompt)


def _load(
    path: str | Path | None, shipped: str, table: str, make: Callable[[Any, str], _Row]
) -> tuple[_Row, ...]:
    where = shipped if path is None else str(path)
    data = read_toml(
        resources.files("toolkit.protocols") / "data" / shipped if path is None else Path(path), where
    )
    rows = data.get(table)
    if set(data) != {table} or not isinstance(rows, list) or not rows:
        raise InputError(f"{where}: must hold one or more [[{table}]] and nothing else")
    made = tuple(make(row, f"{where}, {table} {n}") for n, row in enumerate(rows, 1))
    names = [row["id"] for row in rows]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: {table} id {doubled!r} is used twice; give each its own")
    return made


def _question(row: Any, where: str) -> Question:
    _check(row, ("id", "sample", "text", "key"), where)
    key = answer_key(row["key"], f"{where} ({row['id']})")
    return Question(row["id"], row["sample"], row["text"].strip(), key)


def _prompt(row: Any, where: str) -> PromptVariant:
    _check(row, ("id", "text"), where)
    for place in ("{question}", "{csv}"):
        if row["text"].count(place) != 1:
            raise InputError(f"{where} ({row['id']}): text must hold {place} once")
    return PromptVariant(row["id"], row["text"])


def _check(row: Any, keys: tuple[str, ...], where: str) -> None:
    if not isinstance(row, Mapping):
        raise InputError(f"{where} must be a table")
    if unknown := [name for name in row if name not in keys]:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; allowed are {', '.join(keys)}")
    for name in keys:
        if name not in row:
            raise InputError(f"{where}: key {name!r} is missing; add it")
        if name != "key" and (not isinstance(row[name], str) or not row[name].strip()):
            raise InputError(f"{where}: {name} must be a text that is not empty")
    if not _NAME.fullmatch(row["id"]):
        raise InputError(f"{where}: id {row['id']!r} must be letters, digits, '_', '.' and '-' only")
