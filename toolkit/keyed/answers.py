"""Reads what a reply states as its answer, a JSON object or a last line, and makes scorers of it; nothing is guessed.

A guess from prose would measure the reader and not the model. So a reply without a stated answer, with two that differ
or with one that was not among those asked for is unreadable, with the reason; its score is missing and not 0.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Any
from unicodedata import decomposition, normalize

from toolkit.files import TooDeep
from toolkit.judges.parse import json_objects, marked_pairs
from toolkit.keyed.table import KeyedItem
from toolkit.words import is_unseen, one_line

SHARE = "share of items"
_HOW = '\nEnd with one line "Answer: X", or with one JSON object {"answer": "X"}, where X is '
_MARK = re.compile(r"[\s>#-]*(?:[*_`]+\s+)*([*_`]*)(?:final\s+)?answer([\s*_`]*)[:：]\s*", re.IGNORECASE)
_LONGEST = 20_000
"""Characters of an answer: a list of all techniques of ATT&CK has half as many."""
_AROUND = " \t*_`\"'“”"
_PAIRS = (*((mark, mark) for mark in ("**", "__", *"*_`\"'")), ("“", "”"), ("‘", "’"))
_TYPED = str.maketrans("‐‑‒–—−‘’“”", "------''\"\"")
_OTHER = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Kinds of characters that mean something else than their compatible ones: 10³ is not 103."""
_EXACT = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=str, parse_float=str, parse_constant=str)
"""Numbers are read as they are written: 1.10 may be the name of a version."""


Options = Sequence[str]
Score = Callable[[Any, KeyedItem], Mapping[str, float]]
Chance = Callable[[KeyedItem], float | None]


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
    try:
        stated = [parsed["answer"] for parsed in json_objects(text, _EXACT) if "answer" in parsed]
    except TooDeep as fault:
        return Read(None, f"too deep: {fault}")
    if lines and _MARK.match(lines[-1]):
        stated += [_after(mark, line) for line in lines if (mark := _MARK.match(line))]
    if not stated:
        return Read(None, "no answer: no JSON object and no last line 'Answer: X'")
    if (signs := len(str(stated[-1]))) > _LONGEST:
        return Read(None, f"too long: an answer of {signs:,} characters")
    try:
        value = parse(_bare(stated[-1]))
    except Unread as fault:
        return Read(None, str(fault))
    for other in stated[:-1]:
        try:
            different = parse(_bare(other)) != value
        except Unread:
            continue
        if different:
            return Read(None, f"two answers: {quoted(other)} and {quoted(stated[-1])}")
    return Read(value)


def _after(mark: re.Match[str], line: str) -> str:
    """Return what a line answers, without the emphasis that began before its mark."""
    answer, around = line[mark.end() :].strip(), mark[1][::-1]
    if not around or mark[2].strip():
        return answer
    return answer.removeprefix(around) if answer.startswith(around) else answer.removesuffix(around)


def _bare(stated: Any) -> Any:
    """Return an answer as it is written; a list of one is that one."""
    if isinstance(stated, list) and len(stated) == 1:
        return _bare(stated[0])
    return json.dumps(stated) if isinstance(stated, bool) else stated


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a text in compatible characters on one line, without emphasis, quotes and a full stop around it."""
    if not text.isascii():
        seen = (sign for sign in text if sign.isspace() or not is_unseen(sign))
        signs = (sign if decomposition(sign).startswith(_OTHER) else normalize("NFKC", sign) for sign in seen)
        text = normalize("NFC", "".join(signs)).translate(_TYPED)
    line = " ".join(text.split())
    return line.strip(_AROUND).removesuffix(".").strip(_AROUND)


def plain_answer(value: Any) -> str:
    """Return an answer that is a text as it is read; nothing where it is none."""
    return plain(value) if isinstance(value, str) else ""


def layers(text: str) -> Iterator[str]:
    """Yield a text, then without a full stop or a pair of marks around it, one after the other."""
    for _ in range(9):
        yield (text := text.strip())
        pairs = (
            (a, b) for a, b in _PAIRS if text.startswith(a) and text.endswith(b) and len(text) > len(a + b)
        )
        first, last = next(pairs, ("", "."))
        text = text.removeprefix(first).removesuffix(last)


def quoted(value: Any) -> str:
    """Return a value as a short quotation."""
    return repr(one_line(str(value), 40))


@dataclass(frozen=True)
class Scorer:
    """The functions of one kind of answer; the first of ``measures``, pairs of name and unit, is the main one.

    ``form(item, displayed)`` stands below the prompt: the options as displayed and how to answer. ``check(item)`` is a
    fault of the key. ``read(text, item, displayed)`` reads a reply; a letter in its value is that of the file's order,
    whatever order was displayed. ``score(value, item)`` has a number for each measure, ``chance(item)`` the main
    measure that is expected of a blind guess, or None. Without ``needs_key`` an item need not have an answer.
    """

    name: str
    measures: tuple[tuple[str, str], ...]
    form: Callable[[KeyedItem, Options], str]
    check: Callable[[KeyedItem], str | None]
    read: Callable[[str, KeyedItem, Options], Read]
    score: Score
    chance: Chance = lambda item: None
    needs_key: bool = True


def make_scorer(
    name: str,
    measures: Mapping[str, str],
    asked: Callable[[KeyedItem], str],
    key: Callable[[KeyedItem], Any],
    parse: Callable[[Any, KeyedItem, Options], Any],
    score: Score,
    chance: Chance = lambda item: None,
) -> Scorer:
    """Return a scorer that asks for what `asked` says; `key` and `parse` raise `Unread` for what they cannot take."""

    def check(item: KeyedItem) -> str | None:
        if not item.answers:
            return "has no answer; write it, or take the row out"
        try:
            key(item)
        except Unread as fault:
            return f"its answer is not usable ({fault}); correct it, or name another scorer"
        return None

    def form(item: KeyedItem, displayed: Options) -> str:
        return listed(displayed) + _HOW + asked(item) + "."

    def read(text: str, item: KeyedItem, displayed: Options) -> Read:
        return read_answer(text, lambda value: parse(value, item, displayed))

    return Scorer(name, tuple(measures.items()), form, check, read, score, chance)


def listed(options: Options) -> str:
    """Return options with the letters they are answered by, a line each."""
    lines = (f"\n{letter}) {option}" for letter, option in zip(ascii_uppercase, options, strict=False))
    return "".join(lines) + "\n" * bool(options)


def one_key(item: KeyedItem) -> str:
    """Return a key of one text; raises `Unread` where there are several."""
    if len(item.answers) > 1:
        raise Unread(f"{len(item.answers)} answers where this scorer takes one")
    return str(item.answers[0])


def set_scores(answered: set[str], key: set[str]) -> dict[str, float]:
    """Return whether two sets are equal, and which share of their union is in both (Jaccard 1901)."""
    return {"exact": float(answered == key), "jaccard": len(answered & key) / len(answered | key)}
