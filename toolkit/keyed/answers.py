"""Reads what a reply states as its answer: a JSON object or a last line, never a guess from prose.

A guess would measure the reader and not the model. So a reply without a stated answer, with two that differ or with one
that is not among those asked for is unreadable, with the reason; the score is then missing and not 0.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from toolkit.traffic.questions import json_objects
from toolkit.words import one_line

HOW: Final = 'End with one line "Answer: X", or with one JSON object {{"answer": "X"}}, where X is {answer}.'
_MARK: Final = re.compile(r"[\s>*_`#-]*(?:final\s+)?answer[\s*_`]*[:：][\s*_`]*", re.IGNORECASE)
_AROUND: Final = " \t*_`\"'“”"


class Unread(Exception):
    """Why a stated answer cannot be taken."""


@dataclass(frozen=True)
class Read:
    """What a reply answers, or the reason why that is unreadable; the value is a text or a number."""

    value: Any | None
    reason: str | None = None


def read_answer(text: str, parse: Callable[[Any], Any]) -> Read:
    r"""Return the value of the one answer that a reply states; ``parse`` raises `Unread` for what is none.

    An answer is the ``answer`` of a JSON object, or a line "Answer: X" when such a line ends the reply. Where several
    are stated the last must be readable, and no other may be different.

    >>> read_answer("It is TCP.\n\n**Answer: 6**", float), read_answer("The answer is not 6.", float)
    (Read(value=6.0, reason=None), Read(value=None, reason="no answer: no JSON object and no last line 'Answer: X'"))
    """
    if not text.strip():
        return Read(None, "empty")
    lines = [line for line in text.splitlines() if line.strip(_AROUND)]
    stated = [found["answer"] for found in json_objects(text) if "answer" in found]
    if lines and _MARK.match(lines[-1]):
        stated += [line[mark.end() :] for line in lines if (mark := _MARK.match(line))]
    if not stated:
        return Read(None, "no answer: no JSON object and no last line 'Answer: X'")
    try:
        value = parse(_alone(stated[-1]))
    except Unread as fault:
        return Read(None, str(fault))
    for other in stated[:-1]:
        try:
            different = parse(_alone(other)) != value
        except Unread:
            continue
        if different:
            return Read(None, f"two answers: {quoted(other)} and {quoted(stated[-1])}")
    return Read(value)


def _alone(stated: Any) -> Any:
    """Return an answer without the marks around it; a list of one is that one."""
    if isinstance(stated, list) and len(stated) == 1:
        stated = stated[0]
    if isinstance(stated, list):
        return [plain(part) if isinstance(part, str) else part for part in stated]
    return plain(stated) if isinstance(stated, str) else stated


def plain(text: str) -> str:
    """Return a text in compatible characters on one line, without emphasis, quotes and a full stop around it."""
    return (
        " ".join(unicodedata.normalize("NFKC", text).split()).strip(_AROUND).removesuffix(".").strip(_AROUND)
    )


def quoted(value: Any) -> str:
    """Return a value as a short quotation."""
    return repr(one_line(str(value), 40))


def same(text: str) -> str:
    """Return a text as it is compared: in small letters, with single blanks, without marks around it."""
    return plain(text).casefold()
