"""The one reader of final answers, and what a scorer is: it asks for an answer, reads it and compares it with a key.

A reply is read as a person reads it: where it states its answer, or else where it chooses one; what it denies, puts
in brackets or explains is no answer. A guess would measure the reader and not the model. So a reply that commits to
two answers, to none, or to one that was not among those asked for is unreadable, with the reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from string import ascii_uppercase as LETTERS
from typing import Any, NamedTuple

from toolkit.files.reading import TooDeep
from toolkit.judges.parse import json_objects, marked_pairs
from toolkit.keyed.table import Items, KeyedItem
from toolkit.keyed.texts import ASIDE, FIRST, matches, names_in, pattern, quoted, rewritten, undecorated
from toolkit.models.thoughts import split_thoughts

SHARE = "share of items"
_HOW = '\nEnd with one line "Answer: X", or with one JSON object {"answer": "X"}, where X is '
_LONGEST = 20_000
"""Characters of an answer: a list of all techniques of ATT&CK has half as many. So much of a reply's end is read."""
_NOTHING = "no answer: the reply states none and chooses none"
_EXACT = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=str, parse_float=str, parse_constant=str)
"""Numbers are read as they are written: 1.10 may be the name of a version."""

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


def read_answer(text: str, reading: "Reading") -> Read:
    """Return the value of the one answer that a reply states or, where it states none, chooses."""
    reply = rewritten(split_thoughts(text)[0], f"{reading.scorer.name}_lines")
    if not reply.strip():
        return Read(None, "empty")
    if reading.scorer.several and pattern("cut").search(reply):
        return Read(None, "cut off")
    next_turn = pattern("turn").search(reply)
    # A model that runs on asks itself another question; what takes an answer back is no such question.
    if next_turn and not pattern("again").search(reply, next_turn.start()):
        reply = reply[: next_turn.start()].strip() or reply
    try:
        return Read(_final(reply, reading))
    except Unread as fault:
        return Read(None, str(fault))


def _final(reply: str, reading: "Reading") -> Any:
    """Return the final of the answers that a reply states, where nothing after it takes it back, or chooses."""
    statements = _statements(reply)
    if not statements:
        return _chosen(reply[-_LONGEST:], reading)
    value = _last(statements, reply, reading.stated)
    start = statements[-1][0]
    if not reading.scorer.several and pattern("rival").search(
        reading.marked(reply[start : start + _LONGEST])
    ):
        raise Unread("two answers", reply[start:])
    return value


def _statements(reply: str) -> list[tuple[int, Any]]:
    r"""Return what a reply states, and where: by a JSON object, a line "Answer: X", \boxed{X} or <answer>."""
    try:
        objects = json_objects(reply, _EXACT)
    except TooDeep as fault:
        raise Unread(f"too deep: {fault}") from None
    pairs, end = [pair for parsed in objects for pair in parsed.items()], 0
    is_stated = pattern("statement").fullmatch
    answers = [(reply.find("{"), answer) for key, answer in pairs if is_stated(f"{key}:")]
    for match in pattern("statement").finditer(reply):
        answer, end = (match["below"] or match["line"] or "").strip(), match.end()
        answers.append((match.end("closed"), answer))
    return answers + [
        (boxed.start(), boxed[boxed.lastindex or 0]) for boxed in pattern("boxed").finditer(reply, end)
    ]


def _last(answers: Sequence[tuple[int, Any]], text: str, read: Callable[[Any], Any]) -> Any:
    """Return the last of some answers, which must be readable; each other one is the same, or was taken back."""
    last, final = answers[-1]
    values = [read(final)]
    for before, answer in answers[:-1]:
        with suppress(Unread):
            values.append(read(answer))
        if values[-1] != values[0] and not pattern("taken_back").search(text, before, last):
            raise Unread(f"two answers: {quoted(values[-1])} and {quoted(values[0])}")
    return values[0]


# --- what a reply chooses without stating it --------------------------------------------------------------------------


