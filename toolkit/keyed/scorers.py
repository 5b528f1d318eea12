"""The scorers of keyed tests by name: options, labels, numbers, identifiers, vectors, and a user's own function."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from inspect import signature
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any
from unicodedata import decimal

from toolkit.errors import InputError, StudyError
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.answers import (
    SHARE,
    WORDS,
    Asked,
    Mention,
    Options,
    Read,
    Scorer,
    Unread,
    listed,
    pattern,
    plain,
    quoted,
    undecorated,
)
from toolkit.keyed.refusals import RefusalScorer
from toolkit.keyed.table import Items, KeyedItem, KeyedTable
from toolkit.prompt_test import code_of_users, module_of_users
from toolkit.words import choices, one_line


def matches(answer: str, names: Options) -> list[int]:
    """Return the places of the names that an answer may mean: by exact text, else but for marks, capitals or digits.

    >>> names = ("-p", "-P", "1,000")
    >>> matches("`-P`", names), matches("1000.0", names), matches("p", names)
    ([1], [2], [])
    """
    for fold, form in [(str, text) for text in _layers(answer)] + [(fold, fold(answer)) for fold in _FOLDS]:
        if form and (indexes := [index for index, name in enumerate(names) if fold(name) == form]):
            return indexes
    return []


def _layers(answer: str) -> Iterator[str]:
    """Yield an answer, then without a full stop or a pair of marks around it, one after the other."""
    for _ in range(9):
        yield (answer := answer.strip())
        if not (match := pattern("layer").fullmatch(answer)):
            return
        answer = match[match.lastindex or 0]


def _folded(text: str) -> str:
    return pattern("between_words").sub(" ", plain(text).casefold())


_FOLDS = (
    plain,
    _folded,
    lambda text: pattern("zeros").sub(r"\1\2\3", plain(text).casefold().replace(",", "")),
)


def _set_scores(answered: set[str], key: set[str]) -> dict[str, float]:
    """Return whether two sets are equal, and which share of their union is in both (Jaccard 1901)."""
    return {"exact": float(answered == key), "jaccard": len(answered & key) / len(answered | key)}


# --- options ----------------------------------------------------------------------------------------------------------


class ChoiceScorer(Scorer):
    """One option of several; the value is its letter in the file. Of two options with the same text either is right."""

    name = "choice"
    wording = "the letter of the one best option"
    noun = "option"

    def exact(self, text: str, item: KeyedItem, displayed: Options) -> str | None:
        """Return the letter of the option that has this text."""
        options = {displayed[index] for index in matches(text, displayed)}
        if len(options) > 1:
            raise Unread(f"several options: {quoted(text)}; the letter tells which")
        return LETTERS[item.options.index(options.pop())] if options else None

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield options by letter or by text; a letter that no option has is one that is none of the options."""
        texts = list(_names(text, tuple(displayed)))
        taken = {place for start, end, _ in texts for place in range(start, end)}
        letters = (
            (*match.span(), LETTERS.index(match[match.lastindex or 0].upper()))
            for match in pattern("letter").finditer(text)
        )
        free = [
            span
            for span in letters
            if taken.isdisjoint(range(*span[:2])) and span[2] < max(8, len(displayed))
        ]
        for start, end, index in sorted(texts + free):
            known = index < len(displayed)
            yield Mention(
                start, end, LETTERS[item.options.index(displayed[index])] if known else text[start:end]
            )

    def join(self, values: list[str], item: KeyedItem) -> str:
        """Return the letters of all options, or of the one."""
        if strange := [value for value in values if value not in {*LETTERS[: len(item.options)]}]:
            raise Unread("no option", strange[0])
        return "".join(sorted(set(values))) if self.several and values else super().join(values, item)

    def key(self, item: KeyedItem) -> str:
        """Return the letters of the right options; raises `Unread` where options may be taken for others."""
        _check_options(item.options, self.several)
        asked = Asked(SetScorer(), item, item.options)
        for answer in item.answers:
            if asked.exact(answer) is None and not pattern("alone").fullmatch(asked.marked(answer)):
                raise Unread("no option", answer)
        letters = sorted({*"".join(map(asked.stated, item.answers))})
        if len({item.options[LETTERS.index(letter)] for letter in letters}) > 1 and not self.several:
            raise Unread(f'{len(letters)} options; scorer = "set" takes several')
        return "".join(letters) if self.several else letters[0]

    def chance(self, item: KeyedItem) -> float:
        """Return the share of options that are right."""
        right = item.options[LETTERS.index(self.key(item))]
        return item.options.count(right) / len(item.options)


