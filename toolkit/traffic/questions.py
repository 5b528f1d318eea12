"""Questions about samples with their answer keys, the prompts that carry them, and whether a reply gives the answer.

A key has the expected answer and decides whether a reply gives it, and nothing that competes with it. It is strict: a
reply that it cannot recognise does not match, so that no score depends on a guess of the parser.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, model_validator

from toolkit.errors import InputError
from toolkit.files import Strict, Text, checked, read_toml
from toolkit.judges.rubric import fill
from toolkit.traffic.measures import Answer as TypedAnswer
from toolkit.traffic.mentions import (
    KINDS,
    METHODS,
    Number,
    canonical_address,
    numbers,
    patterns,
    refanged,
    scan,
)

MAX_REGEX_TEXT: Final = 20_000  # characters of a reply that is read: ten times what a model is asked for
REGEX_SECONDS: Final = 2.0  # a pattern that takes longer on a text of this length is broken
MAX_OBJECTS: Final = 200  # opening braces at which an object is looked for; a reply with more is no answer
DOUBLED: Final = "\0doubled"  # the key of an object that had a key twice
MAX_WORDS: Final = 25  # of a reply in which a word without a shape of its own is taken for the answer
_ANSWERS: Final = patterns("answers") | {"media": KINDS["media"]}


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


# --- whether a reply gives the answer ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """Whether a reply gives the expected answer."""

    matched: bool | None
    found: str | None
    why: str


def matches(key: AnswerKey, text: str, question: str = "") -> Match:
    """Say whether a reply gives the expected answer.

    Of a reply with "Answer: X" only X is read. Otherwise it may be a sentence that names the expected value and no
    competing one: another value of the same shape (address, host, path, method, product, number) that the question
    does not name itself. An expected value that is denied ("not X", "more than X") does not count.

    - ``exact``: the value. A word without a shape of its own ("yes") counts in a reply of at most 25 words.
    - ``number``: digits or a word up to ninety-nine, within the tolerance, in seconds or bytes unless the question
      asks in another unit. Several different numbers are several answers, unless one alone is emphasised (``**12**``).
    - ``set``: exactly these members in any order, as a JSON list, bullets, a list with commas, or a sentence.
    - ``regex``: the pattern is found anywhere in the reply, with the flags that it sets itself.
    - ``json``: the field of the one JSON object in the reply that has it; a list is compared without its order.
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
    answer = _final_answer(text)
    if key.kind == "set":
        return _list_matches(tuple(map(str, key.value)), answer, question)
    if key.kind == "number":
        return _number_matches(float(key.value), key.tolerance, answer, question)
    return _value_matches(str(key.value), answer, question)


def _regex(pattern: str, text: str) -> Match:
    import regex  # the standard library's re cannot be stopped, and replies are hostile

    if len(text) > MAX_REGEX_TEXT:
        return Match(None, None, f"not tried: the reply is longer than {MAX_REGEX_TEXT} characters")
    try:
        match = regex.search(pattern, text, timeout=REGEX_SECONDS)
    except TimeoutError:
        return Match(None, None, f"not decided: the pattern took longer than {REGEX_SECONDS:g} s")
    return Match(match is not None, match and match[0], f"the pattern is {'' if match else 'not '}found")


def _json(key: AnswerKey, text: str) -> Match:
    fields = [value[key.field] for value in json_objects(text) if key.field in value]
    if not fields:
        return Match(False, None, f"no JSON object with the field {key.field!r}")
    values = {json.dumps(value, sort_keys=True) for value in fields}
    if len(values) > 1:
        return Match(False, None, f"several JSON objects with different values of {key.field!r}")
    expected, value = key.value, fields[0]
    if isinstance(expected, tuple):
        members = {_plain(str(member)) for member in expected}
        equal = isinstance(value, list) and {_plain(str(member)) for member in value} == members
    elif isinstance(expected, bool) or isinstance(value, bool):
        equal = value is expected
    elif _is_number(expected):
        number = isinstance(value, int | float | str)
        equal = number and bool(_number_matches(float(expected), key.tolerance, str(value), "").matched)
    else:
        equal = isinstance(value, int | float | str) and _plain(str(value)) == _plain(str(expected))
    verb = "holds" if equal else "does not hold"
    return Match(equal, values.pop(), f"the field {key.field!r} {verb} the value")


def _final_answer(text: str) -> str:
    """Return the part of a reply after "answer:", or the whole reply."""
    marks = list(_ANSWERS["marker"].finditer(text))
    remainder = text[marks[-1].end() :].strip() if marks else ""
    if not remainder:
        return text
    line = remainder.split("\n", 1)[0].strip()
    # A list or an object goes on over the lines below; a sentence does not.
    return remainder if line[:1] in "[{`-•" or re.match(r"\d+[.)]\s", line) else line


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


