"""Replies cut into segments, and their focus sentences: right for any text, the same every time, and never slow."""

import inspect
import math
import re
import time

import pytest
from cases import FULL, cases
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.judges.focus import (
    READABLE,
    REPEATED,
    focus_lines,
    focus_sentences,
    reply_metadata,
)
from toolkit.judges.segments import Segment, segments

CASES = cases(__file__)


def cut(text):
    return [piece.of(text) for piece in segments(text)]


def kinds(text):
    return [piece.kind for piece in segments(text)]


@pytest.mark.parametrize(
    "expected",
    CASES["sentences"],
    ids=lambda expected: expected[0],
)
def test_sentences_end_where_a_reader_ends_them(expected):
    text = " ".join(expected)
    assert cut(text) == expected
    assert set(kinds(text)) == {"sentence"}
    # Scripts without spaces end at their own stops.
    assert cut("隔離する。次に「保存。」と言う！終") == ["隔離する。", "次に「保存。」", "と言う！", "終"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lists_headings_and_tables_are_cut_at_their_lines_whatever_ends_a_line(end):
    expected = [
        ("heading", "## Plan 1.0. Draft"), ("heading", "**Containment:**"),
        ("list_item", f"1. **Isolate** the host{end}   and its backup."), ("list_item", "Tell J. Smith."),
        ("list_item", "- Owner: SOC"), ("list_item", "2) Preserve memory"), ("table_row", "| IOC | Type |"),
        ("table_row", "| 10.0.0.1 | An IP. Bad |"), ("table_row", "a | b"), ("table_row", "1 | 2"),
        ("sentence", "After the table."), ("sentence", "Quoted."), ("sentence", "Twice."),
    ]  # fmt: skip
    text = (
        "## Plan 1.0. Draft\n**Containment:**\n1. **Isolate** the host\n   and its backup. Tell J. Smith.\n"
        "   - Owner: SOC\n2) Preserve memory\n\n| IOC | Type |\n|-----|:----:|\n| 10.0.0.1 | An IP. Bad |\n\n"
        "a | b\n--- | ---\n1 | 2\nAfter the table.\n***\n> Quoted. Twice."
    ).replace("\n", end)
    assert [(piece.kind, piece.of(text)) for piece in segments(text)] == expected


@pytest.mark.parametrize(("text", "expected"), CASES["fences"])
def test_a_fence_is_closed_by_its_like_only_and_a_pipe_in_prose_makes_no_table(text, expected):
    assert kinds(text) == expected


def test_what_is_fenced_is_not_read_and_a_paragraph_stops_at_a_blank_line_or_a_hard_break():
    code = "```bash\n# not a heading. Nor two sentences.\n- no item\n\n| no | row |\n```"
    assert cut(f"Run this:\n{code}\nThen stop.") == ["Run this:", code, "Then stop."]
    text = "A host\nfell over. It\nburns\n\nAnother\n \nThird  \nFourth"
    assert cut(text) == ["A host\nfell over.", "It\nburns", "Another", "Third", "Fourth"]


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "---\n***\n___", "|---|---|", "```\n```", "**", "\u200b"])
def test_a_text_that_says_nothing_has_no_segment(text):
    assert segments(text) == ()
    assert segments(" ok ") == (Segment(1, 3, "sentence"),)
    assert cut("✅") == ["✅"]


MARKS = [
    *" \t\r\n|`.3é✅\x0b\u2028\ud800", "\r\n", "\n\n", "  ", "- ", "1. ", "> ", "# ", "|--|--|", "---", "```", "~~~",
]  # fmt: skip
WORDS = CASES["words"]
MARKUP = st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=40).map("".join)


@given(st.one_of(MARKUP, st.text(max_size=200), st.text(alphabet="ab. \n-`|#", max_size=60)))
@settings(max_examples=400)
def test_every_letter_and_digit_is_in_exactly_one_segment_and_segments_are_in_order(text):
    """Offsets are right for any text: in order, never overlapping, trimmed, and nothing with a meaning left out."""
    found = segments(text)
    at, covered = 0, set()
    for piece in found:
        assert at <= piece.start < piece.end <= len(text)
        assert piece.of(text) == piece.of(text).strip()
        covered.update(range(piece.start, piece.end))
        at = piece.end
    # What stands after an opening fence belongs to the block, and an empty block says nothing.
    assert {match.start() for match in re.finditer(r"[^\W_]", text)} <= covered
    assert segments(text) == found
    if "\r" not in text:  # line ends of Windows change no cut
        assert [piece.replace("\r", "") for piece in cut(text.replace("\n", "\r\n"))] == cut(text)


