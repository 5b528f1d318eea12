"""Questions about samples with their answer keys, the prompts that carry them, and the JSON objects of replies.

A key is the expected answer of free text, as judges are told it; typed answers are compared in `toolkit.traffic.typed`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, model_validator

from toolkit.errors import InputError
from toolkit.files import Strict, Text, checked, read_toml
from toolkit.judges.rubric import fill
from toolkit.traffic.measures import Answer as TypedAnswer

MAX_TEXT: Final = 20_000  # characters of a reply that is read: ten times what a model is asked for
MAX_OBJECTS: Final = 200  # opening braces at which an object is looked for; a reply with more is no answer
DOUBLED: Final = "\0doubled"  # the key of an object that had a key twice


@dataclass(frozen=True)
class AnswerKey:
    """The expected answer of one question."""

    kind: str
    value: Any
    tolerance: float = 0.0
    field: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return the expected values as texts, none for a pattern."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return () if self.kind == "regex" else tuple(map(str, values))


def answer_key(data: Any) -> AnswerKey:
    """Return a key as it stands in a question file; raise `ValueError` where it cannot be used."""
    if isinstance(data, AnswerKey):
        return data
    if not isinstance(data, Mapping) or data.get("kind") not in _TAKES or "value" not in data:
        raise ValueError(f"must have a value and a kind, one of {', '.join(_TAKES)}")
    kind, value = data["kind"], data["value"]
    allowed = {"kind", "value"} | {"number": {"tolerance"}, "json": {"tolerance", "field"}}.get(kind, set())
    if unknown := sorted(set(data) - allowed):
        raise ValueError(f"a key of kind {kind} has no {unknown[0]!r}; take it out")
    tolerance, field = data.get("tolerance", 0.0), data.get("field", "")
    if not _is_number(tolerance) or tolerance < 0:
        raise ValueError(f"tolerance {tolerance!r} must be a number, 0 or more")
    if kind == "json" and (not isinstance(field, str) or not field):
        raise ValueError("a key of kind json needs the name of a field; add field = ...")
    fits, description = _TAKES[kind]
    if not fits(value):
        raise ValueError(f"value {value!r} of a key of kind {kind} must be {description}")
    if kind == "regex":
        import regex  # type: ignore[import-untyped]

        try:
            regex.compile(value)
        except (regex.error, RecursionError) as error:
            raise ValueError(f"pattern {value!r} does not compile ({error}); correct it") from error
    frozen = tuple(value) if isinstance(value, list | tuple) else value
    return AnswerKey(kind, frozen, float(tolerance), field)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(x, str) or _is_number(x) for x in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_TAKES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "exact": (_is_text, "a text"),
    "number": (_is_number, "a finite number"),
    "set": (_is_list, "a list of texts or numbers"),
    "regex": (_is_text, "a text"),
    "json": (
        lambda x: isinstance(x, str | bool) or _is_number(x) or _is_list(x),
        "a text, a number, true, false or a list",
    ),
    "judge": (_is_text, "a text"),
}


# --- question files ---------------------------------------------------------------------------------------------------


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
    """One question about one sample."""

    id: _Name
    sample: Text
    text: Annotated[Text, AfterValidator(str.strip)]
    answer: TypedAnswer | None = None
    key: Annotated[AnswerKey, BeforeValidator(answer_key)] = AnswerKey("", None)

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if self.answer is None and not self.key.kind:
            raise ValueError("needs an answer, or for free text a key")
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


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a reply, without those that have a doubled key, which are ambiguous."""
    return [value for value in json_values(text) if DOUBLED not in value]


def json_values(text: str, sign: str = "{", decoder: json.JSONDecoder | None = None) -> list[Any]:
    """Return the outermost JSON objects of a reply, or its lists; an object with a doubled key has DOUBLED in it."""
    values, position, decoder = [], 0, decoder or _DECODER
    for _ in range(MAX_OBJECTS):
        position = text.find(sign, position)
        if position < 0:
            break
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            values.append(value)
    return values


def marked_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict, or DOUBLED alone where a key is there twice."""
    decoded = dict(pairs)
    return decoded if len(decoded) == len(pairs) else {DOUBLED: True}


# Integers are read as floats: int() refuses more than 4,300 digits, float() takes them.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=float)