def _plain(text: str) -> str:
    """Return a text in lower case without emphasis, outer quotes and punctuation, and invisible characters."""
    return _undecorated(text).strip(" .,;:!\"'")


def _undecorated(text: str) -> str:
    """Return a text in lower case without emphasis, invisible characters and doubled white space."""
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    visible = visible.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"', ord("−"): "-"})
    return " ".join(re.sub(r"\*{1,3}|`{1,3}", "", visible).casefold().split())


def _denied(text: str, start: int) -> bool:
    """Say whether the words before a position deny what follows, or make it a bound."""
    return bool(_ANSWERS["denied"].search(text[max(0, start - 80) : start].lower().replace("’", "'")))


def _number_matches(expected: float, tolerance: float, text: str, question: str) -> Match:
    def equals(number: Number) -> bool:
        in_unit = number.unit and re.search(rf"(?i)(?<![a-z]){re.escape(number.unit)}(?![a-z])", question)
        values = number.readings if in_unit else number.values
        slack = tolerance + 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
        return any(abs(value - expected) <= slack for value in values)

    bold = _ANSWERS["emphasised"].findall(text)
    in_bold = numbers(bold[0]) if len(bold) == 1 else ()
    if len(in_bold) == 1 and equals(in_bold[0]):
        return Match(True, in_bold[0].text, "the emphasised number is the wanted one")
    named = numbers(text)
    if not named:
        none = expected == 0 and _plain(text) in ("none", "no", "nil")
        return Match(none, _plain(text) if none else None, "none is 0" if none else "names no number")
    in_question = {value for number in numbers(question) for value in number.values}
    right = [number for number in named if equals(number)]
    candidates = [n for n in named if n in right or not set(n.values) & in_question] or [*named]
    affirmed = [number for number in candidates if not _denied(text, number.start)]
    if not affirmed:
        return Match(False, candidates[0].text, "denies the number, or makes it a bound")
    first_right, final = affirmed[0] in right, affirmed[-1]
    joined = _ANSWERS["coordinated"].search(text[: final.start])
    if not first_right and (final not in right or joined):
        return Match(False, affirmed[0].text, "names another number")
    chosen = affirmed[0] if first_right else final
    for first, second in pairwise(affirmed):
        choice = chosen in (first, second) and _ANSWERS["choice"].fullmatch(text[first.end : second.start])
        if choice and (first in right) != (second in right):
            return Match(False, None, f"names several numbers: {first.text}, {second.text}")
    return Match(True, chosen.text, "names the number as the answer")


_Spans = list[tuple[str, int, int]]  # values of one shape in a text, with start and end


def _value_matches(expected: str, text: str, question: str) -> Match:
    if re.sub(r",\s+", ",", _plain(text)) == re.sub(r",\s+", ",", _plain(expected)):  # "FIN, ACK"
        return Match(True, expected, "the answer is the value")
    bold = _ANSWERS["emphasised"].findall(text)
    if len(bold) == 1 and _plain(bold[0]) == _plain(expected):
        return Match(True, bold[0], "the emphasised passage is the value")
    shape = _shape(expected)
    right, competing = _sorted(shape, {_key(expected)}, text, question)
    if not right and (not shape or not re.fullmatch(r"\S+", expected)):
        return _phrase(expected, text, shape)
    if not right:
        return Match(False, competing[0][0] if competing else None, "does not name the value")
    first = min(start for _, start, _ in right)
    ends = [end for _, _, end in right]

    def joined(start: int) -> bool:  # as one more answer
        return any(end <= start and _ANSWERS["joined"].fullmatch(text[end:start]) for end in ends)

    if conflicts := [item for item in competing if item[1] < first or joined(item[1])]:
        return Match(False, right[0][0], f"names something else too: {_value_list(conflicts)}")
    if all(_denied(text, start) for _, start, _ in right):
        return Match(False, right[0][0], "denies the value")
    return Match(True, right[0][0], "names the value and nothing that competes")


