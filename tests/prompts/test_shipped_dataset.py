"""The dataset that ships is fit for the study it was written for."""

from __future__ import annotations

import re
from collections import Counter
from ipaddress import ip_address, ip_network

import pytest

from toolkit.models.tokens import ENCODINGS, count_tokens
from toolkit.prompts.check import check_dataset
from toolkit.prompts.dataset import Dataset, load_dataset
from toolkit.words import LENGTH_BINS

DOCUMENTATION = [ip_network(n) for n in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return load_dataset("demo")


def test_it_has_no_problem(demo: Dataset) -> None:
    assert check_dataset(demo) == ()


def test_it_is_named_and_versioned(demo: Dataset) -> None:
    assert (demo.name, demo.version) == ("demo", "20261121_demo_v1")
    assert {p.dataset_version for p in demo.prompts} == {demo.version}


def test_it_has_six_soc_four_grc_and_two_cti_bases(demo: Dataset) -> None:
    bases = {p.base: p.scenario for p in demo.prompts}
    assert Counter(bases.values()) == {"SOC_INCIDENT": 6, "GRC_MAPPING": 4, "CTI_ANALYSIS": 2}
    names = {
        f"academic_{s}_{i:03d}" for s, n in (("soc", 6), ("grc", 4), ("cti", 2)) for i in range(1, n + 1)
    }
    assert set(bases) == names
    assert [p.prompt_id for p in demo.prompts[:3]] == [f"academic_soc_001_{b}" for b in "sml"]


def test_every_category_is_its_own(demo: Dataset) -> None:
    assert len({p.category for p in demo.prompts}) == 12


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_prompt_is_inside_its_range_in_both_encodings(demo: Dataset, encoding: str) -> None:
    for prompt in demo.prompts:
        low, high = LENGTH_BINS[prompt.length_bin]
        assert low <= count_tokens(prompt.text, encoding) <= high, prompt.prompt_id


def test_opening_and_task_are_the_same_at_every_length(demo: Dataset) -> None:
    frames: dict[str, set[tuple[str, str]]] = {}
    for prompt in demo.prompts:
        opening, rest = prompt.text.split("\n\nFacts:\n")
        task = rest.split("\n\nTask:\n")[1]
        frames.setdefault(prompt.base, set()).add((opening, task))
    assert len(frames) == 12
    assert {len(found) for found in frames.values()} == {1}


def test_facts_of_a_shorter_prompt_begin_the_longer_one(demo: Dataset) -> None:
    facts = {p.prompt_id: p.text.split("Facts:\n")[1].split("\n\nTask:")[0].split("\n") for p in demo.prompts}
    for base in {p.base for p in demo.prompts}:
        s, m, long = (facts[f"{base}_{b}"] for b in "sml")
        assert len(s) < len(m) < len(long)
        assert m[: len(s)] == s
        assert long[: len(m)] == m


def test_metadata_has_the_fields_of_the_seed(demo: Dataset) -> None:
    for prompt in demo.prompts:
        assert set(prompt.metadata) == {"data_sources", "academic_grade", "base_scenario"}
        assert prompt.metadata["academic_grade"] is True
        assert prompt.metadata["base_scenario"] == prompt.base
        assert prompt.metadata["data_sources"]
        assert prompt.token_count == count_tokens(prompt.text)


def test_addresses_and_domains_are_reserved_for_documentation(demo: Dataset) -> None:
    for prompt in demo.prompts:
        for found in re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", prompt.text):
            address = ip_address(found)
            assert any(address in network for network in DOCUMENTATION) or found == "10.20.0.0", found
        for domain in re.findall(r"[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|au|io|example)\b", prompt.text):
            assert re.search(r"(^|\.)example\.(com|net|org)$|\.example$", domain), domain
