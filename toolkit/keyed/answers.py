"""The one reader of final answers, and what a scorer is: it asks for an answer, reads it and compares it with a key.

A reply is read as a person reads it: where it states its answer, or else where it chooses one; what it denies, puts
in brackets or explains is no answer. A guess would measure the reader and not the model. So a reply that commits to
two answers, to none, or to one that was not among those asked for is unreadable, with the reason.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from operator import itemgetter
from string import ascii_uppercase as LETTERS
from typing import Any, NamedTuple
from unicodedata import category, decomposition, normalize

from toolkit.files.reading import TooDeep
from toolkit.judges.parse import json_objects, marked_pairs
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.table import Items, KeyedItem
from toolkit.models.thoughts import split_thoughts
from toolkit.words import is_unseen, one_line

SHARE = "share of items"
_HOW = '\nEnd with one line "Answer: X", or with one JSON object {"answer": "X"}, where X is '
_LONGEST = 20_000
"""Characters of an answer: a list of all techniques of ATT&CK has half as many. So much of a reply's end is read."""
_OPENING = 20
"""Characters before the first answer of a statement that argues before it chooses."""
_SHORT = 60
"""Words of a reply that names one answer and needs not to say that it chooses it."""
_AROUND = " \t*_`\"'“”"
_PAIRS = (*((mark, mark) for mark in ("**", "__", *"*_`\"'")), ("“", "”"), ("‘", "’"))
_TYPED = str.maketrans("‐‑‒–—−‘’“”", "------''\"\"")
_OTHER = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Kinds of characters that mean something else than their compatible ones: 10³ is not 103."""
_EXACT = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=str, parse_float=str, parse_constant=str)
"""Numbers are read as they are written: 1.10 may be the name of a version."""
WORDS = shipped_words("reading", "keyed")
_T, _DENIED, _ASIDE = _SIGNS = "\ue000\ue001\ue002"
"""Signs that stand for an answer that a text names: as its own, as denied, and in brackets."""

Options = Sequence[str]


class Unread(Exception):
    """Why an answer cannot be taken: a kind of reason, and what was read where the reason does not say it."""

    def __init__(self, reason: str, answer: Any = None) -> None:
        super().__init__(reason if answer is None else f"{reason}: {quoted(answer)}")


@dataclass(frozen=True)
class Read:
    """What a reply answers, or the reason why that is unreadable; the value is a text or a number."""

    value: Any | None
    reason: str | None = None


class Mention(NamedTuple):
    """Where a text names an answer, and which."""

    start: int
    end: int
    value: Any


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of ``data/reading.toml``, or that of any of the words of a list, whatever their capitals."""
    text = WORDS["patterns"].get(name, rf"(?<!\w)(?:{{{name}}})(?!\w)")
    parts = {"t": _T, "signs": _SIGNS} | WORDS["patterns"]
    while names := set(re.findall(r"\{([a-z_]+)\}", text)):
        for part in names:
            text = text.replace(
                f"{{{part}}}", parts.get(part) or "|".join(sorted(WORDS[part], key=len, reverse=True))
            )
    return re.compile(text, re.IGNORECASE | re.MULTILINE)


# --- where a reply states its answer ----------------------------------------------------------------------------------


def read_answer(text: str, asked: "Asked") -> Read:
    """Return the value of the one answer that a reply states or, where it states none, chooses."""
    reply = split_thoughts(text)[0]
    if not reply.strip():
        return Read(None, "empty")
    try:
        statements = _statements(reply)
        return Read(_stated(reply, statements, asked) if statements else _chosen(reply[-_LONGEST:], asked))
    except Unread as fault:
        return Read(None, str(fault))


