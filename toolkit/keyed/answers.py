"""The one reader of final answers, and what a scorer is: it asks for an answer, reads it and compares it with a key.

A guess from prose would measure the reader and not the model. So a reply without a stated answer, with two that differ
or with one that was not among those asked for is unreadable, with the reason; its score is missing and not 0.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase as LETTERS
from typing import Any
from unicodedata import decomposition, normalize

from toolkit.files.reading import TooDeep
from toolkit.judges.parse import json_objects, marked_pairs
from toolkit.keyed.table import Items, KeyedItem
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


class Unread(Exception):
    """Why a stated answer cannot be taken."""


@dataclass(frozen=True)
class Read:
    """What a reply answers, or the reason why that is unreadable; the value is a text or a number."""

    value: Any | None
    reason: str | None = None


def read_answer(text: str, parse: Callable[[Any], Any]) -> Read:
    r"""Return the value of the one answer that a reply states; ``parse`` raises `Unread` for what is none.

    Where several answers are stated the last must be readable, and no other may be different.

    >>> read_answer("It is TCP.\n\n**Answer: 6**", float), read_answer("The answer is not 6.", float)
    (Read(value=6.0, reason=None), Read(value=None, reason="no answer: no JSON object and no last line 'Answer: X'"))
    """
    try:
        *earlier, final = stated_answers(text)
        value = parse(final)
    except Unread as fault:
        return Read(None, str(fault))
    for other in earlier:
        with suppress(Unread):
            if parse(other) != value:
                return Read(None, f"two answers: {quoted(other)} and {quoted(final)}")
    return Read(value)


def stated_answers(text: str) -> list[Any]:
    """Return the answers that a reply states, the final one last; raises `Unread` where there is none.

    An answer is the ``answer`` of a JSON object, or a line "Answer: X" when such a line ends the reply.
    """
    if not text.strip():
        raise Unread("empty")
    try:
        answers = [parsed["answer"] for parsed in json_objects(text, _EXACT) if "answer" in parsed]
    except TooDeep as fault:
        raise Unread(f"too deep: {fault}") from None
    marks = [(line, _MARK.match(line)) for line in text.splitlines() if line.strip(_AROUND)]
    if marks and marks[-1][1]:
        answers += [_after(mark, line) for line, mark in marks if mark]
    if not answers:
        raise Unread("no answer: no JSON object and no last line 'Answer: X'")
    if (signs := len(str(answers[-1]))) > _LONGEST:
        raise Unread(f"too long: an answer of {signs:,} characters")
    return [_single(answer) for answer in answers]


def _after(mark: re.Match[str], line: str) -> str:
    """Return what a line answers, without the emphasis that began before its mark."""
    answer, around = line[mark.end() :].strip(), mark[1][::-1]
    if not around or mark[2].strip():
        return answer
    return answer.removeprefix(around) if answer.startswith(around) else answer.removesuffix(around)


def _single(answer: Any) -> Any:
    """Return an answer as it is written; a list of one is that one."""
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return json.dumps(answer) if isinstance(answer, bool) else answer


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a text in compatible characters on one line, without emphasis, quotes and a full stop around it."""
    if not text.isascii():
        seen = (sign for sign in text if sign.isspace() or not is_unseen(sign))
        signs = (sign if decomposition(sign).startswith(_OTHER) else normalize("NFKC", sign) for sign in seen)
        text = normalize("NFC", "".join(signs)).translate(_TYPED)
    line = " ".join(text.split())
    return line.strip(_AROUND).removesuffix(".").strip(_AROUND)


def plain_answer(answer: Any) -> str:
    """Return an answer that is a text as it is read; nothing where it is none."""
    return plain(answer) if isinstance(answer, str) else ""


def layers(answer: Any) -> Iterator[str]:
    """Yield an answer that is a text, then without a full stop or a pair of marks around it, one after the other."""
    for _ in range(9 if isinstance(answer, str) else 0):
        yield (answer := answer.strip())
        pairs = (
            (a, b)
            for a, b in _PAIRS
            if answer.startswith(a) and answer.endswith(b) and len(answer) > len(a + b)
        )
        first, last = next(pairs, ("", "."))
        answer = answer.removeprefix(first).removesuffix(last)


def quoted(value: Any) -> str:
    """Return a value as a short quotation."""
    return repr(one_line(str(value), 40))


class Scorer:
    """How answers of one kind are asked for, read and scored; a kind is a class with the methods that differ.

    The first of ``measures``, pairs of name and unit, is the main one. Without ``needs_key`` an item need not have an
    answer.
    """

    name: str
    measures: tuple[tuple[str, str], ...] = (("correct", SHARE),)
    wording: str
    needs_key = True

    def __init__(self, items: Items = ()) -> None:
        """Take the items that are scored: some kinds depend on all keys."""

    def wording_of(self, item: KeyedItem) -> str:
        """Return what an answer is, as the prompt of an item says it."""
        return self.wording

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> Any:
        """Return the value of a stated answer, a text or a number; raises `Unread` for what has none.

        A letter in it is that of the file's order, whatever order was displayed.
        """
        raise NotImplementedError

    def key(self, item: KeyedItem) -> Any:
        """Return the value of the right answer; raises `Unread` where the table has none that can be used."""
        if len(item.answers) > 1:
            raise Unread(f"{len(item.answers)} answers where this scorer takes one")
        return self.parse(item.answers[0], item, item.options)

    def score(self, value: Any, item: KeyedItem) -> Mapping[str, float]:
        """Return a number for each measure."""
        return {"correct": float(value == self.key(item))}

    def chance(self, item: KeyedItem) -> float | None:
        """Return the main measure that is expected of a blind guess, if there is one."""
        return None

    def form(self, item: KeyedItem, displayed: Options) -> str:
        """Return what stands below the prompt: the options as displayed, and how to answer."""
        return listed(displayed) + _HOW + self.wording_of(item) + "."

    def read(self, text: str, item: KeyedItem, displayed: Options) -> Read:
        """Return what a reply answers."""
        return read_answer(text, lambda answer: self.parse(answer, item, displayed))

    def check(self, item: KeyedItem) -> str | None:
        """Return a fault of the key."""
        if not item.answers:
            return "has no answer; write it, or take the row out"
        try:
            self.key(item)
        except Unread as fault:
            return f"its answer is not usable ({fault}); correct it, or name another scorer"
        return None


def listed(options: Options) -> str:
    """Return options with the letters they are answered by, a line each."""
    lines = (f"\n{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
    return "".join(lines) + "\n" * bool(options)
