"""The scorers of keyed tests by name: options, labels, numbers, identifiers, vectors, and a user's own function."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import signature
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any
from unicodedata import decimal

from toolkit.errors import InputError, StudyError
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.answers import SHARE, Mention, Options, Read, Reading, Scorer, Unread, listed
from toolkit.keyed.refusals import RefusalScorer
from toolkit.keyed.table import Items, KeyedItem, KeyedTable
from toolkit.keyed.texts import WORDS, pattern, plain, quoted, rewritten, undecorated
from toolkit.prompt_test import code_of_users, module_of_users
from toolkit.words import choices, one_line


def _set_scores(answered: set[str], key: set[str]) -> dict[str, float]:
    """Return whether two sets are equal, and which share of their union is in both (Jaccard 1901)."""
    return {"exact": float(answered == key), "jaccard": len(answered & key) / len(answered | key)}


# --- options ----------------------------------------------------------------------------------------------------------


class ChoiceScorer(Scorer):
    """One option of several; the value is its letter in the file. Of two options with the same text either is right."""

    name = "choice"
    wording = "the letter of the one best option"
    noun = "option"

    def names(self, reading: Reading) -> Mapping[str, str]:
        """Return the letter of each option, and of each identifier that stands in one option alone."""
        letters = {option: LETTERS[reading.item.options.index(option)] for option in reading.displayed}
        text = "\n".join(letters)
        alone = {
            name: letters[option]
            for option in letters
            for name in pattern("own_name").findall(option)
            if text.count(name) == 1
        }
        return letters | alone

    def mentions(self, text: str, reading: Reading) -> Iterator[Mention]:
        """Yield options by letter or by text; a letter that no option has is one that is none of the options."""
        if not pattern("misnumbered").search(listed(reading.displayed)):
            text = pattern("by_number").sub(lambda match: match[0].translate(_LETTERED), text)
        mentions = list(super().mentions(text, reading))
        taken = {offset for start, end, _ in mentions for offset in range(start, end)}
        letters = dict(zip(LETTERS, map(self.names(reading).get, reading.displayed), strict=False))
        for match in pattern("letter").finditer(text):
            letter = match[match.lastindex or 0].upper()
            if (letter in letters or letter in LETTERS[:8]) and taken.isdisjoint(range(*match.span())):
                mentions.append(Mention(*match.span(), letters.get(letter, match[0])))
        if every := self.several and pattern("everything").search(text):
            but = {part.value for part in mentions if part.start in range(*every.span("but"))}
            if but or not every["but"]:
                mentions = [Mention(*every.span(), letter) for letter in {*letters.values()} - but]
        yield from sorted(mentions)

    def join(self, values: list[str], item: KeyedItem) -> str:
        """Return the letters of all options, or of the one."""
        if strange := [value for value in values if value not in {*LETTERS[: len(item.options)]}]:
            raise Unread("no option", strange[0])
        return "".join(sorted(set(values))) if self.several and values else super().join(values, item)

    def key(self, item: KeyedItem) -> str:
        """Return the letters of the right options; raises `Unread` where options may be taken for others."""
        _check_options(item.options, self.several)
        reading = Reading(SetScorer(), item, item.options)
        for answer in item.answers:
            if reading.scorer.exact(answer, reading) is None and not pattern("alone").fullmatch(
                reading.marked(answer)
            ):
                raise Unread("no option", answer)
        letters = sorted({*"".join(map(reading.stated, item.answers))})
        if len({item.options[LETTERS.index(letter)] for letter in letters}) > 1 and not self.several:
            raise Unread(f'{len(letters)} options; scorer = "set" takes several')
        return "".join(letters) if self.several else letters[0]

    def chance(self, item: KeyedItem) -> float:
        """Return the share of options that are right."""
        right = item.options[LETTERS.index(self.key(item))]
        return item.options.count(right) / len(item.options)


_LETTERED = str.maketrans("12345678", LETTERS[:8])


class SetScorer(ChoiceScorer):
    """All right options of several; chance is that of a set drawn from all that are not empty."""

    name = "set"
    measures = (("exact", SHARE), ("jaccard", SHARE))
    wording = "the letters of all right options, such as A, C"
    several = True

    def exact(self, text: str, reading: Reading) -> str | None:
        """Return the letter of the option that has this text, or the letters that it lists."""
        letters = sorted({self.names(reading)[option] for option in _listed(text, reading.displayed)})
        return super().exact(text, reading) or "".join(letters) or None

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
        options_listed = _listed(option, options)
        # A letter in its own place is told by both; `keeps_order` keeps it there.
        if options_listed and option.upper() != LETTERS[index] and (several or len(options_listed) == 1):
            raise Unread(f"{label} may be letters of others: write it in more words")


def _listed(text: str, options: Options) -> list[str]:
    """Return the options whose letters a text lists; none where it has anything else."""
    text = plain(text) if pattern("letters").fullmatch(plain(text)) else ""
    indexes = {LETTERS.index(letter.upper()) for letter in pattern("listed").findall(text)}
    return [options[index] for index in indexes] if max(indexes, default=99) < len(options) else []


# --- labels -----------------------------------------------------------------------------------------------------------


class LabelScorer(Scorer):
    """One of the labels that the keys of the items have; exact text comes before what differs in marks alone."""

    name = "label"
    noun = "label"

    def __init__(self, items: Items = ()) -> None:
        self.labels = {text: text for item in items for text in item.answers}
        self.wording = f"one of: {', '.join(sorted(self.labels))}"

    def names(self, reading: Reading) -> Mapping[str, str]:
        """Return the labels."""
        return self.labels

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

    def mentions(self, text: str, reading: Reading) -> Iterator[Mention]:
        """Yield the words for yes and no, unless they are part of a sentence, as in "no reason"."""
        matches = [*pattern("yes_or_no").finditer(text)]
        for match in matches:
            yield Mention(*match.span(), self.labels.get(match[0].casefold(), "no"))
        claim = None if matches else pattern("claim").match(text)
        if claim and reading.repeated(claim[0]) >= 0.7:
            yield Mention(0, 0, "no" if pattern("negation").search(claim[0]) else "yes")


# --- numbers ----------------------------------------------------------------------------------------------------------


class NumberScorer(Scorer):
    """A number, right within a tolerance that is ``absolute`` or ``relative`` to the key.

    A comma separates thousands, before three digits: 1,5 is one and a half; a unit of another kind is unreadable.
    """

    name = "number"
    noun = "number"
    has_units = True
    decoys = ("-987654321",)
    measures = (("correct", SHARE), ("absolute_error", "none"))

    def __init__(self, items: Items = (), tolerance: Mapping[str, float] | None = None) -> None:
        ((self.kind, self.size), *more) = (tolerance or {"absolute": 0.0}).items()
        is_size = type(self.size) in (int, float)
        if more or self.kind not in ("absolute", "relative") or not (is_size and 0 <= self.size < math.inf):
            raise StudyError(
                f"options.tolerance: {tolerance} is not usable; "
                "write { absolute = 0.5 } or { relative = 0.05 }"
            )

    def wording_of(self, item: KeyedItem) -> str:
        """Name the key's unit."""
        unit = " ".join(filter(None, self._required(item)[:0:-1]))
        return "a number with a point for decimals, " + (f"in {unit}" if unit else "without a unit")

    def key(self, item: KeyedItem) -> float:
        """Return the number that is right."""
        return self._required(item)[0]

    def _required(self, item: KeyedItem) -> tuple[float, str, str]:
        """Return the number that is right, its unit, and the word that multiplies this, as in thousand USD."""
        text = item.answers[0]
        numbers = list(self.mentions(rewritten(undecorated(text), self.name), Reading(self, item, ())))
        if len(numbers) != 1:
            raise Unread("no number", text)
        (amount, unit), scale = numbers[0].value, "".join(pattern("scales").findall(text.casefold()))
        return amount / WORDS["scales"].get(scale, 1), unit.strip(_FOREIGN), scale

    def read(self, text: str, item: KeyedItem, displayed: Options) -> Read:
        """Return the number that a reply answers, whatever signs it has for thousands and decimals."""
        return super().read(_english(text), item, displayed)

    def mentions(self, text: str, reading: Reading) -> Iterator[Mention]:
        """Yield the numbers of a text with their units, also those that are written as words.

        A number in the name of a standard or step is one only where the question asks for the name.
        """
        text = "".join(str(decimal(sign, sign)) for sign in text)
        asked = " ".join(pattern("asked_noun").findall(reading.item.prompt)).split()
        for match in pattern("number").finditer(text):
            name, number, counts, power, _, word = (part or "" for part in match.groups())
            unit = _unit(word)
            end = match.end() if unit else match.end("plain")
            if not unit and text[end : end + 1].isalnum():
                continue
            if name and name.casefold() not in pattern("asks_name").findall(reading.item.prompt.casefold()):
                continue
            if "·" in number:
                raise Unread("a point for thousands or for decimals", number)
            amount = float(pattern("thousands").sub("", number) or 0)
            amount += sum(map(WORDS["counts"].get, pattern("count").findall(counts.casefold())))
            with suppress(ArithmeticError):
                amount **= int(power or 1)
            if not math.isfinite(amount):
                raise Unread("no finite number", number)
            counted = bool(pattern("following").match(text, end)) * (1 + (word in asked))
            yield Mention(match.start(), end, (amount, unit or _FOREIGN * counted))

    def join(self, values: list[tuple[float, str]], item: KeyedItem) -> float:
        """Return the one number, or the only one that has a unit of the kind that was asked."""
        key, required, scale = self._required(item)
        words = " ".join(pattern("asked_unit").findall(item.prompt)).split()
        asked, factor = required or next(filter(None, map(_unit, words)), ""), WORDS["scales"].get(scale, 1)
        sizes = {asked: 1.0, "??": 1.0} | ({"%": 0.01} if not asked and 0 < key < 1 else {})
        for kind in WORDS["sizes"].values():
            if asked in kind:
                sizes |= {unit: size / kind[asked] for unit, size in kind.items()}
        sized = {amount * sizes[unit] / factor for amount, unit in values if unit and unit in sizes}
        if len(sized) == 1 and sized >= {amount for amount, unit in values if not unit}:
            return sized.pop()
        number, unit = super().join([(amount, unit.strip(_FOREIGN)) for amount, unit in values], item)
        if unit or (required and (number, _FOREIGN) in values):
            raise Unread(f"other unit: {quoted(unit)} where {required or 'none'} was asked")
        return number / factor if number >= factor else number  # 36,000,000 for 36 million

    def score(self, value: float, item: KeyedItem) -> Mapping[str, float]:
        """Return whether the number is near enough, and how far it is from the key."""
        expected = self.key(item)
        error = abs(value - expected)
        slack = self.size * (abs(expected) if self.kind == "relative" else 1)
        slack += 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
        return {"correct": float(error <= slack), "absolute_error": error}


