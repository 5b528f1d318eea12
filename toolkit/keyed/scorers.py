"""The scorers of keyed tests by name: options, labels, numbers, identifiers, vectors, and a user's own function."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from inspect import signature
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any
from unicodedata import decimal

from toolkit.errors import InputError, StudyError
from toolkit.files.tables import number_of
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.answers import (
    SHARE,
    Options,
    Read,
    Scorer,
    Unread,
    layers,
    listed,
    plain,
    plain_answer,
    quoted,
)
from toolkit.keyed.refusals import RefusalScorer
from toolkit.keyed.table import Items, KeyedItem, KeyedTable
from toolkit.prompt_test import code_of_users, module_of_users
from toolkit.words import choices, one_line


def matches(answer: Any, names: Options) -> list[int]:
    """Return the places of the names that an answer may mean: by exact text, else but for marks, capitals or digits.

    >>> names = ("-p", "-P", "1,000")
    >>> matches("`-P`", names), matches("1000.0", names), matches("p", names)
    ([1], [2], [])
    """
    texts = list(layers(answer))
    for fold, form in [(str, text) for text in texts] + [(fold, fold(answer)) for fold in _FOLDS if texts]:
        if form and (indexes := [index for index, name in enumerate(names) if fold(name) == form]):
            return indexes
    return []


@lru_cache
def _digits(text: str) -> object:
    """Return the number that a short text is, with its unit; nothing where it is none."""
    with suppress(Unread):
        return len(text) < 16 and _number(text)
    return None


_FOLDS = (plain, lambda text: plain(text).casefold(), _digits)


def _set_scores(answered: set[str], key: set[str]) -> dict[str, float]:
    """Return whether two sets are equal, and which share of their union is in both (Jaccard 1901)."""
    return {"exact": float(answered == key), "jaccard": len(answered & key) / len(answered | key)}


# --- options ----------------------------------------------------------------------------------------------------------

_LETTERED = re.compile(r"\(?([A-Za-z])[).:]?(?:(?:\s+[-–—:]|(?<=[).:]))?\s+(.+))?", re.DOTALL)


class ChoiceScorer(Scorer):
    """One option of several; the value is its letter in the file. Of two options with the same text either is right."""

    name = "choice"
    wording = "the letter of the one best option"
    several = False

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> str:
        """Return the letters of the options that are named."""
        indexes = _options(answer, displayed) if self.several else {_option(answer, displayed)}
        return _letters(item, [displayed[index] for index in indexes])

    def key(self, item: KeyedItem) -> str:
        """Return the letters of the right options; raises `Unread` where options may be taken for others."""
        _check_options(item.options, self.several)
        indexes = _options(item.answers if len(item.answers) > 1 else item.answers[0], item.options)
        if len(indexes) > 1 and not self.several:
            raise Unread(f'{len(indexes)} options; scorer = "set" takes several')
        return _letters(item, [item.options[index] for index in indexes])

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
        # A letter in its own place is told by both; `keeps_order` keeps it there.
        mistaken = (
            matches(text, options) if text else option.upper() != LETTERS[index]
            for _, text in _lettered(option, options)
        )  # fmt: skip
        if any(mistaken) or (several and len(_listed(option, options)) > 1):
            raise Unread(f"{label} may be letters of others: write it in more words")


def _lettered(answer: Any, options: Options) -> Iterator[tuple[int, str | None]]:
    """Yield the place of the option whose letter an answer begins with, and the text after it, if any."""
    for text in (*layers(answer), plain_answer(answer)):
        match = _LETTERED.fullmatch(text)
        if match and (index := LETTERS.index(match[1].upper())) < len(options):
            yield index, match[2]


def _option(answer: Any, options: Options) -> int:
    """Return the place of the option that an answer names by letter, by letter and text, or by its whole text."""
    indexes = set(matches(answer, options))
    letters = {
        index for index, text in _lettered(answer, options) if not text or index in matches(text, options)
    }
    # With a letter, a text may be that of several.
    indexes = letters if letters & indexes else letters | indexes
    if not indexes:
        raise Unread(f"no option: {quoted(answer)}")
    if len({options[index] for index in indexes}) > 1:
        raise Unread(f"several options: {quoted(answer)}; the letter tells which")
    return min(indexes)


def _options(answer: Any, options: Options) -> set[int]:
    """Return the places of all options that an answer names: a list, "ACD", "A, C" or "A and C"."""
    if isinstance(answer, list):
        return {_option(part, options) for part in answer}
    try:
        return {_option(answer, options)}
    except Unread:
        if letters := _listed(answer, options):
            return letters
        raise


def _listed(answer: Any, options: Options) -> set[int]:
    """Return the places of the options whose letters a text lists; none where it has anything else."""
    text = plain_answer(answer)
    together = re.fullmatch("[A-Z]{2,26}", text)
    parts = text if together else re.split(r"\s*(?:[,;/&\s]|\band\b)\s*", text)
    letters = {part.strip("()").upper() for part in parts if part}
    return {*map(LETTERS.index, letters)} if letters <= {*LETTERS[: len(options)]} else set()


def _letters(item: KeyedItem, options: Iterable[str]) -> str:
    """Return the letters that options have in the file."""
    return "".join(sorted(LETTERS[item.options.index(option)] for option in options))


# --- labels -----------------------------------------------------------------------------------------------------------


class LabelScorer(Scorer):
    """One of the labels that the keys of the items have; exact text comes before what differs in marks alone."""

    name = "label"

    def __init__(self, items: Items = ()) -> None:
        self.labels = {text: text for item in items for text in item.answers}
        self.wording = f"one of: {', '.join(sorted(self.labels))}"

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> str:
        """Return the one label that is named."""
        if len(indexes := matches(answer, tuple(self.labels))) != 1:
            raise Unread(f"{'several labels' if indexes else 'no label'}: {quoted(answer)}")
        return [*self.labels.values()][indexes[0]]

    def chance(self, item: KeyedItem) -> float | None:
        """Return the share of one label of all."""
        return 1 / len(set(self.labels.values())) if self.labels else None


class YesNoScorer(LabelScorer):
    """Yes or no; true and false are read as these."""

    name = "yes_no"

    wording = "yes or no"

    def __init__(self, items: Items = ()) -> None:
        self.labels = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}


# --- numbers ----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9.]+(?:e[+-]?[0-9]+)?))(?:\s*(%|[^\W\d²³¹⁰-₉¼-¾⅐-⅟_][^\d,;]*))?",
    re.IGNORECASE,
)


class NumberScorer(Scorer):
    """A number, right within a tolerance that is ``absolute`` or ``relative`` to the key.

    A comma separates thousands, before three digits: 1,5 is unreadable, and so is another unit than the key's.
    """

    name = "number"
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
        unit = _number(item.answers[0])[1]
        return "a number with a point for decimals, " + (f"in {unit}" if unit else "without a unit")

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> float:
        """Return a number without a unit or in the key's."""
        number, unit = _number(answer)
        required = _number(item.answers[0])[1]
        if unit not in ("", required):
            raise Unread(f"other unit: {quoted(unit)} where {required or 'none'} was asked")
        return number

    def score(self, value: float, item: KeyedItem) -> Mapping[str, float]:
        """Return whether the number is near enough, and how far it is from the key."""
        expected = self.key(item)
        error = abs(value - expected)
        slack = self.size * (abs(expected) if self.kind == "relative" else 1)
        slack += 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
        return {"correct": float(error <= slack), "absolute_error": error}