def _statements(reply: str) -> list[tuple[int, int, Any]]:
    r"""Return what a reply states, with its ends: by a JSON object, a line "Answer: X", \boxed{X} or <answer>."""
    try:
        objects = json_objects(reply, _EXACT)
    except TooDeep as fault:
        raise Unread(f"too deep: {fault}") from None
    parts = [part for parsed in objects for part in (parsed, *parsed.values()) if isinstance(part, Mapping)]
    pairs = ((key.replace("_", " "), answer) for part in parts for key, answer in part.items())
    ends = reply.find("{"), reply.rfind("}") + 1
    answers = [(*ends, answer) for key, answer in pairs if pattern("statement").fullmatch(f"{key}:")]
    end = 0
    for match in pattern("statement").finditer(reply):
        start, end = match.end(), _end_of(reply, "\n", match.end())
        line = reply[start:end].strip()
        is_empty = not line.strip(_AROUND + "|#$[\\")
        if is_empty and (below := reply[start : start + _LONGEST].lstrip(_AROUND + "|#\n")):
            start = len(reply[: start + _LONGEST]) - len(below)
            end = _end_of(reply, "\n\n", start)
            line = reply[start:end].strip()
        elif match[1] and not match[2].strip():  # the emphasis began before the mark
            line = line.removesuffix(match[1][::-1])
        answers.append((match.start(), end, line))
    return answers + [
        (*match.span(), match[1] or match[2]) for match in pattern("boxed").finditer(reply, end)
    ]


def _end_of(text: str, mark: str, start: int) -> int:
    end = text.find(mark, start)
    return end if end >= 0 else len(text)


def _stated(reply: str, statements: Sequence[tuple[int, int, Any]], asked: "Asked") -> Any:
    """Return the final of the answers that a reply states, where nothing after it takes it back."""
    readers = [(start, answer, value_of) for start, _, answer in statements]
    value, end = _last(readers, reply, asked), statements[-1][1]
    for _, sentence in _named(reply[end : end + _LONGEST], asked).sentences():
        again = pattern("retracts").match(sentence.text.lstrip()) or pattern("besides").search(sentence.text)
        if again and not asked.scorer.several and any(asked.join([other]) != value for other in sentence.own):
            raise Unread("two answers", reply[statements[-1][0] :])
    return value


def _last(
    answers: Sequence[tuple[int, Any, Callable[[Any, "Asked"], Any]]], text: str, asked: "Asked"
) -> Any:
    """Return the last of some answers, which must be readable; each other one is the same, or was taken back."""
    place, final, read = answers[-1]
    values = [read(final, asked)]
    for before, answer, _ in answers[:-1]:
        with suppress(Unread):
            values.append(read(answer, asked))
        if values[-1] != values[0] and not pattern("taken_back").search(text, before, place):
            raise Unread(f"two answers: {quoted(answer)} and {quoted(final)}")
    return values[0]


def value_of(answer: Any, asked: "Asked") -> Any:
    """Return the value of a stated answer: of its whole text, else of what it names and affirms."""
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if (signs := len(str(answer))) > _LONGEST:
        raise Unread(f"too long: an answer of {signs:,} characters")
    if answer == [] and asked.scorer.several:
        return ""
    if isinstance(answer, bool):
        answer = json.dumps(answer)
    elif isinstance(answer, Mapping) or (isinstance(answer, list) and asked.scorer.several and answer):
        answer = "\n".join(map(str, answer.values() if isinstance(answer, Mapping) else answer))
    named = _named(answer, asked) if isinstance(answer, str) else None
    try:
        return asked.parse(answer)
    except Unread:
        if named is None:
            raise
        with suppress(Unread):
            return asked.parse(undecorated(answer))
        if not named.values:
            raise
    *_, choosing = (None, *pattern("choosing").finditer(named.text))
    if choosing and (named.text.find(_T) > _OPENING or pattern("told").match(named.text)):
        named = named.part(choosing.end() - 1, len(named.text))
    try:
        return asked.join(named.affirmed())
    except Unread as fault:
        raise fault if ":" in str(fault) else Unread(str(fault), answer) from None


