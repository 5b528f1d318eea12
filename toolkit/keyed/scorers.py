"""The scorers of keyed tests by name: of options here, of other answers in `values`, and a user's own function."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any

from toolkit.errors import InputError, StudyError
from toolkit.keyed.answers import (
    SHARE,
    Options,
    Read,
    Scorer,
    Unread,
    layers,
    listed,
    make_scorer,
    plain,
    plain_answer,
    quoted,
    set_scores,
)
from toolkit.keyed.refusals import refusal_scorer
from toolkit.keyed.table import Items, KeyedItem, KeyedTable
from toolkit.keyed.values import (
    cvss_scorer,
    identifier_scorer,
    label_scorer,
    matches,
    number_scorer,
    yes_no_scorer,
)
from toolkit.prompt_test import code_of_users, module_of_users
from toolkit.words import choices, one_line

_LETTERED = re.compile(r"\(?([A-Za-z])[).:]?(?:(?:\s+[-–—:]|(?<=[).:]))?\s+(.+))?", re.DOTALL)


def choice_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of one option of several; the value is its letter in the file, whatever order was shown."""

    def key(item: KeyedItem) -> int:
        if len(indexes := _key(item)) > 1:
            raise Unread(f'{len(indexes)} options; scorer = "set" takes several')
        return min(indexes)

    def right(option: str, item: KeyedItem) -> bool:
        # Two options may have the same text: either is right.
        return option == item.options[key(item)]

    return make_scorer(
        "choice",
        {"correct": SHARE},
        lambda item: "the letter of the one best option",
        key,
        lambda value, item, displayed: _letters(item, [displayed[_option(value, displayed)]]),
        lambda value, item: {"correct": float(right(item.options[LETTERS.index(value)], item))},
        lambda item: sum(right(option, item) for option in item.options) / len(item.options),
    )


def set_scorer(items: Items = ()) -> Scorer:
    """Return the scorer of all right options of several; chance is that of a set drawn from all that are not empty."""

    def key(item: KeyedItem) -> set[int]:
        return _key(item, several=True)

    return make_scorer(
        "set",
        {"exact": SHARE, "jaccard": SHARE},
        lambda item: "the letters of all right options, such as A, C",
        key,
        lambda value, item, displayed: _letters(
            item, [displayed[index] for index in _options(value, displayed)]
        ),
        lambda value, item: set_scores(set(value), {LETTERS[index] for index in key(item)}),
        lambda item: 1 / (2 ** len(item.options) - 1),
    )


def _key(item: KeyedItem, *, several: bool = False) -> set[int]:
    """Return the places of the options that the key names; raises `Unread` where they cannot be told."""
    options = item.options
    if len(options) < 2:
        raise Unread(f"{len(options)} options: give their columns, or take a scorer without options")
    for index, option in enumerate(options):
        # A letter in its own place is told by both; `keeps_order` keeps it there.
        mistaken = [
            option.upper() != LETTERS[index] if text is None else matches(text, options)
            for _, text in _lettered(option, options)
        ]
        if several and option in options[:index]:
            raise Unread(f"option {index + 1}, {quoted(option)}, is there twice: change one of the two")
        if any(mistaken) or (several and len(_listed(option, options)) > 1):
            raise Unread(
                f"option {index + 1}, {quoted(option)}, may be letters of others: write it in more words"
            )
    return _options(item.answers if len(item.answers) > 1 else item.answers[0], options)


def _lettered(value: Any, options: Options) -> Iterator[tuple[int, str | None]]:
    """Yield the place of the option whose letter an answer begins with, and the text after it, if any."""
    for text in (*layers(value), plain(value)) if isinstance(value, str) else ():
        match = _LETTERED.fullmatch(text)
        index = LETTERS.find(match[1].upper()) if match else -1
        if match and 0 <= index < len(options):
            yield index, match[2]


def _option(value: Any, options: Options) -> int:
    """Return the place of the option that an answer names by letter, by letter and text, or by its whole text."""
    indexes = set(matches(value, options))
    letters = {
        index for index, text in _lettered(value, options) if not text or index in matches(text, options)
    }
    # With a letter, a text may be that of several.
    indexes = letters if letters & indexes else letters | indexes
    if not indexes:
        raise Unread(f"no option: {quoted(value)}")
    if len({options[index] for index in indexes}) > 1:
        raise Unread(f"several options: {quoted(value)}; the letter tells which")
    return min(indexes)