class SetScorer(ChoiceScorer):
    """All right options of several; chance is that of a set drawn from all that are not empty."""

    name = "set"
    measures = (("exact", SHARE), ("jaccard", SHARE))
    wording = "the letters of all right options, such as A, C"
    several = True

    def exact(self, text: str, item: KeyedItem, displayed: Options) -> str | None:
        """Return the letter of the option that has this text, or the letters that it lists."""
        letters = {
            item.options.index(displayed[LETTERS.index(letter)]) for letter in _listed(text, displayed)
        }
        return super().exact(text, item, displayed) or "".join(LETTERS[n] for n in sorted(letters)) or None

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield options by letter or by text, and where a text begins with words for all, these but for exceptions."""
        mentions, end = list(super().mentions(text, item, displayed)), 0
        if every := pattern("all").match(text):
            end = every.end()
            excepted = {mention.value for mention in mentions if mention.start < end}
            for letter in LETTERS[: len(displayed)]:
                if letter not in excepted:
                    yield Mention(0, end, letter)
        yield from (mention for mention in mentions if mention.start >= end)

    def score(self, value: str, item: KeyedItem) -> Mapping[str, float]:
        """Compare the letters as sets."""
        return _set_scores(set(value), set(self.key(item)))

    def chance(self, item: KeyedItem) -> float:
        """Return the share of one set of all."""
        return 1 / (2 ** len(item.options) - 1)


def _check_options(options: Options, several: bool) -> None:
    """Raise `Unread` where an option may be taken for the letters of others."""
    if len(options) < 2:
        raise Unread(f"{len(options)} options: give their columns, or take a scorer without options")
    for index, option in enumerate(options):
        label = f"option {index + 1}, {quoted(option)},"
        if several and option in options[:index]:
            raise Unread(f"{label} is there twice: change one of the two")
        letters = _listed(option, options)
        # A letter in its own place is told by both; `keeps_order` keeps it there.
        if letters and option.upper() != LETTERS[index] and (several or len(letters) == 1):
            raise Unread(f"{label} may be letters of others: write it in more words")


def _listed(text: str, options: Options) -> set[str]:
    """Return the letters of options that a text lists; none where it has anything else."""
    text = plain(text) if pattern("letters").fullmatch(plain(text)) else ""
    letters = {letter.upper() for letter in re.findall("(?<![a-z])[a-z](?![a-z])|[A-Z]", text)}
    return letters if letters <= {*LETTERS[: len(options)]} else set()


def _names(text: str, names: Options) -> Iterator[tuple[int, int, int]]:
    """Yield where a text has names, or parts of names that no other has, and which."""
    written, exact, folded = _spellings(names)
    for match in written.finditer(text):
        index = exact.get(match[0], folded.get(_folded(match[0])))
        if index is not None:
            yield match.start(), match.end(), index


@lru_cache
def _spellings(names: Options) -> tuple[re.Pattern[str], dict[str, int], dict[str, int]]:
    """Return the pattern of names and of parts that no other has, and the place of each, exactly and but for marks."""
    texts = [plain(undecorated(name)) for name in names]
    exact = {text: names.index(name) for text, name in zip(texts, names, strict=True)}
    places: dict[str, set[int]] = {}
    for text, index in exact.items():
        others = [other.casefold() for other in texts if other != text]
        parts = [part for part in pattern("parts").split(text) if len(part) > 2]
        for part in (
            text,
            *(part for part in parts if not any(part.casefold() in other for other in others)),
        ):
            places.setdefault(_folded(part), set()).add(index)
    folded = {text: min(indexes) for text, indexes in places.items() if len(indexes) == 1}
    longest = sorted(filter(None, {*folded, *texts}), key=len, reverse=True)
    words = "|".join(
        WORDS["patterns"]["between_words"].join(map(re.escape, pattern("between_words").split(part)))
        for part in longest
    )
    return re.compile(rf"(?<!\w)(?:{words})(?!\w|\.\d)" if words else r"(?!)", re.IGNORECASE), exact, folded


# --- labels -----------------------------------------------------------------------------------------------------------


class LabelScorer(Scorer):
    """One of the labels that the keys of the items have; exact text comes before what differs in marks alone."""

    name = "label"
    noun = "label"

    def __init__(self, items: Items = ()) -> None:
        self.labels = {text: text for item in items for text in item.answers}
        self.wording = f"one of: {', '.join(sorted(self.labels))}"

    def exact(self, text: str, item: KeyedItem, displayed: Options) -> str | None:
        """Return the label that is written so."""
        indexes = matches(text, tuple(self.labels))
        if len(indexes) > 1:
            raise Unread("several labels", text)
        return [*self.labels.values()][indexes[0]] if indexes else None

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield the labels that a text names."""
        for start, end, index in _names(text, tuple(self.labels)):
            yield Mention(start, end, [*self.labels.values()][index])

    def chance(self, item: KeyedItem) -> float | None:
        """Return the share of one label of all."""
        return 1 / len(set(self.labels.values())) if self.labels else None