# --- what a text names and affirms ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Named:
    """A text in which a sign stands for each answer that it names, with these answers in their order."""

    text: str
    values: list[Any]
    asked: "Asked"

    def part(self, start: int, end: int) -> "_Named":
        """Return a part of the text with its answers."""
        first, count = (sum(map(text.count, _SIGNS)) for text in (self.text[:start], self.text[start:end]))
        return _Named(self.text[start:end], self.values[first : first + count], self.asked)

    @property
    def own(self) -> list[Any]:
        """The answers that are neither denied nor in brackets."""
        signs = (sign for sign in self.text if sign in _SIGNS)
        return [value for sign, value in zip(signs, self.values, strict=True) if sign == _T]

    def sentences(self) -> "Iterator[tuple[int, _Named]]":
        """Yield the sentences with their places."""
        ends = [match.end() for match in pattern("sentence").finditer(self.text)]
        for start, end in pairwise([0, *ends, len(self.text)]):
            if self.text[start:end].strip():
                yield start, self.part(start, end)

    def affirmed(self) -> list[Any]:
        """Return the answers that stand before the explanation begins."""
        text, scorer = self.text, self.asked.scorer
        start = text.find(_T)
        for result in () if scorer.several else pattern("gives").finditer(text):
            start = max(start, text.find(_T, result.end()))
        if start < 0:
            return []
        name = "end_of_list" if scorer.several else "end_of_word" if scorer.leads else "end"
        match = pattern(name).search(text, start + 1)
        end = match.start() if match else len(text)
        values = self.part(start, end).own
        if scorer.several and pattern("more").search(text, end):
            raise Unread("no clear end of the answers")
        hedged = len({*map(repr, values)}) > 1 and pattern("either").search(text, 0, text.rfind(_T, 0, end))
        if hedged or (not scorer.several and pattern("open").search(text, 0, end)):
            raise Unread("several answers")
        return values


def _named(text: str, asked: "Asked") -> _Named:
    """Return a text with the answers that it names, and which of them it denies or has in brackets."""
    bare, end = undecorated(text), 0
    parts: list[str] = []
    values: list[Any] = []
    for mention in asked.mentions(bare):
        between = bare[end : mention.start]
        if values[-1:] == [mention.value] and pattern("same").fullmatch(between):  # by letter and by text
            parts.pop()
            values.pop()
            between = ""
        parts += [between, _T]
        values.append(mention.value)
        end = mention.end
    signs, brackets = "".join(parts) + bare[end:], pattern("brackets")
    if asked.scorer.several:
        signs = pattern("lines_of_list" if asked.scorer.distinct else "lines_of_options").sub(", ", signs)
    signs = brackets.sub(lambda match: match[0] if _T in match[0] else "", signs)
    for name in ("denied_after", "denied_before"):
        signs = pattern(name).sub(lambda match: match[0].replace(_T, _DENIED), signs)
    aside = brackets.sub(lambda match: match[0].replace(_T, _ASIDE), signs)
    return _Named(aside if _T in aside else signs, values, asked)


# --- what a reply chooses without stating it --------------------------------------------------------------------------


def _chosen(reply: str, asked: "Asked") -> Any:
    """Return the one answer that a reply without a statement commits to."""
    with suppress(Unread):
        return asked.parse(undecorated(reply))
    named, scorer = _named(reply, asked), asked.scorer
    sentences = list(named.sentences())
    unsure = pattern("asks" if scorer.leads else "question")
    firm = [pair for pair in sentences if not unsure.search(pair[1].text)]
    choices, verdicts = [], []
    for start, sentence in firm:
        if values := _choice(sentence):
            choices.append((start, values))
        else:
            matches = pattern("verdict").finditer(sentence.text)
            verdicts += [(start, sentence.part(*match.span()).own) for match in matches]
    lone = [repr(part.own) if pattern("alone").fullmatch(part.text) else "" for _, part in sentences]
    for number in {0, len(lone) - 1} & {*range(len(lone))}:
        # Options that are listed are not chosen.
        beside = {*filter(None, lone[max(0, number - 1) : number + 2])}
        if lone[number] and len(beside) == 1 and sentences[number] in firm:
            choices.append((sentences[number][0], sentences[number][1].affirmed()))
    if not scorer.several:
        choices += verdicts
    elif verdicts and not choices:
        choices = [(0, [value for _, values in verdicts for value in values])]
    if not choices and firm[-1:] == sentences[-1:] and firm and pattern("giving").search(firm[-1][1].text):
        choices = [(firm[-1][0], firm[-1][1].affirmed())]
    if not choices and firm == sentences:
        choices = _only(named, [(start, part.affirmed()) for start, part in firm if part.own])
    if not choices:
        raise Unread("no answer: the reply states none and chooses none")
    answers = [(start, values, _joined) for start, values in sorted(choices, key=itemgetter(0))]
    return _last(answers, named.text, asked)


