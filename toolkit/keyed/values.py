"""Scorers of answers without options: labels, yes or no, numbers, identifiers of ATT&CK, CWE and CVE, CVSS vectors."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any
from unicodedata import decimal

from toolkit.errors import StudyError
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.answers import (
    SHARE,
    Options,
    Scorer,
    Unread,
    layers,
    make_scorer,
    one_key,
    plain,
    plain_answer,
    quoted,
    set_scores,
)
from toolkit.keyed.table import Items, KeyedItem
from toolkit.table_files import number_of

# --- names ------------------------------------------------------------------------------------------------------------


def matches(value: Any, names: Options) -> list[int]:
    """Return the places of the names that an answer may mean: by exact text, else but for marks, capitals or digits.

    >>> names = ("-p", "-P", "1,000")
    >>> matches("`-P`", names), matches("1000.0", names), matches("p", names)
    ([1], [2], [])
    """
    layered = dict.fromkeys(layers(value)) if isinstance(value, str) else ()
    for fold, form in [(str, text) for text in layered] + [(fold, fold(value)) for fold in _FOLDS if layered]:
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


def label_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of one of the labels that the keys of the items have; exact text comes before what is alike."""
    labels = {text: text for item in items for text in item.answers}
    return _label_scorer("label", labels, f"one of: {', '.join(sorted(labels))}")


def yes_no_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of yes or no; true and false are read as these."""
    return _label_scorer("yes_no", {"yes": "yes", "true": "yes", "no": "no", "false": "no"}, "yes or no")


def _label_scorer(name: str, labels: Mapping[str, str], answer: str) -> Scorer:
    names = tuple(labels)

    def label(value: Any) -> str:
        if len(indexes := matches(value, names)) != 1:
            raise Unread(f"{'several labels' if indexes else 'no label'}: {quoted(value)}")
        return labels[names[indexes[0]]]

    return make_scorer(
        name,
        {"correct": SHARE},
        lambda item: answer,
        lambda item: label(one_key(item)),
        lambda value, item, displayed: label(value),
        lambda value, item: {"correct": float(value == label(one_key(item)))},
        lambda item: 1 / len(set(labels.values())) if labels else None,
    )


# --- numbers ----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9.]+(?:e[+-]?[0-9]+)?))(?:\s*(%|[^\W\d²³¹⁰-₉¼-¾⅐-⅟_][^\d,;]*))?",
    re.IGNORECASE,
)


def number_scorer(items: Items = (), tolerance: Mapping[str, float] | None = None) -> Scorer:
    """Return the scorer of a number, right within a tolerance that is ``absolute`` or ``relative`` to the key.

    A comma separates thousands, before three digits: 1,5 is unreadable, and so is another unit than the key's.
    """
    kind, size = next(iter((tolerance or {"absolute": 0.0}).items()))
    is_size = isinstance(size, int | float) and not isinstance(size, bool) and 0 <= size < math.inf
    if len(tolerance or {}) > 1 or kind not in ("absolute", "relative") or not is_size:
        raise StudyError(
            f"options.tolerance: {tolerance} is not usable; "
            "write { absolute = 0.5 } or { relative = 0.05 }"
        )

    def key(item: KeyedItem) -> tuple[float, str]:
        return _number(one_key(item))

    def parse(value: Any, item: KeyedItem, displayed: Options) -> float:
        number, unit = _number(value)
        if unit and unit != key(item)[1]:
            required = key(item)[1] or "none"
            raise Unread(f"other unit: {quoted(unit)} where {required} was asked")
        return number

    def answer(item: KeyedItem) -> str:
        unit = key(item)[1]
        return "a number with a point for decimals, " + (f"in {unit}" if unit else "without a unit")

    def score(value: Any, item: KeyedItem) -> dict[str, float]:
        expected = key(item)[0]
        error = abs(value - expected)
        slack = size * (abs(expected) if kind == "relative" else 1)
        slack += 1e-9 * max(1.0, abs(expected))  # 4.35 - 4.3 is not 0.05 in binary
        return {"correct": float(error <= slack), "absolute_error": error}

    return make_scorer("number", {"correct": SHARE, "absolute_error": "none"}, answer, key, parse, score)


def _number(value: Any) -> tuple[float, str]:
    """Return a number and its unit, in the singular and with "%" for percent."""
    text = plain_answer(value)
    match = _NUMBER.fullmatch("".join(str(decimal(sign, sign)) for sign in text))
    number = number_of(match[1].replace(",", "")) if match else None
    if match is None or number is None:
        raise Unread(f"no number: {quoted(value)}")
    unit = (match[2] or "").strip()
    unit = "%" if unit.casefold() in ("percent", "per cent") else unit
    unit = unit.removesuffix("s") if len(unit) > 3 else unit
    if not math.isfinite(number):
        raise Unread(f"no finite number: {quoted(value)}")
    return number, unit


# --- identifiers ------------------------------------------------------------------------------------------------------

_IDENTIFIER = re.compile(
    r"\b(?:T\d{4}(?:\.\d{3})?|(?:TA|DS|[MGSC])\d{4}|CWE-\d{1,5}|CVE-\d{4}-\d{4,7})\b(?!\.\d)", re.ASCII
)
_NAME = r"\s*(?:\([^()]*\)|[:-]\s[^;]*?)?\s*"
_BETWEEN = re.compile(rf"{_NAME}(?:[,;&/]|,?\s?\bAND\b)\s*|\s+")
_FORMS = {"T": "Tnnnn or Tnnnn.nnn", "CWE": "CWE-n", "CVE": "CVE-yyyy-nnnn"}


def identifier_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of identifiers; where an item's key has several, all items may and are scored as sets.

    ``parent`` leaves the sub-technique out: T1059.001 and T1059.003 are both T1059.
    """
    several = not items or any(len(_IDENTIFIER.findall(str(item.answer).upper())) > 1 for item in items)

    def parse(value: Any, item: KeyedItem, displayed: Options) -> str:
        answered = _identifiers(value)
        if strange := {_kind(name) for name in answered} - {_kind(name) for name in _keys(item)}:
            raise Unread(f"other identifiers: {min(strange)} was not asked, {quoted(value)}")
        if len(answered) != 1 and not several:
            raise Unread(f"{'several identifiers' if answered else 'no identifier'}: {quoted(value)}")
        return ", ".join(sorted(answered))

    def answer(item: KeyedItem) -> str:
        kinds = sorted({_kind(name) for name in _keys(item)})
        forms = " or ".join(_FORMS.get(kind, f"{kind}nnnn") for kind in kinds)
        return (
            f"every identifier that applies, {forms}, with commas" if several else f"one identifier, {forms}"
        )

    def score(value: Any, item: KeyedItem) -> dict[str, float]:
        answered, key = set(filter(None, value.split(", "))), _keys(item)
        parents = {name.split(".")[0] for name in answered} == {name.split(".")[0] for name in key}
        scores = {**set_scores(answered, key), "parent": float(parents)}
        return {measure: scores[measure] for measure in measures}

    measures = dict.fromkeys(("exact", "parent", "jaccard")[: 3 if several else 2], SHARE)
    return make_scorer("identifier", measures, answer, _keys, parse, score)