_FOREIGN = "?"
"""Unit of a number that has none and counts something; it stands there twice where that is what the question asks."""
_UNITS = {text: unit for unit, texts in WORDS["units"].items() for text in (unit, *texts)}
_SWAPPED = str.maketrans(",.", ".,")


def _unit(word: str) -> str:
    return _UNITS.get(word) or _UNITS.get(word.casefold(), "")


def _english(text: str) -> str:
    """Return a text with its numbers as in English: where points and commas are plain they tell the others."""
    signs = {match.lastgroup for match in pattern("plain_number").finditer(text)}
    if signs == {"comma"}:
        return pattern("digits").sub(lambda match: match[0].translate(_SWAPPED), text)
    return (
        text if signs == {"point"} else pattern("unclear").sub(lambda match: match[0].replace(".", "·"), text)
    )


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
        names = ("exact", "parent", "jaccard")
        self.measures = tuple((name, SHARE) for name in names[: 2 + self.several])

    def wording_of(self, item: KeyedItem) -> str:
        """Name the kinds that the key has."""
        forms = " or ".join(_FORMS.get(kind, f"{kind}nnnn") for kind in sorted(_kinds(item.answer)))
        several = f"every identifier that applies, {forms}, with commas"
        return several if self.several else f"one identifier, {forms}"

    def mentions(self, text: str, reading: Reading) -> Iterator[Mention]:
        """Yield the identifiers of the key's kinds in a text, as their publishers write them."""
        for match in pattern("identifier").finditer(text):
            if _kinds(match[0]) <= _kinds(reading.item.answer):
                yield Mention(*match.span(), match[0].upper())

    def join(self, values: list[str], item: KeyedItem) -> str:
        """Return identifiers in their order; where one is asked, a part goes before its whole."""
        names = set(values)
        if not self.several:
            names -= {name.split(".")[0] for name in names if "." in name}
        return ", ".join(sorted(names)) if self.several and names else super().join(list(names), item)

    def score(self, value: str, item: KeyedItem) -> Mapping[str, float]:
        """Compare identifiers, and what they are part of, as sets."""
        answered, key = ({*filter(None, text.split(", "))} for text in (value, self.key(item)))
        parents, key_parents = ({name.split(".")[0] for name in names} for names in (answered, key))
        scores = {**_set_scores(answered, key), "parent": float(parents == key_parents)}
        return {name: scores[name] for name, _ in self.measures}


def _kinds(answer: Any) -> set[str]:
    return {
        re.split(r"[-\d]", name, maxsplit=1)[0] for name in pattern("identifier").findall(str(answer).upper())
    }


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

    def mentions(self, text: str, reading: Reading) -> Iterator[Mention]:
        """Yield the vectors of a text, with the version that stands before them."""
        for match in pattern("vector").finditer(text):
            metrics = "/".join(map(":".join, pattern("metric").findall(match[2].upper())))
            yield Mention(*match.span(), f"CVSS:{match[1] or _version(reading.item)}/{metrics}")

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