def _joined(values: list[Any], asked: "Asked") -> Any:
    return asked.join(values)


def _choice(sentence: _Named) -> list[Any]:
    """Return the answers that a sentence chooses: after words that do so, as its first word, or as a result."""
    if sentence.asked.scorer.leads and sentence.text.lstrip(' *"').startswith(_T):
        return sentence.affirmed()
    match = pattern("choosing").search(sentence.text)
    return sentence.part(match.end() - 1, len(sentence.text)).affirmed() if match else []


def _only(named: _Named, choices: list[tuple[int, list[Any]]]) -> list[tuple[int, list[Any]]]:
    """Return the answer of a text that names no other, where that is plain without words that choose it."""
    text, scorer = named.text, named.asked.scorer
    is_plain = (_DENIED in text or not pattern("denies").search(text)) and not pattern("told").search(text)
    is_short = is_plain and len(text.split()) <= _SHORT and pattern("whole").search(text)
    own = len(named.own) if scorer.several else len({*map(repr, named.own)})
    is_one = scorer.distinct or own == (len(choices[0][1]) if scorer.several and choices else 1)
    is_same = len({repr(values) for _, values in choices}) == 1
    return choices if (scorer.distinct or is_short) and is_one and is_same else []


# --- texts ------------------------------------------------------------------------------------------------------------

_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SEEN = "\n✓✅✔☑✗❌✘"


@cache
def _decorations() -> list[tuple[re.Pattern[str], str]]:
    flags = re.IGNORECASE | re.MULTILINE
    return [(re.compile(row["pattern"], flags), row["bare"]) for row in WORDS["decorations"]]


def undecorated(text: str) -> str:
    """Return a text, line by line, without the marks of LaTeX, Markdown and HTML, emoji and signs that are not seen."""
    text = "".join(sign for sign in text if sign in _SEEN or not (is_unseen(sign) or category(sign) == "So"))
    text = "\n".join(map(_compatible, text.split("\n")))
    text = re.sub("(?<=[0-9])[⁻⁰¹²³⁴-⁹]+", lambda match: "^" + match[0].translate(_RAISED), text)
    for decoration, bare in _decorations():
        text = decoration.sub(bare, text)
    return text


def _compatible(text: str) -> str:
    """Return a text in compatible characters, its dashes and quotation marks those of a keyboard."""
    if text.isascii():
        return text
    seen = (sign for sign in text if sign.isspace() or not is_unseen(sign))
    signs = (sign if decomposition(sign).startswith(_OTHER) else normalize("NFKC", sign) for sign in seen)
    return normalize("NFC", "".join(signs)).translate(_TYPED)


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a text in compatible characters on one line, without emphasis, quotes and a full stop around it."""
    line = " ".join(_compatible(text).split())
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
    decoys: Sequence[str] = ()
    """Answers that are wrong for nearly every item, beside those of other items."""
    several = leads = distinct = False
    """Whether a reply may have several answers, one may begin a sentence that explains it, as yes and no do, and one
    cannot be taken for words of a sentence, as an identifier cannot."""

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

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterable[Mention]:
        """Yield the answers that a text names, in their order."""
        raise NotImplementedError

    def join(self, values: list[Any], item: KeyedItem) -> Any:
        """Return answers that a text names as one value; raises `Unread` where that is none."""
        if len(set(values)) != 1:
            raise Unread("several answers" if values else "no answer")
        return values[0]

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
        return read_answer(text, Asked(self, item, displayed))

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


class Asked(NamedTuple):
    """An item as it was shown, and the scorer that knows what its answers look like."""

    scorer: Scorer
    item: KeyedItem
    displayed: Options

    def parse(self, answer: Any) -> Any:
        """Return the value of a text that is an answer and nothing else."""
        return self.scorer.parse(answer, self.item, self.displayed)

    def mentions(self, text: str) -> Iterable[Mention]:
        """Return the answers that a text names."""
        return self.scorer.mentions(text, self.item, self.displayed)

    def join(self, values: list[Any]) -> Any:
        """Return answers that a text names as one value."""
        return self.scorer.join(values, self.item)
