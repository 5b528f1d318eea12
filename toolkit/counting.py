"""Counts in sentences: the noun and the verb in the number that belongs to them."""

from __future__ import annotations

import re
from typing import Final

_SINGULAR: Final = {"people": "person", "replies": "reply", "studies": "study"}
_VERBS: Final = {"are": "is", "were": "was", "have": "has", "lack": "lacks"}
_VERB: Final = re.compile(rf"\b({'|'.join(_VERBS)})\b")


def counted(number: int, plural: str) -> str:
    """Return a number with its noun.

    Parameters
    ----------
    number
        How many there are.
    plural
        The noun in the plural, with what belongs to it; of more words the first that is a plural changes.

    Examples
    --------
    >>> counted(1, "answers"), counted(0, "planned answers"), counted(1, "replies"), counted(1, "repeats per base")
    ('1 answer', '0 planned answers', '1 reply', '1 repeat per base')
    """
    return f"{number} {plural if number != 1 else _one(plural)}"


def agreeing(number: int, words: str) -> str:
    """Return words with their verbs in the number of what they are said of.

    Parameters
    ----------
    number
        How many they are said of.
    words
        Words about several: are, were, have and lack become is, was, has and lacks.

    Examples
    --------
    >>> agreeing(1, "have no score and are left out"), agreeing(2, "have no score")
    ('has no score and is left out', 'have no score')
    """
    return words if number != 1 else _VERB.sub(lambda found: _VERBS[found[1]], words)


def coverage(confidence: float) -> str:
    """Return a level of confidence in words, never rounded to certainty.

    Parameters
    ----------
    confidence
        Between 0 and 1.

    Examples
    --------
    >>> coverage(0.95), coverage(0.995)
    ('95%', '99.5%')
    """
    return f"{100 * confidence:.10g}%"


def _one(plural: str) -> str:
    words = plural.split(" ")
    for place, word in enumerate(words):
        if word in _SINGULAR or (len(word) > 3 and word.endswith("s") and not word.endswith("ss")):
            return " ".join([*words[:place], _SINGULAR.get(word, word[:-1]), *words[place + 1 :]])
    return plural
