"""Questions about samples with their answer keys, and the prompts that carry them, read from TOML.

A key has the expected answer and decides whether a reply gives it. It is strict: a reply that it cannot recognise
does not match, so that no score depends on a guess of the parser.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator

from toolkit.errors import InputError
from toolkit.files import Strict, Text, checked, read_toml
from toolkit.judges.rubric import fill
from toolkit.traffic.mentions import refanged
from toolkit.traffic.named_values import (
    Match,
    final_answer,
    json_objects,
    list_matches,
    number_matches,
    plain,
    value_matches,
)

MAX_REGEX_TEXT: Final = 20_000
"""Longest reply a regular expression is tried on, in characters: about ten times what a model is asked for."""
REGEX_SECONDS: Final = 2.0
"""How long one regular expression may search; a pattern that takes longer on a text of this length is broken."""


@dataclass(frozen=True)
class AnswerKey:
    """The expected answer of one question."""

    kind: str
    value: Any
    tolerance: float = 0.0
    field: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return the expected values as texts, none for a pattern."""
        if self.kind == "regex":
            return ()
        return tuple(map(str, self.value)) if isinstance(self.value, tuple) else (str(self.value),)


def answer_key(data: Any, location: str) -> AnswerKey:
    """Check a key as it stands in a question file."""
    if not isinstance(data, Mapping) or data.get("kind") not in _TAKES or "value" not in data:
        raise InputError(f"{location}: key must have a value and a kind, one of {', '.join(_TAKES)}")
    kind, value = data["kind"], data["value"]
    allowed = {"kind", "value"} | {"number": {"tolerance"}, "json": {"tolerance", "field"}}.get(kind, set())
    if unknown := sorted(set(data) - allowed):
        raise InputError(f"{location}: a key of kind {kind} has no {unknown[0]!r}; take it out")
    tolerance, field = data.get("tolerance", 0.0), data.get("field", "")
    if not _is_number(tolerance) or tolerance < 0:
        raise InputError(f"{location}: tolerance {tolerance!r} must be a number, 0 or more")
    if kind == "json" and (not isinstance(field, str) or not field):
        raise InputError(f"{location}: a key of kind json needs the name of a field; add field = ...")
    fits, description = _TAKES[kind]
    if not fits(value):
        raise InputError(f"{location}: value {value!r} of a key of kind {kind} must be {description}")
    if kind == "regex":
        import regex  # type: ignore[import-untyped]

        try:
            regex.compile(value)
        except (regex.error, RecursionError) as error:
            message = f"{location}: pattern {value!r} does not compile ({error}); correct it"
            raise InputError(message) from error
    frozen = tuple(value) if isinstance(value, list | tuple) else value
    return AnswerKey(kind, frozen, float(tolerance), field)


def matches(key: AnswerKey, text: str, question: str = "") -> Match:
    """Say whether a reply gives the expected answer.

    Of a reply with "Answer: X" only X is read. Otherwise it may be a sentence that names
    the expected value and no competing one: another value of the same shape (address, host, path, method, product,
    number) that the question does not name itself. An expected value that is denied ("not X", "more than X") does
    not count. Case, white space, quotes, emphasis and a full stop make no difference.

    - ``exact``: the value. A word without a shape of its own ("yes") counts in a reply of at most 25 words.
    - ``number``: digits with thousands separators or a word up to ninety-nine, within the tolerance. Several
      different numbers are several answers, unless one alone is emphasised (``**12**``). A unit such as ms or kB
      is turned into seconds or bytes, unless the question asks in that unit.
    - ``set``: exactly these members in any order, as a JSON list, bullets, a list with commas, or a sentence.
    - ``regex``: the pattern is found anywhere in the reply, with the flags that it sets itself.
    - ``json``: the field of the one JSON object in the reply that has it, in a fence or in prose too. A list is
      compared without its order.
    - ``judge``: undecided; ``matched`` is None.

    >>> matches(AnswerKey("exact", "shop.example"), "The host is `shop.example`.").matched
    True
    >>> matches(AnswerKey("number", 12), "12 or 10").why
    'names several numbers: 12, 10'
    """
    if not text.strip():
        return Match(False, None, "the reply is empty")
    text = refanged(text)[0]
    if key.kind == "judge":
        return Match(None, None, "needs a judge")
    if key.kind == "regex":
        return _regex(key.value, text)
    if key.kind == "json":
        return _json(key, text)
    if key.kind == "set":
        return list_matches(tuple(str(member) for member in key.value), final_answer(text), question)
    if key.kind == "number":
        return number_matches(float(key.value), key.tolerance, final_answer(text), question)
    return value_matches(str(key.value), final_answer(text), question)


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
        lambda value: isinstance(value, str | bool) or _is_number(value) or _is_list(value),
        "a text, a number, true, false or a list",
    ),
    "judge": (_is_text, "a text"),
}


