"""Whether an answer names one wanted value, or exactly a list of them, and nothing that competes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from toolkit.protocols.mentions import METHODS, mentions, same_address
from toolkit.protocols.named_numbers import numbers
from toolkit.protocols.readings import Match, denied, emphasised, json_list, plain, undecorated

MAX_WORDS: Final = 25
"""Longest reply, in words, in which a word without a shape of its own is taken for the answer."""
_PRODUCT: Final = re.compile(r"(?<![\w./])[a-z][\w.+-]{0,60}/v?\d[\w.+-]*", re.IGNORECASE)
_MEDIA: Final = re.compile(
    r"(?<![\w./])(?:text|application|image|audio|video|font|multipart)/[\w.+-]{1,80}", re.IGNORECASE
)
_METHOD: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(METHODS)})(?![\w-])")
_BULLET: Final = re.compile(r"^\s*(?:[-*•+]|\d{1,3}[.)])\s+")
_NOTE: Final = re.compile(r"\s*(?:\([^()]{0,80}\)|\s[-–—]\s.{0,200}|:\s.{0,200})$")

_JOINED: Final = re.compile(
    r"(?i)[\s\"'`*,/&)\[\]|-]*(?:(?:and|or|then|also|plus|as well as|followed by|but|beside)[\s\"'`*,]*){0,3}"
)

_Find = Callable[[str], list[tuple[str, int, int]]]
"""From a text to what it names of one shape: the value, and where it begins and ends."""


def value_matches(wanted: str, text: str, question: str) -> Match:
    """Say whether an answer names the wanted value and none that competes with it.

    Examples
    --------
    >>> value_matches("/login", "The client requests /login and /home.", "Which path?").why
    'names something else too: /home'
    """
    if plain(text) == plain(wanted):
        return Match(True, wanted, "the answer is the value")
    bold = emphasised(text)
    if bold is not None and plain(bold) == plain(wanted):
        return Match(True, bold, "the emphasised passage is the value")
    find = _shape(wanted)
    if find is None:
        return _phrase(wanted, text)
    right, others, asked = _sorted(find, {_key(wanted)}, text, question)
    others = [one for one in others if one[0] not in asked and not denied(text, one[1])]
    if not right and _multipart(wanted):
        return _phrase(wanted, text, others_of=find)
    if not right:
        return Match(False, others[0][0] if others else None, "does not name the value")
    first = min(start for _, start, _ in right)
    beside = [one for one in others if one[1] < first or any(_joined(text, hit, one) for hit in right)]
    if beside:
        return Match(False, right[0][0], f"names something else too: {_shown(beside)}")
    if all(denied(text, start) for _, start, _ in right):
        return Match(False, right[0][0], "denies the value")
    return Match(True, right[0][0], "names the value and nothing that competes")


def list_matches(wanted: Collection[str], text: str, question: str) -> Match:
    """Say whether an answer names exactly the wanted values, in any order and in any form of a list.

    Examples
    --------
    >>> list_matches(("GET", "POST"), "POST, GET", "Which methods?").matched
    True
    """
    target = {_key(one) for one in wanted}
    if not target:
        empty = json_list(text) == [] or plain(text) in ("none", "no", "nothing", "{}", "empty", "empty list")
        return Match(
            empty, plain(text)[:80], "names none" if empty else "names something, and nothing is wanted"
        )
    listed = json_list(text)
    items = [str(one) for one in listed] if listed is not None else _items(text)
    if items and {_key(_of_item(one, target)) for one in items} == target:
        return Match(True, ", ".join(items), "the list holds exactly the values")
    shapes = {_shape(one) for one in wanted}
    find = shapes.pop() if len(shapes) == 1 and listed is None else None
    if find is None:
        return Match(False, ", ".join(items)[:200] or None, "the list is another one")
    right, others, asked = _sorted(find, target, text, question)
    others = [one for one in others if one[0] not in asked and not denied(text, one[1])]
    lengths = {len(value) for value in target}
    if find is _numbers and len(lengths) == 1 and min(lengths) > 2:
        others = [one for one in others if len(one[0]) in lengths]  # status codes, and how often each occurs
    named = {value for value, _, _ in right}
    if others:
        return Match(False, _shown(others), f"names something else too: {_shown(others)}")
    if named != target:
        return Match(False, ", ".join(sorted(named)) or None, f"names {len(named)} of {len(target)} values")
    if any(denied(text, start) for _, start, _ in right):
        return Match(False, ", ".join(sorted(named)), "denies one of the values")
    return Match(True, ", ".join(sorted(named)), "names exactly the values")


def _sorted(
    find: _Find, target: Collection[str], text: str, question: str
) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]], set[str]]:
    found = find(text)
    right = [one for one in found if one[0] in target]
    return right, [one for one in found if one[0] not in target], {value for value, _, _ in find(question)}


def _joined(text: str, hit: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    """Say whether another value stands beside the wanted one as one more answer."""
    return hit[2] <= other[1] and bool(_JOINED.fullmatch(text[hit[2] : other[1]]))


def _shape(wanted: str) -> _Find | None:
    """Return how values of the same shape are found in a text; ``None`` for a word like any other."""
    return next((find for fits, find in _SHAPES if fits(wanted)), None)


def _named(kind: str) -> _Find:
    def find(text: str) -> list[tuple[str, int, int]]:
        return [(_key(m.value), m.start, m.end) for m in mentions(text) if m.kind == kind]

    return find


def _numbers(text: str) -> list[tuple[str, int, int]]:
    return [(_key(f"{n.written:.15g}"), n.start, n.end) for n in numbers(text)]


def _pattern(pattern: re.Pattern[str]) -> _Find:
    def find(text: str) -> list[tuple[str, int, int]]:
        return [(_key(m[0].rstrip(".")), m.start(), m.end()) for m in pattern.finditer(text)]

    return find


def _alone(kind: str) -> Callable[[str], bool]:
    return lambda wanted: [(m.kind, m.text) for m in mentions(wanted)] == [(kind, wanted)]


_SHAPES: Final[tuple[tuple[Callable[[str], bool], _Find], ...]] = (
    (_alone("address"), _named("address")),
    (_alone("host"), _named("host")),
    (lambda wanted: wanted.startswith("/") and " " not in wanted, _named("path")),
    (lambda wanted: bool(re.fullmatch(r"-?\d+(?:\.\d+)?", wanted)), _numbers),
    (lambda wanted: wanted in METHODS, _pattern(_METHOD)),
    (lambda wanted: bool(_MEDIA.match(wanted)), _pattern(_MEDIA)),
    (lambda wanted: bool(_PRODUCT.match(wanted)), _pattern(_PRODUCT)),
)


def _key(value: str) -> str:
    """Return a value in the form in which two equal ones are equal: 200, 200.0 and "200 " are one."""
    short = plain(value)
    try:
        return f"{float(short):.15g}" if re.fullmatch(r"-?\d{1,15}(?:\.\d+)?", short) else same_address(short)
    except ValueError:
        return short


def _multipart(wanted: str) -> bool:
    return not re.fullmatch(r"\S+", wanted)


def _phrase(wanted: str, text: str, others_of: _Find | None = None) -> Match:
    """Look for a value of several words, or for a word that has no shape, as a whole in a short answer."""
    line, value = undecorated(text), undecorated(wanted)
    places = [m.start() for m in re.finditer(rf"(?<![\w/]){re.escape(value)}(?![\w/])", line)]
    if not places:
        return Match(False, None, "does not name the value")
    rest = line.replace(value, " ")
    if others_of is not None and (others := others_of(rest)):
        return Match(False, value, f"names something else too: {_shown(others)}")
    if others_of is None and len(rest.split()) > MAX_WORDS:
        return Match(False, value, f"names the value somewhere in more than {MAX_WORDS} words")
    if re.search(rf"\bor\s+[\"']?{re.escape(value)}|{re.escape(value)}[\"']?,?\s+or\b", line):
        return Match(False, value, "leaves a choice")
    if all(denied(line, start) for start in places):
        return Match(False, value, "denies the value")
    return Match(True, value, "names the value")


def _items(text: str) -> list[str]:
    """Return the items of a list with bullets, one a line, or with commas, with or without words before a colon."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    bullets = [_BULLET.sub("", line) for line in lines if _BULLET.match(line)]
    if bullets:
        return bullets
    if len(lines) > 1:
        return lines[1:] if lines[0].rstrip().endswith(":") else lines
    line = re.sub(r"^[^,;]{0,200}:\s+", "", lines[0]) if lines else ""
    return [one for one in re.split(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", line.strip(" .[]")) if one.strip()]


def _of_item(item: str, target: Collection[str]) -> str:
    """Return an item without the note behind it: "200 OK" and "GET (5)" are 200 and GET."""
    if _key(item) in target:
        return item
    short = _NOTE.sub("", item)
    if _key(short) in target:
        return short
    status = re.match(r"[\"'`*]*(\d{3})[\"'`*]*\s+[A-Z][A-Za-z ]{1,40}$", short)
    return status[1] if status else short


def _shown(found: list[tuple[str, int, int]]) -> str:
    return ", ".join(dict.fromkeys(value for value, _, _ in found[:6]))