class YesNoScorer(LabelScorer):
    """Yes or no; true and false are read as these, and so are the words of other languages."""

    name = "yes_no"
    wording = "yes or no"
    decoys = ("yes", "no")
    leads = True

    def __init__(self, items: Items = ()) -> None:
        self.labels = {word: value for value in ("yes", "no") for word in WORDS[value]}

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield the words for yes and no, unless they are part of a sentence, as in "no reason"."""
        for match in pattern("yes_or_no").finditer(text):
            yield Mention(*match.span(), self.labels[match[0].casefold()])


# --- numbers ----------------------------------------------------------------------------------------------------------


class NumberScorer(Scorer):
    """A number, right within a tolerance that is ``absolute`` or ``relative`` to the key.

    A comma separates thousands, before three digits: 1,5 is unreadable, and so is another unit than the key's.
    """

    name = "number"
    noun = "number"
    decoys = ("-987654321",)
    measures = (("correct", SHARE), ("absolute_error", "none"))

    def __init__(self, items: Items = (), tolerance: Mapping[str, float] | None = None) -> None:
        ((self.kind, self.size), *more) = (tolerance or {"absolute": 0.0}).items()
        is_size = isinstance(self.size, int | float) and not isinstance(self.size, bool)
        if more or self.kind not in ("absolute", "relative") or not (is_size and 0 <= self.size < math.inf):
            raise StudyError(
                f"options.tolerance: {tolerance} is not usable; "
                "write { absolute = 0.5 } or { relative = 0.05 }"
            )

    def wording_of(self, item: KeyedItem) -> str:
        """Name the key's unit."""
        unit = self._required(item)[1]
        return "a number with a point for decimals, " + (f"in {unit}" if unit else "without a unit")

    def key(self, item: KeyedItem) -> float:
        """Return the number that is right."""
        return self._required(item)[0]

    def _required(self, item: KeyedItem) -> tuple[float, str]:
        """Return the number that is right, with its unit."""
        if len(numbers := list(_numbers(item.answers[0]))) != 1:
            raise Unread("no number", item.answers[0])
        return numbers[0].value

    def read(self, text: str, item: KeyedItem, displayed: Options) -> Read:
        """Return the number that a reply answers, whatever signs it has for thousands and decimals."""
        return super().read(_english(text), item, displayed)

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield the numbers of a text with their units; that of a standard or step only where the question names it."""
        asked = item.prompt.casefold()
        for number in _numbers(text):
            named = pattern("number_in_name").search(text, max(0, number.start - 30), number.start)
            if not named or re.search(rf"\b(?:which|what) {named[1].casefold()}", asked):
                yield number

    def join(self, values: list[tuple[float, str]], item: KeyedItem) -> float:
        """Return the one number; its unit must be the key's, or one that the question speaks of."""
        number, unit = super().join(values, item)
        required, seconds = self._required(item)[1], WORDS["seconds"]
        if unit in seconds and required in seconds:
            return number * seconds[unit] / seconds[required]
        words = {_unit_names().get(word) for word in pattern("unit").findall(item.prompt.casefold())}
        if unit not in ("", required) and (required or unit not in words):
            raise Unread(f"other unit: {quoted(unit)} where {required or 'none'} was asked")
        return number

    def score(self, value: float, item: KeyedItem) -> Mapping[str, float]:
        """Return whether the number is near enough, and how far it is from the key."""
        expected = self.key(item)
        error = abs(value - expected)
        slack = self.size * (abs(expected) if self.kind == "relative" else 1)
        slack += 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
        return {"correct": float(error <= slack), "absolute_error": error}


