"""The numbers a text names, as digits or as words, with what their units make of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from toolkit.protocols.mentions import without_mentions
from toolkit.protocols.readings import Match, denied, emphasised, plain

_UNIT_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TEN_WORDS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS: Final = _UNIT_WORDS.split()
_TENS: Final = _TEN_WORDS.split()
NUMBER_WORDS: Final = {word: n for n, word in enumerate(_UNITS)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
WORDS_PATTERN: Final = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_LARGE: Final = ("hundred", "thousand", "million", "dozen")

_NUMBER: Final = re.compile(
    r"(?<![\w.])(?P<sign>[-−+])?(?P<digits>\d{1,3}(?:[,\u00a0\u2009\u202f']\d{3})+(?!\d)|\d{1,30})"
    r"(?P<rest>\.\d{1,30})?(?P<power>[eE][+-]?\d{1,2})?(?P<unit>\s?[A-Za-zµμ%]{1,12})?(?![\w]|\.\d)"
)
_WORD: Final = re.compile(
    rf"(?i)(?<![\w-])(?P<word>{WORDS_PATTERN})(?:[- ](?P<ones>{'|'.join(_UNITS[1:10])}))?(?![\w-])"
    rf"(?P<large>\s+(?:{'|'.join(_LARGE)})s?\b)?"
)
_ABOUT: Final = re.compile(
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


_BESIDE: Final = re.compile(r"(?i)(?:\b(?:and|or)|,)\s*$")
_CHOICE: Final = re.compile(r"\s*(?:[-–/]|or|to|or maybe|or perhaps|and)\s*")
"""What stands between two numbers of a range or a choice."""


@dataclass(frozen=True)
class Number:
    """One number in a text: every value it may stand for, its unit, and its place in characters.

    ``written`` is the number without its unit, NaN where it cannot be read; ``values`` holds what it stands for in
    the base unit, more than one value where the unit is ambiguous.
    """

    written: float
    values: tuple[float, ...]
    text: str
    unit: str
    start: int
    end: int
    approximate: bool = False


def numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers a text names as digits or as words, in the order of the text.

    Digits inside addresses, hosts, paths, versions, times, ordinals and identifiers are no numbers. "One" is a
    number only where there is no other: it is a pronoun more often.

    Examples
    --------
    >>> [n.values for n in numbers("Twelve requests, 1,024 bytes over HTTP/1.1, the 3rd one")]
    [(12.0,), (1024.0,)]
    """
    return numbers_in(without_mentions(text))


def numbers_in(bare: str) -> tuple[Number, ...]:
    """Return the numbers of a text in which everything else that holds digits is blanked out."""
    found = [number for match in _NUMBER.finditer(bare) if (number := _number(match, bare)) is not None]
    words = [_worded(match) for match in _WORD.finditer(bare)]
    every = sorted([*found, *words], key=lambda number: number.start)
    if len(every) > 1:
        every = [number for number in every if number.text.lower() != "one"] or every[:1]
    return tuple(every)


def number_matches(wanted: float, tolerance: float, text: str, question: str) -> Match:
    """Say whether an answer names one number, and that one is the wanted one.

    Examples
    --------
    >>> number_matches(0.35, 0.001, "About 350 ms", "How many seconds?").matched
    True
    """
    bold = emphasised(text)
    if bold is not None and len(own := numbers(bold)) == 1 and _equals(own[0], wanted, tolerance, question):
        return Match(True, own[0].text, "the emphasised number is the wanted one")
    found = numbers(text)
    if not found and wanted == 0 and plain(text) in ("none", "no", "nil"):
        return Match(True, plain(text), "none is 0")
    if not found:
        return Match(False, None, "names no number")
    asked = {value for number in numbers(question) for value in number.values}
    right = [number for number in found if _equals(number, wanted, tolerance, question)]
    candidates = [number for number in found if number in right or not set(number.values) & asked] or [*found]
    open_ = [number for number in candidates if not denied(text, number.start)]
    if not open_:
        return Match(False, candidates[0].text, "denies the number, or makes it a bound")
    if open_[0] not in right and (open_[-1] not in right or _BESIDE.search(text[: open_[-1].start])):
        return Match(False, open_[0].text, "names another number")
    chosen = open_[0] if open_[0] in right else open_[-1]
    for one, other in ((one, other) for one, other in pairwise(open_) if chosen in (one, other)):
        if _CHOICE.fullmatch(text[one.end : other.start]) and {one in right, other in right} == {True, False}:
            return Match(False, None, f"names several numbers: {one.text}, {other.text}")
    return Match(True, chosen.text, "names the number as the answer")


def _equals(number: Number, wanted: float, tolerance: float, question: str) -> bool:
    same_unit = number.unit and re.search(rf"(?i)(?<![a-z]){re.escape(number.unit)}(?![a-z])", question)
    values = (number.written,) if same_unit else number.values
    slack = tolerance + 1e-9 * max(1.0, abs(wanted))  # 4.35 - 4.3 is not 0.05 in binary
    return any(abs(value - wanted) <= slack for value in values)


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
    end = (
        match.end("power") if match["power"] else match.end("rest") if match["rest"] else match.end("digits")
    )
    start = match.start("digits") if sign is None else match.start()
    about = bool(_ABOUT.search(text[max(0, start - 24) : start]))
    return Number(value, tuple(value * factor for factor in scale), text[start:end], unit, start, end, about)


def _worded(match: re.Match[str]) -> Number:
    value = float(
        NUMBER_WORDS[match["word"].lower()] + NUMBER_WORDS.get((match["ones"] or "zero").lower(), 0)
    )
    if match["large"] or (match["ones"] and match["word"].lower() not in _TENS):
        value = float("nan")  # a number, but one that we do not read
    return Number(value, (value,), match[0], "", match.start(), match.end())
