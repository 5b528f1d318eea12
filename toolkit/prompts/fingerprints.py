"""What gives away that bases come from one hand: openings, tasks, counts and numbers that repeat over a dataset.

A model under test can learn such a pattern instead of the matter, and a reader cannot take the bases for independent
cases. A pattern is a property of the dataset, so each is reported once, at the first base that has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from toolkit.prompts.dataset import TASK, Prompt

LEAST_BASES: Final = 20  # with fewer bases a share says little
NUMBER_BASES: Final = 10  # a number of two or three digits in fewer bases is no habit
NUMBER_RATIO: Final = 3.0  # and one that is not this many times as frequent as its neighbours
_PLACEHOLDER: Final = re.compile(r"\b(Example|Sample|Acme|Contoso|Fictional) [A-Z]")
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])\d{2,3}(?![\w:/-]|[.,]\d)")


def fingerprints_in(bases: Sequence[Mapping[str, Prompt]]) -> Iterator[tuple[Prompt, str, str]]:
    """Yield the first prompt of each pattern that too many bases share, what it is, and what to do.

    Parameters
    ----------
    bases
        The prompts of each base by length bin.
    """
    if len(bases) < LEAST_BASES:
        return
    for most, words, pattern in _PATTERNS:
        values = [pattern(base) for base in bases]
        for value, count in Counter(value for value in values if value is not None).items():
            if count > most * len(bases):
                first = next(base for base, value_of in zip(bases, values, strict=True) if value_of == value)
                fault = f"{count} of {len(bases)} bases {words.format(value)}"
                yield _longest(first), fault, "vary it, so that the bases are independent cases"
    yield from _numbers(bases)


def _numbers(bases: Sequence[Mapping[str, Prompt]]) -> Iterator[tuple[Prompt, str, str]]:
    counts: Counter[int] = Counter()
    first: dict[int, Prompt] = {}
    for base in bases:
        for number in {int(digits) for digits in _NUMBER.findall(_longest(base).text)}:
            counts[number] += 1
            first.setdefault(number, _longest(base))
    for number, count in counts.items():
        # Days of months, round numbers, dozens and weeks are frequent everywhere.
        if number <= 31 or count < NUMBER_BASES or any(number % unit == 0 for unit in (5, 7, 8, 12)):
            continue
        neighbours = [near for near in range(number - 3, number + 4) if near != number and near % 5]
        usual = sum(counts[near] for near in neighbours) / len(neighbours)
        if count > NUMBER_RATIO * max(1.0, usual):
            fault = f"the number {number} stands in {count} bases, its neighbours in {usual:.1f} on average"
            yield first[number], fault, "use other numbers in most of them"


def _longest(base: Mapping[str, Prompt]) -> Prompt:
    return list(base.values())[-1]


def _first_words(text: str) -> str:
    return " ".join(text.split()[:2])


def _task(base: Mapping[str, Prompt]) -> str:
    return _longest(base).text.rpartition(TASK)[2].strip()


def _kinds(base: Mapping[str, Prompt]) -> list[str]:
    return list(_longest(base).metadata.get("fact_kinds", ()))


def _facts_of_s(base: Mapping[str, Prompt]) -> int | None:
    return base["S"].text.partition(TASK)[0].count("\n- ") if "S" in base else None


def _name(base: Mapping[str, Prompt]) -> str | None:
    match = _PLACEHOLDER.search(_longest(base).text)
    return f"{match[1]} ..." if match else None


_PATTERNS: Final[tuple[tuple[float, str, Callable[[Mapping[str, Prompt]], object]], ...]] = (
    (0.25, "begin with the words {}", lambda base: _first_words(_longest(base).text)),
    (0.34, "have a task that begins with the words {}", lambda base: _first_words(_task(base)) or None),
    (0.5, "ask for {} numbered parts", lambda base: len(re.findall(r"\(\d\)", _task(base))) or None),
    (0.6, "state {} facts in S", _facts_of_s),
    (0.6, "have {} decoys", lambda base: _kinds(base).count("decoy") if _kinds(base) else None),
    (0.4, "end L with a fact of the kind {}", lambda base: _kinds(base)[-1] if _kinds(base) else None),
    (0.1, "have an organisation that is called {}", _name),
)
"""The largest share of bases that may have the same value of a pattern, what such bases do, and the value of a base."""