@cache
def _unit_names() -> dict[str, str]:
    """Return the unit that each spelling means, the exact spellings of units first."""
    spellings = {text: unit for unit, texts in WORDS["units"].items() for text in (unit, *texts)}
    plurals = {
        f"{text}{ending}": unit
        for text, unit in spellings.items()
        for ending in ("s", "n", "en")
        if len(text) > 2
    }
    return plurals | spellings


def _english(text: str) -> str:
    """Return a text with its numbers as in English: where points and commas are plain they tell the others."""
    signs = {sign for match in pattern("decimal").finditer(text) for sign in match.groups() if sign}
    signs |= {",."[sign == ","] for match in pattern("groups").finditer(text) for sign in match.groups()}
    if signs == {","}:
        return pattern("digits").sub(lambda match: match[0].translate(_SWAPPED), text)
    if signs == {"."}:
        return text
    return pattern("unclear").sub(
        lambda match: match[0].replace(".", "" if pattern("money").search(match[0]) else "·"), text
    )


_SWAPPED = str.maketrans(",.", ".,")


def _numbers(text: str) -> Iterator[Mention]:
    """Yield the numbers of a text, each with its unit; those that are written as words where there are no others."""
    text = "".join(str(decimal(sign, sign)) for sign in text)
    has_digits = any(map(str.isdecimal, text))
    for match in pattern("number").finditer(text):
        before, number, count, ten, power, gap, word = (part or "" for part in match.groups())
        unit = _unit_names().get(word) or _unit_names().get(word.casefold())
        scale = WORDS["scales"].get(word.casefold())
        if (number and word and not gap and not (unit or scale)) or (count and has_digits and not scale):
            continue
        if pattern("number_in_list").match(text, match.start()):
            continue
        is_known = unit or scale or len(word) > 2 or word.casefold() in WORDS["after_letters"]
        try:
            amount = (
                float(pattern("thousands").sub("", number))
                if number
                else sum(WORDS["counts"][part] for part in re.split("[ -]", count.casefold()))
            )
        except ValueError:
            raise Unread("a point for thousands or for decimals", number) from None
        amount *= (scale or 1) * 10.0 ** int(ten or 0)
        with suppress(ArithmeticError):
            amount = amount ** int(power or 1)
        if not math.isfinite(amount):
            raise Unread("no finite number", number)
        end = match.end() if unit or scale else match.end("gap") - len(gap)
        counted = pattern("counted").match(text, end)
        value = amount, unit or (_unit_names().get(before.strip(), "") if is_known else word)
        yield Mention(match.start(), counted.end() if counted else end, value)


# --- identifiers ------------------------------------------------------------------------------------------------------

_FORMS = {"T": "Tnnnn or Tnnnn.nnn", "CWE": "CWE-n", "CVE": "CVE-yyyy-nnnn"}


