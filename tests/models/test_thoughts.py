"""Thoughts and what was written, case by case: each comparison in `toolkit.models.thoughts` decides one.

Flipped one at a time, every comparison of that file turned one of these red.
"""

import time

import pytest
from cases import cases

from toolkit.models.thoughts import split_thoughts, written_in

CASES = cases(__file__)


@pytest.mark.parametrize(("text", "reply"), CASES["thoughts"])
def test_what_a_reply_is_without_its_thoughts(text, reply):
    """Closed or not; marks further on and other tags are text, and nothing is lost."""
    rest, thoughts = split_thoughts(text)
    assert rest == (text if reply is None else reply)
    assert bool(thoughts) == (rest != text)
    assert len(rest) + len(thoughts) >= len(text.replace("\n", ""))


@pytest.mark.parametrize(
    "piece", ["<think>", "<think></think>", "</think>\n", "`</think>`", "<think ", " ", "\n", "<|channel|>a"]
)
def test_a_megabyte_of_marks_is_split_in_time(piece):
    """Each mark is looked for once, not once for each of the others."""
    for start in ("", "<think>"):
        text = start + piece * (1_000_000 // len(piece))
        started = time.process_time()
        split_thoughts(text)
        assert time.process_time() - started < 3


@pytest.mark.parametrize(("raw", "written"), CASES["written"])
def test_what_was_written_is_told_from_what_is_said_of_it(raw, written):
    """Texts, thoughts once, and how long the unreadable is; labels and the results of tools are none of them."""
    assert list(written_in(raw)) == written
