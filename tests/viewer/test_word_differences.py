"""Two texts compared word by word."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

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