class IdentifierScorer(Scorer):
    """Identifiers of ATT&CK, CWE and CVE; where an item's key has several, all items may and are scored as sets.

    ``parent`` leaves the sub-technique out: T1059.001 and T1059.003 are both T1059.
    """

    name = "identifier"
    noun = "identifier"
    decoys = ("T9999", "CWE-99999", "CVE-1999-9999")
    distinct = True

    def __init__(self, items: Items = ()) -> None:
        keys = (pattern("identifier").findall(str(item.answer).upper()) for item in items)
        self.several = not items or any(len(key) > 1 for key in keys)
        names = ("exact", "parent", "jaccard") if self.several else ("exact", "parent")
        self.measures = tuple((name, SHARE) for name in names)

    def wording_of(self, item: KeyedItem) -> str:
        """Name the kinds that the key has."""
        forms = " or ".join(_FORMS.get(kind, f"{kind}nnnn") for kind in sorted(_kinds(self.key(item))))
        several = f"every identifier that applies, {forms}, with commas"
        return several if self.several else f"one identifier, {forms}"

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield the identifiers of a text, as their publishers write them."""
        for match in pattern("identifier").finditer(text):
            name = match[0].upper().replace("/", ".")
            if weakness := re.match(r"CWE[- ]?0*(?=\d)", name):
                name = f"CWE-{name[weakness.end() :]}"
            yield Mention(*match.span(), name)

    def join(self, values: list[str], item: KeyedItem) -> str:
        """Return identifiers of the key's kinds in their order; where one is asked, a part goes before its whole."""
        names = set(values)
        if not self.several:
            names -= {name.split(".")[0] for name in names if "." in name}
        if strange := _kinds(names) - _kinds(self.key(item)):
            raise Unread(f"other identifiers: {min(strange)} was not asked, {quoted(', '.join(values))}")
        return ", ".join(sorted(names)) if self.several and names else super().join(list(names), item)

    def key(self, item: KeyedItem) -> set[str]:
        """Return the identifiers that are right."""
        answers = [str(answer) for answer in item.answers]
        names = {mention.value for answer in answers for mention in self.mentions(answer, item, ())}
        if not names or any(map(pattern("either").search, answers)):
            raise Unread("no identifier", item.answer)
        return names

    def score(self, value: str, item: KeyedItem) -> Mapping[str, float]:
        """Compare identifiers, and what they are part of, as sets."""
        answered, key = set(filter(None, value.split(", "))), self.key(item)
        parents, key_parents = ({name.split(".")[0] for name in names} for names in (answered, key))
        scores = {**_set_scores(answered, key), "parent": float(parents == key_parents)}
        return {name: scores[name] for name, _ in self.measures}


def _kinds(names: Iterable[str]) -> set[str]:
    return {re.split(r"[-\d]", name, maxsplit=1)[0] for name in names}


# --- CVSS -------------------------------------------------------------------------------------------------------------

_BASE = shipped_words("cvss", "keyed")
"""Base metrics of each version of CVSS."""


class CvssScorer(Scorer):
    """Base vectors of CVSS 3.0, 3.1 and 4.0, by the formulas of FIRST (package `cvss`).

    ``exact`` compares the base metrics, ``score_error`` is the distance of the base scores in points, ``metrics`` the
    share of metrics that are right.
    """

    name = "cvss"
    noun = "CVSS vector"
    decoys = (
        "CVSS:3.0/AV:P/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N",
        "CVSS:3.1/AV:P/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N",
        "CVSS:4.0/AV:P/AC:H/AT:P/PR:H/UI:A/VC:N/VI:N/VA:N/SC:N/SI:N/SA:N",
    )
    distinct = True
    measures = (("exact", SHARE), ("score_error", "points"), ("metrics", "share of metrics"))

    def wording_of(self, item: KeyedItem) -> str:
        """Name the key's version."""
        return f"the base vector, in the form CVSS:{_version(item)}/AV:.../..."

    def join(self, values: list[str], item: KeyedItem) -> str:
        """Return the base metrics of the one vector in their order, in the version of the key."""
        from cvss.exceptions import CVSSError  # type: ignore[import-untyped]

        version, text = _version(item), super().join(values, item)
        if text[5:8] != version:
            raise Unread(f"CVSS {text[5:8]} where the key is {version}")
        try:
            metrics = _vector(text).metrics
        except CVSSError as error:
            raise Unread(f"no CVSS vector: {quoted(error)}") from None
        return "/".join([f"CVSS:{version}", *(f"{name}:{metrics[name]}" for name in _BASE[version[0]])])

    def mentions(self, text: str, item: KeyedItem, displayed: Options) -> Iterator[Mention]:
        """Yield the vectors of a text, with the version that stands before them."""
        for match in pattern("vector").finditer(text):
            metrics = "/".join(map(":".join, pattern("metric").findall(match[2].upper())))
            yield Mention(*match.span(), f"CVSS:{match[1] or _version(item)}/{metrics}")

    def score(self, value: str, item: KeyedItem) -> Mapping[str, float]:
        """Compare metrics and base scores."""
        key = self.key(item)
        pairs = list(zip(value.split("/")[1:], key.split("/")[1:], strict=True))
        right = sum(metric == key_metric for metric, key_metric in pairs)
        error = abs(float(_vector(value).base_score) - float(_vector(key).base_score))
        return {"exact": float(right == len(pairs)), "score_error": error, "metrics": right / len(pairs)}


def _version(item: KeyedItem) -> str:
    """Return the version of CVSS that the key of an item is in; nothing where it is no vector."""
    key = plain(item.answers[0]).upper()
    return "3.1" if key.startswith("AV:") else key[5:8]


