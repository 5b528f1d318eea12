"""Text of models made visible: what would act on a screen, or hide on it, is shown as a sign and does nothing."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

Span = tuple[int, int]  # a place in a text, in characters, as in a slice

_UNUSUAL: Final = re.compile(r"[^\x20-\x7e\n\t]")
_HIDDEN: Final = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Controls, invisible signs and bidi overrides, private use, lone surrogates, line and paragraph separators."""
_SELECTORS: Final = range(0xE0100, 0xE01F0)  # invisible, and used to carry text that nobody sees


def visible(text: str) -> str:
    r"""Return text in which nothing is hidden and nothing acts; line ends and tabs stay as they are.

    `toolkit.report.show.plain_text` drops such characters because a finding is read as prose. Here it matters that
    they were there: an escape or an override in a reply is a finding of its own.
    """
    return _UNUSUAL.sub(lambda found: _sign(found[0]), text.replace("\r\n", "\n"))


@lru_cache(maxsize=4096)
def _sign(character: str) -> str:
    code = ord(character)
    hidden = unicodedata.category(character) in _HIDDEN or code in _SELECTORS
    return f"[U+{code:04X}]" if hidden else character


def shown(text: object) -> str:
    """Return anything as HTML that shows it as text and does nothing else."""
    return html.escape(visible(str(text)))


def spans_in_order(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans in the order in which they stand, each once, and none that reaches into the one before."""
    kept: list[Span] = []
    for start, end in sorted(set(spans)):
        if end > start and (not kept or start >= kept[-1][1]):
            kept.append((start, end))
    return tuple(kept)


def marked_text(text: str, spans: Iterable[Span] = ()) -> str:
    """Return a text as it was received, as HTML, with places of it marked."""
    parts, at = [], 0
    for start, end in spans_in_order(spans):
        parts += [shown(text[at:start]), f"<mark>{shown(text[start:end])}</mark>"]
        at = end
    return "".join([*parts, shown(text[at:])])
