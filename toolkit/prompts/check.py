"""Checks whether a dataset is fit to compare prompt lengths, and lists every problem."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any, Final

import numpy as np

from toolkit.models.tokens import ENCODINGS, count_all
from toolkit.prompts.content import dates_in, readability, scars_in, sums_in, technical_in
from toolkit.prompts.dataset import (
    TASK,
    Dataset,
    Prompt,
    by_bin,
    clusters_of,
    digest_of,
    load_dataset,
    without_arms,
)
from toolkit.prompts.fingerprints import fingerprints_in
from toolkit.prompts.similarity import NEAR, jaccard
from toolkit.words import LENGTH_ARMS, LENGTH_BINS, Summary, counted, one_line

BINNED_BY: Final = "o200k_base"
"""The encoding whose counts make `load_dataset` refuse a prompt."""
SHORTEST_SENTENCE: Final = 4  # words of a repeated sentence; a shorter one is a heading and not filler
BOILERPLATE: Final = 8  # least words of a sentence that counts as boilerplate
SHARED: Final = 3  # least bases with the same sentence or cause
EVEN: Final = 3  # most bases of a category, as a multiple of an even share
GRADES: Final = 4.0  # largest difference of readability, in school grades, between two lengths of a base
CUED_WORDS: Final = 3  # least words that an element shares with one fact of a longer prompt and not with S
CUED_SHARE: Final = 0.4  # and least share of its words
ALIKE: Final = 0.05  # largest difference in tokens between a length arm and what it is as long as
EXAMPLES: Final = 3  # problems of a kind that `check_summary` shows by default
LONGEST_LINE: Final = 200
"""Longest line of `check_summary`, in characters: one line of a prompt may be all of its text."""


@dataclass(frozen=True)
class Problem:
    """One problem of one prompt: its kind (see ``KINDS``), ``what`` is wrong, and how to ``mend`` it."""

    kind: str
    prompt_id: str
    what: str
    mend: str


def check_summary(source: str | Path, *, every: bool = False, files: Sequence[Path] = ()) -> Summary:
    """Check a dataset and list its problems: what `toolkit prompts check` prints; exit code 1 where there is one."""
    dataset = load_dataset(source, check_ranges=False, length_arms=True)
    problems = check_dataset(dataset)
    plain = without_arms(dataset.prompts)
    arms = Counter(arm for prompt in dataset.prompts if (arm := prompt.metadata.get("length_arm")))
    bin_counts = Counter(prompt.length_bin for prompt in plain)
    bins = {length_bin: bin_counts[length_bin] for length_bin in LENGTH_BINS}
    clusters = clusters_of(dataset.prompts)
    fields: dict[str, Any] = {
        "dataset": dataset.name,
        "version": dataset.version,
        "digest": digest_of(plain),  # that of a study without length arms
        "date": dataset.date.isoformat() if dataset.date else "",
        "focus": dataset.focus,
        "bases": len(clusters),
        "prompts": len(plain),
        "length_bins": bins,
        "texts": texts_by_bin(plain),
        "kinds": flaw_counts(problems),
        "problems": [asdict(problem) for problem in problems],
    }
    counts = ", ".join(f"{length_bin} {count}" for length_bin, count in bins.items())
    listed_arms = ", ".join(f"{arm} {count}" for arm, count in arms.items())
    arms_text = f"of length arms {arms.total()} ({listed_arms}), " if arms else ""
    independent = len(set(clusters.values()))
    groups = "" if independent == len(clusters) else f"independent groups {independent}, "
    fields |= {"independent_groups": independent} if groups else {}
    fields |= {"length_arms": dict(arms)} if arms else {}
    fields |= {"files": [str(path) for path in files]} if files else {}
    lines = []
    for kind, count in fields["kinds"].items():
        matching = [problem for problem in problems if problem.kind == kind]
        listed = matching if every else matching[:EXAMPLES]
        lines.append(f"{kind}: {counted(count, 'problems')}, {KINDS[kind]}")
        lines += [f"  {one_line(f'{p.prompt_id}: {p.what}', LONGEST_LINE)}; {p.mend}" for p in listed]
        lines += [f"  and {count - len(listed)} more; --all shows them"] if len(listed) < count else []
    for length_bin, texts in fields["texts"].items() if len(clusters) > 1 else ():
        (least, middle, most), (median, highest) = texts["tokens"], texts["similarity"]
        grade = "none (no words)" if texts["grade"] is None else f"{texts['grade']:.1f}"
        lines.append(
            f"{length_bin}: tokens {least} to {most}, median {middle:.0f}; Flesch-Kincaid grade {grade}; similarity of "
            f"two bases {median:.2f} in the median, {highest:.2f} at most"
        )
    last = (
        f"dataset {dataset.name}, version {dataset.version}: bases {len(clusters)}, "
        f"prompts {len(plain)} ({counts}), {arms_text}{groups}problems {len(problems)}"
    )
    fields["verdict"] = _verdict(fields)
    output = [*lines, fields["verdict"], one_line(last, LONGEST_LINE), *map(str, files)]
    return Summary(fields, "\n".join(output), 1 if problems else 0)


def _verdict(fields: Mapping[str, Any]) -> str:
    """Return in a sentence or two whether lengths can be compared, from what the checks counted."""
    compared = f"{counted(fields['prompts'], 'prompts')} of {counted(fields['bases'], 'bases')}"
    if not fields["kinds"]:
        return (
            f"No check finds that the lengths differ in anything else than length: no problem in {compared}."
        )
    prompts = len({problem["prompt_id"] for problem in fields["problems"]})
    kind, most = max(fields["kinds"].items(), key=lambda pair: pair[1])
    return (
        f"The lengths may differ in more than length: {counted(len(fields['problems']), 'problems')} in "
        f"{prompts} of {compared}. The most frequent, {most} times, is {kind}: {KINDS[kind]}."
    )


def texts_by_bin(prompts: Sequence[Prompt]) -> dict[str, dict[str, Any]]:
    """Return tokens (least, median, most), mean grade and similarity of two bases (median, most) of each length bin."""
    texts = {}
    for length_bin, members in by_bin(prompts).items():
        tokens = [prompt.token_count for prompt in members]
        alike = jaccard([prompt.text for prompt in members])[np.triu_indices(len(members), 1)]
        grades = [grade for prompt in members if not isnan(grade := readability(prompt.text))]
        texts[length_bin] = {
            "tokens": [min(tokens), float(np.median(tokens)), max(tokens)],
            "grade": float(np.mean(grades)) if grades else None,
            "similarity": [float(np.median(alike)), float(alike.max())] if len(alike) else [0.0, 0.0],
        }
    return texts


def check_dataset(dataset: Dataset) -> tuple[Problem, ...]:
    """Return every problem that would confound a comparison of prompt lengths, in the order of the prompts."""
    plain = without_arms(dataset.prompts)
    problems = [
        problem for check in CHECKS for problem in check(dataset.prompts if check in _ALSO_OF_ARMS else plain)
    ]
    position = {prompt.prompt_id: i for i, prompt in enumerate(dataset.prompts)}
    return tuple(sorted(problems, key=lambda problem: position[problem.prompt_id]))


def _by_base(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    bases: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        bases.setdefault(prompt.base, []).append(prompt)
    return bases


def _ranges(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    tokens_by = {encoding: count_all([p.text for p in prompts], encoding) for encoding in ENCODINGS}
    for number, prompt in enumerate(prompts):
        low, high = LENGTH_BINS[prompt.length_bin]
        counts = {encoding: tokens_by[encoding][number] for encoding in ENCODINGS}
        outside = {encoding: tokens for encoding, tokens in counts.items() if not low <= tokens <= high}
        if outside:
            tokens = " and ".join(f"{tokens} {encoding}" for encoding, tokens in outside.items())
            fault = f"{tokens} tokens, length bin {prompt.length_bin} has {low} to {high}"
            verdict = "refuses" if BINNED_BY in outside else "takes"
            direction = "longer" if min(outside.values()) < low else "shorter"
            mend = f"make it {direction}; a study {verdict} it as it is, by its {BINNED_BY} tokens"
            yield Problem("range", prompt.prompt_id, fault, mend)


def _bins(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        first = base[0]
        counts = Counter(prompt.length_bin for prompt in base)
        if missing := [length_bin for length_bin in LENGTH_BINS if length_bin not in counts]:
            fault = f"base {first.base} has no prompt in length bin {', '.join(missing)}"
            mend = "write it, or that length is not compared on this base"
            yield Problem("length_bins", first.prompt_id, fault, mend)
        for length_bin, count in counts.items():
            if count > 1:
                duplicate = [prompt for prompt in base if prompt.length_bin == length_bin][1]
                fault = f"base {first.base} has {count} prompts in length bin {length_bin}"
                mend = "give it a base of its own in the column base, or leave it out"
                yield Problem("length_bins", duplicate.prompt_id, fault, mend)


def _labels(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        for prompt in base[1:]:
            for key in ("scenario", "category"):
                label, expected = getattr(prompt, key), getattr(base[0], key)
                if label != expected:
                    fault = f"base {prompt.base} has {key} {label} here and {expected} in {base[0].prompt_id}"
                    yield Problem("labels", prompt.prompt_id, fault, f"give all prompts of a base one {key}")


def _containment(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    pairs: list[tuple[Prompt, Prompt, list[str]]] = []
    for base in _by_base(prompts).values():
        by_bin = {prompt.length_bin: prompt for prompt in base}
        for shorter, longer in pairwise(LENGTH_BINS):
            if shorter in by_bin and longer in by_bin:
                lines = set(_lines(by_bin[longer].text))
                missing = [line for line in _lines(by_bin[shorter].text) if line not in lines]
                pairs.append((by_bin[shorter], by_bin[longer], missing))
    mend = "say it there too, word for word, so that a longer prompt only adds"
    lacking = [pair for pair in pairs if pair[2]]
    # One cause: the texts were not written to contain each other.
    if len(lacking) >= max(SHARED, 0.9 * len(pairs)):
        short, long, missing = lacking[0]
        total = sum(len(lines) for _, _, lines in lacking)
        fault = f"in {len(lacking)} of {len(pairs)} pairs the longer prompt lacks lines of the shorter one, {total} in "
        fault += f"all, the first of {short.prompt_id}: {missing[0]}"
        yield Problem("containment", long.prompt_id, fault, mend)
        return
    for short, long, missing in lacking:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        fault = f"lacks this line{more} of {short.prompt_id}: {missing[0]}"
        yield Problem("containment", long.prompt_id, fault, mend)


def _repeated_texts(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    first: dict[str, Prompt] = {}
    first_base: dict[frozenset[str], str] = {}
    copies: set[str] = set()
    for base, members in _by_base(prompts).items():
        texts = frozenset(" ".join(prompt.text.split()) for prompt in members)
        if len(members) > 1 and texts in first_base:
            copies.add(base)
            fault = f"base {base} is a copy of base {first_base[texts]}"
            mend = "write it anew, or leave it out: a copy adds calls and no evidence"
            yield Problem("copied_base", members[0].prompt_id, fault, mend)
        first_base.setdefault(texts, base)
    for prompt in prompts:
        text = " ".join(prompt.text.split())
        if text in first and prompt.base not in copies:
            mend = "write another text, or leave it out"
            fault = f"has the same text as {first[text].prompt_id}"
            yield Problem("same_text", prompt.prompt_id, fault, mend)
        first.setdefault(text, prompt)


def _filler(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for prompt in prompts:
        sentences = [s for line in _lines(prompt.text) for s in re.split(r"(?<=[.!?;])\s+", line)]
        counts = Counter(" ".join(s.casefold().strip("-*.!?; ").split()) for s in sentences)
        for sentence, count in counts.items():
            if count > 1 and len(sentence.split()) >= SHORTEST_SENTENCE:
                mend = "say it once; more words are no more facts"
                yield Problem("repeated_sentence", prompt.prompt_id, f"says {count} times: {sentence}", mend)


_DOUBLED: Final = re.compile(
    r"(?i:\b([a-z]+-)(?=\1))|(?i:\b(?!had\b|that\b)([a-z]{2,})\s+)(?=[a-z])(?i:\2)\b"
)
"""A prefix twice ("CVE-CVE-2024-1") or a word twice ("the the"), but not a name ("Wagga Wagga")."""
_LISTED: Final = (
    r"(?:findings|indicators|events|alerts|logs?|evidence|details|facts|items|controls|requirements|observations|"
    r"steps|questions|table|list|data)"
)
_PROMISED: Final = re.compile(
    rf"\b{_LISTED}\s+(?:\w+\s+)?(?:below|that follows?)\b|\bfollowing\s+(?:\w+\s+){{0,2}}{_LISTED}\b|"
    rf"\b{_LISTED}\s+(?:is|are)\s+(?:\w+\s+)?below\b|\bas follows\b|"
    r"\bsee (?:the )?(?:attached|enclosed|appendix|figure|table|screenshot)\b",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"\s*(?:[-*\u2022|>]|\(?\w{1,3}[.)])\s|[^:\n]{1,60}:\s*\S|\s{4,}\S")
"""The start of a line of a list: a bullet, a number, a cell, "name: value", or an indented block."""


def _scars(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for prompt in prompts:
        doubled = _DOUBLED.search(prompt.text)
        if doubled:
            around = " ".join(prompt.text[max(0, doubled.start() - 20) : doubled.end() + 30].split())
            yield Problem("doubled_token", prompt.prompt_id, f"doubles a token: {around}", "say it once")
        for promised in _PROMISED.finditer(prompt.text):
            line_end, _, after = prompt.text[promised.end() :].partition("\n")
            listed = len(line_end.partition(":")[2].split()) > 1
            if not listed and not any(map(_ITEM.match, after.splitlines())):
                fault = f"points to {promised.group()!r}, and no list follows"
                mend = "give the list, or do not announce it"
                yield Problem("nothing_below", prompt.prompt_id, fault, mend)
                break


def _tasks(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        tasks = {p.prompt_id: p.text.rpartition(TASK)[2].strip() for p in base if TASK in p.text}
        for prompt_id, task in tasks.items():
            if task != next(iter(tasks.values())):
                fault = f"asks for something else than {next(iter(tasks))}"
                mend = "give all lengths of a base the same task, word for word"
                yield Problem("task", prompt_id, fault, mend)


def _content(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for prompt in prompts:
        for look in (scars_in, dates_in, sums_in, technical_in):
            for kind, fault, mend in dict.fromkeys(look(prompt.text)):
                yield Problem(kind, prompt.prompt_id, fault, mend)


def _near_copies(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    reported: set[str] = set()
    for members in by_bin(prompts).values():
        plain = [" ".join(prompt.text.split()) for prompt in members]
        alike = np.tril(jaccard(plain), -1)
        for number, nearest in enumerate(alike.argmax(axis=1)):
            first, second, share = members[number], members[nearest], alike[number, nearest]
            is_new = first.base != second.base and first.base not in reported
            if is_new and share > NEAR and plain[number] != plain[nearest]:
                reported.add(first.base)
                same = first.category == second.category
                location = "its own category" if same else f"category {second.category}"
                fault = f"shares {share:.0%} of its word 5-grams with {second.prompt_id} of {location}"
                mend = "write another situation: other numbers in the same text are no other base"
                yield Problem("near_copy", first.prompt_id, fault, mend)


def _boilerplate(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    bases: dict[str, dict[str, Prompt]] = defaultdict(dict)
    for prompt in prompts:
        for line in _lines(prompt.text):
            for sentence in re.split(r"(?<=[.!?;])\s+", line.strip("-* ")):
                if len(sentence.split()) >= BOILERPLATE:
                    bases[sentence.casefold()].setdefault(prompt.base, prompt)
    for sentence, by_base in bases.items():
        if len(by_base) >= SHARED:
            first = next(iter(by_base.values()))
            fault = f"a sentence stands in {len(by_base)} bases: {sentence}"
            yield Problem("boilerplate", first.prompt_id, fault, "say in each base what is its own")


def _elements(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    firsts = [base[0] for base in _by_base(prompts).values()]
    for key in ("elements", "csf"):
        if any(key in prompt.metadata for prompt in firsts):
            for prompt in firsts:
                if key not in prompt.metadata:
                    fault = f"base {prompt.base} has no {key}, others have"
                    yield Problem("elements", prompt.prompt_id, fault, "give it to all bases or to none")
    for prompt in firsts:
        listed = Counter(str(text).casefold() for text in prompt.metadata.get("elements", ()))
        for element, count in listed.items():
            if count > 1:
                yield Problem("elements", prompt.prompt_id, f"lists {count} times: {element}", "list it once")
            if ";" in element:
                fault = f"an element makes two claims: {element}"
                yield Problem("elements", prompt.prompt_id, fault, "make each claim an element of its own")


def _cues(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        shortest = base[0]
        given = _stems(shortest.text)
        lines = dict.fromkeys(line for prompt in base[1:] for line in _lines(prompt.text))
        later = [(line, _stems(line) - given) for line in lines if line not in _lines(shortest.text)]
        for element in map(str, shortest.metadata.get("elements", ())):
            words = _stems(element)
            for line, stems in later:
                if len(words & stems) >= max(CUED_WORDS, CUED_SHARE * len(words)):
                    fault = f"the element {element!r} has words that only a longer prompt states: {line}"
                    mend = "word the element by what S states, or change the fact"
                    yield Problem("cue", shortest.prompt_id, fault, mend)


def _stems(text: str) -> set[str]:
    """Return the first six letters of each word that has a meaning of its own: four letters or more, no number."""
    return {word[:6] for word in re.findall(r"[a-z][a-z-]{3,}", text.casefold())}


def _references(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        references = [str(prompt.metadata.get("reference", "")).split() for prompt in base]
        if any(reference != references[0] for reference in references):
            fault = f"base {base[0].base} has several reference answers"
            yield Problem("reference", base[0].prompt_id, fault, "give all prompts of a base the same")
        for prompt, reference in zip(base, references, strict=True):
            if reference and f" {' '.join(reference)} " in f" {' '.join(prompt.text.split())} ":
                yield Problem(
                    "reference", prompt.prompt_id, "holds its reference answer", "take it out of the text"
                )


def _fingerprints(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    bases = [{prompt.length_bin: prompt for prompt in base} for base in _by_base(prompts).values()]
    for prompt, fault, mend in fingerprints_in(bases):
        yield Problem("fingerprint", prompt.prompt_id, fault, mend)


def _balance(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    first = [base[0] for base in _by_base(prompts).values()]
    for key in ("category", "scenario"):
        counts = Counter(getattr(prompt, key) for prompt in first)
        for name, count in counts.items():
            if len(counts) > EVEN and count > EVEN * len(first) / len(counts):
                prompt = next(member for member in first if getattr(member, key) == name)
                fault = f"{key} {name} holds {count} of {len(first)} bases"
                yield Problem("balance", prompt.prompt_id, fault, "spread the bases over the categories")


def _readabilities(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        grades = {prompt.prompt_id: readability(prompt.text) for prompt in base}
        low, high = min(grades, key=grades.__getitem__), max(grades, key=grades.__getitem__)
        if grades[high] - grades[low] > GRADES:
            fault = f"reads at grade {grades[high]:.1f} and {low} at {grades[low]:.1f} (Flesch-Kincaid)"
            mend = "write both alike, or length and difficulty change together"
            yield Problem("readability", high, fault, mend)


_FACT_SIGN: Final = re.compile(r"`[^`]+`|\d[\d.,:/-]*\d|\d|(?<![\w@-])[\w@-]+(?:\.[\w@-]+)*\.[A-Za-z]{2,}\b")
"""What a fact in short must hold too: strings in backticks, numbers, times and dates, addresses."""


def _arms(prompts: Sequence[Prompt]) -> Iterator[Problem]:
    for base in _by_base(prompts).values():
        texts = {prompt.metadata.get("length_arm") or prompt.length_bin: prompt for prompt in base}
        arms = [name for name in LENGTH_ARMS if name in texts]
        if arms and (absent := [name for name in (*LENGTH_BINS, *LENGTH_ARMS) if name not in texts]):
            fault = f"base {base[0].base} has length arms and lacks {', '.join(absent)}"
            mend = "write it, or give the base no arms: length and information are parted by all of them"
            yield Problem("arms", texts[arms[0]].prompt_id, fault, mend)
        elif arms:
            facts = {name: _facts(prompt.text) for name, prompt in texts.items()}
            for name in ("neutral_m", "neutral_l"):
                yield from _neutral(
                    texts[name], texts[LENGTH_ARMS[name]], facts[name], facts["S"], facts["L"]
                )
            yield from _short(texts["short_l"], facts["short_l"], facts["L"])


def _neutral(
    arm: Prompt, like: Prompt, facts: Sequence[str], short_facts: Sequence[str], long_facts: Sequence[str]
) -> Iterator[Problem]:
    if lost := [fact for fact in short_facts if fact not in facts]:
        fault = f"lacks {counted(len(lost), 'facts')} of S, the first: {lost[0]}"
        yield Problem("arm_facts", arm.prompt_id, fault, "give all of S's facts, word for word")
    if more := [fact for fact in facts if fact in long_facts and fact not in short_facts]:
        fault = f"has {counted(len(more), 'facts')} of M or L, the first: {more[0]}"
        yield Problem("arm_facts", arm.prompt_id, fault, "put background in its place that bears on nothing")
    share = arm.token_count / like.token_count - 1
    if abs(share) > ALIKE:
        fault = f"has {arm.token_count} tokens ({BINNED_BY}), {share:+.1%} of the {like.token_count} of "
        fault += like.prompt_id
        direction = "shorter" if share > 0 else "longer"
        yield Problem("arm_length", arm.prompt_id, fault, f"make it {direction}: at most {ALIKE:.0%} apart")


def _short(arm: Prompt, facts: Sequence[str], long_facts: Sequence[str]) -> Iterator[Problem]:
    if len(facts) != len(long_facts):
        fault = f"has {counted(len(facts), 'facts')}, L has {len(long_facts)}"
        yield Problem("arm_facts", arm.prompt_id, fault, "tell every fact of L in short, one for one")
        return
    for number, (short, long) in enumerate(zip(facts, long_facts, strict=True), 1):
        present, expected = (set(_FACT_SIGN.findall(fact)) for fact in (short, long))
        words = [
            f"{verb} {', '.join(sorted(signs))}"
            for verb, signs in (("lacks", expected - present), ("adds", present - expected))
            if signs
        ]
        if words:
            fault = f"fact {number} {' and '.join(words)}: {short}"
            yield Problem("arm_facts", arm.prompt_id, fault, f"say what L says: {one_line(long, 80)}")


def _facts(text: str) -> list[str]:
    """Return the facts of a composed prompt, or all lines of another one."""
    listed = text.rpartition(TASK)[0].partition("\n\nFacts:\n- ")[2]
    return listed.split("\n- ") if listed else _lines(text)


CHECKS: Final[Mapping[Callable[[Sequence[Prompt]], Iterator[Problem]], Mapping[str, str]]] = {
    _ranges: {"range": "token count outside of its length bin"},
    _bins: {"length_bins": "a base without exactly one prompt at each length"},
    _labels: {"labels": "a base of more than one scenario or category"},
    _containment: {"containment": "a longer prompt lacks a line of the shorter one"},
    _repeated_texts: {"copied_base": "a base is a copy of another", "same_text": "a text is used twice"},
    _filler: {"repeated_sentence": "a sentence is said twice in one prompt"},
    _scars: {
        "doubled_token": "a word or prefix stands twice in a row",
        "nothing_below": "the text points to a list or an attachment that is not there",
    },
    _tasks: {"task": "the lengths of a base ask for different work"},
    _content: {
        "placeholder": "a place was never filled in",
        "model_talk": "a model talks about its own text",
        "hidden_character": "a character that cannot be seen, or a wrong encoding",
        "broken_text": "an empty place, doubled punctuation, or something not closed",
        "unfinished": "the text ends in the middle of a sentence",
        "date": "a date or time that cannot be",
        "sum": "numbers that do not fit each other",
        "hash": "a hash of no hash's length",
        "address": "an address or domain that is none or belongs to somebody",
        "identifier": "a CVE, ATT&CK technique or port that cannot be",
    },
    _near_copies: {"near_copy": "a base is another one with other numbers"},
    _boilerplate: {"boilerplate": "a sentence stands in several bases"},
    _elements: {"elements": "bases do not all tell their elements or CSF function, each element one claim"},
    _cues: {"cue": "a longer prompt hands over an element of a good answer"},
    _references: {"reference": "a base has several reference answers, or the prompt gives it away"},
    _fingerprints: {"fingerprint": "many bases share a form, as if one hand had filled in a template"},
    _balance: {"balance": "a category holds most of the bases"},
    _readabilities: {"readability": "the lengths of a base differ in difficulty"},
    _arms: {
        "arms": "a base has some of the length arms and not all, or lacks what they are compared with",
        "arm_facts": "a length arm differs in facts from S or L",
        "arm_length": f"background does not make S as long as M or L, to {ALIKE:.0%}",
    },
}
"""Every check with the kinds of problems that it finds; a new check is a function and a row here."""
_ALSO_OF_ARMS: Final = (_ranges, _labels, _filler, _scars, _tasks, _content, _references, _arms)
"""Checks of each prompt by itself, or of what the arms of a base share with it; the others compare S, M and L."""
KINDS: Final = {kind: words for kinds in CHECKS.values() for kind, words in kinds.items()}
"""Kinds of problems with their sentences; ``accept_flaws`` of a study file uses the kinds."""


def flaw_counts(problems: Iterable[Problem]) -> dict[str, int]:
    """Return the number of problems of each kind that occurs, in the order of ``KINDS``."""
    counts = Counter(problem.kind for problem in problems)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
