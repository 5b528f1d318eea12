"""The longest sequence of words that two texts share, exactly, in a second for the longest replies.

`difflib` leaves out frequent words in long texts and then pairs the first rare ones it meets: of two plans of 100
numbered steps with seven words in ten in common it finds three in a hundred. Here each row of the table of prefix
lengths is one long integer, a bit a word (Hyyrö 2004, "Bit-parallel LCS-length computation revisited"); beyond
``LARGEST`` bits the left text is halved where the shared words divide best (Hirschberg 1975), so that memory stays
bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LARGEST: Final = 400_000_000
"""Bits of one table, 50 MB: two replies of 20,000 words."""


def common_words(left: Sequence[str], right: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return where the words of a longest common subsequence stand in either text, as ascending places.

    Parameters
    ----------
    left, right
        Words in the order in which they stand.

    Examples
    --------
    >>> common_words("isolate the host now".split(), "isolate the server now".split())
    ([0, 1, 3], [0, 1, 3])
    """
    start, end = 0, 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    while end < shortest - start and left[-1 - end] == right[-1 - end]:
        end += 1
    first = list(range(start)), list(range(start))
    last = tuple(list(range(len(text) - end, len(text))) for text in (left, right))
    inner = _between(left[start : len(left) - end], right[start : len(right) - end])
    middle = tuple([start + place for place in places] for places in inner)
    return first[0] + middle[0] + last[0], first[1] + middle[1] + last[1]


def _between(left: Sequence[str], right: Sequence[str]) -> tuple[list[int], list[int]]:
    if not left or not right:
        return [], []
    if len(left) * len(right) <= LARGEST or len(left) == 1:
        return _walked(_rows(left, right), len(right))
    middle = len(left) // 2
    split = _best_split(left[:middle], left[middle:], right)
    above, below = common_words(left[:middle], right[:split]), common_words(left[middle:], right[split:])
    return above[0] + [middle + n for n in below[0]], above[1] + [split + n for n in below[1]]


def _rows(left: Sequence[str], right: Sequence[str], *, only_last: bool = False) -> list[int]:
    """Return the table: bit j of row i is 0 where one word of the right text more makes the sequence longer."""
    places: dict[str, int] = {}
    for place, word in enumerate(right):
        places[word] = places.get(word, 0) | (1 << place)
    full = (1 << len(right)) - 1
    row, rows = full, list[int]()
    for word in left:
        found = row & places.get(word, 0)
        row = ((row + found) | (row - found)) & full
        if not only_last:
            rows.append(row)
    return [row] if only_last else rows


def _walked(rows: list[int], width: int) -> tuple[list[int], list[int]]:
    """Return the shared places by walking the table from its end to its beginning."""
    row, place = len(rows) - 1, width - 1
    lefts, rights = list[int](), list[int]()
    # As text, because a shift copies the whole integer at each step; the last character is the first word.
    bits = f"{rows[row]:0{width}b}"
    while row >= 0 and place >= 0:
        if bits[width - 1 - place] == "1":
            place -= 1
            continue
        above = f"{rows[row - 1]:0{width}b}" if row else "1" * width
        if above[width - 1 - place] == "1":
            lefts.append(row)
            rights.append(place)
            place -= 1
        bits, row = above, row - 1
    return lefts[::-1], rights[::-1]


def _best_split(above: Sequence[str], below: Sequence[str], right: Sequence[str]) -> int:
    """Return after how many words the right text divides so that both halves together share most."""
    forwards = _lengths(above, right)
    backwards = _lengths(below[::-1], right[::-1])[::-1]
    sums = [one + other for one, other in zip(forwards, backwards, strict=True)]
    return sums.index(max(sums))


def _lengths(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """Return the length of the longest common subsequence with every prefix of the right text."""
    (row,) = _rows(left, right, only_last=True)
    lengths = [0]
    for bit in f"{row:0{len(right)}b}"[::-1] if right else "":
        lengths.append(lengths[-1] + (bit == "0"))
    return lengths
