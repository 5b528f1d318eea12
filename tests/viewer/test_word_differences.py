"""Two texts compared word by word."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.viewer import differences as module
from toolkit.viewer.differences import differences

TEXTS = st.text(st.sampled_from("ab \n.<"), max_size=30)


@given(TEXTS, TEXTS)
def test_the_pieces_are_the_whole_texts_and_what_is_unchanged_is_the_same(left, right):
    """Nothing is lost, and the unchanged words of both are equal."""
    found = differences(left, right)
    assert "".join(piece.text for piece in found.left) == left
    assert "".join(piece.text for piece in found.right) == right
    same = ["".join(p.text for p in side if not p.changed).split() for side in (found.left, found.right)]
    assert "".join(same[0]) == "".join(same[1])
    assert 0 <= found.shared <= 1


def test_equal_texts_share_everything_and_strangers_nothing():
    """Also when there is no word at all; white space is no difference."""
    assert differences("", "").shared == 1
    assert differences("a  b", "a b").shared == 1
    assert differences("a b", "c d").shared == 0
    assert differences("a", "").shared == 0


def test_a_changed_sentence_is_one_piece():
    """Spaces between changed words belong to the change."""
    found = differences("Stop. Block the port now. End.", "Stop. End.")
    (changed,) = [piece.text for piece in found.left if piece.changed]
    assert "Block the port now" in changed
    assert not any(piece.changed for piece in found.right)


def test_two_long_replies_take_less_than_a_second():
    """Two thousand words each, half of them shared."""
    left = " ".join(f"word{n % 700} and the {n}" for n in range(700))
    right = " ".join(f"word{n % 600} or the {n + n % 2}" for n in range(700))
    started = time.perf_counter()
    assert 0 < differences(left, right).shared < 1
    assert time.perf_counter() - started < 1


WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def longest(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common subsequence by the table of every textbook."""
    above = [0] * (len(right) + 1)
    for word in left:
        row = [0]
        for place, other in enumerate(right):
            row.append(above[place] + 1 if word == other else max(above[place + 1], row[place]))
        above = row
    return above[-1]


@given(WORDS, WORDS)
def test_the_words_that_are_shared_are_as_many_as_can_be(left, right):
    """Held against the textbook; what is unchanged is in order, as the first test here says."""
    found = differences(" ".join(left), " ".join(right))
    total = len(left) + len(right)
    assert found.shared == pytest.approx(2 * longest(left, right) / total if total else 1)


def test_words_that_are_frequent_in_long_texts_count_like_others():
    """Five words in seven of each step are the same, however many steps there are; `difflib` finds 3 %, then less."""
    for steps in (10, 100, 900):
        left = " ".join(f"Step {n}: do thing {n * 7 % 300}." for n in range(steps))
        right = " ".join(f"Step {n}: do item {n * 11 % 300}." for n in range(steps))
        assert 5 / 7 <= differences(left, right).shared < 0.75


def test_signs_without_spaces_between_are_words_of_their_own():
    """One sign that differs does not make a Japanese sentence differ."""
    found = differences(
        "\u30db\u30b9\u30c8\u3092\u9694\u96e2\u3059\u308b\u3002",
        "\u30db\u30b9\u30c8\u3092\u5206\u96e2\u3059\u308b\u3002",
    )
    assert [piece.text for piece in found.left if piece.changed] == ["\u9694"]


def test_two_replies_of_sixty_thousand_characters_take_seconds_at_most():
    """The longest text of which Markdown is drawn, against another one."""
    left = " ".join(f"step {n}: do thing {n * 7 % 300}." for n in range(2200))
    right = " ".join(f"step {n}: do item {n * 11 % 300}." for n in range(2200))
    started = time.process_time()
    assert 0.7 < differences(left, right).shared < 0.8
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("largest", "unit", "shared", "changed"),
    [(49, "words", 3 / 4, "b"), (48, "lines", 2 / 3, "a b"), (24, "texts", 0, "one\n\na b\ntwo")],
)
def test_texts_too_long_for_words_are_compared_by_lines_and_then_as_wholes(
    monkeypatch, largest, unit, shared, changed
):
    """The memory that it takes is bounded, nothing of the texts is lost, and it is said what was compared."""
    monkeypatch.setattr(module, "LARGEST", largest)
    left, right = "one\n\na b\ntwo", "one\n\na c\ntwo"
    found = differences(left, right)
    assert found.unit == unit
    assert found.shared == pytest.approx(shared)
    assert "".join(piece.text for piece in found.left) == left
    assert "".join(piece.text for piece in found.right) == right
    assert "".join(piece.text for piece in found.left if piece.changed).strip() == changed
