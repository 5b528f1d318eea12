"""Decide whether a reply names the expected value, or exactly the expected list, and nothing that competes with it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from toolkit.traffic.mentions import COMPILED, METHODS, canonical_address, mentions, scan

MAX_OBJECTS: Final = 200
"""Opening braces at which a JSON object is looked for; a reply with more is no answer."""
_MARKER: Final = re.compile(r"(?i)\b(?:final\s+)?answer\b[\s*_`]*(?:is\b:?|[:=])[*_`]*\s*")
_DENIED: Final = re.compile(
    r"(?:\b(?:no|not|never|without|neither|nor|except|cannot|unlike|instead of|rather than|other than"
    r"|(?:more|less|fewer|greater|higher|lower) than|at least|at most|up to)|n't)"
    r"(?:\s+(?:an?|the|be|on|in|to|is|was|only|just|exactly|host|address|path|uri|port|code|status)){0,3}"
    r"[\s\"'`*(:/]*$"
)


@dataclass(frozen=True)
class Match:
    """Whether a reply gives the expected answer."""

    matched: bool | None
    found: str | None
    why: str


def final_answer(text: str) -> str:
    """Return the part of a reply after "answer:", or the whole reply."""
    marks = list(_MARKER.finditer(text))
    if not marks:
        return text
    remainder = text[marks[-1].end() :].strip()
    line = remainder.split("\n", 1)[0].strip()
    if not remainder:
        return text
    # A list or an object goes on over the lines below; a sentence does not.
    return remainder if line[:1] in "[{`-•" or re.match(r"\d+[.)]\s", line) else line


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a reply, without those that have a doubled key, which are ambiguous."""
    return [value for value in _decoded(text, "{") if _DOUBLED not in value]


def json_list(text: str) -> list[Any] | None:
    """Return the one JSON list of a reply; ``None`` where there is none, or more than one."""
    lists = _decoded(text, "[")
    return lists[0] if len(lists) == 1 else None


def _decoded(text: str, sign: str) -> list[Any]:
    values, position = [], 0
    for _ in range(MAX_OBJECTS):
        position = text.find(sign, position)
        if position < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            values.append(value)
    return values


def plain(text: str) -> str:
    """Return a text in lower case without emphasis, outer quotes and punctuation, and invisible characters."""
    line = undecorated(text)
    while (stripped := line.strip(" .,;:!\"'")) != line:
        line = stripped
    return line


def undecorated(text: str) -> str:
    """Return a text in lower case without emphasis, invisible characters and doubled white space."""
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    visible = visible.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"', ord("−"): "-"})
    return " ".join(re.sub(r"\*{1,3}|`{1,3}", "", visible).casefold().split())


def denied(text: str, start: int) -> bool:
    """Say whether the words before a position deny what follows, or make it a bound."""
    return bool(_DENIED.search(text[max(0, start - 80) : start].lower().replace("’", "'")))


def emphasised(text: str) -> str | None:
    """Return the one passage in bold; ``None`` where there is none, or more than one."""
    passages = re.findall(r"\*\*([^*\n]{1,200})\*\*", text)
    return passages[0] if len(passages) == 1 else None


_DOUBLED: Final = "\0doubled"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    return decoded if len(decoded) == len(pairs) else {_DOUBLED: True}


# Integers are read as floats: int() refuses more than 4,300 digits, float() takes them.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float)


_UNIT_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TEN_WORDS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS, _TENS = _UNIT_WORDS.split(), _TEN_WORDS.split()
NUMBER_WORDS: Final = dict(zip([*_UNITS, *_TENS], [*range(20), *range(20, 100, 10)], strict=True))
_WORDS: Final = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_LARGE: Final = ("hundred", "thousand", "million", "dozen")