def _chosen(reply: str, reading: "Reading") -> Any:
    """Return the one answer that a reply without a statement commits to."""
    if (exact := reading.scorer.exact(reply, reading)) is not None:
        return exact
    marked, scorer = reading.marked(reply), reading.scorer
    sentences = pattern("sentence").finditer(marked)
    naming = [(match.start(), match[0]) for match in sentences if _own(match[0])]
    firm = [pair for pair in naming if not pattern("question").search(pair[1])]
    if not firm:
        raise Unread(_NOTHING)
    choices, verdicts = [], []
    for start, text in firm:
        if choosing := pattern("leading" if scorer.leads else "choosing").search(text):
            choices.append((start + choosing.end(), reading.affirmed(text[choosing.end() - 1 :])))
        elif not pattern("asks_not").search(reading.item.prompt):
            verdicts += [(start, _own(match[0])) for match in pattern("verdict").finditer(text)]
    lines = pattern("list_of_lines" if scorer.several else "lone").finditer(marked)
    read = reading.affirmed if scorer.has_units else _own
    alone = [(line.start(), read(line[line.lastindex or 0])) for line in lines]
    if not scorer.several:
        choices += verdicts + alone
    elif not choices:
        choices = [(0, "".join(signs for _, signs in verdicts))] if verdicts else alone
    if not choices and firm == naming and pattern("settled").search(marked):
        choices = reading.echoes(firm)
        text = firm[-1 if scorer.has_units else 0][1]
        signs, all_signs = reading.affirmed(text), _own(marked)
        if scorer.has_units and not pattern("ends_in_amount").search(text):
            given = _own(reading.marked(reading.item.prompt))
            signs = "".join(sign for sign in all_signs if sign not in given)
        if not choices and (scorer.has_units or {*signs} == {*all_signs} or pattern("claims").search(text)):
            choices = [(0, signs)]
    # What a reply takes back in the same sentence is no choice.
    if not choices or pattern("takes_back").search(marked):
        raise Unread(_NOTHING)
    return _last(sorted(choices), marked, reading.joined)


def _own(text: str) -> str:
    """Return the signs of the answers that a text names and does not set aside."""
    return "".join(pattern("t").findall(text))


# --- scorers ----------------------------------------------------------------------------------------------------------


class Scorer:
    """How answers of one kind are asked for, read and scored; a kind is a class with the methods that differ.

    The first of ``measures``, pairs of name and unit, is the main one. Without ``needs_key`` an item need not have an
    answer.
    """

    name: str
    measures: tuple[tuple[str, str], ...] = (("correct", SHARE),)
    wording: str
    noun = "answer"
    needs_key = True
    decoys: Sequence[str] = ()
    """Answers that are wrong for nearly every item, beside those of other items."""
    several = leads = distinct = has_units = False
    """Whether a reply may have several answers, one may begin a sentence that explains it, as yes and no do, one cannot
    be taken for words of a sentence, as an identifier cannot, and one is told from others by its unit."""

    def __init__(self, items: Items = ()) -> None:
        """Take the items that are scored: some kinds depend on all keys."""

    def wording_of(self, item: KeyedItem) -> str:
        """Return what an answer is, as the prompt of an item says it."""
        return self.wording

    def exact(self, text: str, reading: "Reading") -> Any:
        """Return the value of a text that is an answer as it is written; raises `Unread` where it is that of several.

        A letter in it is that of the file's order, whatever order was displayed.
        """
        names = self.names(reading)
        if len(values := {names[name] for name in matches(text, tuple(names))}) > 1:
            raise Unread(f"several {self.noun}s", text)
        return values.pop() if values else None

    def names(self, reading: "Reading") -> Mapping[str, str]:
        """Return the value of each name of an answer, where these are names."""
        return {}

    def mentions(self, text: str, reading: "Reading") -> Iterator[Mention]:
        """Yield the answers that a text names, in their order."""
        names = self.names(reading)
        for start, end, name in names_in(text, tuple(names)):
            yield Mention(start, end, names[name])

    def join(self, values: list[Any], item: KeyedItem) -> Any:
        """Return answers that a text names as one value; raises `Unread` where that is none."""
        if len(set(values)) != 1:
            raise Unread("several answers" if values else f"no {self.noun}")
        return values[0]

    def key(self, item: KeyedItem) -> Any:
        """Return the value of the right answer; raises `Unread` where the table has none that can be used."""
        return Reading(self, item, item.options).stated([*item.answers])

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
        return read_answer(text, Reading(self, item, displayed))

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


