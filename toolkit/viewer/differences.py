"""Two texts compared word by word, by the longest sequence of words that they share.

`difflib` leaves out frequent words in long texts and then pairs the first rare ones it meets: of two plans of 100
numbered steps with seven words in ten in common it finds three in a hundred. rapidfuzz finds the longest exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import LCSseq

_SIGNS: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Kana and Han stand without spaces between: each is a word, or one that differs would make a sentence differ."""
LARGEST: Final = 1_000_000_000
"""Pieces of one text by those of the other: finding the longest sequence takes a bit of memory for each pair, so this
is 125 MB and about a second; two replies of 200,000 Chinese signs would take 5 GB, and the kernel with them."""
_WORDS: Final = re.compile(rf"[{_SIGNS}]|(?:(?![{_SIGNS}])\w)+|\s+|[^\w\s]")

_LINES: Final = re.compile(r"\n+|[^\n]+")
_WHOLE: Final = re.compile(r"(?s).+")
_UNITS: Final = {"words": _WORDS, "lines": _LINES, "texts": _WHOLE}


@dataclass(frozen=True)
class Piece:
    """A piece of a text, and whether the other text lacks it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Differences:
    """What two texts share."""

    left: tuple[Piece, ...]
    right: tuple[Piece, ...]
    shared: float
    unit: str = "words"


def differences(left: str, right: str) -> Differences:
    """Compare two texts word by word; white space is kept and does not count as a difference."""
    unit, words = _cut(left, right)
    places = [[n for n, word in enumerate(found) if not word.isspace()] for found in words]
    compared = [[found[n] for n in at] for found, at in zip(words, places, strict=True)]
    edits = LCSseq.editops(*compared)
    lacking = (
        {places[0][edit.src_pos] for edit in edits if edit.tag == "delete"},
        {places[1][edit.dest_pos] for edit in edits if edit.tag == "insert"},
    )
    total = len(compared[0]) + len(compared[1])
    shared = (total - len(edits)) / total if total else 1.0
    return Differences(_pieces(words[0], lacking[0]), _pieces(words[1], lacking[1]), shared, unit)


def _cut(left: str, right: str) -> tuple[str, list[list[str]]]:
    """Return the smallest unit in which two texts can be compared, and both in pieces of it."""
    for unit, pattern in _UNITS.items():
        words = [pattern.findall(text) for text in (left, right)]
        if len(words[0]) * len(words[1]) <= LARGEST or unit == "texts":
            break
    return unit, words


def _pieces(words: list[str], lacking: set[int]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for number, word in enumerate(words):
        if word.isspace():
            # Between two changed words it belongs to them, so that a changed sentence is one piece.
            before = bool(pieces) and pieces[-1].changed
            changed = before and number + 1 in lacking
        else:
            changed = number in lacking
        if pieces and pieces[-1].changed == changed:
            pieces[-1] = Piece(pieces[-1].text + word, changed)
        else:
            pieces.append(Piece(word, changed))
    return tuple(pieces)
