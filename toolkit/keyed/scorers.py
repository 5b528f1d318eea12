"""Scorers of keyed tests: how to ask, whether a key is usable, what a reply answers, and what that answer is worth."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any, Final

from toolkit.errors import InputError, StudyError
from toolkit.keyed.answers import HOW, Read, Unread, quoted, read_answer, same
from toolkit.keyed.table import KeyedItem, KeyedTable
from toolkit.prompt_test import code_of_users, module_of_users
from toolkit.words import choices

SHARE: Final = "share of items"


@dataclass(frozen=True)
class Scorer:
    """The functions of one kind of answer; the first of ``measures``, pairs of name and unit, is the main one.

    ``form(item, shown)`` is appended to the prompt: the options as shown and how to answer. ``check(item)`` is a fault
    of the key. ``read(text, item, shown)`` reads a reply; a letter in its value is that of the file's order, whatever
    order was shown. ``score(value, item)`` has a number for each measure, ``chance(item)`` the expected main measure of
    a guess, where there is one. Without ``needs_key`` an item need not have an answer.
    """

    name: str
    measures: tuple[tuple[str, str], ...]
    form: Callable[[KeyedItem, Sequence[str]], str]
    check: Callable[[KeyedItem], str | None]
    read: Callable[[str, KeyedItem, Sequence[str]], Read]
    score: Callable[[Any, KeyedItem], Mapping[str, float]]
    chance: Callable[[KeyedItem], float | None] = lambda item: None
    needs_key: bool = True


def check_table(table: KeyedTable, scorer: Scorer) -> None:
    """Raise ``InputError`` for the first row whose key the scorer cannot use."""
    for item in table.items:
        if fault := scorer.check(item):
            raise InputError(f"{table.name}, row {item.row}: {fault}")


# --- options ----------------------------------------------------------------------------------------------------------

_LETTERED: Final = re.compile(r"\(?([A-Za-z])(?:\)|\.|:)?(?:(?:\s+[-–—:]|(?<=[).:]))?\s+(.+))?")


def _option(value: Any, options: Sequence[str]) -> int:
    """Return the place of the option that an answer names by letter, by letter and text, or by its whole text."""
    if not isinstance(value, str):
        raise Unread(f"no option: {quoted(value)}")
    match = _LETTERED.fullmatch(value)
    place = LETTERS.find(match[1].upper()) if match else -1
    if match and 0 <= place < len(options) and (match[2] is None or same(match[2]) == same(options[place])):
        return place
    places = [at for at, option in enumerate(options) if same(option) == same(value)]
    if not places:
        raise Unread(f"no option: {quoted(value)}")
    return places[0]


def _options(value: Any, options: Sequence[str]) -> set[int]:
    """Return the places of all options that an answer names: a list, "ACD", "A, C" or "A and C"."""
    if isinstance(value, list):
        return {_option(part, options) for part in value}
    try:
        return {_option(value, options)}
    except Unread:
        text = str(value)
        letters = [part.strip("()") for part in re.split(r"\s*(?:[,;/&\s]|\band\b)\s*", text) if part]
        if re.fullmatch(r"[A-Z]{2,26}", text):
            letters = list(text)
        if not all(len(letter) == 1 for letter in letters):
            raise
        return {_option(letter, options) for letter in letters}


def _shown(options: Sequence[str]) -> str:
    return (
        "\n"
        + "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
        + "\n\n"
    )


def _option_key(item: KeyedItem, several: bool) -> set[int]:
    """Return the places of the options that the key names; raises `Unread` where they cannot be told."""
    if len(item.options) < 2:
        raise Unread(f"has {len(item.options)} options; give the columns of the options, or another scorer")
    if item.answer in (None, []):
        raise Unread("has no answer; write it, or take the row out")
    parts = item.answer if isinstance(item.answer, list) else [item.answer]
    for part in parts:
        whole = [at for at, option in enumerate(item.options) if same(option) == same(part)]
        letter = LETTERS.find(part.upper()) if len(part) == 1 else -1
        if whole and 0 <= letter < len(item.options) and letter not in whole:
            raise Unread(f"the answer {part!r} is a letter and the text of another option; write the letter")
    key = _options(parts if len(parts) > 1 else parts[0], item.options)
    if len(key) > 1 and not several:
        raise Unread(f'the answer {quoted(item.answer)} names {len(key)} options; use scorer = "set"')
    return key


def _letters(places: Iterable[int]) -> str:
    return "".join(LETTERS[place] for place in sorted(places))


def _fault(key: Callable[[KeyedItem], Any]) -> Callable[[KeyedItem], str | None]:
    def check(item: KeyedItem) -> str | None:
        try:
            key(item)
        except Unread as fault:
            return str(fault).replace("no option:", f"none of its {len(item.options)} options is the answer")
        return None

    return check


def _read_options(several: bool) -> Callable[[str, KeyedItem, Sequence[str]], Read]:
    def read(text: str, item: KeyedItem, shown: Sequence[str]) -> Read:
        def letters(value: Any) -> str:
            places = _options(value, shown) if several else {_option(value, shown)}
            return _letters(item.options.index(shown[place]) for place in places)

        return read_answer(text, letters)

    return read


def _score_choice(value: Any, item: KeyedItem) -> Mapping[str, float]:
    (place,) = _option_key(item, several=False)
    # Two options may have the same text: either is right.
    return {"correct": float(item.options[LETTERS.index(value)] == item.options[place])}


def _score_set(value: Any, item: KeyedItem) -> Mapping[str, float]:
    return set_scores(set(value), set(_letters(_option_key(item, several=True))))


def set_scores(answered: set[str], key: set[str]) -> Mapping[str, float]:
    """Return whether two sets are equal, and the share of their union that is in both (Jaccard 1901)."""
    return {"exact": float(answered == key), "jaccard": len(answered & key) / len(answered | key)}


def choice_scorer(items: Sequence[KeyedItem] = ()) -> Scorer:
    """Return the scorer of one option of several."""
    return Scorer(
        "choice",
        (("correct", SHARE),),
        lambda item, shown: _shown(shown) + HOW.format(answer="the letter of the one best option"),
        _fault(lambda item: _option_key(item, several=False)),
        _read_options(several=False),
        _score_choice,
        lambda item: 1 / len(item.options),
    )


def set_scorer(items: Sequence[KeyedItem] = ()) -> Scorer:
    """Return the scorer of all right options of several; chance is that of a set drawn from all that are not empty."""
    return Scorer(
        "set",
        (("exact", SHARE), ("jaccard", SHARE)),
        lambda item, shown: (
            _shown(shown) + HOW.format(answer="the letters of all right options, such as A, C")
        ),
        _fault(lambda item: _option_key(item, several=True)),
        _read_options(several=True),
        _score_set,
        lambda item: 1 / (2 ** len(item.options) - 1),
    )


# --- by name ----------------------------------------------------------------------------------------------------------

_MAKERS: Final[Mapping[str, Callable[..., Scorer]]] = {
    "choice": choice_scorer,
    "set": set_scorer,
}
SCORERS: Final[Mapping[str, Scorer]] = {name: make() for name, make in _MAKERS.items()}


def scorer(name: str, folder: Path, items: Sequence[KeyedItem] = (), **settings: Any) -> Scorer:
    """Return the scorer that a study names, for its items and with its settings.

    A user's own is ``file.py:function`` or ``module:function``, a function of the reply's text and the item that
    returns a number, `None` where there is none, or a number for each key of its attribute ``measures``.
    """
    if name in _MAKERS:
        allowed = list(signature(_MAKERS[name]).parameters)[1:]
        if unknown := [setting for setting in settings if setting not in allowed]:
            has = f"its settings are {', '.join(allowed)}" if allowed else "it has none"
            raise StudyError(f"options.{unknown[0]}: scorer {name} has no such setting; {has}")
        return _MAKERS[name](items, **settings)
    source, _, function_name = name.rpartition(":")
    if not source or not function_name:
        raise StudyError(
            f"options.scorer: {name!r} is not known; {choices(name, _MAKERS)} or file.py:function"
        )
    if settings:
        raise StudyError(
            f"options.{next(iter(settings))}: a scorer of your own has no settings; write them into it"
        )
    with code_of_users(f"options.scorer: {name!r} cannot be imported"):
        function = getattr(module_of_users(source, folder, "options.scorer"), function_name, None)
    if not callable(function):
        raise StudyError(f"options.scorer: {source} has no function {function_name}; check the name")
    return _own_scorer(name, function)


def _own_scorer(name: str, function: Callable[[str, KeyedItem], Any]) -> Scorer:
    measures: Mapping[str, str] = getattr(function, "measures", {"score": "none"})

    def read(text: str, item: KeyedItem, shown: Sequence[str]) -> Read:
        with code_of_users(f"scorer {name} failed on item {item.item_id}", InputError):
            value = function(text, item)
            if value is None:
                return Read(None, "the scorer gives no score")
            numbers = value if isinstance(value, Mapping) else {next(iter(measures)): value}
            scores = {str(measure): float(number) for measure, number in numbers.items()}
        if set(scores) != set(measures):
            raise InputError(
                f"scorer {name}: gives {', '.join(scores)} for item {item.item_id} and not {', '.join(measures)}; "
                f'declare what it gives: {name.rpartition(":")[2]}.measures = {{"name": "unit"}}'
            )
        if not all(map(math.isfinite, scores.values())):
            return Read(None, "the scorer gives no finite number")
        return Read({measure: scores[measure] for measure in measures})

    return Scorer(
        name,
        tuple(measures.items()),
        lambda item, shown: (_shown(shown) if shown else "") + str(getattr(function, "form", "")),
        lambda item: None,
        read,
        lambda value, item: value,
        needs_key=False,
    )