def _number(answer: Any) -> tuple[float, str]:
    """Return a number and its unit, in the singular and with "%" for percent."""
    match = _NUMBER.fullmatch("".join(str(decimal(sign, sign)) for sign in plain_answer(answer)))
    number = number_of(match[1].replace(",", "")) if match else None
    if match is None or number is None:
        raise Unread(f"no number: {quoted(answer)}")
    if not math.isfinite(number):
        raise Unread(f"no finite number: {quoted(answer)}")
    unit = (match[2] or "").strip()
    unit = "%" if unit.casefold() in ("percent", "per cent") else unit
    return number, unit.removesuffix("s") if len(unit) > 3 else unit


# --- identifiers ------------------------------------------------------------------------------------------------------

_IDENTIFIER = re.compile(
    r"\b(?:T\d{4}(?:\.\d{3})?|(?:TA|DS|[MGSC])\d{4}|CWE-\d{1,5}|CVE-\d{4}-\d{4,7})\b(?!\.\d)", re.ASCII
)
_NAME = r"\s*(?:\([^()]*\)|[:-]\s[^;]*?)?\s*"
_BETWEEN = re.compile(rf"{_NAME}(?:[,;&/]|,?\s?\bAND\b)\s*|\s+")
_FORMS = {"T": "Tnnnn or Tnnnn.nnn", "CWE": "CWE-n", "CVE": "CVE-yyyy-nnnn"}


