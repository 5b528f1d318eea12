"""Is a dataset fit to compare prompt lengths with? Every reason why not, one by one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from toolkit.models.tokens import ENCODINGS, count_tokens
from toolkit.prompts.dataset import Dataset, Prompt
from toolkit.words import LENGTH_BINS

SHORTEST_SENTENCE: Final = 4
"""Words below which a repeated sentence is a heading and not filler."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one prompt (``prompt_id``), in words (``what``)."""

    prompt_id: str
    what: str


def check_dataset(dataset: Dataset) -> tuple[Problem, ...]:
    """Return everything in a dataset that would confound a comparison of prompt lengths.

    Found are: a token count outside the range of the length bin, in either encoding; a base without exactly
    one prompt in each length bin; a line of S that M lacks, or of M that L lacks; one text used twice; a
    sentence repeated within a prompt.

    Parameters
    ----------
    dataset
        Any dataset; ``load_dataset(source, check_ranges=False)`` also lets through what is out of range.

    Returns
    -------
    tuple of Problem
        In the order of the prompts; empty when nothing is wrong.

    Examples
    --------
    >>> from toolkit.prompts.dataset import load_dataset
    >>> check_dataset(load_dataset("demo"))
    ()
    """
    problems = [
        *_ranges(dataset),
        *_bins(dataset),
        *_containment(dataset),
        *_same_texts(dataset),
        *_filler(dataset),
    ]
    place = {prompt.prompt_id: i for i, prompt in enumerate(dataset.prompts)}
    return tuple(sorted(problems, key=lambda problem: place[problem.prompt_id]))


def _ranges(dataset: Dataset) -> Iterator[Problem]:
    for prompt in dataset.prompts:
        low, high = LENGTH_BINS[prompt.length_bin]
        for encoding in ENCODINGS:
            tokens = count_tokens(prompt.text, encoding)
            if not low <= tokens <= high:
                what = f"{tokens} {encoding} tokens, length bin {prompt.length_bin} has {low} to {high}"
                yield Problem(prompt.prompt_id, what)


def _by_base(dataset: Dataset) -> dict[str, list[Prompt]]:
    bases: defaultdict[str, list[Prompt]] = defaultdict(list)
    for prompt in dataset.prompts:
        bases[prompt.base].append(prompt)
    return bases


def _bins(dataset: Dataset) -> Iterator[Problem]:
    for base, prompts in _by_base(dataset).items():
        counts = Counter(prompt.length_bin for prompt in prompts)
        missing = [length_bin for length_bin in LENGTH_BINS if length_bin not in counts]
        if missing:
            yield Problem(
                prompts[0].prompt_id, f"base {base} has no prompt in length bin {', '.join(missing)}"
            )
        for length_bin, count in counts.items():
            if count > 1:
                again = [prompt for prompt in prompts if prompt.length_bin == length_bin][1]
                yield Problem(again.prompt_id, f"base {base} has {count} prompts in length bin {length_bin}")


def _containment(dataset: Dataset) -> Iterator[Problem]:
    for prompts in _by_base(dataset).values():
        by_bin = {prompt.length_bin: prompt for prompt in prompts}
        for shorter, longer in pairwise(LENGTH_BINS):
            if shorter in by_bin and longer in by_bin:
                held = set(_lines(by_bin[longer].text))
                for line in _lines(by_bin[shorter].text):
                    if line not in held:
                        what = f"lacks this line of {by_bin[shorter].prompt_id}: {line}"
                        yield Problem(by_bin[longer].prompt_id, what)


def _same_texts(dataset: Dataset) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for prompt in dataset.prompts:
        text = " ".join(prompt.text.split())
        if text in first:
            yield Problem(prompt.prompt_id, f"has the same text as {first[text]}")
        first.setdefault(text, prompt.prompt_id)


def _filler(dataset: Dataset) -> Iterator[Problem]:
    for prompt in dataset.prompts:
        sentences = [s for line in _lines(prompt.text) for s in re.split(r"(?<=[.!?;])\s+", line)]
        counts = Counter(" ".join(s.casefold().strip("-*.!?; ").split()) for s in sentences)
        for sentence, count in counts.items():
            if count > 1 and len(sentence.split()) >= SHORTEST_SENTENCE:
                yield Problem(prompt.prompt_id, f"says {count} times: {sentence}")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
