"""Counts in sentences: the noun and the verb in the number that belongs to them."""

from __future__ import annotations

import re
from typing import Final

_SINGULAR: Final = {"people": "person", "replies": "reply", "studies": "study"}
_VERBS: Final = {"are": "is", "were": "was", "have": "has", "lack": "lacks"}
_VERB: Final = re.compile(rf"\b({'|'.join(_VERBS)})\b")


def counted(number: int, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number} {plural if number != 1 else _one(plural)}"


def agreeing(number: int, words: str) -> str:
    """Return words with their verbs in the number of what they are said of."""
    return words if number != 1 else _VERB.sub(lambda found: _VERBS[found[1]], words)


def coverage(confidence: float) -> str:
    """Return a level of confidence in words, never rounded to certainty."""
    return f"{100 * confidence:.10g}%"


def _one(plural: str) -> str:
    words = plural.split(" ")
    for place, word in enumerate(words):
        if word in _SINGULAR or (len(word) > 3 and word.endswith("s") and not word.endswith("ss")):
            return " ".join([*words[:place], _SINGULAR.get(word, word[:-1]), *words[place + 1 :]])
    return plural