def _vector(text: str) -> Any:
    from cvss import CVSS3, CVSS4  # type: ignore[import-untyped]

    return (CVSS4 if text[5] == "4" else CVSS3)(text)


# --- by name ----------------------------------------------------------------------------------------------------------


class OwnScorer(Scorer):
    """A user's function of the reply's text and the item.

    It returns a number, ``None`` where there is none, or a number for each key of its attribute ``measures``.
    """

    def __init__(self, name: str, function: Callable[[str, KeyedItem], Any]) -> None:
        measures = getattr(function, "measures", {"score": "none"})
        short = name.rpartition(":")[2]
        self.advice = f'{short}.measures = {{"name": "unit"}}'
        texts = [*measures, *measures.values()] if isinstance(measures, Mapping) else []
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise StudyError(f"options.scorer: {short}.measures is {measures!r}; write {self.advice}")
        self.name, self.function, self.measures = name, function, tuple(measures.items())

    def form(self, item: KeyedItem, displayed: Options) -> str:
        """Return the options and what the function says of answers."""
        return listed(displayed) + str(getattr(self.function, "form", ""))

    def check(self, item: KeyedItem) -> None:
        """Accept every key: what it is for is known to the function alone."""

    def read(self, text: str, item: KeyedItem, displayed: Options) -> Read:
        """Return the numbers that the function gives, in the order of the measures."""
        measures = [name for name, _ in self.measures]
        with code_of_users(f"scorer {self.name} failed on item {item.item_id}", InputError):
            try:
                value = self.function(text, item)
            except SystemExit as error:
                return Read(None, f"the scorer failed: SystemExit: {one_line(str(error), 80)}")
            if value is None:
                return Read(None, "the scorer gives no score")
            numbers = value if isinstance(value, Mapping) else {measures[0]: value}
            scores = {str(measure): float(number) for measure, number in numbers.items()}
        if set(scores) != set(measures):
            raise InputError(
                f"scorer {self.name}: gives {', '.join(scores) or 'nothing'} for item {item.item_id} and not "
                f"{', '.join(measures)}; declare what it gives: {self.advice}"
            )
        if not all(map(math.isfinite, scores.values())):
            return Read(None, "the scorer gives no finite number")
        return Read(tuple(scores[measure] for measure in measures))

    def score(self, value: Any, item: KeyedItem) -> Mapping[str, float]:
        """Return the numbers by their names."""
        return dict(zip(dict(self.measures), value, strict=True))


_KINDS: Mapping[str, type[Scorer]] = {
    kind.name: kind
    for kind in (
        ChoiceScorer, SetScorer, NumberScorer, IdentifierScorer, CvssScorer, LabelScorer, YesNoScorer, RefusalScorer,
    )
}  # fmt: skip
SCORERS = {name: kind() for name, kind in _KINDS.items()}


def check_table(table: KeyedTable, scorer: Scorer) -> None:
    """Raise ``InputError`` that names the row for the first item whose key the scorer cannot use."""
    for item in table.items:
        if fault := scorer.check(item):
            raise InputError(f"{table.name}, row {item.row}: {fault}")


def scorer(name: str, folder: Path, items: Items = (), **settings: Any) -> Scorer:
    """Return the scorer that a study names, for the items it is used on and with the settings of its options.

    A user's own (`OwnScorer`) is ``file.py:function`` or ``module:function``.
    """
    kind = _KINDS.get(name)
    allowed = list(signature(kind).parameters)[1:] if kind else []
    if unknown := [setting for setting in settings if setting not in allowed]:
        has = f"its settings are {', '.join(allowed)}" if allowed else "it has none"
        raise StudyError(f"options.{unknown[0]}: scorer {name} has no such setting; {has}")
    if kind:
        return kind(items, **settings)
    source, _, function_name = name.rpartition(":")
    if not source or not function_name:
        raise StudyError(
            f"options.scorer: {name!r} is not known; {choices(name, _KINDS)} or file.py:function"
        )
    with code_of_users(f"options.scorer: {name!r} cannot be imported"):
        function = getattr(module_of_users(source, folder, "options.scorer"), function_name, None)
    if not callable(function):
        raise StudyError(f"options.scorer: {source} has no function {function_name}; check the name")
    return OwnScorer(name, function)
