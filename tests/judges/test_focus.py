"""Focus sentences: the same for the same reply, the same number for every length, never chosen by the task."""

from __future__ import annotations

import inspect
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.judges.focus import (
    LINE_LENGTH,
    NO_SENTENCES,
    READABLE,
    SAME,
    focus_lines,
    focus_sentences,
    reply_metadata,
)
from toolkit.judges.segments import segments

REPLY = """# Containment
Isolate host FS-01 from the network. Good luck!
Keep the memory of host FS-01 before the host is rebuilt.
- Block the network address 203.0.113.77 at the host and the network edge.

```
ping the host network
```
Lunch is at noon."""


def chosen(text: str, count: int) -> list[str]:
    return [sentence.of(text) for sentence in focus_sentences(text, count)]


def test_the_sentences_that_say_most_of_the_reply_are_taken_in_the_order_they_stand():
    assert chosen(REPLY, 3) == [
        "Isolate host FS-01 from the network.",
        "Keep the memory of host FS-01 before the host is rebuilt.",
        "- Block the network address 203.0.113.77 at the host and the network edge.",
    ]


def test_centrality_is_the_cosine_with_the_whole_reply():
    """Worked by hand: idf is ln(3/2) for log and host, ln 3 for the rest; cosines 1.15, 1.31, 1.71 over |reply|."""
    text = "Log host. Log disk. Host memory image."
    assert chosen(text, 1) == ["Host memory image."]
    assert chosen(text, 2) == ["Log disk.", "Host memory image."]


def by_the_formula(text: str, count: int) -> list[str]:
    """Return the sentences that the docstring's formula names, word by word and pair by pair."""
    pattern = (
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|"
        "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
    )
    said = [piece.of(text) for piece in segments(text) if piece.kind in READABLE]
    words = [re.findall(pattern, one.casefold()) for one in said]
    every = [word for one in words for word in one]
    idf = {word: math.log(len(said) / sum(word in one for one in words)) for word in every}

    def centrality(one: list[str]) -> float:
        norm = math.sqrt(math.fsum((one.count(word) * idf[word]) ** 2 for word in set(one)))
        shared = math.fsum(one.count(word) * every.count(word) * idf[word] ** 2 for word in set(one))
        return shared / norm if norm else 0.0

    def alike(one: list[str], other: list[str]) -> float:
        shared = sum(one.count(word) * other.count(word) for word in set(one))
        squares = math.prod(sum(who.count(word) ** 2 for word in set(who)) for who in (one, other))
        return shared / math.sqrt(squares) if squares else float(one == other)

    taken: list[int] = []
    for place in sorted(range(len(said)), key=lambda place: (-centrality(words[place]), place)):
        if len(taken) < count and all(alike(words[place], words[other]) < SAME for other in taken):
            taken.append(place)
    return [said[place] for place in sorted(taken)]


PIECES = st.sampled_from(
    (
        *("Isolate the host. ", "isolate host the. ", "The host, the host! ", "Host; the disk? ", "No. 7 "),
        *(
            "- Call the SOC\n",
            "| a | host |\n",
            "# Head\n",
            "\n\n",
            "`x. y` ",
            "✅. ",
            "…! ",
            "It is 10.0.0.1. ",
        ),
        *(
            "主機隔離。",
            "主機。隔離主機。",
            "Straße STRASSE straße. ",
            "İ e.g. U.S. The ",
            "Café cafe\u0301. ",
        ),
        *("3 3 3 5 5. ", "5 3. ", "5 3 3. "),
    )
)


@given(st.lists(PIECES, max_size=14).map("".join), st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_the_fast_way_names_what_the_formula_names(text, count):
    """Ties, repeated words, repeated sentences and other scripts included: to the last bit the same order."""
    assert chosen(text, count) == by_the_formula(text, count)
    assert reply_metadata(text, count)["fsp_sentences"] == chosen(text, count)


def test_headings_and_code_are_never_named():
    named = " ".join(chosen(REPLY, 99))
    assert "Containment" not in named
    assert "ping" not in named


def test_what_is_named_depends_on_the_reply_alone():
    """No task is taken: S, M and L prompts differ in length, and the instrument must not."""
    for function in (focus_sentences, focus_lines, reply_metadata):
        assert list(inspect.signature(function).parameters) == ["text", "count"]


def test_a_sentence_that_is_said_twice_is_named_once():
    assert chosen("Isolate the host. Isolate the host! Call the SOC.", 3) == [
        "Isolate the host.",
        "Call the SOC.",
    ]


def test_equally_central_sentences_are_taken_by_their_place():
    assert chosen("One fish. Two birds. Six cats.", 2) == ["One fish.", "Two birds."]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_empty_reply_and_one_sentence_are_no_special_case(count):
    assert chosen("", count) == []
    assert chosen("# Only a heading", count) == []
    assert chosen("One sentence.", count) == ["One sentence."][:count]
    assert chosen("✅", count) == ["✅"][:count]


def test_scripts_without_spaces_are_compared_by_character():
    assert chosen("主機隔離。主機隔離主機。午餐。", 1) == ["主機隔離主機。"]


@given(st.text(alphabet="ab c.\n-", max_size=120), st.integers(0, 6))
@settings(max_examples=200, deadline=None)
def test_there_are_never_more_than_asked_for_and_always_the_same(text, count):
    found = focus_sentences(text, count)
    assert len(found) <= count
    assert list(found) == sorted(found, key=lambda sentence: sentence.start)
    assert found == focus_sentences(text, count)


def test_lines_for_the_prompt_are_one_a_sentence_and_never_endless():
    text = "A sentence over\r\ntwo lines.\n\n" + "x" * 10_000
    lines = focus_lines(text, 5).split("\n")
    assert lines[0] == "A sentence over two lines."
    assert len(lines) == 2
    assert len(lines[1]) == LINE_LENGTH
    assert lines[1].endswith("x…")


def test_a_reply_without_sentences_says_so_in_the_prompt():
    assert focus_lines("", 5) == focus_lines("# Title", 5) == NO_SENTENCES


def test_what_is_kept_with_a_reply_has_the_names_of_the_seed():
    """Seed 002, section 3.1: OutputBlob.metadata."""
    kept = reply_metadata(REPLY, 2)
    assert kept == {
        "content_length": len(REPLY),
        "word_count": len(REPLY.split()),
        "sentence_count": 5,
        "fsp_sentences": chosen(REPLY, 2),
    }
    assert len(reply_metadata(REPLY)["fsp_sentences"]) == 5


def test_an_empty_reply_has_counts_of_zero():
    assert reply_metadata("") == {
        "content_length": 0,
        "word_count": 0,
        "sentence_count": 0,
        "fsp_sentences": [],
    }