_NUMBER: Final = re.compile(
    r"(?<![\w.])(?P<sign>[-−+])?(?P<number>(?P<digits>\d{1,3}(?:[,\u00a0\u2009\u202f']\d{3})+(?!\d)|\d{1,30})"
    r"(?P<rest>\.\d{1,30})?(?P<power>[eE][+-]?\d{1,2})?)(?P<unit>\s?[A-Za-zµμ%]{1,12})?(?![\w]|\.\d)"
)
_WORD: Final = re.compile(
    rf"(?i)(?<![\w-])(?P<word>{_WORDS})(?:[- ](?P<ones>{'|'.join(_UNITS[1:10])}))?(?![\w-])"
    rf"(?P<large>\s+(?:{'|'.join(_LARGE)})s?\b)?"
)
_APPROXIMATE: Final = re.compile(
    r"(?i)(?:\b(?:about|approx\w*\.?|around|roughly|circa|ca\.|nearly|almost|(?<!spread )over|under|some"
    r"|(?:more|less|fewer) than|at (?:least|most)|up to|just (?:over|under))|[~≈<>±])\s*(?:every\s+|an?\s+)?$"
)
_SCALES: Final = {
    **{"ms": (1e-3,), "msec": (1e-3,), "millisecond": (1e-3,), "us": (1e-6,), "µs": (1e-6,), "μs": (1e-6,)},
    **{"min": (60.0,), "minute": (60.0,), "h": (3600.0,), "hour": (3600.0,)},
    **{"kb": (1e3, 1024.0), "kib": (1024.0,), "kilobyte": (1e3, 1024.0), "kibibyte": (1024.0,)},
    **{"kbit": (1e3,), "kbps": (1e3,), "mbit": (1e6,), "mbps": (1e6,)},
    **{"mb": (1e6, 1024.0**2), "mib": (1024.0**2,), "megabyte": (1e6, 1024.0**2)},
}
"""Units that stand for several of the base unit, second or byte; KB is used for 1,000 and for 1,024."""


_COORDINATED: Final = re.compile(r"(?i)(?:\b(?:and|or)|,)\s*$")
_CHOICE: Final = re.compile(r"\s*(?:[-–/]|or|to|or maybe|or perhaps|and)\s*")
"""What stands between two numbers of a range or a choice."""


@dataclass(frozen=True)
class Number:
    """A number in a text: as written (NaN if unreadable), and its possible values in the base unit."""

    written: float
    values: tuple[float, ...]
    text: str
    unit: str
    start: int
    end: int
    approximate: bool = False


def numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers that a text names as digits or words, without digits of addresses, paths and the like."""
    return numbers_in(scan(text)[1])


def numbers_in(bare: str) -> tuple[Number, ...]:
    """Return the numbers of a text in which everything else that holds digits is blanked out."""
    digits = [number for match in _NUMBER.finditer(bare) if (number := _number(match, bare)) is not None]
    words = [_worded(match) for match in _WORD.finditer(bare)]
    ordered = sorted([*digits, *words], key=lambda number: number.start)
    if len(ordered) > 1:  # "one" beside other numbers is usually a pronoun
        ordered = [number for number in ordered if number.text.lower() != "one"] or ordered[:1]
    return tuple(ordered)


def number_matches(expected: float, tolerance: float, text: str, question: str) -> Match:
    """Say whether an answer names one number, and that one is the wanted one."""
    bold = emphasised(text)
    in_bold = numbers(bold) if bold is not None else ()
    if len(in_bold) == 1 and _equals(in_bold[0], expected, tolerance, question):
        return Match(True, in_bold[0].text, "the emphasised number is the wanted one")
    named = numbers(text)
    if not named and expected == 0 and plain(text) in ("none", "no", "nil"):
        return Match(True, plain(text), "none is 0")
    if not named:
        return Match(False, None, "names no number")
    in_question = {value for number in numbers(question) for value in number.values}
    right = [number for number in named if _equals(number, expected, tolerance, question)]
    candidates = [n for n in named if n in right or not set(n.values) & in_question] or [*named]
    affirmed = [number for number in candidates if not denied(text, number.start)]
    if not affirmed:
        return Match(False, candidates[0].text, "denies the number, or makes it a bound")
    final = affirmed[-1]
    if affirmed[0] not in right and (final not in right or _COORDINATED.search(text[: final.start])):
        return Match(False, affirmed[0].text, "names another number")
    chosen = affirmed[0] if affirmed[0] in right else final
    for first, second in pairwise(affirmed):
        choice = chosen in (first, second) and _CHOICE.fullmatch(text[first.end : second.start])
        if choice and (first in right) != (second in right):
            return Match(False, None, f"names several numbers: {first.text}, {second.text}")
    return Match(True, chosen.text, "names the number as the answer")


def _equals(number: Number, expected: float, tolerance: float, question: str) -> bool:
    in_unit = number.unit and re.search(rf"(?i)(?<![a-z]){re.escape(number.unit)}(?![a-z])", question)
    values = (number.written,) if in_unit else number.values
    slack = tolerance + 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
    return any(abs(value - expected) <= slack for value in values)


def _number(match: re.Match[str], text: str) -> Number | None:
    unit = (match["unit"] or "").strip()
    touching = bool(unit) and not match["unit"][0].isspace()
    scale: tuple[float, ...] = (1.0,)
    name = unit.lower().rstrip("s") if len(unit) > 2 and not unit.lower().endswith("ms") else unit.lower()
    if name in _SCALES or unit.lower() in _SCALES:
        scale = _SCALES.get(unit.lower()) or _SCALES[name]
    elif touching and unit.lower() not in ("s", "b", "x", "sec", "bytes", "byte", "k", "%"):
        return None  # "12th", "0x1f", "5a3f"
    elif touching and unit.lower() == "k":
        scale = (1e3,)
    sign = match["sign"] if match.start() == 0 or not text[match.start() - 1].isalnum() else None
    digits = re.sub(r"[^\d]", "", match["digits"]) + (match["rest"] or "") + (match["power"] or "")
    value = float(digits) * (-1 if sign in ("-", "−") else 1)
    end = match.end("number")
    start = match.start("digits") if sign is None else match.start()
    approximate = bool(_APPROXIMATE.search(text[max(0, start - 24) : start]))
    values = tuple(value * factor for factor in scale)
    return Number(value, values, text[start:end], unit, start, end, approximate)


def _worded(match: re.Match[str]) -> Number:
    value = float(
        NUMBER_WORDS[match["word"].lower()] + NUMBER_WORDS.get((match["ones"] or "zero").lower(), 0)
    )
    if match["large"] or (match["ones"] and match["word"].lower() not in _TENS):
        value = float("nan")  # a number that is not read
    return Number(value, (value,), match[0], "", match.start(), match.end())


MAX_WORDS: Final = 25
"""Longest reply, in words, in which a word without a shape of its own is taken for the answer."""
_PRODUCT: Final = re.compile(r"(?<![\w./])[a-z][\w.+-]{0,60}/v?\d[\w.+-]*", re.IGNORECASE)
_MEDIA: Final = COMPILED["media"]
_METHOD: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(METHODS)})(?![\w-])")
_BULLET: Final = re.compile(r"^\s*(?:[-*•+]|\d{1,3}[.)])\s+")
_NOTE: Final = re.compile(r"\s*(?:\([^()]{0,80}\)|\s[-–—]\s.{0,200}|:\s.{0,200})$")

_JOINED: Final = re.compile(
    r"(?i)[\s\"'`*,/&)\[\]|-]*(?:(?:and|or|then|also|plus|as well as|followed by|but|beside)[\s\"'`*,]*){0,3}"
)

_Spans = list[tuple[str, int, int]]  # values of one shape in a text, with start and end
_Find = Callable[[str], _Spans]


def value_matches(expected: str, text: str, question: str) -> Match:
    """Say whether an answer names the wanted value and none that competes with it."""
    if plain(text) == plain(expected):
        return Match(True, expected, "the answer is the value")
    bold = emphasised(text)
    if bold is not None and plain(bold) == plain(expected):
        return Match(True, bold, "the emphasised passage is the value")
    find = _shape(expected)
    if find is None:
        return _phrase(expected, text)
    right, competing = _sorted(find, {_key(expected)}, text, question)
    if not right and not re.fullmatch(r"\S+", expected):
        return _phrase(expected, text, find_competing=find)
    if not right:
        return Match(False, competing[0][0] if competing else None, "does not name the value")
    first = min(start for _, start, _ in right)
    ends = [end for _, _, end in right]

    def joined(start: int) -> bool:  # as one more answer
        return any(end <= start and _JOINED.fullmatch(text[end:start]) for end in ends)

    if conflicts := [item for item in competing if item[1] < first or joined(item[1])]:
        return Match(False, right[0][0], f"names something else too: {_value_list(conflicts)}")
    if all(denied(text, start) for _, start, _ in right):
        return Match(False, right[0][0], "denies the value")
    return Match(True, right[0][0], "names the value and nothing that competes")


def list_matches(expected: Collection[str], text: str, question: str) -> Match:
    """Say whether an answer names exactly the wanted values, in any order and in any form of a list."""
    target = {_key(value) for value in expected}
    if not target:
        empty = json_list(text) == [] or plain(text) in ("none", "no", "nothing", "{}", "empty", "empty list")
        reason = "names none" if empty else "names something, and nothing is wanted"
        return Match(empty, plain(text)[:80], reason)
    listed = json_list(text)
    items = [str(value) for value in listed] if listed is not None else _items(text)
    if items and {_key(_without_note(value, target)) for value in items} == target:
        return Match(True, ", ".join(items), "the list holds exactly the values")
    shapes = {_shape(value) for value in expected}
    find = shapes.pop() if len(shapes) == 1 and listed is None else None
    if find is None:
        return Match(False, ", ".join(items)[:200] or None, "the list is another one")
    right, competing = _sorted(find, target, text, question)
    lengths = {len(value) for value in target}
    if find is _numbers and len(lengths) == 1 and min(lengths) > 2:
        # Status codes, and how often each occurs.
        competing = [item for item in competing if len(item[0]) in lengths]
    named = {value for value, _, _ in right}
    if competing:
        return Match(False, _value_list(competing), f"names something else too: {_value_list(competing)}")
    if named != target:
        return Match(False, ", ".join(sorted(named)) or None, f"names {len(named)} of {len(target)} values")
    if any(denied(text, start) for _, start, _ in right):
        return Match(False, ", ".join(sorted(named)), "denies one of the values")
    return Match(True, ", ".join(sorted(named)), "names exactly the values")


def _sorted(find: _Find, target: Collection[str], text: str, question: str) -> tuple[_Spans, _Spans]:
    """Return where a text names expected values, and competing ones that the question lacks and nothing denies."""
    spans, ignored = find(text), {*target, *(value for value, _, _ in find(question))}
    competing = [span for span in spans if span[0] not in ignored and not denied(text, span[1])]
    return [span for span in spans if span[0] in target], competing


def _shape(expected: str) -> _Find | None:
    """Return the finder of values of this shape in a text; None for a word without a shape."""
    return next((find for fits, find in _SHAPES if fits(expected)), None)


def _named(kind: str) -> _Find:
    return lambda text: [(_key(m.value), m.start, m.end) for m in mentions(text) if m.kind == kind]


def _numbers(text: str) -> _Spans:
    return [(_key(f"{n.written:.15g}"), n.start, n.end) for n in numbers(text)]


def _pattern(pattern: re.Pattern[str]) -> _Find:
    return lambda text: [(_key(m[0].rstrip(".")), m.start(), m.end()) for m in pattern.finditer(text)]


def _alone(kind: str) -> Callable[[str], bool]:
    return lambda value: [(m.kind, m.text) for m in mentions(value)] == [(kind, value)]


_SHAPES: Final[tuple[tuple[Callable[[str], bool], _Find], ...]] = (
    (_alone("address"), _named("address")),
    (_alone("host"), _named("host")),
    (lambda expected: expected.startswith("/") and " " not in expected, _named("path")),
    (lambda expected: bool(re.fullmatch(r"-?\d+(?:\.\d+)?", expected)), _numbers),
    (lambda expected: expected in METHODS, _pattern(_METHOD)),
    (lambda expected: bool(_MEDIA.match(expected)), _pattern(_MEDIA)),
    (lambda expected: bool(_PRODUCT.match(expected)), _pattern(_PRODUCT)),
)


def _key(value: str) -> str:
    """Return the canonical form of a value: 200, 200.0 and "200 " are equal."""
    short = plain(value)
    try:
        number = re.fullmatch(r"-?\d{1,15}(?:\.\d+)?", short)
        return f"{float(short):.15g}" if number else canonical_address(short)
    except ValueError:
        return short


def _phrase(expected: str, text: str, find_competing: _Find | None = None) -> Match:
    """Look for a value of several words, or a word without a shape, in a short answer."""
    line, value = undecorated(text), undecorated(expected)
    positions = [m.start() for m in re.finditer(rf"(?<![\w/]){re.escape(value)}(?![\w/])", line)]
    if not positions:
        return Match(False, None, "does not name the value")
    remainder = line.replace(value, " ")
    if find_competing is not None and (competing := find_competing(remainder)):
        return Match(False, value, f"names something else too: {_value_list(competing)}")
    if find_competing is None and len(remainder.split()) > MAX_WORDS:
        return Match(False, value, f"names the value somewhere in more than {MAX_WORDS} words")
    if re.search(rf"\bor\s+[\"']?{re.escape(value)}|{re.escape(value)}[\"']?,?\s+or\b", line):
        return Match(False, value, "leaves a choice")
    if all(denied(line, start) for start in positions):
        return Match(False, value, "denies the value")
    return Match(True, value, "names the value")


def _items(text: str) -> list[str]:
    """Return the items of a list with bullets, lines or commas, without an introduction that ends in a colon."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    bullets = [_BULLET.sub("", line) for line in lines if _BULLET.match(line)]
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
    short = _NOTE.sub("", item)
    if _key(short) in target:
        return short
    status = re.match(r"[\"'`*]*(\d{3})[\"'`*]*\s+[A-Z][A-Za-z ]{1,40}$", short)
    return status[1] if status else short


def _value_list(occurrences: _Spans) -> str:
    return ", ".join(dict.fromkeys(value for value, _, _ in occurrences[:6]))