class IdentifierScorer(Scorer):
    """Identifiers of ATT&CK, CWE and CVE; where an item's key has several, all items may and are scored as sets.

    ``parent`` leaves the sub-technique out: T1059.001 and T1059.003 are both T1059.
    """

    name = "identifier"

    def __init__(self, items: Items = ()) -> None:
        keys = (_IDENTIFIER.findall(str(item.answer).upper()) for item in items)
        self.several = not items or any(len(key) > 1 for key in keys)
        names = ("exact", "parent", "jaccard") if self.several else ("exact", "parent")
        self.measures = tuple((name, SHARE) for name in names)

    def wording_of(self, item: KeyedItem) -> str:
        """Name the kinds that the key has."""
        forms = " or ".join(_FORMS.get(kind, f"{kind}nnnn") for kind in sorted(_kinds(self.key(item))))
        several = f"every identifier that applies, {forms}, with commas"
        return several if self.several else f"one identifier, {forms}"

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> str:
        """Return identifiers of the key's kinds, in their order."""
        answered = _identifiers(answer)
        if strange := _kinds(answered) - _kinds(self.key(item)):
            raise Unread(f"other identifiers: {min(strange)} was not asked, {quoted(answer)}")
        if len(answered) != 1 and not self.several:
            raise Unread(f"{'several identifiers' if answered else 'no identifier'}: {quoted(answer)}")
        return ", ".join(sorted(answered))

    def key(self, item: KeyedItem) -> set[str]:
        """Return the identifiers that are right."""
        return _identifiers(item.answer)

    def score(self, value: str, item: KeyedItem) -> Mapping[str, float]:
        """Compare identifiers, and what they are part of, as sets."""
        answered, key = set(filter(None, value.split(", "))), self.key(item)
        parents, key_parents = ({name.split(".")[0] for name in names} for names in (answered, key))
        scores = {**_set_scores(answered, key), "parent": float(parents == key_parents)}
        return {name: scores[name] for name, _ in self.measures}


def _kinds(names: Iterable[str]) -> set[str]:
    return {re.split(r"[-\d]", name, maxsplit=1)[0] for name in names}


def _identifiers(answer: Any) -> set[str]:
    """Return the identifiers of an answer that has nothing else but their names; "or" between two is no answer."""
    if isinstance(answer, list):
        return {name for part in answer for name in _identifiers(part)}
    text = plain_answer(answer).upper()
    names = list(_IDENTIFIER.finditer(text))
    clean = all(_BETWEEN.fullmatch(text[left.end() : right.start()]) for left, right in pairwise(names))
    if not (names and clean and names[0].start() == 0 and re.fullmatch(_NAME, text[names[-1].end() :])):
        raise Unread(f"no identifier: {quoted(answer)}")
    return {match[0] for match in names}


# --- CVSS -------------------------------------------------------------------------------------------------------------

_BASE = shipped_words("cvss", "keyed")
"""Base metrics of each version of CVSS."""


class CvssScorer(Scorer):
    """Base vectors of CVSS 3.0, 3.1 and 4.0, by the formulas of FIRST (package `cvss`).

    ``exact`` compares the base metrics, ``score_error`` is the distance of the base scores in points, ``metrics`` the
    share of metrics that are right.
    """

    name = "cvss"
    measures = (("exact", SHARE), ("score_error", "points"), ("metrics", "share of metrics"))

    def wording_of(self, item: KeyedItem) -> str:
        """Name the key's version."""
        return f"the base vector, in the form CVSS:{_version(item)}/AV:.../..."

    def parse(self, answer: Any, item: KeyedItem, displayed: Options) -> str:
        """Return the base metrics of a vector in their order, in the version of the key."""
        from cvss.exceptions import CVSSError  # type: ignore[import-untyped]

        version, text = _version(item), plain_answer(answer).upper()
        text = f"CVSS:{version}/{text}" if text.startswith("AV:") else text
        if version[:1] not in _BASE or text[5:6] != version[0]:
            raise Unread(f"no CVSS vector: {quoted(answer)}, of version {version or '3 or 4'}")
        try:
            metrics = _vector(text).metrics
        except CVSSError as error:
            raise Unread(f"no CVSS vector: {quoted(error)}") from None
        return "/".join([f"CVSS:{version}", *(f"{name}:{metrics[name]}" for name in _BASE[version[0]])])

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