HOSTILE = CASES["hostile"]
HOSTILE += ["e.g. U.S. ", "1. ", "---\n", "." + " " * 5000]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("size", [100_000, FULL(1_000_000)])
def test_hostile_text_is_cut_in_linear_time(unit, size):
    """1 MB takes about a second at the most; twice what is measured here, for a machine that is busy."""
    text = (unit * (size // len(unit) + 1))[:size]

    def seconds():
        started = time.process_time()
        segments(text)
        return time.process_time() - started

    # The best of three: a collection of garbage in a large process can take longer than the text.
    assert min(seconds() for _ in range(3)) < max(0.5, 2.5 * size / 1_000_000)


# --- focus sentences ------------------------------------------------------------------------------------------------

REPLY = """# Containment
Isolate host FS-01 from the network. Good luck!
Keep the memory of host FS-01 before the host is rebuilt.
- Block the network address 203.0.113.77 at the host and the network edge.

```
ping the host network
```
Lunch is at noon."""


def chosen(text, count):
    return [sentence.of(text) for sentence in focus_sentences(text, count)]


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        (REPLY, 3, [line for line in REPLY.splitlines() if "host" in line and "ping" not in line]),
        # By hand: idf is ln(3/2) for log and host, ln 3 for the rest; cosines 1.15, 1.31, 1.71 over |reply|.
        ("Log host. Log disk. Host memory image.", 1, ["Host memory image."]),
        ("Log host. Log disk. Host memory image.", 2, ["Log disk.", "Host memory image."]),
        ("Isolate the host. Isolate the host! Call the SOC.", 3, ["Isolate the host.", "Call the SOC."]),
        ("One fish. Two birds. Six cats.", 2, ["One fish.", "Two birds."]),
        ("主機隔離。主機隔離主機。午餐。", 1, ["主機隔離主機。"]),
        ("", 5, []),
        ("# Only a heading", 5, []),
        ("✅", 5, ["✅"]),
        ("One sentence.", 0, []),
    ],
)
def test_the_sentences_that_say_most_of_the_reply_are_taken_in_the_order_they_stand(text, count, expected):
    assert chosen(text, count) == [one.replace(" Good luck!", "") for one in expected]


def test_headings_and_code_are_never_named_and_nothing_depends_on_the_task():
    """S, M and L prompts differ in length, and the instrument must not."""
    named = " ".join(chosen(REPLY, 99))
    assert not any(word in named for word in ("Containment", "ping"))
    for function in (focus_sentences, focus_lines):
        assert list(inspect.signature(function).parameters) == ["text", "count"]
    assert list(inspect.signature(reply_metadata).parameters) == ["text"]


def by_the_formula(text, count):
    """The sentences that the formula of `focus_sentences` names, word by word and pair by pair."""
    script = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    said = [piece.of(text) for piece in segments(text) if piece.kind in READABLE]
    words = [re.findall(f"[{script}]|[^\\W_{script}]+", one.casefold()) for one in said]
    every = [word for one in words for word in one]
    idf = {word: math.log(len(said) / sum(word in one for one in words)) for word in every}

    def centrality(one):
        norm = math.sqrt(math.fsum((one.count(word) * idf[word]) ** 2 for word in set(one)))
        shared = math.fsum(one.count(word) * every.count(word) * idf[word] ** 2 for word in set(one))
        return shared / norm if norm else 0.0

    def alike(one, other):
        shared = sum(one.count(word) * other.count(word) for word in set(one))
        squares = math.prod(sum(who.count(word) ** 2 for word in set(who)) for who in (one, other))
        return shared / math.sqrt(squares) if squares else float(one == other)

    taken = []
    for place in sorted(range(len(said)), key=lambda place: (-centrality(words[place]), place)):
        if len(taken) < count and all(alike(words[place], words[other]) < REPEATED for other in taken):
            taken.append(place)
    return [said[place] for place in sorted(taken)]


PIECES = [
    *("Isolate the host. ", "isolate host the. ", "The host, the host! ", "Host; the disk? ", "No. 7 "),
    *("- Call the SOC\n", "| a | host |\n", "# Head\n", "\n\n", "`x. y` ", "✅. ", "…! ", "It is 10.0.0.1. "),
    *("主機隔離。", "主機。隔離主機。", "Straße STRASSE straße. ", "İ e.g. U.S. The ", "Café cafe\u0301. "),
    *("3 3 3 5 5. ", "5 3. ", "5 3 3. "),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.integers(0, 6))
@settings(max_examples=150)
def test_the_focus_sentences_are_those_of_the_formula(text, count):
    """Ties, repeated words, repeated sentences and other scripts included: to the last bit the same order."""
    assert [piece.of(text) for piece in focus_sentences(text, count)] == by_the_formula(text, count)
    assert reply_metadata(text)["fsp_sentences"] == by_the_formula(text, 5)