@dataclass(frozen=True)
class Reading:
    """An item as it was shown, the scorer that knows what its answers look like, and the answers that a reply names."""

    scorer: Scorer
    item: KeyedItem
    displayed: Options
    signs: dict[Any, str] = field(default_factory=dict)

    def echoes(self, sentences: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return what the parts of sentences name that repeat most words of the question, if they repeat many."""
        several = self.scorer.several
        parts = [
            (self.repeated(part), start, signs)
            for start, text in sentences
            for part in pattern("positive" if several else "clause").findall(text)
            if (signs := _own(part)) and (several or len({*signs}) == 1)
        ]
        most = max(parts, default=(0,))[0]
        return [part[1:] for part in parts if part[0] == most >= 0.5]

    def repeated(self, text: str) -> float:
        """Return the share of the words of the question that a text has."""
        words, asked = ({*pattern("stem").findall(part.casefold())} for part in (text, self.item.prompt))
        return len(words & asked) / max(len(asked), 3)

    def joined(self, signs: str) -> Any:
        """Return the answers that signs stand for as one value."""
        values = list(self.signs)
        return self.scorer.join([values[ord(sign) - FIRST] for sign in dict.fromkeys(signs)], self.item)

    def stated(self, answer: Any) -> Any:
        """Return the value of a stated answer: of its whole text, else of what it names and affirms."""
        while isinstance(answer, list) and len(answer) == 1:
            answer = answer[0]
        if answer == [] and self.scorer.several:
            return ""
        text = "" if answer is None else str(answer)
        if len(text) > _LONGEST:
            raise Unread(f"too long: an answer of {len(text):,} characters")
        if (value := self.scorer.exact(text, self)) is not None:
            return value
        try:
            return self.joined(self.affirmed(self.marked(text)))
        except Unread as fault:
            raise fault if ":" in str(fault) else Unread(str(fault), answer) from None

    def marked(self, text: str) -> str:
        """Return a text with a sign for each answer that it names, others for those it denies or has in brackets."""
        bare, end, marked = rewritten(undecorated(text), self.scorer.name), 0, ""
        for mention in self.scorer.mentions(bare, self):
            sign = self.signs.setdefault(mention.value, chr(FIRST + len(self.signs)))
            marked += bare[end : mention.start] + sign
            end = mention.end
        marked = pattern("same").sub(r"\1", marked + bare[end:])  # by letter and by text
        if self.scorer.several:
            name = "lines_of_list" if self.scorer.distinct else "lines_of_options"
            marked = pattern(name).sub(", ", marked)
        asked_not = pattern("asks_not").search(self.item.prompt) and pattern("denials").search(marked)
        for name in ("not_denied",) if asked_not else ("denied_after", "denied_before"):
            marked = pattern(name).sub(lambda match: match[0].translate(ASIDE), marked)
        brackets, words = pattern("brackets"), pattern("words")
        bare_marked = brackets.sub(lambda match: words.sub("", match[0].translate(ASIDE)), marked)
        return bare_marked if pattern("t").search(bare_marked) else marked

    def affirmed(self, text: str) -> str:
        """Return the signs of the answers that stand before the explanation begins."""
        scorer = self.scorer
        name = "first" if scorer.several else "amount" if scorer.has_units else "result"
        start = max((match.end() for match in pattern(name).finditer(text)), default=1) - 1
        name = "end_of_list" if scorer.several else "end_of_word" if scorer.leads else "end"
        end = next(pattern(name).finditer(text, start + 1)).start()
        signs = _own(text[start:end])
        if scorer.several and (pattern("open_list").search(text) or (scorer.distinct and _own(text[end:]))):
            raise Unread("no clear end of the answers")
        if pattern("undecided").search(text, 0, end):
            raise Unread("several answers")
        return signs
