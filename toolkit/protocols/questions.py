"""Questions about samples with their answer keys, and the prompts that carry them, read from TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from toolkit.errors import InputError
from toolkit.files import Strict, Text, checked, read_toml
from toolkit.judges.rubric import fill
from toolkit.protocols.answers import AnswerKey, answer_key


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        raise ValueError(f"{text!r} must be letters, digits, '_', '.' and '-' only")
    return text


def _with_places(text: str) -> str:
    for place in ("{question}", "{csv}"):
        if text.count(place) != 1:
            raise ValueError(f"must hold {place} once")
    return text


_Name = Annotated[str, AfterValidator(_name)]


class _QuestionRow(Strict):
    id: _Name
    sample: Text
    text: Text
    key: Any


class _PromptRow(Strict):
    id: _Name
    text: Annotated[Text, AfterValidator(_with_places)]


_Row = TypeVar("_Row", _QuestionRow, _PromptRow)


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
        """Return the prompt; what is put in is never read as a place."""
        return fill(self.text, {"question": question, "csv": csv}).strip()


def load_questions(path: str | Path | None = None) -> tuple[Question, ...]:
    """Read questions."""
    return tuple(
        Question(row.id, row.sample, row.text.strip(), answer_key(row.key, f"{where} ({row.id})"))
        for row, where in _rows(path, "questions.toml", "question", _QuestionRow)
    )


def load_prompts(path: str | Path | None = None) -> tuple[PromptVariant, ...]:
    """Read prompt variants."""
    rows = _rows(path, "prompts.toml", "prompt", _PromptRow)
    return tuple(PromptVariant(row.id, row.text) for row, _ in rows)


def _rows(path: str | Path | None, shipped: str, table: str, model: type[_Row]) -> Iterator[tuple[_Row, str]]:
    """Yield the checked rows of a file, each with where it stands."""
    where = shipped if path is None else str(path)
    place = resources.files("toolkit.protocols") / "data" / shipped if path is None else Path(path)
    data = read_toml(place, where)
    rows = data.get(table)
    if set(data) != {table} or not isinstance(rows, list) or not rows:
        raise InputError(f"{where}: must hold one or more [[{table}]] and nothing else")
    seen: set[str] = set()
    for number, row in enumerate(rows, 1):
        made = checked(model, row, f"{where}, {table} {number}")
        if made.id in seen:
            raise InputError(f"{where}: {table} id {made.id!r} is used twice; give each its own")
        seen.add(made.id)
        yield made, f"{where}, {table} {number}"
