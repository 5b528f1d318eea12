"""Questions about samples, the prompts that carry them, and the JSON objects of replies."""

import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, model_validator

from toolkit.errors import InputError
from toolkit.files import Strict, Text, TooDeep, checked, parsed, read_toml
from toolkit.judges.rubric import fill
from toolkit.traffic.measures import Answer

MAX_TEXT = 20_000  # characters of a reply that is read: ten times what a model is asked for
MAX_OBJECTS = 200  # opening braces at which an object is looked for; a reply with more is no answer
DOUBLED = "\0doubled"  # the key of an object that had a key twice


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        raise ValueError(f"{text!r} must be letters, digits, '_', '.' and '-' only")
    return text


def _with_placeholders(text: str) -> str:
    for placeholder in ("{question}", "{csv}"):
        if text.count(placeholder) != 1:
            raise ValueError(f"must hold {placeholder} once")
    return text


_Name = Annotated[str, AfterValidator(_name)]


class Question(Strict):
    """One question about one sample: the answer that is expected, or what judges require of a reply in free text."""

    id: _Name
    sample: Text
    text: Annotated[Text, AfterValidator(str.strip)]
    answer: Answer | None = None
    requirement: Text | None = None

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if (self.answer is None) == (self.requirement is None):
            raise ValueError("needs an answer, or for free text a requirement in its place")
        return self


class PromptVariant(Strict):
    """A prompt text with the placeholders ``{question}`` and ``{csv}``."""

    id: _Name
    text: Annotated[Text, AfterValidator(_with_placeholders)]

    def prompt(self, question: str, csv: str) -> str:
        """Return the prompt; placeholders inside the inserted texts are not filled."""
        return fill(self.text, {"question": question, "csv": csv}).strip()


_Row = TypeVar("_Row", Question, PromptVariant)


def load_questions(path: str | Path | None = None) -> tuple[Question, ...]:
    """Read questions."""
    return _rows(path, "questions.toml", "question", Question)


def load_prompts(path: str | Path | None = None) -> tuple[PromptVariant, ...]:
    """Read prompt variants."""
    return _rows(path, "prompts.toml", "prompt", PromptVariant)


def _rows(path: str | Path | None, shipped: str, table: str, model: type[_Row]) -> tuple[_Row, ...]:
    location = shipped if path is None else str(path)
    source = resources.files("toolkit.traffic") / shipped if path is None else Path(path)
    data = read_toml(source, location)
    rows = data.get(table)
    if set(data) != {table} or not isinstance(rows, list) or not rows:
        raise InputError(f"{location}: must hold one or more [[{table}]] and nothing else")
    entries = [checked(model, row, f"{location}, {table} {number}") for number, row in enumerate(rows, 1)]
    counts = Counter(entry.id for entry in entries)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f"{location}: {table} id {twice[0]!r} is used twice; give each its own")
    return tuple(entries)


# --- the JSON of replies ----------------------------------------------------------------------------------------------


def json_objects(text: str, decoder: json.JSONDecoder) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a reply, or raise `TooDeep`; one with a key twice, ambiguous, is DOUBLED."""
    objects, position = [], 0
    for _ in range(MAX_OBJECTS):
        position = text.find("{", position)
        if position < 0:
            break
        try:
            value, position = parsed(decoder.raw_decode, text, position)
        except TooDeep:
            raise
        except ValueError:
            position += 1
        else:
            objects.append(value)
    return objects


def marked_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict, or DOUBLED alone where a key is there twice."""
    decoded = dict(pairs)
    return decoded if len(decoded) == len(pairs) else {DOUBLED: True}
