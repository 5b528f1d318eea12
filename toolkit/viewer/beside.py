"""Two runs side by side: what differs in their facts, scores, prompts and replies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import LCSseq

from toolkit.viewer.model import OpenRun
from toolkit.viewer.parts import MISSING, box, number, scrolled, state, title
from toolkit.viewer.visible import shown
from toolkit.words import DIMENSIONS

_SIGNS: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Kana and Han stand without spaces between: each is a word, or one that differs would make a sentence differ."""
LARGEST: Final = 1_000_000_000
"""Pieces of one text by those of the other: finding the longest sequence takes a bit of memory for each pair, so this
is 125 MB and about a second; two replies of 200,000 Chinese signs would take 5 GB, and the kernel with them."""
_WORDS: Final = re.compile(rf"[{_SIGNS}]|(?:(?![{_SIGNS}])\w)+|\s+|[^\w\s]")

_UNITS: Final = {"words": _WORDS, "lines": re.compile(r"\n+|[^\n]+"), "texts": re.compile(r"(?s).+")}


@dataclass(frozen=True)
class Piece:
    """A piece of a text, and whether the other text lacks it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Differences:
    """What two texts share."""

    left: tuple[Piece, ...]
    right: tuple[Piece, ...]
    shared: float
    unit: str = "words"


def differences(left: str, right: str) -> Differences:
    """Compare two texts word by word; white space is kept and does not count as a difference."""
    unit, words = _cut(left, right)
    places = [[n for n, word in enumerate(found) if not word.isspace()] for found in words]
    compared = [[found[n] for n in at] for found, at in zip(words, places, strict=True)]
    edits = LCSseq.editops(*compared)
    lacking = (
        {places[0][edit.src_pos] for edit in edits if edit.tag == "delete"},
        {places[1][edit.dest_pos] for edit in edits if edit.tag == "insert"},
    )
    total = len(compared[0]) + len(compared[1])
    shared = (total - len(edits)) / total if total else 1.0
    return Differences(_joined(words[0], lacking[0]), _joined(words[1], lacking[1]), shared, unit)


def _cut(left: str, right: str) -> tuple[str, list[list[str]]]:
    """Return the smallest unit in which two texts can be compared, and both in pieces of it."""
    for unit, pattern in _UNITS.items():
        words = [pattern.findall(text) for text in (left, right)]
        if len(words[0]) * len(words[1]) <= LARGEST or unit == "texts":
            break
    return unit, words


def _joined(words: list[str], lacking: set[int]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for place, word in enumerate(words):
        if word.isspace():
            # Between two changed words it belongs to them, so that a changed sentence is one piece.
            before = bool(pieces) and pieces[-1].changed
            changed = before and place + 1 in lacking
        else:
            changed = place in lacking
        if pieces and pieces[-1].changed == changed:
            pieces[-1] = Piece(pieces[-1].text + word, changed)
        else:
            pieces.append(Piece(word, changed))
    return tuple(pieces)


def beside_html(left: OpenRun, right: OpenRun) -> str:
    """Return two runs side by side: facts and scores with their differences, then the texts word by word."""
    names = "".join(f"<th>{shown(title(run.facts))}</th>" for run in (left, right))
    head = f"{names}<th class='tv-number'>right less left</th>"
    table = (
        f"<table aria-label='Facts and scores'><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{_rows(left, right)}</tbody></table>"
    )
    prompts = (
        "<p class='tv-soft'>Both answer the same prompt.</p>"
        if left.prompt == right.prompt
        else box("Prompts", _texts("prompt", left.prompt, right.prompt))
    )
    return f"<h2>Two runs side by side</h2>{table}{prompts}<h3>Replies</h3>{_replies(left, right)}"


def _rows(left: OpenRun, right: OpenRun) -> str:
    said = [
        ("run", left.run_id, right.run_id, ""),
        ("status", state(left.facts), state(right.facts), ""),
        ("length bin", left.facts["length_bin"] or MISSING, right.facts["length_bin"] or MISSING, ""),
    ]
    for name, column, digits in (
        *((name.replace("_", " "), name, 2) for name in ("composite", *DIMENSIONS)),
        ("judges", "judge_count", 0),
        ("composite of people", "people_composite", 2),
        ("people who rated", "people_count", 0),
        ("tokens of the reply", "output_tokens", 0),
        ("cost, AUD", "aud_cost", 6),
        ("latency, ms", "latency_ms", 0),
    ):
        one, other = left.facts.get(column), right.facts.get(column)
        # Plus zero, because a difference too small to show would be -0.
        less = MISSING if one is None or other is None else f"{round(other - one, digits) + 0.0:+,.{digits}f}"
        said.append((name, number(one, digits), number(other, digits), less))
    return "".join(
        f"<tr><td>{name}</td><td>{shown(one)}</td><td>{shown(other)}</td><td class='tv-number'>{less}</td></tr>"
        for name, one, other, less in said
    )


def _replies(left: OpenRun, right: OpenRun) -> str:
    if left.reply is None or right.reply is None:
        which = " and ".join(name for name, run in (("left", left), ("right", right)) if run.reply is None)
        return f"<p class='tv-bad'>No reply on the {which}: there is nothing to compare.</p>"
    return _texts("reply", left.reply, right.reply)


def _texts(name: str, left: str, right: str) -> str:
    found = differences(left, right)
    why = "" if found.unit == "words" else " (too long to be compared word by word)"
    return (
        f"<p class='tv-soft tv-differs'>{found.shared:.0%} of the {found.unit} are shared{why}; <del>only left</del>, "
        "<ins>only right</ins>.</p>"
        f"<div class='tv-two'>{scrolled(f'Left {name}', _pieces(found.left, 'del'), kind='tv-differs ')}"
        f"{scrolled(f'Right {name}', _pieces(found.right, 'ins'), kind='tv-differs ')}</div>"
    )


def _pieces(pieces: Iterable[Piece], tag: str) -> str:
    return "".join(
        f"<{tag}>{shown(piece.text)}</{tag}>" if piece.changed else shown(piece.text) for piece in pieces
    )