def _keys(item: KeyedItem) -> set[str]:
    return _identifiers(item.answer)


def _kind(name: str) -> str:
    return re.split(r"[-\d]", name, maxsplit=1)[0]


def _identifiers(value: Any) -> set[str]:
    """Return the identifiers of an answer that has nothing else but their names; "or" between two is no answer."""
    if isinstance(value, list):
        return {name for part in value for name in _identifiers(part)}
    text = plain_answer(value).upper()
    matches = list(_IDENTIFIER.finditer(text))
    pairs = pairwise(matches)
    clean = all(_BETWEEN.fullmatch(text[left.end() : right.start()]) for left, right in pairs)
    if not (matches and clean and matches[0].start() == 0 and re.fullmatch(_NAME, text[matches[-1].end() :])):
        raise Unread(f"no identifier: {quoted(value)}")
    return {match[0] for match in matches}


# --- CVSS -------------------------------------------------------------------------------------------------------------

_BASE = shipped_words("cvss", "keyed")
"""Base metrics of each version of CVSS."""


def cvss_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of base vectors of CVSS 3.0, 3.1 and 4.0, by the formulas of FIRST (package `cvss`).

    ``exact`` compares the base metrics, ``score_error`` is the distance of the base scores in points, ``metrics`` the
    share of metrics that are right.
    """

    def key(item: KeyedItem) -> tuple[str, float]:
        return _vector(one_key(item), "")

    def parse(value: Any, item: KeyedItem, displayed: Options) -> str:
        return _vector(value, key(item)[0])[0]

    def score(value: Any, item: KeyedItem) -> dict[str, float]:
        expected, points = key(item)
        parts, key_parts = value.split("/")[1:], expected.split("/")[1:]
        right = sum(part == key_part for part, key_part in zip(parts, key_parts, strict=True))
        error = abs(_vector(value, "")[1] - points)
        return {"exact": float(parts == key_parts), "score_error": error, "metrics": right / len(key_parts)}

    measures = {"exact": SHARE, "score_error": "points", "metrics": "share of metrics"}

    def answer(item: KeyedItem) -> str:
        return f"the base vector, in the form {key(item)[0].split('/')[0]}/AV:.../..."

    return make_scorer("cvss", measures, answer, key, parse, score)


def _vector(value: Any, key: str) -> tuple[str, float]:
    """Return a vector's base metrics in their order, in the version of the key, and the base score."""
    from cvss import CVSS3, CVSS4  # type: ignore[import-untyped]
    from cvss.exceptions import CVSSError  # type: ignore[import-untyped]

    text = plain_answer(value).upper()
    if text.startswith("AV:"):
        text = f"{key.partition('/')[0] or 'CVSS:3.1'}/{text}"
    version = text[5:6]
    if version not in _BASE or (key and version != key[5]):
        raise Unread(f"no CVSS vector: {quoted(value)}, of version {key[5:8] or '3 or 4'}")
    kind = CVSS4 if version == "4" else CVSS3
    try:
        metrics = kind(text).metrics
        prefix = (key or text).partition("/")[0]
        vector = "/".join([prefix, *(f"{name}:{metrics[name]}" for name in _BASE[version])])
        return vector, float(kind(vector).base_score)
    except CVSSError as error:
        raise Unread(f"no CVSS vector: {quoted(error)}") from None
