"""A damaged copy of a good dataset: every kind of damage is found, and named as what it is."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from cases import cases
from refusals import refusal

from toolkit.prompts.check import KINDS, check_dataset
from toolkit.prompts.content import readability
from toolkit.prompts.dataset import TASK, Prompt, compose, load_dataset
from toolkit.prompts.diff import diff_datasets, diff_summary
from toolkit.prompts.similarity import jaccard

Prompts = Sequence[Prompt]


def said(more):
    """Add a fact to all three lengths of the first base, so that nothing else is wrong with it."""

    def add(prompts):
        return [
            replace(p, text=p.text.replace(TASK, f"\n- {more}{TASK}")) if p.base == prompts[0].base else p
            for p in prompts
        ]

    return add


def text(number, change):
    return lambda prompts: field(number, text=change(prompts[number].text))(prompts)


def field(number, **fields):
    return lambda prompts: [replace(p, **fields) if i == number else p for i, p in enumerate(prompts)]


def about(number, **fields):
    """Change what the base of a prompt tells; ``None`` takes it away."""

    def change(prompts):
        base = prompts[number].base
        told = {
            key: value for key, value in {**prompts[number].metadata, **fields}.items() if value is not None
        }
        return [replace(p, metadata=told) if p.base == base else p for p in prompts]

    return change


def copied(change):
    def copy(prompts):
        copies = [
            replace(p, prompt_id=f"copy_{p.prompt_id}", base="copy", text=change(p.text)) for p in prompts[:3]
        ]
        return [*prompts, *copies]

    return copy


def renumbered(words):
    return words.replace("1", "8").replace("Example Health", "Example Care")


def everywhere(prompts):
    line = "- The team on duty has read the whole runbook of the company twice.\n\nTask:\n"
    return [replace(p, text=p.text.replace("\n\nTask:\n", f"\n{line}")) for p in prompts]


S, M, L = 0, 1, 2
DAMAGE = {name: (kind, said(more)) for name, (kind, more) in cases(__file__).items()} | {
    "too long": ("range", text(S, lambda t: t.replace(TASK, "\n- " + "One more word, again. " * 40 + TASK))),
    "too short": ("range", text(L, lambda t: t[:1500] + t[t.index(TASK) :])),
    "no M": ("length_bins", lambda prompts: [prompts[S], *prompts[L:]]),
    "two S": ("length_bins", field(M, level="S")),
    "another scenario": ("labels", field(M, scenario="CTI_ANALYSIS")),
    "another category": ("labels", field(L, category="Other")),
    "line of S not in M": ("containment", text(M, lambda t: t.replace("- ", "- In short: ", 1))),
    "line of M not in L": ("containment", text(L, lambda t: t.replace("- ", "- In short: ", 1))),
    "another task": ("task", text(L, lambda t: t + "\nAlso draft a press release.")),
    "base twice": ("copied_base", copied(str)),
    "text twice": (
        "same_text",
        lambda prompts: [*prompts[:3], replace(prompts[3], text=prompts[0].text), *prompts[4:]],
    ),
    "base with other numbers": ("near_copy", copied(renumbered)),
    "the same, other category": (
        "near_copy",
        lambda prompts: [
            replace(p, category="Other") if p.base == "copy" else p for p in copied(renumbered)(prompts)
        ],
    ),
    "a sentence in all bases": ("boilerplate", everywhere),
    "cut off": ("unfinished", text(L, lambda t: t[:-20])),
    "elements missing": ("elements", about(S, elements=None)),
    "element of two claims": (
        "elements",
        about(S, elements=["Names the host; isolates it", "a", "b", "c", "d"]),
    ),
    "element handed over": (
        "cue",
        lambda prompts: about(
            S, elements=["Suspects the quarantined turbine controller", "a", "b", "c", "d"]
        )(text(L, lambda t: t.replace(TASK, f"\n- The turbine controller was quarantined.{TASK}"))(prompts)),
    ),
    "element twice": ("elements", about(S, elements=["Names the host", "Names the host", "a", "b", "c"])),
    "references that differ": (
        "reference",
        lambda prompts: [replace(p, metadata={**p.metadata, "reference": p.level}) for p in prompts],
    ),
    "unbalanced": (
        "balance",
        lambda prompts: [replace(p, category=p.category if i > 17 else "One") for i, p in enumerate(prompts)],
    ),
    "harder when long": (
        "readability",
        text(L, lambda t: t.replace(".\n- ", ", and notwithstanding that ")),
    ),
}


@pytest.fixture(scope="module")
def good():
    """The twelve bases of the demo as the full dataset has them."""
    demo = {prompt.base for prompt in load_dataset("demo").prompts}
    full = load_dataset("rq1_controlled", check_ranges=False)
    return replace(full, prompts=tuple(prompt for prompt in full.prompts if prompt.base in demo))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(good, damage):
    """Each damage is named by its kind, at a prompt that was touched."""
    kind, change = DAMAGE[damage]
    assert len(good.prompts) == 36
    damaged = tuple(change(good.prompts))
    before = {prompt.prompt_id: prompt for prompt in good.prompts}
    touched = {p.base for p in damaged if before.get(p.prompt_id) != p} | {
        p.base for p in set(good.prompts) - set(damaged)
    }
    found = [problem for problem in check_dataset(replace(good, prompts=damaged)) if problem.kind == kind]
    assert found, damage
    where = {prompt.prompt_id: prompt.base for prompt in damaged}
    assert {where[problem.prompt_id] for problem in found} <= touched


ELSEWHERE = {"fingerprint", "arms", "arm_facts", "arm_length"}
"""Kinds of 20 bases and more (below), and those of length arms (tests/study/test_length_arms.py)."""


def test_every_kind_is_damaged_and_the_good_one_has_none(good):
    """No kind of problem goes without a damaged copy that shows it."""
    assert check_dataset(good) == ()
    assert {kind for kind, _ in DAMAGE.values()} == set(KINDS) - ELSEWHERE


def test_the_shipped_dataset_is_what_it_says():
    """A hundred bases, 300 texts in range under both encodings, alike by less than a third, the demo among them."""
    full = load_dataset("rq1_controlled")
    assert check_dataset(full) == ()
    counts = {
        name: sum(p.scenario == name for p in full.prompts)
        for name in ("SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS")
    }
    assert counts == {"SOC_INCIDENT": 150, "GRC_MAPPING": 90, "CTI_ANALYSIS": 60}
    assert len({" ".join(p.text.split()) for p in full.prompts}) == 300
    categories = {p.base: p.category for p in full.prompts}
    sizes = [list(categories.values()).count(name) for name in set(categories.values())]
    assert len(sizes) >= 14
    assert max(sizes) <= 10
    assert all(5 <= len(p.metadata["elements"]) <= 10 for p in full.prompts)


def test_forms_that_repeat_over_many_bases_are_named_once():
    """Openings, tasks, counts and order of facts, each at the first base that has it; of few bases nothing is said."""
    full = load_dataset("rq1_controlled")
    alike = [
        replace(p, text=compose("You are an analyst.", ["One.", "Two."], f"Say why {p.base}."))
        for p in full.prompts
    ]
    for bases, expected in ((60, 4), (57, 0)):
        some = replace(full, prompts=tuple(alike[:bases]))
        patterns = [p.what for p in check_dataset(some) if p.kind == "fingerprint"]
        assert len(patterns) == expected
    assert check_dataset(full) == ()


def test_similarity_counts_shared_grams_over_all():
    """Against sets written out; no text, one text and texts shorter than a gram."""
    one, other = "the host was down at noon", "the host was down at dawn and dusk"
    sets = [{tuple(t.split()[i : i + 5]) for i in range(len(t.split()) - 4)} for t in (one, other)]
    expected = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    assert jaccard([one, other])[0, 1] == pytest.approx(expected)
    assert jaccard(["a b"]).tolist() == [[1.0]]
    assert jaccard(["a b", "A  b."])[0, 1] == 1.0
    assert jaccard([]).shape == (0, 0)


def test_readability_is_flesch_kincaid():
    """By hand: 6 words, 1 sentence, 6 syllables; the second has 4 words, 14 syllables."""
    assert readability("The cat sat on the mat.") == pytest.approx(0.39 * 6 + 11.8 * 1 - 15.59)
    assert readability("Notification obligations remain applicable.") == pytest.approx(
        0.39 * 4 + 11.8 * 15 / 4 - 15.59
    )


def test_the_layout_of_the_architecture_document_is_read(tmp_path, good):
    """JSON with its keys besides, as an object or a list; what is no list of prompts is refused in a line."""
    rows = [
        {
            "_id": p.prompt_id, "prompt_id": p.prompt_id, "text": p.text, "category": p.category,
            "scenario": p.scenario.replace("ANALYSIS", "SUMMARY"), "source": "curated", "prompt_type": "static",
            "length_bin": p.level, "token_count": 1, "dataset_version": "20250115_v2", "tags": ["x"],
            "metadata": {"base_scenario": p.base, "academic_grade": True},
        }
        for p in good.prompts
    ]  # fmt: skip
    path = tmp_path / "prompts.json"
    for content in ({"dataset_version": "20250115_v2", "prompts": rows}, rows):
        path.write_text(json.dumps(content))
        read = load_dataset(path)
        assert [(p.base, p.scenario, p.text, p.token_count) for p in read.prompts] == [
            (p.base, p.scenario, p.text, p.token_count) for p in good.prompts
        ]
        assert read.version == "20250115_v2"
    for content in ({"prompts": 3}, [1], "x"):
        path.write_text(json.dumps(content))
        refusal("is no list of objects", load_dataset, path)
    path.write_text("{")
    refusal("not valid JSON", load_dataset, path)


def test_versions_are_compared_prompt_by_prompt(good):
    """Added, removed, relabelled and reworded prompts, each with what changed; nothing when they are the same."""
    first, second, third, *rest = good.prompts
    changed = replace(second, text=f"{second.text} Now.", category="Other")
    later = replace(good, prompts=(changed, third, *rest, replace(first, prompt_id="new_s")))
    changes = diff_datasets(good, later)
    assert [(change.kind, change.prompt_id) for change in changes] == [
        ("changed", second.prompt_id),
        ("added", "new_s"),
        ("removed", first.prompt_id),
    ]
    assert changes[0].labels == (f"category: {second.category} -> Other",)
    assert [line[0] for line in changes[0].lines] == ["@", "-", "+"]
    assert diff_datasets(good, good) == ()
    same = diff_summary("demo", "demo")
    assert (same.exit_code, same.fields["changes"]) == (0, [])
    assert diff_summary("demo", "rq1_controlled").exit_code == 1