def _options(value: Any, options: Options) -> set[int]:
    """Return the places of all options that an answer names: a list, "ACD", "A, C" or "A and C"."""
    if isinstance(value, list):
        return {_option(part, options) for part in value}
    try:
        return {_option(value, options)}
    except Unread:
        if letters := _listed(value, options):
            return letters
        raise


def _listed(value: Any, options: Options) -> set[int]:
    """Return the places of the options whose letters a text lists; none where it has anything else."""
    text = plain_answer(value)
    letters = [part.strip("()") for part in re.split(r"\s*(?:[,;/&\s]|\band\b)\s*", text) if part]
    letters = list(text) if re.fullmatch("[A-Z]{2,26}", text) else letters
    indexes = {LETTERS.find(letter.upper()) if len(letter) == 1 else -1 for letter in letters}
    return indexes if all(0 <= index < len(options) for index in indexes) else set()


def _letters(item: KeyedItem, options: Iterable[str]) -> str:
    """Return the letters that options have in the file."""
    return "".join(sorted(LETTERS[item.options.index(option)] for option in options))


_MAKERS = {
    make().name: make
    for make in (
        choice_scorer, set_scorer, number_scorer, identifier_scorer, cvss_scorer, label_scorer, yes_no_scorer,
        refusal_scorer,
    )
}  # fmt: skip
SCORERS = {name: make() for name, make in _MAKERS.items()}


def scorer(name: str, folder: Path, items: Items = (), **settings: Any) -> Scorer:
    """Return the scorer that a study names, for the items it is used on and with the settings of its options.

    A user's own is ``file.py:function`` or ``module:function``: a function of the reply's text and the item that
    returns a number, ``None`` where there is none, or a number for each key of its attribute ``measures``.
    """
    maker = _MAKERS.get(name)
    allowed = list(signature(maker).parameters)[1:] if maker else []
    if unknown := [setting for setting in settings if setting not in allowed]:
        has = f"its settings are {', '.join(allowed)}" if allowed else "it has none"
        raise StudyError(f"options.{unknown[0]}: scorer {name} has no such setting; {has}")
    if maker:
        return maker(items, **settings)
    source, _, function_name = name.rpartition(":")
    if not source or not function_name:
        raise StudyError(
            f"options.scorer: {name!r} is not known; {choices(name, _MAKERS)} or file.py:function"
        )
    with code_of_users(f"options.scorer: {name!r} cannot be imported"):
        function = getattr(module_of_users(source, folder, "options.scorer"), function_name, None)
    if not callable(function):
        raise StudyError(f"options.scorer: {source} has no function {function_name}; check the name")
    return _own_scorer(name, function)


def check_table(table: KeyedTable, scorer: Scorer) -> None:
    """Raise ``InputError`` that names the row for the first item whose key the scorer cannot use."""
    for item in table.items:
        if fault := scorer.check(item):
            raise InputError(f"{table.name}, row {item.row}: {fault}")


def _own_scorer(name: str, function: Callable[[str, KeyedItem], Any]) -> Scorer:
    measures = getattr(function, "measures", {"score": "none"})
    short = name.rpartition(":")[2]
    advice = f'{short}.measures = {{"name": "unit"}}'
    texts = [*measures, *measures.values()] if isinstance(measures, Mapping) else []
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise StudyError(f"options.scorer: {short}.measures is {measures!r}; write {advice}")

    def read(text: str, item: KeyedItem, displayed: Options) -> Read:
        with code_of_users(f"scorer {name} failed on item {item.item_id}", InputError):
            try:
                value = function(text, item)
            except SystemExit as error:
                return Read(None, f"the scorer failed: SystemExit: {one_line(str(error), 80)}")
            if value is None:
                return Read(None, "the scorer gives no score")
            numbers = value if isinstance(value, Mapping) else {next(iter(measures)): value}
            scores = {str(measure): float(number) for measure, number in numbers.items()}
        if set(scores) != set(measures):
            raise InputError(
                f"scorer {name}: gives {', '.join(scores) or 'nothing'} for item {item.item_id} and not "
                f"{', '.join(measures)}; declare what it gives: {advice}"
            )
        if not all(map(math.isfinite, scores.values())):
            return Read(None, "the scorer gives no finite number")
        return Read(tuple(scores[measure] for measure in measures))

    return Scorer(
        name,
        tuple(measures.items()),
        lambda item, displayed: listed(displayed) + str(getattr(function, "form", "")),
        lambda item: None,
        read,
        lambda value, item: dict(zip(measures, value, strict=True)),
    )
