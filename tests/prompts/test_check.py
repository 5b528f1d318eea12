"""Every flaw that would confound a comparison of lengths is named, with the prompt it is in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.prompts.check import Problem, check_dataset
from toolkit.prompts.dataset import Dataset, load_dataset


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return load_dataset("demo")


def changed(demo: Dataset, prompt_id: str, **fields: str) -> Dataset:
    """Return the dataset with some fields of one prompt replaced."""
    prompts = tuple(replace(p, **fields) if p.prompt_id == prompt_id else p for p in demo.prompts)
    return replace(demo, prompts=prompts)


def text_of(demo: Dataset, prompt_id: str) -> str:
    return next(p.text for p in demo.prompts if p.prompt_id == prompt_id)


def test_an_empty_dataset_has_no_problem() -> None:
    assert check_dataset(Dataset("none", "1", (), "")) == ()


def test_a_text_out_of_range_is_named_for_both_encodings(demo: Dataset) -> None:
    short = changed(demo, "academic_soc_001_s", text="Isolate the host.")
    found = [p.what for p in check_dataset(short) if p.prompt_id == "academic_soc_001_s"]
    assert found == [
        "5 o200k_base tokens, length bin S has 150 to 250",
        "5 cl100k_base tokens, length bin S has 150 to 250",
    ]


def test_a_base_without_one_of_its_lengths_is_named(demo: Dataset) -> None:
    fewer = replace(demo, prompts=tuple(p for p in demo.prompts if p.prompt_id != "academic_grc_002_m"))
    assert check_dataset(fewer) == (
        Problem(
            "length_bins",
            "academic_grc_002_s",
            "base academic_grc_002 has no prompt in length bin M",
            "write it, or that length is not compared on this base",
        ),
    )


def test_a_second_prompt_at_one_length_is_named(demo: Dataset) -> None:
    more = replace(
        demo, prompts=(*demo.prompts, replace(demo.prompts[0], prompt_id="again", text="Other text."))
    )
    found = [p.what for p in check_dataset(more) if p.prompt_id == "again"]
    assert "base academic_soc_001 has 2 prompts in length bin S" in found


@pytest.mark.parametrize(("shorter", "longer"), [("s", "m"), ("m", "l")])
def test_a_fact_that_the_longer_prompt_lacks_is_named(demo: Dataset, shorter: str, longer: str) -> None:
    text = text_of(demo, f"academic_cti_001_{shorter}")
    fact = [line for line in text.splitlines() if line.startswith("- ")][-1]
    lost = text_of(demo, f"academic_cti_001_{longer}").replace(fact + "\n", "")
    problems = check_dataset(changed(demo, f"academic_cti_001_{longer}", text=lost))
    what = f"lacks this line of academic_cti_001_{shorter}: {fact}"
    mend = "say it there too, word for word, so that a longer prompt only adds"
    assert Problem("containment", f"academic_cti_001_{longer}", what, mend) in problems


def test_a_task_that_is_worded_otherwise_is_named(demo: Dataset) -> None:
    text = text_of(demo, "academic_cti_002_l").replace(
        "Write the infrastructure", "Please write the infrastructure"
    )
    problems = check_dataset(changed(demo, "academic_cti_002_l", text=text))
    assert [p.prompt_id for p in problems] == ["academic_cti_002_l"]
    assert problems[0].what.startswith("lacks this line of academic_cti_002_m: Write the infrastructure")


@pytest.mark.parametrize("key", ["scenario", "category"])
def test_a_base_of_two_scenarios_or_categories_is_named(demo: Dataset, key: str) -> None:
    problems = check_dataset(changed(demo, "academic_soc_001_m", **{key: "GRC_MAPPING"}))
    there = getattr(demo.prompts[0], key)
    what = f"base academic_soc_001 has {key} GRC_MAPPING here and {there} in academic_soc_001_s"
    assert problems == (
        Problem("labels", "academic_soc_001_m", what, f"give all prompts of a base one {key}"),
    )


def test_a_range_says_which_way_and_whether_a_study_would_refuse_it(demo: Dataset) -> None:
    short = changed(demo, "academic_soc_001_s", text="Isolate the host.")
    assert [p.mend for p in check_dataset(short) if p.prompt_id == "academic_soc_001_s"] == [
        "make it longer; a study refuses it as it is",
        "make it longer; a study takes it as it is",
    ]
    long = changed(demo, "academic_soc_001_s", text=text_of(demo, "academic_soc_001_m"))
    assert "make it shorter; a study refuses it as it is" in [p.mend for p in check_dataset(long)]


def test_one_text_used_twice_is_named_whatever_its_spaces(demo: Dataset) -> None:
    copied = text_of(demo, "academic_soc_001_s") + "\n"
    problems = check_dataset(changed(demo, "academic_soc_002_s", text=copied))
    what, mend = "has the same text as academic_soc_001_s", "write another text, or leave it out"
    assert Problem("same_text", "academic_soc_002_s", what, mend) in problems


def test_a_sentence_said_twice_is_named_as_filler(demo: Dataset) -> None:
    text = text_of(demo, "academic_soc_001_s") + " The host is still online. The HOST is  still online!"
    problems = check_dataset(changed(demo, "academic_soc_001_s", text=text))
    what, mend = "says 2 times: the host is still online", "say it once; more words are no more facts"
    assert Problem("repeated_sentence", "academic_soc_001_s", what, mend) in problems


def test_a_short_heading_said_twice_is_not_filler(demo: Dataset) -> None:
    text = text_of(demo, "academic_soc_001_l") + "\nNote:\nNote:"
    assert check_dataset(changed(demo, "academic_soc_001_l", text=text)) == ()


def test_problems_come_in_the_order_of_the_prompts(demo: Dataset) -> None:
    broken = changed(changed(demo, "academic_cti_002_l", text="a"), "academic_soc_001_l", text="a")
    found = [p.prompt_id for p in check_dataset(broken)]
    place = {p.prompt_id: i for i, p in enumerate(broken.prompts)}
    assert found == sorted(found, key=place.__getitem__)
    assert {"academic_cti_002_l", "academic_soc_001_l"} == set(found)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Patch CVE-CVE-2024-3094 first.", "doubled_token"),
        ("Isolate the the host.", "doubled_token"),
        ("Analyse the findings below.", "nothing_below"),
        ("Rank the following indicators.", "nothing_below"),
        ("Rank the following indicators: one domain, two hashes.", None),
        ("Rank the events below:\n- a login\n- a copy", None),
        ("The address 10.0.0.1 10.0.0.1 had had no owner.", None),
    ],
)
def test_scars_of_templates_are_named(demo: Dataset, said: str, kind: str | None) -> None:
    """What a template leaves behind: a prefix or word twice, a list that is announced and not there."""
    found = check_dataset(changed(demo, "academic_soc_001_s", text=said))
    assert [p.kind for p in found if p.kind in ("doubled_token", "nothing_below")] == ([kind] if kind else [])


def test_a_copied_base_is_one_problem_and_not_three(demo: Dataset) -> None:
    """Which base it copies is said once; the same text under one length alone stays a problem of that text."""
    copies = [replace(p, prompt_id=f"copy_{p.length_bin}", base="copy") for p in demo.prompts[:3]]
    found = check_dataset(replace(demo, prompts=(*demo.prompts, *copies)))
    assert [(p.kind, p.what) for p in found] == [
        ("copied_base", "base copy is a copy of base academic_soc_001")
    ]
    found = check_dataset(replace(demo, prompts=(*demo.prompts, copies[0])))
    assert "same_text" in [p.kind for p in found]
