"""The paragraphs of a reply in another order: what belongs together stays together, and nothing is lost."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DRAWS: Final = 64
"""Orders that are drawn before a reply is said to have no other: half of them change two paragraphs that differ."""
_ITEM: Final = re.compile(r"[ \t]{0,3}(?:[-*+•]|[0-9]{1,3}[.)])[ \t]")
_FENCE: Final = re.compile(r"[ \t]{0,3}(```|~~~)")


@dataclass(frozen=True)
class _Part:
    """A heading or lead-in, a list item with its number, or any other paragraph; ``gap`` is what stands before it."""

    kind: str
    text: str
    gap: str


def shuffled_paragraphs(reply: str, seed: int | str) -> str | None:
    r"""Return a reply with its paragraphs, and the items of each list, in another order.

    A heading, or a line that ends in a colon, stays above what it introduces; a list item keeps its number and its
    further lines; fenced code is never cut.

    Examples
    --------
    >>> shuffled_paragraphs("1. Isolate.\n2. Report.", 1)
    '2. Report.\n1. Isolate.'
    >>> shuffled_paragraphs("One paragraph.", 1) is None
    True
    """
    sections = _sections(_parts(reply))
    if not _movable(sections):
        return None
    dice = random.Random(f"shuffle {seed}")
    before = _lines(reply)
    moved = None
    for _ in range(_DRAWS):
        order = dice.sample(sections, len(sections))
        text = "\n\n".join(_written(section, dice) for section in order)
        if _lines(text) != before:
            moved = text
            if order != sections or len(sections) == 1:
                break
    return moved


def paragraphs(reply: str) -> tuple[str, ...]:
    r"""Return the sections of a reply that are moved as one, in order.

    Examples
    --------
    >>> paragraphs("Steps:\n\n1. Isolate.\n2. Report.\n\nThen close it.")
    ('Steps:\n\n1. Isolate.\n2. Report.', 'Then close it.')
    """
    return tuple(_joined(section) for section in _sections(_parts(reply)))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _parts(reply: str) -> list[_Part]:
    """Cut a reply into its smallest pieces that make sense alone."""
    parts: list[_Part] = []
    lines: list[str] = []
    kind, gap, fence, blank = "text", "", "", False

    def close() -> None:
        if lines:
            text = "\n".join(lines)
            head = kind == "text" and (lines[0].lstrip().startswith("#") or lines[-1].rstrip().endswith(":"))
            parts.append(_Part("head" if head else kind, text, gap))
            lines.clear()

    for line in reply.split("\n"):
        inside = bool(fence)
        if (mark := _FENCE.match(line)) and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        if not line.strip() and not inside:
            blank = True
            continue
        item = not inside and bool(_ITEM.match(line))
        indented = line[:2] == "  " or line[:1] == "\t"
        after_head = bool(lines) and kind == "text" and lines[-1].lstrip().startswith("#")
        goes_on = (
            lines and not item and (inside or not (blank or after_head) or (kind == "item" and indented))
        )
        if goes_on and blank and not inside:
            lines.append("")
        if not goes_on:
            close()
            gap, kind = "\n\n" if blank else "\n", "item" if item else "text"
        lines.append(line)
        blank = False
    close()
    return parts


def _sections(parts: list[_Part]) -> list[tuple[_Part, ...]]:
    """Put headings and lead-ins together with what they introduce, and the items of a list together."""
    sections: list[list[_Part]] = []
    for part in parts:
        last = sections[-1] if sections else []
        introduced = bool(last) and last[-1].kind == "head"
        listed = bool(last) and part.kind == "item" and last[-1].kind == "item"
        if introduced or listed:
            last.append(part)
        else:
            sections.append([part])
    return [tuple(section) for section in sections]


def _movable(sections: Sequence[tuple[_Part, ...]]) -> bool:
    """Return whether there are two different sections, or a list with two different items."""
    items = [{part.text for part in section if part.kind == "item"} for section in sections]
    return len({_joined(section) for section in sections}) > 1 or max(map(len, items), default=0) > 1


def _written(section: tuple[_Part, ...], dice: random.Random) -> str:
    items = [part for part in section if part.kind == "item"]
    order = iter(dice.sample(items, len(items)))
    moved = [next(order) if part.kind == "item" else part for part in section]
    # Gaps belong to the places, so that a tight list stays tight.
    return _joined(
        tuple(_Part(part.kind, part.text, place.gap) for part, place in zip(moved, section, strict=True))
    )


def _joined(section: tuple[_Part, ...]) -> str:
    return section[0].text + "".join(part.gap + part.text for part in section[1:])
