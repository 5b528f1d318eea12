"""Print forms that too many bases of a dataset share: python scripts/dataset_fingerprints.py DATASET.

They give away that bases come from one hand: parts of tasks, kinds of facts, names and numbers that repeat. The check
of a dataset (`toolkit prompts check`) names the plainest; these are for those who write one.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from toolkit.prompts.dataset import TASK, Prompt, load_dataset

NUMBER_BASES = 10  # a number of two or three digits in fewer bases is no habit
NUMBER_RATIO = 3.0  # and one that is not this many times as frequent as its neighbours
_PLACEHOLDER = re.compile(r"\b(Example|Sample|Acme|Contoso|Fictional) [A-Z]")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d{2,3}(?![\w:/-]|[.,]\d)")


def fingerprints_in(bases: Sequence[Sequence[Prompt]]) -> Iterator[str]:
    """Yield each form that too many bases share."""
    for most, words, value_of in _PATTERNS:
        counts = Counter(value for base in bases if (value := value_of(base[-1])) is not None)
        for value, count in counts.items():
            if count > most * len(bases):
                yield f"{count} of {len(bases)} bases {words.format(value)}"
    yield from _numbers(bases)


def _numbers(bases: Sequence[Sequence[Prompt]]) -> Iterator[str]:
    counts: Counter[int] = Counter()
    for base in bases:
        counts.update({int(digits) for digits in _NUMBER.findall(base[-1].text)})
    for number, count in counts.items():
        # Days of months, round numbers, dozens and weeks are frequent everywhere.
        if number <= 31 or count < NUMBER_BASES or any(number % unit == 0 for unit in (5, 7, 8, 12)):
            continue
        neighbours = [near for near in range(number - 3, number + 4) if near != number and near % 5]
        usual = sum(counts[near] for near in neighbours) / len(neighbours)
        if count > NUMBER_RATIO * max(1.0, usual):
            yield f"the number {number} stands in {count} bases, its neighbours in {usual:.1f} on average"


def _parts(prompt: Prompt) -> int | None:
    return len(re.findall(r"\(\d\)", prompt.text.rpartition(TASK)[2])) or None


def _decoys(prompt: Prompt) -> int | None:
    kinds = prompt.metadata.get("fact_kinds", ())
    return list(kinds).count("decoy") if kinds else None


def _last_kind(prompt: Prompt) -> str | None:
    kinds = prompt.metadata.get("fact_kinds", ())
    return kinds[-1] if kinds else None


def _name(prompt: Prompt) -> str | None:
    match = _PLACEHOLDER.search(prompt.text)
    return f"{match[1]} ..." if match else None


_PATTERNS: tuple[tuple[float, str, Callable[[Prompt], object]], ...] = (
    (0.5, "ask for {} numbered parts", _parts),
    (0.6, "have {} decoys", _decoys),
    (0.4, "end L with a fact of the kind {}", _last_kind),
    (0.1, "have an organisation that is called {}", _name),
)
"""The largest share of bases that may have the same value of a pattern, what such bases do, and the value of a base."""


if __name__ == "__main__":
    by_base: dict[str, list[Prompt]] = {}
    for prompt in load_dataset(sys.argv[1]).prompts:
        by_base.setdefault(prompt.base, []).append(prompt)
    print("\n".join(fingerprints_in(list(by_base.values()))) or "no form is shared by too many bases")