def _list_matches(expected: Collection[str], text: str, question: str) -> Match:
    target = {_key(value) for value in expected}
    lists = json_values(text, "[")
    listed = lists[0] if len(lists) == 1 else None
    if not target:
        empty = listed == [] or _plain(text) in ("none", "no", "nothing", "{}", "empty", "empty list")
        reason = "names none" if empty else "names something, and nothing is wanted"
        return Match(empty, _plain(text)[:80], reason)
    items = [str(value) for value in listed] if listed is not None else _items(text)
    if items and {_key(_without_note(value, target)) for value in items} == target:
        return Match(True, ", ".join(items), "the list holds exactly the values")
    shapes = {_shape(value) for value in expected}
    shape = shapes.pop() if len(shapes) == 1 and listed is None else ""
    if not shape:
        return Match(False, ", ".join(items)[:200] or None, "the list is another one")
    right, competing = _sorted(shape, target, text, question)
    lengths = {len(value) for value in target}
    if shape == "number" and len(lengths) == 1 and min(lengths) > 2:
        # Status codes, and how often each occurs.
        competing = [item for item in competing if len(item[0]) in lengths]
    named = {value for value, _, _ in right}
    if competing:
        return Match(False, _value_list(competing), f"names something else too: {_value_list(competing)}")
    if named != target:
        return Match(False, ", ".join(sorted(named)) or None, f"names {len(named)} of {len(target)} values")
    denied = any(_denied(text, start) for _, start, _ in right)
    reason = "denies one of the values" if denied else "names exactly the values"
    return Match(not denied, ", ".join(sorted(named)), reason)


def _sorted(shape: str, target: Collection[str], text: str, question: str) -> tuple[_Spans, _Spans]:
    """Return where a text names expected values, and competing ones that the question lacks and nothing denies."""
    spans, ignored = _values(shape, text), {*target, *(value for value, _, _ in _values(shape, question))}
    competing = [span for span in spans if span[0] not in ignored and not _denied(text, span[1])]
    return [span for span in spans if span[0] in target], competing


def _shape(expected: str) -> str:
    """Return the shape of a value; empty for a word without a shape."""
    names = [(mention.kind, mention.text) for mention in scan(expected)[0]]
    for kind in ("address", "host"):
        if names == [(kind, expected)]:
            return kind
    if expected.startswith("/") and " " not in expected:
        return "path"
    if re.fullmatch(r"-?\d+(?:\.\d+)?", expected):
        return "number"
    if expected in METHODS:
        return "method"
    return next((shape for shape in ("media", "product") if _ANSWERS[shape].match(expected)), "")


def _values(shape: str, text: str) -> _Spans:
    if not shape:
        return []
    if shape in ("address", "host", "path"):
        return [(_key(m.value), m.start, m.end) for m in scan(text)[0] if m.kind == shape]
    if shape == "number":
        return [(_key(f"{n.written:.15g}"), n.start, n.end) for n in numbers(text)]
    return [(_key(m[0].rstrip(".")), m.start(), m.end()) for m in _ANSWERS[shape].finditer(text)]


def _key(value: str) -> str:
    """Return the canonical form of a value: 200, 200.0 and "200 " are equal."""
    short = _plain(value)
    number = re.fullmatch(r"-?\d{1,15}(?:\.\d+)?", short)
    return f"{float(short):.15g}" if number else canonical_address(short)


def _phrase(expected: str, text: str, shape: str) -> Match:
    """Look for a value of several words, or a word without a shape, in a short answer."""
    line, value = _undecorated(text), _undecorated(expected)
    positions = [m.start() for m in re.finditer(rf"(?<![\w/]){re.escape(value)}(?![\w/])", line)]
    if not positions:
        return Match(False, None, "does not name the value")
    remainder = line.replace(value, " ")
    if competing := _values(shape, remainder):
        return Match(False, value, f"names something else too: {_value_list(competing)}")
    if not shape and len(remainder.split()) > MAX_WORDS:
        return Match(False, value, f"names the value somewhere in more than {MAX_WORDS} words")
    if re.search(rf"\bor\s+[\"']?{re.escape(value)}|{re.escape(value)}[\"']?,?\s+or\b", line):
        return Match(False, value, "leaves a choice")
    if all(_denied(line, start) for start in positions):
        return Match(False, value, "denies the value")
    return Match(True, value, "names the value")


def _items(text: str) -> list[str]:
    """Return the items of a list with bullets, lines or commas, without an introduction that ends in a colon."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    bullets = [_ANSWERS["bullet"].sub("", line) for line in lines if _ANSWERS["bullet"].match(line)]
    if bullets:
        return bullets
    if len(lines) > 1:
        return lines[1:] if lines[0].rstrip().endswith(":") else lines
    line = re.sub(r"^[^,;]{0,200}:\s+", "", lines[0]) if lines else ""
    return [item for item in re.split(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", line.strip(" .[]")) if item.strip()]


def _without_note(item: str, target: Collection[str]) -> str:
    """Return an item without the note behind it: "200 OK" and "GET (5)" are 200 and GET."""
    if _key(item) in target:
        return item
    short = _ANSWERS["note"].sub("", item)
    status = re.match(r"[\"'`*]*(\d{3})[\"'`*]*\s+[A-Z][A-Za-z ]{1,40}$", short)
    return status[1] if status and _key(short) not in target else short


def _value_list(occurrences: _Spans) -> str:
    return ", ".join(dict.fromkeys(value for value, _, _ in occurrences[:6]))