def _regex(pattern: str, text: str) -> Match:
    import regex  # the standard library's re cannot be stopped, and replies are hostile

    if len(text) > MAX_REGEX_TEXT:
        return Match(None, None, f"not tried: the reply is longer than {MAX_REGEX_TEXT} characters")
    try:
        match = regex.search(pattern, text, timeout=REGEX_SECONDS)
    except TimeoutError:
        return Match(None, None, f"not decided: the pattern took longer than {REGEX_SECONDS:g} s")
    if match is None:
        return Match(False, None, "the pattern is not found")
    return Match(True, match[0], "the pattern is found")


def _json(key: AnswerKey, text: str) -> Match:
    fields = [value[key.field] for value in json_objects(text) if key.field in value]
    if not fields:
        return Match(False, None, f"no JSON object with the field {key.field!r}")
    values = {json.dumps(value, sort_keys=True) for value in fields}
    if len(values) > 1:
        return Match(False, None, f"several JSON objects with different values of {key.field!r}")
    equal = _equals_key(fields[0], key)
    verb = "holds" if equal else "does not hold"
    return Match(equal, values.pop(), f"the field {key.field!r} {verb} the value")


def _equals_key(value: Any, key: AnswerKey) -> bool:
    expected = key.value
    if isinstance(expected, tuple):
        return isinstance(value, list) and {plain(str(member)) for member in value} == {
            plain(str(w)) for w in expected
        }
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(value, int | float | str) and _is_number(expected):
        return bool(number_matches(float(expected), key.tolerance, str(value), "").matched)
    return isinstance(value, int | float | str) and plain(str(value)) == plain(str(expected))


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


class _QuestionRow(Strict):
    id: _Name
    sample: Text
    text: Text
    key: Any


class _PromptRow(Strict):
    id: _Name
    text: Annotated[Text, AfterValidator(_with_placeholders)]


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
    """A prompt text with the placeholders ``{question}`` and ``{csv}``."""

    id: str
    text: str

    def prompt(self, question: str, csv: str) -> str:
        """Return the prompt; placeholders inside the inserted texts are not filled."""
        return fill(self.text, {"question": question, "csv": csv}).strip()


def load_questions(path: str | Path | None = None) -> tuple[Question, ...]:
    """Read questions."""
    return tuple(
        Question(row.id, row.sample, row.text.strip(), answer_key(row.key, f"{location} ({row.id})"))
        for row, location in _rows(path, "questions.toml", "question", _QuestionRow)
    )


def load_prompts(path: str | Path | None = None) -> tuple[PromptVariant, ...]:
    """Read prompt variants."""
    rows = _rows(path, "prompts.toml", "prompt", _PromptRow)
    return tuple(PromptVariant(row.id, row.text) for row, _ in rows)


def _rows(path: str | Path | None, shipped: str, table: str, model: type[_Row]) -> Iterator[tuple[_Row, str]]:
    location = shipped if path is None else str(path)
    source = resources.files("toolkit.traffic") / shipped if path is None else Path(path)
    data = read_toml(source, location)
    rows = data.get(table)
    if set(data) != {table} or not isinstance(rows, list) or not rows:
        raise InputError(f"{location}: must hold one or more [[{table}]] and nothing else")
    ids: set[str] = set()
    for number, row in enumerate(rows, 1):
        entry = checked(model, row, f"{location}, {table} {number}")
        if entry.id in ids:
            raise InputError(f"{location}: {table} id {entry.id!r} is used twice; give each its own")
        ids.add(entry.id)
        yield entry, f"{location}, {table} {number}"
