"""Checks whether a dataset is fit to compare prompt lengths, and lists every problem."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.files.reading import read_toml
from toolkit.models.tokens import ENCODINGS, count_all
from toolkit.prompts.content import dates_in, readability, scars_in, sums_in, technical_in
from toolkit.prompts.dataset import (
    TASK,
    Dataset,
    Prompt,
    by_bin,
    clusters_of,
    load_dataset,
    version_of,
    without_arms,
    words_of,
)
from toolkit.prompts.similarity import NEAR, jaccard
from toolkit.words import LENGTH_ARMS, LENGTH_BINS, Summary, counted, one_line, template

BINNED_BY = "o200k_base"
"""The encoding whose counts make `load_dataset` refuse a prompt."""
SHORTEST_SENTENCE = 4  # words of a repeated sentence; a shorter one is a heading and not filler
BOILERPLATE = 8  # least words of a sentence that counts as boilerplate
SHARED = 3  # least bases with the same sentence or cause
EVEN = 3  # most bases of a category, as a multiple of an even share
GRADES = 4.0  # largest difference of readability, in school grades, between two lengths of a base
CUED_WORDS = 3  # least words that an element shares with one fact of a longer prompt and not with S
CUED_SHARE = 0.4  # and least share of its words
ALIKE = 0.05  # largest difference in tokens between a length arm and what it is as long as
ALIKE_ON_AVERAGE = 0.02  # and of their mean over bases
FINGERPRINT_BASES = 20  # least bases in which a form that repeats is a habit
EXAMPLES = 3  # problems of a kind that `check_summary` shows by default
LONGEST_LINE = 200
"""Longest line of `check_summary`, in characters: one line of a prompt may be all of its text."""
_TEXTS = read_toml(Path(__file__).parent / "problems.toml")
KINDS = {kind: title.format(alike=ALIKE, average=ALIKE_ON_AVERAGE) for kind, title in _TEXTS["kinds"].items()}
"""Kinds of problems with their sentences; ``accept_flaws`` of a study file uses the kinds."""


@dataclass(frozen=True)
class Problem:
    """One problem of one prompt: its kind (see ``KINDS``), ``what`` is wrong, and how to ``mend`` it."""

    kind: str
    prompt_id: str
    what: str
    mend: str


Prompts = Sequence[Prompt]
Problems = Iterator[Problem]


def check_summary(source: str | Path, *, every: bool = False) -> Summary:
    """Check a dataset and list its problems: what `toolkit prompts check` prints; exit code 1 where there is one."""
    dataset = load_dataset(source, check_ranges=False, length_arms=True)
    problems = check_dataset(dataset)
    plain, clusters = without_arms(dataset.prompts), clusters_of(dataset.prompts)
    arms = Counter(arm for prompt in dataset.prompts if (arm := prompt.metadata.get("length_arm")))
    bins = Counter(prompt.level for prompt in plain)
    fields: dict[str, Any] = {
        "dataset": dataset.name,
        **version_of(dataset),
        "bases": len(clusters),
        "prompts": len(plain),
        "length_bins": {level: bins[level] for level in LENGTH_BINS},
        "kinds": flaw_counts(problems),
        "problems": [asdict(problem) for problem in problems],
    }
    if (independent := len(set(clusters.values()))) < len(clusters):
        fields["independent_groups"] = independent
    if arms:
        fields["length_arms"] = dict(arms)
    page = template("prompts", "check.jinja")
    values = {
        **fields,
        "sentences": KINDS,
        "most": len(problems) if every else EXAMPLES,
        "long": LONGEST_LINE,
    }
    fields["verdict"] = str(page.make_module(values).verdict())
    return Summary(fields, page.render(values), 1 if problems else 0)


def check_dataset(dataset: Dataset) -> tuple[Problem, ...]:
    """Return every problem that would confound a comparison of prompt lengths, in the order of the prompts."""
    plain = without_arms(dataset.prompts)
    problems = [
        problem for check in CHECKS for problem in check(dataset.prompts if check in _ALSO_OF_ARMS else plain)
    ]
    position = {prompt.prompt_id: i for i, prompt in enumerate(dataset.prompts)}
    return tuple(sorted(problems, key=lambda problem: position[problem.prompt_id]))


def _by_base(prompts: Prompts) -> dict[str, list[Prompt]]:
    bases = defaultdict(list)
    for prompt in prompts:
        bases[prompt.base].append(prompt)
    return bases


def _problem(name: str, prompt: Prompt, **values: Any) -> Problem:
    """Return a problem of a prompt in the words of ``problems.toml``."""
    text = _TEXTS[name]
    return Problem(
        text.get("kind", name),
        prompt.prompt_id,
        text["fault"].format(**values),
        text["mend"].format(**values),
    )


def _ranges(prompts: Prompts) -> Problems:
    tokens_by = {encoding: count_all([p.text for p in prompts], encoding) for encoding in ENCODINGS}
    for number, prompt in enumerate(prompts):
        low, high = LENGTH_BINS.get(prompt.level, (0, np.inf))
        outside = {
            encoding: counts[number]
            for encoding, counts in tokens_by.items()
            if not low <= counts[number] <= high
        }
        if outside:
            tokens = " and ".join(f"{tokens} {encoding}" for encoding, tokens in outside.items())
            verdict = "refuses" if BINNED_BY in outside else "takes"
            direction = "longer" if min(outside.values()) < low else "shorter"
            yield _problem(
                "range", prompt, tokens=tokens, level=prompt.level, low=low, high=high,
                direction=direction, verdict=verdict, encoding=BINNED_BY,
            )  # fmt: skip


def _bins(prompts: Prompts) -> Problems:
    for name, base in _by_base([prompt for prompt in prompts if prompt.level]).items():
        bins = by_bin(base)
        if missing := ", ".join(level for level in LENGTH_BINS if level not in bins):
            yield _problem("length_missing", base[0], base=name, missing=missing)
        for level, members in bins.items():
            if len(members) > 1:
                yield _problem("length_twice", members[1], base=name, count=len(members), level=level)


def _labels(prompts: Prompts) -> Problems:
    for base, (first, *others) in _by_base(prompts).items():
        for prompt in others:
            for key in ("scenario", "category"):
                values = {"label": getattr(prompt, key), "expected": getattr(first, key)}
                if values["label"] != values["expected"]:
                    yield _problem("labels", prompt, base=base, key=key, first=first.prompt_id, **values)


def _containment(prompts: Prompts) -> Problems:
    pairs = []
    for base in _by_base(prompts).values():
        by_bin = {prompt.level: prompt for prompt in base}
        for shorter, longer in pairwise(LENGTH_BINS):
            if shorter in by_bin and longer in by_bin:
                lines = set(_lines(by_bin[longer].text))
                missing = [line for line in _lines(by_bin[shorter].text) if line not in lines]
                pairs.append((by_bin[shorter], by_bin[longer], missing))
    lacking = [pair for pair in pairs if pair[2]]
    # One cause: the texts were not written to contain each other.
    if len(lacking) >= max(SHARED, 0.9 * len(pairs)):
        short, long, missing = lacking[0]
        yield _problem(
            "containment_of_most", long, lacking=len(lacking), pairs=len(pairs), shorter=short.prompt_id,
            line=missing[0], total=sum(len(lines) for _, _, lines in lacking),
        )  # fmt: skip
        return
    for short, long, missing in lacking:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield _problem("containment", long, more=more, shorter=short.prompt_id, line=missing[0])


def _repeated_texts(prompts: Prompts) -> Problems:
    first: dict[str, Prompt] = {}
    first_base: dict[frozenset[str], str] = {}
    copies = set()
    for base, members in _by_base(prompts).items():
        texts = frozenset(map(words_of, members))
        if len(members) > 1 and texts in first_base:
            copies.add(base)
            yield _problem("copied_base", members[0], base=base, first=first_base[texts])
        first_base.setdefault(texts, base)
    for prompt in prompts:
        text = words_of(prompt)
        if text in first and prompt.base not in copies:
            yield _problem("same_text", prompt, first=first[text].prompt_id)
        first.setdefault(text, prompt)


def _filler(prompts: Prompts) -> Problems:
    for prompt in prompts:
        sentences = [s for line in _lines(prompt.text) for s in _SENTENCES.split(line)]
        counts = Counter(" ".join(s.casefold().strip("-*.!?; ").split()) for s in sentences)
        for sentence, count in counts.items():
            if count > 1 and len(sentence.split()) >= SHORTEST_SENTENCE:
                yield _problem("repeated_sentence", prompt, count=count, sentence=sentence)


_SENTENCES = re.compile(r"(?<=[.!?;])\s+")
_DOUBLED = re.compile(r"(?i:\b([a-z]+-)(?=\1))|(?i:\b(?!had\b|that\b)([a-z]{2,})\s+)(?=[a-z])(?i:\2)\b")
"""A prefix twice ("CVE-CVE-2024-1") or a word twice ("the the"), but not a name ("Wagga Wagga")."""
_LISTED = (
    r"(?:findings|indicators|events|alerts|logs?|evidence|details|facts|items|controls|requirements|observations|"
    r"steps|questions|table|list|data)"
)
_PROMISED = re.compile(
    rf"\b{_LISTED}\s+(?:\w+\s+)?(?:below|that follows?)\b|\bfollowing\s+(?:\w+\s+){{0,2}}{_LISTED}\b|"
    rf"\b{_LISTED}\s+(?:is|are)\s+(?:\w+\s+)?below\b|\bas follows\b|"
    r"\bsee (?:the )?(?:attached|enclosed|appendix|figure|table|screenshot)\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:[-*\u2022|>]|\(?\w{1,3}[.)])\s|[^:\n]{1,60}:\s*\S|\s{4,}\S")
"""The start of a line of a list: a bullet, a number, a cell, "name: value", or an indented block."""


def _scars(prompts: Prompts) -> Problems:
    for prompt in prompts:
        if doubled := _DOUBLED.search(prompt.text):
            context = " ".join(prompt.text[max(0, doubled.start() - 20) : doubled.end() + 30].split())
            yield _problem("doubled_token", prompt, context=context)
        for promised in _PROMISED.finditer(prompt.text):
            line_end, _, after = prompt.text[promised.end() :].partition("\n")
            listed = len(line_end.partition(":")[2].split()) > 1
            if not listed and not any(map(_ITEM.match, after.splitlines())):
                yield _problem("nothing_below", prompt, promise=promised.group())
                break


def _tasks(prompts: Prompts) -> Problems:
    for base in _by_base(prompts).values():
        tasks = [(p, p.text.rpartition(TASK)[2].strip()) for p in base if TASK in p.text]
        for prompt, task in tasks:
            if task != tasks[0][1]:
                yield _problem("task", prompt, first=tasks[0][0].prompt_id)


def _content(prompts: Prompts) -> Problems:
    for prompt in prompts:
        for look in (scars_in, dates_in, sums_in, technical_in):
            for kind, fault, mend in dict.fromkeys(look(prompt.text)):
                yield Problem(kind, prompt.prompt_id, fault, mend)


def _near_copies(prompts: Prompts) -> Problems:
    reported = set()
    for members in by_bin(prompts).values():
        plain = list(map(words_of, members))
        alike = np.tril(jaccard(plain), -1)
        for number, nearest in enumerate(alike.argmax(axis=1)):
            first, second, share = members[number], members[nearest], alike[number, nearest]
            is_new = first.base != second.base and first.base not in reported
            if is_new and share > NEAR and plain[number] != plain[nearest]:
                reported.add(first.base)
                same = first.category == second.category
                location = "its own category" if same else f"category {second.category}"
                yield _problem("near_copy", first, share=share, other=second.prompt_id, location=location)


def _boilerplate(prompts: Prompts) -> Problems:
    bases: dict[str, dict[str, Prompt]] = defaultdict(dict)
    for prompt in prompts:
        for line in _lines(prompt.text):
            for sentence in _SENTENCES.split(line.strip("-* ")):
                if len(sentence.split()) >= BOILERPLATE:
                    bases[sentence.casefold()].setdefault(prompt.base, prompt)
    for sentence, by_base in bases.items():
        if len(by_base) >= SHARED:
            first = next(iter(by_base.values()))
            yield _problem("boilerplate", first, count=len(by_base), sentence=sentence)


def _elements(prompts: Prompts) -> Problems:
    firsts = [base[0] for base in _by_base(prompts).values()]
    for key in ("elements", "csf"):
        lacking = [prompt for prompt in firsts if key not in prompt.metadata]
        for prompt in lacking if len(lacking) < len(firsts) else ():
            yield _problem("elements_missing", prompt, base=prompt.base, key=key)
    for prompt in firsts:
        listed = Counter(str(text).casefold() for text in prompt.metadata.get("elements", ()))
        for element, count in listed.items():
            if count > 1:
                yield _problem("element_twice", prompt, count=count, element=element)
            if ";" in element:
                yield _problem("element_of_two", prompt, element=element)


def _cues(prompts: Prompts) -> Problems:
    for shortest, *others in _by_base(prompts).values():
        given = _stems(shortest.text)
        lines = dict.fromkeys(line for prompt in others for line in _lines(prompt.text))
        later = [(line, _stems(line) - given) for line in lines if line not in _lines(shortest.text)]
        for element in map(str, shortest.metadata.get("elements", ())):
            words = _stems(element)
            for line, stems in later:
                if len(words & stems) >= max(CUED_WORDS, CUED_SHARE * len(words)):
                    yield _problem("cue", shortest, element=element, line=line)


def _stems(text: str) -> set[str]:
    """Return the first six letters of each word that has a meaning of its own: four letters or more, no number."""
    return {word[:6] for word in re.findall(r"[a-z][a-z-]{3,}", text.casefold())}


def _references(prompts: Prompts) -> Problems:
    for name, base in _by_base(prompts).items():
        references = [str(prompt.metadata.get("reference", "")).split() for prompt in base]
        if any(reference != references[0] for reference in references):
            yield _problem("several_references", base[0], base=name)
        for prompt, reference in zip(base, references, strict=True):
            if reference and f" {' '.join(reference)} " in f" {words_of(prompt)} ":
                yield _problem("reference", prompt)


def _fingerprints(prompts: Prompts) -> Problems:
    """A property of the dataset, so each is reported once; with few bases a share says little."""
    bases = list(_by_base(prompts).values())
    if len(bases) < FINGERPRINT_BASES:
        return
    habits = [_habits(base) for base in bases]
    for name, habit in _TEXTS["habits"].items():
        values = [features[name] for features in habits]
        for value, count in Counter(values).items():
            if value and count > habit["most"] * len(bases):
                first, pattern = bases[values.index(value)][-1], habit["words"].format(value)
                yield _problem("fingerprint", first, count=count, total=len(bases), pattern=pattern)


def _habits(base: Prompts) -> dict[str, Any]:
    """Return what a base may have in common with many others, by its name in ``problems.toml``."""
    longest = base[-1].text
    opening, task = (" ".join(text.split()[:2]) for text in (longest, longest.partition(TASK)[2]))
    facts, long_facts = (prompt.text.partition(TASK)[0].split("\n- ")[1:] for prompt in (base[0], base[-1]))
    order = "first" if facts and long_facts[: len(facts)] == facts else ""
    return {"opening": opening, "task": task, "facts": len(facts), "order": order}


def _balance(prompts: Prompts) -> Problems:
    firsts = [base[0] for base in _by_base(prompts).values()]
    for key in ("category", "scenario"):
        by_label = defaultdict(list)
        for prompt in firsts:
            by_label[getattr(prompt, key)].append(prompt)
        for label, members in by_label.items():
            if len(by_label) > EVEN and len(members) > EVEN * len(firsts) / len(by_label):
                yield _problem(
                    "balance", members[0], key=key, label=label, count=len(members), total=len(firsts)
                )


def _readabilities(prompts: Prompts) -> Problems:
    for base in _by_base(prompts).values():
        grades = [(prompt, readability(prompt.text)) for prompt in base]
        (easiest, low), (hardest, high) = (end(grades, key=itemgetter(1)) for end in (min, max))
        if high - low > GRADES:
            yield _problem("readability", hardest, grade=high, easiest=easiest.prompt_id, easiest_grade=low)


_FACT_SIGN = re.compile(r"`[^`]+`|\d[\d.,:/-]*\d|\d|(?<![\w@-])[\w@-]+(?:\.[\w@-]+)*\.[A-Za-z]{2,}\b")
"""What a fact in short must hold too: strings in backticks, numbers, times and dates, addresses."""


_AS_LONG = (("neutral_m", "M"), ("neutral_l", "L"), ("short_l", "M"), ("short_l", "neutral_m"))


def _arms(prompts: Prompts) -> Problems:
    complete = []
    for base, members in _by_base(prompts).items():
        texts = {prompt.metadata.get("length_arm") or prompt.level: prompt for prompt in members}
        arms = [name for name in LENGTH_ARMS if name in texts]
        if arms and (absent := [name for name in (*LENGTH_BINS, *LENGTH_ARMS) if name not in texts]):
            yield _problem("arms", texts[arms[0]], base=base, missing=", ".join(absent))
        elif arms:
            facts = {name: _facts(prompt.text) for name, prompt in texts.items()}
            for name in ("neutral_m", "neutral_l"):
                lost = [fact for fact in facts["S"] if fact not in facts[name]]
                more = [fact for fact in facts[name] if fact in facts["L"] and fact not in facts["S"]]
                for kind, listed in (("arm_lacks", lost), ("arm_adds", more)):
                    if listed:
                        yield _problem(kind, texts[name], facts=counted(len(listed), "facts"), fact=listed[0])
            for name, like in _AS_LONG:
                arm, compared = texts[name], texts[like]
                share = arm.token_count / compared.token_count - 1
                if abs(share) > ALIKE:
                    yield _problem(
                        "arm_length", arm, tokens=arm.token_count, encoding=BINNED_BY, share=share, most=ALIKE,
                        expected=compared.token_count, like=compared.prompt_id,
                        direction="shorter" if share > 0 else "longer",
                    )  # fmt: skip
            yield from _short(texts["short_l"], facts["short_l"], facts["L"])
            complete.append(texts)
    for name, like in _AS_LONG if len(complete) >= SHARED else ():
        shares = [texts[name].token_count / texts[like].token_count - 1 for texts in complete]
        if abs(share := float(np.mean(shares))) > ALIKE_ON_AVERAGE:
            arm = complete[0][name]
            yield _problem("arms_length", arm, arm=name, other=like, share=share, most=ALIKE_ON_AVERAGE)


def _short(arm: Prompt, facts: Sequence[str], long_facts: Sequence[str]) -> Problems:
    if len(facts) != len(long_facts):
        yield _problem("arm_count", arm, facts=counted(len(facts), "facts"), expected=len(long_facts))
        return
    for number, (short, long) in enumerate(zip(facts, long_facts, strict=True), 1):
        present, expected = (set(_FACT_SIGN.findall(fact)) for fact in (short, long))
        differences = " and ".join(
            f"{verb} {', '.join(sorted(signs))}"
            for verb, signs in (("lacks", expected - present), ("adds", present - expected))
            if signs
        )
        if differences:
            yield _problem(
                "arm_facts", arm, number=number, differences=differences, fact=short, long=one_line(long, 80)
            )


def _facts(text: str) -> list[str]:
    """Return the facts of a composed prompt, or all lines of another one."""
    listed = text.rpartition(TASK)[0].partition("\n\nFacts:\n- ")[2]
    return listed.split("\n- ") if listed else _lines(text)


CHECKS = (
    _ranges, _bins, _labels, _containment, _repeated_texts, _filler, _scars, _tasks, _content, _near_copies,
    _boilerplate, _elements, _cues, _references, _fingerprints, _balance, _readabilities, _arms,
)  # fmt: skip
"""Every check; a new one is a function and a name here, and its problems have their words in ``problems.toml``."""
_ALSO_OF_ARMS = (_ranges, _labels, _filler, _scars, _tasks, _content, _references, _arms)
"""Checks of each prompt by itself, or of what the arms of a base share with it; the others compare S, M and L."""


def flaw_counts(problems: Iterable[Problem]) -> dict[str, int]:
    """Return the number of problems of each kind that occurs, in the order of ``KINDS``."""
    counts = Counter(problem.kind for problem in problems)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
